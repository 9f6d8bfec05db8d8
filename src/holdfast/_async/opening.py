"""Calls that open something: they can be awaited, and used by ``async with`` without ``await``."""

import functools
from collections.abc import Callable, Coroutine, Generator
from typing import TYPE_CHECKING, Any, AsyncContextManager, Never, ParamSpec, TypeVar  # noqa: UP035

P = ParamSpec("P")
Opened = TypeVar("Opened", bound=AsyncContextManager[Any])


class AsyncOnly:
    """Says what to write in place of ``with``. Without an `__exit__`, it is not for ``with``."""

    @property
    def __enter__(self) -> Never:
        """Raise the error: an AttributeError, so that `hasattr` is False."""
        name = getattr(self, "__qualname__", type(self).__name__)
        raise AttributeError(f"{name} is asynchronous: use `async with`, not `with`")


class AsyncOpening(AsyncOnly, Coroutine[Any, Any, Opened]):
    """A call that returns something to close, such as a client or an open file.

    ``await`` it, or use it by ``async with``, which closes what it returns.

    Example:
        >>> from holdfast import AsyncClient
        >>> async with AsyncClient.init(path="store") as client:
        ...     print(await client.retrieve((await client.store([1, 2])).cid))
        [1, 2]
    """

    def __init__(self, call: Coroutine[Any, Any, Opened]) -> None:
        self._call = call
        self.__qualname__: str = getattr(call, "__qualname__", "it")  # AsyncClient.init
        self._opened: Opened | None = None

    def __await__(self) -> Generator[Any, Any, Opened]:
        return self._call.__await__()

    async def __aenter__(self) -> Opened:
        self._opened = await self._call
        entered: Opened = await self._opened.__aenter__()
        return entered

    async def __aexit__(self, *error: Any) -> None:  # noqa: PYI036 - they are passed on
        if self._opened is not None:
            await self._opened.__aexit__(*error)

    if not TYPE_CHECKING:  # type checkers report the missing `await` only without it

        def __getattr__(self, name: str) -> Any:
            """Say what to do, to who forgot ``await``."""
            raise AttributeError(
                f"a call has no {name!r}: use what `await` returns, as in "
                "`client = await AsyncClient.init(…)`, or use `async with`"
            )

    # What asyncio needs to make a task of it.

    def send(self, value: Any, /) -> Any:
        """Continue the call."""
        return self._call.send(value)

    def throw(self, *error: Any) -> Any:
        """Raise an error in the call."""
        return self._call.throw(*error)

    def close(self) -> None:
        """End the call."""
        self._call.close()


def opens(function: Callable[P, Coroutine[Any, Any, Opened]]) -> Callable[P, AsyncOpening[Opened]]:
    """Decorate an async function so that ``async with`` takes its calls without ``await``."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> AsyncOpening[Opened]:
        return AsyncOpening(function(*args, **kwargs))

    return call


class AsyncCloses(AsyncOnly):
    """Closes by `close` as well as by `aclose`."""

    async def aclose(self) -> None:
        """Close it."""

    async def close(self) -> None:
        """Do the same as `aclose`."""
        await self.aclose()

    # If a caller forgets `await`, Python's warning has this name, and not that of a private class.
    close.__qualname__ = "close"

# WARNING: this file is generated from src/holdfast/_async/reads/wrapping.py
# by scripts/generate_sync.py. Change the original instead.
"""Readers over other readers."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from holdfast._sync.reads.reader import Reader

Method = TypeVar("Method", bound=Callable[..., Any])


def forwarded(method: Method) -> Method:
    """Return a method that calls the method of this name of `inner`."""

    @wraps(method, updated=())
    def forward(self: Any, *args: Any, **options: Any) -> Any:
        return self.forward(method.__name__, *args, **options)

    return cast("Method", forward)


class WrappingReader(Reader):
    """A reader that forwards everything to `inner`. A subclass overrides what it changes.

    To change content, override `read`, `open`, `stat` and `pages`. Copies and exports use the
    blocks, which stay as they are.

    Attributes:
        inner: The reader that does the work.
    """

    def __init__(self, inner: Reader) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, name: str, /, *args: Any, **options: Any) -> Any:
        """Call the method `name` of the inner reader. Every call that is forwarded comes here."""
        return getattr(self.inner, name)(*args, **options)

    @property
    def is_remote(self) -> bool:  # type: ignore[override]  # the inner reader has it
        """Whether a request costs more than some work on disk."""
        return self.inner.is_remote

    @property
    def form(self) -> str:
        """What the inner reader makes of the content. One that changes it appends its own text."""
        return self.inner.form

    @property
    def host(self) -> str:  # type: ignore[override]
        """The host of the peer."""
        return self.inner.host

    blocks = forwarded(Reader.blocks)
    archive = forwarded(Reader.archive)
    body = forwarded(Reader.body)
    read = forwarded(Reader.read)
    open = forwarded(Reader.open)
    stat = forwarded(Reader.stat)
    pages = forwarded(Reader.pages)

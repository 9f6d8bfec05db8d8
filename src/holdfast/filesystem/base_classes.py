"""The classes of fsspec that ours inherit from.

fsspec has no types. So type checkers see the classes below, which have any attribute.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:

    class Untyped:
        """A class about whose attributes type checkers know nothing."""

        def __init__(self, *args: Any, **options: Any) -> None: ...
        def __getattr__(self, name: str) -> Any: ...

    class AsyncFileSystem(Untyped):
        """A file system for asyncio."""

        def open(self, path: Any, mode: str, *args: Any, **options: Any) -> Any:
            """Open a file."""

        def to_dict(self, **options: Any) -> Any:
            """Return the class and its options."""

        def walk(self, path: Any, *args: Any, **options: Any) -> Any:
            """Walk through the folders below a path."""

        def _walk(self, path: Any, *args: Any, **options: Any) -> Any: ...

    class AbstractBufferedFile(Untyped):
        """A file that is open for reading or writing."""

        def close(self) -> None:
            """Close the file."""

    class AbstractAsyncStreamedFile(Untyped):
        """A file that is open, for asyncio."""

    class Transaction(Untyped):
        """Several changes that are made together."""

        def start(self) -> None:
            """Open the transaction."""

    FileSystemType = type
else:
    from fsspec.asyn import AbstractAsyncStreamedFile, AsyncFileSystem  # noqa: F401 - for others
    from fsspec.spec import AbstractBufferedFile  # noqa: F401
    from fsspec.transaction import Transaction  # noqa: F401

    FileSystemType = type(AsyncFileSystem)

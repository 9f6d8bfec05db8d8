"""Providers over other providers."""

import copy
from collections.abc import Iterable
from typing import Any, Final, Self

from holdfast._async.providers.base import AsyncBaseProvider, Lifetime, Operation
from holdfast._async.reads.reader import AsyncReader, forwarded
from holdfast.calls import Call
from holdfast.config import ClientConfig
from holdfast.sources.archive_sources import ArchiveSource
from holdfast.sources.folder_source import FolderSource
from holdfast.sources.sources import Source


class AsyncWrappingProvider(AsyncBaseProvider):
    """A provider that forwards everything to `inner`. A subclass overrides what it changes.

    To change content, override `add` and `reader`: everything that writes goes through the one, and
    everything that reads through the other. To change the lists of pins, override both `find_pins`
    and `list_pins`. Whoever makes a wrapper closes the wrapper, and that closes `inner`.

    Attributes:
        inner: The provider that does the work.

    Example:
        >>> from holdfast import AsyncClient, AsyncLocalProvider
        >>> class AsyncCounting(AsyncWrappingProvider):
        ...     added = 0
        ...     async def add(self, content, info, call, progress):
        ...         self.added += 1
        ...         return await super().add(content, info, call, progress)
        >>> provider = AsyncCounting(AsyncLocalProvider(ClientConfig(path="store")))
        >>> record = await AsyncClient(provider).store([1, 2, 3])
        >>> provider.added
        1
    """

    takes: tuple[type, ...] = (Source, FolderSource, ArchiveSource)

    def __init__(self, inner: AsyncBaseProvider) -> None:
        if not isinstance(inner, AsyncBaseProvider):
            raise TypeError(f"a wrapper needs an AsyncBaseProvider, not {type(inner).__name__}")
        self.inner = inner
        self._lifetime = Lifetime()

    @property
    def config(self) -> ClientConfig:
        """The configuration of the inner provider."""
        return self.inner.config

    @property
    def reader(self) -> AsyncReader:
        """The reader of the inner provider. Override it to change content that is read."""
        return self.inner.reader

    @property
    def keeps_layout(self) -> bool:
        """Whether the inner provider stores files in blocks that we cut."""
        return self.inner.keeps_layout

    def supports(self, operation: str) -> bool:
        """Return whether the inner provider has the operation, and this one its content."""
        # Whoever has such a link uploads plain content to the inner provider.
        is_unsafe = operation == "signed_upload_url" and self._changes_content
        return not is_unsafe and super().supports(operation) and self.inner.supports(operation)

    @property
    def _changes_content(self) -> bool:
        return len(self.reader.finishes) > len(self.inner.reader.finishes)

    def forward(self, name: str, /, *args: Any, **options: Any) -> Any:
        """Call the method `name` of the inner provider. Every call that is forwarded comes here."""
        return getattr(self.inner, name)(*args, **options)

    async def unpin(self, cid: str, call: Call, /) -> None:
        """Unpin `cid` at the inner provider."""
        await self.forward("unpin", cid, call)

    async def check_credentials(self, call: Call, /) -> None:
        """Return if the inner provider can be used with its credentials."""
        await self.forward("check_credentials", call)

    @Operation("cannot import archives; upload the files", takes=ArchiveSource)
    async def import_car(self, pieces: Iterable[bytes], *, blocks_only: bool = False) -> list[str]:
        """Import an archive at the inner provider, if this one takes archives."""
        options = {"blocks_only": True} if blocks_only else {}
        return [*await self.require("import_car").forward("import_car", pieces, **options)]

    async def signed_upload_url(self, **options: Any) -> str:
        """Return a link for uploads, unless this wrapper changes content."""
        return str(await self.require("signed_upload_url").forward("signed_upload_url", **options))

    @property
    def stored(self) -> AsyncBaseProvider:
        """The provider of the content as it is stored.

        A wrapper that changes content is left out. Another one, such as one that logs, stays.
        """
        stored = self.inner.stored
        return stored if self._changes_content else self._over(stored)

    def with_config(self, config: ClientConfig) -> Self:
        """Return a copy over a copy of the inner provider with `config`, which shares all of it."""
        return self._over(self.inner.with_config(config))

    def _over(self, inner: AsyncBaseProvider) -> Self:
        """Return a copy of the wrapper over another form of its inner provider."""
        other = copy.copy(self)
        other.inner = inner
        other._lifetime = Lifetime()  # noqa: SLF001 - our own; closing it closes `inner` alone
        return other

    async def release(self) -> None:
        """Close the inner provider."""
        await self.inner.aclose()


FORWARDED: Final = (
    *("add", "call", "default_name", "check_open", "url", "where", "place", "is_on_network"),
    *("list_pins", "find_pins", "import_whole", "share", "readers", "usage"),
    *("update_pin", "pin", "check_pin", "pin_from", "addresses", "own_block", "signed_url"),
    *("gateway_block", "export_car", "delete_at", "check_health", "foreign_pins"),
)
for name in FORWARDED:  # their types are those of the base class
    setattr(AsyncWrappingProvider, name, forwarded(getattr(AsyncBaseProvider, name)))

"""The capabilities of providers that concern links: plain ones, and signed ones."""

from abc import abstractmethod
from typing import Protocol, runtime_checkable


@runtime_checkable
class Linkable(Protocol):
    """Returns links to its content."""

    @abstractmethod
    def url(self, cid: str) -> str:
        """Return a link to `cid` that can be shared."""


@runtime_checkable
class Signing(Protocol):
    """Signs links that work for a while, without the provider's credential."""

    @abstractmethod
    def signed_url(self, cid: str, *, expires: int) -> str:
        """Return a link to the private content at `cid`, which works for `expires` seconds."""

    @abstractmethod
    def signed_upload_url(
        self, *, expires: int, max_bytes: int | None, types: tuple[str, ...]
    ) -> str:
        """Return a link for uploads, which works for `expires` seconds; no types are all types."""


@runtime_checkable
class AsyncSigning(Protocol):
    """`Signing`, awaited."""

    @abstractmethod
    async def signed_url(self, cid: str, *, expires: int) -> str:
        """Return a link to the private content at `cid`, which works for `expires` seconds."""

    @abstractmethod
    async def signed_upload_url(
        self, *, expires: int, max_bytes: int | None, types: tuple[str, ...]
    ) -> str:
        """Return a link for uploads, which works for `expires` seconds; no types are all types."""

"""The methods of a client for links: plain ones, and signed ones that work for a while."""

from collections.abc import Iterable
from datetime import timedelta

from holdfast import arguments
from holdfast._async.client.base import AsyncClientBase
from holdfast.content.reference import Reference


class AsyncLinkCalls(AsyncClientBase):
    """Signs links at providers that can."""

    async def signed_url(self, cid: str, *, expires: float | timedelta) -> str:
        """Return a link to private content that anybody can use until it expires.

        The link is a credential: pass it on over secure channels only.

        Args:
            cid: The CID, or a path under it.
            expires: For how long it works: seconds, or a timedelta.

        Example:
            >>> record = await client.upload(b"only for us", name="report.txt")
            >>> link = await client.signed_url(record.cid, expires=3600)
            >>> link.startswith("http")
            True
        """
        self._check_open()
        seconds = arguments.link_seconds(expires)
        provider = self._provider.require("signed_url")
        return await provider.signed_url(Reference.parse(cid), expires=seconds)

    async def signed_upload_url(
        self,
        *,
        expires: float | timedelta,
        max_bytes: int | None = None,
        types: Iterable[str] | None = None,
    ) -> str:
        """Return a link to which others can upload without the provider's credential.

        Give it to a browser, for example, which sends the file in a form. Uploads go to the
        network and the group of this client.

        Args:
            expires: For how long it works: seconds, or a timedelta.
            max_bytes: The largest file that it takes.
            types: The media types that it takes, such as ``["image/*"]``; None for any.

        Example:
            >>> link = await client.signed_upload_url(expires=60, types=["image/*"])
            >>> link.startswith("http")
            True
        """
        self._check_open()
        seconds = arguments.link_seconds(expires)
        wanted = arguments.media_types(types)
        arguments.check_max_bytes(max_bytes)
        provider = self._provider.require("signed_upload_url")
        return await provider.signed_upload_url(expires=seconds, max_bytes=max_bytes, types=wanted)

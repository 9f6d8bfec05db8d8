"""The provider of the spec: writes through a pinning HTTP API, reads through IPFS gateways."""

import logging
import os
from typing import TYPE_CHECKING, Any, Self

from holdfast._async.reader import AsyncReader
from holdfast._async.runtime import run_blocking
from holdfast._async.session import AsyncSession
from holdfast.blob import Blob
from holdfast.config import ClientConfig
from holdfast.content.reference import Reference
from holdfast.errors import ConfigError, VerificationError
from holdfast.files.cids import compute_cid, verify
from holdfast.files.sinks import SpoolSink, TargetSink, TextSink
from holdfast.files.sources import Source
from holdfast.protocol import json_text
from holdfast.protocol.gateway import DEFAULT_GATEWAYS, Gateway
from holdfast.protocol.multipart import FileForm
from holdfast.protocol.pinning import PinningAPI
from holdfast.provider import Progress

if TYPE_CHECKING:
    from holdfast._async.transport import AsyncTransport

logger = logging.getLogger("holdfast")

CONNECTION_FIELDS = ("provider", "proxy", "trust_env", "ssl_context")


class AsyncPinProvider:
    """Pins by HTTP with a token, and reads through gateways that never see it.

    Example:
        >>> from holdfast import ClientConfig
        >>> config = ClientConfig(provider="pinning", provider_token="eyJhbGciOi")
        >>> AsyncPinProvider(config).url("bafkqaaa")
        'https://gateway.pinata.cloud/ipfs/bafkqaaa'
    """

    def __init__(self, config: ClientConfig, *, transport: "AsyncTransport | None" = None) -> None:
        if config.provider_token is None:
            raise ConfigError(
                f"provider_token is missing: provider {config.provider!r} needs the service's JWT"
            )
        self.config = config
        self._transport = transport or _open_transport(config)
        self._session = AsyncSession(self._transport, config.timeouts)
        self._api = PinningAPI(config.pin_api_url, config.provider_token, config.cid_version)
        first, *others = config.gateway_url or DEFAULT_GATEWAYS
        self._gateways = (Gateway(first, config.gateway_token), *map(Gateway, others))
        self._reader = AsyncReader(self._session, self._gateways, verify=config.verify)

    @classmethod
    def from_config(cls, config: ClientConfig) -> Self:
        """The provider that `config` describes."""
        return cls(config)

    def with_config(self, config: ClientConfig) -> Self:
        """A copy with `config` over the same connections."""
        for name in CONNECTION_FIELDS:
            if getattr(config, name) != getattr(self.config, name):
                raise ConfigError(
                    f"{name} belongs to the connections, which are shared: make a new client for it"
                )
        return type(self)(config, transport=self._transport)

    async def put_json(self, text: str, *, name: str) -> str:
        """Pin the JSON `text` with `name` as its metadata; return its CID."""
        request = self._api.pin_json(text, name=name)
        reply = await self._session.fetch(request, deadline=self._session.deadline())
        cid = self._api.read_cid(reply)
        await run_blocking(_compare, cid, text)
        return cid

    async def get_json(self, cid: str) -> Any:
        """The JSON value at `cid`, read through a gateway."""
        sink = TextSink(self.config.max_json_bytes)
        await self._reader.read(Reference.parse(cid), sink, deadline=self._session.deadline())
        return json_text.from_text(sink.data)

    async def put_file(self, source: Source, *, name: str, progress: Progress | None = None) -> str:
        """Pin the bytes of `source` as a file called `name`; return its CID."""
        form = FileForm(source, filename=name, fields=self._api.file_fields())

        told = -1

        def on_sent(sent: int) -> None:
            nonlocal told
            done = form.file_bytes(sent)
            if progress is not None and done != told:
                told = done
                progress(done, source.size)

        reply = await self._session.fetch(self._api.pin_file(form, on_sent=on_sent))
        return self._api.read_cid(reply)

    async def get_file(
        self,
        cid: str,
        *,
        to: str | os.PathLike[str] | None = None,
        progress: Progress | None = None,
    ) -> Blob:
        """The file at `cid`, through a gateway; with `to`, written there whole or not at all."""
        reference = Reference.parse(cid)
        sink = SpoolSink() if to is None else TargetSink(to)
        try:
            await run_blocking(sink.open)
            media_type = await self._reader.read(reference, sink, progress=progress)
            name = reference.path[-1] if reference.path else None
            await run_blocking(sink.commit)
            return sink.blob(type=media_type, name=name)
        finally:
            await run_blocking(sink.discard)

    async def delete(self, cid: str) -> None:
        """Unpin `cid`."""
        request = self._api.unpin(Reference.parse_cid(cid))
        self._api.read_done(await self._session.fetch(request, deadline=self._session.deadline()))

    async def test_authentication(self) -> None:
        """Return if the service takes the token."""
        request = self._api.test_authentication()
        self._api.read_authentication(
            await self._session.fetch(request, deadline=self._session.deadline())
        )

    def url(self, cid: str) -> str:
        """The address of `cid` at the first gateway."""
        return self._gateways[0].url(Reference.parse(cid))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()


def _open_transport(config: ClientConfig) -> "AsyncTransport":
    # Here, so that the provider can be imported where its HTTP library is not installed.
    from holdfast._async.transport import AsyncTransport  # noqa: PLC0415

    return AsyncTransport(config)


def _compare(cid: str, text: str) -> None:
    """Log where no known layout of the text that we sent has the service's CID.

    That is no error: the service may write JSON anew. What it stored is proven when it is read.
    """
    try:
        verify(text.encode(), cid)
    except VerificationError:
        ours = compute_cid(text.encode())
        logger.warning(
            "the provider stored the JSON as %s, not as %s: it may have written it anew",
            cid,
            ours,
            extra={"operation": "store", "cid": cid, "expected_cid": ours},
        )

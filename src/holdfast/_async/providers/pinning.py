"""The provider of the spec: writes through a pinning HTTP API, reads through IPFS gateways."""

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from holdfast._async.content_file import (
    LARGEST_WINDOW,
    AsyncBlobRanges,
    AsyncContentFile,
    AsyncRanges,
)
from holdfast._async.reads.reader import AsyncReader, Known
from holdfast._async.runtime import run_blocking
from holdfast._async.session import AsyncSession
from holdfast.config import ClientConfig
from holdfast.content.cid import CID
from holdfast.content.profiles import Profile, candidates_for, profile_for
from holdfast.content.reference import Reference
from holdfast.content.unixfs.layouts import Layouts, WriteCheck
from holdfast.errors import ConfigError, UnprovenError, VerificationError
from holdfast.files.blob import Blob
from holdfast.files.checked_source import CheckedSource
from holdfast.files.local_cids import compute_cid, verify
from holdfast.files.locations import cache_folder
from holdfast.files.sinks import MemorySink, RangeSink, SpoolSink, TargetSink, TextSink
from holdfast.files.sources import Progress, Source
from holdfast.protocol import json_text
from holdfast.protocol.gateway import DEFAULT_GATEWAYS, Gateway, Gateways
from holdfast.protocol.multipart import FileForm
from holdfast.protocol.pinning import PinningAPI
from holdfast.records import Pin

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

    def __init__(self, config: ClientConfig, *, session: AsyncSession | None = None) -> None:
        if config.provider_token is None:
            raise ConfigError(
                f"provider_token is missing: provider {config.provider!r} needs the service's JWT"
            )
        self.config = config
        self._session = session or AsyncSession(_open_transport(config), config)
        self._api = PinningAPI(config.pin_api_url, config.provider_token, config.cid_version)
        first, *others = config.gateway_url or DEFAULT_GATEWAYS
        self._first_gateway = Gateway(first, config.gateway_token)
        gateways = Gateways([self._first_gateway, *map(Gateway, others)], self._session.avoided)
        self._reader = AsyncReader(
            self._session,
            gateways,
            verify=config.verify,
            max_unverified=config.max_unverified_bytes,
            hedge_after=config.hedge_after,
        )
        # Services cut files in ways of their own: what fitted the last upload is the next guess.
        self._guess = profile_for(config.profile, config.cid_version)
        self._may_search = True

    @classmethod
    def from_config(cls, config: ClientConfig) -> Self:
        """The provider that `config` describes."""
        return cls(config)

    def with_config(self, config: ClientConfig) -> Self:
        """A copy with `config` over the same connections and limits."""
        for name in CONNECTION_FIELDS:
            if getattr(config, name) != getattr(self.config, name):
                raise ConfigError(
                    f"{name} belongs to the connections, which are shared: make a new client for it"
                )
        return type(self)(config, session=self._session.with_config(config))

    async def put_json(self, text: str, *, name: str) -> str:
        """Pin the JSON `text` with `name` as its metadata; return its CID."""
        async with self._session.call("store") as call:
            request = self._api.pin_json(text, name=name)
            call.cid = cid = self._api.read_cid(await self._session.fetch(request, call))
            if self.config.verify:
                await run_blocking(_compare_json, cid, text)
            return cid

    async def get_json(self, cid: str) -> Any:
        """The JSON value at `cid`, read through a gateway."""
        async with self._session.call("retrieve", cid) as call:
            sink = TextSink(self.config.max_json_bytes)
            await self._reader.read(Reference.parse(cid), sink, call)
            return json_text.from_text(sink.data)

    async def put_file(self, source: Source, *, name: str, progress: Progress | None = None) -> str:
        """Pin the bytes of `source` as a file called `name`; return its CID.

        The CID is computed while they are sent. Where it proves that something else was pinned,
        that is a `VerificationError`.
        """
        checked = CheckedSource(source, self._guess) if self.config.verify else None
        form = FileForm(checked or source, filename=name, fields=self._api.file_fields())
        told = -1

        def on_sent(sent: int) -> None:
            nonlocal told
            done = form.file_bytes(sent)
            if progress is not None and done != told:
                told = done
                progress(done, source.size)

        async with self._session.call("upload", total=False) as call:
            request = self._api.pin_file(form, on_sent=on_sent)
            call.cid = cid = self._api.read_cid(await self._session.fetch(request, call))
            if checked is not None:
                await run_blocking(self._compare_file, CID.parse(cid), checked.check, source)
            return cid

    def _compare_file(self, cid: CID, check: WriteCheck, source: Source) -> None:
        """See that `cid` names what was sent, as far as that can be told; else log it."""
        profile = check.profile_of(cid)
        if profile is None and self._may_search and source.size is not None and source.repeatable:
            profile = _layout_of(source, cid)
            # A service that cuts in a way of its own would have us read every upload once more.
            self._may_search = profile is not None
        if profile is not None:
            self._guess = profile
        else:
            logger.info(
                "the provider stored the upload as %s, which no known layout gives; reads prove it",
                cid,
                extra={"operation": "upload", "cid": str(cid)},
            )

    async def get_file(
        self,
        cid: str,
        *,
        to: str | os.PathLike[str] | None = None,
        progress: Progress | None = None,
    ) -> Blob:
        """The file at `cid`, through a gateway; with `to`, written there whole or not at all."""
        reference = Reference.parse(cid)
        sink = SpoolSink() if to is None else self._target_sink(to, reference)
        async with self._session.call("download", cid, total=False) as call:
            try:
                await run_blocking(sink.open)
                media_type = await self._reader.read(reference, sink, call, progress=progress)
                await run_blocking(sink.commit)
                return sink.blob(type=media_type, name=_name(reference))
            finally:
                await run_blocking(sink.discard)

    def _target_sink(self, to: str | os.PathLike[str], reference: Reference) -> TargetSink:
        given = self.config.cache_path
        cache = cache_folder() if given is None else Path(given)
        return TargetSink(to, cache=cache, reference=reference)

    async def open_file(self, cid: str) -> AsyncContentFile:
        """The file at `cid`, to be read anywhere in it. Always proven, whatever `verify` says."""
        reference = Reference.parse(cid)
        try:
            async with self._session.call("open", cid) as call:
                known = await self._reader.probe(reference, call, MemorySink())
        except UnprovenError:
            # One block, or a gateway without blocks: then the whole is the smallest proof.
            blob = await self._fetch_whole(reference, call.asked_wait)
            ranges: AsyncRanges = AsyncBlobRanges(blob)
        else:
            ranges = _AsyncGatewayRanges(self._session, self._reader, known)
        return AsyncContentFile(ranges, name=_name(reference))

    async def _fetch_whole(self, reference: Reference, asked_wait: float) -> Blob:
        """Download a file that can only be verified whole, for `open_file`.

        Each part of it has as much time as any range that an open file fetches. `asked_wait` is how
        long peers have made `open_file` wait so far.
        """
        sink = SpoolSink()
        fetched = 0

        def renew(done: int, _: int | None) -> None:
            nonlocal fetched
            if done >= fetched + LARGEST_WINDOW:
                fetched = done
                call.renew()

        async with self._session.call("open", str(reference)) as call:
            call.asked_wait = asked_wait
            try:
                await self._reader.read(reference, sink, call, progress=renew, verify=True)
                await run_blocking(sink.commit)
                return sink.blob(type="", name=_name(reference))
            finally:
                await run_blocking(sink.discard)

    async def delete(self, cid: str) -> None:
        """Unpin `cid`."""
        async with self._session.call("revoke", cid) as call:
            request = self._api.unpin(Reference.parse_cid(cid))
            self._api.read_unpinned(await self._session.fetch(request, call))

    async def test_authentication(self) -> None:
        """Return if the service takes the token."""
        async with self._session.call("test_connection") as call:
            request = self._api.test_authentication()
            self._api.read_authentication(await self._session.fetch(request, call))

    async def list_pins(self, *, name: str | None = None, limit: int | None = None) -> list[Pin]:
        """List what is pinned, newest first, page by page."""
        found: list[Pin] = []
        pages = self._api.pages(limit)
        asked_wait = 0.0
        while pages.wanted:
            # Each page has the whole `total`; the waits that were asked for are one call's.
            async with self._session.call("pins") as call:
                call.asked_wait = asked_wait
                reply = await self._session.fetch(pages.request(name), call)
                asked_wait = call.asked_wait
                found += [Pin(**row) for row in pages.read(reply)]
        return found

    def url(self, cid: str) -> str:
        """The address of `cid` at the first gateway."""
        return self._first_gateway.url(Reference.parse(cid))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._session.transport.aclose()


def _open_transport(config: ClientConfig) -> "AsyncTransport":
    # Here, so that the provider can be imported where its HTTP library is not installed.
    from holdfast._async.transport import AsyncTransport  # noqa: PLC0415

    return AsyncTransport(config)


def _layout_of(source: Source, cid: CID) -> Profile | None:
    """The known layout in which `source` is `cid`, if there is one and it can be read again."""
    layouts = Layouts(candidates_for(cid))
    try:
        for chunk in source.chunks():
            layouts.update(chunk)
    except OSError:  # it has changed since; what was sent was whole
        return None
    return next((each for each, root in layouts.roots().items() if root == cid), None)


class _AsyncGatewayRanges:
    """Of a file behind gateways."""

    def __init__(self, session: AsyncSession, reader: AsyncReader, known: Known) -> None:
        self._session = session
        self._reader = reader
        self._known = known
        self.size = known.size

    async def read(self, start: int, stop: int) -> bytes | bytearray:
        """Return the bytes from `start` up to `stop`."""
        sink = RangeSink(stop - start)
        async with self._session.call("open", str(self._known.reference)) as call:
            await self._reader.read_part(self._known, start, stop, call, sink)
        return sink.data


def _name(reference: Reference) -> str | None:
    return reference.path[-1] if reference.path else None


def _compare_json(cid: str, text: str) -> None:
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

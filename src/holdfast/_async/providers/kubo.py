"""The provider for Kubo: a real IPFS node, by its RPC API."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from holdfast._async.pin_waiting import AsyncPinStream
from holdfast._async.providers.base import AsyncBaseProvider, Content
from holdfast._async.providers.http import AsyncDaemonProvider
from holdfast._async.reads.blocks import AsyncArchiveFeed, AsyncBlocks, AsyncGivenBlocks
from holdfast._async.reads.reader import AsyncReader
from holdfast._async.runtime import run_blocking
from holdfast._async.session import AsyncSession, read_whole
from holdfast.calls import NEVER, Call, Clock, Deadline
from holdfast.config import ClientConfig, checks
from holdfast.config.client_config import provider_options
from holdfast.content.blocks import MAX_BLOCK, check_block, inline_block
from holdfast.content.cid import CID
from holdfast.content.reference import Reference
from holdfast.content.unixfs.layouts import WriteCheck, not_what_was_sent
from holdfast.errors import NetworkError, ProviderError, UnsupportedError
from holdfast.protocol import kubo
from holdfast.protocol.gateway import ArchiveScope
from holdfast.protocol.http import Reply, Request
from holdfast.protocol.multipart import SMALL
from holdfast.protocol.retrying import retry_reason
from holdfast.records import Added, OnPinProgress, Pin, PinFilter, PinInfo
from holdfast.sources.archive_sources import ArchiveSource
from holdfast.sources.folder_source import FolderSource
from holdfast.sources.hashed_source import HashedSource
from holdfast.sources.sources import Progress, Source, no_progress

if TYPE_CHECKING:
    from holdfast._async.transport import AsyncResponse

LONGEST: Final = 3600.0  # seconds that Kubo may ask the network where we have no limit
SHARE: Final = 0.9  # of our time that Kubo gets, so that its answer comes before our time-out
EMPTY: Final = CID.of_raw(b"")


class AsyncKuboReader(AsyncReader):
    """Reads verified content through the RPC API of a node.

    ::

        block/get    single blocks: directories, parts of files, small files
        cat          the plain bytes of a large file, verified with the blocks above its leaves
        dag/export   an archive, for many small files and for copies

    `cat` and `dag/export` give what the node has. What they do not give is fetched block by block,
    each within a time limit, and from the network. Requests are repeated after a broken connection.

    Args:
        session: Sends the requests.
        api: Builds them.
        config: The configuration of the provider.
        offline: Whether Kubo must never ask other nodes.
    """

    def __init__(
        self, session: AsyncSession, api: kubo.KuboAPI, config: ClientConfig, *, offline: bool
    ) -> None:
        super().__init__(total=config.timeouts.total)
        self.host = urlsplit(api.base_url).netloc
        self._session = session
        self._api = api
        self._config = config
        self._offline = offline
        self._blocks = AsyncGivenBlocks(self._block, verified=False)

    def patience(self, *limits: float | None) -> float | None:
        """Return how long Kubo may ask the network within our `limits`; None is not at all."""
        limited = (limit for limit in limits if limit is not None)
        return None if self._offline else SHARE * min(limited, default=LONGEST)

    def blocks(self, reference: Reference, call: Call) -> AsyncBlocks:  # noqa: ARG002
        """Return the blocks that the node has, or fetches from the network."""
        return self._blocks

    async def archive(
        self, reference: Reference, scope: ArchiveScope, call: Call
    ) -> AsyncArchiveFeed | None:
        """Return all blocks below `reference`; None if the node does not have its root."""
        if scope == "entity" or reference.target is None:
            return None
        response = await self._open_local("dag/export", reference.target, call)
        if response is None:
            return None
        return AsyncArchiveFeed(response, self._config.timeouts.read, has_repeats=False)

    async def body(self, cid: CID, call: Call) -> "AsyncResponse | None":
        """Return the plain bytes of a file; None if the node does not have its root."""
        return await self._open_local("cat", cid, call)

    async def _open_local(self, command: str, cid: CID, call: Call) -> "AsyncResponse | None":
        if command in self._api.missing:
            return None
        try:
            return await self.send(self._api.content_request(command, cid), call)
        except (NetworkError, ProviderError, UnsupportedError):
            return None

    async def _block(self, cid: CID) -> bytes:
        if cid == EMPTY:  # nodes do not send it to each other
            return b""
        timeouts = self._config.timeouts
        call = Call(
            "block",
            cid=str(cid),
            total=timeouts.total,
            hook=self._config.on_event,
            provider=self._session.provider,
        )
        return await self.read_block(cid, call, self.patience(timeouts.read, timeouts.total))

    async def read_block(self, cid: CID, call: Call, patience: float | None = None) -> bytes:
        """Return the block of `cid`, not verified; `patience` None does not ask the network."""
        request = self._api.content_request("block/get", cid, patience)
        return await self._session.retry(partial(self._read_block, request, call), call)

    async def _read_block(self, request: Request, call: Call) -> bytes:
        async with aclosing(await self._send(request, call, call.deadline)) as response:
            return await response.read(MAX_BLOCK + 1)

    async def send(
        self, request: Request, call: Call, deadline: Deadline = NEVER
    ) -> "AsyncResponse":
        """Send `request`, and return a successful reply, whose body must arrive by `deadline`."""
        return await self._session.retry(partial(self._send, request, call, deadline), call)

    async def _send(self, request: Request, call: Call, deadline: Deadline) -> "AsyncResponse":
        response = await self._session.send(request, call, deadline=deadline)
        if response.status == 200 and not kubo.is_page(response.headers):
            return response
        async with aclosing(response):
            command = self._api.command_of(request)
            raise self._api.error(await read_whole(response), command, call.cid)


class AsyncKuboProvider(AsyncDaemonProvider):
    """Stores content on a Kubo node under the CIDs that `compute_cid` gives.

    `pin_api_url` is the address of Kubo's RPC API, by default ``http://127.0.0.1:5001``.
    `provider_token` is needed only where Kubo's ``API.Authorizations`` ask for one: a bearer token,
    or ``user:password``. Content is read through `gateway_url` if that is set, else through the
    API; it is verified either way. With ``provider_options={"offline": True}`` Kubo
    reads only what it has, and asks no other node.

    A hosted Kubo may have only a part of the API. ``add``, ``dag/import``, ``pin/add``, ``pin/rm``
    and ``pin/ls`` are enough; then set `gateway_url` to read.

    Kubo keeps a name for each pin, but no key-values, times or sizes. Its list is in no order.

    Example:
        >>> from holdfast import ClientConfig
        >>> provider = AsyncKuboProvider(ClientConfig(provider="kubo"))
        >>> provider.url("bafkqaaa")
        'ipfs://bafkqaaa'
    """

    _api: kubo.KuboAPI

    def make_reader(self, config: ClientConfig) -> AsyncReader:
        """Return a reader of the gateways that are configured, else of the RPC API."""
        offline = provider_options(config, "offline").get("offline", False)
        self._offline = checks.flag("provider_options: offline", offline)
        self._api = kubo.KuboAPI(config.api_url, config.provider_token, self.profile)
        self._node = AsyncKuboReader(self._session, self._api, config, offline=self._offline)
        return self._node if config.gateway_url is None else super().make_reader(config)

    async def add(
        self, content: Content, info: PinInfo, call: Call, progress: Progress, /
    ) -> Added:
        """Store a file, a folder or an archive.

        What can be read twice is hashed first: a file to look for a pin that exists, and a folder
        because it is sent as an archive of its blocks, which begins with its root. So is a source
        that says where leaves must end, because Kubo cannot be told. Another file is hashed while
        it is sent. Kubo verifies the blocks of an archive; if one is missing, it pins nothing.
        """
        kubo.check_info(info)
        if isinstance(content, ArchiveSource):
            return await self.run(self._api.import_archive(content.root, content, info), call)
        if isinstance(content, FolderSource) or content.leaf_ends:
            return await self._add_blocks(content, info, call, progress)
        if not content.rewindable:
            return await self._add_once(content, info, call, progress)
        is_small = content.json is not None and len(content.json) <= SMALL
        cid = (await self.import_content(content, None, no_progress)).cid
        size = content.size
        add = self._api.add(
            content, info, lambda sent: progress(sent, size), cid=cid, whole=is_small
        )
        return await self.run(add, call)

    async def _add_once(
        self, source: Source, info: PinInfo, call: Call, progress: Progress
    ) -> Added:
        """Store a source that can be read only once."""
        check = WriteCheck(self.profile)
        hashed = HashedSource(source, lambda: check)
        add = self._api.add(hashed, info, lambda sent: progress(sent, source.size), cid=None)
        added = await self.run(add, call)
        call.cid = added.cid
        stored = CID.parse(added.cid)
        if await run_blocking(check.profile_of, stored) is None:
            raise not_what_was_sent(stored)
        if info.given:
            return added
        _, is_duplicate = await self.run(self._api.keep(added.cid, info), call)
        return Added(cid=added.cid, duplicate=is_duplicate)

    async def _add_blocks(
        self, content: Content, info: PinInfo, call: Call, progress: Progress
    ) -> Added:
        """Store content as an archive of its blocks, which is made while it is sent."""
        if isinstance(content, Source) and not content.rewindable:
            with await self.spool(content) as spooled:
                return await self._add_blocks(spooled, info, call, progress)
        archive = await self.build_archive(content)
        call.cid = str(archive.root)

        def on_sent(_sent: int) -> None:
            progress(archive.done, content.size)

        added = await self.run(self._api.import_archive(archive.root, archive, info, on_sent), call)
        # Kubo may reply before the last report, and is sent nothing that it has pinned.
        progress(content.size or 0, content.size)
        return added

    async def check_credentials(self, call: Call, /) -> None:
        """Return if Kubo is new enough, and accepts the token for what this provider does."""
        reads = kubo.READ_COMMANDS if self.config.gateway_url is None else ()
        await self.run(self._api.check_credentials(reads), call)

    async def pin(self, cid: str, info: PinInfo) -> Pin:
        """Pin `cid`. Kubo fetches the content first, for at most `timeouts.total`."""
        kubo.check_info(info)
        async with self.call("pin", cid) as call:
            timeout = self._node.patience(call.deadline.left())
            keep = self._api.keep(cid, info, timeout=timeout)
            pin, _ = await self.run(keep, call, report=info.progress)
            return pin

    async def fetch(
        self, request: Request, call: Call, report: OnPinProgress | None = None
    ) -> Reply:
        """Send `request`, and return the complete reply; `report` is called while a pin is made."""
        if report is None or self._api.command_of(request) != "pin/add":
            return await super().fetch(request, call)
        watch = partial(self._watch, request, call, report)
        reason = partial(retry_reason, statuses=request.retried)
        reply: Reply = await self._session.retry(watch, call, reason)
        return reply

    async def _watch(self, request: Request, call: Call, report: OnPinProgress) -> Reply:
        body = bytearray()
        async with aclosing(await self._session.send(request, call)) as response:
            if response.status != 200:
                return await read_whole(response)
            async for piece in response.chunks():
                body += piece
                if (progress := kubo.read_progress(body)) is not None:
                    report(progress)
                if len(body) > request.max_reply:
                    break
            error = response.stream_error
            return Reply(response.status, response.headers, bytes(body), stream_error=error)

    async def addresses(self) -> list[str]:
        """Return the public addresses of the node on the network."""
        async with self.call("addresses") as call:
            return await self.run(self._api.addresses(), call)

    def find_pins(self, pin_filter: PinFilter, *, limit: int | None = None) -> AsyncPinStream:
        """Yield the pins that match `pin_filter`, in no order, as Kubo sends them."""
        kubo.check_filter(pin_filter)
        return super().find_pins(pin_filter, limit=limit)

    async def stream_pins(
        self, pin_filter: PinFilter, limit: int | None, clock: Clock
    ) -> AsyncGenerator[Pin]:
        """Yield the pins that match `pin_filter`, in no order, as Kubo sends them."""
        count = 0
        async with aclosing(self.stream_rows(pin_filter, clock)) as pins:
            async for pin in pins:
                if (pin_filter.name or "") in pin.name:
                    yield pin
                    count += 1
                    if count == limit:
                        return
                elif not pin.name and pin_filter.cid is None:  # Kubo has compared the names
                    raise UnsupportedError(kubo.NO_NAMES)

    async def open_list(self, pin_filter: PinFilter, call: Call) -> "AsyncResponse | None":
        """Return the reply with all pins whose name may be wanted."""
        return await self._node.send(self._api.list_request(pin_filter), call, call.clock.deadline)

    async def own_block(self, cid: CID) -> bytes:
        """Return a block that the node has."""
        inline = b"" if cid == EMPTY else inline_block(cid)
        if inline is not None:
            return inline
        async with self.call("block", str(cid)) as call:
            block = await self._node.read_block(cid, call)
        check_block(cid, block)
        return block

    def is_on_network(self) -> bool:
        """Return whether the node is on the network, and its gateways too if it has any."""
        return not self._offline and super().is_on_network()

    def url(self, cid: str) -> str:
        """Return the address of `cid` at the first gateway, or ``ipfs://`` without one."""
        return AsyncBaseProvider.url(self, cid)

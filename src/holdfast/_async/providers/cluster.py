"""The provider for IPFS Cluster: several IPFS nodes that keep copies of the same pins."""

import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from holdfast._async.pin_waiting import AsyncPauses
from holdfast._async.providers.base import Content
from holdfast._async.providers.http import AsyncDaemonProvider
from holdfast._async.runtime import now
from holdfast._async.session import AsyncSession, Attempt, read_whole
from holdfast.calls import Call, Clock
from holdfast.config import ClientConfig
from holdfast.config.checks import is_loopback
from holdfast.config.client_config import provider_options
from holdfast.errors import (
    ConfigError,
    NetworkError,
    NotFoundError,
    ProviderError,
    RequestTimeoutError,
)
from holdfast.protocol import cluster
from holdfast.protocol.cluster import ClusterAPI, ClusterPin, PeerStates
from holdfast.protocol.http import Reply, Request
from holdfast.protocol.multipart import SMALL, OnSent
from holdfast.protocol.peer_set import PeerSet
from holdfast.protocol.pin_api import Exchange
from holdfast.records import Added, Pin, PinFilter, PinInfo
from holdfast.sources.archive_sources import ArchiveSource, BuiltArchive
from holdfast.sources.folder_source import FolderSource
from holdfast.sources.sources import Progress, Source

if TYPE_CHECKING:
    from holdfast._async.transport import AsyncResponse

NOTHING: Final = 204  # the status of an empty list
FIRST_PAUSE: Final = 0.01  # seconds before the second look at the states of a new pin
LONGEST_PAUSE: Final = 1.0  # each pause is twice as long as the one before, up to this
REPEATED_SOON: Final = 1.0  # seconds after which a write is repeated if a peer is unreachable
REPEATED_AFTER: Final = 2.0  # the same for other trouble, which may pass by itself
MAX_REPEATED: Final = 256 << 20  # bytes of content that are sent again; else only its pin is made
LONGEST: Final = 3600.0  # seconds to wait for copies where the configuration has no limit


def _may_improve(request: Request, reply: Reply) -> bool:
    """Return whether another peer may reply with something better."""
    return reply.status in request.retried or cluster.may_differ(request, reply)


def _was_sent(failures: Sequence[Attempt]) -> bool:
    return any(isinstance(failure, NetworkError) and failure.sent for failure in failures)


def _last(failures: Sequence[Attempt]) -> Attempt:
    """Return the last failure, with what is known of the others."""
    last = failures[-1]
    if isinstance(last, NetworkError):
        last.sent = _was_sent(failures)
        for failure in failures[:-1]:
            words = (
                f"HTTP error {failure.status}" if isinstance(failure, Reply) else failure.message
            )
            last.add_note(f"another peer: {words}")
    return last


def _check_gateways(config: ClientConfig) -> None:
    """Raise ConfigError if nothing says through which gateways content is read."""
    hosts = (urlsplit(url).hostname for url in config.api_urls)
    if config.gateway_url is None and not all(map(is_loopback, hosts)):
        raise ConfigError(
            "gateway_url is missing: name the gateways of the cluster's nodes, through which "
            "content is read, such as https://node1.example.com/ipfs"
        )


class AsyncClusterProvider(AsyncDaemonProvider):
    """Stores content in an IPFS Cluster, under the CIDs that `compute_cid` gives.

    `pin_api_url` is the address of a peer's REST API, by default ``http://127.0.0.1:9094``, or of
    several: if one does not answer, the next is asked. Each of them gets `provider_token`, which is
    a bearer token or ``user:password``. `gateway_url` names the gateways of the cluster's nodes,
    through which content is read; it is verified. Without it, both must be on this machine:
    ``http://127.0.0.1:8080/ipfs``.

    A write returns when enough nodes have the content. If they do not have it within
    `timeouts.total`, it raises a `RequestTimeoutError` that names the state at each node. These
    `provider_options` exist:

    - ``replication_min``, ``replication_max``: how many nodes must have new content, and how many
      are to have it; -1 is for all. One alone stands for both. By default, the cluster decides.
    - ``wait``: False returns as soon as the cluster has accepted the content.

    A cluster keeps names and key-values, whose values become texts, and times in whole seconds. Its
    list is in no order. `Pin.peers` says where each pin is.

    Example:
        >>> from holdfast import ClientConfig
        >>> options = {"replication_min": 2, "replication_max": 3}
        >>> config = ClientConfig(provider="cluster", provider_options=options)
        >>> AsyncClusterProvider(config).url("bafkqaaa")
        'http://127.0.0.1:8080/ipfs/bafkqaaa'
    """

    _api: ClusterAPI
    _unreachable: frozenset[str] = frozenset()

    def __init__(self, config: ClientConfig, *, session: AsyncSession | None = None) -> None:
        options = cluster.read_options(provider_options(config, *cluster.OPTIONS))
        _check_gateways(config)
        super().__init__(config, session=session)
        self._api = ClusterAPI(config.provider_token, options)
        # Clients that share connections know the same about the peers.
        self._peers = PeerSet(config.api_urls, self._session.avoided)

    async def fetch(self, request: Request, call: Call, *, skip: int = 0) -> Reply:
        """Send `request`, retry if that may help, and return the complete reply.

        Each attempt asks one peer after the other, until one replies; those that reply with an
        error of their own (`may_differ`) are asked once. The first `skip` peers are asked last.
        """
        ask_all = partial(self._ask_all, self._session.fetch_once, skip)
        return await self._session.fetch(request, call, ask_all)

    async def _ask_all(
        self, send: Callable[..., Awaitable[Any]], skip: int, request: Request, call: Call
    ) -> Any:
        """Return what `send` returns for the first peer that does not fail, or the last failure.

        The address of `request` begins with the path.
        """
        failures: list[Attempt] = []
        for url, deadline in call.turns(self._peers.in_order(now(), skip)):
            try:
                at_peer = replace(request, url=url + request.url)
                outcome = await send(at_peer, call, deadline=deadline)
            except NetworkError as error:
                outcome = error
            if isinstance(outcome, Reply) and not _may_improve(request, outcome):
                return replace(outcome, reply_lost=_was_sent(failures))
            if not isinstance(outcome, Attempt):
                deadline.move_to(call.deadline.at)  # the body may take the time of the others
                return outcome
            self._peers.avoid(url, now())
            failures.append(outcome)
            if not request.repeatable:
                break
        return _last(failures)

    async def add(
        self, content: Content, info: PinInfo, call: Call, progress: Progress, /
    ) -> Added:
        """Store a file, a folder or an archive.

        All of them are sent as an archive, which begins with its root, so content is hashed first.
        A source that can be read only once is written to a temporary file for that.
        """
        if isinstance(content, ArchiveSource):
            return await self._add_archive(content, info, call)
        if isinstance(content, Source) and not content.rewindable:
            with await self.spool(content) as spooled:
                return await self.add(spooled, info, call, progress)
        archive = await self.build_archive(content)
        text = None if isinstance(content, FolderSource) else content.json
        is_small = text is not None and len(text) <= SMALL

        def on_sent(_sent: int) -> None:
            progress(archive.done, content.size)

        writing = _Writing(self._api, archive, info, is_small)
        added = await self.run(writing.begin(on_sent), call)
        call.cid = added.cid
        if self._api.options.wait:
            await self._wait_for_copies(writing, call)
        progress(archive.done, content.size)
        return added

    async def _add_archive(self, archive: ArchiveSource, info: PinInfo, call: Call) -> Added:
        """Store an archive; all of it or nothing.

        The cluster accepts an archive that lacks blocks, and then no node can pin it. So this
        always waits for the copies. If no node has all of it in time, it is unpinned again.

        One that lacks blocks on purpose goes to the nodes that have them.
        """
        peers: tuple[str, ...] = ()
        if info.beside:
            pin = await self.run(self._api.find(info.beside), call)
            peers = () if pin is None else pin.peers
        writing = _Writing(self._api, archive, info, peers=peers)
        added = await self.run(writing.begin(), call)
        try:
            await self._wait_for_copies(writing, call)
        except RequestTimeoutError:
            states = await self.run(self._api.states(added.cid), call)
            if not added.duplicate and not states.count(cluster.PINNED):
                await self.run(self._api.unpin(added.cid), call)
            raise
        return added

    async def _wait_for_copies(self, writing: "_Writing", call: Call) -> None:
        """Return when enough peers have pinned what was written.

        If a peer is in trouble, or none knows of the pin, the write is repeated: each time at
        another peer, because a peer may not hear of the pins of others for minutes after one died.
        """
        cid = str(writing.archive.root)
        deadline = call.deadline.copy()
        deadline.tighten(self.config.timeouts.total or LONGEST)
        pauses = AsyncPauses(FIRST_PAUSE, LONGEST_PAUSE, deadline.at or 0.0)
        written, repeats = now(), 0
        pin: ClusterPin | None = None
        states: PeerStates | None = None
        while True:
            try:
                pin = pin or await self.run(self._api.find(cid), call, skip=repeats)
                states = await self.run(self._api.states(cid), call, skip=repeats)
                if states.unreachable:
                    self._unreachable = states.unreachable
                if pin is not None and states.is_kept(pin.copies):
                    return
                if now() > written + _patience(pin, states, repeats):
                    repeats, pauses.next = repeats + 1, FIRST_PAUSE
                    # Without those that could not be asked lately.
                    usable = [peer for peer in states.usable if peer not in self._unreachable]
                    again = writing.again(pin, usable)
                    with suppress(ProviderError):  # there are too few peers now; one may come back
                        await self.run(again, call, skip=repeats)
                    written = now()
            except RequestTimeoutError as error:
                raise _too_few(cid, pin, states) from error
            if not await pauses.wait():
                raise _too_few(cid, pin, states)

    async def pin(self, cid: str, info: PinInfo) -> Pin:
        """Pin `cid`, whose content the peers then fetch from the network."""
        async with self.call("pin", cid) as call:
            pin = await self.run(self._api.pin(cid, info), call)
            return pin.with_states(await self.run(self._api.states(pin.cid), call))

    async def check_pin(self, pin: Pin) -> Pin:
        """Return a pin of `pin` as it is now; raise ProviderError if too many peers gave up."""
        async with self.call("pin", pin.cid) as call:
            cluster_pin = await self.run(self._api.find(pin.cid), call)
            if cluster_pin is None:
                raise NotFoundError(f"{pin.cid} was unpinned in the meantime")
            states = await self.run(self._api.states(cluster_pin.cid), call)
            if states.is_lost(cluster_pin.copies):
                raise ProviderError(f"the cluster cannot pin {pin.cid}: {states.describe()}")
            return cluster_pin.with_states(states)

    async def update_pin(
        self, cid: str, *, name: str | None, keyvalues: Mapping[str, Any] | None
    ) -> Pin:
        """Change the name, the key-values or both of the pin of `cid`."""
        async with self.call("update", cid) as call:
            pin = await self.run(self._api.update(cid, name, keyvalues), call)
            return pin.with_states(await self.run(self._api.states(pin.cid), call))

    async def stream_pins(
        self, pin_filter: PinFilter, limit: int | None, clock: Clock
    ) -> AsyncGenerator[Pin]:
        """Yield the pins that match `pin_filter`, in no order, as the cluster sends them.

        The list says nothing about the peers: they are asked for many pins at a time.
        """
        count = 0
        size = min(limit or cluster.ASKED_AT_ONCE, cluster.ASKED_AT_ONCE)
        async with aclosing(self._batches(pin_filter, size, clock)) as batches:
            async for batch in batches:
                async with self.list_call(clock) as call:
                    pins = await self.run(self._api.with_states(batch), call)
                for pin in pins:
                    yield pin
                    count += 1
                    if count == limit:
                        return

    async def _batches(
        self, pin_filter: PinFilter, size: int, clock: Clock
    ) -> AsyncGenerator[list[ClusterPin]]:
        batch: list[ClusterPin] = []
        async with aclosing(self.stream_rows(pin_filter, clock)) as pins:
            async for pin in pins:
                if cluster.matches(pin.pin, pin_filter):
                    batch.append(pin)
                if len(batch) == size:
                    yield batch
                    batch = []
            if batch:
                yield batch

    async def open_list(self, _pin_filter: PinFilter, call: Call) -> "AsyncResponse | None":
        """Return the reply with all pins, whose body is not read yet; None if there are none."""
        ask_all = partial(self._ask_all, self._session.send, 0, self._api.list_request(), call)
        response: AsyncResponse = await self._session.retry(ask_all, call)
        reply = Reply(response.status, response.headers)
        if reply.status == 200 and reply.media_type == "application/json":
            return response
        async with aclosing(response):
            if reply.status == NOTHING:
                return None
            raise self._api.error(await read_whole(response))


@dataclass(slots=True)
class _Writing:
    """Content that is written to a cluster, perhaps several times."""

    api: ClusterAPI
    archive: BuiltArchive | ArchiveSource
    info: PinInfo
    is_small: bool = False
    peers: Sequence[str] = ()
    size: int = 0

    def _add(self, on_sent: OnSent | None = None, peers: Sequence[str] = ()) -> Exchange[Added]:
        whole, archive = self.is_small, self.archive
        return self.api.add(archive.root, archive, self.info, on_sent, whole=whole, peers=peers)

    def begin(self, on_sent: OnSent | None = None) -> Exchange[Added]:
        """Send the content."""

        def count(sent: int) -> None:
            self.size = sent
            if on_sent is not None:
                on_sent(sent)

        return self._add(count, self.peers)

    def again(self, pin: ClusterPin | None, peers: Sequence[str]) -> Exchange[object]:
        """Write it again, at `peers`. `pin` is the pin that was made, if a peer knows of it.

        The cluster believes for some time that a dead peer lives, and keeps the places of a pin
        that it knows. Only content that is sent again is put at other peers at once.
        """
        if self.archive.repeatable and self.size <= MAX_REPEATED:
            return self._add(None, peers)
        if pin is None:
            return self.api.pin(str(self.archive.root), self.info, peers)
        return self.api.pin_again(pin, peers)


def _patience(pin: ClusterPin | None, states: PeerStates, repeats: int) -> float:
    """Return how long after the last write it is repeated."""
    if pin is not None and not states.has_problem(pin.copies):
        return math.inf
    if repeats:
        return REPEATED_SOON * 2.0 ** (repeats - 1)
    return REPEATED_SOON if states.count(cluster.UNREACHABLE) else REPEATED_AFTER


def _too_few(cid: str, pin: ClusterPin | None, states: PeerStates | None) -> RequestTimeoutError:
    if pin is None or states is None:
        words = f"no peer of the cluster reported in time where {cid} is"
    else:
        copies, needed = states.count(cluster.PINNED), states.needed(pin.copies)
        words = f"{cid} is on {copies} of {needed} peers: {states.describe()}"
    return RequestTimeoutError(
        f"{words}; the cluster keeps trying: check Pin.peers later, or allow more time "
        "(timeouts.total)",
        sent=True,
        transient=False,
    )

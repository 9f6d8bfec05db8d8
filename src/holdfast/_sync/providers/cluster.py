# WARNING: this file is generated from src/holdfast/_async/providers/cluster.py
# by scripts/generate_sync.py. Change the original instead.
"""The provider for IPFS Cluster: several IPFS nodes that keep copies of the same pins."""

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from holdfast._sync.pin_waiting import Pauses
from holdfast._sync.providers.cluster_pins import ClusterPins
from holdfast._sync.providers.imports import Content, ignore
from holdfast._sync.runtime import now, run_interruptible
from holdfast.calls import Call
from holdfast.content.cid import CID
from holdfast.errors import ProviderError, RequestTimeoutError
from holdfast.files.archive_sources import ArchiveSource, BuiltArchive
from holdfast.files.folder_source import FolderSource
from holdfast.files.sinks import spool
from holdfast.files.sources import Progress, Source
from holdfast.protocol.cluster import ClusterAPI
from holdfast.protocol.cluster_replies import PINNED, UNREACHABLE, ClusterPin, PeerStates
from holdfast.protocol.multipart import FileSource
from holdfast.protocol.pin_api import Exchange
from holdfast.records import Added, PinInfo

SMALL: Final = 1 << 16  # bytes of JSON that are sent at once
FIRST_PAUSE: Final = 0.01  # seconds before the second look at the states of a new pin
LONGEST_PAUSE: Final = 1.0  # each pause is twice as long as the one before, up to this
REPEATED_SOON: Final = 1.0  # seconds after which a write is repeated if a peer is unreachable
REPEATED_AFTER: Final = 2.0  # the same for other trouble, which may pass by itself
MAX_REPEATED: Final = 256 << 20  # bytes of content that are sent again; else only its pin is made
LONGEST: Final = 3600.0  # seconds to wait for copies where the configuration has no limit


class ClusterProvider(ClusterPins):
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
        >>> ClusterProvider(config).url("bafkqaaa")
        'http://127.0.0.1:8080/ipfs/bafkqaaa'
    """

    takes = (Source, FolderSource, ArchiveSource)
    _unreachable: frozenset[str] = frozenset()

    def add(self, content: Content, info: PinInfo, call: Call, progress: Progress, /) -> Added:
        """Store a file, a folder or an archive.

        All of them are sent as an archive, which begins with its root, so content is hashed first.
        A source that can be read only once is written to a temporary file for that.
        """
        if isinstance(content, ArchiveSource):
            return self._add_archive(content, info, call)
        if isinstance(content, Source) and not content.rewindable:
            with run_interruptible(spool, content) as spooled:
                return self.add(spooled, info, call, progress)
        cid = (self.import_content(content, None, ignore)).cid
        archive = BuiltArchive(content, self._profile, cid)
        text = None if isinstance(content, FolderSource) else content.json
        is_small = text is not None and len(text) <= SMALL

        def on_sent(_sent: int) -> None:
            progress(archive.done, content.size)

        added = self._add(cid, archive, info, call, on_sent, whole=is_small)
        progress(archive.done, content.size)
        return added

    def _add_archive(self, archive: ArchiveSource, info: PinInfo, call: Call) -> Added:
        """Store an archive; all of it or nothing.

        The cluster accepts an archive that lacks blocks, and then no node can pin it. So this
        always waits for the copies. If no node has all of it in time, it is unpinned again.
        """
        writing = _Writing(self._api, archive.root, archive, info)
        added = self.run(writing.begin(_ignore_sent), call)
        try:
            self._wait_for_copies(writing, call)
        except RequestTimeoutError:
            states = self.run(self._api.states(added.cid), call)
            if not added.duplicate and not states.count(PINNED):
                self.run(self._api.unpin(added.cid), call)
            raise
        return added

    def _add(
        self,
        cid: CID,
        archive: FileSource,
        info: PinInfo,
        call: Call,
        on_sent: Callable[[int], None] | None = None,
        *,
        whole: bool = False,
    ) -> Added:
        writing = _Writing(self._api, cid, archive, info, whole=whole)
        added = self.run(writing.begin(on_sent or _ignore_sent), call)
        call.cid = added.cid
        if self._api.options.wait:
            self._wait_for_copies(writing, call)
        return added

    def _wait_for_copies(self, writing: "_Writing", call: Call) -> None:
        """Return when enough peers have pinned what was written.

        If a peer is in trouble, or none knows of the pin, the write is repeated: each time at
        another peer, because a peer may not hear of the pins of others for minutes after one died.
        """
        cid = str(writing.cid)
        deadline = call.deadline.copy()
        deadline.tighten(self.config.timeouts.total or LONGEST)
        pauses = Pauses(FIRST_PAUSE, LONGEST_PAUSE, deadline.at or 0.0)
        written, repeats = now(), 0
        pin: ClusterPin | None = None
        states: PeerStates | None = None
        while True:
            try:
                pin = pin or self.run(self._api.find(cid), call, skip=repeats)
                states = self.run(self._api.states(cid), call, skip=repeats)
                if states.unreachable:
                    self._unreachable = states.unreachable
                if pin is not None and states.is_kept(pin.copies):
                    return
                if now() > written + _patience(pin, states, repeats):
                    repeats, pauses.next = repeats + 1, FIRST_PAUSE
                    again = writing.again(pin, self._usable(states))
                    with suppress(ProviderError):  # there are too few peers now; one may come back
                        self.run(again, call, skip=repeats)
                    written = now()
            except RequestTimeoutError as error:
                raise _too_few(cid, pin, states) from error
            if not pauses.wait():
                raise _too_few(cid, pin, states)

    def _usable(self, states: PeerStates) -> list[str]:
        """Return the peers for a repeated write: without those that could not be asked lately."""
        return [peer for peer in states.usable if peer not in self._unreachable]


class _Writing:
    """Content that is written to a cluster, perhaps several times."""

    def __init__(
        self, api: ClusterAPI, cid: CID, archive: FileSource, info: PinInfo, *, whole: bool = False
    ) -> None:
        self.cid = cid
        self._api = api
        self._archive = archive
        self._info = info
        self._whole = whole
        self._size = 0

    def begin(self, on_sent: Callable[[int], None]) -> Exchange[Added]:
        """Send the content."""

        def count(sent: int) -> None:
            self._size = sent
            on_sent(sent)

        return self._api.add(self.cid, self._archive, self._info, count, whole=self._whole)

    def again(self, pin: ClusterPin | None, peers: Sequence[str]) -> Exchange[object]:
        """Write it again, at `peers`. `pin` is the pin that was made, if a peer knows of it.

        The cluster believes for some time that a dead peer lives, and keeps the places of a pin
        that it knows. Only content that is sent again is put at other peers at once.
        """
        if self._archive.repeatable and self._size <= MAX_REPEATED:
            archive, info = self._archive, self._info
            return self._api.add(
                self.cid, archive, info, _ignore_sent, whole=self._whole, peers=peers
            )
        if pin is None:
            return self._api.pin(str(self.cid), self._info, peers)
        return self._api.pin_again(pin, peers)


def _patience(pin: ClusterPin | None, states: PeerStates, repeats: int) -> float:
    """Return how long after the last write it is repeated."""
    if pin is not None and not states.has_problem(pin.copies):
        return math.inf
    if repeats:
        return REPEATED_SOON * 2.0 ** (repeats - 1)
    return REPEATED_SOON if states.count(UNREACHABLE) else REPEATED_AFTER


def _too_few(cid: str, pin: ClusterPin | None, states: PeerStates | None) -> RequestTimeoutError:
    if pin is None or states is None:
        words = f"no peer of the cluster says in time where {cid} is"
    else:
        there, needed = states.count(PINNED), states.needed(pin.copies)
        words = f"{cid} is on {there} of {needed} peers: {states.describe()}"
    return RequestTimeoutError(
        f"{words}; the cluster goes on trying: look at Pin.peers later, or allow more time "
        "(timeouts.total)",
        sent=True,
        transient=False,
    )


def _ignore_sent(_sent: int) -> None:
    """Do nothing: the caller asks for no progress."""

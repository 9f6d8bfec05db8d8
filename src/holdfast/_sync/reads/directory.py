# WARNING: this file is generated from src/holdfast/_async/reads/directory.py
# by scripts/generate_sync.py. Change the original instead.
"""The entries of a directory behind gateways, plain or sharded, block by block."""

from collections.abc import Iterator
from functools import partial

from holdfast._sync.reads.output import Output
from holdfast._sync.reads.peer import Peer
from holdfast._sync.reads.refusals import RefusedError
from holdfast._sync.reads.rounds import Rounds
from holdfast._sync.reads.state import ReadState
from holdfast._sync.session import Session
from holdfast.calls import Call, Deadline
from holdfast.content.blocks import check_provable
from holdfast.content.cid import CID
from holdfast.content.proof import is_raw
from holdfast.content.reference import Reference
from holdfast.content.unixfs.directory_nodes import DirectoryEntry
from holdfast.content.unixfs.file_nodes import check_codec
from holdfast.content.unixfs.walks import DirectoryWalk, PathWalk
from holdfast.errors import NotFoundError, UnprovenError
from holdfast.files.sinks import MemorySink
from holdfast.protocol.gateway import Gateway, Gateways
from holdfast.records import Entry


class Directory:
    """Lists one directory. Every block is verified before it is looked into.

    No more than some blocks are held in memory, however large the directory is. The walks limit
    its depth, and how many links may wait.
    """

    def __init__(
        self, session: Session, gateways: Gateways, reference: Reference, call: Call
    ) -> None:
        self._session = session
        self._gateways = gateways
        self._state = ReadState(reference, Output(MemorySink()), call)
        self._last: Gateway | None = None  # the gateway that gave the last block

    def entries(self) -> Iterator[Entry]:
        """Yield the entries in the order of the directory's blocks.

        Each block has the time of a whole call, so that a large directory can be listed.
        """
        reference = self._state.reference
        path = PathWalk(reference.cid, reference.path)
        while (need := path.need) is not None:
            path.feed(self._block(need))
        cid = path.end()
        check_codec(cid)
        if is_raw(cid):
            raise NotFoundError(f"{cid} is not a directory")
        walk = DirectoryWalk(cid)
        while (need := walk.need) is not None:
            for entry in walk.feed(self._block(need)):
                yield _as_entry(entry)

    def _block(self, cid: CID) -> bytes:
        """Return one block, fetched from the first gateway that gives it."""
        state = self._state
        if (known := state.found.blocks.get(cid)) is not None:
            return known
        check_provable(cid)
        state.call.renew()
        fetched: list[bytes] = []
        rounds = Rounds(self._session, self._gateways, state, partial(self._fetch, cid, fetched))
        rounds.gateways.sort(key=lambda each: each != self._last)
        if not rounds.ask(rounds.gateways):
            rounds.ask_again()
        return fetched[0]

    def _fetch(
        self,
        cid: CID,
        fetched: list[bytes],
        gateway: Gateway,
        deadline: Deadline,
        *,
        is_last: bool,  # noqa: ARG002 - nothing is given up here
    ) -> None:
        peer = Peer(self._session, gateway, self._state, deadline, verify=True)
        try:
            fetched.append(peer.blocks.get(cid))
        except RefusedError as refusal:
            raise refusal.reason or self._without_blocks(gateway) from None
        self._last = gateway

    def _without_blocks(self, gateway: Gateway) -> UnprovenError:
        reference = str(self._state.reference)
        return UnprovenError(
            f"{reference} cannot be listed: {gateway.base_url} does not give blocks; "
            "add a gateway that does",
            cid=reference,
        )


def _as_entry(entry: DirectoryEntry) -> Entry:
    """Return a record; of a raw block, which is a file, with its size as the directory tells it."""
    if is_raw(entry.cid):
        return Entry(name=entry.name, cid=str(entry.cid), size=entry.size, kind="file")
    return Entry(name=entry.name, cid=str(entry.cid))

# WARNING: this file is generated from src/holdfast/_async/providers/kubo_node.py
# by scripts/generate_sync.py. Change the original instead.
"""One Kubo node: what its RPC API sends as a stream, and how long it may take."""

from functools import partial
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from holdfast._sync.reads.archive_feed import ArchiveFeed
from holdfast._sync.reads.blocks import Blocks, GivenBlocks
from holdfast._sync.reads.reader import Reader
from holdfast._sync.session import Session, read_whole
from holdfast.calls import NEVER, Call, Deadline
from holdfast.config import ClientConfig
from holdfast.content.blocks import MAX_BLOCK
from holdfast.content.cid import CID
from holdfast.content.reference import Reference
from holdfast.errors import NetworkError, ProviderError
from holdfast.protocol.gateway import ArchiveScope
from holdfast.protocol.http import Request
from holdfast.protocol.kubo import KuboAPI
from holdfast.protocol.kubo_replies import is_page

if TYPE_CHECKING:
    from holdfast._sync.transport import Response

LONGEST: Final = 3600.0  # seconds that Kubo may ask the network where we have no limit
SHARE: Final = 0.9  # of our time that Kubo gets, so that its answer comes before our time-out
EMPTY: Final = CID.of_raw(b"")


class KuboNode:
    """Sends requests whose replies are streams, and repeats them after a broken connection.

    Args:
        session: Sends the requests.
        api: Builds them.
        config: The configuration of the provider.
        offline: Whether Kubo must never ask other nodes.
    """

    def __init__(
        self, session: Session, api: KuboAPI, config: ClientConfig, *, offline: bool
    ) -> None:
        self.session = session
        self.api = api
        self.config = config
        self._offline = offline

    def patience(self, *limits: float | None) -> float | None:
        """Return how long Kubo may ask the network within our `limits`; None is not at all."""
        known = (each for each in limits if each is not None)
        return None if self._offline else SHARE * min(known, default=LONGEST)

    def block(self, cid: CID) -> bytes:
        """Return the block of `cid`, not verified."""
        if cid == EMPTY:  # nodes do not send it to each other
            return b""
        timeouts = self.config.timeouts
        call = Call("block", cid=str(cid), total=timeouts.total, hook=self.config.on_event)
        request = self.api.block_request(cid, self.patience(timeouts.read, timeouts.total))
        return self.read_block(request, call)

    def read_block(self, request: Request, call: Call) -> bytes:
        """Send `request` for a block, and return it, not verified."""
        return self.session.retry(partial(self._read_block, request, call), call)

    def _read_block(self, request: Request, call: Call) -> bytes:
        response = self._open(request, call, call.deadline)
        try:
            return response.read(MAX_BLOCK + 1)
        finally:
            response.close()

    def open(self, request: Request, call: Call, deadline: Deadline = NEVER) -> "Response":
        """Send `request`, and return a successful reply, whose body must arrive by `deadline`."""
        return self.session.retry(partial(self._open, request, call, deadline), call)

    def _open(self, request: Request, call: Call, deadline: Deadline) -> "Response":
        response = self.session.send(request, call, deadline=deadline)
        if response.status == 200 and not is_page(response.headers):
            return response
        try:
            reply = read_whole(response)
        finally:
            response.close()
        raise self.api.error(reply, call.cid)


class KuboReader(Reader):
    """Reads verified content through the RPC API of a node.

    ::

        block/get    single blocks: directories, parts of files, small files
        cat          the plain bytes of a large file, verified with the blocks above its leaves
        dag/export   an archive, for many small files and for copies

    `cat` and `dag/export` give what the node has. What they do not give is fetched block by block,
    each within a time limit, and from the network.
    """

    def __init__(self, node: KuboNode) -> None:
        super().__init__(total=node.config.timeouts.total)
        self.host = urlsplit(node.api.base_url).netloc
        self._node = node
        self._blocks = GivenBlocks(node.block, verified=False)

    def blocks(
        self,
        reference: Reference,  # noqa: ARG002 - the CIDs are enough
        call: Call,  # noqa: ARG002 - each block is a call of its own
    ) -> Blocks:
        """Return the blocks that the node has, or fetches from the network."""
        return self._blocks

    def archive(self, reference: Reference, scope: ArchiveScope, call: Call) -> ArchiveFeed | None:
        """Return all blocks below `reference`; None if the node does not have its root."""
        if scope == "entity" or reference.target is None:
            return None
        request = self._node.api.export_request(reference.target)
        try:
            response = self._node.open(request, call)
        except (NetworkError, ProviderError):
            return None
        return ArchiveFeed(response, self._node.config.timeouts.read, has_repeats=False)

    def body(self, cid: CID, call: Call) -> "Response | None":
        """Return the plain bytes of a file; None if the node does not have its root."""
        try:
            return self._node.open(self._node.api.cat_request(cid), call)
        except (NetworkError, ProviderError):
            return None

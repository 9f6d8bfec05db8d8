# WARNING: this file is generated from src/holdfast/_async/reads/blocks.py
# by scripts/generate_sync.py. Change the original instead.
"""Blocks of one gateway: each is verified when it arrives, and cached for the rest of the read."""

from collections.abc import Sequence
from functools import partial

from holdfast._sync.reads.refusals import Refusals, RefusedError
from holdfast._sync.reads.requests import Requests
from holdfast._sync.reads.state import ReadState
from holdfast._sync.runtime import together
from holdfast._sync.session import read_content
from holdfast.content.blocks import MAX_BLOCK, check_block
from holdfast.content.budgets import BLOCKS_AT_ONCE
from holdfast.content.cid import CID
from holdfast.content.unixfs.body import BodyProof
from holdfast.content.unixfs.file_nodes import check_codec
from holdfast.content.unixfs.walks import PathWalk
from holdfast.errors import VerificationError
from holdfast.protocol.gateway import RAW_TYPE, Gateway


class Blocks:
    """Fetches blocks for one read from one gateway."""

    def __init__(
        self, gateway: Gateway, requests: Requests, refusals: Refusals, state: ReadState
    ) -> None:
        self._gateway = gateway
        self._requests = requests
        self._refusals = refusals
        self._state = state

    def get(self, cid: CID, ahead: Sequence[CID] = ()) -> bytes:
        """Return one verified block; raise RefusedError if the gateway does not serve blocks.

        If it must be fetched, the blocks of `ahead` are fetched at the same time and cached.
        Errors of these are ignored.
        """
        known = self._state.found.blocks
        block = known.get(cid)
        if block is not None:
            return block
        wanted = dict.fromkeys([cid, *(each for each in ahead if known.get(each) is None)])
        outcomes = together([partial(self._fetch, each) for each in wanted])
        for each, outcome in zip(wanted, outcomes, strict=True):
            if not isinstance(outcome, Exception):
                known.put(each, outcome)
        if isinstance(outcomes[0], Exception):
            raise outcomes[0]
        return outcomes[0]

    def for_body(self, proof: BodyProof, need: CID) -> bytes:
        """Return the block `need` of `proof`, and fetch those that it will need next."""
        try:
            return self.get(need, proof.needed_next(BLOCKS_AT_ONCE - 1))
        except RefusedError:
            if (doubt := proof.doubt) is not None:
                raise doubt from None
            raise

    def target(self) -> CID:
        """Return the CID that the reference leads to, found through verified directories."""
        found, reference = self._state.found, self._state.reference
        if found.cid is None:
            walk = PathWalk(reference.cid, reference.path)
            while (need := walk.need) is not None:
                walk.feed(self.get(need))
            found.cid = walk.end()
            check_codec(found.cid)
        return found.cid

    def _fetch(self, cid: CID) -> bytes:
        """Fetch one block and verify it."""
        response = self._requests.open_or_refuse(self._gateway.block(cid))
        try:
            reply = read_content(response, MAX_BLOCK + 1)
        finally:
            response.close()
        try:
            check_block(cid, reply.body)
        except VerificationError:
            # A gateway that does not know the format sends the plain content instead.
            self._refusals.check_type(reply, RAW_TYPE)
            raise
        return reply.body

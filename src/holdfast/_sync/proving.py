# WARNING: this file is generated from src/holdfast/_async/proving.py
# by scripts/generate_sync.py. Change the original instead.
"""Proofs that a provider has content itself: random blocks of it, which only the provider sends.

A pin in a list proves nothing, and neither does a gateway that fetches what it lacks. So a provider
is asked for blocks in a way that fetches nothing, and `find_verdict` first tests that way: nothing
may come that the provider does not have.
"""

import hashlib
import secrets
from collections.abc import Generator, Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from random import SystemRandom
from typing import Final
from urllib.parse import urlsplit

from holdfast import registry
from holdfast._sync.providers.base import BaseProvider
from holdfast._sync.reads.state import RefusedError
from holdfast._sync.runtime import at_end, together
from holdfast.config import ClientConfig
from holdfast.content.blocks import BlockCache, inline_block
from holdfast.content.budgets import BLOCKS_AT_ONCE, MAX_CACHED
from holdfast.content.car import Block
from holdfast.content.cid import CID
from holdfast.content.codecs import has_links
from holdfast.content.reference import Reference
from holdfast.content.sampling import DEFAULT_SAMPLE, Sample, SamplePicker
from holdfast.content.unixfs.walks import NodeWalk
from holdfast.disk.seen_cids import SpilledCIDs
from holdfast.errors import (
    ClientError,
    NotFoundError,
    RequestTimeoutError,
    UnprovenError,
    VerificationError,
)
from holdfast.events import logger
from holdfast.protocol.gateway import NotOwnReplyError
from holdfast.protocol.host_privacy import WORLD, privacy, site_of
from holdfast.records import Pin, PinFilter, ProofState, Verdict, now_ms

# Content that very many gateways have or find, and hardly anybody pins.
WELL_KNOWN: Final = (
    # Wikipedia in English, and photographs of the Apollo missions
    CID.parse("bafybeiaysi4s6lnjev27ln5icwm6tueaw2vdykrtjkwiphwekaywqhcjze"),
    CID.parse("QmSnuWmxptJZdLJpKRarxBMS2Ju2oANVrgbr2xWbie9b2D"),
)
# Every Kubo has it from its start, and most list it.
EMPTY_DIRECTORY: Final = CID.parse("QmUNLLsPACCz1vLxQVkXqqLX5R1X345qqfHbsf67hvA3Nn")
FOREIGN: Final = 3  # pins of others of which a witness must not have the roots
LOOKED_AT: Final = 16  # pins of each of the others that are compared
MOST_REMEMBERED: Final = 50_000  # blocks that were asked for: some 10 MiB
PUBLIC_GATEWAYS: Final = frozenset(
    url
    for row in registry.BUILT_IN.values()
    for url in row.gateways
    if privacy(urlsplit(url).hostname) == WORLD
)
RANDOM: Final = SystemRandom()


@dataclass(slots=True)
class CopyProof:
    """What came of asking a provider for blocks.

    Attributes:
        asked: How many blocks it was asked for, and answered itself.
        missing: How many of them it does not have, or sent with other bytes.
        cached: How many others a cache may have sent. More of them than others prove nothing.
        reason: One sentence: why nothing is proven, or what is wrong with the blocks; else "".
    """

    asked: int = 0
    missing: int = 0
    cached: int = 0
    reason: str = ""

    @property
    def note(self) -> str:
        """Why nothing is proven, and what to do about missing blocks; "" if all is proven."""
        if self.missing:
            counts = f"{self.missing} of {self.asked} blocks are missing"
            words = f"{counts} ({self.reason})" if self.reason else counts
            return f"{words}: unpin it there and send it again"
        return "" if self.state == "proven" else self.reason or "no block of it is in the sample"

    @property
    def state(self) -> ProofState:
        """``proven`` if all blocks came, ``missing`` if not; ``claimed`` if none was asked for."""
        if self.missing:
            return "missing"
        return "proven" if self.asked > self.cached else "claimed"

    def add(self, outcome: bytes | Exception) -> None:
        """Count a block, or the error that came for it. Raise an error that says nothing of it."""
        if isinstance(outcome, UnprovenError):
            self.cached += 1
            self.reason = str(outcome)
        elif _is_missing(outcome):
            self.asked, self.missing = self.asked + 1, self.missing + 1
            self.reason = self.reason if isinstance(outcome, NotFoundError) else str(outcome)
        elif isinstance(outcome, Exception):
            raise outcome
        else:
            self.asked += 1


class UnreadError(Exception):
    """The source of a walk does not send a block: the argument is its CID, the cause the error."""


def dag_cids(provider: BaseProvider, root: CID) -> Generator[list[tuple[CID, int]]]:
    """Yield the CIDs and sizes of all blocks below `root`, each once, in lists.

    Only the blocks that may have links are read from `provider`, each verified. A size is that of
    the block, or what the link to it says; 0 if that is nothing. Below the root, blocks in identity
    CIDs are left out. Each list is a call of its own, so no time runs while the caller works on it.
    """
    if not has_links(root) or inline_block(root) is not None:
        yield [(root, 0)]
        return
    seen = SpilledCIDs()
    with at_end(seen.close):
        walk = NodeWalk(root, seen)
        cache = BlockCache(MAX_CACHED)
        blocks = None
        while walk.need is not None:
            nodes: list[Block] = []
            try:
                with provider.call("proof", str(root)) as call:
                    blocks = blocks or provider.reader.blocks(Reference(str(root), root), call)
                    blocks.continue_in(call)
                    blocks.advance(walk, cache, nodes.extend)
            except (ClientError, OSError) as error:
                raise UnreadError(walk.need) from error
            leaves, walk.leaves = walk.leaves, []
            yield [(cid, len(block)) for cid, block in nodes] + leaves


def find_pin(provider: BaseProvider, cid: str) -> Pin | None:
    """Return the pin of `cid` at `provider`; None if there is none, or it cannot be asked."""
    if not provider.supports("find_pins"):
        return None
    for pin in provider.find_pins(PinFilter(cid=cid), limit=1):
        return pin
    return None


def has_content(pin: Pin) -> bool:
    """Return whether a provider has the content of `pin`, perhaps not at all of its nodes yet."""
    return pin.state == "pinned" or "pinned" in (pin.peers or {}).values()


class Prover:
    """Asks one provider for blocks that it has itself. It never asks anybody else.

    A local store and Kubo are asked directly. Any other provider is asked through a gateway of the
    same site as its API, or one of the `witness` gateways of its configuration; the default public
    gateways are never asked, and no gateway gets a token of the API.

    Args:
        provider: The provider.
        verdict: What `find_verdict` returned before, if that is less than a day ago.

    Attributes:
        verdict: Whether its answers prove anything; None if that is not tested yet.

    Example:
        >>> from holdfast import LocalProvider
        >>> from holdfast.config import ClientConfig
        >>> provider = LocalProvider(ClientConfig(path="store"))
        >>> proof = Prover(provider).prove([CID.of_raw(b"not in this store")])
        >>> proof.state, proof.asked, proof.missing
        ('missing', 1, 1)
    """

    def __init__(self, provider: BaseProvider, *, verdict: Verdict | None = None) -> None:
        self._provider = provider = provider.stored
        # "" is the provider itself, which is asked directly.
        self._gateways: tuple[str, ...] = ("",) if provider.supports("own_block") else ()
        if not self._gateways and provider.supports("gateway_block"):
            self._gateways = witness_urls(provider.config)
        if verdict is not None:
            usable = {*filter(None, map(gateway_mark, self._gateways))}
            tested = {*verdict.gateway.split()}
            if tested - usable or (usable - tested and not verdict.is_good):
                verdict = None  # the configuration has changed
        self.verdict: Verdict | None = verdict
        self._asked: set[CID] = set()  # blocks that are asked for again only if there are no others
        self._believes_list = True

    # Blocks that the provider has

    def prove(self, cids: Iterable[CID], proof: CopyProof | None = None) -> CopyProof:
        """Ask for all of `cids`, several at the same time; return the proof, or add to `proof`.

        Without a verdict, one is first found with the well-known CIDs alone.

        Raise NetworkError or ProviderError if the provider does not answer.
        """
        proof = CopyProof() if proof is None else proof
        verdict = self.verdict or self.find_verdict()
        if not verdict.is_good:
            proof.reason = verdict.reason
            return proof
        marks = verdict.gateway.split() or [""]
        gateways = [gateway for gateway in self._gateways if gateway_mark(gateway) in marks]
        pending = list(cids)
        while pending:
            batch, pending = pending[:BLOCKS_AT_ONCE], pending[BLOCKS_AT_ONCE:]
            for outcome in together([partial(self._find, cid, gateways) for cid in batch]):
                proof.add(outcome)
        return proof

    def prove_dag(
        self, source: BaseProvider, root: CID, sample: Sample = DEFAULT_SAMPLE
    ) -> CopyProof:
        """Ask for a sample of the blocks below `root`, whose links are read from `source`.

        If `source` does not send a block with links, the provider is asked for that block: it may
        have lost it. If it has it, nothing is proven.

        Blocks that were asked for before, in another sample, are chosen only if there are no
        others: a cache before the provider may have them.
        """
        proof = self.prove(())
        if proof.reason:  # it is no witness
            return proof
        picker = SamplePicker(sample, RANDOM.random, self._asked)
        try:
            with closing(dag_cids(source, root)) as pages:
                for page in pages:
                    self.prove(picker.add(page), proof)
        except UnreadError as error:
            self.prove(error.args, proof)
            unread = CopyProof(reason=f"{error} cannot be read: {error.__cause__}")
            return proof if proof.missing else unread
        chosen = picker.rest()
        if len(self._asked) > MOST_REMEMBERED:
            self._asked.clear()
        self._asked.update(chosen)
        return self.prove(chosen, proof)

    def _find(self, cid: CID, gateways: Sequence[str]) -> bytes:
        """Return a block from the first gateway that has it: each peer of a cluster has a part.

        If none has it, raise an error that leaves it open whether another one has, if there is one.
        """
        if (block := inline_block(cid)) is not None:
            return block
        errors: list[ClientError] = []
        for gateway in gateways:
            try:
                return self._ask(cid, gateway)
            except ClientError as error:
                errors.append(error)
        raise min(errors, key=_is_missing)

    def _ask(self, cid: CID, gateway: str) -> bytes:
        if not gateway:
            return self._provider.own_block(cid)
        return self._provider.gateway_block(cid, gateway)

    # Whether its answers prove anything

    def find_verdict(self, others: Sequence[BaseProvider] = ()) -> Verdict:
        """Test whether the provider sends only what it has, and remember the verdict.

        It is asked for two well-known public CIDs, and for the roots of pins that `others` have and
        it does not list. If it sends such a root, or if there is none, a new block is stored at one
        of the others that is on the network, and removed again: only a provider that fetches what
        it lacks sends that one. If no other takes the new block, the root decides. A list that has
        a made-up CID counts for nothing. A local store needs no test.

        Raise NetworkError or ProviderError if the provider does not answer.
        """
        others = [other.stored for other in others]
        reasons: dict[str, str] = {}
        if not self._gateways:
            reasons[""] = (
                f"{self._provider.title} has no gateway that shows what it has itself: name one "
                "that fetches nothing as `witness`"
            )
        elif self._provider.supports("gateway_block"):
            self._believes_list = True
            self._believes_list = not self._lists(CID.of_raw(secrets.token_bytes(32)))
            roots = self._unlisted_roots(others)
            for gateway in self._gateways:
                reasons[gateway] = self._test(gateway, roots, others)
        passed = [gateway for gateway in self._gateways if not reasons.get(gateway)]
        reason = "" if passed else next(iter(reasons.values()))
        marks = " ".join(map(gateway_mark, passed or self._gateways))
        self.verdict = Verdict(bool(passed), reason, marks, now_ms())
        return self.verdict

    def _test(self, gateway: str, roots: Sequence[CID], others: Iterable[BaseProvider]) -> str:
        """Return why a gateway, or the RPC, is no witness; "" if it is one."""
        if reason := self._objection(WELL_KNOWN, gateway):
            return reason
        reason = self._objection(roots, gateway)
        if reason or not roots:
            # It may have such a root as a part of something else, or not be rid of it yet.
            for other in others:
                if other.is_on_network() and (new := _store_block(other)):
                    try:
                        return self._objection([CID.parse(new)], gateway)
                    finally:
                        _remove_block(other, new)
        return reason

    def _objection(self, cids: Iterable[CID], gateway: str) -> str:
        """Return what is wrong if one of `cids` comes that the provider does not list; else ""."""
        host = urlsplit(gateway).netloc or "its RPC"
        for cid in cids:
            try:
                self._ask(cid, gateway)
            except NotOwnReplyError:
                pass
            except RequestTimeoutError as error:
                if not error.sent:
                    raise
            except RefusedError as error:
                # Its own text may have the whole address in it.
                return f"{host} cannot be asked for blocks: {error.reason or 'it sends none'}"
            except (NotFoundError, VerificationError):  # a made-up reply is none
                continue
            if not self._lists(cid):  # it may just have been pinned
                unlisted = f"{cid}, which {self._provider.title} does not list"
                return f"{host} does not refuse {unlisted}: it may fetch what it lacks"
        return ""

    def _lists(self, cid: CID) -> bool:
        """Return whether the provider lists a pin of `cid`, if its list is believed."""
        return self._believes_list and find_pin(self._provider, str(cid)) is not None

    def _unlisted_roots(self, others: Iterable[BaseProvider]) -> list[CID]:
        """Return the roots of a few pins of `others` that the provider does not list."""
        candidates: list[CID] = []
        for other in others:
            with suppress(ClientError):  # it may be down, which says nothing about this one
                pins = other.find_pins(PinFilter(), limit=LOOKED_AT)
                candidates += [CID.parse(pin.cid) for pin in pins]
        RANDOM.shuffle(candidates)
        roots: list[CID] = []
        for cid in candidates:
            is_usual = cid == EMPTY_DIRECTORY or inline_block(cid) is not None
            if len(roots) < FOREIGN and not is_usual and not self._lists(cid):
                roots.append(cid)
        return roots


def _store_block(provider: BaseProvider) -> str:
    """Store a new block at `provider`; return its CID, or "" if it is not taken."""
    with suppress(ClientError):
        return provider.put_json(f'"{secrets.token_hex(32)}"', name="holdfast-proof")
    return ""


def _remove_block(provider: BaseProvider, cid: str) -> None:
    try:
        provider.delete(cid)
    except ClientError as error:
        logger.warning("%s keeps %s, a test: %s", provider.title, cid, error)


def gateway_mark(gateway: str) -> str:
    """Return what a verdict calls a gateway. Its path may have a key in it, so that is hashed."""
    return gateway and hashlib.sha256(gateway.encode()).hexdigest()[:16]


def _is_missing(outcome: object) -> bool:
    """Return whether an error says for sure that a block is not there."""
    is_unproven = isinstance(outcome, UnprovenError)
    return isinstance(outcome, NotFoundError | VerificationError) and not is_unproven


def witness_urls(config: ClientConfig) -> tuple[str, ...]:
    """Return the gateways that may show what the provider of `config` has, without repeats.

    Example:
        >>> witness_urls(ClientConfig(provider="cluster"))
        ('http://127.0.0.1:8080/ipfs',)
        >>> witness_urls(ClientConfig(provider="pinning", provider_token="x"))
        ()
    """
    if config.provider_options.get("network") == "private":
        return ()  # its gateways send private content by signed links alone
    sites = {site_of(url) for url in config.api_urls}
    own = (url for url in config.gateway_urls if site_of(url) in sites)
    urls = dict.fromkeys((*(config.witness or ()), *own))
    return tuple(url for url in urls if url not in PUBLIC_GATEWAYS)

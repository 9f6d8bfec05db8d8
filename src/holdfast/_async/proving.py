"""Proofs that a provider has content itself: random blocks of it, which only the provider sends.

A pin in a list proves nothing, and neither does a gateway that fetches what it lacks. So a provider
is asked for blocks in a way that fetches nothing, and `find_verdict` first tests that way: nothing
may come that the provider does not have.
"""

import logging
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from random import SystemRandom
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from holdfast import registry
from holdfast._async.providers.base import AsyncBaseProvider, ignore
from holdfast._async.providers.http import GATEWAY_TIMEOUT
from holdfast._async.reads.state import CachedReplyError, RefusedError
from holdfast._async.runtime import run_blocking, together
from holdfast.config import ClientConfig
from holdfast.content.blocks import BlockCache, inline_block
from holdfast.content.budgets import BLOCKS_AT_ONCE, MAX_CACHED
from holdfast.content.car import Block
from holdfast.content.cid import CID
from holdfast.content.reference import Reference
from holdfast.content.sampling import DEFAULT_SAMPLE, Sample, SamplePicker
from holdfast.content.unixfs.walks import NodeWalk
from holdfast.disk.seen_cids import SpilledCIDs
from holdfast.errors import (
    ClientError,
    NotFoundError,
    ProviderError,
    RequestTimeoutError,
    UnprovenError,
    VerificationError,
)
from holdfast.protocol.host_privacy import WORLD, privacy, site_of
from holdfast.protocol.http import RETRIED
from holdfast.records import PinFilter, PinInfo, ProofState
from holdfast.sources.sources import open_source

SizedCID: TypeAlias = tuple[CID, int]

MOST_MISSING: Final = 1000  # missing blocks after which no others are asked for
# Content that very many gateways have or find, and hardly anybody pins.
WELL_KNOWN: Final = (
    "bafybeiaysi4s6lnjev27ln5icwm6tueaw2vdykrtjkwiphwekaywqhcjze",  # Wikipedia in English
    "QmSnuWmxptJZdLJpKRarxBMS2Ju2oANVrgbr2xWbie9b2D",  # photographs of the Apollo missions
)
# Every Kubo has it from its start, and most list it.
EMPTY_DIRECTORY: Final = CID.parse("QmUNLLsPACCz1vLxQVkXqqLX5R1X345qqfHbsf67hvA3Nn")
FOREIGN: Final = 3  # blocks of others that a witness must not have
LOOKED_AT: Final = 32  # pins of each of the others that are compared
PUBLIC_GATEWAYS: Final = frozenset(
    url
    for row in registry.BUILT_IN.values()
    for url in row.gateways
    if privacy(urlsplit(url).hostname) == WORLD
)
RANDOM: Final = SystemRandom()
log = logging.getLogger("holdfast")


@dataclass(frozen=True, slots=True)
class CopyProof:
    """What came of asking a provider for blocks.

    Attributes:
        asked: How many blocks it was asked for, and answered itself.
        missing: Those that it does not have, or sent with other bytes; at most `MOST_MISSING`.
        how: Where they were asked for: ``store``, ``rpc`` or the host of a gateway; "" if the
            provider cannot be asked.
        reason: One sentence: why nothing is proven, or what is wrong with the blocks; else "".
        is_empty: Whether the content has no blocks, because all of it is in the CID.
    """

    asked: int = 0
    missing: tuple[CID, ...] = ()
    how: str = ""
    reason: str = ""
    is_empty: bool = False

    @property
    def note(self) -> str:
        """Why nothing is proven, and what to do about missing blocks; "" if all is proven."""
        if self.missing:
            counts = f"{len(self.missing)} of {self.asked} blocks are not there"
            words = f"{counts} ({self.reason})" if self.reason else counts
            return f"{words}: unpin it there and send it again"
        return "" if self.state == "proven" else self.reason or "no block of it is in the sample"

    @property
    def state(self) -> ProofState:
        """``proven`` if all blocks came, ``missing`` if not; ``claimed`` if none was asked for."""
        if self.missing:
            return "missing"
        return "proven" if self.how and (self.asked or self.is_empty) else "claimed"

    def plus(self, other: "CopyProof") -> "CopyProof":
        """Return the sum of this proof and another one, of other blocks."""
        return CopyProof(
            self.asked + other.asked,
            (*self.missing, *other.missing)[:MOST_MISSING],
            other.how,
            self.reason or other.reason,
        )


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a provider can prove what it has. It is good for a day.

    Attributes:
        is_witness: Whether it, or its gateway, sends only what the provider has.
        reason: One sentence: why not; "" for a witness.
        checked_at: When that was tested, in seconds since 1970.
        gateway: The addresses of the gateways that passed the test, separated by spaces; "" if no
            gateway is needed.
    """

    is_witness: bool
    reason: str = ""
    checked_at: float = 0.0
    gateway: str = ""


async def dag_cids(provider: AsyncBaseProvider, root: CID) -> AsyncGenerator[list[SizedCID]]:
    """Yield the CIDs and sizes of all blocks below `root`, each once, in lists.

    Only the blocks that may have links are read from `provider`, each verified. A size is that of
    the block, or what the link to it says; 0 if that is nothing. Blocks in identity CIDs are left
    out. Each list is a call of its own, so no time runs while the caller works on it.
    """
    reference = Reference(str(root), root)
    seen = SpilledCIDs()
    try:
        walk = NodeWalk(root, seen)
        cache = BlockCache(MAX_CACHED)
        blocks = None
        while walk.need is not None:
            nodes: list[SizedCID] = []

            def take(page: list[Block], nodes: list[SizedCID] = nodes) -> None:
                nodes.extend((cid, len(block)) for cid, block in page)

            async with provider.call("proof", str(root)) as call:
                blocks = blocks or provider.reader.blocks(reference, call)
                blocks.continue_in(call)
                await blocks.advance(walk, cache, take)
            leaves, walk.leaves = walk.leaves, []
            yield nodes + leaves
        if walk.leaves:  # the root has no links
            yield walk.leaves
    finally:
        await run_blocking(seen.close)


class AsyncProver:
    """Asks one provider for blocks that it has itself. It never asks anybody else.

    A local store and Kubo are asked directly. Any other provider is asked through a gateway of the
    same site as its API, or one of the `witness` gateways; the default public gateways are never
    asked, and no gateway gets a token of the API.

    Args:
        provider: The provider.
        witnesses: Addresses of gateways, besides the `witness` of its configuration.
        verdict: What `find_verdict` returned before, if that is less than a day ago.

    Attributes:
        verdict: Whether its answers prove anything; None if that is not tested yet.

    Example:
        >>> from holdfast import AsyncLocalProvider
        >>> from holdfast.config import ClientConfig
        >>> provider = AsyncLocalProvider(ClientConfig(path="store"))
        >>> proof = await AsyncProver(provider).prove([CID.of_raw(b"not in this store")])
        >>> proof.state, proof.how, len(proof.missing)
        ('missing', 'store', 1)
    """

    def __init__(
        self,
        provider: AsyncBaseProvider,
        *,
        witnesses: Iterable[str] = (),
        verdict: Verdict | None = None,
    ) -> None:
        self._provider = provider = provider.stored
        self._is_direct = provider.supports("own_block")
        self._is_http = provider.supports("gateway_block")
        self._gateways: tuple[str, ...] = ()
        if not self._is_direct and self._is_http:
            self._gateways = witness_urls(provider.config, witnesses)
        if verdict is not None and not {*verdict.gateway.split()} <= {*self._gateways}:
            verdict = None  # the configuration has changed
        self.verdict: Verdict | None = verdict

    @property
    def how(self) -> str:
        """Where the provider is asked: ``store``, ``rpc`` or the host of a gateway; "" if not."""
        if self._is_direct:
            return "rpc" if self._is_http else "store"
        gateways = self.verdict.gateway.split() if self.verdict else self._gateways
        return urlsplit(next(iter(gateways), "")).netloc

    # Blocks that the provider has

    async def prove(self, cids: Iterable[CID]) -> CopyProof:
        """Ask for all of `cids`, several at the same time.

        Without a verdict, one is first found with the well-known CIDs alone.

        Raise NetworkError or ProviderError if the provider does not answer.
        """
        verdict = self.verdict or await self.find_verdict()
        if not verdict.is_witness:
            return CopyProof(reason=verdict.reason)
        missing: list[CID] = []
        asked, reason = 0, ""
        pending = [cid for cid in cids if inline_block(cid) is None]
        while pending and len(missing) < MOST_MISSING:
            batch, pending = pending[:BLOCKS_AT_ONCE], pending[BLOCKS_AT_ONCE:]
            outcomes = await together([partial(self._find, cid, verdict) for cid in batch])
            for cid, outcome in zip(batch, outcomes, strict=True):
                if isinstance(outcome, CachedReplyError | RefusedError):
                    reason = str(outcome)
                    continue
                asked += 1
                if isinstance(outcome, NotFoundError | VerificationError):
                    missing.append(cid)
                    reason = reason if isinstance(outcome, NotFoundError) else str(outcome)
                elif isinstance(outcome, Exception):
                    raise outcome
        return CopyProof(asked, tuple(missing), self.how, reason)

    async def prove_dag(
        self,
        source: AsyncBaseProvider,
        root: CID,
        sample: Sample = DEFAULT_SAMPLE,
        *,
        random: Callable[[], float] = RANDOM.random,
        asked: set[CID] | None = None,
    ) -> CopyProof:
        """Ask for a sample of the blocks below `root`, whose links are read from `source`.

        Blocks that were `asked` for before are asked for again only if there are no others. Those
        of this sample are added, unless it is a part of all blocks.
        """
        asked = set() if asked is None else asked
        verdict = self.verdict or await self.find_verdict()
        if not verdict.is_witness:
            return CopyProof(reason=verdict.reason)
        picker = SamplePicker(sample, random, asked)
        proof = CopyProof(how=self.how)
        async with aclosing(dag_cids(source, root)) as pages:
            async for page in pages:
                if chosen := picker.add(page):
                    proof = proof.plus(await self.prove(chosen))
        chosen = picker.rest()
        asked.update(chosen)
        proof = proof.plus(await self.prove(chosen))
        if not picker.count:
            return CopyProof(how=self.how, is_empty=True)
        return proof

    async def _find(self, cid: CID, verdict: Verdict) -> bytes:
        """Return a block from the first gateway that has it: each peer of a cluster has a part.

        If none has it, raise an error that leaves it open whether another one has, if there is one.
        """
        errors: list[ClientError] = []
        for gateway in verdict.gateway.split() or [""]:
            try:
                return await self._ask(cid, gateway)
            except ClientError as error:
                errors.append(error)
        raise min(errors, key=_certainty)

    async def _ask(self, cid: CID, gateway: str) -> bytes:
        if self._is_direct:
            return await self._provider.own_block(cid)
        return await self._provider.gateway_block(cid, gateway)

    # Whether its answers prove anything

    async def find_verdict(self, others: Sequence[AsyncBaseProvider] = ()) -> Verdict:
        """Test whether the provider sends only what it has, and remember the verdict.

        It is asked for the roots of pins that `others` have and it does not list, and for two
        well-known public CIDs. If there is no such pin, a new block is stored at one of the others
        that is on the network, and removed again. A provider that sends one of these blocks fetches
        what it lacks, so it proves nothing. A local store needs no test.

        Raise NetworkError or ProviderError if the provider does not answer.
        """
        self.verdict = await self._find_verdict([other.stored for other in others])
        if not self.verdict.is_witness:
            log.info("%s proves nothing: %s", self._provider.title, self.verdict.reason)
        return self.verdict

    async def _find_verdict(self, others: Sequence[AsyncBaseProvider]) -> Verdict:
        title = self._provider.title
        now = time.time()
        if self._is_direct and not self._is_http:
            return Verdict(is_witness=True, checked_at=now)
        if not self._is_direct and not self._gateways:
            words = (
                f"{title} has no gateway that shows what it has itself: name one that fetches "
                "nothing as `witness`"
            )
            return Verdict(is_witness=False, reason=words, checked_at=now)
        reasons: dict[str, str] = {}
        async with self._foreign_blocks(others) as foreign:
            for gateway in self._gateways or ("",):
                reasons[gateway] = await self._objection(gateway, foreign)
        passed = [gateway for gateway, reason in reasons.items() if not reason]
        if passed:
            return Verdict(is_witness=True, checked_at=now, gateway=" ".join(passed))
        return Verdict(is_witness=False, reason=next(iter(reasons.values())), checked_at=now)

    async def _objection(self, gateway: str, foreign: Iterable[CID]) -> str:
        """Return why a gateway, or the RPC, is no witness; "" if it is one."""
        host = urlsplit(gateway).netloc or "its RPC"
        for cid in foreign:
            try:
                if not await self._sends(cid, gateway):
                    continue
            except RefusedError as error:
                return f"{host} cannot be asked for blocks: {error.reason or error}"
            except RequestTimeoutError as error:
                if not error.sent:
                    raise
                return f"{host} does not answer in time when it lacks a block"
            except ProviderError as error:
                if error.status in RETRIED - GATEWAY_TIMEOUT:
                    raise
                return f"{host} does not say whether it has a block: {error}"
            if not await self._lists(cid):  # it may just have been pinned
                title = self._provider.title
                return f"{host} sends {cid}, which {title} does not list: it may fetch anything"
        return ""

    async def _sends(self, cid: CID, gateway: str) -> bool:
        """Return whether a block comes, be it from a cache. A made-up reply is none."""
        try:
            await self._ask(cid, gateway)
        except CachedReplyError:
            return True
        except RefusedError:
            raise
        except (NotFoundError, VerificationError):
            return False
        return True

    async def _lists(self, cid: CID) -> bool:
        """Return whether the provider lists a pin of `cid`."""
        if not self._provider.supports("find_pins"):
            return False
        pins = self._provider.find_pins(PinFilter(cid=str(cid)), limit=1)
        return bool([pin async for pin in pins])

    @asynccontextmanager
    async def _foreign_blocks(
        self, others: Sequence[AsyncBaseProvider]
    ) -> AsyncIterator[list[CID]]:
        """Give blocks that others have and the provider does not."""
        public = [cid for cid in map(CID.parse, WELL_KNOWN) if not await self._lists(cid)]
        foreign = await self._unlisted_roots(others)
        if foreign:
            yield [*foreign, *public]
            return
        for other in others:
            if not (other.is_on_network() and other.supports("put_file")):
                continue
            try:
                source = await run_blocking(open_source, secrets.token_bytes(64))
                added = await other.put(source, PinInfo(name="holdfast-proof"), ignore)
            except ClientError as error:
                log.info("%s takes no block for a test: %s", other.title, error)
                continue
            try:
                yield [CID.parse(added.cid), *public]
            finally:
                await other.delete(added.cid)
            return
        yield public

    async def _unlisted_roots(self, others: Iterable[AsyncBaseProvider]) -> list[CID]:
        """Return the roots of a few pins of `others` that the provider does not list."""
        roots: list[CID] = []
        if not self._provider.supports("find_pins"):
            return roots
        for other in others:
            if len(roots) == FOREIGN or not other.supports("find_pins"):
                continue
            try:
                pins = [pin async for pin in other.find_pins(PinFilter(), limit=LOOKED_AT)]
            except ClientError as error:  # it may be down, which says nothing about this one
                log.info("%s does not list its pins: %s", other.title, error)
                continue
            RANDOM.shuffle(pins)
            for pin in pins:
                cid = CID.parse(pin.cid)
                is_usual = cid == EMPTY_DIRECTORY or inline_block(cid) is not None
                if len(roots) < FOREIGN and not is_usual:
                    roots += [] if await self._lists(cid) else [cid]
        return roots


def _certainty(error: ClientError) -> int:
    """Return how sure it is that the block is not there: 0 if it may be."""
    if isinstance(error, VerificationError) and not isinstance(error, UnprovenError):
        return 1
    return 2 if isinstance(error, NotFoundError) else 0


def witness_urls(config: ClientConfig, named: Iterable[str] = ()) -> tuple[str, ...]:
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
    urls = dict.fromkeys((*named, *(config.witness or ()), *own))
    return tuple(url for url in urls if url not in PUBLIC_GATEWAYS)

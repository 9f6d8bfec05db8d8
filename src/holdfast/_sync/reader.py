# WARNING: this file is generated from src/holdfast/_async/reader.py
# by scripts/generate_sync.py. Change the original instead.
"""Reading content through gateways: one after the other, until one sends what the CID names."""

import logging
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from holdfast._sync.runtime import now, run_blocking
from holdfast._sync.session import Session, read_whole
from holdfast.content.proof import Proof, block_proof, is_raw
from holdfast.content.reference import Reference
from holdfast.errors import (
    ClientError,
    NetworkError,
    NotAFileError,
    ProviderError,
    SerializationError,
    VerificationError,
)
from holdfast.files.sinks import Sink
from holdfast.protocol.gateway import MAX_REDIRECTS, REDIRECTS, Gateway, too_many_redirects
from holdfast.protocol.http import Reply
from holdfast.provider import Progress

if TYPE_CHECKING:
    from holdfast._sync.transport import Response

logger = logging.getLogger("holdfast")

# What a gateway's words or bytes alone can bring about; another gateway may know better.
FROM_OUTSIDE = (VerificationError, NotAFileError, SerializationError)

MAX_DIGITS = 18  # of a Content-Length that can be true
BATCH_SIZE = 1 << 20  # one hop to a worker thread writes and hashes this much


class Reader:
    """Fills a sink with the content of a reference, proven where that is possible already."""

    def __init__(self, session: Session, gateways: Iterable[Gateway], *, verify: bool) -> None:
        self._session = session
        self._gateways = tuple(gateways)
        self._verify = verify

    def read(
        self,
        reference: Reference,
        sink: Sink,
        *,
        progress: Progress | None = None,
        deadline: float | None = None,
    ) -> str:
        """Fill `sink` from the first gateway that has the content; return its media type.

        When all have failed, the gravest failure is raised and the others are its notes.
        """
        failures: list[tuple[Gateway, ClientError]] = []
        for number, gateway in enumerate(self._gateways):
            share = _share(deadline, len(self._gateways) - number)
            try:
                return self._read_from(gateway, reference, sink, progress=progress, deadline=share)
            except (NetworkError, ProviderError, *FROM_OUTSIDE) as error:
                failures.append((gateway, error))
                run_blocking(sink.restart)
        raise _gravest(failures)

    def _proof(self, reference: Reference) -> Proof | None:
        return block_proof(reference) if self._verify and is_raw(reference) else None

    def _read_from(
        self,
        gateway: Gateway,
        reference: Reference,
        sink: Sink,
        *,
        progress: Progress | None,
        deadline: float | None,
    ) -> str:
        proof = self._proof(reference)
        request = gateway.content(reference)
        for _ in range(MAX_REDIRECTS + 1):
            with self._session.stream(request, deadline=deadline) as response:
                reply = Reply(response.status, response.headers)
                if reply.status in REDIRECTS:
                    request = gateway.redirected(request, reply, reference)
                    continue
                gateway.check(reply if reply.ok else read_whole(response))
                _pour(response, sink, proof, progress)
                if self._verify and proof is None:
                    _warn_unproven(reference)
                return response.headers.get("content-type", "")
        raise too_many_redirects(request)


def _pour(response: "Response", sink: Sink, proof: Proof | None, progress: Progress | None) -> None:
    """Write the body into `sink`; return when it is whole and right."""
    length = response.headers.get("content-length", "")
    total = int(length) if length.isdecimal() and len(length) <= MAX_DIGITS else None
    done = 0
    for batch in _batches(response):
        run_blocking(_write, batch, sink, proof)
        done += len(batch)
        if progress is not None:
            progress(done, total)
    if proof is not None:
        proof.finish()


def _batches(response: "Response") -> Iterator[bytes]:
    """The body in pieces of at least `BATCH_SIZE`, and what is left: an empty body gives one."""
    batch = bytearray()
    for chunk in response.chunks():
        batch += chunk
        if len(batch) >= BATCH_SIZE:
            yield bytes(batch)
            batch.clear()
    yield bytes(batch)


def _write(data: bytes, sink: Sink, proof: Proof | None) -> None:
    if proof is not None:
        proof.update(data)
    sink.write(data)


def _warn_unproven(reference: Reference) -> None:
    logger.warning(
        "%s was read unproven: this version proves raw CIDs only",
        reference,
        extra={"cid": str(reference)},
    )


def _share(deadline: float | None, parts: int) -> float | None:
    """A fair part of the time that is left: a gateway that hangs does not use up the others'."""
    return None if deadline is None else now() + (deadline - now()) / parts


def _gravest(failures: list[tuple[Gateway, ClientError]]) -> ClientError:
    """Wrong bytes before an HTTP error before no answer; of equals, the last."""
    ranks = (*FROM_OUTSIDE, ProviderError, ClientError)
    order = [
        next(rank for rank, kind in enumerate(ranks) if isinstance(error, kind))
        for _, error in failures
    ]
    chosen = max(position for position, rank in enumerate(order) if rank == min(order))
    error = failures[chosen][1]
    for position, (gateway, other) in enumerate(failures):
        if position != chosen:
            error.add_note(f"{gateway.base_url}: {other.name}: {other.message}")
    return error

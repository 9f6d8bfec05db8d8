"""Pinning by CID: from the blocks that are here, else in the background from other gateways."""

import logging
import threading
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from queue import Empty, Full, Queue
from typing import Any

from holdfast._sync.transport import Transport
from holdfast.config import ClientConfig
from holdfast.content.car import CarReader
from holdfast.content.cid import CID
from holdfast.errors import ClientError
from holdfast.limits import Timeouts
from holdfast.node.metadata import Metadata
from holdfast.protocol.http import Request
from holdfast.records import now_ms
from holdfast.repository import Repository

logger = logging.getLogger("holdfast.node")

MAX_JOBS = 1000
END_SECONDS = 0.5  # for a worker that waits for a gateway


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Something that is to be pinned, and how far that is."""

    cid: str
    metadata: Metadata
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    status: str = "prechecking"
    queued: int = field(default_factory=now_ms)


class Jobs:
    """The jobs of a node, newest last. One that succeeds is gone: its pin is there."""

    def __init__(self, repository: Repository, gateways: tuple[str, ...]) -> None:
        self._repository = repository
        self._gateways = gateways
        self._jobs: dict[str, Job] = {}
        self._lock = threading.Lock()
        self._queue: Queue[tuple[Job, CID] | None] = Queue(MAX_JOBS)  # None is the end of a worker
        self._transport = Transport(ClientConfig())
        # Daemons: a gateway that does not answer must not hold up the end of the process.
        self._workers = [
            threading.Thread(target=self._work, name="holdfast-pin", daemon=True) for _ in range(2)
        ]
        for worker in self._workers:
            worker.start()

    def add(self, cid: CID, metadata: Metadata) -> Job:
        """Begin to pin `cid`."""
        job = Job(cid=str(cid), metadata=metadata)
        with self._lock:
            self._jobs[job.id] = job
            while len(self._jobs) > MAX_JOBS:
                del self._jobs[next(iter(self._jobs))]
        try:
            self._queue.put_nowait((job, cid))
        except Full:
            self._set(job, "expired")
        return job

    def _work(self) -> None:
        while (task := self._queue.get()) is not None:
            job, cid = task
            try:
                self._run(job, cid)
            except Exception:
                logger.exception("pinning %s failed", cid)
                self._set(job, "expired")

    def all(self) -> list[Job]:
        """The jobs that are under way or have failed."""
        with self._lock:
            return list(self._jobs.values())

    def _run(self, job: Job, cid: CID) -> None:
        about = {"name": job.metadata.name, "keyvalues": job.metadata.keyvalues}
        try:
            self._repository.pin(cid, **about)
        except ClientError:
            if not self._retrieve(job, cid, about):
                self._set(job, "expired")
                return
        with self._lock:
            self._jobs.pop(job.id, None)

    def _retrieve(self, job: Job, cid: CID, about: dict[str, Any]) -> bool:
        self._set(job, "retrieving")
        for gateway in self._gateways:
            try:
                with self._repository.adding() as adding:
                    for block_cid, data in _blocks(self._transport, gateway, cid):
                        adding.put(block_cid, data)
                    adding.flush()
                    self._repository.pin(cid, **about)
            except ClientError:
                continue
            return True
        return False

    def _set(self, job: Job, status: str) -> None:
        with self._lock:
            if job.id in self._jobs:
                self._jobs[job.id] = replace(job, status=status)

    def close(self) -> None:
        """Stop; what is under way is given up. A second time does nothing."""
        with suppress(Empty):
            while True:
                self._queue.get_nowait()
        for _ in self._workers:
            self._queue.put_nowait(None)
        self._transport.close()
        for worker in self._workers:
            worker.join(END_SECONDS)


def _blocks(transport: Transport, gateway: str, cid: CID) -> Iterator[tuple[CID, bytes]]:
    """The blocks of a DAG from a gateway's archive, each one checked."""
    url = f"{gateway.rstrip('/')}/{cid}?format=car"
    request = Request("GET", url, {"Accept": "application/vnd.ipld.car;version=1;dups=n"})
    reader = CarReader()
    response = transport.send(request, timeouts=Timeouts())
    try:
        if response.status != 200:
            return
        for chunk in response.chunks():
            yield from reader.update(chunk)
    finally:
        response.close()
    reader.finish()

"""Pin by CID in the background: from the blocks in the repository, else from other gateways."""

import logging
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from queue import Empty, Full, Queue
from typing import Any

from holdfast._sync.transport import Transport
from holdfast.config import ClientConfig
from holdfast.content.cid import CID
from holdfast.errors import ClientError
from holdfast.node.pinning_api.dag_download import TooLargeError, fetch_blocks
from holdfast.node.pinning_api.metadata import PinMetadata
from holdfast.records import now_ms
from holdfast.repository import Repository
from holdfast.repository.adding import Adding

logger = logging.getLogger("holdfast.node")

MAX_JOBS = 1000
END_SECONDS = 0.5  # to wait for each worker when the node stops


@dataclass(frozen=True, slots=True, kw_only=True)
class PinJob:
    """A CID to pin, and the status of that. Its id becomes the id of the pin."""

    cid: str
    metadata: PinMetadata
    group_id: str | None = None
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    status: str = "prechecking"
    queued: int = field(default_factory=now_ms)


class PinJobs:
    """The jobs of a node, newest last. A job is removed when its pin exists."""

    def __init__(
        self, repository: Repository, gateways: tuple[str, ...], *, max_bytes: int
    ) -> None:
        self._repository = repository
        self._gateways = gateways
        self._max_bytes = max_bytes
        self._ending = threading.Event()
        self._open: set[Adding] = set()
        self._jobs: dict[str, PinJob] = {}
        self._lock = threading.Lock()
        self._queue: Queue[tuple[PinJob, CID] | None] = Queue(MAX_JOBS)  # None ends a worker
        self._transport = Transport(ClientConfig())
        # Daemons, so that a gateway that does not reply cannot delay the end of the process.
        self._workers = [
            threading.Thread(target=self._work, name="holdfast-pin", daemon=True) for _ in range(2)
        ]
        for worker in self._workers:
            worker.start()

    def add(self, cid: CID, metadata: PinMetadata) -> PinJob:
        """Start to pin `cid`."""
        job = PinJob(cid=str(cid), metadata=metadata)
        self.start(job)
        return job

    def start(self, job: PinJob) -> None:
        """Start a job."""
        with self._lock:
            self._jobs[job.id] = job
            while len(self._jobs) > MAX_JOBS:
                del self._jobs[next(iter(self._jobs))]
        try:
            self._queue.put_nowait((job, CID.parse(job.cid)))
        except Full:
            self._set(job, "expired")

    def cancel(self, id: str) -> bool:
        """Remove a job; return whether there was one. If it is being retrieved, it may complete."""
        with self._lock:
            return self._jobs.pop(id, None) is not None

    def _work(self) -> None:
        while (task := self._queue.get()) is not None:
            job, cid = task
            try:
                self._run(job, cid)
            except Exception:
                logger.exception("pinning %s failed", cid)
                self._set(job, "expired")

    def find(self, *, status: str | None, cid: CID | None, newest_first: bool) -> list[PinJob]:
        """Return the jobs that are under way or have failed, of one status or one CID if given."""
        with self._lock:
            jobs = list(self._jobs.values())
        if newest_first:
            jobs.reverse()
        return [
            job
            for job in jobs
            if status in (None, job.status) and cid in (None, CID.parse(job.cid))
        ]

    def _run(self, job: PinJob, cid: CID) -> None:
        about = {"id": job.id, "name": job.metadata.name, "keyvalues": job.metadata.keyvalues}
        if not self._is_wanted(job):
            return
        try:
            self._repository.pin(cid, **about)
        except ClientError:
            status = self._retrieve(job, cid, about)
            if status is not None:
                self._set(job, status)
                return
        with self._lock:
            self._jobs.pop(job.id, None)

    def _retrieve(self, job: PinJob, cid: CID, about: dict[str, Any]) -> str | None:
        """Fetch and pin `cid` from the first gateway that has it; return the status if none has."""
        self._set(job, "retrieving")
        for gateway in self._gateways:
            try:
                with self._adding() as adding:
                    for block_cid, data in fetch_blocks(
                        self._transport,
                        gateway,
                        cid,
                        max_bytes=self._max_bytes,
                        ended=self._ending.is_set,
                    ):
                        adding.put(block_cid, data)
                    adding.flush()
                    if self._is_wanted(job):
                        self._repository.pin(cid, **about)
            except TooLargeError:
                return "over_max_size"
            except ClientError:
                continue
            return None
        return "expired"

    @contextmanager
    def _adding(self) -> Iterator[Adding]:
        """Open an add that `close` ends too, so that its blocks can be collected as garbage."""
        with self._repository.adding() as adding:
            self._open.add(adding)
            try:
                yield adding
            finally:
                self._open.discard(adding)

    def _is_wanted(self, job: PinJob) -> bool:
        """Return whether a job was not cancelled."""
        with self._lock:
            return job.id in self._jobs

    def _set(self, job: PinJob, status: str) -> None:
        with self._lock:
            if job.id in self._jobs:
                self._jobs[job.id] = replace(job, status=status)

    def close(self) -> None:
        """Stop the workers and abandon their jobs. A second call does nothing."""
        self._ending.set()
        with suppress(Empty):
            while True:
                self._queue.get_nowait()
        for _ in self._workers:
            self._queue.put_nowait(None)
        self._transport.close()
        for worker in self._workers:
            worker.join(END_SECONDS)
        # A worker that still waits for its gateway does not continue: it is a daemon.
        for adding in list(self._open):
            with suppress(ClientError):
                adding.close()

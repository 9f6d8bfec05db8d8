"""Pin by CID in the background: from the blocks in the repository, else from other gateways."""

import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from queue import Empty, Queue
from typing import Any, Final, TypeAlias

from holdfast._sync.dag_export import DagExport
from holdfast._sync.reads.gateway_reader import GatewayReader
from holdfast._sync.session import Session
from holdfast._sync.transport import Transport
from holdfast.calls import Call
from holdfast.config import ClientConfig
from holdfast.content.car import Block
from holdfast.content.cid import CID
from holdfast.content.reference import Reference
from holdfast.errors import ClientError, ProviderError
from holdfast.node.client_values import read_cid
from holdfast.node.http_server.refusals import Refusal, logger
from holdfast.protocol.gateway import Gateway
from holdfast.protocol.peer_set import PeerSet
from holdfast.records import now_ms
from holdfast.repository import Repository

# Download the blocks of one DAG from gateways, as a client does: as an archive, or one by one.

MAX_BLOCKS: Final = 500_000  # blocks of one DAG
OVERHEAD: Final = 100  # bytes that count for a block besides its content


class DagTooLargeError(ProviderError):
    """The DAG is larger than the node accepts."""


class DagDownload:
    """Downloads DAGs from `gateways`, which are asked in order."""

    def __init__(self, gateways: tuple[str, ...]) -> None:
        config = ClientConfig()
        self._transport = Transport(config)
        session = Session(self._transport, config)
        peers = PeerSet([Gateway(url.rstrip("/")) for url in gateways], session.avoided)
        self._reader = GatewayReader(session, peers, config)

    def blocks(self, cid: CID, *, max_bytes: int, ended: Callable[[], bool]) -> Iterator[Block]:
        """Yield the blocks of the DAG under `cid`, each once.

        Raise a `ClientError` if no gateway has them, or they are too many, or `ended`.
        """
        count = size = 0
        with closing(DagExport(self._reader, Reference(str(cid), cid))) as export:
            while (page := export.next_page(Call("pin", cid=str(cid)))) is not None:
                if ended():
                    raise ProviderError("The node is stopping")
                count += len(page)
                size += sum(len(data) + OVERHEAD for _, data in page)
                if size > max_bytes or count > MAX_BLOCKS:
                    raise DagTooLargeError(f"{cid} has too many bytes or blocks")
                yield from page

    def close(self) -> None:
        """End all requests."""
        self._transport.close()


Done: TypeAlias = Callable[[], None]

MAX_JOBS = 1000
UNDER_WAY = frozenset({"prechecking", "retrieving"})  # the statuses of jobs that have not failed
END_SECONDS = 0.5  # to wait for each worker when the node stops


@dataclass(frozen=True, slots=True, kw_only=True)
class PinJob:
    """A CID to pin, and the status of that. Its id becomes the id of the pin."""

    cid: str
    name: str = ""
    keyvalues: Mapping[str, Any] = field(default_factory=dict)
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
        self._max_bytes = max_bytes
        self._ending = threading.Event()
        self._jobs: dict[str, PinJob] = {}
        self._lock = threading.Lock()
        self._queue: Queue[tuple[PinJob, Done] | None] = Queue(MAX_JOBS)  # None ends a worker
        self._download = DagDownload(gateways) if gateways else None
        # Daemons, so that a gateway that does not reply cannot delay the end of the process.
        self._workers = [
            threading.Thread(target=self._work, name="holdfast-pin", daemon=True) for _ in range(2)
        ]
        for worker in self._workers:
            worker.start()

    def start(self, job: PinJob, done: Done = lambda: None) -> None:
        """Start a job; call `done` when its content is pinned.

        If there are too many, the oldest that has failed is removed. Raise a `Refusal` if none has.
        """
        with self._lock:
            if len(self._jobs) >= MAX_JOBS:
                failed = (one.id for one in self._jobs.values() if one.status not in UNDER_WAY)
                self._jobs.pop(next(failed, ""), None)
            if len(self._jobs) >= MAX_JOBS or self._queue.full():
                text = f"{MAX_JOBS} pins wait for their content; try again later, or cancel some"
                raise Refusal(503, text, {"Retry-After": "60"})
            self._jobs[job.id] = job
            self._queue.put_nowait((job, done))

    def cancel(self, id: str) -> bool:
        """Remove a job; return whether there was one. Its content is not pinned any more."""
        with self._lock:
            return self._jobs.pop(id, None) is not None

    def _work(self) -> None:
        while (task := self._queue.get()) is not None:
            job, done = task
            try:
                if self._run(job, CID.parse(job.cid)):
                    done()
            except Exception:  # noqa: BLE001 - logged
                logger.exception("pinning %s failed", job.cid)
                self._set(job, "expired")

    def by_id(self) -> dict[str, PinJob]:
        """Return the jobs that are under way or have failed, by their ids."""
        with self._lock:
            return dict(self._jobs)

    def find(self, *, status: str | None, cid: str | None, order: str | None) -> list[PinJob]:
        """Return the jobs that are under way or have failed, of one status or one CID if given.

        With the order "DESC", the newest is the first.
        """
        key = read_cid(cid).key if cid else None
        jobs = [
            job
            for job in self.by_id().values()
            if (not status or job.status == status) and key in (None, CID.parse(job.cid).key)
        ]
        return jobs[::-1] if (order or "").upper() == "DESC" else jobs

    def _run(self, job: PinJob, cid: CID) -> bool:
        """Pin `cid`; return whether it is pinned and the job was not cancelled."""
        if not self._is_wanted(job):
            return False
        fields = {
            "id": job.id,
            "name": job.name,
            "keyvalues": job.keyvalues,
            "created_ms": job.queued,
        }
        try:
            self._repository.pin(cid, **fields)
        except ClientError:
            status = self._retrieve(job, cid, fields)
            if status is not None:
                self._set(job, status)
                return False
        with self._lock:
            is_wanted = self._jobs.pop(job.id, None) is not None
        if not is_wanted:
            pin = self._repository.find_pin(cid)
            if pin is not None and pin.id == job.id:
                self._repository.unpin(cid)
        return is_wanted

    def _retrieve(self, job: PinJob, cid: CID, fields: dict[str, Any]) -> str | None:
        """Fetch and pin `cid` from the gateways; return the status of the job if that fails."""
        self._set(job, "retrieving")
        if self._download is None:
            return "expired"
        try:
            with self._repository.adding() as adding:
                for block_cid, data in self._download.blocks(
                    cid, max_bytes=self._max_bytes, ended=self._ending.is_set
                ):
                    adding.put(block_cid, data)
                adding.flush()
                if self._is_wanted(job):
                    self._repository.pin(cid, **fields)
        except DagTooLargeError:
            return "over_max_size"
        except ClientError:
            return "expired"
        return None

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
        if self._download is not None:
            self._download.close()
        for worker in self._workers:
            worker.join(END_SECONDS)

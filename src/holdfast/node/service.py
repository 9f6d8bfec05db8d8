"""The service under the node's three APIs: add, find, change and remove files, groups and requests.

A file is a pin of a store, and its details: its group, and when it expires. There are two networks,
each with a store of its own. Content is private if only private files hold it. This follows from
the stores: the gateway and the older APIs read the public one alone, so they cannot return a block
that is in no public file, in whatever form they are asked for it. Content that is uploaded to both
networks is in both stores.

The service waits for the disk: use it on worker threads, but for `StoreQueue`.
"""

import asyncio
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from starlette.concurrency import run_in_threadpool

from holdfast.content.cid import CID
from holdfast.content.profiles import Profile
from holdfast.disk.closing import on_error
from holdfast.disk.folders import Folder
from holdfast.errors import ClientError
from holdfast.node.client_values import merge_keyvalues
from holdfast.node.http_server.refusals import Refusal
from holdfast.node.pin_jobs import MAX_JOBS, PinJob, PinJobs
from holdfast.node.settings import NodeSettings
from holdfast.node.tables import AT_ONCE, Details, PinRequest, Status, Tables
from holdfast.protocol.pinning import FAILURES
from holdfast.records import Pin, now_ms
from holdfast.repository import PinQuery, Repository
from holdfast.repository.adding import NewPin, pin_together
from holdfast.repository.pins import Stopped
from holdfast.sources.importing import import_content

PUBLIC: Final = "public"
PRIVATE: Final = "private"
FOLDER: Final = "private"  # of the second store, in the folder of the first


@dataclass(frozen=True, slots=True)
class File:
    """A file of a network: a pin, and its details."""

    pin: Pin
    details: Details
    network: str
    is_duplicate: bool = False


class Network:
    """One network: its store, and what is known of its files besides."""

    def __init__(self, repository: Repository, name: str) -> None:
        self.repository = repository
        self.name = name
        self.tables: Tables = Tables(repository.path.absolute(), read_only=repository.read_only)

    # Adding

    def pin(
        self, add_pin: Callable[..., tuple[Pin, bool]], cid: CID, details: Details, **fields: Any
    ) -> File:
        """Call `add_pin`, and return the file. Content that has a file already keeps that."""
        id_ = fields.pop("id", None) or str(uuid.uuid4())
        with self.described(id_, cid, details):
            pin, _ = add_pin(cid, id=id_, **fields)
        if pin.id == id_:  # also if a process that was killed had just pinned it
            return File(pin, details, self.name)
        self.tables.put_details(id_, str(cid), Details())
        return self.file(pin, is_duplicate=True)

    def add(self, content: bytes, profile: Profile, details: Details, **fields: Any) -> File:
        """Add a small content."""
        with self.repository.adding() as adding:
            part = import_content(content, profile, adding.put)
            return self.pin(adding.pin, part.cid, details, size=part.dag_size, **fields)

    @contextmanager
    def described(self, id: str, cid: CID, details: Details) -> Iterator[None]:
        """Set the details of a new file before the block pins it; remove them if it fails.

        So no file is ever without its details, even if the process is killed in between.
        """
        if details == Details():  # then a damaged table is in nobody's way
            yield
            return
        self.check_group(details.group_id)
        self.tables.put_details(id, str(cid), details)
        with on_error(lambda: self.tables.put_details(id, str(cid), Details())):
            yield

    def check_group(self, id: str | None) -> None:
        """Raise a `Refusal` unless there is a group `id`; None is no group."""
        if id is not None and self.tables.group(id) is None:
            raise Refusal(404, f"There is no {self.name} group with the id {id[:100]}")

    # Finding

    def find(self, id: str, stopped: Stopped | None = None) -> Pin | None:
        """Return the pin of the file `id`; None if there is none."""
        return next(iter(self.repository.pins(PinQuery(id=id, limit=1), stopped)), None)

    def list(
        self, query: PinQuery, stopped: Stopped, *, counted: bool = False
    ) -> tuple[list[Pin], int | None]:
        """Return the pins that `query` selects; if `counted`, the number of all of them too."""
        count = self.repository.count_pins(query, stopped) if counted else None
        return self.repository.pins(query, stopped), count

    def file(self, pin: Pin, *, is_duplicate: bool = False) -> File:
        """Return the file of a pin."""
        return replace(self.files([pin])[0], is_duplicate=is_duplicate)

    def files(self, pins: Sequence[Pin]) -> Sequence[File]:
        """Return the files of pins."""
        details = self.tables.details_of([pin.id for pin in pins])
        return [File(pin, details.get(pin.id, Details()), self.name) for pin in pins]

    # Changing and removing

    def change(self, cid: CID, name: str | None, keyvalues: Mapping[str, Any]) -> Pin | None:
        """Change the name of a pin, if there is one, and the key-values that are named.

        A key with the value None is removed. Return None if the content is not pinned.
        """
        return self.repository.update_pin(
            cid, name=name, change=lambda before: merge_keyvalues(before, keyvalues)
        )

    def set_details(self, pin: Pin, **changes: Any) -> None:
        """Change the group of a file, or when it expires."""
        details = self.file(pin).details
        self.tables.put_details(pin.id, pin.cid, details._replace(**changes))

    def remove(self, pin: Pin) -> bool:
        """Remove a file; return whether it was still there."""
        was_pinned = self.repository.unpin(CID.parse(pin.cid))
        self.tables.put_details(pin.id, pin.cid, Details())
        return was_pinned

    def remove_expired(self) -> None:
        """Remove the files that have expired."""
        while expired := self.tables.expired(int(time.time())):
            for id_, cid in expired:
                pin = self.repository.find_pin(CID.parse(cid))
                if pin is not None and pin.id == id_:
                    self.repository.unpin(CID.parse(cid))
                self.tables.put_details(id_, cid, Details())


class Service:
    """The networks of a node, its jobs and its requests.

    Attributes:
        public: The public network, over the repository of the node.
        stores: Small stores to it that share transactions.
        jobs: What is pinned by CID in the background.
        requests: The requests of the Pinning Services API.
    """

    def __init__(self, repository: Repository, settings: NodeSettings) -> None:
        self.public: Network = Network(repository, PUBLIC)
        self._private: Network | None = None
        self._lock = threading.Lock()
        self.stores: StoreQueue = StoreQueue(repository)
        self.jobs: PinJobs = PinJobs(repository, settings.gateways, max_bytes=settings.max_upload)
        self.requests: PinRequests = PinRequests(
            self.public, self.jobs, pretend=settings.pretend_pinned
        )

    @property
    def private(self) -> Network:
        """The private network. Its store is opened when it is first needed."""
        with self._lock:
            if self._private is None:
                folder = Folder(self.public.repository.path.absolute(), FOLDER)
                folder.make(0o700)  # refuses a symbolic link
                self._private = Network(Repository(folder.path), PRIVATE)
            return self._private

    def network(self, name: str) -> Network:
        """Return a network by its name."""
        return self.private if name == PRIVATE else self.public

    def start_job(self, job: PinJob) -> None:
        """Start to pin a CID; its file will be in the group of the job."""
        with self.public.described(job.id, CID.parse(job.cid), Details(job.group_id)):
            self.jobs.start(job)

    def remove_expired(self) -> None:
        """Remove the files of both networks that have expired."""
        self.public.remove_expired()
        if (self.public.repository.path / FOLDER).is_dir():
            self.private.remove_expired()

    def close(self) -> None:
        """Close what was opened here. The public store belongs to the caller."""
        self.jobs.close()
        self.public.tables.close()
        with self._lock:
            private, self._private = self._private, None
        if private is not None:
            private.tables.close()
            private.repository.close()


def quietly(job: Callable[[], None]) -> None:
    """Call `job` beside the requests; the next request says what is wrong with the store."""
    with suppress(ClientError, OSError):
        job()


# Small stores that wait for the disk together.

BATCH: Final = 64  # stores in one transaction


class _Store(NamedTuple):
    """A store that waits, and the future that its request awaits."""

    data: bytes
    profile: Profile
    fields: Mapping[str, Any]
    done: asyncio.Future[tuple[Pin, bool]]


class StoreQueue:
    """Adds small contents to `repository`. All that wait at a time share one transaction.

    While a worker thread commits one transaction, the next stores collect, and it goes on with
    them. So many stores at once need few hops to a thread and few synchronisations, and a single
    one does not wait. Use it in the event loop only.
    """

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._waiting: deque[_Store] = deque()
        self._task: asyncio.Task[None] | None = None

    async def add(self, data: bytes, profile: Profile, **fields: Any) -> tuple[Pin, bool]:
        """Do what `Repository.add` does; return when the content is durable."""
        store = _Store(data, profile, fields, asyncio.get_running_loop().create_future())
        self._waiting.append(store)
        if self._task is None:
            self._task = asyncio.create_task(self._work())
        return await store.done

    async def _work(self) -> None:
        """Add what waits, until nothing does."""
        try:
            while self._waiting:  # the thread may have ended just before another store came
                await run_in_threadpool(self._add_batches, asyncio.get_running_loop())
        finally:
            self._task = None

    def _add_batches(self, loop: asyncio.AbstractEventLoop) -> None:
        """Do the same on a worker thread, so that no batch waits for the event loop."""
        while batch := self._next_batch():
            try:
                outcomes = self._commit(batch)
            except Exception as error:  # noqa: BLE001 - each request raises it
                outcomes = [error] * len(batch)
            loop.call_soon_threadsafe(_finish, batch, outcomes)

    def _next_batch(self) -> list[_Store]:
        batch: list[_Store] = []
        while self._waiting and len(batch) < BATCH:
            store = self._waiting.popleft()
            if not store.done.cancelled():
                batch.append(store)
        return batch

    def _commit(self, batch: Sequence[_Store]) -> Sequence[tuple[Pin, bool] | Exception]:
        pins = []
        for store in batch:
            adding = self._repository.adding()
            part = import_content(store.data, store.profile, adding.put)
            pins.append(NewPin(adding, part.cid, {"size": part.dag_size, **store.fields}))
        return pin_together(pins)


def _finish(batch: Sequence[_Store], outcomes: Sequence[tuple[Pin, bool] | Exception]) -> None:
    for store, outcome in zip(batch, outcomes, strict=True):
        if store.done.done():  # its request was cancelled
            continue
        if isinstance(outcome, Exception):
            store.done.set_exception(outcome)
        else:
            store.done.set_result(outcome)


# The requests of the Pinning Services API. The status of a request follows from where it is::
#
#     a pin of the store                                         pinned
#     a row of the table, with a job                             the status of the job
#     a row of the table, for content that has another pin       pinned
#
# A row with neither a job nor a pin is removed: another API has cancelled the job or unpinned the
# content. If another node over the same store has made the row, it is left alone.

JOB_STATUSES: Final[dict[str, Status]] = {"prechecking": "queued", "retrieving": "pinning"}


class PinRequests:
    """The requests over a network. With `pretend`, content that is not here counts as pinned.

    One call at a time changes anything.
    """

    def __init__(self, network: Network, jobs: PinJobs, *, pretend: bool) -> None:
        self._network = network
        self._repository = network.repository
        self._tables = network.tables
        self._jobs = jobs
        self._pretend = pretend
        self._lock = threading.RLock()
        self._resumed = False
        self._own: set[str] = set()  # the rows that this node has made, or has resumed
        self._latest = 0

    def resume(self) -> None:
        """Start the jobs of unfinished requests again, once after the node has started."""
        with self._lock:
            if self._resumed or self._repository.read_only:
                return
            self._resumed = True
            rows = self._tables.requests(PinQuery(pinned=None))
            self._own.update(row.id for row in rows)
            pinned = self._pins_of(rows)
            self._tables.settle_requests(*(row.id for row in rows if _key(row) in pinned))
            waiting = [row for row in rows if row.waits and _key(row) not in pinned]
            for row in waiting[-MAX_JOBS:]:
                self._start(row)

    def add(self, cid: CID, name: str, meta: Mapping[str, str]) -> PinRequest:
        """Make a request."""
        with self._lock:
            self.resume()
            # A client that drops the last digits of times can still page through these.
            self._latest = max(now_ms(), self._latest + 1)
            request = PinRequest(cid=str(cid), name=name, meta=meta, created=self._latest)
            self._tables.add_request(request)
            self._own.add(request.id)
            with on_error(lambda: self._remove(request.id)):
                self._start(request)
            return self._as_made(request)

    def _start(self, request: PinRequest) -> None:
        if self._pretend and not self._repository.has(CID.parse(request.cid)):
            return
        job = PinJob(
            cid=request.cid,
            name=request.name,
            keyvalues=request.meta,
            id=request.id,
            queued=request.created,
        )
        self._jobs.start(job, lambda: self._tables.settle_requests(request.id))

    def get(self, id: str, stopped: Stopped | None = None) -> PinRequest | None:
        """Return a request; None if there is none with this id."""
        with self._lock:
            self.resume()
            if current := self._current(self._tables.requests(PinQuery(pinned=None, id=id))):
                return current[0]
        # A row that has become a pin is found here.
        pin = self._network.find(id, stopped)
        return None if pin is None else PinRequest.of(pin)

    def find(
        self, query: PinQuery, statuses: frozenset[Status], stopped: Stopped
    ) -> tuple[list[PinRequest], int]:
        """Return the newest requests that `query` selects, and the number of all of them."""
        with self._lock:
            self.resume()
            rows = self._current(self._tables.requests(replace(query, pinned=None)))
        requests = {row.id: row for row in rows if row.status in statuses}
        count = len(requests)
        if "pinned" in statuses:
            pins, pinned = self._network.list(query, stopped, counted=True)
            count += pinned or 0
            for pin in pins:
                count -= pin.id in requests  # it became the pin just now
                requests[pin.id] = PinRequest.of(pin)
        newest = sorted(requests.values(), key=lambda request: request.moment, reverse=True)
        return newest[: query.limit], count

    def remove(self, id: str, stopped: Stopped | None = None) -> bool:
        """Remove a request; return whether it was there.

        If there is another request for the content, that one becomes the pin.
        """
        with self._lock:
            request = self.get(id, stopped)
            if request is None:
                return False
            self._jobs.cancel(id)
            self._remove(id)
            pin = self._repository.find_pin(CID.parse(request.cid))
            if pin is not None and pin.id == id:
                others = self._tables.requests(PinQuery(pinned=None, cid=request.cid))
                if others:
                    self._make_pin(others[0])
                    self._tables.put_details(id, request.cid, Details())
                else:
                    self._network.remove(pin)
            return True

    def replace(
        self, id: str, cid: CID, name: str, meta: Mapping[str, str], stopped: Stopped
    ) -> PinRequest | None:
        """Make a request in place of the request `id`; return None if that is not there.

        The new one is made first. Blocks stay until garbage is collected, so what both share is
        not fetched again.
        """
        with self._lock:
            if self.get(id, stopped) is None:
                return None
            request = self.add(cid, name, meta)
            self.remove(id, stopped)
            return self._as_made(request)

    def _make_pin(self, request: PinRequest) -> None:
        """Give the pin of the content to another request for it, which is a row until now."""
        self._repository.update_pin(
            CID.parse(request.cid),
            id=request.id,
            created=request.created,
            name=request.name,
            change=lambda _: request.meta,
        )
        self._remove(request.id)

    def _remove(self, *ids: str) -> None:
        """Remove rows."""
        self._tables.remove_requests(*ids)
        self._own.difference_update(ids)

    def _as_made(self, request: PinRequest) -> PinRequest:
        """Return a new request as the reply has it: pinned if it is so already, else queued."""
        if current := self._current([request]):
            return current[0] if current[0].status == "pinned" else request
        pin = self._repository.find_pin(CID.parse(request.cid))
        return PinRequest.of(pin) if pin is not None and pin.id == request.id else request

    def _current(self, rows: list[PinRequest]) -> list[PinRequest]:
        """Return the requests of `rows`, with their status.

        Leave out and remove rows that have become the pin, and those without a job and a pin.
        """
        jobs = self._jobs.by_id() if rows else {}
        pins = self._pins_of(rows)
        current: list[PinRequest] = []
        for row in rows:
            job, pin = jobs.get(row.id), pins.get(_key(row))
            if pin is not None and pin.id == row.id:
                continue
            if job is not None:
                current.append(_with_status(row, job))
            elif pin is not None:
                current.append(replace(row, status="pinned", info={"dag_size": str(pin.size)}))
            elif self._pretend and row.waits:
                current.append(replace(row, status="pinned"))
        if not self._repository.read_only:
            gone = {row.id for row in rows} - {request.id for request in current}
            self._remove(*gone & self._own)
        return current

    def _pins_of(self, rows: Iterable[PinRequest]) -> dict[bytes, Pin]:
        """Return the pins that `rows` are for, by the keys of their content."""
        cids = list({row.cid for row in rows})
        batches = (cids[at : at + AT_ONCE] for at in range(0, len(cids), AT_ONCE))
        return {
            CID.parse(pin.cid).key: pin
            for batch in batches
            for pin in self._repository.pins(PinQuery(cids=tuple(batch)))
        }


def _key(row: PinRequest) -> bytes:
    return CID.parse(row.cid).key


def _with_status(row: PinRequest, job: PinJob) -> PinRequest:
    """Return a request with the status of its job; of a failed one, with the reason."""
    status = JOB_STATUSES.get(job.status, "failed")
    info = {"status_details": FAILURES.get(job.status, job.status)} if status == "failed" else {}
    return replace(row, status=status, info=info)

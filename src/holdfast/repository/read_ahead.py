"""Reading and verifying the next nodes of a file on other threads, while one is in use."""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from contextlib import suppress
from typing import Final, TypeAlias

from holdfast.content.cid import CID
from holdfast.content.unixfs.file_nodes import FileNode, Segment
from holdfast.content.unixfs.walks import FileWalk
from holdfast.errors import ClientError

GROUP: Final = 1 << 20  # bytes that a thread reads at a time; up to three groups are read ahead
MOST: Final = 64  # nodes of a group

ReadNode: TypeAlias = Callable[[Segment], FileNode]


class ReadAhead:
    """The nodes that come next in a walk: read by `read`, on the threads of `hashers`."""

    def __init__(self, read: ReadNode, hashers: Executor) -> None:
        self._read = read
        self._hashers = hashers
        self._jobs: dict[CID, Future[dict[CID, FileNode]]] = {}
        self._size = 0  # bytes of the nodes in `_jobs`

    def take(self, segment: Segment) -> FileNode:
        """Return the node of `segment`; read it now if it was not read ahead."""
        job = self._jobs.pop(segment.cid, None)
        node = None
        if job is not None:
            self._size -= _size(segment)
            node = job.result().get(segment.cid)
        return self._read(segment) if node is None else node

    def start(self, walk: FileWalk) -> None:
        """Start to read the nodes that `walk` needs next, until enough of them are read ahead."""
        while (
            self._size <= 2 * GROUP
            and len(self._jobs) <= MOST
            and (group := self._next_group(walk))
        ):
            job = self._hashers.submit(_read_group, self._read, group)
            self._jobs.update(dict.fromkeys((segment.cid for segment in group), job))
            self._size += sum(map(_size, group))

    def _next_group(self, walk: FileWalk) -> list[Segment]:
        """Return the next nodes that are not read ahead yet."""
        group: dict[CID, Segment] = {}
        size = 0
        for segment in walk.next_segments(2 * MOST):
            if size >= GROUP or len(group) >= MOST:
                break
            if segment.cid not in self._jobs and segment.cid not in group:
                group[segment.cid] = segment
                size += _size(segment)
        return list(group.values())

    def cancel(self) -> None:
        """Start none of the jobs that still wait for a thread."""
        for job in self._jobs.values():
            job.cancel()


def _size(segment: Segment) -> int:
    """Return about how many bytes the node of a segment has itself."""
    return min(segment.size or 0, GROUP)


def _read_group(read: ReadNode, group: Sequence[Segment]) -> dict[CID, FileNode]:
    """Read nodes up to the first error. Whoever needs that node reads it again, with its error."""
    nodes: dict[CID, FileNode] = {}
    with suppress(ClientError, OSError):
        for segment in group:
            nodes[segment.cid] = read(segment)
    return nodes

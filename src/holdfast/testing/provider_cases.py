"""What both colours of the contract of providers share: inputs, and what must hold of results."""

import os
import tracemalloc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NoReturn

from holdfast.files.cids import compute_cid

NOWHERE: Final = compute_cid(b"kept by nobody, one hopes: holdfast.testing")
NO_CIDS: Final = ("", "nonsense", "Qm", "..", "../../etc/passwd", NOWHERE[:-1], f"{NOWHERE}é")
VALUES: Final[Sequence[Any]] = (
    *(None, True, 0, -1.5, 10**40, "", "text", [], {}, [[]], {"": {"": []}}),
    {"name": "Zoë", "emoji": "🌊", "line": "\u2028", "nul": "\0", "tags": ["a", 1, None, False]},
)
# Around the sizes at which files are cut into blocks: 256 KiB, and 1 MiB.
SIZES: Final = (0, 1, (1 << 18) - 1, 1 << 18, (1 << 18) + 1, 1 << 20, (1 << 20) + 1, 3_000_000)


class Interrupted(Exception):  # noqa: N818 - no error, but a test that stops a call
    """Raised by the tests in the midst of a call."""


def interrupt(done: int, total: int | None) -> NoReturn:  # noqa: ARG001 - as progress is told
    """Stop a call as soon as there is progress."""
    raise Interrupted


def names_in(folder: str | os.PathLike[str]) -> list[str]:
    """What stands in `folder`."""
    return sorted(path.name for path in Path(folder).iterdir())


def check_progress(calls: Sequence[tuple[int, int | None]], size: int) -> None:
    """See that `calls` of progress tell of a file of `size` bytes, up to its end."""
    done = [each for each, _ in calls]
    assert done, "progress was never told"
    assert done == sorted(done), "progress went backwards"
    assert done[-1] == size
    assert {total for _, total in calls} <= {size, None}


@contextmanager
def memory_below(limit: int) -> Iterator[None]:
    """Fails where more than `limit` bytes were allocated at a time within it."""
    tracemalloc.start()
    try:
        yield
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < limit, f"{most:,} bytes were allocated at a time; does it hold the file whole?"

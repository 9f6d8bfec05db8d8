"""Close what a block has opened: at its end, or only if it fails."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def closed_at_end(descriptor: int) -> Iterator[int]:
    """Yield an open descriptor, and close it at the end of the block."""
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def on_error(undo: Callable[[], object]) -> Iterator[None]:
    """Call `undo` if the block fails or is interrupted, and raise its error again."""
    try:
        yield
    except BaseException:
        undo()
        raise

"""Close what a block has opened: at its end, or only if it fails.

These are classes, not generators: an interrupt before the block has very few places to strike.
"""

import os
from collections.abc import Callable


class closed_at_end:  # noqa: N801 - callers see a function
    """Give an open descriptor to the block, and close it at the end."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __enter__(self) -> int:
        return self._descriptor

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)


class on_error:  # noqa: N801 - callers see a function
    """Call `undo` if the block fails or is interrupted. Its error is raised in any case."""

    def __init__(self, undo: Callable[[], object]) -> None:
        self._undo = undo

    def __enter__(self) -> None:
        pass

    def __exit__(self, error: object, *_: object) -> None:
        if error is not None:
            self._undo()

# WARNING: this file is generated from src/holdfast/_async/outcomes.py
# by scripts/generate_sync.py. Change the original instead.
"""What a loop over many calls receives."""

import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Self

from holdfast._sync.workers import WorkGroup
from holdfast.records import Item, Outcome, Result


class Outcomes(Iterator[Outcome[Item, Result]]):
    """The outcomes of many calls, in the order in which they end: see `Client.upload_many`.

    Nothing starts before the first outcome is asked for. At most `concurrency` items are taken from
    the input whose outcomes you have not received yet. An error of the input is raised after the
    outcomes of what is under way. A wait for an outcome that is cancelled or interrupted ends the
    calls.

    When the loop is left, nothing new starts. To wait there for what is under way, use
    ``with``; closing the client waits too. Only one consumer may iterate.

    Example:
        >>> with client.store_many([{"id": 1}, {"id": 2}]) as outcomes:
        ...     for outcome in outcomes:
        ...         print(outcome.result().size)
        8
        8
    """

    def __init__(
        self, group: WorkGroup[Item, Result], on_end: Callable[[], object] | None = None
    ) -> None:
        self._group = group
        self._on_end = on_end  # called when nothing is under way any more; perhaps several times
        self._is_used = False  # whether an outcome was asked for, or an error left the block

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: loop over it to start the calls and get their outcomes>"

    def __next__(self) -> Outcome[Item, Result]:
        self._is_used = True
        try:
            return self._group.next()
        except Exception:
            self._end()
            raise
        except GeneratorExit:  # nobody awaits this any more
            self._group.stop()
            raise
        except BaseException:
            self._abort()
            raise

    def close(self) -> None:
        """Start nothing new, and wait for what is under way. A second call has no effect."""
        self._group.closed = True
        self._group.finish()
        self._end()

    def _abort(self) -> None:
        self._group.closed = True
        self._group.abort()
        self._end()

    def _end(self) -> None:
        if self._on_end is not None:
            self._on_end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._is_used |= kind is not None
        if kind is None or issubclass(kind, (Exception, GeneratorExit)):
            self.close()
        else:
            self._abort()

    def __del__(self) -> None:
        if hasattr(self, "_group"):
            self._group.abandon(self._end)
            if not self._is_used and not sys.is_finalizing():
                warnings.warn(f"nothing was done: {self!r}", RuntimeWarning, stacklevel=2)

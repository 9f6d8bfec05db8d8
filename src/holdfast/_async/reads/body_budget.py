"""The budget for one attempt to read a body: its unverified bytes, and its time."""

from holdfast._async.runtime import now
from holdfast.calls import Deadline
from holdfast.content.budgets import SizeLimit
from holdfast.content.reference import Reference
from holdfast.errors import RequestTimeoutError
from holdfast.protocol.transport_errors import READ_TIMEOUT


class BodyBudget:
    """Counts what a gateway sends, and raises an error if it is too much or too late.

    Attributes:
        limit: The largest size of a body that is verified only at its end.
        received: How many bytes were received.
    """

    def __init__(
        self, peer: str, reference: Reference, deadline: Deadline, patience: float | None
    ) -> None:
        self._peer = peer
        self._reference = reference
        self._deadline = deadline
        self._patience = patience
        self._progress = -1
        self._progress_at = now()
        self.limit: SizeLimit | None = None
        self.received = 0

    def set_limit(self, limit: SizeLimit, length: int | None) -> None:
        """Limit the body; raise the error at once if the declared `length` is beyond the limit."""
        self.limit = limit
        limit.check(length or 0)
        limit.check(self.received)

    def receive(self, count: int) -> None:
        """Count the next bytes of the body."""
        self.check_time()
        self.received += count
        if self.limit is not None:
            self.limit.check(self.received)

    def check_time(self) -> None:
        """Raise an error if the time for the attempt is over."""
        check_time(self._deadline, self._peer)

    def note_progress(self, progress: int | None) -> None:
        """Note the progress: a number that grows with each needed byte, or None."""
        if progress is not None and progress > self._progress:
            self._progress = progress
            self.restart_clock()

    def restart_clock(self) -> None:
        """Count the time without progress from now on."""
        self._progress_at = now()

    def check_progress(self) -> None:
        """Raise an error if no needed bytes were received for `timeouts.read`."""
        if self._patience is not None and now() - self._progress_at > self._patience:
            words = f"{self._peer} sent nothing that {self._reference} needs in time"
            raise RequestTimeoutError(words, sent=True)


def check_time(deadline: Deadline, peer: str) -> None:
    """Raise the error of a peer that did not answer in time, if `deadline` has passed."""
    if deadline.has_passed:
        raise READ_TIMEOUT.error(peer, sent=True)

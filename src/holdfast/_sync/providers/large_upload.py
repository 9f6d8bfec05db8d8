# WARNING: this file is generated from src/holdfast/_async/providers/large_upload.py
# by scripts/generate_sync.py. Change the original instead.
"""Send a large file in pieces. Begin after the bytes that the service has already."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from holdfast._sync.pin_waiting import Pauses
from holdfast._sync.runtime import now, run_blocking, run_interruptible
from holdfast.calls import Call
from holdfast.content.cid import CID
from holdfast.content.unixfs.layouts import WriteCheck
from holdfast.disk.unfinished_uploads import SavedUpload, UnfinishedUpload, encode_states
from holdfast.errors import ClientError, InvalidCIDError, NetworkError, ProviderError
from holdfast.protocol import pinata
from holdfast.protocol.http import Reply, Request
from holdfast.protocol.pinata import PENDING, PinataAPI
from holdfast.protocol.retrying import Backoff, Retry, is_unconnected, retry_reason
from holdfast.protocol.tus import ASKED_AGAIN, GONE, NEVER_TAKEN, read_expiry, read_offset
from holdfast.records import now_ms
from holdfast.sources.hashed_source import HashedSource
from holdfast.sources.sources import Progress

if TYPE_CHECKING:
    from holdfast._sync.session import Attempt, Session

MAX_BEGINNINGS: Final = 4  # how often one call begins an upload that the service forgets
LEAST_PROGRESS: Final = 1 << 16  # bytes after which failed attempts are counted anew
RESTART_SECONDS: Final = 60.0  # to wait for a service that had bytes, and accepts no connection
PENDING_SECONDS: Final = 60.0  # to wait for the CID of a file that is complete
FIRST_PAUSE: Final = 0.25  # seconds between two questions for the CID; doubled each time
CONTINUES: Final = (
    "the provider keeps the part that it has for a while: upload the same file again to resume"
)
NO_PROGRESS: Final = "the provider accepts no more bytes; try the same upload again later"


@dataclass(eq=False, repr=False)
class LargeUpload:
    """One upload, which an earlier process may have begun.

    Its state is saved before the first piece is sent, and after each piece. After a failure, the
    service is asked how much it has; for `RESTART_SECONDS` if it accepts no connection, because it
    may be restarting. The caller removes the state when all is done.

    Attributes:
        metadata: The name and other details of the file, which are sent when the upload begins.
        identity: Which file it is; see `Source.identify`.
    """

    session: "Session"
    run: Callable[..., Any]
    api: PinataAPI
    source: HashedSource[WriteCheck]
    size: int
    saved: SavedUpload
    call: Call
    progress: Progress
    metadata: Mapping[str, str]
    identity: Mapping[str, Any] | None
    _has_sent: bool = False  # whether this call has sent bytes of the file
    _restart_until: float | None = None  # None while the service can be reached

    def __post_init__(self) -> None:
        self._tus = self.api.resumable()

    def send(self) -> tuple[str, str]:
        """Send what the service does not have; return the CID that it gives, and where it went."""
        try:
            return self._send()
        except BaseException as error:
            if isinstance(error, OSError) and not isinstance(error, ClientError):
                # The file cannot be read, or is another one: its tags would never be right again.
                run_blocking(self.saved.remove)
            elif self.saved.is_on_disk:
                error.add_note(CONTINUES)
            raise

    def _send(self) -> tuple[str, str]:
        state = self.saved.state
        if state is not None and not self._tus.is_ours(state.location):
            state = None  # the token must not be sent there
        for _ in range(MAX_BEGINNINGS):
            if state is None:
                state = self._begin()
                last = self._send_pieces(state, 0)
            else:
                last = self._resume(state)
            if last is not None:
                return self._read_cid(last, state), state.location
            # The service does not know the upload. Perhaps it has received the last piece, and only
            # its reply was lost: then the upload has become a file.
            if self._may_be_complete(state) and (cid := self._find_cid(state)):
                return cid, state.location
            state = None
        raise ProviderError("the provider loses each upload that is started; try again later")

    def _begin(self) -> UnfinishedUpload:
        reply = self.session.fetch(self._tus.begin(self.size, self.metadata), self.call)
        state = UnfinishedUpload(
            endpoint=self._tus.base_url,
            location=self._tus.read_location(reply),
            name=self.metadata["filename"],
            size=self.size,
            source=self.identity,
            created=now_ms() / 1000,
            expires=read_expiry(reply),
        )
        run_blocking(self.saved.save, state)
        return state

    def _save_states(self, state: UnfinishedUpload, end: int) -> None:
        """Save what a later process needs to send the same bytes up to `end`."""
        states = encode_states(run_interruptible(self.source.source.states, end))
        state = self.saved.state or state
        if states != state.states:
            run_blocking(self.saved.save, replace(state, states=states))

    def _resume(self, state: UnfinishedUpload) -> Reply | None:
        """Ask how far the upload is, and continue there; return None if it is gone."""
        reply, offset = self._ask(state)
        if offset is None or offset == self.size:
            return None if offset is None else reply
        words = "upload continues at byte %d of %d"
        self.call.tell("resume", words, offset, self.size, position=offset)
        return self._send_pieces(state, offset)

    def _ask(self, state: UnfinishedUpload) -> tuple[Reply, int | None]:
        """Ask how many bytes the service has; return its reply, and None if the upload is gone."""
        reply = self.session.fetch(self._tus.ask(state.location), self.call, self._ask_once)
        self._restart_until = None
        return reply, self._tus.read_answer(reply, self.size)

    def _ask_once(self, request: Request, call: Call) -> "Attempt":
        """Send `request` once. After bytes were sent, wait if no connection can be made."""
        once = partial(self.session.fetch_once, request, call)
        backoff = self.session.restart_backoff()
        return self.session.retry(once, call, self._restart_reason, backoff)

    def _restart_reason(self, outcome: "Attempt") -> Retry | None:
        """Return why to ask again: the service may be restarting, for `RESTART_SECONDS` at most."""
        if not self._has_sent or not is_unconnected(outcome):
            return None
        self._restart_until = self._restart_until or now() + RESTART_SECONDS
        return retry_reason(outcome) if now() < self._restart_until else None

    def _send_pieces(self, state: UnfinishedUpload, offset: int) -> Reply | None:
        """Send the bytes from `offset` on; return the last reply, or None if the upload is gone."""
        backoff = self.session.backoff()
        furthest = offset
        while True:
            goal = min(furthest + LEAST_PROGRESS, self.size)
            reply, reached = self._advance(state, offset, goal, backoff)
            if reached is None or reached == self.size:
                return None if reached is None else reply
            if reached >= goal:
                self.session.succeeded()
                backoff.restart()
                furthest = reached
            offset = reached
            state = self.saved.state or state
            expires = read_expiry(reply) or state.expires
            saved = replace(state, offset=offset, expires=expires)
            run_blocking(self.saved.save, saved)

    def _advance(
        self, state: UnfinishedUpload, offset: int, goal: int, backoff: Backoff
    ) -> tuple[Reply, int | None]:
        """Send the piece that begins at `offset`; return the last reply and the new offset.

        If the service did not get to `goal`, wait, and ask for its offset. The offset is None if
        the upload is gone.
        """
        outcome = self._send_piece(state, offset)
        if not isinstance(outcome, NetworkError):
            if outcome.status in GONE:
                return outcome, None
            end = self._end_of_piece(offset)
            reached = read_offset(outcome, offset, end) if outcome.ok else None
            if reached is not None and reached >= goal:
                return outcome, reached
        self._wait(backoff, outcome)
        return self._ask(state)

    def _end_of_piece(self, offset: int) -> int:
        return min(offset + pinata.PIECE_SIZE, self.size)

    def _send_piece(self, state: UnfinishedUpload, offset: int) -> "Attempt":
        """Send the piece that begins at `offset` once."""
        # What an earlier process has sent is read here, because the CID needs all bytes.
        run_interruptible(self.source.catch_up, offset)
        self._save_states(state, self._end_of_piece(offset))
        self.progress(offset, self.size)

        def on_sent(sent: int) -> None:
            self._has_sent = True
            self.progress(offset + sent, self.size)

        piece = self.source.part(offset, self._end_of_piece(offset))
        request = self._tus.send(state.location, offset, piece, on_sent)
        outcome = self.session.fetch_once(request, self.call)
        self.source.source.check_unchanged()
        return outcome

    def _wait(self, backoff: Backoff, outcome: "Attempt") -> None:
        """Wait before the service is asked; raise the error of `outcome` if that does not help."""
        why = retry_reason(outcome, ASKED_AGAIN)
        if why is not None and self.session.wait(backoff, self.call, why):
            return
        if isinstance(outcome, NetworkError):
            raise outcome
        if outcome.ok:
            raise self.api.failure(NO_PROGRESS, outcome)
        if outcome.status in NEVER_TAKEN:
            run_blocking(self.saved.remove)
        self.api.check(outcome)

    def _may_be_complete(self, state: UnfinishedUpload) -> bool:
        """Return whether the last piece may have been sent."""
        state = self.saved.state or state
        return state.offset + pinata.PIECE_SIZE >= self.size

    def _read_cid(self, reply: Reply, state: UnfinishedUpload) -> str:
        """Return the CID of a complete upload. The service may say it in its last reply only."""
        cid = reply.headers.get("upload-cid", "")
        try:
            CID.parse(cid)
        except InvalidCIDError:
            listed_cid = self._find_cid(state)
            if listed_cid is None:
                raise ProviderError(
                    "the provider has all bytes of the file, but does not say its CID; "
                    "try the same upload again later, nothing is sent twice"
                ) from None
            return listed_cid
        return cid

    def _find_cid(self, state: UnfinishedUpload) -> str | None:
        """Return the CID of the file that an upload has become; None if it is not there."""
        run_interruptible(self.source.catch_up, self.size)
        check = self.source.hash
        expected = None if check is None else run_blocking(check.expected_cid)
        pauses = Pauses(FIRST_PAUSE, PENDING_SECONDS, now() + PENDING_SECONDS)
        while True:
            find = self.api.find_cid(state.location, expected)
            cid: str | None = self.run(find, self.call)
            if cid != PENDING or not pauses.wait():
                return None if cid == PENDING else cid

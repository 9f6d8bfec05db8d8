"""The command `revoke`: unpin one CID, or several at a time."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Final

import typer

from holdfast.cli import exit_codes
from holdfast.cli.options import CONNECTED, cid_argument
from holdfast.cli.reports import AT_ONCE, FATAL, note, write_failure
from holdfast.cli.run import Run, command, group

if TYPE_CHECKING:
    from holdfast import Client

commands: Final = group()


@command(commands, *CONNECTED)
def revoke(
    run: Run,
    cids: Annotated[list[str], cid_argument("CIDs, or links to them.")],
) -> None:
    """Unpin CIDs. Copies elsewhere may remain.

    There is a line for each. One that fails does not stop the others, unless the token is refused.
    The exit code is that of the first that failed.
    """
    with run.client() as client:
        if len(cids) == 1:
            client.revoke(cids[0])
            _tell(run, cids[0])
            return
        several = _Several(run, cids)
        with several.told():
            several.run(client)
    if several.code:
        raise typer.Exit(several.code)


class _Several:
    """Several CIDs to unpin, and what became of them.

    Attributes:
        code: The exit code of the first that failed, or 0.
    """

    def __init__(self, run: Run, cids: list[str]) -> None:
        self._run = run
        self._cids = cids
        self._done = 0
        self._untold: list[str] = []  # done on threads; after an interrupt, some remain
        self.code = 0

    def run(self, client: "Client") -> None:
        """Unpin the CIDs. One that fails does not stop the others, unless all would fail."""
        from holdfast._sync.workers import Outcomes, WorkGroup

        def revoke_one(cid: str) -> None:
            client.revoke(cid)
            self._untold.append(cid)

        with Outcomes(WorkGroup(revoke_one, self._cids, AT_ONCE)) as outcomes:
            for outcome in outcomes:
                if outcome.error is None:
                    self._tell(outcome.item)
                    continue
                self.code = self.code or exit_codes.family_of(outcome.error).code
                write_failure(self._run, "cid", outcome.item, exit_codes.describe(outcome.error))
                if isinstance(outcome.error, FATAL):
                    break

    def _tell(self, cid: str) -> None:
        _tell(self._run, cid)
        self._untold.remove(cid)  # at the end: an interrupt may come at any time
        self._done += 1

    @contextmanager
    def told(self) -> Iterator[None]:
        """Write what is left to say at the end, also of an interrupt."""
        try:
            yield
        finally:
            for cid in [*self._untold]:
                self._tell(cid)
            if self._done < len(self._cids):
                note(self._run, f"revoked {self._done:,} of {len(self._cids):,}")


def _tell(run: Run, cid: str) -> None:
    from holdfast.content.reference import Reference

    cid = Reference.parse_cid(cid)
    run.emit({"cid": cid, "revoked": True}, f"revoked {cid}")

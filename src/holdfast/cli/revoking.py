"""The command `revoke`: unpin one CID, or several at a time."""

from typing import Annotated, Final

import typer

from holdfast.cli import exit_codes
from holdfast.cli.options import CONNECTED, cid_argument
from holdfast.cli.reports import FATAL, note, write_failure
from holdfast.cli.run import Run, command, group

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
    from holdfast.content.reference import Reference

    done, code = 0, 0
    with run.client() as client:
        if len(cids) == 1:
            client.revoke(cids[0])
            _tell(run, Reference.parse_cid(cids[0]))
            return
        with client.revoke_many(cids) as outcomes:
            for outcome in outcomes:
                if outcome.error is None:
                    done += 1
                    _tell(run, Reference.parse_cid(outcome.item))
                else:
                    code = code or exit_codes.family_of(outcome.error).code
                    write_failure(run, "cid", outcome.item, exit_codes.describe(outcome.error))
                if isinstance(outcome.error, FATAL):
                    break
    if code:
        note(run, f"revoked {done:,} of {len(cids):,}")
        raise typer.Exit(code)


def _tell(run: Run, cid: str) -> None:
    run.emit({"cid": cid, "revoked": True}, f"revoked {cid}")

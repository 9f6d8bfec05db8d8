"""Commands for pins: pin by CID, change, list, revoke."""

import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Annotated, Any, Final

import holdfast
from holdfast.arguments import NOT_CHOSEN, milliseconds
from holdfast.cli import options, output
from holdfast.cli.content import note_name
from holdfast.cli.exit_codes import UsageError
from holdfast.cli.options import cid_argument, flag, option
from holdfast.cli.output import Column, write_table
from holdfast.cli.references import NAME, References, find, is_here
from holdfast.cli.reports import BatchReport
from holdfast.cli.run import Run, command, group
from holdfast.errors import ClientError, NotFoundError
from holdfast.hints import advise
from holdfast.protocol.json_text import to_text
from holdfast.records import keyvalues_text, now_ms
from holdfast.single_line import short

commands: Final = group()
COLUMNS: Final = (
    Column("NAME", "name"),
    Column("SIZE", "number"),
    Column("CREATED"),
    Column("CID", "cid"),
    Column("STATE"),
    Column("KEY-VALUES", "name"),
)
FULL_COLUMNS: Final = [one._replace(kind="text") if one.kind == "cid" else one for one in COLUMNS]
ORDERS: Final[Mapping[str, Callable[[holdfast.Pin], Any]]] = {
    "created": lambda pin: -(pin.created_ms or 0),
    "name": lambda pin: (pin.name.casefold(), pin.name),
    "size": lambda pin: -(pin.size or 0),
}
MAX_SHOWN: Final = 1 << 16  # bytes of JSON that is shown in place of its name
ON_FILE: Final = "`holdfast rm` deletes no files: it unpins a CID, or a name such as name:NAME"
AGO: Final = re.compile(r"(\d{1,5})([hdw])")
HOURS: Final = {"h": 1, "d": 24, "w": 7 * 24}


@command(commands, *options.LOOKS)
def pin(
    run: Run,
    cid: options.PIN_ARGUMENT,
    name: options.NAME = None,
    keyvalue: options.KEYVALUES = None,
    wait: Annotated[float, option("SECONDS", "How long to wait for it to be pinned.", min=0)] = 0.0,
) -> None:
    """Pin existing content by its CID; write its state.

    With the provider local, content that is not in the store is fetched through --gateway-url; an
    interrupted fetch resumes.
    """
    keyvalues = options.parse_keyvalues(keyvalue)
    with run.client() as client, run.progress_bar("pin") as bar:
        progress = None if bar is None else lambda step: bar(step.bytes or 0, None)
        reference = find(client, cid)
        before = client.pins(cid=reference, limit=1) if name and is_here(client) else []
        made = client.pin(reference, name=name, keyvalues=keyvalues, wait=wait, progress=progress)
    run.emit(made.to_dict(), f"{made.state} {made.cid}")
    note_name(run, before[0].name if before else None, name)


@command(commands, *options.PINS)
def update(
    run: Run,
    cid: options.PIN_ARGUMENT,
    name: options.NAME = None,
    keyvalue: options.KEYVALUES = None,
    remove: Annotated[list[str] | None, option("KEY", "A key to remove. Repeatable.")] = None,
) -> None:
    """Change the name or the key-values of a pin. Other key-values stay."""
    changes = {**(options.parse_keyvalues(keyvalue) or {}), **dict.fromkeys(remove or ())}
    if name is None and not changes:
        raise UsageError("there is nothing to change: give --name, --keyvalue or --remove")
    with run.client() as client:
        changed = client.update(find(client, cid), name=name, keyvalues=changes)
    run.emit(changed.to_dict(), f"updated {changed.cid}  {changed.name}".rstrip())


@command(commands, *options.PINS, name="list")
def list_pins(
    run: Run,
    *,
    name: options.NAME_FILTER = None,
    cid: Annotated[
        str | None, option("CID", "Only pins of this CID.", autocompletion=options.pinned_cids)
    ] = None,
    keyvalue: Annotated[
        list[str] | None,
        option(
            "KEY=VALUE", "Only pins with this key-value. Repeatable: all must match.", "--keyvalue"
        ),
    ] = None,
    since: Annotated[
        str | None,
        option(
            "DATE",
            "Only pins made then or later: 2026-01-31 or 2026-01-31T12:00, in UTC unless it "
            "has a zone; or 7d, 12h or 2w ago.",
        ),
    ] = None,
    until: Annotated[
        str | None,
        option("DATE", "Only pins made then or earlier; a date includes that whole day."),
    ] = None,
    limit: Annotated[int | None, option("NUMBER", "At most this many pins.", min=1)] = None,
    sort: Annotated[str | None, option("ORDER", "name, size (largest first) or created.")] = None,
    quiet: options.QUIET = False,
    full: Annotated[bool, flag("On a terminal, show whole CIDs.", "--full")] = False,
    foreign: Annotated[
        bool, flag("With provider copies, list pins that only members have.", "--foreign")
    ] = False,
) -> None:
    """List the pins, newest first.

    On a terminal, CIDs are shortened to fit, unless --full is given; in a pipe they are whole.
    Commands accept a shortened CID too. The size is that of all blocks. For folders, large files
    and CIDs of version 0 it is a little more than that of the files, which `ls -l` shows. A line
    says so if the content is not pinned yet. For a cluster, it says how many nodes have the pin;
    --json names them. With --json, each pin gets a line. For JSON stored without a name, the JSON
    itself is shown, if it is in the local store.
    """
    filters: Mapping[str, Any] = {
        "name": name,
        "cid": cid,
        "keyvalues": options.parse_keyvalues(keyvalue),
        "since": None if since is None else _moment(since, is_end=False),
        "until": None if until is None else _moment(until, is_end=True),
        "limit": limit if sort is None else None,
    }
    if sort not in {None, *ORDERS}:
        raise UsageError(f"--sort takes {', '.join(ORDERS)}, not {sort!r}")
    if foreign and any(filters.values()):
        raise UsageError("--foreign lists all such pins: leave the other options out")
    with run.copies() if foreign else run.client(reads=True) as client:
        provider: Any = client.provider
        if cid is not None:
            filters = {**filters, "cid": find(client, cid)}
        pins = provider.foreign_pins() if foreign else client.iter_pins(**filters)
        if sort is not None:
            pins = iter(sorted(pins, key=ORDERS[sort])[:limit])
        if quiet or run.as_json or not sys.stdout.isatty():
            for pin in pins:
                if run.as_json:
                    output.say_json(pin.cid if quiet else pin.to_dict())
                else:
                    output.say(pin.cid if quiet else _line(client, pin))
        elif not write_table(FULL_COLUMNS if full else COLUMNS, map(partial(_cells, client), pins)):
            run.note("there are no such pins" if any(filters.values()) else "there are no pins")
    if name is not None and re.fullmatch(r"\d{1,3}", name):
        run.note(f"these are the pins with {name} in their name; --limit {name} lists {name} pins")


def _title(client: "holdfast.Client", pin: "holdfast.Pin") -> str:
    """Return the name of a pin; for JSON stored without one, the JSON, if the store has it."""
    if not ((made := NOT_CHOSEN.fullmatch(pin.name)) and made["time"]):
        return pin.name
    with suppress(ClientError):
        if is_here(client) and (pin.size or 0) <= MAX_SHOWN:
            return short(to_text(client.retrieve(pin.cid)))
    return "-"


def _cells(client: "holdfast.Client", pin: "holdfast.Pin") -> tuple[str, ...]:
    size, created = output.size_text(pin.size), output.time_text(pin.created_ms)
    return _title(client, pin) or "-", size, created, pin.cid, _state(pin), keyvalues_text(pin)


def _line(client: "holdfast.Client", pin: "holdfast.Pin") -> str:
    """Return a line for a pipe: the CID comes first, and the name, which may be any text, last."""
    title, size, created, cid, state, keyvalues = _cells(client, pin)
    more = "".join(f"  {text:<9}" for text in (state, keyvalues) if text)
    return f"{output.cid_column(cid)}  {size:>9}  {created}{more}  {title if pin.name else ''}"


def _state(pin: "holdfast.Pin") -> str:
    """Return the state, if there is something to tell; of a cluster, how many nodes report what."""
    if pin.peers is not None:
        if "foreign" in pin.peers.values():
            return f"at {', '.join(pin.peers)}"
        counts = Counter(sorted(pin.peers.values()))
        return ", ".join(f"{count} {status}" for status, count in counts.items()) or "nowhere"
    return "" if pin.state == "pinned" else pin.state


def _moment(text: str, *, is_end: bool) -> int | None:
    """Return the time in `text`; a day is its first moment or, with `is_end`, its last."""
    if ago := AGO.fullmatch(text):
        return now_ms() - int(ago[1]) * HOURS[ago[2]] * 3_600_000
    try:
        return milliseconds("--until" if is_end else "--since", text, is_end=is_end)
    except ValueError as error:
        wrong = UsageError(str(error))
        raise advise(wrong, "write such a time, or how long ago it was: 7d, 12h or 2w") from None


@command(commands, *options.PINS)
def revoke(
    run: Run,
    cids: Annotated[list[str], cid_argument("CIDs, links to them, or name:NAME.")],
    *,
    only_at: Annotated[
        str | None, option("MEMBER", "With provider copies, unpin at this member only.")
    ] = None,
    force: Annotated[bool, flag("Ignore what is not pinned.", "-f", "--force")] = False,
    recursive: options.RECURSIVE = False,  # noqa: ARG001 - so it is always
) -> None:
    """Unpin CIDs. Copies elsewhere may remain.

    Each CID gets a line. If one fails, the others are still unpinned, unless the token is refused.
    The exit code is that of the first failure. --only-at is refused if fewer than `need` other
    sites are proven to have the content now.
    """
    with run.client() if only_at is None else run.copies() as client:
        report = _Revocations(run, References(client, cids, ON_FILE), len(cids), only_at)
        unknown = NotFoundError if force else ()

        def unpin(text: str) -> bool | None:
            try:
                reference, _ = report.references[text]
            except unknown:
                return None
            return client.revoke(reference, only_at=only_at, missing_ok=force)

        if len(cids) == 1:
            report.write_result(cids[0], unpin(cids[0]))
            return
        with report.shown("revoke", hidden=True):
            report.work(unpin, cids)


class _Revocations(BatchReport):
    """The CIDs that are unpinned."""

    def __init__(self, run: Run, references: References, count: int, only_at: str | None) -> None:
        super().__init__(run)
        self.references = references
        self._count = count
        self._where = "" if only_at is None else f" at {only_at} "

    def write_result(self, item: str, result: bool | None) -> None:  # noqa: FBT001 - of `revoke`
        """Write the CID, and the name if the pin was looked for; None is for no such name."""
        reference, pin = (None, None) if result is None else self.references[item]
        done = "unpinned" if self._where else "revoked"
        words = f"{done if result else 'not pinned'}{self._where} {reference or item}"
        line = words if pin is None else f"{words}  {pin.name}".rstrip()
        name = {} if reference else {"name": item.removeprefix(NAME)}
        name = name if pin is None else {"name": pin.name}
        self._run.emit({"cid": reference, "revoked": bool(result), **name}, line)

    def summary(self) -> str:
        """Return how many are unpinned, unless all are."""
        done = self.counts["done"]
        return "" if done == self._count else f"revoked {done:,} of {self._count:,}"

"""Commands that maintain the embedded store: collect garbage, check, and repair."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from holdfast.cli import output
from holdfast.cli.options import store_options
from holdfast.cli.run import Run, command, group
from holdfast.errors import VerificationError
from holdfast.hints import advise

if TYPE_CHECKING:
    from holdfast.repository import Damage, Repository

commands: Final = group()
SHOWN = 10


@command(commands, store_options)
def gc(run: Run) -> None:
    """Remove the blocks of the store that no pin needs."""
    with run.repository() as repository, run.progress_bar("gc", unit="blocks") as progress:
        removed = repository.collect_garbage(progress)
    run.emit(
        {"blocks": removed.blocks, "size": removed.size},
        f"removed {output.count_text(removed.blocks, 'block')}, {output.size_text(removed.size)}",
    )


@command(commands, store_options)
def check(run: Run) -> None:
    """Check every block and pin of the store."""
    with run.repository() as repository:
        with run.progress_bar("check", unit="blocks") as progress:
            damage = list(repository.check(progress))
        pins, size = _totals(repository)
        foreign = [str(path) for path in repository.foreign_files()]
    found = [{"cid": each.cid, "what": each.what} for each in damage]
    lines = [_line(each) for each in damage]
    sound = f"sound: {output.count_text(pins, 'pin')}, {output.size_text(size)}"
    value = {"pins": pins, "size": size, "damage": found, "foreign": foreign}
    others = [f"not part of this store, not changed: {path}" for path in foreign[:SHOWN]]
    if len(foreign) > SHOWN:
        others.append(f"… and {len(foreign) - SHOWN} more")
    run.emit(value, *(lines or [sound]), *others)
    if damage:
        raise _damage_error(damage)


@command(commands, store_options)
def repair(
    run: Run,
    *,
    pin_roots: Annotated[
        bool,
        typer.Option(help="Pin complete content that has no pin, with the name `recovered`."),
    ] = False,
) -> None:
    """Rebuild the database of the store from its blocks.

    It reads every block file, and every row of the old database that can still be read.
    """
    with run.repository() as repository:
        repaired = repository.repair(pin_roots=pin_roots)
        pins = repository.totals().pins
    whole = [root.cid for root in repaired.roots if root.whole]
    incomplete = [root.cid for root in repaired.roots if not root.whole]
    lost = [{"cid": each.cid, "what": each.what} for each in repaired.lost]
    lists = {
        "not pinned (`gc` removes them, `repair --pin-roots` pins them):": []
        if pin_roots
        else whole,
        "not pinned, and blocks below them are missing:": incomplete,
        "lost for good:": [_line(each) for each in repaired.lost],
    }
    counts = output.count_text(repaired.blocks, "block"), output.count_text(pins, "pin")
    lines = [", ".join(counts), *repaired.notes]
    for title, items in lists.items():
        lines += [title, *(f"  {item}" for item in items)] if items else []
    value = {
        "blocks": repaired.blocks,
        "pins": pins,
        "roots": whole,
        "incomplete": incomplete,
        "lost": lost,
        "notes": repaired.notes,
    }
    run.emit(value, *lines)


def _totals(repository: "Repository") -> tuple[int, int]:
    """Return the number of pins and their total size; zeros if the database is lost."""
    try:
        return repository.totals()
    except VerificationError:
        return 0, 0


def _line(damage: "Damage") -> str:
    return f"{damage.cid}: {damage.what}" if damage.cid else damage.what


def _damage_error(damage: "list[Damage]") -> VerificationError:
    from holdfast.repository.database.identity import REMEDY
    from holdfast.repository.upkeep.checking import UNLISTED

    blocks = sum(bool(each.cid) for each in damage)
    count, verb = output.count_text(blocks, "block"), "is" if blocks == 1 else "are"
    has_unlisted = any(each.what == UNLISTED for each in damage)
    what = "damaged, missing or not in the database" if has_unlisted else "damaged or missing"
    message = f"{count} {verb} {what}"
    if blocks < len(damage):
        message = f"the store is damaged, and {message}" if blocks else "the store is damaged"
    error = VerificationError(message)
    return advise(error, REMEDY) if has_unlisted or blocks < len(damage) else error

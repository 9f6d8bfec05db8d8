"""Upkeep of the embedded store: collecting garbage, checking every block."""

from holdfast.cli import output
from holdfast.cli.options import store_options
from holdfast.cli.run import Run, command, group
from holdfast.errors import VerificationError

commands = group()


@command(commands, store_options)
def gc(run: Run) -> None:
    """Remove blocks of the store that no pin needs."""
    with run.repository() as repository:
        removed = repository.collect_garbage()
    run.emit(
        {"blocks": removed.blocks, "size": removed.size},
        f"removed {removed.blocks} blocks, {output.size_text(removed.size)}",
    )


@command(commands, store_options)
def check(run: Run) -> None:
    """Check every block and pin of the store."""
    with run.repository() as repository:
        damage = list(repository.check())
        pins, size = repository.totals()
    found = [{"cid": each.cid, "what": each.what} for each in damage]
    lines = [f"{each.cid}: {each.what}" for each in damage]
    sound = f"sound: {pins} pins, {output.size_text(size)}"
    run.emit({"pins": pins, "size": size, "damage": found}, *(lines or [sound]))
    if damage:
        raise VerificationError(f"{len(damage)} blocks are damaged or missing")

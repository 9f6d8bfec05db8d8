"""The command ``info``: what a CID names, and where it is pinned."""

import sys
from contextlib import closing
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from holdfast.cli import output
from holdfast.cli.options import CONNECTED, PATH_ARGUMENT
from holdfast.cli.output import paint
from holdfast.cli.run import Run, command, group
from holdfast.errors import UnsupportedError

if TYPE_CHECKING:
    from holdfast import Client, Entry, Pin
    from holdfast.content.unixfs.recognition import FileLayout

commands: Final = group()


@command(commands, *CONNECTED)
def info(run: Run, cid: PATH_ARGUMENT) -> None:
    """Show what a CID names, and where it is pinned.

    That is its kind and size, and for a file the number of its blocks and their layout. Only the
    first blocks are read. The number of blocks follows from the layout, where that can be told.
    """
    with run.client() as client:
        entry = client.stat(cid)
        layout = _layout(client, entry)
        pins = _pins(client, entry.cid)
    value = {
        "cid": entry.cid,
        "kind": entry.kind,
        "size": entry.size,
        "blocks": layout.blocks,
        "layout": layout.profile,
        "pins": None if pins is None else [{"at": at, **asdict(pin)} for at, pin in pins],
    }
    if run.as_json:
        output.say_json(value)
    else:
        _write(value, pins)


def _layout(client: "Client", entry: "Entry") -> "FileLayout":
    """Return how the file was cut into blocks, as far as its root tells."""
    from holdfast._sync.providers.foreign import as_provider
    from holdfast.content.blocks import inline_block
    from holdfast.content.car import CarReader
    from holdfast.content.cid import CID
    from holdfast.content.codecs import is_one_block
    from holdfast.content.unixfs.recognition import FileLayout, recognize

    cid = CID.parse(entry.cid)
    if entry.kind == "symlink" or is_one_block(cid) or inline_block(cid) is not None:
        return FileLayout(1, None)
    if entry.kind != "file":
        return FileLayout(None, None)
    provider = as_provider(client.provider)
    if not provider.supports("export_archive"):
        return FileLayout(None, None)
    reader = CarReader()
    with closing(provider.export_archive(entry.cid)) as archive:  # type: ignore[type-var]
        for piece in archive:
            for found, block in reader.update(piece):
                if found == cid:
                    return recognize(cid, block)
    return FileLayout(None, None)


def _pins(client: "Client", cid: str) -> "list[tuple[str, Pin]] | None":
    """Return the pins of `cid` at the provider and in the store on this machine, and where.

    None if the provider does not list pins.
    """
    from holdfast.config.locations import store_folder
    from holdfast.content.cid import CID
    from holdfast.registry import DEFAULT, row_of
    from holdfast.repository import Repository
    from holdfast.repository.database.identity import is_store

    provider = client.config.provider
    try:
        found = [(provider, pin) for pin in client.iter_pins(cid=cid, limit=1)]
    except UnsupportedError:
        return None
    path = store_folder(client.config.path)
    if not row_of(provider).on_this_machine and is_store(path):
        with Repository(path) as repository:
            pin = repository.find_pin(CID.parse(cid))
        found += [] if pin is None else [(DEFAULT, pin)]
    return found


def _write(value: dict[str, Any], pins: "list[tuple[str, Pin]] | None") -> None:
    """Write a line for each fact that is known."""
    size, blocks = value["size"], value["blocks"]
    exactly = f" ({size:,} bytes)" if size is not None and size > 1023 else ""
    rows = [
        ("CID", value["cid"]),
        ("Kind", value["kind"]),
        ("Size", None if size is None else output.size_text(size) + exactly),
        ("Blocks", None if blocks is None else f"{blocks:,}"),
        ("Layout", value["layout"]),
        *(("Pinned", _pin_text(at, pin)) for at, pin in pins or ()),
        ("Pinned", "no" if pins == [] else None),
    ]
    for label, text in ((label, text) for label, text in rows if text is not None):
        sys.stdout.write(f"{paint(f'{label:<8}', 'bold', sys.stdout)}{output.printable(text)}\n")


def _pin_text(at: str, pin: "Pin") -> str:
    facts = [f"at {at!r}", output.time_text(pin.created)]
    facts += [] if pin.state == "pinned" else [pin.state]
    facts += (
        [", ".join(f"{node}: {state}" for node, state in pin.peers.items())] if pin.peers else []
    )
    facts += [f"stored: {output.size_text(pin.size)}"] if pin.size is not None else []
    facts += [f"name: {pin.name}"] if pin.name else []
    return "  ".join(facts)

"""Commands that look at content: `ls`, `info`; and, offline, `cid` and `verify`."""

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import holdfast
from holdfast import registry
from holdfast.cli import options, output
from holdfast.cli.options import cid_argument, file_argument, flag
from holdfast.cli.output import Column, write_table
from holdfast.cli.pins import list_pins
from holdfast.cli.references import NAME, WHOLE, References, find
from holdfast.cli.reports import note_excluded, source_reader
from holdfast.cli.run import Run, command, group
from holdfast.config.locations import store_folder
from holdfast.content.cid import CID
from holdfast.content.reference import Reference
from holdfast.errors import InvalidCIDError, NotFoundError, UnsupportedError, VerificationError
from holdfast.hints import advise
from holdfast.records import keyvalues_text

if TYPE_CHECKING:
    from holdfast import Client, Entry, Pin
    from holdfast.content.unixfs.recognition import FileLayout

commands: Final = group()
DETAILS: Final = Column("KIND"), Column("SIZE", "number")
LONG = Annotated[bool, flag("Show the kind, size and CID of each.", "-l", "-lh", "-hl", "--long")]
LS_REMEDY = (
    "`ls` lists directories, and `holdfast info` shows what a CID or a path names; "
    "new pins may take a while to reach other gateways"
)


@command(commands, *options.LOOKS, name="ls")
def list_directory(
    run: Run,
    cid: Annotated[
        str | None, cid_argument("A directory; by default, all pins are listed.")
    ] = None,
    long: LONG = False,  # noqa: FBT002 - an option
) -> None:
    """List the names in a directory; without CID, the pins.

    With a CID and --json, each line is an object: name, CID, and kind and size if known.
    """
    if cid is None:
        list_pins(run)
        return
    with run.client(reads=True) as client:
        reference = find(client, cid)
        try:
            write_entries(run, client.iter_entries(reference, details=long), long=long)
        except NotFoundError as error:
            raise advise(error, LS_REMEDY) from None


def write_entries(run: Run, entries: "Iterable[Entry]", *, long: bool) -> None:
    """Write a line for each entry; on a terminal, a table."""
    if sys.stdout.isatty() and not run.as_json:
        columns = (Column("NAME", "name"), *(DETAILS if long else ()), Column("CID", "cid"))
        write_table(columns, (_cells(entry, long=long) for entry in entries))
        return
    for entry in entries:
        run.emit(asdict(entry), _line(entry) if long else entry.name)


def _cells(entry: "Entry", *, long: bool) -> tuple[str, ...]:
    details = (entry.kind or "unknown", output.size_text(entry.size)) if long else ()
    return entry.name, *details, entry.cid


def _line(entry: "Entry") -> str:
    """Return a line for a pipe: the name, which may be any text, comes last."""
    _, kind, size, cid = _cells(entry, long=True)
    return f"{kind:<9}  {size:>9}  {output.cid_column(cid)}  {entry.name}"


@command(commands, *options.LOOKS)
def info(
    run: Run,
    cids: Annotated[list[str], cid_argument("CIDs, paths under them, or name:NAME.")],
) -> None:
    """Show what CIDs name, and where they are pinned.

    For each CID, show the kind and the size, and for a file how many blocks it has and how they
    were cut. Only the first blocks are read. The number of blocks follows from the layout, if that
    is known.
    """
    with run.client(reads=True) as client:
        references = References(client, cids)
        for number, cid in enumerate(cids):
            if number and not run.as_json:
                output.say("")
            _show(run, client, references[cid][0])


def _show(run: Run, client: "Client", reference: Reference) -> None:
    entry = client.stat(reference)
    layout = _layout(client, entry)
    pins = _pins(client, entry.cid)
    value = {
        "cid": entry.cid,
        "kind": entry.kind,
        "size": entry.size,
        "blocks": layout.blocks,
        "layout": layout.profile,
        "pins": None if pins is None else [{"at": at, **pin.to_dict()} for at, pin in pins],
    }
    if run.as_json:
        output.say_json(value)
    else:
        output.say_facts(8, _facts(value, pins))


def _layout(client: "Client", entry: "Entry") -> "FileLayout":
    """Return how the file was cut into blocks, as far as its root tells."""
    from holdfast._sync.providers.foreign import as_provider
    from holdfast.content.blocks import inline_block
    from holdfast.content.car import CarReader
    from holdfast.content.codecs import is_one_block
    from holdfast.content.unixfs.recognition import FileLayout, recognize

    cid = CID.parse(entry.cid)
    if entry.kind == "symlink" or is_one_block(cid) or inline_block(cid) is not None:
        return FileLayout(1, None)
    provider, reader = as_provider(client.provider), CarReader()
    if entry.kind == "file" and provider.supports("export_archive"):
        with closing(provider.export_archive(entry.cid)) as archive:  # type: ignore[type-var]
            for piece in archive:
                for block_cid, block in reader.update(piece):
                    if block_cid == cid:
                        return recognize(cid, block)
    return FileLayout(None, None)


def _pins(client: "Client", cid: str) -> "list[tuple[str, Pin]] | None":
    """Return the pins of `cid` at the provider and in the store on this machine, and where.

    None if the provider does not list pins.
    """
    from holdfast.repository import Repository
    from holdfast.repository.database.identity import is_store

    provider = client.config.provider
    try:
        pins = [(provider, pin) for pin in client.iter_pins(cid=cid, limit=1)]
    except UnsupportedError:
        return None
    path = store_folder(client.config.path)
    if not registry.row_of(provider).on_this_machine and is_store(path):
        with Repository(path) as repository:
            pin = repository.find_pin(CID.parse(cid))
        pins += [] if pin is None else [(registry.DEFAULT, pin)]
    return pins


def _facts(value: dict[str, Any], pins: "list[tuple[str, Pin]] | None") -> list[tuple[str, str]]:
    """Return a label and a text for each fact that is known."""
    size, blocks = value["size"], value["blocks"]
    exactly = f" ({size:,} bytes)" if size is not None and size > 1023 else ""
    facts = [
        ("CID", value["cid"]),
        ("Kind", value["kind"]),
        ("Size", None if size is None else output.size_text(size) + exactly),
        ("Blocks", None if blocks is None else f"{blocks:,}"),
        ("Layout", value["layout"]),
        *(("Pinned", _pin_text(at, pin)) for at, pin in pins or ()),
        ("Pinned", "no" if pins == [] else None),
    ]
    return [(label, text) for label, text in facts if text is not None]


def _pin_text(at: str, pin: "Pin") -> str:
    facts = [f"at {at!r}", output.time_text(pin.created_ms)]
    facts += [] if pin.state == "pinned" else [pin.state]
    peers = (pin.peers or {}).items()
    facts += [", ".join(f"{node}: {state}" for node, state in peers)] if peers else []
    facts += [f"stored: {output.size_text(pin.size)}"] if pin.size is not None else []
    facts += [f"name: {pin.name}"] if pin.name else []
    facts += [f"key-values: {keyvalues_text(pin)}"] if pin.keyvalues else []
    return "  ".join(facts)


Source = Annotated[str, file_argument('A file, a directory, or "-".')]


@command(commands, options.layout_options)
def cid(
    run: Run,
    files: Annotated[list[str], file_argument('Files and directories, or "-".')],
    *,
    include_hidden: options.INCLUDE_HIDDEN = False,
    exclude: options.EXCLUDE = None,
    no_ignore: options.NO_IGNORE = False,
) -> None:
    """Compute the CIDs of files and directories, offline.

    With several FILEs, each line has a CID and a path.
    """
    profile = run.profile()
    read = source_reader(exclude, include_hidden=include_hidden, no_ignore=no_ignore)
    excluded = 0
    for file in files:
        with open_source(run, file, read) as (source, progress):
            computed = holdfast.compute_cid(source, profile=profile, progress=progress)
        value = {"cid": computed, "profile": profile, **({} if file == "-" else {"path": file})}
        run.emit(value, computed if len(files) == 1 else f"{computed} {file}")
        excluded += getattr(source, "excluded", 0)
    note_excluded(run, excluded)


@command(commands, *options.PINS)
def verify(
    run: Run,
    file: Source,
    cid: Annotated[str, cid_argument("The CID that it should have.")],
    *,
    include_hidden: options.INCLUDE_HIDDEN = False,
    exclude: options.EXCLUDE = None,
    no_ignore: options.NO_IGNORE = False,
) -> None:
    """Verify a file or directory against its CID, offline.

    Files that are left out of a directory are not verified. For name:NAME, the CID is looked up in
    the pins, which may need the network.
    """
    try:
        if cid.startswith(NAME):
            with run.client(reads=True) as client:
                cid = find(client, cid)
        bare = Reference.parse_cid(cid)
    except InvalidCIDError as error:
        order = "the file comes first: holdfast verify FILE CID" if Path(cid).exists() else ""
        hint = order or (WHOLE if cid.startswith(("bafk", "bafy", "bagu", "Qm")) else "")
        raise advise(error, hint) if hint else error from None
    read = source_reader(exclude, include_hidden=include_hidden, no_ignore=no_ignore)
    with open_source(run, file, read) as (source, progress):
        try:
            holdfast.verify(source, bare, progress=progress)
        except VerificationError as error:
            raise advise(error, f"`holdfast download {bare}` gets what the CID names") from None
    run.emit({"cid": bare, "verified": True}, f"{file} is {bare}")
    note_excluded(run, getattr(source, "excluded", 0))


@contextmanager
def open_source(run: Run, file: str, read: Callable[[str], Any]) -> Iterator[Any]:
    """Yield the source to read, and the progress function of a bar for it."""
    source: Any = run.standard_input() if file == "-" else read(file)
    label = "standard input" if file == "-" else Path(file).name
    with run.progress_bar(label, hidden=file == "-" and source.isatty()) as progress:
        yield source, progress

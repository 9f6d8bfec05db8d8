"""Commands for archives, the embedded store and the cache: packing, garbage, checks, repair."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

import holdfast
from holdfast import registry
from holdfast.cli import options, output
from holdfast.cli.content import PORTABLE, SYMLINKS, TARGET, save
from holdfast.cli.exit_codes import UsageError
from holdfast.cli.inspecting import LONG, open_source, write_entries
from holdfast.cli.options import argument, cid_argument, file_argument, flag, option
from holdfast.cli.references import find
from holdfast.cli.reports import note_excluded, source_reader
from holdfast.cli.run import Run, command, group
from holdfast.config.locations import cache_folder
from holdfast.content.cid import CID
from holdfast.content.reference import Reference
from holdfast.disk.archive_file import ArchiveFile
from holdfast.errors import ConfigError, InvalidCIDError, MalformedError, VerificationError
from holdfast.hints import advise

if TYPE_CHECKING:
    from holdfast.disk.block_cache import Amount
    from holdfast.repository import Damage, Repository
    from holdfast.sources.sources import Progress

commands: Final = group()
SHOWN = 10
ARCHIVE = Annotated[str, file_argument('The archive, or "-".', "ARCHIVE")]
PATH = Annotated[str | None, argument("PATH", "A path below the root, or a CID.")]
car_commands: Final = group()
commands.add_typer(car_commands, name="car")
OUTPUT = Annotated[str | None, option("TO", TARGET, "-o", "--output", callback=options.not_empty)]


@command(car_commands, is_group=True)
def car(_: Run) -> None:
    """Write and read CAR archives, with a store or without."""
    raise UsageError("name a command: pack, ls, unpack, export or import")


@command(car_commands, options.layout_options)
def pack(
    run: Run,
    file: Annotated[str, file_argument('The file or folder to pack, or "-".')],
    to: Annotated[str | None, file_argument('The archive to write, or "-".', "TO")] = None,
    *,
    output_file: options.OUTPUT = None,
    include_hidden: options.INCLUDE_HIDDEN = False,
    exclude: options.EXCLUDE = None,
    no_ignore: options.NO_IGNORE = False,
    force: options.FORCE = False,
) -> None:
    """Write a file or folder to an archive; write its CID.

    No store is needed. The archive appears complete, or not at all. With TO "-", the CID is written
    to standard error.
    """
    from holdfast import car

    to = options.required_target(to, output_file, force=force)
    profile = run.profile()
    target: Any = run.standard_output("an archive") if to == "-" else to
    read = source_reader(exclude, include_hidden=include_hidden, no_ignore=no_ignore)
    with open_source(run, file, read) as (source, progress):
        root = car.pack(source, target, profile=profile, progress=progress)
    note_excluded(run, getattr(source, "excluded", 0))
    if to == "-":
        run.note(root)
    else:
        run.emit({"cid": root, "profile": profile, "path": to}, root)


@command(car_commands, name="ls")
def list_archive(run: Run, archive: ARCHIVE, path: PATH = None, long: LONG = False) -> None:  # noqa: FBT002 - an option
    """List a directory in an archive.

    Without PATH, list the root. If it is not a directory, or there are several roots, write their
    CIDs.
    """
    with holdfast.Client.init(provider=registry.ARCHIVE, path=archive) as client:
        roots = [pin.cid for pin in client.iter_pins()]
        if path is None and (len(roots) != 1 or client.stat(roots[0]).kind != "directory"):
            run.emit({"roots": roots}, *roots)
            return
        reference = _reference(archive, roots, path)
        write_entries(run, client.iter_entries(reference, details=long), long=long)


@command(car_commands)
def unpack(
    run: Run,
    archive: ARCHIVE,
    path: PATH = None,
    *,
    output_file: OUTPUT = None,
    symlinks: SYMLINKS = False,
    portable: PORTABLE = False,
    max_size: options.MAX_SIZE = None,
    force: options.FORCE = False,
) -> None:
    """Write a file or folder of an archive to disk, verified; write its path.

    No store is needed. What is written appears complete, or not at all.
    """
    how: dict[str, Any] = {"symlinks": symlinks, "portable": portable, "max_bytes": max_size}
    with holdfast.Client.init(provider=registry.ARCHIVE, path=archive) as client:
        reference = _reference(archive, [pin.cid for pin in client.iter_pins()], path)
        try:
            save(run, client, reference, output_file, force=force, **how)
        except holdfast.errors.NotFoundError as error:  # the path may be meant as the target
            if path and not output_file:
                to = f"`holdfast car unpack {quote(archive)} -o {quote(path)}` unpacks"
                raise advise(type(error)(str(error)), f"{to} the whole archive there") from None
            raise


def _reference(archive: str, roots: list[str], path: str | None) -> Reference:
    """Return what `path` names: it begins with a CID, or below the only root."""
    names = tuple(name for name in (path or "").split("/") if name not in {"", "."})
    with suppress(IndexError, InvalidCIDError):
        return Reference(names[0], CID.parse(names[0]), names[1:])
    if len(roots) != 1:
        raise UsageError(f"{archive} has {len(roots)} roots: begin the path with a CID")
    return Reference(roots[0], CID.parse(roots[0]), names)


@command(car_commands, options.store_options, name="export")
def export_car(
    run: Run,
    cid: Annotated[str, cid_argument("The root to export.")],
    to: Annotated[str | None, file_argument('The archive to write, or "-".')] = None,
    *,
    output_file: options.OUTPUT = None,
    force: options.FORCE = False,
) -> None:
    """Write all blocks under a CID to an archive."""
    from holdfast.disk.atomic import PendingFile

    to = options.required_target(to, output_file, force=force)
    out = run.standard_output("an archive") if to == "-" else None
    with run.repository() as repository:
        provider = holdfast.LocalProvider(holdfast.ClientConfig(), repository=repository)
        text = Reference.parse_cid(find(holdfast.Client(provider), cid))
        pieces = repository.export_car(CID.parse(text))
        if out is not None:
            out.writelines(pieces)
            return
        size = 0
        with run.progress_bar(Path(to).name) as progress, PendingFile(to) as pending:
            for piece in _counted(pieces, None, progress):
                pending.write(piece)
                size += len(piece)
            pending.commit()
    run.emit({"cid": text, "path": to, "size": size}, to)


@command(car_commands, options.store_options, name="import")
def import_car(
    run: Run,
    file: Annotated[str, file_argument('The archive to import, or "-".')],
    *,
    blocks_only: Annotated[
        bool, flag("Pin nothing; blocks may be missing, and stay until `gc`.", "--blocks-only")
    ] = False,
) -> None:
    """Import an archive and pin its roots; write their CIDs."""
    from holdfast.sources.sources import open_source

    opened: Any = run.standard_input() if file == "-" else Path(file)
    with (
        open_source(opened) as source,  # first, so that a missing file creates no store
        run.repository(make=True) as repository,
        run.progress_bar(Path(file).name, hidden=file == "-") as progress,
    ):
        pieces = _counted(source.chunks(), source.size, progress)
        try:
            if blocks_only:
                roots = [*map(str, repository.import_blocks(pieces))]
            else:
                roots = [pin.cid for pin in repository.import_car(pieces)]
        except MalformedError:
            if file != "-":  # raise another error if it is no archive at all
                ArchiveFile(Path(file).open("rb"), file).close()  # noqa: SIM115
            raise
    run.emit({"roots": roots}, *roots)


def _counted(
    pieces: Iterable[bytes], total: int | None, progress: "Progress | None"
) -> Iterator[bytes]:
    """Yield `pieces`, and report them to `progress`."""
    done = 0
    for piece in pieces:
        yield piece
        done += len(piece)
        if progress is not None:
            progress(done, total)


@command(commands, options.store_options)
def gc(
    run: Run,
    *,
    dry_run: Annotated[bool, flag("Only say how much would be removed.", "--dry-run")] = False,
) -> None:
    """Remove the blocks of the store that no pin needs."""
    with run.repository() as repository, run.progress_bar("gc", unit="blocks") as progress:
        removed = repository.collect_garbage(progress, dry_run=dry_run)
    amounts = output.count_text(removed.blocks, "block"), output.size_text(removed.size)
    verb = "would remove" if dry_run else "removed"
    run.emit(removed._asdict(), f"{verb} {', '.join(amounts)}")


@command(commands, options.store_options)
def check(run: Run) -> None:
    """Check every block and pin of the store."""
    with run.repository() as repository:
        with run.progress_bar("check", unit="blocks") as progress:
            damage = list(repository.check(progress))
        pins, size = _totals(repository)
        foreign = [str(path) for path in repository.foreign_files()]
    lines = [_line(harm) for harm in damage]
    sound = f"sound: {output.count_text(pins, 'pin')}, {output.size_text(size)}"
    value = {
        "pins": pins,
        "size": size,
        "damage": [harm._asdict() for harm in damage],
        "foreign": foreign,
    }
    others = [f"not part of this store, not changed: {path}" for path in foreign[:SHOWN]]
    if len(foreign) > SHOWN:
        others.append(f"… and {len(foreign) - SHOWN} more")
    run.emit(value, *(lines or [sound]), *others)
    if damage:
        raise _damage_error(damage)


@command(commands, options.store_options)
def repair(
    run: Run,
    *,
    pin_roots: Annotated[
        bool, typer.Option(help="Pin complete content that has no pin, with the name `recovered`.")
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
    unpinned = [] if pin_roots else whole
    lists = {
        "not pinned (`gc` removes them, `repair --pin-roots` pins them):": unpinned,
        "not pinned, and blocks below them are missing:": incomplete,
        "lost for good:": [_line(harm) for harm in repaired.lost],
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
        "lost": [harm._asdict() for harm in repaired.lost],
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

    blocks = len({harm.cid for harm in damage if harm.cid})
    count, verb = output.count_text(blocks, "block"), "is" if blocks == 1 else "are"
    has_unlisted = any(harm.what == UNLISTED for harm in damage)
    what = "damaged, missing or not in the database" if has_unlisted else "damaged or missing"
    if all(harm.what == UNLISTED for harm in damage):
        what = "not in the database: it is an old one, or a process was killed"
    message = f"{count} {verb} {what}"
    of_store = any(not harm.cid for harm in damage)
    if of_store:
        message = f"the store is damaged, and {message}" if blocks else "the store is damaged"
    error = VerificationError(message)
    return advise(error, REMEDY) if has_unlisted or of_store else error


@command(commands, options.cache_options)
def cache(
    run: Run,
    *,
    clear: Annotated[bool, flag("Remove the blocks and interrupted downloads.", "--clear")] = False,
) -> None:
    """Show or clear the cache folder.

    It holds verified blocks (see --cache-bytes), and the verified parts of interrupted downloads.
    """
    from holdfast.disk.block_cache import cache_content

    config = run.config()
    folder = cache_folder(config.cache_path)
    if folder is None:
        wrong = ConfigError("this user has no home directory for a cache")
        raise advise(wrong, "name a folder with --cache-path")
    content = cache_content(folder, clear=clear)
    limit = config.cache_bytes
    room = f"of {output.size_text(limit)}" if limit else "(cache_bytes is 0: none are added)"
    verb = "removed " if clear else ""
    run.emit(
        {
            "folder": str(folder),
            "cleared": clear,
            "limit": limit,
            "blocks": content.blocks._asdict(),
            "downloads": content.downloads._asdict(),
        },
        str(folder),
        f"{verb}blocks: {_amount_text(content.blocks)}{'' if clear else f' {room}'}",
        f"{verb}interrupted downloads: {_amount_text(content.downloads)}",
    )


def _amount_text(amount: "Amount") -> str:
    return f"{output.count_text(amount.files, 'file')}, {output.size_text(amount.size)}"

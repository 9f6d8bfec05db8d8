"""The command that downloads files and folders."""

import errno
import io
import os
import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Final

from holdfast.cli.exit_codes import UsageError
from holdfast.cli.options import (
    CONNECTED,
    MAX_SIZE,
    OUTPUT,
    PATH_ARGUMENT,
    argument,
    flag,
    not_empty,
    one_target,
)
from holdfast.cli.reports import telling_resumes
from holdfast.cli.run import Run, command, group
from holdfast.errors import NotAFileError
from holdfast.hints import advise

if TYPE_CHECKING:
    from holdfast import Blob, Client
    from holdfast.content.reference import Reference
    from holdfast.sources.sources import Progress

commands: Final = group()
FOLDER_REMEDY: Final = "`holdfast download CID FOLDER` writes all of it to a new folder"


@command(commands, *CONNECTED)
def download(
    run: Run,
    cid: PATH_ARGUMENT,
    to: Annotated[
        str | None,
        argument(
            "TO",
            'The new file or folder, a folder to put it in, or "-". Default: the name in CID.',
            callback=not_empty,
        ),
    ] = None,
    *,
    output_file: OUTPUT = None,
    symlinks: Annotated[bool, flag("Write the symbolic links of a folder.", "--symlinks")] = False,
    portable: Annotated[
        bool, flag("Refuse names that other systems cannot have.", "--portable")
    ] = False,
    max_size: MAX_SIZE = None,
) -> None:
    """Download a file or folder, verified; write its path.

    What exists is replaced only if it is a file, and TO names it. An interrupted download continues
    when the command is run again.
    """
    from holdfast.content.reference import Reference

    _check_is_no_cid(to)
    to = one_target(to, output_file)
    out = run.standard_output() if to == "-" else None
    with run.client() as client:
        reference = Reference.parse(cid)
        if out is not None:
            with run.progress_bar("download") as progress:
                try:
                    blob = client.download(cid, progress=progress, max_bytes=max_size)
                except NotAFileError as error:
                    raise advise(error, FOLDER_REMEDY) from None
            _write_content(blob, out)
            return
        target = _target(reference, to)
        with run.progress_bar(target.name) as progress:
            try:
                telling = telling_resumes(run, client, target.name, progress)
                blob = telling.download(cid, to=target, progress=progress, max_bytes=max_size)
            except NotAFileError:
                options = {"symlinks": symlinks, "portable": portable, "max_bytes": max_size}
                telling = telling_resumes(run, client, target.name)
                about = _download_folder(telling, reference, target, options, progress)
            else:
                about = {"size": blob.size, "type": blob.type}
    run.emit({"cid": str(reference), "path": str(target), **about}, str(target))


def _check_is_no_cid(to: str | None) -> None:
    """Raise UsageError for a second CID, which would otherwise be the name of the file."""
    from holdfast.content.cid import CID
    from holdfast.errors import InvalidCIDError

    try:
        CID.parse(to or "")
    except InvalidCIDError:
        return
    raise advise(UsageError("download takes one CID at a time"), "`-o FILE` names the file")


def _download_folder(
    client: "Client",
    reference: "Reference",
    target: Path,
    options: dict[str, Any],
    progress: "Progress | None",
) -> dict[str, Any]:
    """Download a folder; return its size and type."""
    size = 0

    def report(done: int, total: int | None) -> None:
        nonlocal size
        size = done
        if progress is not None:
            progress(done, total)

    client.download_folder(reference, target, **options, progress=report)
    return {"size": size, "type": "directory"}


def _write_content(blob: "Blob", out: BinaryIO) -> None:
    """Write content to standard output; to a terminal only plain text."""
    if out.isatty() and not _is_plain_text(blob):
        raise UsageError("the content is not plain text: name a file, or use > FILE")
    with blob.open() as file:
        shutil.copyfileobj(file, out)


def _is_plain_text(blob: "Blob") -> bool:
    with blob.open() as file, io.TextIOWrapper(file, encoding="utf-8", newline="") as text:
        pieces = iter(lambda: text.read(1 << 16), "")
        try:
            return all(each.isprintable() or each in "\r\n\t" for piece in pieces for each in piece)
        except UnicodeDecodeError:
            return False


def _target(reference: "Reference", to: str | None) -> Path:
    """Return the path to write; raise FileExistsError if it exists and was not named."""
    folder = Path(to or ".")
    if to is not None and not folder.is_dir():
        if to.endswith(("/", os.sep)):
            raise FileNotFoundError(errno.ENOENT, "No such folder to write to", to)
        return folder
    target = folder / (reference.path[-1] if reference.path else reference.text)
    if target.is_dir():
        taken = FileExistsError(errno.EEXIST, "the folder exists", target)
        raise advise(taken, FOLDER_REMEDY)
    if target.exists():
        taken = FileExistsError(errno.EEXIST, "the file exists", target)
        raise advise(taken, f"`holdfast download CID -o {shlex.quote(str(target))}` replaces it")
    return target

"""Commands that store and read content: JSON, messages, files and folders."""

import errno
import io
import json
import os
import re
import shlex
import shutil
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Final

from holdfast.arguments import NOT_CHOSEN
from holdfast.cli import options, output
from holdfast.cli.exit_codes import UsageError
from holdfast.cli.options import argument, file_argument, flag
from holdfast.cli.references import NAME, find
from holdfast.cli.reports import BatchReport, note_excluded, source_reader, telling_resumes
from holdfast.cli.run import Run, command, group
from holdfast.content.cid import CID
from holdfast.content.media_types import AGE_MARK
from holdfast.content.reference import Reference
from holdfast.errors import ClientError, InvalidCIDError, NotAFileError, SerializationError
from holdfast.hints import advise
from holdfast.sinks.names import safe_part

if TYPE_CHECKING:
    from holdfast import Blob, Client, ClientRecord
    from holdfast.disk.unfinished_uploads import UnfinishedUpload
    from holdfast.sources.sources import Progress

commands: Final = group()
FILE_NAME: Final = re.compile(r"\S*(/\S+|\.(json|geojson|jsonl|ndjson|txt))")  # as people mean it
MAX_FILES: Final = 1000  # of a folder, to look for an encrypted one
FOLDER_REMEDY: Final = "`holdfast download CID FOLDER` writes all of it to a new folder"
TARGET = 'The new path, an existing folder to put it in, or "-". Default: its own name, or the CID.'
SYMLINKS = Annotated[bool, flag("Write the symbolic links of a folder.", "--symlinks")]
PORTABLE = Annotated[bool, flag("Refuse names that are not valid on other systems.", "--portable")]


@command(commands, *options.WRITES)
def store(
    run: Run,
    value: Annotated[
        str | None, argument("JSON", 'JSON text, a JSON file, or "-". Default: what is piped in.')
    ] = None,
    name: options.NAME = None,
    keyvalue: options.KEYVALUES = None,
    *,
    encrypt: options.ENCRYPT = False,
    to: options.READERS = None,
) -> None:
    """Store a JSON value; write its CID."""
    keyvalues = options.parse_keyvalues(keyvalue)
    data = _read_json(run, value)
    with run.view(encrypted=encrypt, readers=to) as client:
        record = client.store(data, name=name, keyvalues=keyvalues)
    run.emit(record.to_dict(), record.cid)
    note_name(run, record.earlier_name, name)


@command(commands, *options.READS)
def retrieve(run: Run, cid: options.PATH_ARGUMENT, *, decrypt: options.DECRYPT = False) -> None:
    """Write the JSON value at a CID.

    Values of dag-cbor are written as dag-json: a link is {"/": "CID"}.
    """
    from holdfast.content.dag_json import as_json

    with run.view(encrypted=decrypt, reads=True) as client:
        value = client.retrieve(find(client, cid))
    try:
        if run.as_json:
            output.say_json(value, as_json)
        else:
            output.say_content(json.dumps(value, default=as_json, ensure_ascii=False, indent=2))
    except RecursionError:
        words = "the value is nested too deeply to be shown: `holdfast download` gets its bytes"
        raise SerializationError(words) from None


@command(commands, *options.WRITES)
def send(
    run: Run,
    recipient: Annotated[str, argument("RECIPIENT", "The recipient's ID.")],
    message: Annotated[str, argument("MESSAGE", 'The message, or "-".')],
    *,
    encrypt: options.ENCRYPT = False,
    to: options.READERS = None,
) -> None:
    """Store a message; write its CID.

    You send the CID to the recipient.
    """
    if message == "-":
        try:
            message = _piped(run).decode()
        except UnicodeDecodeError:
            raise SerializationError("the message is not UTF-8 text") from None
    with run.view(encrypted=encrypt, readers=to) as client:
        record = client.send(recipient, message)
    run.emit(record.to_dict(), record.cid)


@command(commands, *options.READS)
def receive(run: Run, cid: options.PATH_ARGUMENT, *, decrypt: options.DECRYPT = False) -> None:
    """Write the message at a CID."""
    with run.view(encrypted=decrypt, reads=True) as client:
        try:
            message = client.receive(find(client, cid))
        except SerializationError as error:
            raise advise(error, "`holdfast retrieve` writes JSON of any shape") from None
    if run.as_json:
        output.say_json(message.to_dict())
        return
    output.say(f"To:   {message.recipient_id}", f"Sent: {output.time_text(message.timestamp)}", "")
    output.say_content(message.payload)


def _read_json(run: Run, text: str | None) -> Any:
    """Return the JSON value that `text` is, that the file of this name holds, or that is piped."""
    from holdfast.protocol import json_text

    is_piped = text is None and sys.stdin is not None and not sys.stdin.isatty()
    data = _piped(run) if is_piped or text == "-" else (text or "").encode(errors="surrogateescape")
    if text is None and not data:
        raise UsageError("give the JSON text or the path of a JSON file, or pipe it in")
    try:
        return json_text.from_text(data)
    except SerializationError as error:
        if text is None or text == "-":
            raise advise(error, "`holdfast upload -` stores any other content") from None
        file = text.removeprefix("@")
        if not (os.path.lexists(file) or file != text or FILE_NAME.fullmatch(text)):
            raise advise(error, _remedy_for(text)) from None
    remedy = f"`holdfast upload {shlex.quote(file)}` stores it as it is"
    if os.path.isdir(file):  # noqa: PTH112 - a path as it was typed
        raise advise(UsageError(f"{file} is a folder"), remedy)
    try:
        with Path(file).open("rb") as opened:
            return json_text.from_text(_limited(run, opened, file))
    except SerializationError as error:
        raise advise(SerializationError(f"{file}: {error}"), remedy) from None


def _remedy_for(text: str) -> str:
    """Return what to type in place of `text`, which is not JSON."""
    if text.lstrip()[:1] in ("{", "["):
        return 'write it in single quotes, with double quotes in it: \'{"hello": "world"}\''
    return "a text is JSON with its quotes: '\"hello\"'; `holdfast store FILE` reads a file"


def _piped(run: Run) -> bytes:
    """Return all of standard input; raise SerializationError above `max_json_bytes`."""
    return _limited(run, run.standard_input(), "standard input")


def _limited(run: Run, file: BinaryIO, name: str) -> bytes:
    most = run.config().max_json_bytes
    data = file.read(most + 1)
    if len(data) > most:
        raise SerializationError(f"{name} has more than {most:,} bytes, the limit for JSON")
    return data


@command(commands, *options.WRITES)
def upload(
    run: Run,
    files: Annotated[
        list[str] | None,
        file_argument('The files and folders to store, or "-". Default: what is piped in.'),
    ] = None,
    name: options.NAME = None,
    keyvalue: options.KEYVALUES = None,
    *,
    quiet: options.QUIET = False,
    quieter: Annotated[bool, flag("Write only the last CID.", "-Q", "--quieter")] = False,
    recursive: options.RECURSIVE = False,  # noqa: ARG001 - so it is always
    include_hidden: options.INCLUDE_HIDDEN = False,
    exclude: options.EXCLUDE = None,
    no_ignore: options.NO_IGNORE = False,
    encrypt: options.ENCRYPT = False,
    to: options.READERS = None,
) -> None:
    """Store files and folders; write their CIDs.

    A folder gets one CID. Its .ipfsignore and --exclude say what to leave out. With several FILEs,
    each line has a CID and a path. To resume an interrupted upload of a large file with the
    provider pinata, run the same command again; `holdfast uploads` lists such files.
    """
    keyvalues = options.parse_keyvalues(keyvalue)
    read = source_reader(exclude, include_hidden=include_hidden, no_ignore=no_ignore)
    opened = run.view(encrypted=encrypt, readers=to)
    is_piped = sys.stdin is not None and not sys.stdin.isatty()
    if not files and not (is_piped and sys.stdin.buffer.peek(1)):  # type: ignore[union-attr]
        empty = "standard input is empty: " if is_piped else ""
        raise UsageError(f"{empty}name the files and folders to store, or pipe the content in")
    files = files or ["-"]
    if quieter:  # the last CID is written once, also if its file is named twice
        files = [*dict.fromkeys(reversed(files))][::-1]
    last = files[-1]

    def emit(record: "ClientRecord[None]", file: str, line: str) -> None:
        if file == last or not quieter:
            fields = record.to_dict() | ({"excluded": record.excluded} if record.excluded else {})
            fields |= {} if file == "-" else {"path": file}
            is_short = quiet or quieter
            run.emit(record.cid if is_short else fields, record.cid if is_short else line)
        note_name(run, record.earlier_name, name, file)

    if len(files) == 1:
        _upload_one(run, opened, last, read, emit, name=name, keyvalues=keyvalues)
    elif name is not None:
        raise UsageError("--name is for one file: leave it out for several")
    elif "-" in files:
        raise UsageError('"-" cannot be one of several files: upload it alone')
    else:
        report = _Uploads(run, files, read, emit)
        with opened as client, report.shown("upload"):
            report.upload(client, keyvalues)


def _upload_one(
    run: Run,
    opened: "AbstractContextManager[Client]",
    file: str,
    read: Callable[[str], Any],
    emit: Callable[..., None],
    **pin: Any,
) -> None:
    source = run.standard_input() if file == "-" else read(file)
    label = pin["name"] or ("standard input" if file == "-" else Path(file).name)
    typed = file == "-" and source.isatty()  # a bar would overwrite the typed text
    with opened as client, run.progress_bar(label, hidden=typed) as progress:
        telling = telling_resumes(run, client, label, progress)
        record = telling.upload(source, progress=progress, **pin)
    emit(record, file, record.cid)
    _note_hidden(run, getattr(source, "hidden", 0))
    note_excluded(run, record.excluded)


class _Uploads(BatchReport):
    """The uploads of several files and folders.

    The size of a folder is known when its upload begins; until then the bar has no total.
    """

    def __init__(self, run: Run, files: list[str], read: Callable[..., Any], emit: Any) -> None:
        super().__init__(run, "path")
        self._emit = emit
        self._files = files
        self._read = read
        self._total = self._folders = 0
        for path in map(Path, files):
            with suppress(OSError):  # its upload raises the error
                self._folders += path.is_dir()
                self._total += path.stat().st_size if path.is_file() else 0
        self._lock = threading.Lock()
        self._hidden = self._excluded = 0

    def upload(self, client: "Client", keyvalues: dict[str, str] | None) -> None:
        """Upload the files. One that fails does not stop the others, unless all would fail."""
        from holdfast._sync.folder_download import Tally

        tally = Tally(self.progress)

        def store(file: str) -> "tuple[ClientRecord[None], int]":
            source = self._read(file)
            if not isinstance(source, str):
                with self._lock:
                    self._folders -= 1
                    self._total += source.size
            telling = telling_resumes(self._run, client, file)
            record = telling.upload(source, keyvalues=keyvalues, progress=tally.of_file())
            return record, getattr(source, "hidden", 0)

        self.work(store, self._files)

    def total(self) -> int | None:
        """Return the bytes of all, if known."""
        return None if self._folders else self._total

    def label(self) -> str:
        """Return how many have ended."""
        return f"{self.counts.total():,}/{len(self._files):,} files"

    def write_result(self, item: str, result: "tuple[ClientRecord[None], int]") -> None:
        """Write the CID and the path."""
        record, hidden = result
        self._hidden += hidden
        self._excluded += record.excluded
        self._emit(record, item, f"{record.cid} {item}")

    def summary(self) -> str:
        """Return how many are uploaded, unless all are."""
        _note_hidden(self._run, self._hidden)
        note_excluded(self._run, self._excluded)
        done, all_files = self.counts["done"], len(self._files)
        words = f"uploaded {done:,} of {all_files:,} files; "
        return "" if done == all_files else f"{words}to upload the others, run the command again"


def note_name(run: Run, earlier: str | None, chosen: str | None, file: str = "-") -> None:
    """Say what became of the name of content that was already pinned, under an `earlier` one.

    The name is the one that was `chosen`, else that of the `file`.
    """
    name = chosen or ("" if file == "-" else Path(os.path.abspath(file)).name)  # noqa: PTH100
    if earlier is None or name in {"", earlier}:
        return
    has_none = not earlier or NOT_CHOSEN.fullmatch(earlier)
    if chosen is None:
        how = "without a name" if has_none else f"as {earlier!r}"
        run.note(f"{file} is already pinned {how}: `--name {shlex.quote(name)}` renames the pin")
    elif not has_none:
        run.note(f"the content is already pinned: its pin was renamed from {earlier!r} to {name!r}")


def _note_hidden(run: Run, count: int) -> None:
    if count:
        run.note(f"left out hidden files and folders: {count:,}; --include-hidden uploads them")


@command(commands)
def uploads(
    run: Run,
    *,
    clear: Annotated[bool, flag("Forget them: the next upload starts over.", "--clear")] = False,
) -> None:
    """List or clear the unfinished uploads.

    A large file is sent to the provider pinata in pieces. To resume an interrupted upload, run the
    same command again. Unfinished uploads are deleted after a week; the service may forget them
    earlier.
    """
    from holdfast.disk.unfinished_uploads import UnfinishedUploads

    unfinished = UnfinishedUploads()
    rows = []
    for key, state in unfinished.listed():
        is_free = unfinished.forget(key) if clear else not unfinished.is_busy(key)
        rows.append(_row(state, is_busy=not is_free, is_removed=clear and is_free))
    for row in rows:
        run.emit(row, _line(row))
    if not rows and not run.as_json and sys.stdout.isatty():
        run.note("there are no unfinished uploads")


def _row(state: "UnfinishedUpload", *, is_busy: bool, is_removed: bool) -> dict[str, Any]:
    return {
        "path": (state.source or {}).get("path"),
        "name": state.name,
        "size": state.size,
        "sent": state.offset,
        "created": round(state.created * 1000),
        "expires": None if state.expires is None else round(state.expires * 1000),
        "uploadUrl": state.endpoint,
        "underWay": is_busy,
        "removed": is_removed,
    }


def _line(row: dict[str, Any]) -> str:
    verb = "removed  " if row["removed"] else "under way  " if row["underWay"] else ""
    done = f"{output.size_text(row['sent'])} of {output.size_text(row['size'])}"
    return f"{verb}{done}  {output.time_text(row['created'])}  {row['path'] or row['name']}"


@command(commands, *options.READS)
def download(
    run: Run,
    cid: options.PATH_ARGUMENT,
    to: Annotated[str | None, file_argument(TARGET, "TO")] = None,
    *,
    output_file: options.OUTPUT = None,
    symlinks: SYMLINKS = False,
    portable: PORTABLE = False,
    max_size: options.MAX_SIZE = None,
    decrypt: options.DECRYPT = False,
    force: options.FORCE = False,
    recursive: options.RECURSIVE = False,  # noqa: ARG001 - so it is always
) -> None:
    """Download a file or folder, verified; write its path.

    Without TO, the file is named after the last part of a path, or after the pin if that name is
    valid on every system, and otherwise after the CID. To "-", a folder is written as a tar
    archive. To resume an interrupted download, run the command again.
    """
    _check_is_no_cid(to, output_file)
    to = options.one_target(to, output_file)
    with run.view(encrypted=decrypt, reads=True) as client:
        how: dict[str, Any] = {"symlinks": symlinks, "portable": portable, "max_bytes": max_size}
        save(run, client, find(client, cid), to, force=force, decrypt=decrypt, **how)


def save(
    run: Run,
    client: "Client",
    reference: Reference,
    to: str | None,
    *,
    force: bool,
    decrypt: bool = False,
    **folder_options: Any,
) -> None:
    """Download a file or folder to `to`, and write where it is; "-" is standard output."""
    max_size = folder_options["max_bytes"]
    out = run.standard_output() if to == "-" else None
    if out is not None:
        with run.progress_bar("download") as progress:
            try:
                blob = client.download(reference, progress=progress, max_bytes=max_size)
            except NotAFileError as error:
                # A process that is killed must not leave decrypted files in a temporary folder.
                if out.isatty() or decrypt:
                    raise advise(error, FOLDER_REMEDY) from None
                _write_tar(run, client, reference, out, progress=progress, **folder_options)
                return
        _write_content(blob, out)
        _note_encrypted(run, blob.open())
        return
    target = _target(client, reference, to, decrypt=decrypt)
    options.check_new(target, force=force)
    with run.progress_bar(target.name) as progress:
        try:
            telling = telling_resumes(run, client, target.name, progress)
            blob = telling.download(reference, to=target, progress=progress, max_bytes=max_size)
        except NotAFileError:
            telling = telling_resumes(run, client, target.name)
            facts = _download_folder(telling, reference, target, folder_options, progress)
        else:
            facts = {"size": blob.size, "type": blob.type}
    run.emit({"cid": str(reference), "path": str(target), **facts}, str(target))
    _note_encrypted_below(run, target)


def _note_encrypted_below(run: Run, target: Path) -> None:
    """Do what `_note_encrypted` does for a file, or for the first encrypted one in a folder."""
    files = (path for path in chain([target], target.rglob("*")) if path.is_file())
    any(_note_encrypted(run, path.open("rb")) for path in islice(files, MAX_FILES))


def _note_encrypted(run: Run, file: BinaryIO) -> bool:
    """Say that a file is encrypted, if it is; close it, and return whether it is."""
    with file:
        is_encrypted = file.read(len(AGE_MARK)) == AGE_MARK
    if is_encrypted:
        run.note("this content is encrypted: open it with `holdfast download --decrypt` or age")
    return is_encrypted


def _check_is_no_cid(to: str | None, output_file: str | None) -> None:
    """Raise UsageError for a second CID, which would otherwise be the name of the file."""
    if to and output_file == "-":  # as with `cat`
        raise advise(UsageError("give one CID or name at a time"), f"leave {to!r} out")
    with suppress(InvalidCIDError):
        if not (to or "").startswith(NAME):
            CID.parse(to or "")
        raise advise(UsageError("download takes one CID at a time"), "`-o FILE` names the file")


def _download_folder(
    client: "Client",
    reference: Reference,
    target: Path,
    folder_options: dict[str, Any],
    progress: "Progress | None",
) -> dict[str, Any]:
    """Download a folder; return its size and type."""
    size = 0

    def report(done: int, total: int | None) -> None:
        nonlocal size
        size = done
        if progress is not None:
            progress(done, total)

    client.download_folder(reference, target, **folder_options, progress=report)
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
            return all(
                letter.isprintable() or letter in "\r\n\t" for piece in pieces for letter in piece
            )
        except UnicodeDecodeError:
            return False


def _write_tar(
    run: Run, client: "Client", reference: Reference, out: BinaryIO, **folder_options: Any
) -> None:
    """Write a folder as a tar archive, after all of it was verified."""
    import tarfile
    import tempfile

    def plain(info: tarfile.TarInfo) -> tarfile.TarInfo:
        info.uid = info.gid = 0
        info.uname = info.gname = ""
        info.mtime = 0  # so that the same folder is always the same archive
        return info

    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder, _own_name(client, reference, decrypt=False))
        client.download_folder(reference, target, **folder_options)
        with tarfile.open(fileobj=out, mode="w|") as archive:
            archive.add(target, target.name, filter=plain)
        _note_encrypted_below(run, target)


def _target(client: "Client", reference: Reference, to: str | None, *, decrypt: bool) -> Path:
    """Return the path to write; raise FileExistsError for a folder that was not named."""
    folder = Path(to or ".")
    if to is not None and not folder.is_dir():
        if to.endswith(("/", os.sep)):
            raise FileNotFoundError(errno.ENOENT, "No such folder to write to", to)
        return folder
    target = folder / _own_name(client, reference, decrypt=decrypt)
    if target.is_dir():
        taken = FileExistsError(errno.EEXIST, "the folder exists", target)
        raise advise(taken, f"{FOLDER_REMEDY}; --force replaces files, not folders")
    return target


def _own_name(client: "Client", reference: Reference, *, decrypt: bool) -> str:
    """Return the name of a new file: the last of the path, or that of the pin, or the CID."""
    if reference.path:
        name = reference.path[-1]
    else:
        names: list[str] = []
        with suppress(ClientError):  # only the name would come from there
            names = [pin.name for pin in client.iter_pins(cid=reference.text, limit=1)]
        name = safe_part("".join(names))
        name = "" if NOT_CHOSEN.fullmatch(name) else name
    return (name.removesuffix(".age") if decrypt else name) or reference.text

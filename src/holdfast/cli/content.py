"""Commands for the operations of the client."""

import errno
import io
import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from holdfast.cli import output
from holdfast.cli.exit_codes import UsageError, advise
from holdfast.cli.options import CONNECTED, not_empty
from holdfast.cli.run import Run, command, group
from holdfast.errors import SerializationError

if TYPE_CHECKING:
    from holdfast import Blob, ClientRecord
    from holdfast.content.reference import Reference

commands = group()
CID = Annotated[str, typer.Argument(metavar="CID", help="A CID, a path under one, or a link.")]


@command(commands, *CONNECTED)
def store(
    run: Run, value: Annotated[str, typer.Argument(metavar="JSON", help='The JSON text, or "-".')]
) -> None:
    """Store a JSON value; write its CID."""
    from holdfast.protocol import json_text

    text = _piped(run) if value == "-" else value.encode("utf-8", "surrogateescape")
    data = json_text.from_text(text)
    with run.client() as client:
        _emit_record(run, client.store(data))


@command(commands, *CONNECTED)
def retrieve(run: Run, cid: CID) -> None:
    """Write the JSON value at a CID."""
    with run.client() as client:
        value = client.retrieve(cid)
    if run.as_json:
        output.say_json(value)
    else:
        output.say_content(json.dumps(value, ensure_ascii=False, indent=2))


@command(commands, *CONNECTED)
def upload(
    run: Run,
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", callback=not_empty, help='The file to store, or "-".'),
    ],
    name: Annotated[str | None, typer.Option(metavar="NAME", help="The name to give it.")] = None,
) -> None:
    """Store a file; write its CID."""
    source: Any = run.standard_input() if file == "-" else Path(file)
    label = name or ("standard input" if file == "-" else Path(file).name)
    typed = file == "-" and source.isatty()  # a bar would overwrite the typed text
    with run.client() as client, run.progress_bar(label, hidden=typed) as progress:
        record = client.upload(source, name=name, progress=progress)
    _emit_record(run, record)


@command(commands, *CONNECTED)
def download(
    run: Run,
    cid: CID,
    to: Annotated[
        str | None,
        typer.Argument(
            metavar="TO",
            callback=not_empty,
            help='A file, a folder, or "-"; by default a new file in the current folder.',
        ),
    ] = None,
) -> None:
    """Download a file; write it only if all of it is verified."""
    from holdfast.content.reference import Reference

    out = run.standard_output() if to == "-" else None
    with run.client() as client:
        reference = Reference.parse(cid)
        target = _target(reference, to) if out is None else None
        label = "download" if target is None else target.name
        with run.progress_bar(label) as progress:
            blob = client.download(cid, to=target, progress=progress)
        if out is not None:
            _write_content(blob, out)
            return
    result = {"cid": str(reference), "path": str(target), "size": blob.size, "type": blob.type}
    run.emit(result, str(target))


@command(commands, *CONNECTED)
def send(
    run: Run,
    recipient: Annotated[str, typer.Argument(metavar="RECIPIENT", help="The recipient's ID.")],
    message: Annotated[str, typer.Argument(metavar="MESSAGE", help='The message, or "-".')],
) -> None:
    """Store a message; write its CID, which the recipient needs."""
    if message == "-":
        try:
            message = _piped(run).decode()
        except UnicodeDecodeError:
            raise SerializationError("the message is not UTF-8 text") from None
    with run.client() as client:
        _emit_record(run, client.send(recipient, message))


@command(commands, *CONNECTED)
def receive(run: Run, cid: CID) -> None:
    """Write the message at a CID."""
    with run.client() as client:
        try:
            message = client.receive(cid)
        except SerializationError as error:
            raise advise(error, "`holdfast retrieve` writes JSON of any shape") from None
    if run.as_json:
        output.say_json(message.to_dict())
        return
    output.say(f"To:   {message.recipient_id}", f"Sent: {output.time_text(message.timestamp)}", "")
    output.say_content(message.payload)


@command(commands, *CONNECTED)
def revoke(run: Run, cid: CID) -> None:
    """Unpin a CID. Copies elsewhere may remain."""
    from holdfast.content.reference import Reference

    with run.client() as client:
        client.revoke(cid)
    bare = Reference.parse_cid(cid)
    run.emit({"cid": bare, "revoked": True}, f"revoked {bare}")


def _emit_record(run: Run, record: "ClientRecord[Any]") -> None:
    run.emit(record.to_dict(), record.cid)


def _piped(run: Run) -> bytes:
    """Return all of standard input; raise SerializationError above `max_json_bytes`."""
    most = run.config().max_json_bytes
    found = run.standard_input().read(most + 1)
    if len(found) > most:
        raise SerializationError(f"standard input has more than max_json_bytes, {most} bytes")
    return found


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
    """Return the file to write; raise FileExistsError for an existing file that was not named."""
    folder = Path(to or ".")
    if to is not None and not folder.is_dir():
        if to.endswith(("/", os.sep)):
            raise FileNotFoundError(errno.ENOENT, "No such folder to write to", to)
        return folder
    target = folder / (reference.path[-1] if reference.path else reference.text)
    if target.exists():
        taken = "the file exists; name it to replace it"
        raise FileExistsError(errno.EEXIST, taken, target)
    return target

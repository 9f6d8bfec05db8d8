"""The operations of the client: one command for each."""

import errno
import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli import output
from holdfast.cli.run import CONNECTED, Run, command, group
from holdfast.errors import SerializationError

if TYPE_CHECKING:
    from holdfast import ClientRecord

commands = group()
CID = Annotated[str, typer.Argument(metavar="CID", help="A CID, a path under one, or a link.")]


@command(commands, *CONNECTED)
def store(
    run: Run, value: Annotated[str, typer.Argument(metavar="JSON", help='The JSON text, or "-".')]
) -> None:
    """Store a JSON value; write its CID."""
    from holdfast.protocol import json_text

    text = _standard_input() if value == "-" else value.encode("utf-8", "surrogateescape")
    data = json_text.from_text(text)
    with run.client() as client:
        _emit_record(run, client.store(data))


@command(commands, *CONNECTED)
def retrieve(run: Run, cid: CID) -> None:
    """Write the JSON value at a CID."""
    with run.client() as client:
        value = client.retrieve(cid)
    run.emit(value, json.dumps(value, ensure_ascii=False, indent=2))


@command(commands, *CONNECTED)
def upload(
    run: Run,
    file: Annotated[str, typer.Argument(metavar="FILE", help='The file to store, or "-".')],
    name: Annotated[str | None, typer.Option(metavar="NAME", help="The name to give it.")] = None,
) -> None:
    """Store a file; write its CID."""
    source: Any = sys.stdin.buffer if file == "-" else Path(file)
    label = name or ("standard input" if file == "-" else Path(file).name)
    with run.client() as client, output.progress_bar(label) as progress:
        record = client.upload(source, name=name, progress=progress)
    _emit_record(run, record)


@command(commands, *CONNECTED)
def download(
    run: Run,
    cid: CID,
    to: Annotated[
        str | None,
        typer.Argument(
            metavar="TO", help='A file, a folder, or "-"; by default a new file in this folder.'
        ),
    ] = None,
) -> None:
    """Fetch a file, whole and proven or not at all."""
    if to == "-" and run.as_json:
        raise typer.BadParameter('--json and "-" both want standard output: give one of them')
    with run.client() as client:
        target = None if to == "-" else _target(cid, to)
        label = "download" if target is None else target.name
        with output.progress_bar(label) as progress:
            blob = client.download(cid, to=target, progress=progress)
        if target is None:
            with blob.open() as file:
                shutil.copyfileobj(file, sys.stdout.buffer)
            return
    told = {"cid": cid, "path": str(target), "size": blob.size, "type": blob.type}
    run.emit(told, str(target))


@command(commands, *CONNECTED)
def send(
    run: Run,
    recipient: Annotated[str, typer.Argument(metavar="RECIPIENT", help="Whom the message is for.")],
    message: Annotated[str, typer.Argument(metavar="MESSAGE", help='The message, or "-".')],
) -> None:
    """Store a message; write its CID, to be passed on."""
    if message == "-":
        try:
            message = _standard_input().decode()
        except UnicodeDecodeError:
            raise SerializationError("the message is not UTF-8 text") from None
    with run.client() as client:
        _emit_record(run, client.send(recipient, message))


@command(commands, *CONNECTED)
def receive(run: Run, cid: CID) -> None:
    """Write the message at a CID."""
    with run.client() as client:
        message = client.receive(cid)
    head = f"To:   {message.recipient_id}\nSent: {output.time_text(message.timestamp)}"
    run.emit(message.to_dict(), f"{head}\n\n{message.payload}")


@command(commands, *CONNECTED)
def revoke(run: Run, cid: CID) -> None:
    """Unpin a CID. Copies elsewhere may live on."""
    with run.client() as client:
        client.revoke(cid)
    run.emit({"cid": cid, "revoked": True}, f"revoked {cid}")


def _emit_record(run: Run, record: "ClientRecord[Any]") -> None:
    run.emit(record.to_dict(), record.cid)


def _standard_input() -> bytes:
    return sys.stdin.buffer.read()


def _target(cid: str, to: str | None) -> Path:
    """The file to write. One that nobody named is not replaced."""
    from holdfast.content.reference import Reference

    reference = Reference.parse(cid)
    folder = Path(to or ".")
    if to is not None and not folder.is_dir():
        return folder
    target = folder / (reference.path[-1] if reference.path else reference.text)
    if target.exists():
        taken = "there is a file of that name; name it to replace it"
        raise FileExistsError(errno.EEXIST, taken, target)
    return target

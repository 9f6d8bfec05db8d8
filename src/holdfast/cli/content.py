"""Commands for the operations of the client."""

import json
import os
import shlex
from typing import Annotated, Final

from holdfast.cli import output
from holdfast.cli.options import (
    CONNECTED,
    KEYVALUES,
    NAME,
    PATH_ARGUMENT,
    argument,
    parse_keyvalues,
)
from holdfast.cli.run import Run, command, group
from holdfast.errors import SerializationError
from holdfast.hints import advise

commands: Final = group()


@command(commands, *CONNECTED)
def store(
    run: Run,
    value: Annotated[str, argument("JSON", 'The JSON text, or "-".')],
    name: NAME = None,
    keyvalue: KEYVALUES = None,
) -> None:
    """Store a JSON value; write its CID."""
    from holdfast.protocol import json_text

    text = _piped(run) if value == "-" else value.encode("utf-8", "surrogateescape")
    try:
        data = json_text.from_text(text)
    except SerializationError as error:
        raise advise(error, _remedy_for(value)) from None
    keyvalues = parse_keyvalues(keyvalue)
    with run.client() as client:
        record = client.store(data, name=name, keyvalues=keyvalues)
    run.emit(record.to_dict(), record.cid)


@command(commands, *CONNECTED)
def retrieve(run: Run, cid: PATH_ARGUMENT) -> None:
    """Write the JSON value at a CID."""
    with run.client() as client:
        value = client.retrieve(cid)
    if run.as_json:
        output.say_json(value)
    else:
        output.say_content(json.dumps(value, ensure_ascii=False, indent=2))


@command(commands, *CONNECTED)
def send(
    run: Run,
    recipient: Annotated[str, argument("RECIPIENT", "The recipient's ID.")],
    message: Annotated[str, argument("MESSAGE", 'The message, or "-".')],
) -> None:
    """Store a message; write its CID, for the recipient."""
    if message == "-":
        try:
            message = _piped(run).decode()
        except UnicodeDecodeError:
            raise SerializationError("the message is not UTF-8 text") from None
    with run.client() as client:
        record = client.send(recipient, message)
    run.emit(record.to_dict(), record.cid)


@command(commands, *CONNECTED)
def receive(run: Run, cid: PATH_ARGUMENT) -> None:
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


def _remedy_for(text: str) -> str:
    """Return what to type in place of `text`, which is not JSON."""
    if text == "-":
        return "`holdfast upload -` stores any other content"
    file = text.removeprefix("@")
    if file != text or os.path.lexists(file):
        return f"`holdfast store - < {shlex.quote(file)}` stores the JSON in a file"
    if text.lstrip()[:1] in ("{", "["):
        return 'write it in single quotes, with double quotes in it: \'{"hello": "world"}\''
    return "a text is JSON with its quotes: '\"hello\"'; `holdfast store - < FILE` reads a file"


def _piped(run: Run) -> bytes:
    """Return all of standard input; raise SerializationError above `max_json_bytes`."""
    most = run.config().max_json_bytes
    data = run.standard_input().read(most + 1)
    if len(data) > most:
        raise SerializationError(f"standard input has more than max_json_bytes, {most} bytes")
    return data

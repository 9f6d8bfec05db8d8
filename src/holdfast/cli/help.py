"""The commands `demo`, `help` and `version`."""

import tempfile
from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, Final

import typer

import holdfast
from holdfast.cli import exit_codes, output
from holdfast.cli.app import COMMANDS, TOPICS, app
from holdfast.cli.options import argument
from holdfast.cli.run import Run, command, group
from holdfast.errors import ProviderError, VerificationError

commands: Final = group()
DOCUMENT: Final[dict[str, Any]] = {"hello": "world", "tags": ["ocean", "🌊"]}
PHOTO = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 1000


@command(commands)
def demo(run: Run) -> None:
    """Show every operation on a temporary node."""
    done: list[dict[str, str]] = []
    with closing(_operations()) as operations:
        for step, result in operations:
            if step:
                done.append({"step": step, "result": str(result)})
            if not run.as_json:
                heading = ["", str(result)] if done else [str(result)]
                output.say(*([f"  {step:<16} {result}"] if step else heading))
    if run.as_json:
        output.say_json(done)


def _operations() -> Generator[tuple[str, object], None, None]:
    """Yield the name of each operation and its result; for a heading, no name."""
    from holdfast.testing import ScriptedServer, running_node

    with (
        tempfile.TemporaryDirectory(prefix="holdfast-demo-") as folder,
        running_node() as node,
        ScriptedServer() as faulty,
        holdfast.Client.init(node.config, cache_path=Path(folder, "cache")) as client,
    ):
        yield "", f"A node with a pinning API and a gateway listens on {node.api_url}"
        yield "test_connection", client.test_connection()
        record = client.store(DOCUMENT)
        yield "store", f"{record.cid} ({record.size} characters)"
        yield "retrieve", client.retrieve(record.cid)

        path = Path(folder, "photo.png")
        path.write_bytes(PHOTO)
        photo = client.upload(path)
        yield "upload", f"{photo.cid} ({photo.size:,} bytes)"
        copy = client.download(photo.cid, to=Path(folder, "copy.png"))
        if copy.read() != PHOTO:
            raise VerificationError("the download returned other bytes", cid=photo.cid)
        yield "download", f"{copy.name}, the same bytes"

        note = client.send("alice", "Low tide at six.")
        yield "send", note.cid
        message = client.receive(note.cid)
        yield "receive", f"to {message.recipient_id}: {message.payload}"

        yield "revoke", client.revoke(photo.cid)
        try:
            client.revoke(photo.cid)
        except ProviderError as error:
            yield "revoke again", f"{error.name}: {error}"

        yield "", "Another gateway sends wrong content for the same CID:"
        faulty.reply(200, {**DOCUMENT, "hello": "w0rld"})
        try:
            client.with_options(gateway_url=faulty.url).retrieve(record.cid)
        except VerificationError as error:
            yield "caught", f"{error.name}: {error}"
        else:
            raise VerificationError("the wrong bytes were not detected", cid=record.cid)
    yield "", "The node, its files and its store are deleted. Next: holdfast --help"


@command(commands, name="help")
def show_help(
    run: Run,
    topic: Annotated[
        str | None,
        argument(
            "TOPIC",
            f"A command, or {', '.join(TOPICS)}; by default all commands.",
            autocompletion=lambda: [*COMMANDS, *TOPICS],
        ),
    ] = None,
) -> None:
    """Show the help of a command, or of a topic."""
    # The application replaces `help COMMAND` by `COMMAND --help`: see `app.Commands`.
    if topic is not None and topic not in TOPICS:
        raise exit_codes.UsageError(f"write options last: holdfast help {topic}")
    if topic is None:
        parser = typer.main.get_command(app)
        text = parser.make_context("holdfast", [], resilient_parsing=True).get_help()
    else:
        text = TOPICS[topic]
    value = exit_codes.MEANINGS if topic == "exit-codes" else {"text": text}
    run.emit(value, *text.splitlines())


@command(commands)
def version(run: Run) -> None:
    """Show the version."""
    run.emit({"version": holdfast.__version__}, f"holdfast {holdfast.__version__}")

"""The commands `demo`, `help` and `version`."""

import tempfile
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
    from holdfast.testing import ScriptedServer, running_node

    steps = Steps(run)
    with (
        tempfile.TemporaryDirectory(prefix="holdfast-demo-") as folder,
        running_node() as node,
        ScriptedServer() as faulty,
        holdfast.Client.init(node.config, cache_path=Path(folder, "cache")) as client,
    ):
        steps.title(f"A node with a pinning API and a gateway listens on {node.api_url}")
        cid = show_operations(client, Path(folder), steps)
        steps.title("Another gateway sends wrong content for the same CID:")
        faulty.reply(200, {**DOCUMENT, "hello": "w0rld"})
        try:
            client.with_options(gateway_url=faulty.url).retrieve(cid)
        except VerificationError as error:
            steps.show("caught", f"{error.name}: {error}")
        else:
            raise VerificationError("the wrong bytes were not detected", cid=cid)
    steps.title("The node, its files and its store are deleted. Next: holdfast --help")
    steps.finish()


class Steps:
    """The steps so far: written as text at once, or as JSON at the end."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._done: list[dict[str, str]] = []

    def title(self, text: str) -> None:
        """Write a heading."""
        if not self._run.as_json:
            output.say(*([""] if self._done else []), text)

    def show(self, what: str, result: Any) -> None:
        """Write the result of an operation."""
        self._done.append({"step": what, "result": str(result)})
        if not self._run.as_json:
            output.say(f"  {what:<16} {result}")

    def finish(self) -> None:
        """Write all steps, if the output is JSON."""
        if self._run.as_json:
            output.say_json(self._done)


def show_operations(client: "holdfast.Client", folder: Path, steps: Steps) -> str:
    """Run all eight operations; return the CID of a pinned document."""
    steps.show("test_connection", client.test_connection())
    record = client.store(DOCUMENT)
    steps.show("store", f"{record.cid} ({record.size} characters)")
    steps.show("retrieve", client.retrieve(record.cid))

    path = folder / "photo.png"
    path.write_bytes(PHOTO)
    photo = client.upload(path)
    steps.show("upload", f"{photo.cid} ({photo.size:,} bytes)")
    copy = client.download(photo.cid, to=folder / "copy.png")
    if copy.read() != PHOTO:
        raise VerificationError("the download returned other bytes", cid=photo.cid)
    steps.show("download", f"{copy.name}, the same bytes")

    note = client.send("alice", "Low tide at six.")
    steps.show("send", note.cid)
    message = client.receive(note.cid)
    steps.show("receive", f"to {message.recipient_id}: {message.payload}")

    steps.show("revoke", client.revoke(photo.cid))
    try:
        client.revoke(photo.cid)
    except ProviderError as error:
        steps.show("revoke again", f"{error.name}: {error}")
    return record.cid


@command(commands, name="help")
def show_help(
    run: Run,
    topic: Annotated[
        str | None,
        argument(
            "TOPIC",
            f"A command, or {', '.join(TOPICS)}; else all commands.",
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

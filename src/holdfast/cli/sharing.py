"""What is kept and how it is reached: listing, links, the account."""

from dataclasses import asdict
from typing import Annotated

import typer

from holdfast.cli import output
from holdfast.cli.content import CID
from holdfast.cli.run import CONNECTED, Run, command, group
from holdfast.errors import ConfigError

commands = group()


@command(commands, *CONNECTED)
def test_connection(run: Run) -> None:
    """Ask the provider whether the credentials are good."""
    with run.client() as client:
        client.test_connection()
        provider = client.config.provider
    run.emit({"connected": True, "provider": provider}, f"connected to {provider!r}")


@command(commands, *CONNECTED, name="open")
def open_link(
    run: Run,
    cid: CID,
    show: Annotated[bool, typer.Option("--show", help="Only write the link.")] = False,  # noqa: FBT002
) -> None:
    """Open a CID in the browser; write the link."""
    import webbrowser

    with run.client() as client:
        link = client.url(cid)
    if not show:
        if not link.startswith("http"):
            raise ConfigError(
                "content in the embedded store has no address for browsers: "
                "run `holdfast node`, or give --show for the ipfs:// link"
            )
        if not webbrowser.open(link):
            output.warn("no browser was found; open the link yourself")
    run.emit({"cid": cid, "url": link, "opened": not show}, link)


@command(commands, *CONNECTED, name="list")
def list_pins(
    run: Run,
    name: Annotated[
        str | None, typer.Option(metavar="TEXT", help="A part of the names to look for.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(metavar="NUMBER", min=1, help="How many at the most.")
    ] = None,
) -> None:
    """List what is pinned, newest first."""
    with run.client() as client:
        pins = client.pins(name=name, limit=limit)
    lines = [
        f"{pin.cid}  {output.size_text(pin.size):>9}  {output.time_text(pin.created)}  {pin.name}"
        for pin in pins
    ]
    if run.as_json:
        output.say_json([asdict(pin) for pin in pins])
    elif lines:
        output.say("\n".join(lines))

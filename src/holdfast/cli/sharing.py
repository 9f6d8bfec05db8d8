"""Commands that open links and test the connection."""

import warnings
from typing import Annotated

import typer

from holdfast.cli.exit_codes import advise
from holdfast.cli.options import CONNECTED, PATH_ARGUMENT
from holdfast.cli.run import Run, command, group
from holdfast.errors import ConfigError

commands = group()
REMEDY = "use a gateway: `holdfast node`, then `--gateway-url http://127.0.0.1:5080/ipfs`"


@command(commands, *CONNECTED)
def test_connection(run: Run) -> None:
    """Check that the provider accepts the credentials."""
    with run.client() as client:
        client.test_connection()
        provider = client.config.provider
    run.emit({"connected": True, "provider": provider}, f"connected to {provider!r}")


@command(commands, *CONNECTED, name="open")
def open_link(
    run: Run,
    cid: PATH_ARGUMENT,
    show: Annotated[bool, typer.Option("--show", help="Only write the link.")] = False,  # noqa: FBT002
) -> None:
    """Open a CID in the browser, and write the link."""
    import webbrowser

    from holdfast.content.reference import Reference

    with run.client() as client:
        link = client.url(cid)
        provider = client.config.provider
    if not show and not link.startswith("http"):
        wrong = ConfigError(f"provider {provider!r} has no URL for browsers")
        raise advise(wrong, REMEDY)
    opened = not show and webbrowser.open(link)
    if not show and not opened:
        warnings.warn("no browser was found; open the link yourself", UserWarning, stacklevel=1)
    run.emit({"cid": str(Reference.parse(cid)), "url": link, "opened": opened}, link)

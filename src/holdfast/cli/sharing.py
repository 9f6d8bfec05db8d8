"""Commands that share content, open and sign links, and test the connection."""

import warnings
from typing import Annotated, Final

from holdfast import registry
from holdfast.cli import options
from holdfast.cli.options import argument, flag, option
from holdfast.cli.references import find
from holdfast.cli.run import Run, command, group
from holdfast.cli.tokens import ask_passphrase
from holdfast.config.locations import store_folder
from holdfast.config.settings_files import is_from_project
from holdfast.errors import ConfigError, UnsupportedError
from holdfast.hints import advise

commands: Final = group()
EXPIRES = Annotated[int, option("SECONDS", "How long the link works.", "--expires", min=1)]
REMEDY = "run `holdfast node` in another terminal, or name a gateway with --gateway-url"
PUBLIC = "`holdfast url CID` writes the link to public content"


@command(commands, *options.LOOKS)
def test_connection(run: Run) -> None:
    """Check that the provider accepts the credentials."""
    with run.client() as client:
        client.test_connection()
        provider = client.config.provider
    run.emit({"connected": True, "provider": provider}, f"connected to {provider!r}")


@command(commands, *options.LOOKS)
def url(run: Run, cid: options.PATH_ARGUMENT) -> None:
    """Write a link to the content at the gateway. For a plain CID, no request is sent.

    For the store on your disk, this is a link to a `holdfast node` that serves it, if one is
    running.
    """
    reference, link, _ = _link(run, cid)
    run.emit({"cid": reference, "url": link}, link)
    if not link.startswith("http"):
        run.note(f"browsers cannot open this link: {REMEDY}")


@command(commands, *options.LOOKS, name="open")
def open_link(
    run: Run,
    cid: options.PATH_ARGUMENT,
    show: Annotated[bool, flag("Only write the link.", "--show")] = False,  # noqa: FBT002
) -> None:
    """Open a CID in the browser, and write the link."""
    import webbrowser

    reference, link, provider = _link(run, cid)
    if not show and not link.startswith("http"):
        raise advise(ConfigError(f"provider {provider!r} has no URL for browsers"), REMEDY)
    opened = not show and webbrowser.open(link)
    if not show and not opened:
        warnings.warn("no browser was found; open the link yourself", UserWarning, stacklevel=1)
    run.emit({"cid": reference, "url": link, "opened": opened}, link)


def _link(run: Run, cid: str) -> tuple[str, str, str]:
    """Return what `cid` names, the link to it, and the provider.

    Without a gateway, the link is at the node of the same store. Warn if a project's file chose the
    gateway: a browser does not verify what it gets.
    """
    with run.client() as client:
        reference, config = find(client, cid), client.config
        link = client.url(reference)
    if not link.startswith("http") and registry.row_of(config.provider).on_this_machine:
        from holdfast.repository.owners import node_url

        node = node_url(store_folder(config.path))
        link = link if node is None else f"{node}/ipfs/{reference}"
    gateway = run.settings.get("gateway_url")
    if gateway is not None and is_from_project(gateway):
        words = f"{gateway.source} chooses the gateway of this link; browsers do not verify content"
        warnings.warn(words, UserWarning, stacklevel=2)
    return str(reference), link, config.provider


@command(commands, *options.CONNECTED)
def share(
    run: Run,
    cid: options.PATH_ARGUMENT,
    recipients: Annotated[list[str], argument("RECIPIENT", "A new reader, or several.")],
    name: options.NAME = None,
) -> None:
    """Let more people read encrypted content, under a new CID.

    All readers, old and new, can open the new CID; only the old readers can open the old one. Only
    the new header of each file is sent. Sharing cannot be undone.
    """
    from holdfast.disk.key_files import load_keys

    def tell(done: int, files: int | None) -> None:
        if not done and files and files > 1:
            run.note(f"{files:,} files get a new header")

    with run.view(reads=True) as client:
        readers = [key.text for key in load_keys(recipients, None, ask_passphrase)[0]]
        record = client.share(find(client, cid), readers, name=name, progress=tell)
    run.emit(record.to_dict(), record.cid)


@command(commands, options.connection_options, options.private_options)
def link(run: Run, cid: options.PATH_ARGUMENT, expires: EXPIRES = 3600) -> None:
    """Write a link to private content.

    Anyone who has the link can use it until it expires.
    """
    with run.client() as client:
        reference = find(client, cid)
        try:
            signed = client.signed_url(reference, expires=expires)
        except UnsupportedError as error:
            raise advise(error, PUBLIC) from None
    run.emit({"cid": str(reference), "url": signed, "expires": expires}, signed)


@command(commands, options.connection_options, options.private_options, name="upload-link")
def upload_link(
    run: Run,
    expires: EXPIRES = 3600,
    max_bytes: Annotated[int | None, option("BYTES", "The largest file accepted.", min=1)] = None,
    types: Annotated[
        list[str] | None,
        option(
            "TYPE", "A media type that the link accepts, such as 'image/*'. Repeatable.", "--type"
        ),
    ] = None,
) -> None:
    """Write a link for uploads by others.

    Anyone who has the link can upload until it expires, without your token.
    """
    with run.client() as client:
        signed = client.signed_upload_url(expires=expires, max_bytes=max_bytes, types=types or None)
    run.emit({"url": signed, "expires": expires}, signed)

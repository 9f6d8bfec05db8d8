"""Commands that share content, open and sign links, and test the connection."""

import warnings
from typing import TYPE_CHECKING, Annotated, Final

from holdfast import registry
from holdfast.cli.options import CONNECTED, LOOKS, PATH_ARGUMENT, PINS, argument, flag, option
from holdfast.cli.references import find
from holdfast.cli.run import Run, command, group
from holdfast.cli.tokens import ask_passphrase
from holdfast.config.locations import store_folder
from holdfast.config.settings_files import is_from_project
from holdfast.content.reference import Reference
from holdfast.errors import ConfigError, UnsupportedError
from holdfast.hints import advise

if TYPE_CHECKING:
    from holdfast import Client

commands: Final = group()
EXPIRES = Annotated[int, option("SECONDS", "For how long it works.", "--expires", min=1)]
REMEDY = "run `holdfast node` in another terminal, or name a gateway with --gateway-url"
PUBLIC = "`holdfast url CID` writes the link to public content"


@command(commands, *LOOKS)
def test_connection(run: Run) -> None:
    """Check that the provider accepts the credentials."""
    with run.client() as client:
        client.test_connection()
        provider = client.config.provider
    run.emit({"connected": True, "provider": provider}, f"connected to {provider!r}")


@command(commands, *LOOKS)
def url(run: Run, cid: PATH_ARGUMENT) -> None:
    """Write the link to a CID at the gateway. For a CID, no request is sent.

    For the store on your disk, it is the link at a `holdfast node` that runs over it.
    """
    with run.client() as client:
        reference = find(client, cid)
        address = _link(client, reference)
    _warn_of_gateway(run)
    run.emit({"cid": str(reference), "url": address}, address)
    if not address.startswith("http"):
        run.note(f"browsers cannot open this link: {REMEDY}")


@command(commands, *LOOKS, name="open")
def open_link(
    run: Run,
    cid: PATH_ARGUMENT,
    show: Annotated[bool, flag("Only write the link.", "--show")] = False,  # noqa: FBT002
) -> None:
    """Open a CID in the browser, and write the link."""
    import webbrowser

    with run.client() as client:
        reference = find(client, cid)
        link = _link(client, reference)
        provider = client.config.provider
    if not show and not link.startswith("http"):
        wrong = ConfigError(f"provider {provider!r} has no URL for browsers")
        raise advise(wrong, REMEDY)
    _warn_of_gateway(run)
    opened = not show and webbrowser.open(link)
    if not show and not opened:
        warnings.warn("no browser was found; open the link yourself", UserWarning, stacklevel=1)
    run.emit({"cid": str(reference), "url": link, "opened": opened}, link)


def _link(client: "Client", reference: Reference) -> str:
    """Return the link to `reference`: at the node of the same store, if there is no gateway."""
    link, config = client.url(reference), client.config
    if not link.startswith("http") and registry.row_of(config.provider).on_this_machine:
        from holdfast.repository.owners import node_url

        node = node_url(store_folder(config.path))
        return link if node is None else f"{node}/ipfs/{reference}"
    return link


def _warn_of_gateway(run: Run) -> None:
    """Warn if a project's file chose the gateway: a browser does not verify what it gets."""
    gateway = run.settings.get("gateway_url")
    if gateway is not None and is_from_project(gateway):
        words = f"{gateway.source} chooses the gateway of this link; browsers do not verify content"
        warnings.warn(words, UserWarning, stacklevel=2)


@command(commands, *CONNECTED)
def share(
    run: Run,
    cid: PATH_ARGUMENT,
    recipients: Annotated[list[str], argument("RECIPIENT", "A new reader, or several.")],
) -> None:
    """Let more people read encrypted content, by a new CID.

    The new CID opens for all readers, the old one for those that it had. Only the new header of
    each file is sent. It cannot be undone.
    """
    from holdfast.disk.key_files import load_keys

    def tell(done: int, files: int | None) -> None:
        if not done and files and files > 1:
            run.note(f"{files:,} files get a new header")

    with run.view(reads=True) as client:
        readers = [key.text for key in load_keys(recipients, None, ask_passphrase)[0]]
        record = client.share(find(client, cid), readers, progress=tell)
    run.emit(record.to_dict(), record.cid)


@command(commands, *PINS)
def link(run: Run, cid: PATH_ARGUMENT, expires: EXPIRES = 3600) -> None:
    """Write a link to private content.

    It works for a while, for anybody who has it.
    """
    with run.client() as client:
        reference = find(client, cid)
        try:
            signed = client.signed_url(reference, expires=expires)
        except UnsupportedError as error:
            raise advise(error, PUBLIC) from None
    run.emit({"cid": str(reference), "url": signed, "expires": expires}, signed)


@command(commands, *PINS, name="upload-link")
def upload_link(
    run: Run,
    expires: EXPIRES = 3600,
    max_bytes: Annotated[
        int | None, option("BYTES", "The largest file that it accepts.", min=1)
    ] = None,
    types: Annotated[
        list[str] | None,
        option("TYPE", "A media type that it accepts, such as 'image/*'. Repeatable.", "--type"),
    ] = None,
) -> None:
    """Write a link for uploads by others.

    It works for a while, without your token.
    """
    with run.client() as client:
        signed = client.signed_upload_url(expires=expires, max_bytes=max_bytes, types=types or None)
    run.emit({"url": signed, "expires": expires}, signed)

"""The commands `keygen` and `keys`: make, list and check the keys of encrypted content."""

import os
from collections.abc import Iterator
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from holdfast.cli import output, tokens
from holdfast.cli.exit_codes import CONFIGURATION
from holdfast.cli.options import argument, flag, option
from holdfast.cli.run import Run, command, group
from holdfast.config.secret import Secret
from holdfast.errors import ClientError, NoKeyError
from holdfast.single_line import short

if TYPE_CHECKING:
    from holdfast.content.age.keys import Identity, Recipient

commands: Final = group()
COLUMNS: Final = tuple(map(output.Column, ("USE", "KEY", "KIND", "RECIPIENT", "CHECK")))
WIDTH: Final = 21  # columns of a recipient


@command(commands)
def keygen(
    run: Run,
    name: Annotated[str, argument("NAME", "Its name in the folder of your keys.")] = "default",
    *,
    out: Annotated[str | None, option("FILE", "Write it to this file.", "-o", "--output")] = None,
    classic: Annotated[bool, flag("A key for older tools, not post-quantum.", "--classic")] = False,
    lock: Annotated[bool, flag("Ask for a passphrase that locks it.", "--passphrase")] = False,
) -> None:
    """Make a key, and write its public part.

    The key file has the format of the tool age, and only you can read it. No existing file is
    overwritten. Keep a copy in a safe place: without this file, no one can decrypt content
    that was encrypted for the key.
    """
    from holdfast.content.age.keys import Identity
    from holdfast.disk.key_files import key_path, write_key

    path = key_path(name) if out is None else Path(out)
    identity = Identity.generate(classic=classic)
    write_key(path, identity, partial(tokens.ask_passphrase, path, is_new=True) if lock else None)
    text = identity.recipient.text
    run.emit({"file": str(path), "kind": identity.kind, "recipient": text}, text)
    if not run.as_json:
        run.note(f"the key is in {path}: keep a copy of it in a safe place")


@command(commands, ())
def keys(run: Run) -> None:
    """List your keys without showing secrets, and check each.

    It encrypts random bytes to each key and opens them with your identities, in memory.
    """
    rows = list(_rows(run))
    for row in rows if run.as_json else ():
        output.say_json(row)
    if not run.as_json:
        cut = ({**row, "recipient": short(row["recipient"], WIDTH)} for row in rows)
        output.write_table(COLUMNS, ([*row.values()] for row in cut))
    if not rows:
        run.note("there are no keys: `holdfast keygen` makes one")
    if any(row["check"].startswith("error") for row in rows):
        raise typer.Exit(CONFIGURATION)


def _rows(run: Run) -> Iterator[dict[str, str]]:
    """Yield a row for each key of the configuration, and for each in the folder of keys."""
    from holdfast.content.age.keys import Identity
    from holdfast.disk.key_files import keys_folder, label, read_keys, split_sources

    config = run.config()
    read = cache(partial(read_keys, ask=tokens.ask_passphrase))
    uses = {
        "recipient": [Secret(text) for text in config.recipients or ()],
        "identity": split_sources(config.identities),
        "file": [Secret(path.stem) for path in sorted(keys_folder().glob("*.txt"))],
    }
    identities: list[Identity] = []
    for source in uses["identity"]:
        with suppress(ClientError):  # its row shows it
            identities += (key for key in read(source) if isinstance(key, Identity))
    for use, sources in uses.items():
        for source in sources:
            row = {"use": use, "key": label(source), "kind": "-", "recipient": "-"}
            try:
                keys = read(source)
            except ClientError as error:
                yield {**row, "check": f"error: {error}"}
                continue
            for key in keys:
                recipient = key.recipient if isinstance(key, Identity) else key
                row |= {"kind": recipient.kind, "recipient": recipient.text}
                own = [key] if isinstance(key, Identity) and use != "recipient" else identities
                check = _check(recipient, own)
                if use == "identity" and key is recipient:
                    check = "error: this is a recipient, which cannot decrypt"
                yield {**row, "check": check}


def _check(recipient: "Recipient", identities: "list[Identity]") -> str:
    from holdfast.content.age import whole

    probe = os.urandom(32)
    try:
        opened = whole.decrypt(whole.encrypt(probe, [recipient]), identities)
    except NoKeyError:
        return "works, but none of your identities opens it"
    except ClientError as error:
        return f"error: {error}"
    return "works" if opened == probe else "error: the decrypted bytes are different"

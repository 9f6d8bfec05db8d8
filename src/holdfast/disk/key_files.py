"""Key files on this machine, in age's own form: lines with a key each, and comments after ``#``.

A file that `age -p` has locked with a passphrase is opened with it. No variable here holds a
secret, and no error shows a text that may be one.
"""

import os
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from stat import S_IROTH
from typing import Final, TypeAlias

from holdfast.config.fields import MAX_NAME
from holdfast.config.locations import config_folder
from holdfast.config.secret import Secret
from holdfast.config.settings_files import reason_of
from holdfast.content.age import whole
from holdfast.content.age.header import VERSION_LINE
from holdfast.content.age.keys import Identity, Passphrase, Recipient
from holdfast.disk.atomic import sync_name
from holdfast.disk.closing import on_error
from holdfast.errors import ConfigError, NoKeyError
from holdfast.hints import advise

MAX_KEY_FILE: Final = 60 << 10  # bytes: one chunk of an age file, or 30 post-quantum recipients
SECRET_KEY: Final = "AGE-SECRET-KEY-"  # noqa: S105 - how one begins
SEEN: Final = (
    "`holdfast keys` shows your recipients; make a new key if others may have seen this one"
)
TEXT: Final = "(text)"  # what a key is called that has no name
SUFFIX: Final = ".txt"
DEFAULT: Final = "default"

Ask: TypeAlias = Callable[[Path], Secret]
"""Asks for the passphrase of a key file."""


def keys_folder() -> Path:
    """Return the folder of the keys that have a name."""
    folder = config_folder()
    if folder is None:
        raise ConfigError("this user has no home directory: give keys as texts or paths")
    return folder / "keys"


def load_keys(
    recipients: Sequence[str], identities: Secret | None, ask: Ask | None = None
) -> tuple[list[Recipient], list[Identity]]:
    """Return the keys that the fields `recipients` and `identities` of a configuration name.

    An identity among the recipients stands for its recipient. Each file is read once. If both are
    empty, the key with the name `DEFAULT` is used, if there is one.
    """
    if not recipients and identities is None:
        with suppress(ConfigError):  # this user has no folder of keys
            identities = Secret(DEFAULT) if key_path(DEFAULT).exists() else None
    if any(source.strip().upper().startswith(SECRET_KEY) for source in recipients):
        wrong = ConfigError(
            "this is a secret key: give its recipient, a text that begins with age1"
        )
        raise advise(wrong, SEEN)
    read = cache(partial(read_keys, ask=ask))
    public = [key for source in recipients for key in read(Secret(source))]
    private = [key for source in split_sources(identities) for key in read(source)]
    opening = [key for key in private if isinstance(key, Identity)]
    if len(opening) != len(private):
        raise ConfigError("identities contains a recipient, which cannot decrypt: remove it")
    return [key.recipient if isinstance(key, Identity) else key for key in public], opening


def split_sources(identities: Secret | None) -> list[Secret]:
    """Return the sources in the field `identities`, which has one on each line."""
    return [] if identities is None else [Secret(text) for text in identities.reveal().split("\n")]


def read_keys(source: Secret, ask: Ask | None = None) -> list[Identity | Recipient]:
    """Return the keys of one source: the text of a key, its name, or the path of a key file."""
    if label(source) == TEXT:
        return [_parse(source)]
    path = key_path(source.reveal())
    if source.reveal().startswith("age1") and not path.exists():  # a part of a recipient
        return [_parse(source)]
    try:
        return [_parse(line) for line in _lines(path, ask)]
    except ConfigError as error:
        wrong = ConfigError(f"the key file {path}: {error}")
        remedy = "`holdfast keys` lists your keys; others send you a text age1…; a file is ./FILE"
        raise advise(wrong, remedy) from None


def label(source: Secret) -> str:
    """Return the name or path of a key, or `TEXT`. No key has a slash, or is as short as a name."""
    is_name = "/" in source.reveal() or len(source.reveal()) <= MAX_NAME
    return source.reveal() if is_name else TEXT


def key_path(name: str) -> Path:
    """Return the file of a key: with a slash, it is a path, and else a name in the keys folder."""
    return Path(name).expanduser() if "/" in name else keys_folder() / f"{name}{SUFFIX}"


def _parse(text: Secret) -> Identity | Recipient:
    is_public = text.reveal().startswith("age1")
    return Recipient.parse(text.reveal()) if is_public else Identity.parse(text)


def _lines(path: Path, ask: Ask | None) -> list[Secret]:
    """Return the lines of a key file that are keys."""
    content = _read(path)
    if content.reveal().startswith(VERSION_LINE.decode()):
        content = _unlock(path, content, ask)
    lines = [Secret(line.strip()) for line in content.reveal().split("\n")]
    keys = [line for line in lines if line.reveal() and not line.reveal().startswith("#")]
    if not keys:
        raise ConfigError("there is no key in this file")
    return keys


def _read(path: Path) -> Secret:
    """Return the content of a file as characters that stand for its bytes."""
    try:
        with path.open("rb") as file:
            is_open_to_all = os.fstat(file.fileno()).st_mode & S_IROTH
            content = Secret(file.read(MAX_KEY_FILE + 1).decode("latin-1"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"it cannot be read: {reason_of(error)}") from None
    if len(content.reveal()) > MAX_KEY_FILE:
        raise ConfigError(f"it is larger than {MAX_KEY_FILE >> 10} KiB, so it is not a key file")
    if is_open_to_all and SECRET_KEY in content.reveal():
        words = f"{path}: every user of this machine can read this key: chmod 600 protects it"
        warnings.warn(words, UserWarning, stacklevel=2)
    return content


def _unlock(path: Path, content: Secret, ask: Ask | None) -> Secret:
    if ask is None:
        raise ConfigError("it is locked with a passphrase, which can be given on a terminal only")
    keys = [Passphrase(ask(path))]
    try:
        return Secret(whole.decrypt(_raw(content), keys).decode("latin-1"))
    except NoKeyError:
        raise ConfigError("this is not the passphrase that locks it") from None


def _raw(content: Secret) -> bytes:
    return content.reveal().encode("latin-1")


def write_key(path: Path, identity: Identity, ask: Callable[[], Secret] | None = None) -> None:
    """Write a new key file, which only its owner can read, locked if `ask` gives a passphrase.

    Raise `ConfigError` if the file exists: keys are never overwritten.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        wrong = ConfigError(f"{path} exists, and keys are never overwritten")
        raise advise(wrong, "name another key: `holdfast keygen NAME`") from None
    with on_error(path.unlink), os.fdopen(descriptor, "wb") as file:
        file.write(_content(identity, None if ask is None else Passphrase(ask())))
        file.flush()
        os.fsync(descriptor)
    sync_name(path)


def _content(identity: Identity, passphrase: Passphrase | None) -> bytes:
    created = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    head = f"# created: {created}\n# public key: {identity.recipient.text}\n"
    text = Secret(f"{head}{identity.text.reveal()}\n")
    return _raw(text) if passphrase is None else whole.encrypt(_raw(text), [passphrase])

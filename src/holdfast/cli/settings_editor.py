"""Change single settings of the user's ``holdfast.toml``. All else in it stays, comments too.

The new text is parsed, and compared with what it must hold. If they differ, nothing is changed.
"""

import os
import re
import time
import tomllib
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from holdfast.config.fields import FIELDS
from holdfast.config.secret import Secret
from holdfast.config.settings_files import parse_text, read_text, user_file
from holdfast.disk.atomic import PendingFile
from holdfast.disk.closing import closed_at_end
from holdfast.disk.locks import try_lock
from holdfast.errors import ConfigError
from holdfast.hints import advise

PRIVATE: Final = 0o600
SECONDS: Final = 10.0  # to wait for another command that changes the file
PAUSE: Final = 0.05

# A setting of the file: the tables that it is in, and its name.
Keys = tuple[str, ...]


class SettingsFile:
    """The user's ``holdfast.toml``. `changing` changes it.

    Its text may hold tokens, so it is kept in a `Secret`.

    Attributes:
        path: Its path. It need not exist.
    """

    def __init__(self) -> None:
        """Read the file; raise ConfigError if it is not TOML, or there is no home folder."""
        path = user_file()
        if path is None:
            raise ConfigError("this user has no home directory for settings")
        self.path = path
        self._text = read_text(path) if path.exists() else Secret("")
        parse_text(path, self._text)

    @property
    def values(self) -> dict[str, Any]:
        """The settings in the file by name; secrets are wrapped."""
        return parse_text(self.path, self._text)

    def agrees(self, other: "SettingsFile", names: Iterable[str]) -> bool:
        """Return whether `other` has the same values for these settings."""
        mine, theirs = self.values, other.values
        return all(_plain(mine.get(name)) == _plain(theirs.get(name)) for name in names)

    def change(self, keys: Keys, value: Any) -> None:
        """Set `keys` to `value`, which may be a `Secret`; remove them if it is None."""
        changed = _changed(self._text, keys, value)
        if changed is None:
            wrong = f"{self.path} is written in a way that cannot be changed safely"
            raise advise(ConfigError(wrong), f"change {'.'.join(keys)} there yourself")
        self._text = changed

    def save(self) -> None:
        """Write the file. If writing fails, the old file stays.

        Only its owner may read a new file, and one that holds a secret.
        """
        target = self.path.resolve()  # a symbolic link stays one
        if target.exists() and _has_secret(tomllib.loads(self._text.reveal())):
            target.chmod(PRIVATE)
        with PendingFile(target, mode=PRIVATE) as pending:
            pending.write(self._text.reveal().encode())
            pending.commit()


def refuse_moves(path: Path, values: Mapping[str, Any], keys: Keys, value: Any) -> None:
    """Raise ConfigError if this change of a setting would send a saved secret somewhere else."""
    name = keys[0]
    if values.get(name) == value or name not in {"provider", "pin_api_url", "gateway_url"}:
        return
    moved = {"provider"} if name == "pin_api_url" else {name}
    if name == "provider" and "gateway_url" not in values:
        moved.add("gateway_url")  # the usual gateways are those of the provider
    for secret in (name for name in values if name in FIELDS and FIELDS[name].sent_to in moved):
        wrong = ConfigError(f"{path} has {secret}, which would be sent to another address")
        raise advise(wrong, f"first run `holdfast config unset {secret}`")


@contextmanager
def changing() -> Iterator[SettingsFile]:
    """Yield the file to be changed, and save it, unless the block raises an error.

    Another command that changes the file waits until it is done, so that no change is lost.
    """
    folder = SettingsFile().path.resolve().parent
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _locked(folder):
        file = SettingsFile()
        yield file
        file.save()


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    with closed_at_end(os.open(folder, os.O_RDONLY)) as descriptor:
        end = time.monotonic() + SECONDS
        with suppress(OSError):  # a file system without locks
            while not try_lock(descriptor):
                if time.monotonic() > end:
                    wrong = ConfigError(f"another command is changing the settings in {folder}")
                    raise advise(wrong, "try again when it has ended")
                time.sleep(PAUSE)
        yield


def _has_secret(table: Mapping[str, Any]) -> bool:
    """Return whether a table, or one in it, has a field that is secret."""
    return any(
        (name in FIELDS and FIELDS[name].secret) or (isinstance(value, dict) and _has_secret(value))
        for name, value in table.items()
    )


def _plain(value: Any) -> Any:
    return value.reveal() if isinstance(value, Secret) else value


def _changed(text: Secret, keys: Keys, value: Any) -> Secret | None:
    """Return the text with `keys` set to `value`, or without them; None if that failed."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    with suppress(TOMLKitError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        document, expected = tomlkit.parse(text.reveal()), tomllib.loads(text.reveal())
        for table in (document, expected):
            _change(table, keys, value)
        edited = document.as_string()
        if not text.reveal().startswith(("\r", "\n")):
            edited = edited.lstrip("\r\n")  # what is left of the first setting
        if text.reveal().count("\n") == text.reveal().count("\r\n") > 0:
            edited = re.sub(r"(?<!\r)\n", "\r\n", edited)
        if tomllib.loads(edited) == expected:
            edited.encode()
            return Secret(edited)
    return None


def _change(table: MutableMapping[str, Any], keys: Keys, value: Any) -> None:
    for key in keys[:-1]:
        table = table.setdefault(key, {})
    if value is None:
        del table[keys[-1]]
    else:
        table[keys[-1]] = _plain(value)

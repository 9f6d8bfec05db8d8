"""Change single settings of the user's ``holdfast.toml``. All else in it stays, comments too.

A change is made to the lines of a setting. Then the new text is parsed, and compared with what it
must hold. If they differ, because the file is written in an unusual way, nothing is changed.
"""

import copy
import json
import os
import re
import sys
import time
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from holdfast.cli.setting_layers import parse_text, read_text, user_file
from holdfast.config.fields import FIELDS
from holdfast.config.secret import Secret
from holdfast.errors import ConfigError
from holdfast.files.atomic import PendingFile
from holdfast.files.locks import try_lock
from holdfast.hints import advise

PRIVATE: Final = 0o600
LOCK: Final = ".holdfast.toml.lock"  # only on Windows, which cannot lock a folder
SECONDS: Final = 10.0  # to wait for another command that changes the file
PAUSE: Final = 0.05
HEADER: Final = re.compile(r"\s*\[")

Keys = tuple[str, ...]
"""A setting of the file: the tables that it is in, and its name."""


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
    for secret in (each for each in values if each in FIELDS and FIELDS[each].sent_to in moved):
        raise advise(
            ConfigError(f"{path} has {secret}, which would be sent to another address"),
            f"first run `holdfast config unset {secret}`",
        )


@contextmanager
def changing() -> Iterator[SettingsFile]:
    """Yield the file to be changed, and save it, unless the block raises an error.

    Another command that changes the file waits meanwhile, so that no change is lost.
    """
    folder = SettingsFile().path.resolve().parent
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _locked(folder):
        file = SettingsFile()
        yield file
        file.save()


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    if sys.platform == "win32":
        descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, PRIVATE)
    else:
        descriptor = os.open(folder, os.O_RDONLY)
    try:
        end = time.monotonic() + SECONDS
        with suppress(OSError):  # a file system without locks
            while not try_lock(descriptor):
                if time.monotonic() > end:
                    raise advise(
                        ConfigError(f"another command is changing the settings in {folder}"),
                        "try again when it has ended",
                    )
                time.sleep(PAUSE)
        yield
    finally:
        os.close(descriptor)


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
    with suppress(ValueError, LookupError, TypeError):
        plain = _plain(value)
        line = None if plain is None else f"{keys[-1]} = {_toml(plain)}"
        edited = "\n".join(_edited(text.reveal().split("\n"), keys, line))
        if tomllib.loads(edited) == _expected(tomllib.loads(text.reveal()), keys, plain):
            edited.encode()
            return Secret(edited)
    return None


def _toml(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return repr(value)


def _expected(values: dict[str, Any], keys: Keys, value: Any) -> dict[str, Any]:
    """Return `values` with the change."""
    expected = copy.deepcopy(values)
    table = expected
    for key in keys[:-1]:
        table = table.setdefault(key, {})
    if value is None:
        del table[keys[-1]]
    else:
        table[keys[-1]] = list(value) if isinstance(value, tuple) else value
    return expected


def _edited(lines: list[str], keys: Keys, line: str | None) -> list[str]:
    """Return `lines` with the setting replaced by `line`, added, or removed."""
    ending = "\r" if lines[0].endswith("\r") else ""
    begin, end = _section(lines, keys[:-1])
    for start in range(begin, end):
        if _is_of(lines[start], keys[-1]):
            stop = min(n for n in range(start + 1, end + 1) if _is_whole(lines[start:n]))
            new = [] if line is None else [f"{line}{_comment(lines[start:stop])}"]
            if not start and not new and len(lines) > stop + 1 and not lines[stop].strip():
                stop += 1  # no empty line at the beginning of the file
            return [*lines[:start], *new, *lines[stop:]]
    if line is None:
        raise LookupError
    if begin > len(lines):
        header = f"[{'.'.join(keys[:-1])}]"
        last = [] if lines[-1] else [lines.pop()]
        space = [ending] if lines and lines[-1].strip() else []
        return [*lines, *space, header + ending, line + ending, *(last or [""])]
    place = _end_of_settings(lines, begin, end)
    gap = [ending] if not keys[:-1] and HEADER.match("".join(lines[place : place + 1])) else []
    return [*lines[:place], line + ending, *gap, *lines[place:]]


def _end_of_settings(lines: list[str], begin: int, end: int) -> int:
    """Return where to add a setting: after the last one, or after the comment of the file."""
    settings = [n for n in range(begin, end) if lines[n].strip() and not _is_comment(lines[n])]
    if settings:
        return settings[-1] + 1
    comment = begin
    while comment < end and _is_comment(lines[comment]):
        comment += 1
    # A comment with no space below belongs to what follows it.
    return comment if comment == end or not lines[comment].strip() else begin


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith("#")


def _section(lines: list[str], table: Keys) -> tuple[int, int]:
    """Return where the lines of a table begin and end; after all lines if it does not exist."""
    headers = [n for n, line in enumerate(lines) if HEADER.match(line)]
    if not table:
        return 0, headers[0] if headers else len(lines)
    name = r"\s*\.\s*".join(map(re.escape, table))
    for place, number in enumerate(headers):
        if re.fullmatch(rf"\s*\[\s*{name}\s*\]\s*(#.*)?", lines[number]):
            return number + 1, [*headers, len(lines)][place + 1]
    return len(lines) + 1, len(lines) + 1


def _is_of(line: str, key: str) -> bool:
    return re.match(rf"\s*{re.escape(key)}\s*=", line) is not None


def _is_whole(lines: list[str]) -> bool:
    """Return whether a value ends with these lines."""
    with suppress(tomllib.TOMLDecodeError):
        return bool(tomllib.loads("\n".join([*lines, ""])))
    return False


def _comment(lines: list[str]) -> str:
    """Return the comment after a value of one line, with the space before it, and the line end."""
    line = lines[0].rstrip("\r")
    ending = lines[-1][len(lines[-1].rstrip("\r")) :]
    whole = tomllib.loads(line) if len(lines) == 1 else None
    for place in (n for n, each in enumerate(line) if each == "#" and whole is not None):
        before = line[:place]
        if _is_whole([before]) and tomllib.loads(before) == whole:
            return before[len(before.rstrip()) :] + line[place:] + ending
    return ending

"""Checks of the arguments of a client's methods, before anything is sent."""

import warnings
from collections.abc import Mapping
from typing import Any, Final

from holdfast.records import PinInfo, StoreOptions, now_ms

DEFAULT_FILE_NAME: Final = "client-file"
DEFAULT_FOLDER_NAME: Final = "client-folder"  # of the root of a file system, which has no name


def warn_if_encrypt(options: StoreOptions | Mapping[str, Any] | None) -> None:
    """Issue a warning to the caller's caller if `options` ask for encryption, which is reserved."""
    if options is not None and StoreOptions.of(options).encrypt:
        warnings.warn(
            "encrypt=True has no effect: the content is stored in the clear, for anyone who has "
            "its CID; encrypt it yourself before you store it",
            UserWarning,
            stacklevel=3,
        )


def sendable(name: str) -> str:
    """Return `name` with "?" for what is not text: on disk, a name may be any bytes."""
    return name.encode(errors="replace").decode()


def file_name(given: str | None, own: str | None) -> str:
    """Return the name to send with a file. With a slash, the service would pin a directory."""
    name = given if given is not None else own if own is not None else DEFAULT_FILE_NAME
    check_text("name", name)
    if name in {"", ".", ".."} or "/" in name or "\0" in name:
        raise ValueError("name must be a file name: not empty, without slashes, not '.' or '..'")
    return sendable(name)


def json_info(name: str | None, keyvalues: Mapping[str, Any] | None) -> PinInfo:
    """Return what to store with a JSON value. The spec gives it a name if the user does not."""
    if name is None and keyvalues is None:
        return PinInfo(name=f"client-{now_ms()}")
    if name is None:
        name = f"client-{now_ms()}"
    else:
        check_text("name", name)
    return PinInfo(name=sendable(name), keyvalues=checked_keyvalues(keyvalues), given=True)


def file_info(given: str | None, own: str | None, keyvalues: Mapping[str, Any] | None) -> PinInfo:
    """Return what to store with a file."""
    return PinInfo(
        name=file_name(given, own),
        keyvalues=checked_keyvalues(keyvalues),
        given=given is not None or keyvalues is not None,
    )


def folder_info(given: str | None, own: str | None, keyvalues: Mapping[str, Any] | None) -> PinInfo:
    """Return what to store with a folder."""
    return file_info(given, own or DEFAULT_FOLDER_NAME, keyvalues)


def checked_keyvalues(keyvalues: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Return key-values as a new mapping; raise TypeError unless they are texts and numbers."""
    if keyvalues is None:
        return {}
    if not isinstance(keyvalues, Mapping):
        raise TypeError(f"keyvalues must be a mapping, not {type(keyvalues).__name__}")
    for key, value in keyvalues.items():
        check_text("a key of keyvalues", key)
        if not isinstance(value, str | int | float | bool):
            raise TypeError(
                f"keyvalues[{key!r}] must be a string, a number or a bool, "
                f"not {type(value).__name__}"
            )
    return dict(keyvalues)


def check_progress(progress: Any) -> None:
    """Raise TypeError unless `progress` is None or a function."""
    if progress is not None and not callable(progress):
        raise TypeError(f"progress must be a function, not {type(progress).__name__}")


def check_text(what: str, value: Any) -> None:
    """Raise TypeError unless `value` is a string."""
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a string, not {type(value).__name__}")


def check_message(recipient_id: Any, message: Any) -> None:
    """Raise an error unless both are strings, and the recipient is not empty."""
    check_text("recipient_id", recipient_id)
    check_text("message", message)
    if not recipient_id.strip():
        raise ValueError("recipient_id is empty; say whom the message is for")


def name_filter(name: str | None) -> str | None:
    """Return the part of a name to look for, or None; raise TypeError for another type."""
    if name is None:
        return None
    check_text("name", name)
    return sendable(name)


def check_limit(limit: Any) -> None:
    """Raise an error unless `limit` is None or a whole number of at least 1."""
    if limit is None:
        return
    if isinstance(limit, bool) or not isinstance(limit, int):
        raise TypeError(f"limit must be a whole number, not {type(limit).__name__}")
    if limit < 1:
        raise ValueError("limit must be at least 1; leave it out for all pins")

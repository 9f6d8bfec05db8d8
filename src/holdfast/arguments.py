"""Checks of the arguments of a client's methods, before anything is sent."""

import math
import os
import re
import warnings
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from holdfast.calls import CALLS_AT_ONCE
from holdfast.content.reference import Reference
from holdfast.content.sampling import Sample
from holdfast.hints import advise
from holdfast.records import EPOCH, LATEST, Moment, PinFilter, PinInfo, now_ms
from holdfast.single_line import short

DEFAULT_FILE_NAME: Final = "client-file"
DAY: Final = len("2026-01-31")  # a text with a time is longer
FOLDERS: Final = "directory"  # stands for folders in the media types of links for uploads
MAX_SECONDS: Final = 10**9  # of a link, some 30 years
DEFAULT_FOLDER_NAME: Final = "client-folder"  # of the root of a file system, which has no name
# The names of pins that nobody chose: those above, of `json_info`, and of encrypted content.
NOT_CHOSEN: Final = re.compile(r"client-((?P<time>\d{13})|file|folder)|[0-9a-f]{16}\.age")


def warn_of_no_keys() -> None:
    """Warn the caller of a client's method that nothing is encrypted: there are no keys."""
    warnings.warn(
        "encrypt=True has no effect: the content is stored in the clear, for anyone who has its "
        "CID; set `recipients` or `identities`, or encrypt it yourself before you store it",
        UserWarning,
        stacklevel=4,
    )


def sendable(name: str) -> str:
    """Return `name` with "?" for what is not text: on disk, a name may be any bytes."""
    return name.encode(errors="replace").decode()


def file_name(chosen: str | None, own: str | None) -> str:
    """Return the name to send with a file. With a slash, the service would pin a directory."""
    name = chosen if chosen is not None else own if own is not None else DEFAULT_FILE_NAME
    check_text("name", name)
    if name in {"", ".", ".."} or "/" in name or "\0" in name:
        raise ValueError("name must be a file name: not empty, without slashes, not '.' or '..'")
    return sendable(name)


def json_info(name: str | None, keyvalues: Mapping[str, Any] | None) -> PinInfo:
    """Return what to store with a JSON value. The spec gives it a name if the user does not."""
    return pin_info(name, keyvalues, f"client-{now_ms()}" if name is None else None)


def pin_info(
    name: str | None, keyvalues: Mapping[str, Any] | None, sent: str | None = None
) -> PinInfo:
    """Return what to store with a pin: the name is `sent`, else that of the user, else none."""
    sent = (checked_name(name) or "") if sent is None else sent
    return PinInfo(name=sent, keyvalues=checked_keyvalues(keyvalues), given=name is not None)


def file_info(name: str | None, own: str | None, keyvalues: Mapping[str, Any] | None) -> PinInfo:
    """Return what to store with a file."""
    return pin_info(name, keyvalues, file_name(name, own))


def folder_info(name: str | None, own: str | None, keyvalues: Mapping[str, Any] | None) -> PinInfo:
    """Return what to store with a folder."""
    return file_info(name, own or DEFAULT_FOLDER_NAME, keyvalues)


def checked_keyvalues(
    keyvalues: Mapping[str, Any] | None, *, may_remove: bool = False
) -> Mapping[str, Any]:
    """Return key-values as a new mapping; raise an error unless they are texts and numbers.

    With `may_remove`, a value may be None too.
    """
    if keyvalues is None:
        return {}
    _check_type("keyvalues", keyvalues, Mapping, "a mapping")
    for key, value in keyvalues.items():
        check_text("a key of keyvalues", key)
        if not (isinstance(value, str | int | float | bool) or (may_remove and value is None)):
            raise TypeError(
                f"keyvalues[{key!r}] must be a string, a number or a bool, "
                f"not {type(value).__name__}"
            )
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"keyvalues[{key!r}] must be a finite number")
        if sendable(key) != key or (isinstance(value, str) and sendable(value) != value):
            raise ValueError("keyvalues must be text without lone surrogates")
    return dict(keyvalues)


def pin_changes(
    name: str | None, keyvalues: Mapping[str, Any] | None
) -> tuple[str | None, Mapping[str, Any] | None]:
    """Return what to change of a pin; raise ValueError if that is nothing."""
    changed = checked_keyvalues(keyvalues, may_remove=True) or None
    if name is None and changed is None:
        raise ValueError("there is nothing to change: give a name, keyvalues, or both")
    return checked_name(name), changed


def pin_filter(
    *,
    name: str | None,
    cid: str | None,
    keyvalues: Mapping[str, Any] | None,
    since: Moment | None,
    until: Moment | None,
    limit: int | None,
) -> PinFilter:
    """Return which pins to find; check `limit`, too."""
    check_most(limit, "limit", "all pins")
    return PinFilter(
        name=checked_name(name) or None,
        cid=None if cid is None else Reference.parse_cid(cid),
        keyvalues=checked_keyvalues(keyvalues) or None,
        since=milliseconds("since", since),
        until=milliseconds("until", until, is_end=True),
    )


def milliseconds(what: str, moment: Moment | None, *, is_end: bool = False) -> int | None:
    """Return a time in milliseconds, as pins have it. Without a time zone, it is in UTC.

    A text with a day alone is its first millisecond or, with `is_end`, its last.

    Example:
        >>> milliseconds("since", "1970-01-02"), milliseconds("until", "1970-01-01", is_end=True)
        (86400000, 86399999)
    """
    if isinstance(moment, str):
        text = moment.strip()
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            words = f"{what} must be a time such as 2026-01-31 or 2026-01-31T12:00"
            wrong = ValueError(f"{words}, not {short(text)!r}")
            raise advise(wrong, "give a datetime, an ISO 8601 text or milliseconds") from None
        if is_end and len(text) <= DAY:
            moment += timedelta(days=1, milliseconds=-1)
    if isinstance(moment, datetime):
        moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        moment = (moment - EPOCH) // timedelta(milliseconds=1)
    if moment is None:
        return None
    _check_type(what, moment, int, "a datetime, a text or a whole number of milliseconds")
    if not 0 <= moment <= LATEST:
        raise ValueError(f"{what} must lie between the years 1970 and 9999")
    return moment


def check_wait(wait: Any) -> None:
    """Raise an error unless `wait` is a number of seconds."""
    _check_type("wait", wait, int | float, "a number of seconds")
    if not (wait >= 0 and math.isfinite(wait)):
        raise ValueError("wait must be a number of seconds, and not negative")


def check_sample(sample: Any) -> Sample:
    """Return the sample of blocks that a text describes; raise an error if it describes none."""
    _check_type("sample", sample, str, "a text such as '2%'")
    return Sample.parse(sample)


def link_seconds(expires: Any) -> int:
    """Return for how many whole seconds a link works; raise an error unless that is 1 or more."""
    seconds = expires.total_seconds() if isinstance(expires, timedelta) else expires
    _check_type("expires", seconds, int | float, "a number of seconds or a timedelta")
    if not 1 <= seconds <= MAX_SECONDS:
        raise ValueError(f"expires must be from 1 to {MAX_SECONDS:,} seconds from now")
    return int(seconds)


def _check_type(what: str, value: Any, kind: Any, words: str) -> None:
    """Raise TypeError unless `value` is a `kind`, as `words` call it. A bool is not a number."""
    if isinstance(value, bool) or not isinstance(value, kind):
        raise TypeError(f"{what} must be {words}, not {type(value).__name__}")


def check_most(value: Any, what: str, without: str) -> None:
    """Raise an error unless `value` is None or a whole number of at least 1."""
    if value is not None:
        _check_type(what, value, int, "a whole number")
        if value < 1:
            raise ValueError(f"{what} must be at least 1; leave it out for {without}")


def media_types(types: Any) -> tuple[str, ...]:
    """Return media types such as ``image/*`` as a tuple; raise an error for anything else."""
    if types is None:
        return ()
    if isinstance(types, str | bytes):
        raise TypeError(f"types must be a list of media types, not {type(types).__name__}")
    names = tuple(types)
    for name in names:
        check_text("a media type of types", name)
        if "/" not in name and name != FOLDERS:
            raise ValueError(
                "a media type of types must be one such as image/png or image/*, or "
                f"{FOLDERS} for folders, not {name!r}"
            )
    if not names:
        raise ValueError("types has no media type; leave it out to allow all")
    return names


def check_progress(progress: Any) -> None:
    """Raise TypeError unless `progress` is None or a function."""
    if progress is not None and not callable(progress):
        raise TypeError(f"progress must be a function, not {type(progress).__name__}")


def check_download(to: Any, progress: Any, max_bytes: Any) -> None:
    """Raise an error for a wrong argument of a download."""
    _check_type("to", to, str | os.PathLike | None, "a path as a str or a Path")
    check_progress(progress)
    check_most(max_bytes, "max_bytes", "no limit")


def check_text(what: str, value: Any) -> None:
    """Raise TypeError unless `value` is a string."""
    _check_type(what, value, str, "a string")


def check_message(recipient_id: Any, message: Any) -> None:
    """Raise an error unless both are strings, and the recipient is not empty."""
    check_text("recipient_id", recipient_id)
    check_text("message", message)
    if not recipient_id.strip():
        raise ValueError("the recipient is empty; say whom the message is for")


def checked_name(name: str | None) -> str | None:
    """Return a name, or a part of one, as it can be sent; raise TypeError unless it is text."""
    if name is None:
        return None
    check_text("name", name)
    return sendable(name)


def check_concurrency(concurrency: Any) -> None:
    """Raise an error unless `concurrency` is a whole number from 1 to `CALLS_AT_ONCE`."""
    _check_type("concurrency", concurrency, int, "a whole number")
    if not 1 <= concurrency <= CALLS_AT_ONCE:
        raise ValueError(
            f"concurrency must be from 1 to {CALLS_AT_ONCE}, which is how many calls a client "
            f"makes at once, not {concurrency}"
        )


def check_several(items: Any, single: str) -> None:
    """Raise TypeError for an iterable that is meant as one item: a text, bytes or a mapping."""
    if isinstance(items, str | bytes | bytearray | memoryview | Mapping | os.PathLike):
        raise TypeError(
            f"cannot iterate over {type(items).__name__} here: give a list or another iterable; "
            f"for one item, use `{single}`"
        )


def name_and_file(item: Any) -> tuple[str | None, Any]:
    """Return the name and the file of an item of `upload_many`: a file, or a pair of the two.

    A tuple may be a file too: its pieces are bytes.
    """
    if isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str):
        return item
    return None, item

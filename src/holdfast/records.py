"""The values that go in and out of clients and providers: records, messages, options and pins.

All are frozen. ``to_dict`` and ``from_dict`` use the spec's camelCase names.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Generic, Literal, Self, TypeAlias, TypeVar

from holdfast.errors import SerializationError

T = TypeVar("T")

EntryKind: TypeAlias = Literal["file", "directory", "symlink"]


def now_ms() -> int:
    """Return the milliseconds since 1970 by this machine's clock, as ``Date.now()`` does."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRecord(Generic[T]):
    """The result of a write.

    Attributes:
        cid: The CID, as the provider returned it.
        timestamp: Milliseconds by this machine's clock, taken when the record was made.
        data: The value that was stored; always None for an upload.
        size: Characters of the JSON text for `store` and `send`, bytes for `upload`.

    Example:
        >>> ClientRecord(cid="bafkqaaa", timestamp=1700000000000, data=[1], size=3).to_dict()
        {'cid': 'bafkqaaa', 'timestamp': 1700000000000, 'data': [1], 'size': 3}
    """

    cid: str
    timestamp: int
    size: int
    data: T | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the record as plain JSON data, without ``data`` if that is None."""
        data = self.data.to_dict() if isinstance(self.data, ClientMessage) else self.data
        return {
            "cid": self.cid,
            "timestamp": self.timestamp,
            **({} if data is None else {"data": data}),
            "size": self.size,
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> "ClientRecord[Any]":
        """Return the record that `to_dict` wrote; `SerializationError` for another shape."""
        return ClientRecord(
            cid=_member(value, "cid", str),
            timestamp=_member(value, "timestamp", int),
            data=value.get("data"),
            size=_member(value, "size", int),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientMessage:
    """A message to a recipient, stored as plain JSON. It is not delivered.

    Example:
        >>> ClientMessage(recipient_id="alice", payload="hi", timestamp=1700000000000).to_dict()
        {'recipientId': 'alice', 'payload': 'hi', 'timestamp': 1700000000000}
    """

    recipient_id: str
    payload: str
    timestamp: int

    def to_dict(self) -> dict[str, Any]:
        """Return the message as it is stored: the spec's names, in the spec's order."""
        return {
            "recipientId": self.recipient_id,
            "payload": self.payload,
            "timestamp": self.timestamp,
        }

    @classmethod
    def from_dict(cls, value: Any) -> Self:
        """Return the message that `to_dict` wrote; `SerializationError` for another shape."""
        return cls(
            recipient_id=_member(value, "recipientId", str),
            payload=_member(value, "payload", str),
            timestamp=_member(value, "timestamp", int),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions:
    """Options of `store` and `upload`. Both are reserved: accepted, not applied.

    Attributes:
        encrypt: Reserved. Content is stored without encryption, even with ``True``.
        label: Reserved. It is not sent to the provider.
    """

    encrypt: bool = False
    label: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.encrypt, bool):
            raise TypeError(f"encrypt must be a bool, not {type(self.encrypt).__name__}")
        if not (self.label is None or isinstance(self.label, str)):
            raise TypeError(f"label must be a string, not {type(self.label).__name__}")

    @classmethod
    def of(cls, options: "StoreOptions | Mapping[str, Any] | None") -> "StoreOptions":
        """Return `options` as `StoreOptions`; TypeError for an unknown key or another type."""
        if options is None:
            return cls()
        if isinstance(options, StoreOptions):
            return options
        if not isinstance(options, Mapping):
            raise TypeError(
                f"options must be StoreOptions or a mapping, not {type(options).__name__}"
            )
        known = [field.name for field in fields(cls)]
        unknown = [str(key) for key in options if key not in known]
        if unknown:
            raise TypeError(f"unknown option {unknown[0]!r}; known are {' and '.join(known)}")
        return cls(**options)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """One pin: content that a provider stores, or stored until `removed`.

    Attributes:
        id: The provider's identifier of the pin.
        cid: The CID, as it was given or computed.
        name: A name for people; may be empty.
        keyvalues: Further metadata of the user.
        size: The bytes of all its blocks.
        files: The number of files in it.
        type: A media type, or ``directory``.
        created: When it was pinned, in milliseconds.
        removed: When it was unpinned, in milliseconds; None while it is pinned.

    Example:
        >>> Pin(id="1", cid="bafkqaaa", name="empty.txt").removed is None
        True
    """

    id: str
    cid: str
    name: str = ""
    keyvalues: Mapping[str, Any] = field(default_factory=dict)
    size: int = 0
    files: int = 1
    type: str = ""
    created: int = 0
    removed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PinInfo:
    """Metadata that a provider stores with a new pin.

    Attributes:
        name: The name of the pin; for an uploaded file, its file name.
        keyvalues: Further metadata of the user.

    Example:
        >>> PinInfo(name="report.pdf")
        PinInfo(name='report.pdf', keyvalues={})
    """

    name: str = ""
    keyvalues: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """The result of adding content to a provider.

    Attributes:
        cid: The CID under which the provider pinned the content.
        duplicate: Whether it was pinned there before; None if the provider does not say.
        pin_id: The provider's identifier of the pin; None if it has none.

    Example:
        >>> Added(cid="bafkqaaa", duplicate=True).pin_id is None
        True
    """

    cid: str
    duplicate: bool | None = None
    pin_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One name in a directory, and the content under it.

    A directory's block holds names and CIDs only. So `size` and `kind` are None if the block of
    the entry itself was not read, except for raw blocks, which are files.

    Attributes:
        name: The name in the directory.
        cid: The CID of the content.
        size: The bytes of a file.
        kind: ``file``, ``directory`` or ``symlink``.

    Example:
        >>> Entry(name="a.txt", cid="bafkqaaa", size=0, kind="file").name
        'a.txt'
    """

    name: str
    cid: str
    size: int | None = None
    kind: EntryKind | None = None


def _member(value: Any, key: str, kind: type[T]) -> T:
    """Return ``value[key]``; raise SerializationError unless it is there and a `kind`."""
    if not isinstance(value, Mapping):
        raise SerializationError(f"expected a JSON object with {key!r}, got {_json_type(value)}")
    if key not in value:
        raise SerializationError(f"the JSON object has no {key!r}")
    member = value[key]
    if not isinstance(member, kind) or isinstance(member, bool):
        wanted = "a string" if kind is str else "a whole number"
        raise SerializationError(f"{key!r} must be {wanted}, got {_json_type(member)}")
    return member


def _json_type(value: Any) -> str:
    """Return JSON's name for the type of `value`, with an article."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case str():
            return "a string"
        case int() | float():
            return "a number"
        case list() | tuple():
            return "an array"
        case _:
            return "an object"

"""What clients write and return: records, messages and options."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Generic, Self, TypeVar

from holdfast.errors import SerializationError

T = TypeVar("T")


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
        duplicate: Whether the content was pinned there before; None if the provider does not say.
            It is not compared, and not part of `to_dict`.

    Example:
        >>> ClientRecord(cid="bafkqaaa", timestamp=1700000000000, data=[1], size=3).to_dict()
        {'cid': 'bafkqaaa', 'timestamp': 1700000000000, 'data': [1], 'size': 3}
    """

    cid: str
    timestamp: int
    size: int
    data: T | None = None
    duplicate: bool | None = field(default=None, compare=False)

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

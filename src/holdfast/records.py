"""The values that go in and out of clients and providers: records, messages, options and pins.

All are frozen. ``to_dict`` and ``from_dict`` use the spec's camelCase names.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Generic, Literal, NamedTuple, Self, TypeAlias, TypeVar

from holdfast.errors import SerializationError
from holdfast.notebook import size_text, table, time_text

T = TypeVar("T")

JSON_TYPES: Final[Mapping[type, str]] = {
    type(None): "null",
    bool: "a boolean",
    str: "a string",
    list: "an array",
    int: "a number",
    float: "a number",
}


Moment: TypeAlias = datetime | str | int
"""A time: a datetime, a text such as ``2026-01-31T12:00``, or milliseconds since 1970."""

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
LATEST: Final = 253_402_300_799_999  # milliseconds: the end of the year 9999


def now_ms() -> int:
    """Return the milliseconds since 1970 by this machine's clock, as ``Date.now()`` does."""
    return time.time_ns() // 1_000_000


def _datetime(milliseconds: int | None) -> datetime | None:
    """Return a time in UTC; None if it is not known, or no calendar has it."""
    if milliseconds is None or not 0 <= milliseconds <= LATEST:
        return None
    return EPOCH + timedelta(milliseconds=milliseconds)


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
        excluded: How many names in a folder were left out because of a pattern; a folder counts
            once. It is not compared, and not part of `to_dict`.
        earlier_name: The name of the pin that was there before; None if there was no pin, or the
            provider does not say. It is not compared, and not part of `to_dict`.

    Example:
        >>> ClientRecord(cid="bafkqaaa", timestamp=1700000000000, data=[1], size=3).to_dict()
        {'cid': 'bafkqaaa', 'timestamp': 1700000000000, 'data': [1], 'size': 3}
    """

    cid: str
    timestamp: int
    size: int
    data: T | None = None
    duplicate: bool | None = field(default=None, compare=False)
    excluded: int = field(default=0, compare=False)
    earlier_name: str | None = field(default=None, compare=False)  # last: pickles go by position

    def __setstate__(self, state: list[Any]) -> None:
        """Restore a pickle. Fields that an older version did not have get their defaults."""
        ClientRecord.__init__(self, **dict(zip(self.__slots__, state, strict=False)))

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        made = time_text(_datetime(self.timestamp))
        facts = {"CID": self.cid, "Size": size_text(self.size), "Time": made}
        if self.data is not None:
            facts["Data"] = repr(self.data)
        return table(facts.items())

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
    """Options of `store` and `upload`.

    Attributes:
        encrypt: Whether to store the content as `Client.encrypted` does, with the keys of the
            configuration. Without keys it has no effect but a warning.
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
        hint = "a name is a keyword: name=…"
        if not isinstance(options, Mapping):
            kind = type(options).__name__
            raise TypeError(f"options must be StoreOptions or a mapping, not {kind}; {hint}")
        names = [field.name for field in fields(cls)]
        if unknown := [str(key) for key in options if key not in names]:
            wrong = f"unknown option {unknown[0]!r}; the options are {' and '.join(names)}"
            raise TypeError(f"{wrong}; {hint}")
        return cls(**options)


def _member(value: Any, key: str, kind: type[T]) -> T:
    """Return ``value[key]``; raise SerializationError unless it is there and a `kind`."""
    if not isinstance(value, Mapping):
        raise SerializationError(f"expected a JSON object with {key!r}, got {_json_type(value)}")
    if key not in value:
        raise SerializationError(f"the JSON object has no {key!r}")
    member = value[key]
    if not isinstance(member, kind) or isinstance(member, bool):
        expected = "a string" if kind is str else "a whole number"
        raise SerializationError(f"{key!r} must be {expected}, got {_json_type(member)}")
    return member


def _json_type(value: Any) -> str:
    """Return JSON's name for the type of `value`, with an article."""
    return JSON_TYPES.get(type(value), "an object")


PinState: TypeAlias = Literal["queued", "pinning", "pinned"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """One pin: content that a provider stores, or stored until `removed`.

    Attributes:
        id: The provider's identifier of the pin.
        cid: The CID, as it was given or computed.
        name: A name for people; may be empty.
        keyvalues: Further metadata of the user.
        size: The bytes of all its blocks; None if the provider does not know them.
        files: The number of files in it.
        type: A media type, or ``directory``.
        created_ms: When it was pinned, in milliseconds since 1970; None if that is not known.
        removed_ms: When it was unpinned, in milliseconds since 1970; None while it is pinned.
        state: ``queued`` or ``pinning`` while the provider fetches the content, then ``pinned``.
        peers: For a cluster, the status at each peer that should keep it, such as ``pinned``, by
            the peer's name. For `copies`, the state at each member, by its name: ``proven``;
            ``claimed`` if the member said that it has it; ``missing``; ``unknown`` if Holdfast
            tried to send it and has not checked the copy; in a list of foreign pins, ``foreign``.
            None for other providers.

    Example:
        >>> pin = Pin(id="1", cid="bafkqaaa", name="empty.txt", created_ms=1700000000000)
        >>> pin.created.isoformat(), pin.removed
        ('2023-11-14T22:13:20+00:00', None)
    """

    id: str
    cid: str
    name: str = ""
    keyvalues: Mapping[str, Any] = field(default_factory=dict)
    size: int | None = 0
    files: int = 1
    type: str = ""
    created_ms: int | None = None
    removed_ms: int | None = None
    state: PinState = "pinned"
    peers: Mapping[str, str] | None = None

    @property
    def created(self) -> datetime | None:
        """When it was pinned, as a datetime in UTC; None if the provider does not know it."""
        return _datetime(self.created_ms)

    @property
    def removed(self) -> datetime | None:
        """When it was unpinned, as a datetime in UTC; None while it is pinned."""
        return _datetime(self.removed_ms)

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        return Pins([self])._repr_html_()

    def to_dict(self) -> dict[str, Any]:
        """Return the pin as plain JSON data; ``created`` and ``removed`` are milliseconds.

        Example:
            >>> Pin(id="1", cid="bafkqaaa", created_ms=1700000000000).to_dict()["created"]
            1700000000000
        """
        return {name.removesuffix("_ms"): value for name, value in asdict(self).items()}


class Pins(list[Pin]):
    """A list of pins, which notebooks show as a table."""

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        more = ["Key-values"] if any(pin.keyvalues for pin in self) else []
        rows = (
            [pin.name, size_text(pin.size), time_text(pin.created), pin.cid, pin.state]
            + ([keyvalues_text(pin)] if more else [])
            for pin in self
        )
        return table(rows, ("Name", "Size", "Created", "CID", "State", *more), len(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class PinProgress:
    """How far a provider is with fetching content for a pin. None is what it does not say.

    Attributes:
        state: ``queued``, ``pinning`` or ``pinned``.
        blocks: How many blocks it has so far.
        bytes: Their size. Old versions of Kubo do not say it.
        peers: The status at each node of a cluster, by the node's name.

    Example:
        >>> PinProgress(blocks=232, bytes=60_011_583).state
        'pinning'
    """

    state: PinState = "pinning"
    blocks: int | None = None
    bytes: int | None = None
    peers: Mapping[str, str] | None = None


OnPinProgress: TypeAlias = Callable[[PinProgress], object]


class Facts:
    """A value whose fields notebooks show as a table."""

    __slots__: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        return table((name, getattr(self, name)) for name in self.__slots__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage(Facts):
    """How much a provider keeps. None is what it does not say.

    Attributes:
        pins: The number of pins.
        bytes: The bytes of all blocks; of Kubo, also of those that are not pinned.
        limit: The bytes that it may keep at most.

    Example:
        >>> Usage(pins=2, bytes=1024).limit is None
        True
    """

    pins: int | None = None
    bytes: int | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PinInfo:
    """Metadata that a provider stores with a new pin.

    Attributes:
        name: The name of the pin; for an uploaded file, its file name.
        keyvalues: Further metadata of the user.
        given: Whether the user gave the name. Then it also replaces that of a pin that exists
            already. Key-values are always the user's, and are added to those of such a pin.
        progress: Called by a provider that fetches content, with how far it is.
        is_repair: Whether blocks of a pin that exists may be missing, so that all are sent again.
        beside: The CID of a pin that has the blocks which an archive lacks; "" if it lacks none.

    Example:
        >>> PinInfo(name="report.pdf", given=True)
        PinInfo(name='report.pdf', keyvalues={}, given=True)
    """

    name: str = ""
    keyvalues: Mapping[str, Any] = field(default_factory=dict)
    given: bool = False
    progress: OnPinProgress | None = field(default=None, repr=False, compare=False)
    is_repair: bool = field(default=False, repr=False)
    beside: str = field(default="", repr=False)

    @property
    def is_explicit(self) -> bool:
        """Whether the user gave anything, which then also changes a pin that exists already."""
        return self.given or bool(self.keyvalues)


@dataclass(frozen=True, slots=True, kw_only=True)
class PinFilter:
    """Which pins to find. None is for any.

    Attributes:
        name: A part of the name.
        cid: The CID.
        keyvalues: Key-values that the pin has; it may have more. A number equals its text.
        since: The earliest time of pinning, in milliseconds.
        until: The latest time of pinning, in milliseconds.

    Example:
        >>> PinFilter(name="report").cid is None
        True
    """

    name: str | None = None
    cid: str | None = None
    keyvalues: Mapping[str, Any] | None = None
    since: int | None = None
    until: int | None = None

    def fits(self, keyvalues: Mapping[str, Any]) -> bool:
        """Return whether a pin with `keyvalues` has those that are wanted."""
        return all(
            key in keyvalues and same_value(keyvalues[key], value)
            for key, value in (self.keyvalues or {}).items()
        )


def same_value(one: Any, other: Any) -> bool:
    """Return whether two values of key-values are equal. A number equals its text.

    Services and command lines turn numbers into texts.

    Example:
        >>> same_value(1, "1"), same_value(True, "true"), same_value(True, 1)
        (True, True, False)
    """
    return value_text(one) == value_text(other)


def value_text(value: Any) -> str:
    """Return a value of key-values as a text.

    Example:
        >>> value_text(True), value_text(2.0), value_text("a")
        ('true', '2', 'a')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def keyvalues_text(pin: Pin) -> str:
    """Return the key-values of a pin for people."""
    return " ".join(f"{key}={value_text(value)}" for key, value in pin.keyvalues.items())


def merged_keyvalues(before: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return key-values after `changes`, in which None removes a key.

    Example:
        >>> merged_keyvalues({"a": 1, "b": 2}, {"a": None, "c": 3})
        {'b': 2, 'c': 3}
    """
    return {key: value for key, value in {**before, **changes}.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """The result of adding content to a provider.

    Attributes:
        cid: The CID under which the provider pinned the content.
        duplicate: Whether it was pinned there before; None if the provider does not say.
        pin_id: The provider's identifier of the pin; None if it has none.
        dropped: What the provider does not keep, as far as it was found out: ``name``.
        earlier_name: The name of the pin that was there before, as far as it was found out.

    Example:
        >>> Added(cid="bafkqaaa", duplicate=True).pin_id is None
        True
    """

    cid: str
    duplicate: bool | None = None
    pin_id: str | None = None
    dropped: tuple[str, ...] = ()
    earlier_name: str | None = None


EntryKind: TypeAlias = Literal["file", "directory", "symlink"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry(Facts):
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


class EntryList(list[Entry]):
    """A list of entries, which notebooks show as a table."""

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        rows = ((entry.name, size_text(entry.size), entry.kind or "-", entry.cid) for entry in self)
        return table(rows, ("Name", "Size", "Kind", "CID"), len(self))


Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(Generic[Item, Result]):
    """What became of one of many items.

    Attributes:
        index: The position of the item in the input, from 0.
        item: The item, as it was given.
        record: The result; None if there is an error.
        error: The error; None if there is a result.

    Example:
        >>> Outcome(index=0, item="a.txt", record="bafkqaaa").result()
        'bafkqaaa'
    """

    index: int
    item: Item
    record: Result | None = None
    error: Exception | None = None

    def result(self) -> Result:
        """Return the result, or raise the error."""
        if self.error is not None:
            raise self.error
        return self.record  # type: ignore[return-value]  # one of the two is there


CopyMethod: TypeAlias = Literal["archive", "upload", "pin"]
ProofState: TypeAlias = Literal["claimed", "proven", "missing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """Content that another provider has now, under the same CID.

    Attributes:
        cid: The CID.
        name: The name of the pin at the target.
        how: How it came there. ``archive``: block by block. ``upload``: as a file or folder that
            has the same CID there. ``pin``: the target fetches it from the network by its CID.
            None if the target had it already.
        duplicate: Whether the target had it already. Then only its name and key-values were set.
        size: How many bytes were sent to the target: 0 if it had the content or fetches it.
        gateways: The hosts of the gateways that sent the content, if the source was read through
            gateways.
        dropped: What the target does not keep: ``keyvalues``, a long ``name``, or any ``name``.
        state: ``pinned``, or how far the target is with fetching it.
        earlier: Whether an earlier call with the same journal made the copy. Then `how`,
            `duplicate`, `size` and `gateways` are those of that call.
        checked: Whether the target confirmed in this call that it has the pin. False only for a
            copy of an earlier call at a target whose pins cannot be listed.
        proof: ``claimed``: the target says that it has it. ``proven``: it was asked for random
            blocks, and all of them came. ``missing``: some did not come. Without ``proof=True``, it
            is ``claimed``.
        proof_note: Why it is not proven, and what to do about blocks that are missing.
        repaired: Whether the target had a pin and lacked blocks, so that all were sent again.

    Example:
        >>> Copied(cid="bafkqaaa", how="archive").duplicate
        False
    """

    cid: str
    name: str = ""
    how: CopyMethod | None = None
    duplicate: bool = False
    size: int = 0
    gateways: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    state: PinState = "pinned"
    earlier: bool = False
    checked: bool = True
    proof: ProofState = "claimed"
    proof_note: str = ""
    repaired: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Health(Facts):
    """What the members of provider `copies` have of one CID.

    Attributes:
        cid: The CID.
        name: The name of its pin.
        want: How many sites should have it.
        claimed: The members that say that they have it, and cannot be asked for blocks now.
        proven: The members that sent blocks of it, which matched their CIDs.
        missing: The members that lack blocks of it, although they said that they have it.
        last_proof: When a member last proved that it has it, in milliseconds; None for never.

    Example:
        >>> Health(cid="bafkqaaa", want=2, proven=("disk",)).missing
        ()
    """

    cid: str
    name: str = ""
    want: int
    claimed: tuple[str, ...] = ()
    proven: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    last_proof: int | None = None


class Verdict(NamedTuple):
    """The result of a test of a provider.

    Attributes:
        is_good: Whether the provider has passed the test.
        reason: One sentence: why not; "" if it has.
        gateway: Hashes of the addresses of the gateways that send only what the provider has,
            separated by spaces; of those that were tested, if there is none.
        since: When it was tested, in milliseconds.
    """

    is_good: bool
    reason: str = ""
    gateway: str = ""
    since: int = 0

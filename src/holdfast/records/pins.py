"""Pins: what a provider stores, and what is said about it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

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
        created: When it was pinned, in milliseconds; None if the provider does not know it.
        removed: When it was unpinned, in milliseconds; None while it is pinned.
        state: ``queued`` or ``pinning`` while the provider fetches the content, then ``pinned``.
        peers: The status at each node that is to keep it, by the node's name, such as ``pinned``;
            None for a provider that is not a cluster.

    Example:
        >>> Pin(id="1", cid="bafkqaaa", name="empty.txt").removed is None
        True
    """

    id: str
    cid: str
    name: str = ""
    keyvalues: Mapping[str, Any] = field(default_factory=dict)
    size: int | None = 0
    files: int = 1
    type: str = ""
    created: int | None = 0
    removed: int | None = None
    state: PinState = "pinned"
    peers: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PinInfo:
    """Metadata that a provider stores with a new pin.

    Attributes:
        name: The name of the pin; for an uploaded file, its file name.
        keyvalues: Further metadata of the user.
        given: Whether the user gave the name. Then it also replaces that of a pin that exists
            already. Key-values are always the user's, and are added to those of such a pin.

    Example:
        >>> PinInfo(name="report.pdf", given=True)
        PinInfo(name='report.pdf', keyvalues={}, given=True)
    """

    name: str = ""
    keyvalues: Mapping[str, Any] = field(default_factory=dict)
    given: bool = False

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

    Example:
        >>> Added(cid="bafkqaaa", duplicate=True).pin_id is None
        True
    """

    cid: str
    duplicate: bool | None = None
    pin_id: str | None = None

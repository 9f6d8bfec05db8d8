"""A pin request of the Pinning Services API, and its time."""

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeAlias

from holdfast.content.cid import CID
from holdfast.errors import InvalidCIDError
from holdfast.node.http_server.refusals import bad_request
from holdfast.node.pinning_api.json_values import write_json
from holdfast.records import Pin
from holdfast.repository.pin_queries import Moment
from holdfast.repository.rows import nanoseconds

# Read the bodies of requests: the object ``Pin`` of the specification.

MAX_NAME: Final = 255  # the limits of the specification
MAX_ORIGINS: Final = 20
MAX_META: Final = 1000
MAX_META_BYTES: Final = 10_000  # ours: then a page of 1000 pins has 10 MB
MAX_ADDRESS: Final = 1000  # characters of an address in origins


@dataclass(frozen=True, slots=True)
class WantedPin:
    """What a client asks to pin."""

    cid: CID
    name: str
    meta: Mapping[str, str]


def read_pin(body: Mapping[str, Any]) -> WantedPin:
    """Return what to pin; raise a `Refusal` if the body is invalid.

    ``origins`` are checked and not used: the node has no libp2p, and fetches from its gateways.
    """
    cid = read_cid(body.get("cid"))
    name = body.get("name")
    if not isinstance(name, str | None) or len(name or "") > MAX_NAME:
        raise bad_request(f"name must be a string of up to {MAX_NAME} characters")
    _check_origins(body.get("origins"))
    return WantedPin(cid, name or "", read_meta(body.get("meta")))


def read_cid(value: Any) -> CID:
    """Return a CID; raise a `Refusal` if it is invalid."""
    try:
        return CID.parse(value if isinstance(value, str) else "")
    except InvalidCIDError as error:
        raise bad_request(f"cid is not a valid CID: {error.reason}") from None


def read_meta(value: Any) -> dict[str, str]:
    """Return the object ``meta``; raise a `Refusal` if it is invalid."""
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise bad_request("meta must be an object whose values are strings")
    if len(value) > MAX_META:
        raise bad_request(f"meta may have at most {MAX_META} members")
    if len(write_json(value).encode()) > MAX_META_BYTES:
        raise bad_request(f"meta may have at most {MAX_META_BYTES} bytes as JSON")
    return value


def _check_origins(value: Any) -> None:
    if value is None:
        return
    is_list = isinstance(value, list) and all(isinstance(each, str) for each in value)
    if not is_list or len(value) > MAX_ORIGINS or len(set(value)) < len(value):
        raise bad_request(f"origins must be a list of up to {MAX_ORIGINS} different addresses")
    if not all(each.startswith("/") and len(each) <= MAX_ADDRESS for each in value):
        raise bad_request("each of origins must be a multiaddr, such as /ip4/203.0.113.1/tcp/4001")


Status: TypeAlias = Literal["queued", "pinning", "pinned", "failed"]
STATUSES: Final[tuple[Status, ...]] = ("queued", "pinning", "pinned", "failed")
# RFC 3339. Python keeps six digits of a fraction, and drops the others.
TIME: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.(\d{1,30}))?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PinRequest:
    """A request to pin `cid`. Each request has an id of its own, also for the same CID."""

    cid: str
    name: str = ""
    meta: Mapping[str, Any] = field(default_factory=dict)
    created: int
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    status: Status = "queued"
    info: Mapping[str, str] = field(default_factory=dict)
    waits: bool = True  # whether its content is still to be pinned

    @property
    def moment(self) -> Moment:
        """When it was made; its last digits come from the id, so that times differ."""
        return self.created, nanoseconds(self.id)

    @classmethod
    def of(cls, pin: Pin) -> "PinRequest":
        """Return the request of a pin."""
        return cls(
            id=pin.id,
            cid=pin.cid,
            name=pin.name,
            meta=pin.keyvalues,
            created=pin.created or 0,
            status="pinned",
            info={"dag_size": str(pin.size)},
        )


def write_time(moment: Moment) -> str:
    """Return a moment as RFC 3339, with nanoseconds.

    Example:
        >>> write_time((1700000000123, 42))
        '2023-11-14T22:13:20.123000042Z'
    """
    milliseconds, nanos = moment
    seconds = datetime.fromtimestamp(milliseconds // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{seconds}.{milliseconds % 1000:03}{nanos:06}Z"


def parse_time(text: str, what: str) -> Moment:
    """Return the moment of an RFC 3339 time; raise a `Refusal` if it is invalid.

    Example:
        >>> parse_time("2023-11-14T23:13:20.123000042+01:00", "before")
        (1700000000123, 42)
    """
    found = TIME.fullmatch(text)
    try:
        if found is None:
            raise ValueError("another form")  # noqa: TRY301 - all are one error
        day, time, fraction, zone = found.groups()
        moment = datetime.fromisoformat(f"{day}T{time}{zone.upper()}")
        seconds = int(moment.timestamp())
    except (ValueError, OverflowError):
        raise bad_request(
            f"{what} must be a time as in RFC 3339, such as 2020-07-27T17:32:28.276Z"
        ) from None
    digits = (fraction or "").ljust(9, "0")[:9]
    return seconds * 1000 + int(digits[:3]), int(digits[3:])

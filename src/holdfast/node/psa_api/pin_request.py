"""A pin request of the Pinning Services API, and its time."""

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeAlias

from holdfast.node.http_server.refusals import bad_request
from holdfast.records import Pin
from holdfast.repository.pin_queries import Moment
from holdfast.repository.rows import nanoseconds

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

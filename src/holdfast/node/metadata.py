"""The metadata and options that come with a pin, and queries over them."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from holdfast.content.profiles import UNIXFS_V0_2015, UNIXFS_V1_2025, Profile
from holdfast.node.patterns import check_pattern, like, matches_pattern
from holdfast.node.replies import bad_request

MAX_KEYVALUES: Final = 10  # the service's limit
MAX_NAME: Final = 245


@dataclass(frozen=True, slots=True)
class Metadata:
    """A pin's name and notes."""

    name: str = ""
    keyvalues: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Options:
    """How a pin is to be made."""

    cid_version: int = 1
    wrap: bool = False

    @property
    def profile(self) -> Profile:
        """The layout for the CID version."""
        return UNIXFS_V1_2025 if self.cid_version else UNIXFS_V0_2015


def read_metadata(value: Any) -> Metadata:
    """What ``pinataMetadata`` says."""
    if value is None:
        return Metadata()
    if not isinstance(value, dict):
        raise bad_request("pinataMetadata must be an object")
    name = value.get("name")
    if not isinstance(name, str | None) or len(name or "") > MAX_NAME:
        raise bad_request(
            f"The name in pinataMetadata must be a string of up to {MAX_NAME} characters"
        )
    return Metadata(name or "", read_keyvalues(value.get("keyvalues")))


def read_keyvalues(value: Any) -> dict[str, Any]:
    """Notes: up to ten strings, numbers, booleans or dates."""
    if value is None:
        return {}
    if not isinstance(value, dict) or len(value) > MAX_KEYVALUES:
        raise bad_request(f"keyvalues must be an object with at most {MAX_KEYVALUES} members")
    for each in value.values():
        if isinstance(each, dict | list):
            raise bad_request("The values in keyvalues must be strings, numbers or booleans")
    return value


def read_options(value: Any) -> Options:
    """What ``pinataOptions`` says; what the node does not know is ignored, as the service does."""
    if value is None:
        return Options()
    if not isinstance(value, dict):
        raise bad_request("pinataOptions must be an object")
    version = value.get("cidVersion", 1)
    if version is None:
        version = 1
    if str(version) not in {"0", "1"} or isinstance(version, bool):
        raise bad_request("cidVersion must be 0 or 1")
    wrap = value.get("wrapWithDirectory", False)
    if not isinstance(wrap, bool | None):
        raise bad_request("wrapWithDirectory must be true or false")
    return Options(int(version), bool(wrap))


def iso_time(milliseconds: int) -> str:
    """A time as the service writes it."""
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_time(text: str, what: str) -> int:
    """Milliseconds of an ISO 8601 time."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise bad_request(f"{what} must be an ISO 8601 date") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)


def keyvalues_matcher(conditions: Any) -> Callable[[Mapping[str, Any]], bool]:
    """A function that says whether notes meet `conditions`: ``{key: {value, op, secondValue}}``."""
    if not isinstance(conditions, dict):
        raise bad_request("metadata[keyvalues] must be an object")
    checks = [(key, _condition(condition)) for key, condition in conditions.items()]

    def matches(keyvalues: Mapping[str, Any]) -> bool:
        return all(key in keyvalues and check(keyvalues[key]) for key, check in checks)

    return matches


def _condition(condition: Any) -> Callable[[Any], bool]:
    if not isinstance(condition, dict) or "value" not in condition:
        raise bad_request("A condition in metadata[keyvalues] needs a value and an op")
    operation = condition.get("op", "eq")
    value, second = condition["value"], condition.get("secondValue")
    if not isinstance(operation, str) or operation not in OPERATIONS:
        raise bad_request(f"Unknown op in metadata[keyvalues]; there are {', '.join(OPERATIONS)}")
    check = OPERATIONS[operation]
    if operation in {"regexp", "iRegexp"}:
        check_pattern(value)

    def run(found: Any) -> bool:
        try:
            return check(found, value, second)
        except TypeError:
            return False

    return run


OPERATIONS: Final[Mapping[str, Callable[[Any, Any, Any], bool]]] = {
    "eq": lambda found, value, _: bool(found == value),
    "ne": lambda found, value, _: bool(found != value),
    "gt": lambda found, value, _: bool(found > value),
    "gte": lambda found, value, _: bool(found >= value),
    "lt": lambda found, value, _: bool(found < value),
    "lte": lambda found, value, _: bool(found <= value),
    "between": lambda found, value, second: bool(value <= found <= second),
    "notBetween": lambda found, value, second: not value <= found <= second,
    "like": lambda found, value, _: like(str(found), str(value)),
    "notLike": lambda found, value, _: not like(str(found), str(value)),
    "iLike": lambda found, value, _: like(str(found).lower(), str(value).lower()),
    "notILike": lambda found, value, _: not like(str(found).lower(), str(value).lower()),
    "regexp": lambda found, value, _: matches_pattern(str(value), str(found)),
    "iRegexp": lambda found, value, _: matches_pattern(str(value), str(found), re.IGNORECASE),
}

"""Read the metadata and options of a pin, and its times."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from holdfast.content.cid import CID
from holdfast.content.profiles import UNIXFS_V0_2015, UNIXFS_V1_2025, Profile
from holdfast.errors import InvalidCIDError
from holdfast.node.http_server.refusals import Refusal, bad_request

MAX_KEYVALUES: Final = 10  # the service's limit
MAX_NAME: Final = 245
MAX_VALUE: Final = 1000  # characters of a key or value


@dataclass(frozen=True, slots=True)
class PinMetadata:
    """The name and the key-values of a pin."""

    name: str = ""
    keyvalues: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PinOptions:
    """The options of a pin: its layout and its group."""

    cid_version: int = 1
    wrap: bool = False
    group_id: str | None = None

    @property
    def profile(self) -> Profile:
        """The profile for the CID version."""
        return UNIXFS_V1_2025 if self.cid_version else UNIXFS_V0_2015


def read_metadata(value: Any) -> PinMetadata:
    """Return the value of ``pinataMetadata``; raise a `Refusal` if it is invalid."""
    if value is None:
        return PinMetadata()
    if not isinstance(value, dict):
        raise bad_request("pinataMetadata must be an object")
    name = value.get("name")
    if not isinstance(name, str | None) or len(name or "") > MAX_NAME:
        raise bad_request(
            f"The name in pinataMetadata must be a string of up to {MAX_NAME} characters"
        )
    return PinMetadata(name or "", read_keyvalues(value.get("keyvalues")))


def read_keyvalues(value: Any) -> dict[str, Any]:
    """Return the key-values of a pin: up to ten strings, numbers, booleans or dates."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise bad_request("keyvalues must be an object")
    check_count(value)
    for key, each in value.items():
        if isinstance(each, dict | list):
            raise bad_request("The values in keyvalues must be strings, numbers or booleans")
        if len(key) > MAX_VALUE or is_long(each):
            raise bad_request(
                f"A key or value in keyvalues may have at most {MAX_VALUE} characters"
            )
    return value


def check_count(keyvalues: Mapping[str, Any]) -> None:
    """Raise a `Refusal` if there are more key-values than a pin may have."""
    if len(keyvalues) > MAX_KEYVALUES:
        raise bad_request(f"keyvalues must be an object with at most {MAX_KEYVALUES} members")


def merge_keyvalues(before: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return key-values after a change. A key with the value None is removed.

    Raise a `Refusal` if there are too many then.
    """
    merged = {**before, **changes}
    left = {key: value for key, value in merged.items() if value is not None}
    check_count(left)
    return left


def is_long(value: Any) -> bool:
    """Return whether a key or value has more than `MAX_VALUE` characters."""
    return len(str(value)) > MAX_VALUE


def read_options(value: Any) -> PinOptions:
    """Return the value of ``pinataOptions``. Unknown members are ignored, as the service does."""
    if value is None:
        return PinOptions()
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
    group = value.get("groupId")
    if not isinstance(group, str | None):
        raise bad_request("groupId must be a string")
    return PinOptions(int(version), bool(wrap), group or None)


def iso_time(milliseconds: int) -> str:
    """Return a time in the service's format."""
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_time(text: str, what: str) -> int:
    """Return an ISO 8601 time in milliseconds; raise a `Refusal` if it is invalid."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise bad_request(f"{what} must be an ISO 8601 date") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)


def read_cid(given: object) -> CID:
    """Return the CID that a request names."""
    try:
        return CID.parse(given if isinstance(given, str) else "")
    except InvalidCIDError as error:
        raise Refusal(400, f"Invalid CID: {error.reason}", reason="INVALID_CID") from None

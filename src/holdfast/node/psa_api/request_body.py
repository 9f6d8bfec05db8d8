"""Read the bodies of requests: the object ``Pin`` of the specification."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from holdfast.content.cid import CID
from holdfast.errors import InvalidCIDError
from holdfast.node.http_server.refusals import bad_request
from holdfast.node.pinning_api.json_values import write_json

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

"""Pinning by CID at the spec's service: a job, which ends with a pin or a failure."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from holdfast.config.secret import Secret
from holdfast.content.cid import CID
from holdfast.errors import InvalidCIDError
from holdfast.protocol import json_text
from holdfast.protocol.http import Reply
from holdfast.protocol.pin_api import Exchange
from holdfast.protocol.pin_list import read_id
from holdfast.protocol.status_errors import failure
from holdfast.records import Pin, PinInfo, PinState

if TYPE_CHECKING:
    from holdfast.protocol.pinning import PinningAPI

JOBS: Final = 100  # of one CID, of which the newest are asked for
DONE: Final = "backfilled"  # of the older API; in v3 such a job still waits
QUEUED: Final = frozenset({"prechecking", DONE})
FAILURES: Final[Mapping[str, str]] = {
    "expired": "it did not find the content in time; check that a node or gateway serves it",
    "over_free_limit": "it is larger than the plan of the account allows",
    "over_max_size": "it is larger than the provider accepts",
    "invalid_object": "the content under the CID is not valid",
    "bad_host_node": "it cannot reach the node that has the content",
}
"""The states of jobs that have failed, and what they mean."""


def start_job(api: "PinningAPI", cid: str, metadata: str | None, info: PinInfo) -> Exchange[Pin]:
    """Ask the service to pin `cid`; return the pin to be."""
    about = "" if metadata is None else f",{metadata}"
    reply = yield api.request(
        "POST",
        "/pinning/pinByHash",
        headers={"Content-Type": "application/json"},
        body=f'{{"hashToPin":{json_text.to_text(cid)}{about}}}'.encode(),
    )
    value = api.read_json(reply)
    try:
        if CID.parse(value["ipfsHash"]) != CID.parse(cid):
            raise ValueError("another CID")  # noqa: TRY301 - all are one error
        pin = Pin(
            id=read_id(value["id"]),
            cid=value["ipfsHash"],
            name=info.name,
            keyvalues=info.keyvalues,
            size=None,
            created=None,
            state="queued",
        )
    except (KeyError, TypeError, ValueError, InvalidCIDError):
        raise failure(
            "the provider's reply names no job for the CID (id, ipfsHash)", reply, secret=api.token
        ) from None
    return replace(pin, state=state_of(value.get("status"), pin, reply, api.token))


def look_at_job(api: "PinningAPI", pin: Pin) -> Exchange[PinState | None]:
    """Return the state of the job of `pin`; None if it is done, or not in the list."""
    query = urlencode({"ipfs_pin_hash": pin.cid, "sort": "DESC", "limit": str(JOBS)})
    reply = yield api.request("GET", f"/pinning/pinJobs?{query}")
    value = api.read_json(reply)
    rows = value.get("rows") if isinstance(value, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise failure("the provider's reply is not a list of jobs (rows)", reply, secret=api.token)
    for row in rows:
        if str(row.get("id")) == pin.id and row.get("status") != DONE:
            return state_of(row.get("status"), pin, reply, api.token)
    return None


def state_of(status: Any, pin: Pin, reply: Reply, token: Secret) -> PinState:
    """Return the state for the service's word; raise ProviderError if the job has failed."""
    word = status if isinstance(status, str) else ""
    if word in FAILURES:
        words = f"the provider could not pin {pin.cid}: {FAILURES[word]}"
        raise failure(words, reply, details=word, secret=token)
    return "queued" if word in QUEUED else "pinning"

"""The objects of the specification that a client gets: ``PinStatus`` and ``Failure``."""

import hashlib
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from holdfast.content.cid import CID, DAG_PB
from holdfast.content.hashes import SHA2_256
from holdfast.node.http_server.refusals import Refusal
from holdfast.node.psa_api.pin_request import PinRequest, write_time
from holdfast.records import value_text

REASONS: Final[Mapping[int, str]] = {
    400: "BAD_REQUEST",
    401: "UNAUTHORIZED",
    404: "NOT_FOUND",
}


def pin_status(request: PinRequest, delegates: list[str]) -> dict[str, Any]:
    """Return the object ``PinStatus`` of a request."""
    pin: dict[str, Any] = {"cid": request.cid}
    if request.name:
        pin["name"] = request.name
    if request.meta:
        pin["meta"] = {key: value_text(value) for key, value in request.meta.items()}
    status = {
        "requestid": request.id,
        "status": request.status,
        "created": write_time(request.moment),
        "pin": pin,
        "delegates": delegates,
    }
    return {**status, "info": dict(request.info)} if request.info else status


def delegates_of(request: Request, store: str) -> list[str]:
    """Return what the specification wants: an address of the node that ends with a peer ID.

    The node has no libp2p: the address is that of its gateway, and the peer ID is made up.
    """
    host, port = request.scope.get("server") or ("127.0.0.1", None)
    try:
        address = f"/ip{ip_address(host).version}/{host}"
    except ValueError:
        address = f"/dns/{host}"
    peer = CID(0, DAG_PB, SHA2_256, hashlib.sha256(store.encode()).digest())
    return [f"{address}/tcp/{port or 80}/http/p2p/{peer}"]


def failure_reply(refusal: Refusal) -> Response:
    """Return the object ``Failure`` of a refusal."""
    usual = "INTERNAL_SERVER_ERROR" if refusal.status >= 500 else "REFUSED"
    reason = REASONS.get(refusal.status) or refusal.reason or usual
    error = {"reason": reason, "details": refusal.details}
    return JSONResponse({"error": error}, refusal.status, headers=refusal.headers)

"""What the tests of the Pinning Services API share: a plain caller, a configuration, and rows."""

from collections.abc import Callable
from typing import Any

import urllib3

from holdfast import ClientConfig
from holdfast.testing import ScriptedServer
from tests.node_caller import Caller
from tests.support import HELLO_CID, config_for, wait_until

ALL = "queued,pinning,pinned,failed"
REQUEST_ID = "b7c9a2f0-5f43-4d27-9d43-0b7a7a5a1c11"
CREATED = "2020-07-27T17:32:28.276123456Z"
CREATED_MS = 1595871148276
DELEGATE = "/ip4/203.0.113.1/tcp/4001/p2p/QmServicePeerId"
# What makes a row one of another form.
ODD_ROWS: list[dict[str, Any]] = [
    *({"requestid": text} for text in (None, "", ["x"], ".", "..", "x" * 2000)),
    *({"created": time} for time in (5, "yesterday", "2020-07-27T17:32:28Z" + "0" * 200)),
    *({"pin": pin} for pin in (None, {"cid": "x"}, {"cid": HELLO_CID, "meta": [1]})),
    {"status": None},
]
# Calls of a client, of both colours: each sends a request to the service.
CALLS: dict[str, Callable[[Any], Any]] = {
    "pin": lambda client: client.pin(HELLO_CID),
    "pins": lambda client: client.pins(),
    "update": lambda client: client.update(HELLO_CID, name="x"),
    "revoke": lambda client: client.revoke(HELLO_CID),
    "test_connection": lambda client: client.test_connection(),
}


class PSACaller(Caller):
    """Calls the API of a node as anybody would, with plain HTTP."""

    prefix = "/psa"

    def __call__(self, method: str, path: str = "/pins", **more: Any) -> urllib3.BaseHTTPResponse:
        return super().__call__(method, path, **more)

    def add(self, cid: str, **pin: Any) -> dict[str, Any]:
        """Make a request; return its PinStatus."""
        reply = self("POST", json={"cid": cid, **pin})
        assert reply.status == 202, reply.data
        return reply.json()

    def pinned(self, cid: str, **pin: Any) -> dict[str, Any]:
        """Pin content that the node has, or finds; return the request when it is pinned."""
        request_id = self.add(cid, **pin)["requestid"]
        wait_until(lambda: self.status(request_id) == "pinned")
        return self.get(request_id)

    def failed(self, cid: str, **pin: Any) -> dict[str, Any]:
        """Ask for content that is nowhere; return the request when it has failed."""
        request_id = self.add(cid, **pin)["requestid"]
        wait_until(lambda: self.status(request_id) == "failed")
        return self.get(request_id)

    def get(self, request_id: str) -> dict[str, Any]:
        reply = self("GET", f"/pins/{request_id}")
        assert reply.status == 200, reply.data
        return reply.json()

    def rows(self, **filters: str) -> list[dict[str, Any]]:
        """Return the results of a list; its count is of all that match."""
        reply = self("GET", fields=filters)
        assert reply.status == 200, reply.data
        assert reply.json()["count"] >= len(reply.json()["results"])
        return reply.json()["results"]

    def count(self, **filters: str) -> int:
        return self("GET", fields=filters).json()["count"]

    def ids(self, **filters: str) -> list[str]:
        return [row["requestid"] for row in self.rows(**filters)]

    def delete(self, request_id: str) -> None:
        reply = self("DELETE", f"/pins/{request_id}")
        assert (reply.status, reply.data) == (202, b"")

    def status(self, request_id: str) -> str:
        return self.get(request_id)["status"]

    def failure(self, method: str, path: str = "/pins", **more: Any) -> tuple[int, str]:
        """Return the status and the reason of a refusal, an object Failure."""
        reply = self(method, path, **more)
        error = reply.json()["error"]
        assert set(error) == {"reason", "details"}
        assert error["details"]
        return reply.status, error["reason"]


def psa_config(server: ScriptedServer, **changes: Any) -> ClientConfig:
    return config_for(server, **{"provider": "psa", **changes})


def row(cid: str = HELLO_CID, *, status: str = "pinned", **changes: Any) -> dict[str, Any]:
    """A request, as a service describes it."""
    pin = {"cid": cid} | {name: changes.pop(name) for name in ("name", "meta") if name in changes}
    return {
        "requestid": REQUEST_ID,
        "status": status,
        "created": CREATED,
        "pin": pin,
        "delegates": [DELEGATE],
        **changes,
    }


def results(*rows: dict[str, Any], count: int | None = None) -> dict[str, Any]:
    return {"count": len(rows) if count is None else count, "results": list(rows)}

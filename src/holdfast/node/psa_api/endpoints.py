"""The five calls of the Pinning Services API, and their routes."""

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from ipaddress import ip_address
from typing import Any, Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from holdfast.content.cid import CID, DAG_PB
from holdfast.content.hashes import SHA2_256
from holdfast.errors import ClientError
from holdfast.node.http_server.refusals import Refusal, store_refusal
from holdfast.node.pinning_api.authorization import AuthorizedEndpoint, Endpoint
from holdfast.node.pinning_api.endpoints import PinningEndpoints
from holdfast.node.psa_api.pin_requests import (
    PinRequest,
    PinRequests,
    read_pin,
    read_query,
    write_time,
)
from holdfast.node.settings import NodeSettings
from holdfast.records import value_text
from holdfast.repository import Repository
from holdfast.repository.pin_queries import Stopped

# The objects of the specification that a client gets: ``PinStatus`` and ``Failure``.

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


PREFIX: Final = "/psa"
ACCEPTED: Final = 202


class PSAEndpoints:
    """The API over the repository of a node. It shares limits, tokens and jobs with `api`."""

    def __init__(
        self, repository: Repository, settings: NodeSettings, api: PinningEndpoints
    ) -> None:
        self._api = api
        self._store = str(repository.path.absolute())
        self._requests = PinRequests(
            repository, api.jobs, api.groups, pretend=settings.pretend_pinned
        )

    def routes(self) -> list[BaseRoute]:
        """Return the routes below ``/psa``. The last one matches all other paths and methods."""
        pins, pin = f"{PREFIX}/pins", f"{PREFIX}/pins/{{id}}"
        return [
            self._route("GET", pins, self.list, "pinList"),
            self._route("POST", pins, self.add, "pinByHash"),
            self._route("GET", pin, self.get, "pinList"),
            self._route("POST", pin, self.replace, "pinByHash"),
            self._route("DELETE", pin, self.remove, "unpin"),
            Route(
                f"{PREFIX}/{{path:path}}", AuthorizedEndpoint(_lacking, error_reply=failure_reply)
            ),
        ]

    def _route(self, method: str, path: str, endpoint: Endpoint, scope: str) -> Route:
        async def refusing(request: Request) -> Response:
            try:
                return await endpoint(request)
            except (ClientError, OSError) as error:
                raise store_refusal(error) from error

        authorization = self._api.authorization
        call = AuthorizedEndpoint(refusing, authorization, scope, error_reply=failure_reply)
        return Route(path, call, methods=[method])

    async def list(self, request: Request) -> Response:
        """List one page of the requests that match, the newest first."""
        query = read_query(request.query_params)

        def find(stopped: Stopped) -> tuple[list[PinRequest], int]:
            return self._requests.find(query, stopped)

        found, count = await self._api.queries.run(request, find)
        delegates = delegates_of(request, self._store)
        results = [pin_status(each, delegates) for each in found]
        return JSONResponse({"count": count, "results": results})

    async def add(self, request: Request) -> Response:
        """Start to pin a CID."""
        wanted = read_pin(await self._api.bodies.json_object(request))
        made = await run_in_threadpool(self._requests.add, wanted)
        return self._status(request, made, ACCEPTED)

    async def get(self, request: Request) -> Response:
        """Reply with a request and its status."""

        def find(stopped: Stopped) -> PinRequest | None:
            return self._requests.get(request.path_params["id"], stopped)

        return self._status(request, await self._api.queries.run(request, find))

    async def replace(self, request: Request) -> Response:
        """Pin another CID, or the same with another name, in place of a request."""
        self._api.authorization.check(request, "unpin")
        wanted = read_pin(await self._api.bodies.json_object(request))

        def replace(stopped: Stopped) -> PinRequest | None:
            return self._requests.replace(request.path_params["id"], wanted, stopped)

        return self._status(request, await self._api.queries.run(request, replace), ACCEPTED)

    async def remove(self, request: Request) -> Response:
        """Remove a request, and the pin unless another request needs it."""

        def remove(stopped: Stopped) -> bool:
            return self._requests.remove(request.path_params["id"], stopped)

        if not await self._api.queries.run(request, remove):
            raise _no_request(request)
        return Response(status_code=ACCEPTED)

    def _status(self, request: Request, found: PinRequest | None, status: int = 200) -> Response:
        if found is None:
            raise _no_request(request)
        return JSONResponse(pin_status(found, delegates_of(request, self._store)), status)

    def resume(self) -> None:
        """Start unfinished requests again."""
        with suppress(ClientError, OSError):  # the next request says what is wrong with the store
            self._requests.resume()

    def close(self) -> None:
        """Close what was opened besides the repository."""
        self._requests.close()


def _no_request(request: Request) -> Refusal:
    id_ = request.path_params["id"][:100]
    return Refusal(404, f"There is no pin request with the requestid {id_}")


async def _lacking(request: Request) -> Response:
    """Reply to calls that the API does not have."""
    if request.path_params["path"].partition("/")[0] == "pins":
        raise Refusal(405, "This address takes another method")
    raise Refusal(404, f"There is nothing at this address: requests are at {PREFIX}/pins")

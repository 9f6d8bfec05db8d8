"""What all calls of the v3 API share: who may make them, and the shape of their replies."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from holdfast.node.http_server.refusals import Refusal
from holdfast.node.pinning_api.authorization import Authorization

Handler: TypeAlias = Callable[[Request], Awaitable[Response]]

NOT_AUTHORIZED = "Not Authorized"


class V3Call:
    """A call for requests with a token for `scope`; without `authorization`, for all."""

    def __init__(
        self, handler: Handler, authorization: Authorization | None = None, scope: str | None = None
    ) -> None:
        self._handler = handler
        self._authorization = authorization
        self._scope = scope

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        request = Request(scope, receive, send)
        try:
            if self._authorization is not None:
                self._authorization.check(request, self._scope)
            reply = await self._handler(request)
        except Refusal as refusal:
            reply = error_reply(refusal)
        await reply(scope, receive, send)


def data_reply(data: Any, headers: Mapping[str, str] | None = None) -> Response:
    """Return a successful reply."""
    return JSONResponse({"data": data}, headers=headers)


def error_reply(refusal: Refusal, headers: Mapping[str, str] | None = None) -> Response:
    """Return the reply for a `Refusal`, in the shape of the service."""
    message = NOT_AUTHORIZED if refusal.status == 401 else refusal.details
    error = {"code": refusal.status, "message": message}
    return JSONResponse(
        {"error": error}, refusal.status, headers={**(headers or {}), **refusal.headers}
    )


def origin_of(request: Request) -> str:
    """Return the origin under which the client reaches the node, for addresses in replies."""
    scheme = request.headers.get("x-forwarded-proto", "")  # of a proxy with TLS
    return f"{'https' if scheme == 'https' else 'http'}://{request.headers.get('host', '')}"

"""What all calls of the v3 API share: who may make them, and the shape of their replies."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp

from holdfast.node.http_server.refusals import Refusal
from holdfast.node.pinning_api.authorization import Authorization, AuthorizedEndpoint, Endpoint

NOT_AUTHORIZED = "Not Authorized"


def v3_call(
    endpoint: Endpoint, authorization: Authorization | None = None, scope: str | None = None
) -> ASGIApp:
    """Return an application for `endpoint` whose errors have the shape of the service's."""
    return AuthorizedEndpoint(endpoint, authorization, scope, error_reply=error_reply)


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


def base_url(request: Request) -> str:
    """Return the URL under which the client reaches the node, for addresses in replies."""
    scheme = request.headers.get("x-forwarded-proto", "")  # of a proxy with TLS
    origin = f"{'https' if scheme == 'https' else 'http'}://{request.headers.get('host', '')}"
    return origin + quote(request.scope.get("root_path", ""))

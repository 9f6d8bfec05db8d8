"""Check the credentials, the scopes and the rate limit of a request."""

import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from holdfast.node.http_server.refusals import Refusal
from holdfast.node.settings import NodeSettings, NodeToken

Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]


WINDOW_SECONDS = 60.0  # in which a token may send `rate_limit` requests


class Authorization:
    """Checks requests against the tokens and the rate limit of a node."""

    def __init__(self, settings: NodeSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._windows: dict[str, tuple[float, int]] = {}

    def check(self, request: Request, scope: str | None) -> None:
        """Raise the service's `Refusal` unless the request may use an endpoint of `scope`."""
        token = self._token(request.headers)
        if token is None:
            raise Refusal(401, "Invalid/expired credentials", reason="INVALID_CREDENTIALS")
        self._count(token)
        if not token.allows(scope):
            raise Refusal(
                403,
                "This key does not have the required scopes associated with it",
                reason="NO_SCOPES_FOUND",
            )

    def _token(self, headers: Mapping[str, str]) -> NodeToken | None:
        kind, _, bearer = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return next((t for t in self._settings.tokens if t.is_bearer(bearer.strip())), None)
        key = headers.get("pinata_api_key", "")
        secret = headers.get("pinata_secret_api_key", "")
        return next((t for t in self._settings.tokens if t.is_pair(key, secret)), None)

    def _count(self, token: NodeToken) -> None:
        limit = self._settings.rate_limit
        if limit is None:
            return
        now = time.monotonic()  # the clock of the system may be set back
        with self._lock:
            start, count = self._windows.get(token.token, (now, 0))
            if now - start >= WINDOW_SECONDS:
                start, count = now, 0
            self._windows[token.token] = start, count + 1
        if count >= limit:
            wait = start + WINDOW_SECONDS - now
            headers = {
                "Retry-After": str(max(1, int(wait))),
                "X-RateLimit-Limit": str(limit),
                "X-RateLimit-Remaining": "0",
                "X-RateLimit-Reset": str(int(time.time() + wait)),
            }
            raise Refusal(
                429, "Too many requests; try again later", reason="RATE_LIMITED", headers=headers
            )


class AuthorizedEndpoint:
    """An endpoint for requests with a token for `scope`; without `authorization`, for all.

    A `Refusal` becomes the reply that `error_reply` returns for it. This is a class because
    Starlette would catch the errors of a function once more.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        authorization: Authorization | None = None,
        scope: str | None = None,
        *,
        error_reply: Callable[[Refusal], Response] = Refusal.json_reply,
    ) -> None:
        self._endpoint = endpoint
        self._authorization = authorization
        self._scope = scope
        self._error_reply = error_reply

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        request = Request(scope, receive, send)
        try:
            if self._authorization is not None:
                self._authorization.check(request, self._scope)
            reply = await self._endpoint(request)
        except Refusal as refusal:
            reply = self._error_reply(refusal)
        await reply(scope, receive, send)

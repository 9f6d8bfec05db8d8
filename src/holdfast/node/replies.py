"""Refusals in the service's own shapes, and the headers that every reply carries."""

from collections.abc import Mapping
from typing import Any, Final

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# All content shares the origin of the node and its page: none of it may run scripts or act as
# another type.
SAFE: Final = {"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "sandbox"}


class AddedHeaders:
    """Middleware: every reply of `app` has `headers`, unless it has its own of the same name."""

    def __init__(self, app: ASGIApp, headers: Mapping[str, str] = SAFE) -> None:
        self._app = app
        self._headers = [(key.lower().encode(), value.encode()) for key, value in headers.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and its reply back."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = list(message.get("headers", []))
                names = {name.lower() for name, _ in own}
                added = [each for each in self._headers if each[0] not in names]
                message = {**message, "headers": [*own, *added]}
            await send(message)

        await self._app(scope, receive, send_with_headers)


class Refusal(Exception):  # noqa: N818 - it becomes a reply, not a traceback
    """A request that is not granted, and what to say about it.

    With a `reason` the body is ``{"error": {"reason", "details"}}``, else ``{"error": text}``: the
    service has both, depending on who refuses.
    """

    def __init__(
        self,
        status: int,
        details: str,
        *,
        reason: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(details)
        self.status = status
        self.details = details
        self.reason = reason
        self.headers = headers

    def response(self) -> JSONResponse:
        """The reply."""
        error: Any = self.details
        if self.reason:
            error = {"reason": self.reason, "details": self.details}
        return JSONResponse({"error": error}, self.status, headers=self.headers)


def bad_request(details: str) -> Refusal:
    """The refusal of a body or parameter that makes no sense."""
    return Refusal(400, details)


def not_pinned(cid: str) -> Refusal:
    """The refusal of a call about a pin that is not there."""
    return Refusal(
        400,
        f"The current user has not pinned the cid: {cid}",
        reason="CURRENT_USER_HAS_NOT_PINNED_CID",
    )

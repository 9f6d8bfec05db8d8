"""The error that ends a request with an HTTP status, and its replies as JSON and as text."""

import errno
import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final, TypeAlias

from starlette.responses import JSONResponse, PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdfast.errors import ClientError, VerificationError

logger: Final = logging.getLogger("holdfast.node")

Headers: TypeAlias = Mapping[str, str]


class Refusal(Exception):  # noqa: N818 - it becomes a reply, not a traceback
    """A request that is refused, with the status and the text of the reply.

    Attributes:
        status: The HTTP status.
        details: The reason, for people.
        headers: Header fields of the reply.
        reason: The service's name for the error, or empty. Only JSON replies have it.
    """

    def __init__(
        self, status: int, details: str, headers: Headers | None = None, *, reason: str = ""
    ) -> None:
        super().__init__(details)
        self.status = status
        self.details = details
        self.headers: Headers = headers or {}
        self.reason = reason

    @property
    def sentence(self) -> str:
        """The name of the status and the details, as one sentence."""
        return f"{HTTPStatus(self.status).phrase}: {self.details}."

    def json_reply(self) -> JSONResponse:
        """Return the reply of the pinning API.

        With a `reason` the body is ``{"error": {"reason", "details"}}``, else ``{"error": text}``.
        The service has both shapes.
        """
        error: Any = self.details
        if self.reason:
            error = {"reason": self.reason, "details": self.details}
        return JSONResponse({"error": error}, self.status, headers=self.headers)

    def text_reply(self) -> PlainTextResponse:
        """Return the reply of the gateway. It is not cached: missing content may be added later."""
        headers = {"Cache-Control": "no-store", **self.headers}
        text = f"{self.sentence}\n".encode(errors="replace")
        return PlainTextResponse(text, self.status, headers)


def refusal_of(error: Exception) -> Refusal:
    """Return `error` if it is a `Refusal`; of an error of the store, one without its details.

    Log that error, unless the disk is full or read-only. Raise an error of another kind again.
    """
    if isinstance(error, Refusal):
        return error
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return Refusal(507, "The disk of the node is full")
    if isinstance(error, OSError) and error.errno == errno.EROFS:
        return Refusal(500, "The store of the node is read-only")
    if not isinstance(error, ClientError):
        raise error
    logger.error("%s", error)
    if isinstance(error, VerificationError):
        text = "The node's store is damaged: its owner can run `holdfast check`"
        return Refusal(500, text)
    return Refusal(503, "The store of the node cannot be used now; try again")


def bad_request(details: str) -> Refusal:
    """Return a `Refusal` with status 400, for an invalid body or parameter."""
    return Refusal(400, details)


# Middleware that adds header fields to every reply.

# All content has the same origin as the node and its page, so browsers must neither run scripts in
# it nor treat it as another type.
SAFETY_HEADERS: Final = {"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "sandbox"}


class DefaultHeaders:
    """Adds `headers` to every reply of `app`, except those that the reply sets itself."""

    def __init__(self, app: ASGIApp, headers: Headers = SAFETY_HEADERS) -> None:
        self._app = app
        self._headers = [(key.lower().encode(), value.encode()) for key, value in headers.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = list(message.get("headers", []))
                names = {name.lower() for name, _ in own}
                added = [header for header in self._headers if header[0] not in names]
                message = {**message, "headers": [*own, *added]}
            await send(message)

        await self._app(scope, receive, send_with_headers)

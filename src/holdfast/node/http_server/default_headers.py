"""Middleware that adds header fields to every reply."""

from collections.abc import Mapping
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

# All content has the same origin as the node and its page, so browsers must neither run scripts in
# it nor treat it as another type.
SAFETY_HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "sandbox",
}


class DefaultHeaders:
    """Adds `headers` to every reply of `app`, except those that the reply sets itself."""

    def __init__(self, app: ASGIApp, headers: Mapping[str, str] = SAFETY_HEADERS) -> None:
        self._app = app
        self._headers = [(key.lower().encode(), value.encode()) for key, value in headers.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = list(message.get("headers", []))
                names = {name.lower() for name, _ in own}
                added = [each for each in self._headers if each[0] not in names]
                message = {**message, "headers": [*own, *added]}
            await send(message)

        await self._app(scope, receive, send_with_headers)

"""The page at the root of the node: what is pinned, to look at, to add to and to remove from.

Its files are served as they stand; no build makes them. They come from the same origin as all
content, so its policy lets nothing run but these files, each named by a nonce: no script that was
pinned, and nothing that lies elsewhere.
"""

import secrets
from importlib.resources import files
from pathlib import PurePath
from typing import Any, Final

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Route

from holdfast.errors import ClientError
from holdfast.node import replies
from holdfast.node.gateway.replies import Refusal, refusal_for
from holdfast.node.page.items import describe
from holdfast.repository import Repository

TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
POLICY: Final = (
    "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; "
    "connect-src 'self'; img-src 'self'; media-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS: Final = {
    "Cache-Control": "no-cache",  # an upgrade of the package brings another page
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
}


class Page:
    """The page over one repository. It acts with the user's token; its own calls only read."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        parts = {
            part.name: part.read_bytes()
            for part in files(__name__).iterdir()
            if PurePath(part.name).suffix in {*TYPES, ".html"}
        }
        self._index = parts.pop("index.html").decode()
        self._parts = parts

    def routes(self) -> list[BaseRoute]:
        """Where it is."""
        return [
            Route("/", self.index),
            Route("/page/item", self.item),
            Route("/page/{name}", self.part),
        ]

    async def index(self, _: Request) -> Response:
        """Serve the page, with a policy for this once."""
        nonce = secrets.token_urlsafe(16)
        headers = {**HEADERS, "Content-Security-Policy": POLICY.format(nonce=nonce)}
        return HTMLResponse(self._index.replace("NONCE", nonce), headers=headers)

    async def part(self, request: Request) -> Response:
        """Serve a file that the page is made of."""
        name = request.path_params["name"]
        if name not in self._parts:
            raise HTTPException(404)
        return Response(self._parts[name], headers=HEADERS, media_type=TYPES[PurePath(name).suffix])

    async def item(self, request: Request) -> Response:
        """Tell what stands at a path: a file, or a directory and what is in it."""
        path = request.query_params.get("path", "")
        try:
            told: dict[str, Any] = await run_in_threadpool(describe, self._repository, path)
        except Refusal as refusal:
            raise _as_json(refusal) from None
        except ClientError as error:
            raise _as_json(refusal_for(error)) from None
        return JSONResponse(told, headers=HEADERS)


def _as_json(refusal: Refusal) -> replies.Refusal:
    """The refusal of the gateway, in the shape of the pinning API."""
    return replies.Refusal(refusal.status, refusal.text)

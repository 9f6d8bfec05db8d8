"""The page at the root of the node, which lists, shows, adds and removes pins.

Its files are served as they are in this folder, without a build. The page has the same origin as
all content, so its Content-Security-Policy allows only these files, each marked with a nonce. No
pinned script and no file from elsewhere can run in it.
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
from holdfast.node.gateway.content_replies import refusal_for
from holdfast.node.http_server.refusals import Refusal
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
    "Cache-Control": "no-cache",  # the page changes when the package is upgraded
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
}


class Page:
    """The page over one repository. Changes go through the pinning API, with the user's token."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        assets = {
            file.name: file.read_bytes()
            for file in files(__name__).iterdir()
            if PurePath(file.name).suffix in {*TYPES, ".html"}
        }
        self._index = assets.pop("index.html").decode()
        self._assets = assets

    def routes(self) -> list[BaseRoute]:
        """Return the routes of the page."""
        return [
            Route("/", self.index),
            Route("/page/item", self.item),
            Route("/page/{name}", self.asset),
        ]

    async def index(self, _: Request) -> Response:
        """Serve the page, with a new nonce."""
        nonce = secrets.token_urlsafe(16)
        headers = {**HEADERS, "Content-Security-Policy": POLICY.format(nonce=nonce)}
        return HTMLResponse(self._index.replace("NONCE", nonce), headers=headers)

    async def asset(self, request: Request) -> Response:
        """Serve a script, the style sheet or the icon of the page."""
        name = request.path_params["name"]
        if name not in self._assets:
            raise HTTPException(404)
        media_type = TYPES[PurePath(name).suffix]
        return Response(self._assets[name], headers=HEADERS, media_type=media_type)

    async def item(self, request: Request) -> Response:
        """Describe the file or directory at a path, as JSON."""
        path = request.query_params.get("path", "")
        try:
            item: dict[str, Any] = await run_in_threadpool(describe, self._repository, path)
        except (Refusal, ClientError) as error:
            refusal = error if isinstance(error, Refusal) else refusal_for(error)
            raise Refusal(refusal.status, refusal.sentence) from None
        return JSONResponse(item, headers=HEADERS)

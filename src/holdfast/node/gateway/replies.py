"""What all formats have in common: conditions, byte ranges, streams, and refusals.

Everything here runs on a worker thread, up to the first bytes of a body: what goes wrong until then
still gets a status of its own. What goes wrong later breaks the connection, so that nobody takes
a part for the whole.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from holdfast.content.cid import CID
from holdfast.errors import ClientError, ConfigError, ProviderError, VerificationError
from holdfast.node.gateway.ranges import NotSatisfiableError, asked_range
from holdfast.node.streaming import BegunPieces, PieceResponse

IMMUTABLE: Final = "public, max-age=29030400, immutable"  # to the letter as the specs have it
_ETAG: Final = re.compile(r'(?:W/)?("[^"]*")')


class Refusal(Exception):  # noqa: N818 - an answer like others, and nothing that went wrong here
    """The answer is no: a status, a sentence that says why, and header fields if it needs any."""

    def __init__(self, status: int, why: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(why)
        self.status = status
        self.why = why
        self.headers = headers or {}

    @property
    def text(self) -> str:
        """What is wrong, in one sentence."""
        return f"{HTTPStatus(self.status).phrase}: {self.why}."

    def response(self) -> Response:
        """The reply: short, plain, and never kept, since what is missing may come."""
        headers = {"Cache-Control": "no-store", **self.headers}
        return PlainTextResponse(f"{self.text}\n".encode(errors="replace"), self.status, headers)


def refusal_for(error: ClientError) -> Refusal:
    """What an error of the repository or of a walk means to the client."""
    if type(error) is VerificationError:
        return Refusal(HTTPStatus.INTERNAL_SERVER_ERROR, f"the store is damaged: {error.message}")
    if type(error) in {ProviderError, ConfigError}:  # of the store, not of what was asked for
        return Refusal(HTTPStatus.SERVICE_UNAVAILABLE, error.message)
    # The path gateway's 404: "an invalid or missing DAG node", or a name that is not there.
    return Refusal(HTTPStatus.NOT_FOUND, error.message)


@dataclass(frozen=True, slots=True)
class Content:
    """Bytes of a known number, to be read from any place."""

    size: int
    read: Callable[[int, int], Iterable[bytes]]

    @classmethod
    def of(cls, data: bytes) -> "Content":
        """Bytes that are at hand."""
        return cls(len(data), lambda start, stop: [data[start:stop]])


def content_reply(
    request: Request, content: Content, etag: str, headers: Mapping[str, str]
) -> Response:
    """The whole content, or the range that was asked for, or only what there is to say about it."""
    headers = {**headers, "ETag": etag, "Accept-Ranges": "bytes"}
    if is_known(request, etag):
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    start, stop, status = 0, content.size, HTTPStatus.OK
    if (asked := _asked_range(request, etag, content.size)) is not None:
        start, stop = asked
        status = HTTPStatus.PARTIAL_CONTENT
        headers["Content-Range"] = f"bytes {start}-{stop - 1}/{content.size}"
    headers["Content-Length"] = str(stop - start)
    if request.method == "HEAD" or start == stop:
        return Response(status_code=status, headers=headers)
    return PieceResponse(BegunPieces(content.read(start, stop)), status, headers)


def is_known(request: Request, etag: str) -> bool:
    """Whether the client has it already: If-None-Match, compared weakly as RFC 9110 wants it."""
    known = ",".join(request.headers.getlist("if-none-match"))
    return known.strip() == "*" or etag.removeprefix("W/") in _ETAG.findall(known)


def _asked_range(request: Request, etag: str, size: int) -> tuple[int, int] | None:
    """Return the range that a request asks for, or None where it gets the whole content."""
    # RFC 9110 defines ranges for GET alone.
    if request.method != "GET" or request.headers.get("if-range", etag) != etag:
        return None
    try:
        return asked_range(request.headers.get("range", "").strip(), size)
    except NotSatisfiableError:
        raise Refusal(
            HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE,
            f"the content has {size} bytes, and the range begins behind them",
            {"Content-Range": f"bytes */{size}"},
        ) from None


def disposition(request: Request, name: str, *, attach: bool = False) -> dict[str, str]:
    """Content-Disposition, if there is reason for one; `name` unless the client has a better."""
    given = request.query_params.get("filename", "")
    attach = attach or request.query_params.get("download", "").lower() == "true"
    if not attach and not given:
        return {}
    name = re.sub(r"[/\\]", "_", given or name)
    plain = re.sub(r'[^ -~]|["%]', "_", name)
    value = f'{"attachment" if attach else "inline"}; filename="{plain}"'
    if plain != name:
        value += f"; filename*=UTF-8''{quote(name.encode(errors='replace'), safe='')}"
    return {"Content-Disposition": value}


def strong_etag(cid: CID, suffix: str = "") -> str:
    """The ETag of bytes that follow from the CID and nothing else."""
    return f'"{cid}{suffix}"'

"""What all response formats share: the choice of a format, conditions, ranges, headers, errors.

All of this runs on a worker thread, including the read of the first bytes of a body. An error until
then gets a status of its own. A later error breaks the connection, so that the client does not
take a part for the whole.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple
from urllib.parse import quote

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from holdfast.errors import ClientError, ConfigError, ProviderError, VerificationError
from holdfast.node.gateway.addresses import ResolvedPath
from holdfast.node.http_server.http_connection import PIECE, Pieces
from holdfast.node.http_server.refusals import Headers, Refusal
from holdfast.node.http_server.streamed_replies import PieceResponse
from holdfast.protocol.gateway import CAR_TYPE, RAW_TYPE

# Choose the format of a reply: from ``?format=``, else from the Accept header, else the content.
#
# The parameters of an archive come from the same two places (IPIP-412); the query has precedence.

TAR_TYPE: Final = "application/x-tar"
HTML: Final = "text/html"
JSON_TYPE: Final = "application/json"
VALUE_TYPES: Final = {
    "json": JSON_TYPE,
    "cbor": "application/cbor",
    "dag-json": "application/vnd.ipld.dag-json",
    "dag-cbor": "application/vnd.ipld.dag-cbor",
}
_VALUE_FORMATS: Final = {media_type: name for name, media_type in VALUE_TYPES.items()}
# What files never come as. A request for any other type gets the content itself, because its type
# is known only after it was read.
NOT_SERVED: Final = {"application/vnd.ipfs.ipns-record", *_VALUE_FORMATS} - {JSON_TYPE}

_MEDIA_RANGE: Final = re.compile(r'(?:[^,"]|"[^"]*")+')
_PARAMETER: Final = re.compile(r';\s*([\w-]+)\s*=\s*(?:"([^"]*)"|([^\s;,"]*))')
_WEIGHT: Final = re.compile(r"0(\.[0-9]{0,3})?|1(\.0{0,3})?")


FORMATS: Final = ("raw", "car", "tar", *VALUE_TYPES)


class RequestedFormat(NamedTuple):
    """One of `FORMATS`, or "" for the content; whether an archive may have a block twice.

    For a value it can also be `HTML`, a page that shows it.
    """

    format: str
    duplicates: bool = False


class MediaRange(NamedTuple):
    """An element of an Accept header; its weight ``q`` is from 0 to 1."""

    type: str
    parameters: Mapping[str, str] = {}
    weight: float = 1.0


def negotiate(request: Request, codec: str = "") -> RequestedFormat:
    """Return the best requested format that is served; raise a `Refusal` (406) if none is.

    `codec` is the name of the content's codec if it is a value. A value comes as its codec has it,
    or under the plain type of that: dag-json as json, dag-cbor as cbor. Nothing is converted, as
    IPIP-524 says.
    """
    accepted = list(_media_ranges(",".join(request.headers.getlist("accept"))))
    # A named format has precedence over a wildcard of the same weight.
    accepted.sort(key=lambda element: (-element.weight, "*" in element.type))
    if name := request.query_params.get("format", ""):
        if name not in FORMATS:
            raise Refusal(406, f"format {name[:40]!r} is not served; use {', '.join(FORMATS)}")
        if name in VALUE_TYPES and not _is_served_as(name, codec or "json"):
            why = f"the content is {codec or 'UnixFS'}, which is not converted to {name}"
            raise Refusal(406, f"{why}; read its block with ?format=raw")
        if name != "car":
            return RequestedFormat(name)
        # An Accept header for the same format may set its parameters.
        archives = [element for element in accepted if element.type == CAR_TYPE]
        accepted = archives or [MediaRange(CAR_TYPE)]
    for element in accepted or [MediaRange("*/*")]:
        requested = _served(element, request.query_params, codec)
        if requested is not None and element.weight > 0:
            return requested
    raise Refusal(
        406,
        "none of the requested formats is served; there are the content itself, raw blocks, "
        "tar archives, and CAR archives of version 1 in the order dfs; values are not converted",
    )


def _media_ranges(header: str) -> Iterator[MediaRange]:
    for element in _MEDIA_RANGE.findall(header):
        media_type, semicolon, rest = element.partition(";")
        parameters = {
            name.lower(): in_quotes or bare
            for name, in_quotes, bare in _PARAMETER.findall(semicolon + rest)
        }
        weight = parameters.get("q", "1")
        if media_type.strip():
            number = float(weight) if _WEIGHT.fullmatch(weight) else 1.0
            yield MediaRange(media_type.strip().lower(), parameters, number)


def _is_served_as(name: str, codec: str) -> bool:
    """Return whether a value of `codec` can be sent as `name` without a change."""
    return codec in {name, f"dag-{name}"}


def _served(asked: MediaRange, query: QueryParams, codec: str) -> RequestedFormat | None:
    if asked.type in {RAW_TYPE, TAR_TYPE}:
        return RequestedFormat("raw" if asked.type == RAW_TYPE else "tar")
    if asked.type == CAR_TYPE:
        version, order, dups = (
            query.get(f"car-{name}") or asked.parameters.get(name, "")
            for name in ("version", "order", "dups")
        )
        if version in {"", "1"} and order in {"", "dfs", "unk"} and dups in {"", "y", "n"}:
            return RequestedFormat("car", duplicates=dups == "y")
        return None
    if codec and (name := _VALUE_FORMATS.get(asked.type)):
        return RequestedFormat(name) if _is_served_as(name, codec) else None
    if codec.startswith("dag-") and asked.type == HTML and not _is_download(query):
        return RequestedFormat(HTML)
    return None if asked.type in NOT_SERVED else RequestedFormat("")


# Byte ranges: the Range header of a request, and the part of the content that it asks for.

UNIT: Final = "bytes="
_FIRST_TO_LAST: Final = re.compile(r"([0-9]{1,99})-([0-9]{0,99})")
_SUFFIX: Final = re.compile(r"-([0-9]{1,99})")


def asked_range(header: str, size: int) -> tuple[int, int] | None:
    """Return where the range to send begins and where it ends, the end not included.

    Of several ranges, choose the first that the content has, as Kubo does: RFC 9110, 15.3.7
    allows a reply with one part. Return None to send the whole content: for an empty header, a
    header that is not valid, and for empty content, of which no range can be named.

    Raise a `Refusal` (416) where the content has none of the ranges.

    Example:
        >>> asked_range("bytes=6-16, 0-4", 31)
        (6, 17)
    """
    if header[: len(UNIT)].lower() != UNIT or not size:
        return None
    elements = [element.strip(" \t") for element in header[len(UNIT) :].split(",")]
    ranges = [_parsed(element, size) for element in elements if element]
    if not ranges or None in ranges:
        return None
    for span in ranges:
        if span is not None and span[0] < size:
            return span
    text = f"the content has {size} bytes, and the range begins after them"
    raise Refusal(416, text, {"Content-Range": f"bytes */{size}"})


def _parsed(element: str, size: int) -> tuple[int, int] | None:
    """Return one range of the header, or None where it is not valid."""
    if match := _SUFFIX.fullmatch(element):
        return max(0, size - int(match[1])), size
    match = _FIRST_TO_LAST.fullmatch(element)
    if match is None:
        return None
    first = int(match[1])
    if not match[2]:
        return first, size
    last = int(match[2])
    return (first, min(last + 1, size)) if first <= last else None


IMMUTABLE: Final = "public, max-age=29030400, immutable"  # verbatim from the specification
_ETAG: Final = re.compile(r'(?:W/)?("[^"]*")')


def refusal_for(error: ClientError) -> Refusal:
    """Return the `Refusal` for an error of the repository or of resolving a path."""
    if type(error) is VerificationError:
        return Refusal(500, f"the store is damaged: {error.message}")
    if type(error) in {ProviderError, ConfigError}:  # errors of the store, not of the request
        return Refusal(503, error.message)
    # The path gateway's 404: "an invalid or missing DAG node", or a name that does not exist.
    return Refusal(404, error.message)


@dataclass(frozen=True, slots=True)
class Content:
    """Bytes of a known size, of which any range can be read."""

    size: int
    read: Callable[[int, int], Pieces]


def content_reply(request: Request, content: Content, etag: str, headers: Headers) -> Response:
    """Return the reply with the content or a range of it; to HEAD, or if unchanged, the head."""
    headers = {**headers, "ETag": etag, "Accept-Ranges": "bytes"}
    if _is_known(request, etag):
        return Response(status_code=304, headers=headers)
    start, stop, status = 0, content.size, 200
    # RFC 9110 defines ranges for GET alone.
    has_range = request.method == "GET" and request.headers.get("if-range", etag) == etag
    header = request.headers.get("range", "").strip() if has_range else ""
    if (asked := asked_range(header, content.size)) is not None:
        start, stop = asked
        status = 206
        headers["Content-Range"] = f"bytes {start}-{stop - 1}/{content.size}"
    headers["Content-Length"] = str(stop - start)
    if request.method == "HEAD" or start == stop:
        return Response(status_code=status, headers=headers)
    pieces = content.read(start, stop)
    if stop - start <= PIECE:
        return Response(b"".join(pieces), status, headers)
    return PieceResponse(pieces, status, headers)


class JoinedPieces(Pieces):
    """The bytes of `parts` in pieces of about `PIECE`. A part is made when it is needed."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        self._parts = parts

    def __next__(self) -> bytes:
        joined: list[bytes] = []
        size = 0
        while size < PIECE and (part := next(self._parts, None)) is not None:
            joined.append(part)
            size += len(part)
        if not joined:
            raise StopIteration
        return b"".join(joined)


def stream_reply(request: Request, pieces: Pieces, etag: str, headers: Headers) -> Response:
    """Return the reply with an archive, whose size is not known; to HEAD, or if known, the head."""
    headers = {**headers, "ETag": etag, "Accept-Ranges": "none"}
    if _is_known(request, etag):
        return Response(status_code=304, headers=headers)
    return PieceResponse(None if request.method == "HEAD" else pieces, headers=headers)


def content_headers(
    request: Request,
    path: ResolvedPath,
    name: str,
    media_type: str,
    *,
    disposition: str = "",
    query: str = "",
) -> dict[str, str]:
    """Return the header fields of content that never changes.

    `disposition` says whether it is shown ("inline") or saved ("attachment"); "" leaves it open.
    `query` is the one that names the format: a request without it is told the address with it.
    """
    headers = {
        **path.headers(),
        **_disposition(request, name, disposition),
        "Content-Type": media_type,
        "Cache-Control": IMMUTABLE,
    }
    if query and "format" not in request.query_params:
        slash = "/" * path.address.has_slash
        headers["Content-Location"] = f"{path.address.here}{slash}?{query}"
    return headers


def _is_known(request: Request, etag: str) -> bool:
    """Return whether the client has the content: If-None-Match, compared weakly (RFC 9110)."""
    etags = ",".join(request.headers.getlist("if-none-match"))
    return etags.strip() == "*" or etag.removeprefix("W/") in _ETAG.findall(etags)


def _is_download(query: QueryParams) -> bool:
    return query.get("download", "").lower() == "true"


def _disposition(request: Request, name: str, disposition: str) -> dict[str, str]:
    """Return the Content-Disposition if one is needed; the query may set another name."""
    filename = request.query_params.get("filename", "")
    if _is_download(request.query_params):
        disposition = "attachment"
    if not disposition and not filename:
        return {}
    name = re.sub(r"[/\\]", "_", filename or name)
    plain = re.sub(r'[^ -~]|["%]', "_", name)
    value = f'{disposition or "inline"}; filename="{plain}"'
    if plain != name:
        value += f"; filename*=UTF-8''{quote(name.encode(errors='replace'), safe='')}"
    return {"Content-Disposition": value}

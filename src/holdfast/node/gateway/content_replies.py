"""What all response formats share: the choice of a format, conditions, ranges, headers, errors.

All of this runs on a worker thread, including the read of the first bytes of a body. An error until
then gets a status of its own. A later error breaks the connection, so that the client does not
take a part for the whole.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from holdfast.content.cid import CID
from holdfast.errors import ClientError, ConfigError, ProviderError, VerificationError
from holdfast.node.gateway.addresses import ResolvedPath
from holdfast.node.http_server.http_connection import PIECE, Pieces
from holdfast.node.http_server.refusals import Refusal
from holdfast.node.http_server.streamed_replies import PieceResponse
from holdfast.protocol.gateway import CAR_TYPE, RAW_TYPE

# Choose the format of a reply: from ``?format=``, else from the Accept header, else the content.
#
# The parameters of an archive come from the same two places (IPIP-412); the query has precedence.

TAR_TYPE: Final = "application/x-tar"

# Formats of the path gateway whose codecs are not supported. A request for any other type gets the
# content itself, because its type is known only after it was read.
NOT_SERVED: Final = frozenset(
    {
        "application/vnd.ipld.dag-json",
        "application/vnd.ipld.dag-cbor",
        "application/vnd.ipfs.ipns-record",
        "application/cbor",
    }
)

_MEDIA_RANGE: Final = re.compile(r'(?:[^,"]|"[^"]*")+')
_PARAMETER: Final = re.compile(r';\s*([\w-]+)\s*=\s*(?:"([^"]*)"|([^\s;,"]*))')
_WEIGHT: Final = re.compile(r"0(\.[0-9]{0,3})?|1(\.0{0,3})?")


class Format(Enum):
    """The format of a reply."""

    DESERIALIZED = ""
    RAW = "raw"
    CAR = "car"
    TAR = "tar"
    JSON = "json"


FORMATS: Final = {member.value: member for member in Format if member.value}


@dataclass(frozen=True, slots=True)
class RequestedFormat:
    """The chosen format; for an archive, whether it may have a block more than once."""

    format: Format
    duplicates: bool = False


@dataclass(frozen=True, slots=True)
class MediaRange:
    """An element of an Accept header."""

    type: str
    parameters: Mapping[str, str] = field(default_factory=dict)

    @property
    def weight(self) -> float:
        """The weight ``q``, from 0 to 1."""
        text = self.parameters.get("q", "1")
        return float(text) if _WEIGHT.fullmatch(text) else 1.0


def negotiate(request: Request) -> RequestedFormat:
    """Return the best requested format that is served; raise a `Refusal` (406) if none is."""
    accepted = list(_media_ranges(",".join(request.headers.getlist("accept"))))
    # A named format has precedence over a wildcard of the same weight.
    accepted.sort(key=lambda element: (-element.weight, "*" in element.type))
    if name := request.query_params.get("format", ""):
        if name not in FORMATS:
            raise Refusal(
                HTTPStatus.NOT_ACCEPTABLE,
                f"format {name[:40]!r} is not served; use {', '.join(FORMATS)}",
            )
        if FORMATS[name] is not Format.CAR:
            return RequestedFormat(FORMATS[name])
        # An Accept header for the same format may set its parameters.
        accepted = [element for element in accepted if element.type == CAR_TYPE] or [
            MediaRange(CAR_TYPE)
        ]
    for element in accepted or [MediaRange("*/*")]:
        requested = _served(element, request.query_params)
        if requested is not None and element.weight > 0:
            return requested
    raise Refusal(
        HTTPStatus.NOT_ACCEPTABLE,
        "none of the requested formats is served; there are the content itself, raw blocks, "
        "tar archives, and CAR archives of version 1 in the order dfs",
    )


def _media_ranges(header: str) -> Iterator[MediaRange]:
    for element in _MEDIA_RANGE.findall(header):
        media_type, semicolon, rest = element.partition(";")
        parameters = {
            name.lower(): in_quotes or bare
            for name, in_quotes, bare in _PARAMETER.findall(semicolon + rest)
        }
        if media_type.strip():
            yield MediaRange(media_type.strip().lower(), parameters)


def _served(asked: MediaRange, query: QueryParams) -> RequestedFormat | None:
    if asked.type == RAW_TYPE:
        return RequestedFormat(Format.RAW)
    if asked.type == TAR_TYPE:
        return RequestedFormat(Format.TAR)
    if asked.type == CAR_TYPE:
        version, order, dups = (
            query.get(f"car-{name}") or asked.parameters.get(name, "")
            for name in ("version", "order", "dups")
        )
        if version in {"", "1"} and order in {"", "dfs", "unk"} and dups in {"", "y", "n"}:
            return RequestedFormat(Format.CAR, duplicates=dups == "y")
        return None
    return None if asked.type in NOT_SERVED else RequestedFormat(Format.DESERIALIZED)


# Byte ranges: the Range header of a request, and the part of the content that it asks for.

UNIT: Final = "bytes="
_FIRST_TO_LAST: Final = re.compile(r"([0-9]{1,99})-([0-9]{0,99})")
_SUFFIX: Final = re.compile(r"-([0-9]{1,99})")


class NotSatisfiableError(ValueError):
    """The content has none of the bytes that were asked for."""


def asked_range(header: str, size: int) -> tuple[int, int] | None:
    """Return where the range to send begins and where it ends, the end not included.

    Of several ranges, choose the first that the content has, as Kubo does: RFC 9110, 15.3.7
    allows a reply with one part. Return None to send the whole content: for an empty header, a
    header that is not valid, and for empty content, of which no range can be named.

    Raise `NotSatisfiableError` where the content has none of the ranges.

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
    satisfiable = (span for span in ranges if span is not None and span[0] < size)
    chosen = next(satisfiable, None)
    if chosen is None:
        raise NotSatisfiableError
    return chosen


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
        return Refusal(HTTPStatus.INTERNAL_SERVER_ERROR, f"the store is damaged: {error.message}")
    if type(error) in {ProviderError, ConfigError}:  # errors of the store, not of the request
        return Refusal(HTTPStatus.SERVICE_UNAVAILABLE, error.message)
    # The path gateway's 404: "an invalid or missing DAG node", or a name that does not exist.
    return Refusal(HTTPStatus.NOT_FOUND, error.message)


@dataclass(frozen=True, slots=True)
class Content:
    """Bytes of a known size, of which any range can be read."""

    size: int
    read: Callable[[int, int], Pieces]


def content_reply(
    request: Request, content: Content, etag: str, headers: Mapping[str, str]
) -> Response:
    """Return the reply with the content or a range of it; to HEAD, or if unchanged, the head."""
    headers = {**headers, "ETag": etag, "Accept-Ranges": "bytes"}
    if _is_known(request, etag):
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    start, stop, status = 0, content.size, HTTPStatus.OK
    if (asked := _asked_range(request, etag, content.size)) is not None:
        start, stop = asked
        status = HTTPStatus.PARTIAL_CONTENT
        headers["Content-Range"] = f"bytes {start}-{stop - 1}/{content.size}"
    headers["Content-Length"] = str(stop - start)
    if request.method == "HEAD" or start == stop:
        return Response(status_code=status, headers=headers)
    pieces = content.read(start, stop)
    if stop - start <= PIECE:
        return Response(b"".join(pieces), status, headers)
    return PieceResponse(pieces, status, headers)


def stream_reply(
    request: Request, pieces: Pieces, etag: str, headers: Mapping[str, str]
) -> Response:
    """Return the reply with an archive, whose size is not known; to HEAD, or if known, the head."""
    headers = {**headers, "ETag": etag, "Accept-Ranges": "none"}
    if _is_known(request, etag):
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    return PieceResponse(None if request.method == "HEAD" else pieces, headers=headers)


def content_headers(
    request: Request,
    path: ResolvedPath,
    name: str,
    media_type: str,
    *,
    attach: bool = False,
    query: str = "",
) -> dict[str, str]:
    """Return the header fields of content that never changes.

    `query` is the one that names the format: a request without it is told the address with it.
    """
    headers = {
        **path.headers(),
        **_disposition(request, name, attach=attach),
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


def _asked_range(request: Request, etag: str, size: int) -> tuple[int, int] | None:
    """Return the range of a request, or None for the whole content."""
    # RFC 9110 defines ranges for GET alone.
    if request.method != "GET" or request.headers.get("if-range", etag) != etag:
        return None
    try:
        return asked_range(request.headers.get("range", "").strip(), size)
    except NotSatisfiableError:
        raise Refusal(
            HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE,
            f"the content has {size} bytes, and the range begins after them",
            {"Content-Range": f"bytes */{size}"},
        ) from None


def _disposition(request: Request, name: str, *, attach: bool) -> dict[str, str]:
    """Return the Content-Disposition if one is needed; the query may set another name."""
    filename = request.query_params.get("filename", "")
    attach = attach or request.query_params.get("download", "").lower() == "true"
    if not attach and not filename:
        return {}
    name = re.sub(r"[/\\]", "_", filename or name)
    plain = re.sub(r'[^ -~]|["%]', "_", name)
    value = f'{"attachment" if attach else "inline"}; filename="{plain}"'
    if plain != name:
        value += f"; filename*=UTF-8''{quote(name.encode(errors='replace'), safe='')}"
    return {"Content-Disposition": value}


def strong_etag(cid: CID, suffix: str = "") -> str:
    """Return the ETag of bytes that depend only on the CID."""
    return f'"{cid}{suffix}"'

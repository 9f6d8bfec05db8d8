"""Choose the format of a reply: from ``?format=``, else from the Accept header, else the content.

The parameters of an archive come from the same two places (IPIP-412); the query has precedence.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from http import HTTPStatus
from typing import Final

from starlette.datastructures import QueryParams
from starlette.requests import Request

from holdfast.node.http_server.refusals import Refusal
from holdfast.protocol.gateway import CAR_TYPE, RAW_TYPE

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


FORMATS: Final = {each.value: each for each in Format if each.value}


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
    accepted.sort(key=lambda each: (-each.weight, "*" in each.type))
    if name := request.query_params.get("format", ""):
        if name not in FORMATS:
            raise Refusal(
                HTTPStatus.NOT_ACCEPTABLE,
                f"format {name[:40]!r} is not served; use {', '.join(FORMATS)}",
            )
        if FORMATS[name] is not Format.CAR:
            return RequestedFormat(FORMATS[name])
        # An Accept header for the same format may set its parameters.
        accepted = [each for each in accepted if each.type == CAR_TYPE] or [MediaRange(CAR_TYPE)]
    for each in accepted or [MediaRange("*/*")]:
        wanted = _served(each, request.query_params)
        if wanted is not None and each.weight > 0:
            return wanted
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

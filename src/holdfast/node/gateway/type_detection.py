"""Detect the media type of content whose name has no type: from its pin, else from its bytes."""

import codecs
import re
from collections.abc import Callable
from typing import Final

from holdfast.content.media_types import OCTETS
from holdfast.errors import SerializationError
from holdfast.protocol import json_text

HEAD: Final = 4096  # bytes at the start that are examined
JSON_LIMIT: Final = 1 << 20  # bytes; JSON must be read whole, so larger content is not examined
TEXT: Final = "text/plain; charset=utf-8"

_SIGNATURES: Final = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "image/png"),
    (re.compile(rb"\xff\xd8\xff"), "image/jpeg"),
    (re.compile(rb"GIF8[79]a"), "image/gif"),
    (re.compile(rb"RIFF.{4}WEBP", re.DOTALL), "image/webp"),
    (re.compile(rb"%PDF-"), "application/pdf"),
)
# With atomic groups the search does not backtrack into comments, so no text takes long to match.
_TEXT_SIGNATURES: Final = (
    (
        re.compile(
            rb"(?is)(?><\?xml.*?\?>\s*)?+(?><!--.*?-->\s*)*+(?><!doctype svg.*?>\s*)?+<svg[\s>]"
        ),
        "image/svg+xml",
    ),
    (
        re.compile(rb"(?is)(?><!--.*?-->\s*)*+<(?:!doctype html|html|head|body)[\s>]"),
        "text/html; charset=utf-8",
    ),
)
_JSON_STARTS: Final = frozenset(b'{["-0123456789tfn')
_BINARY: Final = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]")  # WHATWG's binary data bytes
_MEDIA_TYPE: Final = re.compile(r"[\w!#$&^.+-]+/[\w!#$&^.+-]+(?:; ?[\w-]+=[\w.+-]+)*", re.ASCII)


def stored_type(type: str) -> str | None:
    """Return the type of a pin if it is a valid media type. Clients can set it to any text."""
    return type if _MEDIA_TYPE.fullmatch(type) and type != OCTETS else None


def sniffed_type(size: int, read: Callable[[int, int], bytes]) -> str:
    """Return the media type that content of `size` bytes seems to have."""
    head = read(0, min(size, HEAD))
    for signature, found in _SIGNATURES:
        if signature.match(head):
            return found
    if not _is_text(head, whole=len(head) == size):
        return OCTETS
    text = head.removeprefix(codecs.BOM_UTF8).lstrip()
    for start, found in _TEXT_SIGNATURES:
        if start.match(text):
            return found
    if text and text[0] in _JSON_STARTS and holds_json(size, read):
        return "application/json"
    return TEXT


def holds_json(size: int, read: Callable[[int, int], bytes]) -> bool:
    """Return whether content of `size` bytes is JSON; False above `JSON_LIMIT`."""
    if size > JSON_LIMIT:
        return False
    try:
        json_text.from_text(read(0, size))
    except SerializationError:
        return False
    return True


def _is_text(head: bytes, *, whole: bool) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head, final=whole)
    except UnicodeDecodeError:
        return False
    return not _BINARY.search(head)

"""Media types by file name extension."""

import mimetypes
import posixpath
from functools import cache
from typing import Final

OCTETS: Final = "application/octet-stream"
AGE_MARK: Final = b"age-encryption.org/"  # with which age files of all versions begin

# What Python does not have, or not in every version. Lines as in mime.types: a type, then its
# extensions.
OTHERS: Final = """
application/gzip gz tgz
application/toml toml
application/vnd.ipld.car car
application/x-7z-compressed 7z
application/x-bzip2 bz2
application/x-xz xz
application/yaml yaml yml
application/zstd zst
audio/flac flac
audio/mp4 m4a
audio/ogg ogg
audio/x-wav wav
font/otf otf
font/ttf ttf
font/woff woff
font/woff2 woff2
image/webp webp
model/gltf+json gltf
model/gltf-binary glb
text/javascript js mjs
text/markdown markdown md
text/plain log
video/x-matroska mkv
"""


@cache
def _types() -> dict[str, str]:
    """Return the type for each extension: Python's own, without those of the operating system.

    They are stored with pins, and the tables of operating systems differ.
    """
    # Before `mimetypes` reads the system's files, its own table is in `types_map`.
    table = mimetypes.MimeTypes().types_map[True] if mimetypes.inited else mimetypes.types_map
    types = dict(table)
    for media_type, *extensions in map(str.split, OTHERS.strip().splitlines()):
        types |= {f".{extension}": media_type for extension in extensions}
    return types


def named_type(name: str) -> str | None:
    """Return the media type for the extension of `name`, or None if it is unknown."""
    media_type = _types().get(posixpath.splitext(name)[1].lower())
    is_text = media_type is not None and media_type.startswith("text/")
    return f"{media_type}; charset=utf-8" if is_text else media_type


def told_type(type: str, *names: str) -> str:
    """Return the type given with an upload, or if it says nothing, the first that a name tells."""
    types = map(named_type, names if type.lower() in {"", OCTETS} else ())
    return next(filter(None, types), type)

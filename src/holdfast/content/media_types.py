"""Media types by the extensions of names."""

import mimetypes
import posixpath
from typing import Final

OCTETS: Final = "application/octet-stream"

# The table of the standard library, without what this machine adds to it: the same everywhere.
EXTENSIONS: Final = {
    **mimetypes.MimeTypes().types_map[True],
    ".7z": "application/x-7z-compressed",
    ".bz2": "application/x-bzip2",
    ".car": "application/vnd.ipld.car",
    ".flac": "audio/flac",
    ".glb": "model/gltf-binary",
    ".gltf": "model/gltf+json",
    ".gz": "application/gzip",
    ".js": "text/javascript",
    ".log": "text/plain",
    ".m4a": "audio/mp4",
    ".markdown": "text/markdown",
    ".md": "text/markdown",
    ".mjs": "text/javascript",
    ".mkv": "video/x-matroska",
    ".ogg": "audio/ogg",
    ".otf": "font/otf",
    ".tgz": "application/gzip",
    ".toml": "application/toml",
    ".ttf": "font/ttf",
    ".webp": "image/webp",
    ".woff": "font/woff",
    ".woff2": "font/woff2",
    ".xz": "application/x-xz",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
    ".zst": "application/zstd",
}


def named_type(name: str) -> str | None:
    """The type that the extension of `name` stands for, if it is known."""
    found = EXTENSIONS.get(posixpath.splitext(name)[1].lower())
    return f"{found}; charset=utf-8" if found and found.startswith("text/") else found


def told_type(type: str, name: str) -> str:
    """The type that an upload came with; where that says nothing, the one of its name."""
    return type if type not in {"", OCTETS} else named_type(name) or type

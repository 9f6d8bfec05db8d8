"""Media types by file name extension."""

import posixpath
from typing import Final

OCTETS: Final = "application/octet-stream"

# Our own table, because the types are stored with pins and the tables of operating systems differ.
# Lines as in mime.types: a type, then its extensions.
TABLE: Final = """
application/gzip gz tgz
application/json json
application/manifest+json webmanifest
application/msword doc dot wiz
application/n-quads nq
application/n-triples nt
application/octet-stream a bin dll exe o obj so
application/pdf pdf
application/postscript ai eps ps
application/toml toml
application/trig trig
application/vnd.apple.mpegurl m3u m3u8
application/vnd.ipld.car car
application/vnd.ms-excel xlb xls
application/vnd.ms-powerpoint pot ppa pps ppt pwz
application/wasm wasm
application/x-7z-compressed 7z
application/x-bzip2 bz2
application/x-hdf5 h5
application/x-latex latex
application/x-netcdf cdf nc
application/x-pkcs12 p12 pfx
application/x-python-code pyc pyo
application/x-sh sh
application/x-shockwave-flash swf
application/x-tar tar
application/x-tex tex
application/x-xz xz
application/xml rdf wsdl xpdl xsl
application/yaml yaml yml
application/zip zip
application/zstd zst
audio/3gpp 3gp 3gpp
audio/3gpp2 3g2 3gpp2
audio/aac aac adts ass loas
audio/flac flac
audio/mp4 m4a
audio/mpeg mp2 mp3
audio/ogg ogg
audio/opus opus
audio/x-aiff aif aifc aiff
audio/x-wav wav
font/otf otf
font/ttf ttf
font/woff woff
font/woff2 woff2
image/avif avif
image/bmp bmp
image/gif gif
image/heic heic
image/heif heif
image/jpeg jpe jpeg jpg
image/png png
image/svg+xml svg
image/tiff tif tiff
image/vnd.microsoft.icon ico
image/webp webp
image/x-portable-anymap pnm
image/x-portable-bitmap pbm
image/x-portable-graymap pgm
image/x-portable-pixmap ppm
message/rfc822 eml mht mhtml nws
model/gltf+json gltf
model/gltf-binary glb
text/css css
text/csv csv
text/html htm html
text/javascript js mjs
text/markdown markdown md
text/n3 n3
text/plain bat c h ksh log pl srt txt
text/tab-separated-values tsv
text/vtt vtt
text/x-python py
text/x-vcard vcf
text/xml xml
video/mp4 mp4
video/mpeg m1v mpa mpe mpeg mpg
video/quicktime mov qt
video/webm webm
video/x-matroska mkv
video/x-msvideo avi
"""
EXTENSIONS: Final = {
    extension: media_type
    for media_type, *extensions in map(str.split, TABLE.strip().splitlines())
    for extension in extensions
}


def named_type(name: str) -> str | None:
    """Return the media type for the extension of `name`, or None if it is unknown."""
    found = EXTENSIONS.get(posixpath.splitext(name)[1].lower().removeprefix("."))
    return f"{found}; charset=utf-8" if found and found.startswith("text/") else found


def told_type(type: str, name: str) -> str:
    """Return the media type given with an upload, or that of its name if it says nothing."""
    return type if type.lower() not in {"", OCTETS} else named_type(name) or type

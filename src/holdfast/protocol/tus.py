"""Resumable uploads: the tus protocol, version 1.0.0, for a file of known size.

A file is sent in pieces. Each request says at which byte its piece begins, and the reply says how
far the service has come. After an interruption, HEAD asks for that.
"""

import base64
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Final
from urllib.parse import urljoin

from holdfast.config.checks import address_error
from holdfast.protocol.http import RETRIED, Reply, Request, SignedURL, StreamBody, origin, read_size
from holdfast.protocol.pin_api import ServiceAPI

VERSION: Final = {"Tus-Resumable": "1.0.0"}
PIECE_TYPE: Final = "application/offset+octet-stream"
LOCKED: Final = 423  # another request to the same upload is not over yet
GONE: Final = frozenset({404, 410})  # the service does not have the upload any more
UNKNOWN: Final = GONE | {403}  # the same, as replies to HEAD
# After these, ask with HEAD: the service may have taken the piece, or a part of it.
ASKED_AGAIN: Final = RETRIED | {409, LOCKED, 460, *range(200, 300)}
NEVER_TAKEN: Final = frozenset({413, 415})  # the same upload would be refused again
MAX_LOCATION: Final = 4096


class TusAPI(ServiceAPI):
    """The requests of resumable uploads: `base_url` is the address at which uploads are begun.

    The token is sent to the origin of that address only.
    """

    def begin(self, size: int, metadata: Mapping[str, str]) -> Request:
        """Return the request that begins an upload of `size` bytes; `metadata` is its metadata."""
        headers = {"Upload-Length": str(size), "Upload-Metadata": _metadata(metadata)}
        return self._request("POST", self.base_url, headers)

    def read_location(self, reply: Reply) -> SignedURL:
        """Return the address of an upload that was begun; raise an error if it is elsewhere."""
        self.check(reply)
        address = reply.headers.get("location", "")
        try:
            location = SignedURL(urljoin(self.base_url, address))
        except ValueError:
            location = SignedURL("")
        if not 0 < len(address) <= MAX_LOCATION or address_error(location):
            words = "the provider's reply names no address for the upload (Location)"
            raise self.failure(words, reply)
        if not self.is_ours(location):
            words = (
                "the provider's Location is not at the host of upload_url; nothing was sent "
                "there, because the token is for upload_url only"
            )
            raise self.failure(words, reply)
        return location

    def is_ours(self, location: str) -> bool:
        """Return whether the token may be sent to `location`."""
        if address_error(location) or "@" in location.partition("?")[0]:
            return False
        return origin(location) == origin(self.base_url)

    def ask(self, location: str) -> Request:
        """Return the request that asks how far an upload has come."""
        return self._request("HEAD", location, retried=RETRIED | {LOCKED})

    def read_answer(self, reply: Reply, size: int) -> int | None:
        """Return how far an upload has come; None if it must be begun anew."""
        if reply.status in UNKNOWN:
            return None
        self.check(reply)
        length = reply.headers.get("upload-length")
        return read_offset(reply, 0, size) if length in {None, str(size)} else None

    def send(
        self, location: str, offset: int, piece: StreamBody, on_sent: Callable[[int], None]
    ) -> Request:
        """Return the request with a `piece` that begins at `offset`."""
        headers = {"Content-Type": PIECE_TYPE, "Upload-Offset": str(offset)}
        return self._request("PATCH", location, headers, body=piece, on_sent=on_sent)

    def _request(
        self, method: str, url: str, headers: Mapping[str, str] | None = None, **more: Any
    ) -> Request:
        if not self.is_ours(url):
            raise ValueError("the token is for another host")  # `read_location` refuses it before
        fields = {**VERSION, **(headers or {})}
        return self.request(method, "", base_url=SignedURL(url), headers=fields, **more)


def read_offset(reply: Reply, least: int, most: int) -> int | None:
    """Return the header Upload-Offset; None unless it is a number from `least` to `most`."""
    offset = read_size(reply.headers.get("upload-offset", ""))
    return None if offset is None or not least <= offset <= most else offset


def read_expiry(reply: Reply) -> float | None:
    """Return when the service will forget the upload, in seconds; None if it does not say."""
    try:
        return parsedate_to_datetime(reply.headers.get("upload-expires", "")).timestamp()
    except (ValueError, OverflowError):
        return None


def _metadata(metadata: Mapping[str, str]) -> str:
    """Return the header Upload-Metadata.

    Example:
        >>> _metadata({"filename": "a.txt", "filetype": ""})
        'filename YS50eHQ=,filetype '
    """
    return ",".join(
        f"{key} {base64.b64encode(value.encode()).decode()}" for key, value in metadata.items()
    )

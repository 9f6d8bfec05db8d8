"""Requests to IPFS gateways, their redirects, and the checks of their replies."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias
from urllib.parse import urljoin, urlsplit

from holdfast.config.secret import MASK, Secret
from holdfast.content.cid import CID
from holdfast.content.reference import Reference
from holdfast.content.unixfs.file_nodes import directory_error
from holdfast.errors import ProviderError, UnprovenError
from holdfast.protocol import host_privacy
from holdfast.protocol.http import Reply, Request, SignedURL, origin
from holdfast.protocol.status_errors import failure, provider_error

TOKEN_HEADER: Final = "x-pinata-gateway-token"  # noqa: S105 - the header's name
REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
MAX_REDIRECTS: Final = 10
INTO_PRIVATE: Final = "into a private network"
PARTIAL: Final = 206
RAW_TYPE: Final = "application/vnd.ipld.raw"
CAR_TYPE: Final = "application/vnd.ipld.car"
# The statuses with which gateways of only blocks and archives refuse plain content (Kubo: 406).
FORMAT_REFUSALS: Final = frozenset({406, 501})
# Statuses of a block that the gateway does not have: it must not fetch it (412).
NOT_CACHED: Final = frozenset({404, 410, 412})
GATEWAY_TIMEOUT: Final = 504
TRUSTLESS_FOR: Final = 3600.0  # seconds for which such a gateway is not asked for plain content
ArchiveScope: TypeAlias = Literal["entity", "all", "dag"]
# What a cache says of a reply that it had already, and how often it has sent it before.
_HIT: Final = re.compile(r"\b(hit|stale|updating|revalidated)\b(?!-)", re.IGNORECASE)
_COUNT: Final = re.compile("[1-9]")
_RANGE: Final = re.compile(r"bytes (\d{1,18})-\d{1,18}/(?:\d{1,18}|\*)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Gateway:
    """The gateway at `base_url`. No other host gets its `token`.

    Attributes:
        link: The signed link to the only file that it serves; None if it serves any content.
            Blocks and archives have other addresses, for which the link is not signed.
        peer: The host, for messages.
    """

    base_url: str
    token: Secret | None = None
    link: SignedURL | None = None
    peer: str = field(init=False, repr=False, compare=False)
    _for_content: Mapping[str, str | Secret] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        own: dict[str, str | Secret] = {} if self.token is None else {TOKEN_HEADER: self.token}
        object.__setattr__(self, "peer", urlsplit(self.base_url).netloc)
        object.__setattr__(self, "_for_content", {"Accept": "*/*", **own})

    def __str__(self) -> str:
        return self.base_url

    def content(self, reference: Reference, start: int = 0, stop: int | None = None) -> Request:
        """Build the request for the content as plain bytes, or for its bytes `start` to `stop`."""
        headers = self._for_content
        if start or stop is not None:
            last = "" if stop is None else stop - 1
            headers = {**headers, "Range": f"bytes={start}-{last}"}
        return Request("GET", self.link or f"{self.base_url}/{reference}", headers)

    def block(self, cid: CID) -> Request:
        """Build the request for one block."""
        return self._get(f"{self.base_url}/{cid}?format=raw", {"Accept": RAW_TYPE})

    def archive(
        self,
        reference: Reference,
        start: int = 0,
        stop: int | None = None,
        *,
        scope: ArchiveScope = "entity",
    ) -> Request:
        """Build the request for an archive of a file or directory, and of the path to it.

        With a range, the archive has only the blocks for those bytes. With the scope ``all``, it
        also has everything that is in a directory. With ``dag``, it has each block once.
        """
        if scope == "dag":
            url = f"{self.url(reference)}?format=car"
            return self._get(url, {"Accept": f"{CAR_TYPE};version=1;dups=n"})
        url = f"{self.url(reference)}?format=car&dag-scope={scope}&car-dups=y"
        if start or stop is not None:
            url += f"&entity-bytes={start}:{'*' if stop is None else max(start, stop - 1)}"
        return self._get(url, {"Accept": f"{CAR_TYPE};version=1;order=dfs;dups=y"})

    def url(self, reference: Reference) -> str:
        """Return the URL of `reference` at this gateway."""
        return f"{self.base_url}/{reference}"

    def redirected(
        self, request: Request, reply: Reply, reference: Reference, address: str | None
    ) -> Request:
        """Return the request that `reply` redirects to; raise an error if it must not be sent.

        `address` is the one that `request` was sent to, or None if a proxy made the connection. The
        new request must not go to a more private address.
        """
        location = reply.headers.get("location", "")
        if MASK in location:
            raise self.not_followed(request, reply, "to a URL that contains a credential")
        host = address or urlsplit(request.url).hostname
        most = min(request.max_privacy, host_privacy.privacy(host))
        try:
            target = urljoin(request.url, location)
            is_directory = urlsplit(target).path == urlsplit(request.url).path + "/"
            objection = _objection(request.url, target, most)
        except ValueError:
            is_directory, objection = False, "to an invalid URL"
        if is_directory:
            raise directory_error(reference)
        if objection:
            raise self.not_followed(request, reply, objection)
        headers = {name: value for name, value in request.headers.items() if isinstance(value, str)}
        return replace(self._get(target, headers), max_privacy=most)

    def not_followed(self, request: Request, reply: Reply, objection: str) -> ProviderError:
        """Return the error for a redirect in `reply` that is not followed."""
        words = f"{request.peer} redirects {objection}; it was not followed"
        return failure(words, reply, secret=self.token)

    def check(self, reply: Reply) -> None:
        """Raise an error if `reply` is a failure or its body is compressed."""
        if not reply.ok:
            raise provider_error(reply, secret=self.token)
        encoding = reply.headers.get("content-encoding", "identity").strip().lower()
        if encoding not in {"", "identity"}:
            words = "the gateway sent compressed content, which was not asked for"
            raise failure(words, reply, secret=self.token)

    def skipped(self, reply: Reply, start: int) -> int:
        """Return how many bytes of the body come before `start`, from which on it was requested.

        A server may send the whole content instead. A part that begins elsewhere is an error.
        """
        if reply.status != PARTIAL:
            return start
        sent = _RANGE.fullmatch(reply.headers.get("content-range", "").strip())
        if sent is None or int(sent[1]) != start:
            words = "the gateway sent a different part of the content than requested"
            raise failure(words, reply, secret=self.token)
        return 0

    def _get(self, url: str, plain: Mapping[str, str]) -> Request:
        headers: dict[str, str | Secret] = {**plain}
        if self.token is not None and origin(url) == origin(self.base_url):
            headers[TOKEN_HEADER] = self.token
        return Request("GET", url, headers)


class NotOwnReplyError(UnprovenError):
    """A cache has sent a block, or the gateway has searched the network for it."""


class WitnessGateway(Gateway):
    """A gateway that is asked for blocks that it has itself, and must not fetch others."""

    def block(self, cid: CID) -> Request:
        """Build the request for one block, which forbids to fetch it."""
        request = super().block(cid)
        return replace(request, headers={**request.headers, "Cache-Control": "only-if-cached"})

    def check(self, reply: Reply) -> None:
        """Raise an error if `reply` is a failure, or does not show what the gateway has.

        That is NotOwnReplyError; or UnprovenError, if a cache says that there is no such block.
        """
        if reply.status == GATEWAY_TIMEOUT:
            raise NotOwnReplyError(f"{self.peer} searches the network")
        if (reply.ok or reply.status in NOT_CACHED) and is_from_cache(reply.headers):
            error = NotOwnReplyError if reply.ok else UnprovenError
            raise error(f"a cache before {self.peer} has replied")
        super().check(reply)


def is_from_cache(headers: Mapping[str, str]) -> bool:
    """Return whether a reply says that a cache before the gateway sent it.

    Example:
        >>> is_from_cache({"x-cache": "Hit from cloudfront"}), is_from_cache({"age": "0"})
        (True, False)
    """
    if headers.get("age", "0").strip() != "0" or _COUNT.search(headers.get("x-cache-hits", "")):
        return True
    return any("cache" in name and _HIT.search(value) for name, value in headers.items())


def _objection(source: str, target: str, max_privacy: int) -> str:
    """Return why a redirect from `source` to `target` is not followed, or "" if it is."""
    here, destination = urlsplit(source), urlsplit(target)
    if destination.port == 0:
        return "to an invalid URL"
    if destination.scheme not in {"http", "https"} or not destination.hostname:
        return "to a URL that is not http or https"
    if here.scheme == "https" and destination.scheme == "http":
        return "from https to http"
    if destination.username is not None or destination.password is not None:
        return "to a URL with a user name"
    return INTO_PRIVATE if host_privacy.privacy(destination.hostname) > max_privacy else ""

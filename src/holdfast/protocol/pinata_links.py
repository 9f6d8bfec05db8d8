"""Signed links of the service's v3 API, and how they show what a key may do."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.config.checks import address_error
from holdfast.hints import advise
from holdfast.protocol.http import Reply, Request, SignedURL, origin
from holdfast.protocol.pin_api import Exchange
from holdfast.protocol.pinning import FORBIDDEN
from holdfast.protocol.status_errors import failure, provider_error
from holdfast.records import PinFilter

if TYPE_CHECKING:
    from holdfast.protocol.pinata import PinataAPI


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadLimits:
    """What a link for uploads accepts.

    Attributes:
        expires: For how many seconds it works.
        max_bytes: The largest file; None for no limit but the service's.
        types: The media types, such as ``image/*``; none for any.
    """

    expires: int
    max_bytes: int | None = None
    types: tuple[str, ...] = ()


def sign_read(api: "PinataAPI", url: str, expires: int) -> Exchange[SignedURL]:
    """Return a link to the private file at `url`, which works for `expires` seconds."""
    body = {"url": url, "date": api.seconds(), "expires": expires, "method": "GET"}
    reply = yield api.json_request("POST", "/files/private/download_link", body)
    link = _read_link(api, reply)
    if origin(link) != origin(url):
        words = "the provider's link leads to another host than the gateway; it was not used"
        raise failure(words, reply, secret=api.token)
    return link


def sign_upload(api: "PinataAPI", limits: UploadLimits) -> Exchange[SignedURL]:
    """Return a link to which files can be uploaded without the key."""
    return _read_link(api, (yield _upload_link_request(api, limits)))


def check_credentials(api: "PinataAPI") -> Exchange[None]:
    """Return if the service accepts the key for reading and writing; nothing is written.

    The service signs a link for uploads only for a key that may upload.
    """
    lacking: list[str] = []
    refused: Reply | None = None
    for permission, request, read in _probes(api):
        reply = yield request
        if reply.status == FORBIDDEN:
            lacking.append(permission)
            refused = refused or reply
        else:
            read(reply)
    if refused is not None:
        error = provider_error(refused, secret=api.token)
        raise advise(error, f"give a key with the permission {' and '.join(lacking)}")


def _probes(api: "PinataAPI") -> Iterator[tuple[str, Request, Callable[[Reply], object]]]:
    """Yield requests that change nothing, each with its permission, and what reads the reply."""
    files = api.pages(PinFilter(), limit=1)
    yield "org:files:read", files.request(), files.read
    link = _upload_link_request(api, UploadLimits(expires=1, max_bytes=1))
    yield "org:files:write", link, partial(_read_link, api)


def _upload_link_request(api: "PinataAPI", limits: UploadLimits) -> Request:
    body: dict[str, Any] = {
        "date": api.seconds(),
        "expires": limits.expires,
        "network": api.options.network,
        **({} if api.options.group is None else {"group_id": api.options.group}),
        **({} if limits.max_bytes is None else {"max_file_size": limits.max_bytes}),
        **({"allow_mime_types": list(limits.types)} if limits.types else {}),
    }
    return api.json_request("POST", "/files/sign", body, base_url=api.options.upload_url)


def _read_link(api: "PinataAPI", reply: Reply) -> SignedURL:
    link = SignedURL(api.read_member(reply))
    if address_error(link):
        raise failure("the provider's reply is not a link (data)", reply, secret=api.token)
    return link

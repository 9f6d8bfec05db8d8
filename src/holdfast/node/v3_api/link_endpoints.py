"""The calls that sign addresses: to upload without a token, and to read a private file."""

import time
from collections.abc import Mapping
from typing import Any, Final, TypeGuard
from urllib.parse import urlencode, urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response

from holdfast.content.cid import CID
from holdfast.errors import InvalidCIDError
from holdfast.node.http_server.refusals import Refusal, bad_request
from holdfast.node.pinning_api.body_reader import BodyReader
from holdfast.node.v3_api.networks import PRIVATE
from holdfast.node.v3_api.signatures import Signer
from holdfast.node.v3_api.upload_options import LATEST, read_name, read_network, unwrapped
from holdfast.node.v3_api.v3_calls import data_reply, origin_of

PREFIX: Final = "/files/"  # of private files
UPLOAD: Final = "upload"
LINK: Final = "link"
ALGORITHM: Final = "PINATA1"
MAX_ADDRESS: Final = 16 << 10  # characters; the head of a request may have 32 KiB
MAX_TYPES: Final = 100


class LinkEndpoints:
    """The calls that sign addresses."""

    def __init__(self, signer: Signer, bodies: BodyReader) -> None:
        self._signer = signer
        self._bodies = bodies

    async def sign(self, request: Request) -> Response:
        """Sign an address to upload to; with an `url` in the body, one to read a private file."""
        body = await self._bodies.json_object(request)
        if "url" in body:
            return await self._link(body)
        grant = _read_grant(body)
        token = await run_in_threadpool(self._signer.seal, UPLOAD, grant)
        address = f"{origin_of(request)}/v3/files/signed/{token}"
        if len(address) > MAX_ADDRESS:
            raise bad_request("The key-values and types are too long for an address")
        return data_reply(address)

    async def download_link(self, request: Request) -> Response:
        """Sign an address to read a private file."""
        return await self._link(await self._bodies.json_object(request))

    async def _link(self, body: Mapping[str, Any]) -> Response:
        url = body.get("url")
        if body.get("method", "GET") != "GET":
            raise bad_request("method must be GET")
        if not _is_address(url):
            raise bad_request("url must be the address of a private file, …/files/CID")
        cid = _private_cid(urlsplit(url).path)
        date, expires = str(_whole_number(body, "date")), str(_whole_number(body, "expires"))
        signature = await run_in_threadpool(self._signer.sign, LINK, cid, date, expires)
        query = urlencode(
            {
                "X-Algorithm": ALGORITHM,
                "X-Date": date,
                "X-Expires": expires,
                "X-Method": "GET",
                "X-Signature": signature,
            }
        )
        return data_reply(f"{url}{'&' if '?' in url else '?'}{query}")


def check_link(signer: Signer, path: str, query: QueryParams) -> CID:
    """Return the CID that a link opens; raise a `Refusal` unless it is valid now."""
    cid = _private_cid(path)
    date, expires = query.get("X-Date", ""), query.get("X-Expires", "")
    signature = query.get("X-Signature", "")
    if query.get("X-Method") != "GET" or not signer.is_valid(signature, LINK, cid, date, expires):
        raise Refusal(403, "a private file is read through an access link, and this is not one")
    if time.time() >= int(date) + int(expires):
        raise Refusal(403, "the access link has expired")
    return CID.parse(cid)


def open_grant(signer: Signer, token: str) -> dict[str, Any]:
    """Return what a signed address allows; raise a `Refusal` unless it is valid now."""
    grant: dict[str, Any] = signer.unseal(UPLOAD, token)
    if time.time() >= grant["until"]:
        raise Refusal(403, "The signed address has expired")
    return grant


def _is_address(url: Any) -> TypeGuard[str]:
    """Return whether `url` is the text of an address, of at most `MAX_ADDRESS` characters."""
    try:
        return isinstance(url, str) and len(url) <= MAX_ADDRESS and bool(urlsplit(url))
    except ValueError:
        return False


def _private_cid(path: str) -> str:
    """Return the CID in the path of a private file, as it is written there."""
    text = path.partition(PREFIX)[2].partition("/")[0]
    try:
        CID.parse(text)
    except InvalidCIDError as error:
        raise bad_request(f"Invalid CID: {error.reason}") from None
    return text


def _read_grant(body: Mapping[str, Any]) -> dict[str, Any]:
    grant: dict[str, Any] = {
        "until": _whole_number(body, "date") + _whole_number(body, "expires"),
        "network": read_network(body.get("network", PRIVATE)),
    }
    if body.get("group_id") is not None:
        grant["group_id"] = str(body["group_id"])[:100]
    if body.get("filename") is not None:
        grant["name"] = read_name(body["filename"])
    if body.get("keyvalues") is not None:
        grant["keyvalues"] = unwrapped(body["keyvalues"])
    if body.get("max_file_size") is not None:
        grant["max_file_size"] = _whole_number(body, "max_file_size")
    if body.get("allow_mime_types") is not None:
        types = body["allow_mime_types"]
        if (
            not isinstance(types, list)
            or len(types) > MAX_TYPES
            or not all(isinstance(each, str) and len(each) <= 100 for each in types)
        ):
            raise bad_request(f"allow_mime_types must be a list of at most {MAX_TYPES} types")
        grant["allow_mime_types"] = [each.lower() for each in types]
    return grant


def _whole_number(body: Mapping[str, Any], name: str) -> int:
    """Return a whole number from the body."""
    value = body.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LATEST:
        raise bad_request(f"{name} must be a whole number")
    return value

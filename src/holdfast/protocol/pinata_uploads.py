"""Large files at the service's v3 API: their metadata, their CIDs, and what they become."""

import base64
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode, urlsplit

from holdfast.config.secret import Secret
from holdfast.protocol.pin_api import Exchange
from holdfast.protocol.tus import GONE, TusAPI
from holdfast.records import Added, PinInfo

if TYPE_CHECKING:
    from holdfast.protocol.pinata import PinataAPI

PIECE_SIZE: Final = 48 << 20  # bytes of a request: within all limits that the service publishes
LARGEST_FILE: Final = 25_000_000_000  # bytes
CID_VERSION: Final = "X-Upload-Option-Cid-Version"  # the service's SDK sends it in the query, too
EXPIRES_AT: Final = "expires_at"


def resumable(api: "PinataAPI") -> TusAPI:
    """Return the API for uploads in several requests."""
    query = urlencode({CID_VERSION: f"v{api.cid_version}"})
    return TusAPI(f"{api.options.upload_url}/files?{query}", api.token)


def metadata(api: "PinataAPI", info: PinInfo, media_type: str) -> dict[str, str]:
    """Return the metadata that is sent when the upload of a file begins."""
    fields = api.upload_fields(info)
    return {"filename": fields.pop("name", ""), "filetype": media_type, **fields}


def identity(api: "PinataAPI", about: Mapping[str, str], info: PinInfo) -> dict[str, str]:
    """Return the part of the metadata that is the same when the upload is continued later.

    A name that the user did not give may be another one then, such as a random one.
    """
    name = {} if info.given else {"filename": ""}
    return {**about, **name, EXPIRES_AT: str(api.options.expires)}


def account(token: Secret) -> Secret:
    """Return what identifies an account: the user's id in a key of the service, else the token.

    So an upload whose key has expired can continue with a new key of the same user.
    """
    try:
        payload = token.reveal().split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        user = claims["userInformation"]["id"]
    except (LookupError, ValueError, TypeError):
        return token
    return Secret(user) if isinstance(user, str) and user else token


def find_cid(api: "PinataAPI", location: str, expected: str | None) -> Exchange[str | None]:
    """Return the CID of a complete upload whose reply was lost; None if it is not there.

    It is `PENDING` while the service computes it. The upload has the id of the file. If the service
    had the content before, the file has another id, but the CID may be the `expected` one.
    """
    reply = yield api.request("GET", api.file_path(_file_id(location)))
    if reply.status not in GONE:
        cid = api.read_data(reply).get("cid")
        return cid if isinstance(cid, str) else None
    if expected is None:
        return None
    found = yield from api.find(expected, limit=1)
    return found[0].cid if found else None


def describe(api: "PinataAPI", cid: str, location: str, info: PinInfo) -> Exchange[Added]:
    """Return what became of a complete upload. Known content gets the name that the user gave."""
    found = yield from api.find(cid, limit=1)
    pin_id = found[0].id if found else None
    is_known = None if pin_id is None else pin_id != _file_id(location)
    added = Added(cid=cid, duplicate=is_known, pin_id=pin_id)
    yield from api.rename_known(added, info)
    return added


def _file_id(location: str) -> str:
    """Return the id of the file: the last but one part of the address of its upload, or ""."""
    return "".join(urlsplit(location).path.rstrip("/").split("/")[-2:-1])

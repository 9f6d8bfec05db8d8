"""What the tests of the v3 API share: a configuration for a scripted server, and its replies."""

from typing import Any

from holdfast import ClientConfig
from holdfast.testing import ScriptedServer
from tests.support import HELLO_CID, config_for

KIB_256 = 1 << 18  # of the leaves of the service
LINKS = 174  # of its nodes
PROFILES = ("unixfs-v0-2015", "kubo-legacy-cidv1")  # by CID version
SIZES_AROUND_NODES = tuple(
    size + more
    for size in (0, KIB_256, 2 * KIB_256, LINKS * KIB_256, (LINKS + 1) * KIB_256)
    for more in (-1, 0, 1)
    if size + more >= 0
)
FILE_ID = "dd5f8888-bf15-4559-b8a2-6c626869507f"
GROUP = "5b56981c-7e5b-4dff-aeca-de784728dddb"
DENIED = {"error": {"code": 403, "message": "Forbidden"}}
LINK_QUERY = "X-Algorithm=PINATA1&X-Date=1&X-Expires=30&X-Method=GET&X-Signature=5f2a"


def v3_config(server: ScriptedServer, **changes: Any) -> ClientConfig:
    options = {
        name: changes.pop(name)
        for name in ("network", "group", "expires", "upload_url", "spool")
        if name in changes
    }
    fields = {"provider": "pinata", "provider_options": options, **changes}
    return config_for(server, **fields)


def file_row(cid: str = HELLO_CID, **changes: Any) -> dict[str, Any]:
    """A file, as the service describes it."""
    return {
        "id": FILE_ID,
        "name": "hello.txt",
        "cid": cid,
        "size": 5,
        "number_of_files": 1,
        "mime_type": "text/plain",
        "group_id": None,
        "keyvalues": {},
        "created_at": "2024-08-27T14:57:51.485934Z",
        **changes,
    }


def uploaded(cid: str = HELLO_CID, **changes: Any) -> dict[str, Any]:
    return {"data": {**file_row(cid), "vectorized": False, "network": "public", **changes}}


def files(*rows: dict[str, Any], token: str | None = None) -> dict[str, Any]:
    return {"data": {"files": list(rows), "next_page_token": token}}

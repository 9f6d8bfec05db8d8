# WARNING: this file is generated from tests/_async/test_revoke.py
# by scripts/generate_sync.py. Change the original instead.
import pytest

from holdfast.errors import InvalidCIDError, NotFoundError, PermissionDeniedError, ProviderError
from tests.support import HELLO_CID, TOKEN


@pytest.mark.parametrize("status", [200, 202, 204])
def test_revoke_deletes_the_pin_and_returns_true(server, client, status):
    server.reply(status, b"OK" if status == 200 else b"", headers={"Content-Type": "text/plain"})
    assert client.revoke(HELLO_CID) is True
    (request,) = server.requests
    assert (request.method, request.target) == ("DELETE", f"/pinning/unpin/{HELLO_CID}")
    assert request.body == b""
    assert request.headers["authorization"] == f"Bearer {TOKEN}"


def test_revoke_of_a_path_inside_a_cid_is_invalid_cid(server, client):
    with pytest.raises(InvalidCIDError, match=r"^Invalid CID$"):
        client.revoke(f"/ipfs/{HELLO_CID}/a.json")
    assert server.requests == []


def test_revoke_of_what_is_not_pinned_is_the_providers_error(server, client):
    details = f"The current user has not pinned the cid: {HELLO_CID}"
    body = {"error": {"reason": "CURRENT_USER_HAS_NOT_PINNED_CID", "details": details}}
    server.reply(400, body)
    with pytest.raises(ProviderError) as caught:
        client.revoke(HELLO_CID)
    assert str(caught.value) == details
    assert caught.value.status == 400
    assert len(server.requests) == 1


CODE = "CURRENT_USER_HAS_NOT_PINNED_CID"
TEXT = {"Content-Type": "text/plain"}
PAGE = {"Content-Type": "text/html"}


@pytest.mark.parametrize(
    ("reply", "kind", "message"),
    [
        ((400, {"error": {"reason": CODE, "details": "no"}}), NotFoundError, "no"),
        ((400, {"error": {"reason": CODE}}), NotFoundError, CODE),
        ((400, {"error": "has not pinned hash: Q"}), NotFoundError, "has not pinned hash: Q"),
        ((400, b"it is not pinned", TEXT), NotFoundError, "it is not pinned"),
        ((404, {"error": "it is not pinned"}), NotFoundError, "it is not pinned"),
        ((400, {"error": "bad CID"}), ProviderError, "bad CID"),
        ((400, b"<p>not pinned</p>", PAGE), ProviderError, "HTTP error 400"),
        ((400, {"help": CODE}), ProviderError, "HTTP error 400"),
        ((422, {"error": "it is not pinned"}), ProviderError, "it is not pinned"),
        ((403, {"error": "it is not pinned"}), PermissionDeniedError, "it is not pinned"),
    ],
    ids=lambda value: str(value[0]) if isinstance(value, tuple) else "",
)
def test_not_pinned_is_a_not_found_error_whatever_its_status(server, client, reply, kind, message):
    status, body, *headers = reply
    server.reply(status, body, headers=headers[0] if headers else {})
    with pytest.raises(ProviderError) as caught:
        client.revoke(HELLO_CID)
    assert type(caught.value) is kind
    assert (str(caught.value), caught.value.status) == (message, status)

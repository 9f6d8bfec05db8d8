"""A credential that a peer sends back is masked, in each form and at each place of a reply."""

import json
import pickle

import pytest

from holdfast.config.secret import Scrubber, Secret
from tests.support import GATEWAY_TOKEN, TOKEN
from tests.witness import FORMS, assert_clean, forms_of

# What the peer says, with the credential in the place of ECHO.
BODIES = {
    "IpfsHash": '{"IpfsHash": "ECHO"}',
    "error": '{"error": {"details": "bad token ECHO", "reason": "ECHO"}}',
    "rows": '{"rows": [{"id": "ECHO", "ipfs_pin_hash": "ECHO", "ECHO": ["ECHO", {"a": "ECHO"}]}]}',
    "text": "you sent ECHO",
    "half of JSON": '{"IpfsHash": "ECHO',
}
FIELDS = {
    "field": ("X-Echo", "ECHO"),
    "name": ("ECHO", "1"),
    "cookie": ("Set-Cookie", "token=ECHO; Path=/"),
    "location": ("Location", "https://elsewhere.example/?token=ECHO"),
    "host of a location": ("Location", "https://ECHO.example/"),
    "range": ("Content-Range", "bytes ECHO"),
}

in_each_form = pytest.mark.parametrize("form", FORMS)
with_each_token = pytest.mark.parametrize(
    "token", [TOKEN, GATEWAY_TOKEN], ids=["token", "gateway's"]
)


def scrubber_of(token):
    return Scrubber([Secret("another-token-of-ours"), None, Secret(token).prefixed("Bearer ")])


@in_each_form
@with_each_token
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_credential_in_a_body_is_masked(form, token, body):
    data = body.replace("ECHO", FORMS[form](token)).encode()
    seen = scrubber_of(token).data(data).decode()
    assert "********" in seen
    assert_clean(seen, forms=forms_of(token))


@pytest.mark.parametrize("form", [form for form in FORMS if form != "escaped"])  # as in JSON alone
@with_each_token
@pytest.mark.parametrize(("name", "value"), FIELDS.values(), ids=FIELDS)
def test_a_credential_in_a_head_is_masked(form, token, name, value):
    echo = FORMS[form](token)
    fields = [("X-A", "b"), (name.replace("ECHO", echo), value.replace("ECHO", echo)), ("x-a", "c")]
    seen = scrubber_of(token).headers(fields)
    assert seen == {"x-a": "b, c", **({} if name == "ECHO" else {name.lower(): "********"})}


@pytest.mark.parametrize(
    "body",
    [b'{"a": "b"}', b'{"a": "\\u00e9\\/"}', b"100 %", b"%2F%zz", b"IpfsHas", b"\xff\\u"],
)
def test_a_body_without_a_credential_stays_as_it_is(body):
    # "IpfsHas" is a credential too: nothing so short is masked.
    scrubber = Scrubber([Secret(TOKEN), Secret("IpfsHas"), Secret("1")])
    assert scrubber.data(body) == body
    assert scrubber.headers([("A-1", "bytes 1")]) == {"a-1": "bytes 1"}


def test_the_longest_form_is_masked_first():
    token = "aaaaaaaaaaaaaaaa"
    assert Scrubber([Secret(token)]).data(f"<{token}>".encode()) == b"<********>"


def test_a_long_head_is_masked_too():
    fields = [("X-A", "b" * 100_000), ("X-Echo", TOKEN)]
    assert scrubber_of(TOKEN).headers(fields)["x-echo"] == "********"


def test_a_secret_shows_itself_nowhere():
    secret = Secret(TOKEN)
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(secret)
    with pytest.raises(TypeError):
        json.dumps({"token": secret})
    assert secret == TOKEN
    assert secret == Secret(TOKEN) != Secret("another")
    assert secret not in ("another", 5)
    assert {secret: 1}[TOKEN] == 1
    assert f"{secret} {secret!r}" == "******** Secret('********')"

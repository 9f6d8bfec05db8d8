"""A peer that echoes a credential, anywhere in its reply, does not get it into a value of ours.

What is looked at is all that a traceback printer, an error tracker, a log or a hook would show:
each variable of each frame of ours, and what is in it.
"""

import base64
import json
import logging
import pickle
import traceback
from urllib.parse import quote

import pytest

import holdfast
from holdfast import AsyncClient
from holdfast.config.secret import Secret
from holdfast.content.profiles import KUBO_LEGACY_CIDV1
from holdfast.content.unixfs.directories import build_directory
from holdfast.content.unixfs.files import FileImporter
from holdfast.errors import ClientError, ProviderError
from holdfast.testing import Scripted, ScriptedServer
from tests.content import Blocks
from tests.faulty import gateway_of
from tests.support import GATEWAY_TOKEN, HELLO_CID, TOKEN, config_for, pinned, raw_cid

PACKAGE = str(holdfast.__path__[0])
TREE, _ = Blocks.of_file(b"x" * 600_000, KUBO_LEGACY_CIDV1)

CALLS = {
    "store": lambda client: client.store({"a": 1}),
    "send": lambda client: client.send("alice", "hi"),
    "upload": lambda client: client.upload(b"hello" * 1000),
    "revoke": lambda client: client.revoke(HELLO_CID),
    "test_connection": lambda client: client.test_connection(),
    "pins": lambda client: client.pins(),
    "retrieve": lambda client: client.retrieve(HELLO_CID),
    "download": lambda client: client.download(HELLO_CID),
    "download of a tree": lambda client: client.download(str(TREE)),
    "open": lambda client: client.open(str(TREE)),
}
READS = {"retrieve", "download", "download of a tree", "open"}


def escaped(token):
    return "".join(f"\\u{ord(each):04x}" if place % 2 else each for place, each in enumerate(token))


FORMS = {
    "as it is": lambda token: token,
    "quoted": lambda token: "".join(f"%{ord(each):02X}" for each in token),
    "quoted in part": lambda token: token[:5] + f"%{ord(token[5]):02x}" + token[6:],
    "quoted twice": lambda token: token[:5] + quote(f"%{ord(token[5]):02x}") + token[6:],
    "base64": lambda token: base64.b64encode(f"Bearer {token}".encode()).decode(),
    "base64url": lambda token: base64.urlsafe_b64encode(f"x={token}&".encode()).decode(),
    "hex": lambda token: token.encode().hex(),
}
# What the peer says, with the credential in the place of ECHO.
BODIES = {
    "IpfsHash": '{"IpfsHash": "ECHO"}',
    "message": '{"message": "ECHO", "IpfsHash": 5}',
    "error": '{"error": {"details": "bad token ECHO", "reason": "ECHO"}}',
    "rows": '{"rows": [{"id": "ECHO", "ipfs_pin_hash": "ECHO", "ECHO": ["ECHO", {"a": "ECHO"}]}]}',
    "a list": '["ECHO", 1]',
    "text": "you sent ECHO",
    "half of JSON": '{"IpfsHash": "ECHO',
}
HEADS = {
    "field": "X-Echo: ECHO",
    "name": "ECHO: 1",
    "type": "Content-Type: text/ECHO",
    "request id": "X-Request-Id: ECHO",
    "cookie": "Set-Cookie: token=ECHO; Path=/",
    "name of a cookie": "Set-Cookie: ECHO,/;=x\r\nSet-Cookie: \x01ECHO=2",
    "location": "Location: https://elsewhere.example/?token=ECHO",
    "own location": "Location: /ipfs/ECHO",
    "host of a location": "Location: https://ECHO.example/",
    "encoding": "Content-Encoding: ECHO",
    "transfer encoding": "Transfer-Encoding: ECHO",
    "length": "Content-Length: ECHO",
    "range": "Content-Range: bytes ECHO",
    "wait": "Retry-After: ECHO",
    "no field": "ECHO is not a field",
    "two lengths": "Content-Length: 3\r\nContent-Length: ECHO",
    "folded": "X-A: b\r\n ECHO",
}


def reply_with(status, head="X-A: b", body="", *, reason="OK", cut=False):
    data = body.encode("latin-1")
    # Other than the body comes first: what is wrong with it must be seen.
    lines = [f"HTTP/1.1 {status} {reason}", head]
    if "Content-Length" not in head and "Transfer" not in head:
        lines.append(f"Content-Length: {len(data) + 5 * cut}")
    lines += ["Content-Type: text/plain"] if "Content-Type" not in head else []
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + data


class Witness:
    """Makes a call and sees what a user, a log or a hook could see of it."""

    def __init__(self, token):
        self._forms = {form(token) for form in FORMS.values()} | {token.lower(), escaped(token)}
        self._forms.add(base64.b64encode(token.encode()).decode().rstrip("=")[:-2])
        self.events = []
        self.error = None

    async def watch(self, operation, raw, caplog, **changes):
        with ScriptedServer(lambda _: Scripted(raw=raw)) as server, caplog.at_level(logging.DEBUG):
            config = config_for(
                server,
                gateway_token=GATEWAY_TOKEN,
                timeouts={"read": 5, "total": 5},
                on_event=self.events.append,
                **changes,
            )
            async with await AsyncClient.init(config) as client:
                try:
                    result = await CALLS[operation](client)
                    self.check(repr(result))
                except ClientError as error:
                    self.error = error
        self.check_error(self.error)
        self.check(repr(self.events))
        for record in caplog.records:
            self.check(record.getMessage() + repr(vars(record)))
            if record.exc_info:
                self.check("".join(traceback.format_exception(*record.exc_info)))

    def check(self, text):
        found = [form for form in self._forms if form in text or form.lower() in text]
        assert not found, text[:2000]

    def check_error(self, error):
        seen, pending = set(), [error]
        while pending:
            each = pending.pop()
            if each is None or id(each) in seen:
                continue
            seen.add(id(each))
            self.check(str(each) + repr(each) + repr(vars(each)))
            for frame, _ in traceback.walk_tb(each.__traceback__):
                if frame.f_code.co_filename.startswith(PACKAGE):
                    self.check_value(frame.f_locals, set())
            pending += [each.__cause__, each.__context__]
        if error is not None:
            shown = traceback.TracebackException.from_exception(error, capture_locals=True)
            for frame in shown.stack:
                if frame.filename.startswith(PACKAGE):
                    self.check(repr(frame.locals))
            self.check(repr(pickle.dumps(error)))

    def check_value(self, value, seen):
        """Look at `value` and into it; of others' objects, at what they show."""
        if id(value) in seen or isinstance(value, Secret):
            return
        seen.add(id(value))
        if isinstance(value, dict):
            inside = [*value.keys(), *value.values()]
        elif isinstance(value, list | tuple | set | frozenset):
            inside = [*value]
        else:
            self.check(repr(value))
            inside = []
            if type(value).__module__.startswith("holdfast"):
                inside += getattr(value, "__dict__", {}).values()
                slots = [
                    name for kind in type(value).__mro__ for name in vars(kind).get("__slots__", ())
                ]
                inside += [getattr(value, name, None) for name in slots]
        for each in inside:
            self.check_value(each, seen)


def token_for(operation):
    # Each peer knows one of the two.
    return GATEWAY_TOKEN if operation in READS else TOKEN


EVERYWHERE = [
    each
    for place, each in HEADS.items()
    # These are about the framing, and would hide the rest.
    if place not in {"transfer encoding", "length", "two lengths", "no field", "folded"}
]


@pytest.mark.parametrize("operation", CALLS)
@pytest.mark.parametrize("status", [200, 302, 404])
async def test_a_credential_echoed_everywhere_is_not_shown(operation, status, caplog):
    token = token_for(operation)
    body = "[" + ", ".join(each for each in BODIES.values() if each[0] in "{[") + "]"
    for form in (FORMS["as it is"], FORMS["quoted in part"]):
        head = "\r\n".join(EVERYWHERE).replace("ECHO", form(token))
        # No content is expected of a gateway where this is the reply to a read.
        text = "" if operation in READS and status == 200 else body.replace("ECHO", form(token))
        raw = reply_with(status, head, text, reason=token)
        await Witness(token).watch(operation, raw, caplog)


@pytest.mark.parametrize("operation", ["store", "download"])
@pytest.mark.parametrize("place", ["no field", "folded", "name of a cookie", "two lengths"])
async def test_a_credential_in_a_broken_head_is_not_logged(operation, place, caplog):
    token = token_for(operation)
    raw = reply_with(404, HEADS[place].replace("ECHO", token), '{"message": 5}')
    await Witness(token).watch(operation, raw, caplog)


@pytest.mark.parametrize("form", [*FORMS, "escaped"])
async def test_a_credential_in_any_form_in_a_good_reply_is_not_shown(form, caplog):
    echo = {**FORMS, "escaped": escaped}[form](TOKEN)
    for place in ("IpfsHash", "half of JSON"):
        body = BODIES[place].replace("ECHO", echo)
        for cut in (False, True):
            await Witness(TOKEN).watch("store", reply_with(200, body=body, cut=cut), caplog)


@pytest.mark.parametrize("operation", sorted(READS))
async def test_a_credential_echoed_as_content_is_not_shown(operation, caplog):
    for cut in (False, True):
        raw = reply_with(200, body=GATEWAY_TOKEN, cut=cut)
        await Witness(GATEWAY_TOKEN).watch(operation, raw, caplog)


@pytest.mark.parametrize("location", ["/?a=ECHO", "https://ECHO.example/", "//x.example/#ECHO"])
@pytest.mark.parametrize("form", ["as it is", "quoted", "quoted in part", "quoted twice", "hex"])
async def test_a_redirect_to_an_address_with_a_credential_is_not_followed(server, location, form):
    target = location.replace("ECHO", FORMS[form](GATEWAY_TOKEN))
    server.reply(302, headers={"Location": target})
    config = config_for(server, gateway_token=GATEWAY_TOKEN)
    async with await AsyncClient.init(config) as client:
        with pytest.raises(ProviderError) as caught:
            await client.download(HELLO_CID)
    assert str(caught.value) == (
        f"127.0.0.1:{server.port} redirects to a URL that contains a credential; "
        "it was not followed"
    )
    assert len(server.requests) == 1


async def test_content_that_holds_a_credential_is_read_as_it_is(server):
    content = f'{{"backup": "{GATEWAY_TOKEN} {TOKEN}"}}'.encode()
    config = config_for(server, gateway_token=GATEWAY_TOKEN)
    async with await AsyncClient.init(config) as client:
        for _ in range(2):
            server.reply(200, content)
        assert (await client.download(raw_cid(content))).read() == content
        assert await client.retrieve(raw_cid(content)) == json.loads(content)


async def test_a_block_that_holds_a_credential_is_read_as_it_is():
    # That of a directory with a file of such a name.
    content = f"{GATEWAY_TOKEN} {TOKEN}".encode()
    blocks = Blocks()
    importer = FileImporter(KUBO_LEGACY_CIDV1, blocks.__setitem__)
    importer.update(content)
    entries = [(GATEWAY_TOKEN.encode(), importer.finish())]
    named = build_directory(entries, KUBO_LEGACY_CIDV1, blocks.__setitem__).cid
    script = gateway_of(blocks, lambda _: Scripted(body=content))
    with ScriptedServer(script) as server:
        config = config_for(server, gateway_token=GATEWAY_TOKEN)
        async with await AsyncClient.init(config) as client:
            assert (await client.download(f"{named}/{GATEWAY_TOKEN}")).read() == content


async def test_a_short_credential_does_not_spoil_replies(server):
    # "bytes" or "1" stand in many a head: nothing so short is masked there.
    server.reply(200, b"hello")
    server.reply(200, pinned())
    config = config_for(server, gateway_token="1", provider_token="IpfsHas")
    async with await AsyncClient.init(config) as client:
        assert (await client.download(HELLO_CID)).read() == b"hello"
        assert (await client.store("hello")).cid == HELLO_CID


# The same in full: each call, each place, each status, each form.


@pytest.mark.slow
@pytest.mark.parametrize("operation", CALLS)
@pytest.mark.parametrize("place", HEADS)
async def test_a_credential_echoed_in_a_head_is_not_shown(operation, place, caplog):
    token = token_for(operation)
    for status in (200, 206, 302, 404, 429):
        for form in ("as it is", "quoted in part"):
            echo = FORMS[form](token)
            raw = reply_with(status, HEADS[place].replace("ECHO", echo), '{"message": 5}')
            await Witness(token).watch(operation, raw, caplog)


@pytest.mark.slow
@pytest.mark.parametrize("operation", [each for each in CALLS if each not in READS])
@pytest.mark.parametrize("place", BODIES)
async def test_a_credential_echoed_in_a_good_reply_is_not_shown(operation, place, caplog):
    for form in (*FORMS.values(), escaped):
        body = BODIES[place].replace("ECHO", form(TOKEN))
        for cut in (False, True):
            await Witness(TOKEN).watch(operation, reply_with(200, body=body, cut=cut), caplog)


@pytest.mark.slow
@pytest.mark.parametrize("operation", CALLS)
@pytest.mark.parametrize("place", BODIES)
async def test_a_credential_echoed_in_a_failure_is_not_shown(operation, place, caplog):
    token = token_for(operation)
    for form in (*FORMS.values(), escaped):
        body = BODIES[place].replace("ECHO", form(token))
        for status in (302, 404):
            await Witness(token).watch(operation, reply_with(status, body=body), caplog)


@pytest.mark.slow
@pytest.mark.parametrize("operation", CALLS)
async def test_a_credential_echoed_elsewhere_is_not_shown(operation, caplog):
    token = token_for(operation)
    chunked = (
        b"HTTP/1.1 %d OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-A: %b\r\n\r\n"
    )
    for raw in (
        reply_with(200, reason=token),
        reply_with(404, reason=token),
        token.encode(),
        f"HTTP/1.1 {token}\r\n\r\n".encode(),
        f"{token}/1.1 200 OK\r\n\r\n".encode(),
        chunked % (200, token.encode()),
        chunked % (404, token.encode()),
        f"HTTP/1.1 103 Hints\r\nX-A: {token}\r\n\r\n".encode() + reply_with(404),
    ):
        await Witness(token).watch(operation, raw, caplog)

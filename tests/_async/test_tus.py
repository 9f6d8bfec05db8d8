"""Resumable uploads of the provider for v3, in small pieces, with all that may go wrong.

Most of these tests are for the slow run; each of the quick ones stands for several.
"""

import base64
import json
import os
import stat
import time
from dataclasses import replace

import pytest

from holdfast import AsyncClient, compute_cid
from holdfast.config.secret import Secret
from holdfast.disk.unfinished_uploads import UnfinishedUploads
from holdfast.errors import (
    AuthenticationError,
    NetworkError,
    PermissionDeniedError,
    ProviderError,
    RequestTimeoutError,
    UnsupportedError,
    VerificationError,
)
from holdfast.protocol import pinata
from holdfast.protocol.http import Reply
from holdfast.protocol.pinata import account_id
from holdfast.protocol.tus import TusAPI
from holdfast.sources.sources import open_source
from holdfast.testing import Scripted
from holdfast.testing.running_nodes import QUICK
from tests.support import raw_cid
from tests.tus import (
    LARGEST,
    LEGACY,
    PIECE,
    Between,
    RestartingNode,
    broken,
    changed,
    lost,
    metadata_of,
    random_bytes,
    shortened,
    status,
)
from tests.wrapping import PREFIX, PrefixedSource, unwrapped

SIZE = 3 * PIECE + 1000
WHOLE = [(0, PIECE), (PIECE, PIECE), (2 * PIECE, PIECE), (3 * PIECE, 1000)]


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch, tmp_path):
    monkeypatch.setattr("holdfast.protocol.pinata.LARGEST_FORM", LARGEST)
    monkeypatch.setattr(pinata, "PIECE_SIZE", PIECE)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


@pytest.fixture
def between(node):
    between = Between(node)
    with between.server:
        yield between


@pytest.fixture
def config(node, between):
    return node.config.with_options(provider="pinata", pin_api_url=between.server.url)


@pytest.fixture
async def client(config):
    async with AsyncClient.init(config) as client:
        yield client


@pytest.fixture
def file(request, tmp_path):
    path = tmp_path / "large.bin"
    path.write_bytes(random_bytes(SIZE, seed=request.node.nodeid))  # the tests share a node
    return path


@pytest.fixture
def cid(file):
    return compute_cid(file, profile=LEGACY)


def states(file):
    folder = file.parent / "data/holdfast/unfinished-uploads"
    return sorted(folder.glob("*.json")) if folder.exists() else []


class StopError(Exception):
    pass


async def interrupt(client, file, at, **options):
    """Begin an upload that ends when `at` bytes are sent."""

    def stop(done, _):
        if done >= at:
            raise StopError

    with pytest.raises(StopError):
        await client.upload(file, progress=stop, **options)


# What is sent


async def test_a_large_file_is_sent_in_pieces(between, client, file, cid):
    seen = []
    record = await client.upload(file, keyvalues={"n": 1}, progress=lambda *step: seen.append(step))
    assert (record.cid, record.size, record.duplicate) == (cid, SIZE, False)
    assert between.methods == ["POST", "PATCH", "PATCH", "PATCH", "PATCH", "GET"]
    assert between.pieces == WHOLE
    begin, piece, *_ = between.server.requests
    assert begin.target == "/v3/files?X-Upload-Option-Cid-Version=v1"
    assert begin.headers["upload-length"] == str(SIZE)
    assert begin.body == b""
    assert metadata_of(begin) == {
        "filename": "large.bin",
        "filetype": "",
        "network": "public",
        "cid_version": "v1",
        "keyvalues": '{"n":"1"}',
    }
    assert piece.headers["content-type"] == "application/offset+octet-stream"
    assert {request.headers.get("tus-resumable") for request in between.server.requests[:5]} == {
        "1.0.0"
    }
    assert seen == sorted(seen)
    assert (seen[0], seen[-1]) == ((0, SIZE), (SIZE, SIZE))
    assert states(file) == []
    (pin,) = await client.pins(cid=cid)
    assert (pin.cid, pin.name, pin.keyvalues) == (cid, "large.bin", {"n": "1"})
    assert (await client.download(cid)).read() == file.read_bytes()


@pytest.mark.slow
async def test_private_files_that_expire_are_sent_in_pieces_too(config, between, file, cid):
    options = {"network": "private", "expires": 3600}
    async with AsyncClient.init(config, provider_options=options) as client:
        assert (await client.upload(file, name="möwe.bin")).cid == cid
    metadata = metadata_of(between.server.requests[0])
    assert (metadata["filename"], metadata["network"]) == ("möwe.bin", "private")
    assert abs(int(metadata["expires_at"]) - 3600 - time.time()) < 60


async def test_what_is_read_only_once_is_written_to_a_temporary_file_first(
    client, between, file, cid
):
    data = file.read_bytes()
    between.on("PATCH", None, broken)
    record = await client.upload(data[at : at + 1000] for at in range(0, SIZE, 1000))
    assert (record.cid, record.size) == (cid, SIZE)
    assert between.pieces == [WHOLE[0], WHOLE[1], *WHOLE[1:]]
    small = await client.upload(data[at : at + 1000] for at in range(0, 9000, 1000))
    assert (small.cid, small.size) == (raw_cid(data[:9000]), 9000)
    assert between.server.requests[-1].target == "/v3/files"


@pytest.mark.slow
async def test_without_a_spool_what_is_read_only_once_must_be_small(config, file, cid):
    data = file.read_bytes()
    async with AsyncClient.init(config, provider_options={"spool": False}) as client:
        with pytest.raises(UnsupportedError, match="set the option spool"):
            await client.upload(data[at : at + 1000] for at in range(0, SIZE, 1000))
        assert await client.pins(cid=cid) == []
        small = await client.upload(data[at : at + 1000] for at in range(0, 9000, 1000))
        assert small.cid == raw_cid(data[:9000])


# Sources that are wrapped


async def test_a_wrapped_source_continues_with_the_bytes_of_before(client, between, file):
    """A wrapper may send a random name, so that the service does not learn the real one."""
    first = PrefixedSource(open_source(file))
    first.name = "4f3a.bin"
    await interrupt(client, first, PIECE + 1)
    (state,) = states(file)
    assert stat.S_IMODE(state.stat().st_mode) == 0o600
    assert base64.b64encode(first.state(0)).decode() in state.read_text()
    second = PrefixedSource(open_source(file))
    second.name = "9c01.bin"
    record = await client.upload(second, name=None)
    assert between.methods.count("POST") == 1
    assert second.prefix == first.prefix
    content = (await client.download(record.cid)).read()
    assert content.startswith(first.prefix)
    assert unwrapped(content) == file.read_bytes()
    (pin,) = await client.pins(cid=record.cid)
    assert pin.name == "4f3a.bin"
    assert states(file) == []


async def test_the_state_is_saved_before_the_bytes_that_need_it(client, between, file):
    """So that another process can send the same bytes, wherever this one is killed."""
    source = PrefixedSource(open_source(file))
    state = base64.b64encode(source.state(0)).decode()
    seen = []

    def look(request, send):
        (path,) = states(file)
        seen.append((state in path.read_text(), source.asked[-1]))
        return send(request)

    between.on("PATCH", *[look] * 4)
    await client.upload(source)
    ends = [PIECE, 2 * PIECE, 3 * PIECE, SIZE + PREFIX]
    assert seen == [(True, end) for end in ends]


@pytest.mark.slow
async def test_another_wrapper_begins_anew(client, between, file):
    """In what else wrappers may differ: `test_sources.py`."""
    await interrupt(client, PrefixedSource(open_source(file)), PIECE + 1)
    record = await client.upload(PrefixedSource(open_source(file), b"another"))
    assert between.methods.count("POST") == 2
    content = (await client.download(record.cid)).read()
    assert unwrapped(content, b"another") == file.read_bytes()


# Replies that are lost, late or strange


def pending(request, send):
    """The service still computes the CID of the file."""
    row = json.loads(send(request).body)["data"]
    return Scripted(body={"data": {**row, "cid": "pending"}})


def relative(request, send):
    """The address of the upload, without its host."""
    reply = send(request)
    path = reply.headers["location"].partition("/v3/")[2]
    return replace(reply, headers={**reply.headers, "location": f"/v3/{path}"})


def at_the_root():
    """Faults for which all uploads have the address of the root."""
    real = []

    def begin(request, send):
        reply = send(request)
        url, _, path = reply.headers["location"].partition("/v3/")
        real.append(f"/v3/{path}")
        return replace(reply, headers={**reply.headers, "location": f"{url}/"})

    return {
        "POST": [begin],
        "PATCH": [lambda request, send: send(replace(request, target=real[0]))] * 4,
    }


def in_rows(table, *quick):
    """The rows of a table, of which all but the `quick` ones are for the slow run."""
    return [
        pytest.param(row, id=name, marks=() if name in quick else pytest.mark.slow)
        for name, row in table.items()
    ]


LAST = [None, None, None]  # before the last piece
RESENT, AGAIN = [*WHOLE[:2], *WHOLE[1:]], [*WHOLE, *WHOLE]
OTHER = "which is not what was sent"
# fmt: off
SURVIVED = {
    "lost reply": ({"PATCH": [None, lost]}, "bpphppg", WHOLE),
    "broken": ({"PATCH": [None, broken]}, "bpphpppg", RESENT),
    **{f"status {code}": ({"PATCH": [None, status(code)]}, "bpphpppg", RESENT)
       for code in (409, 423, 460, 500, 503)},
    **{f"offset {text!r}": ({"PATCH": [None, changed(upload_offset=text)]}, "bpphppg", WHOLE)
       for text in ("", "x", "-1", str(SIZE + 1), "9" * 30, "0")},
    "taken in part": ({"PATCH": [shortened(100_000), None, shortened(0)]}, "bppphppg",
                      [(0, PIECE), (100_000, PIECE), *[(100_000 + PIECE, PIECE)] * 2,
                       (100_000 + 2 * PIECE, PIECE + 1000 - 100_000)]),
    "locked": ({"PATCH": [status(423)], "HEAD": [status(423)] * 2}, "bphhhppppg",
               [WHOLE[0], *WHOLE]),
    "gone, 404": ({"PATCH": [None, status(404)]}, "bppbppppg", [*WHOLE[:2], *WHOLE]),
    "gone, 410": ({"PATCH": [None, status(410)]}, "bppbppppg", [*WHOLE[:2], *WHOLE]),
    "attempts counted anew": ({"PATCH": [broken, status(500), broken, None] * 3},
                              "b" + 3 * "phphphp" + "pg",
                              [piece for piece in WHOLE[:3] for _ in range(4)] + WHOLE[3:]),
    "lost end": ({"PATCH": [*LAST, lost]}, "bpppphg", WHOLE),
    "lost end, gone": ({"PATCH": [*LAST, lost], "HEAD": [status(404)]}, "bpppphgg", WHOLE),
    "broken end, gone": ({"PATCH": [*LAST, broken], "HEAD": [status(404)]}, "bpppphgggbppppg",
                         AGAIN),
    **{f"CID {text!r}": ({"PATCH": [*LAST, changed(upload_cid=text)], "GET": [pending, pending]},
                         "bppppgggg", WHOLE) for text in ("", "pending")},
    "relative address": ({"POST": [relative]}, "bppppg", WHOLE),
    "address of the root": (at_the_root(), "bppppg", WHOLE),
}
REFUSED = {
    "every upload forgotten": ({"PATCH": [status(404)] * 10}, "loses each upload", "bp" * 4, 1),
    "nothing taken": ({"PATCH": [shortened(0)] * 20}, "accepts no more bytes", "bphphphp", 1),
    "a byte at a time": ({"PATCH": [shortened(1)] * 20}, "accepts no more bytes", "bphphphp", 1),
    "too large": ({"PATCH": [None, status(413)]}, "HTTP error 413", "bpp", 0),
    "type": ({"PATCH": [None, status(415)]}, "HTTP error 415", "bpp", 0),
    "redirect": ({"PATCH": [status(307, {"Location": "/"})]}, "HTTP error 307", "bp", 1),
    "other bytes": ({"PATCH": [*LAST, changed(upload_cid=raw_cid(b"x"))]}, OTHER, "bpppp", 0),
}
# fmt: on


@pytest.mark.parametrize("row", in_rows(SURVIVED, "broken", "taken in part", "lost end"))
async def test_an_upload_survives(client, between, file, cid, row):
    faults, requests, pieces = row
    between.apply(faults)
    assert (await client.upload(file)).cid == cid
    assert between.requests == requests
    assert between.pieces == pieces
    assert states(file) == []


@pytest.mark.slow
async def test_a_lost_end_of_known_content_is_found_by_its_cid(client, between, file, cid):
    await client.upload(file)
    between.apply({"PATCH": [*LAST, lost], "HEAD": [status(404)], "GET": [status(404)]})
    again = await client.upload(file)
    assert (again.cid, again.duplicate) == (cid, True)
    assert between.pieces == [*WHOLE, *WHOLE]


@pytest.mark.parametrize("row", in_rows(REFUSED, "other bytes", "too large"))
async def test_an_upload_fails(client, between, file, row):
    faults, words, requests, saved = row
    between.apply(faults)
    kind = VerificationError if words is OTHER else ProviderError
    with pytest.raises(kind, match=words):
        await client.upload(file)
    assert between.requests == requests
    assert len(states(file)) == saved


# Addresses


@pytest.mark.parametrize(
    "location",
    [
        "{other}/v3/files/a/b",
        "//127.0.0.1:{port}/v3/files/a/b",
        "https://127.0.0.1:{own}/v3/files/a/b",
        "http://localhost:{own}/v3/files/a/b",
        "http://user@127.0.0.1:{own}/v3/files/a/b",
        "http://127.0.0.1:{own}@127.0.0.1:{port}/a/b",
        "http://[::1/a",
        "ftp://127.0.0.1/a",
        "",
    ],
)
def test_an_address_on_another_origin_is_refused(location):
    api = TusAPI("http://127.0.0.1:1234/v3/files", Secret("token-0123456789"))
    address = location.format(other="http://127.0.0.1:99", port=99, own=1234)
    with pytest.raises(ProviderError, match="Location"):
        api.read_location(Reply(201, {"location": address}))


def test_the_query_of_an_address_is_not_shown():
    api = TusAPI("http://127.0.0.1:1234/v3/files", Secret("token-0123456789"))
    location = api.read_location(Reply(201, {"location": "/v3/files/a/b?signature=5f2a"}))
    for address in (location, str(location)):  # saved uploads have plain strings
        request = api.ask(address)
        assert request.url.endswith("?signature=5f2a")
        assert "5f2a" not in repr(request)


async def test_no_request_goes_to_another_origin(client, between, file, cid, other_server):
    between.on("POST", changed(location=f"{other_server.url}/v3/files/a/b"))
    with pytest.raises(ProviderError, match="Location is not at the host"):
        await client.upload(file)
    assert (between.requests, states(file)) == ("b", [])
    await interrupt(client, file, PIECE + 1)
    (path,) = states(file)
    path.write_text(path.read_text().replace(between.server.url + "/v3/files/", other_server.url))
    assert (await client.upload(file)).cid == cid
    assert between.pieces[-4:] == WHOLE
    assert other_server.connections == 0


@pytest.mark.slow
async def test_a_file_that_changes_while_it_is_sent_is_an_error(client, between, file):
    def write(request, send):
        with file.open("r+b") as opened:
            opened.write(b"new")
        return send(request)

    between.on("PATCH", None, write)
    with pytest.raises(OSError, match="was written to while it was read"):
        await client.upload(file)


@pytest.mark.slow
async def test_without_verification_nothing_is_hashed(config, file, between, cid):
    between.on("PATCH", None, None, None, changed(upload_cid=raw_cid(b"other bytes")))
    async with AsyncClient.init(config, verify=False) as client:
        assert (await client.upload(file)).cid == raw_cid(b"other bytes")


# A service that restarts


@pytest.fixture
def restarting(tmp_path):
    with RestartingNode(tmp_path / "store") as node:
        yield node


class Restart:
    """Settings for uploads to a node that is stopped after two pieces; `at_wait` is called then."""

    def __init__(self, node, at_wait=lambda count: None):
        self.node = node
        self.at_wait = at_wait
        self.stop = node.stop
        self.pieces = self.waits = self.requests = 0

    def settings(self, **changes):
        return {
            "provider": "pinata",
            "provider_token": self.node.token,
            "pin_api_url": self.node.url,
            "gateway_url": f"{self.node.url}/ipfs",
            "retries": QUICK,
            "on_event": self.hear,
            **changes,
        }

    def hear(self, event):
        self.requests += event.kind == "request"
        if event.kind == "request" and event.status == 204:
            self.pieces += 1
            if self.pieces == 2:
                self.stop()
        if event.kind == "retry":
            self.waits += 1
            self.at_wait(self.waits)


async def test_a_node_that_restarts_is_waited_for(restarting, file, cid):
    """It is away for longer than the usual retries, and the caller does nothing."""

    def start(count):
        if count == 3 * QUICK.attempts:
            restarting.start()

    restart = Restart(restarting, start)
    async with AsyncClient.init(restart.settings()) as client:
        assert (await client.upload(file)).cid == cid
    assert restart.waits == 3 * QUICK.attempts
    assert restart.pieces == 4, "a piece was sent twice"
    assert states(file) == []


async def test_a_node_that_does_not_come_back_is_the_usual_error(
    restarting, file, cid, monkeypatch
):
    monkeypatch.setattr("holdfast._async.providers.large_upload.RESTART_SECONDS", 0.5)
    restart = Restart(restarting)
    async with AsyncClient.init(restart.settings()) as client:
        with pytest.raises(NetworkError, match="cannot connect to 127") as caught:
            await client.upload(file)
        assert any("to resume" in note for note in caught.value.__notes__)
        assert restart.waits > QUICK.attempts
        assert len(states(file)) == 1
        # Other calls do not wait, and neither does an upload that has sent nothing yet.
        for call in (client.pins, client.test_connection, lambda: client.upload(file)):
            restart.requests = 0
            with pytest.raises(NetworkError):
                await call()
            assert restart.requests == QUICK.attempts
        restarting.start()
        assert (await client.upload(file)).cid == cid


async def test_an_upload_that_waits_for_a_node_can_be_interrupted(restarting, file):
    class Interrupted(BaseException):
        """As Ctrl-C: not an `Exception`."""

    def interrupt(count):
        if count == 2 * QUICK.attempts:
            raise Interrupted

    restart = Restart(restarting, interrupt)
    async with AsyncClient.init(restart.settings()) as client:
        with pytest.raises(Interrupted) as caught:
            await client.upload(file)
    assert any("to resume" in note for note in caught.value.__notes__)
    assert restart.waits == 2 * QUICK.attempts
    assert len(states(file)) == 1


async def test_a_node_that_accepts_no_connection_in_time_is_not_waited_for(restarting, file):
    """A time-out is what the user has set, and ends the upload after the usual retries."""
    restart = Restart(restarting)
    restart.stop = restarting.ignore_callers
    settings = restart.settings(timeouts={"connect": 0.2}, retries=replace(QUICK, attempts=2))
    async with AsyncClient.init(settings) as client:
        with pytest.raises(RequestTimeoutError):
            await client.upload(file)
    assert restart.waits <= 2


# Later calls


EXPIRED = changed(upload_expires="Mon, 16 Nov 2020 00:00:00 GMT")
CONTINUED, ANEW = [*WHOLE[:3], *WHOLE[2:]], [*WHOLE[:2], *WHOLE]
# fmt: off
LATER = {
    "key expired": ({"PATCH": [None, None, status(401)]}, {}, CONTINUED),
    "network down": ({"PATCH": [None, None, broken], "HEAD": [broken] * 4}, {}, CONTINUED),
    **{f"gone, {name}": ({"PATCH": [None, status(401)]}, {"HEAD": [fault]}, ANEW)
       for name, fault in {
           "404": status(404), "410": status(410), "403": status(403),
           "too far": changed(upload_offset=str(SIZE + 1)),
           "another size": changed(upload_length="5"),
           "no offset": changed(without=("upload-offset",)),
       }.items()},
    "time over": ({"PATCH": [EXPIRED, status(401)]}, {}, ANEW),
}
# fmt: on


@pytest.mark.parametrize("row", in_rows(LATER, "key expired", "gone, 404"))
async def test_a_later_call_continues_or_begins_anew(client, between, file, cid, row):
    before, later, pieces = row
    error = NetworkError if "HEAD" in before else AuthenticationError
    between.apply(before)
    with pytest.raises(error) as caught:
        await client.upload(file)
    assert any("upload the same file again to resume" in note for note in caught.value.__notes__)
    assert len(states(file)) == 1
    between.apply(later)
    assert (await client.upload(file)).cid == cid
    assert between.pieces == pieces
    assert states(file) == []


@pytest.mark.slow
async def test_a_key_that_may_not_continue_or_begin_keeps_the_state(client, between, file, cid):
    between.on("PATCH", None, None, status(401))
    with pytest.raises(AuthenticationError):
        await client.upload(file)
    for code, error in ((401, AuthenticationError), (403, PermissionDeniedError)):
        between.apply({"HEAD": [status(code)], "POST": [status(code)] * (code == 403)})
        with pytest.raises(error):
            await client.upload(file)
    assert (await client.upload(file)).cid == cid
    assert between.pieces == CONTINUED


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}\n", '{"kind":"holdfast upload 2"}\n', "\x00", '{"kind":"holdfast upload 1"}\n'],
)
async def test_a_damaged_state_is_not_used(client, between, file, cid, text):
    await interrupt(client, file, PIECE + 1)
    (path,) = states(file)
    path.write_text(text)
    assert (await client.upload(file)).cid == cid
    assert between.pieces[-4:] == WHOLE


async def test_an_interrupted_upload_continues(client, config, between, file, cid):
    await interrupt(client, file, 2 * PIECE + 1)
    (path,) = states(file)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    saved = json.loads(path.read_text())
    assert saved["source"]["path"] == str(file)
    assert saved["offset"] == 2 * PIECE
    assert config.provider_token.reveal() not in path.read_text()
    seen, events = [], []
    async with AsyncClient.init(config, on_event=events.append) as later:
        record = await later.upload(file, progress=lambda done, _: seen.append(done))
    assert record.cid == cid
    # The node has some of the piece that was interrupted.
    at = between.pieces[3][0]
    assert 2 * PIECE <= at <= 3 * PIECE
    assert [event.position for event in events if event.kind == "resume"] == [at]
    assert seen[0] == at
    assert sum(size for _, size in between.pieces) <= SIZE + PIECE
    assert states(file) == []


async def test_a_file_that_has_changed_begins_anew(client, between, file):
    await interrupt(client, file, PIECE + 1)
    before = file.stat()
    data = bytearray(file.read_bytes())
    data[5] ^= 1
    with file.open("r+b") as opened:
        opened.write(data)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    record = await client.upload(file)
    assert record.cid == compute_cid(bytes(data), profile=LEGACY)
    assert between.pieces[-4:] == WHOLE
    assert "HEAD" not in between.methods
    assert states(file) == []


@pytest.mark.slow
async def test_other_metadata_and_another_account_are_another_upload(
    client, config, between, file, cid
):
    await interrupt(client, file, PIECE + 1)
    async with AsyncClient.init(config, provider_token="other-token-0123456789") as other:
        with pytest.raises(AuthenticationError):
            await other.upload(file)
    assert between.methods[-1] == "POST"
    assert len(states(file)) == 1
    await interrupt(client, file, PIECE + 1, name="other")
    assert len(states(file)) == 2
    assert (await client.upload(file, name="other")).cid == cid
    (path,) = states(file)
    assert json.loads(path.read_text())["name"] == "large.bin"


def test_a_new_key_of_the_same_user_is_the_same_account():
    """A key of the service has the id of its user in it."""

    def account_of(user, number):
        claims = {"userInformation": {"id": user}, "number": number}
        payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
        return account_id(Secret(f"eyJhbGciOiJIUzI1NiJ9.{payload}.c2lnbmF0dXJl")).reveal()

    assert account_of("alice", 1) == account_of("alice", 2) == "alice"
    assert account_of("bob", 1) == "bob"


async def test_an_upload_that_another_call_sends_is_sent_apart(client, between, file, cid):
    await interrupt(client, file, PIECE + 1)
    uploads = UnfinishedUploads()
    ((key, _),) = uploads.listed()
    with uploads.locked(key) as saved:
        assert saved is not None
        assert uploads.is_busy(key)
        assert not uploads.forget(key)
        assert (await client.upload(file)).cid == cid
        assert between.pieces[-4:] == WHOLE
    assert len(states(file)) == 1
    assert (await client.upload(file)).cid == cid
    assert states(file) == []


@pytest.mark.slow
async def test_old_and_strange_states_are_swept(client, file, cid):
    await interrupt(client, file, PIECE + 1)
    (path,) = states(file)
    other = path.with_name(f"{'0' * 40}.json")
    other.write_text("not JSON")
    empty = path.with_name(f"{'1' * 40}.json")  # of a process that was killed early
    empty.write_text("")
    note = path.with_name("note.txt")
    note.write_text("mine")
    week = time.time() - 8 * 24 * 3600
    for old in (path, other, empty, note):
        os.utime(old, (week, week))
    assert UnfinishedUploads().listed() == []
    assert [left.name for left in path.parent.iterdir()] == ["note.txt"]


DAMAGED = {
    "deep": lambda path: path.write_text("[" * 300_000),
    "a link": lambda path: path.symlink_to("/etc/hostname"),
    "a pipe": os.mkfifo,
    "a folder": lambda path: path.mkdir(),
}


@pytest.mark.parametrize("damage", DAMAGED)
async def test_a_damaged_file_does_not_stop_other_uploads(client, between, file, cid, damage):
    await interrupt(client, file, PIECE + 1)
    (path,) = states(file)
    DAMAGED[damage](path.with_name(f"{'0' * 40}.json"))
    uploads = UnfinishedUploads()
    keys = [key for key, _ in uploads.listed()]
    assert path.stem in keys
    assert [uploads.is_busy(key) for key in keys if key == path.stem] == [False]
    assert all(isinstance(uploads.is_busy(key), bool) for key in keys)
    assert (await client.upload(file)).cid == cid
    assert between.pieces[2][0] >= PIECE, "it did not continue"


@pytest.mark.slow
async def test_no_damaged_state_is_listed(client, file):
    await interrupt(client, file, PIECE + 1)
    (path,) = states(file)
    whole = json.loads(path.read_text())
    for name in whole:
        for wrong in (None, "x", [], {}, -1, float("nan"), 1e300, True):
            path.write_text(json.dumps({**whole, name: wrong}, separators=(",", ":")) + "\n")
            for _, state in UnfinishedUploads().listed():
                assert isinstance((state.source or {}).get("path"), str | None)
                assert round(state.created * 1000) >= 0
                assert state.name + state.endpoint + state.location
                assert state.offset + state.size + round(state.expires or 0) >= 0


@pytest.mark.slow
async def test_a_link_in_place_of_the_folder_is_not_followed(client, file, cid, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    data = tmp_path / "data/holdfast"
    data.mkdir(parents=True)
    (data / "unfinished-uploads").symlink_to(elsewhere)
    await interrupt(client, file, PIECE + 1)
    assert list(elsewhere.iterdir()) == []
    assert (await client.upload(file)).cid == cid

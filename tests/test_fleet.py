"""The fleet itself: every fault that the tests of copies rely on is seen to happen."""

import socket
import time

import pytest
import urllib3

from holdfast import Client
from holdfast.content.cid import CID
from holdfast.errors import ClientError, NotFoundError, VerificationError
from holdfast.testing import Scripted, ScriptedServer
from tests import fleet as faults
from tests.fleet import Proxy, running_fleet
from tests.support import raw_cid, wait_until

BLOCK = b"a block of content"
NEW = b"content of a fault: "


@pytest.fixture
def proxy():
    """A proxy before a server that has one block, and pins whatever is sent to it."""

    def reply(request):
        if request.method == "POST":
            return Scripted(body={"IpfsHash": raw_cid(request.body)})
        is_cached = request.headers.get("cache-control") == "only-if-cached"
        return Scripted(body=BLOCK, headers={"x-cached-only": str(is_cached)})

    with ScriptedServer(reply) as server, Proxy(server.url) as proxy:
        yield proxy


def ask(proxy, method="GET", path="/ipfs/bafkqaaa", **more):
    return urllib3.request(method, proxy.url + path, retries=False, **more)


def test_a_proxy_without_a_fault_forwards(proxy):
    assert ask(proxy).data == BLOCK
    assert proxy.seen == [("GET", "/ipfs/bafkqaaa")]
    assert proxy.requests == []


def test_replies_are_delayed(proxy):
    proxy.fault = faults.delay(0.2)
    start = time.monotonic()
    assert ask(proxy).data == BLOCK
    assert time.monotonic() - start >= 0.2


@pytest.mark.parametrize("fault", [faults.cut, faults.hang_up])
def test_replies_break_off(proxy, fault):
    proxy.fault = fault
    with pytest.raises(urllib3.exceptions.HTTPError):
        ask(proxy)


def test_replies_drip(proxy):
    proxy.fault = faults.drip
    with socket.create_connection(("127.0.0.1", proxy.port)) as caller:
        caller.sendall(b"GET /ipfs/bafkqaaa HTTP/1.1\r\n\r\n")
        start = time.monotonic()
        assert [caller.recv(1) for _ in range(4)] == [b"H", b"T", b"T", b"P"]
        assert time.monotonic() - start > 0.15  # without a drip, all is there at once


def test_content_is_gone_but_pins_can_be_made(proxy):
    proxy.fault = faults.empty
    assert ask(proxy).status == 404
    assert ask(proxy, headers={"Cache-Control": "only-if-cached"}).status == 412
    assert ask(proxy, "POST", "/api/v0/block/get").status == 500
    assert ask(proxy, "POST", "/pinning/pinFileToIPFS", body=NEW).json() == {
        "IpfsHash": raw_cid(NEW)
    }


def test_wrong_bytes_come_whether_there_is_content_or_not(proxy):
    proxy.fault = faults.wrong_bytes
    reply = ask(proxy)
    assert (reply.status, len(reply.data)) == (200, len(BLOCK))
    assert reply.data != BLOCK


def test_new_content_gets_another_cid(proxy):
    proxy.fault = faults.other_cid
    reply = ask(proxy, "POST", "/pinning/pinFileToIPFS", body=NEW)
    assert reply.json() == {"IpfsHash": faults.OTHER_CID}
    assert ask(proxy).data == BLOCK


def test_cache_control_is_dropped(proxy):
    headers = {"Cache-Control": "only-if-cached"}
    assert ask(proxy, headers=headers).headers["x-cached-only"] == "True"
    proxy.fault = faults.without_cache_control
    assert ask(proxy, headers=headers).headers["x-cached-only"] == "False"


def test_a_member_that_is_down_hangs_up():
    with ScriptedServer() as server, Proxy(server.url) as proxy:
        server.close()
        with pytest.raises(urllib3.exceptions.HTTPError):
            ask(proxy)


# The real members

NAMES = list(faults.KINDS)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    with running_fleet(tmp_path_factory.mktemp("fleet")) as fleet:
        yield fleet


def write(fleet, name, data):
    """Store a file at a member through its client; return its CID."""
    with Client.init(fleet[name].config()) as client:
        if name != "psa":
            return client.upload(data).cid
    cid = write(fleet, "kubo-a", data)
    with Client.init(fleet[name].config()) as client:
        client.pin(cid, wait=30)
    return cid


def read(fleet, name, cid):
    with Client.init(fleet[name].config()) as client:
        return client.download(cid).read()


def content(case, name):
    return f"{case} at {name}".encode() * 40_000  # several blocks


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", NAMES)
class TestEveryMember:
    def test_keeps_what_it_is_sent(self, fleet, name):
        data = content("kept", name)
        cid = write(fleet, name, data)
        member = fleet[name]
        wait_until(lambda: member.has(cid))
        assert member.name in fleet.sites_with(cid)
        assert cid in member.pins()
        assert read(fleet, name, cid) == data
        assert not member.has(raw_cid(b"what nobody has"))

    def test_has_all_after_a_kill(self, fleet, name):
        data = content("killed", name)
        cid = write(fleet, name, data)
        member = fleet[name]
        wait_until(lambda: member.has(cid))
        member.kill()
        with pytest.raises(ClientError):
            read(fleet, name, cid)
        member.start()
        assert member.has(cid)
        assert read(fleet, name, cid) == data

    def test_has_pins_but_no_blocks_when_it_is_emptied(self, fleet, name):
        data = content("emptied", name)
        cid = write(fleet, name, data)
        member = fleet[name]
        wait_until(lambda: cid in member.pins())
        member.empty()
        assert not member.has(cid)
        assert cid in member.pins()
        with pytest.raises(ClientError):
            read(fleet, name, cid)
        again = content("after it was emptied", name)
        assert read(fleet, name, write(fleet, name, again)) == again

    def test_takes_nothing_while_its_disk_is_full(self, fleet, name):
        data = content("full", name) * 5
        member = fleet[name]
        member.fill()
        try:
            with pytest.raises(ClientError):
                write(fleet, name, data)
        finally:
            member.make_room()
        cid = write(fleet, name, data)
        wait_until(lambda: member.has(cid))

    def test_claims_all_and_has_nothing(self, fleet, name):
        cid = raw_cid(b"claimed by %s" % name.encode())
        member = fleet[name]
        with member.faulty(faults.claim_all), Client.init(member.config()) as client:
            assert [pin.cid for pin in client.pins(cid=cid)] == [cid]
            with pytest.raises(NotFoundError):
                client.download(cid)
        with Client.init(member.config()) as client:
            assert client.pins(cid=cid) == []

    def test_returns_wrong_bytes(self, fleet, name):
        cid = write(fleet, name, content("lied about", name))
        member = fleet[name]
        wait_until(lambda: member.has(cid))
        with member.faulty(faults.wrong_bytes), pytest.raises(VerificationError):
            read(fleet, name, cid)

    def test_returns_another_cid(self, fleet, name):
        member = fleet[name]
        data = content("another CID", name)
        with member.faulty(faults.other_cid):
            try:
                cid = write(fleet, name, data)
            except ClientError:
                return  # most providers of ours notice it
        assert CID.parse(cid) == CID.parse(faults.OTHER_CID)

    @pytest.mark.parametrize("fault", [faults.hang_up, faults.cut, faults.drip, faults.delay(10)])
    def test_does_not_answer_in_time(self, fleet, name, fault):
        member = fleet[name]
        timeouts = {"total": 2}
        with member.faulty(fault), Client.init(member.config(timeouts=timeouts)) as client:
            start = time.monotonic()
            with pytest.raises(ClientError):
                client.pins(cid=raw_cid(b"x"))
            assert time.monotonic() - start < 30

# WARNING: this file is generated from tests/_async/test_copies_avoid.py
# by scripts/generate_sync.py. Change the original instead.
"""How often the members are asked: by writes while one is down, and by health."""

import threading
from collections import Counter
from functools import partial

import pytest

from holdfast import Blob, Client
from holdfast._sync.proving import WELL_KNOWN
from holdfast.providers import CopiesProvider
from holdfast.records import Verdict, now_ms
from holdfast.testing import Scripted, ScriptedServer
from tests._sync.parallel import in_parallel
from tests.fleet import Proxy
from tests.support import config_for


def test_a_member_that_was_down_from_the_start_is_not_asked_by_every_write(tmp_path):
    with ScriptedServer(lambda _: Scripted(hang_up=True)) as server:
        with (
            Client.init(config_for(server)) as down,
            Client.init(path=tmp_path / "one") as one,
            Client.init(path=tmp_path / "two") as two,
        ):
            sites = ["down", "one", "two"]
            provider = CopiesProvider([down, one, two], sites=sites, path=tmp_path / "ledger")
            with Client(provider) as client:
                client.store(["first"])
                asked = len(server.requests)
                assert asked > 0
                for number in range(3):
                    client.store([number])
                assert len(server.requests) == asked
                places = [set(pin.peers) - {"pinning"} for pin in client.pins()]
                assert places == [{"local", "local-2"}] * 4


def test_the_first_of_many_writes_tests_the_members(empty_node, tmp_path):
    with Proxy(empty_node.api_url) as proxy:
        config = empty_node.config.with_options(
            pin_api_url=proxy.url, gateway_url=f"{proxy.url}/ipfs"
        )
        with (
            Client.init(config) as node,
            Client.init(path=tmp_path / "disk") as disk,
        ):
            copies = CopiesProvider([node, disk], sites=["a", "b"], path=tmp_path / "ledger")
            client = Client(copies)
            records = in_parallel(partial(client.store, [number]) for number in range(20))
            assert len({record.cid for record in records}) == 20
            copies.close()
        seen = Counter(target for _, target in proxy.seen)
        assert [seen[f"/ipfs/{cid}?format=raw"] for cid in WELL_KNOWN] == [1, 1]
        assert seen["/pinning/pinFileToIPFS"] == 20 + 3  # JSON, a file and a folder


def test_a_member_that_gets_files_gets_their_media_type(empty_node, tmp_path):
    with (
        Client.init(empty_node.config) as node,
        Client.init(path=tmp_path / "disk") as disk,
    ):
        copies = CopiesProvider([node, disk], sites=["a", "b"], path=tmp_path / "ledger")
        record = Client(copies).upload(Blob(b"pixels", type="image/png"), name="tides")
        assert (node.download(record.cid)).type == "image/png"
        copies.close()


def test_health_tests_a_member_once_and_asks_for_each_block_once(empty_node, tmp_path):
    with Proxy(empty_node.api_url) as proxy:
        config = empty_node.config.with_options(
            pin_api_url=proxy.url, gateway_url=f"{proxy.url}/ipfs"
        )
        with (
            Client.init(config) as node,
            Client.init(path=tmp_path / "disk") as disk,
        ):
            for is_new in (True, False):
                provider = CopiesProvider(
                    [node, disk], names=["node", "disk"], sites=["a", "b"], path=tmp_path / "ledger"
                )
                with Client(provider) as client:
                    if is_new:
                        cids = [(client.store([number])).cid for number in range(12)]
                        provider.ledger.note_verdict("node", "witness", None)
                        continue
                    proxy.seen.clear()
                    reports = [report for report in client.health()]
                    seen = Counter(target for _, target in proxy.seen)
        assert [report.proven for report in reports] == [("node", "disk")] * 12
        blocks = [f"/ipfs/{cid}?format=raw" for cid in (*WELL_KNOWN, *cids)]
        assert {block: seen[block] for block in blocks} == dict.fromkeys(blocks, 1)
        lists = [target for target in seen if target.startswith("/data/pinList")]
        assert len([target for target in lists if "cid=" not in target]) == 1


def test_the_first_write_does_not_wait_for_a_member_that_hangs(tmp_path):
    """Neither does the next one of another process, which finds nothing noted about it."""
    silent, answers = threading.Event(), []

    def answer(_):
        answers.append(silent.wait(15))
        return Scripted(status=500)

    with ScriptedServer(answer) as server:
        limits = {"connect": 60, "read": 60, "write": 60, "total": 60}
        with (
            Client.init(config_for(server, timeouts=limits)) as hanging,
            Client.init(path=tmp_path / "one") as one,
            Client.init(path=tmp_path / "two") as two,
        ):
            sites = ["a", "b", "c"]
            for number in range(2):
                provider = CopiesProvider(
                    [hanging, one, two], sites=sites, path=tmp_path / "ledger", patience=0.5
                )
                with Client(provider) as client:
                    cid = (client.store([number])).cid
                    (pin,) = client.pins(cid=cid)
                    assert [pin.peers[name] for name in ("local", "local-2")] == ["proven"] * 2
            assert server.requests
            assert answers == []
            silent.set()


def test_a_member_with_a_wrong_token_is_not_asked_by_every_write(tmp_path):
    with ScriptedServer(lambda _: Scripted(status=401, body={"error": "no"})) as server:
        with (
            Client.init(config_for(server)) as refusing,
            Client.init(path=tmp_path / "one") as one,
            Client.init(path=tmp_path / "two") as two,
        ):
            members = [refusing, one, two]
            for is_new in (True, False):
                provider = CopiesProvider(members, sites=["a", "b", "c"], path=tmp_path / "ledger")
                with Client(provider) as client:
                    client.store(["first", is_new])
                    asked = len(server.requests)
                    assert asked > 0
                    client.store(["second", is_new])
                    assert len(server.requests) == asked
                    for kind in ("witness", "layout"):  # as if the token was good before
                        verdict = Verdict(is_good=True, since=now_ms())
                        provider.ledger.note_verdict("pinning", kind, verdict)


@pytest.mark.parametrize("status", [200, 404, 500])
def test_a_key_in_the_address_of_a_witness_is_not_written_to_the_ledger(tmp_path, status):
    key = "key-0123456789"

    def answer(request):
        is_block = key in request.target
        return Scripted(status=status, body=b"?") if is_block else Scripted(body={"rows": []})

    with ScriptedServer(answer) as server:
        options = {"witness": f"{server.url}/{key}/ipfs", "gateway_url": "https://example.com"}
        with (
            Client.init(config_for(server, **options)) as service,
            Client.init(path=tmp_path / "disk") as disk,
        ):
            copies = CopiesProvider([service, disk], sites=["a", "b"], path=tmp_path / "ledger")
            with Client(copies) as client:
                client.store([1, 2, 3])
                assert [report for report in client.health()]
                verdict = copies.ledger.find_verdict("pinning", "witness")
                expected = {200: False, 404: True, 500: None}[status]
                assert (verdict and verdict.is_good) is expected
                files = [path for path in (tmp_path / "ledger").rglob("*") if path.is_file()]
                assert not [path for path in files if key.encode() in path.read_bytes()]
        assert any(key in request.target for request in server.requests)

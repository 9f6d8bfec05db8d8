"""Health of copies: lists that contradict the ledger, samples, doubts, drills and foreign pins."""

import os

import pytest

from holdfast import AsyncClient
from holdfast._async import health as health_run
from holdfast._async.reads.member_reader import AsyncMemberBlocks
from holdfast.content.cid import CID
from holdfast.errors import ConfigError, NetworkError, NotFoundError
from holdfast.providers import AsyncCopiesProvider
from holdfast.testing import running_node
from tests._async.test_copies import CID_OF_LIST, Fleet, peers_of, small_store


@pytest.fixture
async def fleet(memory_folder):
    fleet = Fleet(memory_folder)
    yield fleet
    await fleet.aclose()


async def health(client, **options):
    return [report async for report in client.health(**options)]


async def test_a_pin_that_a_member_no_longer_lists_is_missing_there_though_its_blocks_are(fleet):
    client = fleet.client(need=2)
    await client.store([1, 2, 3])
    fleet.members[1].repository.unpin(CID.parse(CID_OF_LIST))
    assert fleet.members[1].repository.has(CID.parse(CID_OF_LIST))
    (report,) = await health(client)
    assert (report.proven, report.missing) == (("a",), ("b",))
    (report,) = await health(client, fix=True)
    assert (report.proven, report.missing) == (("a", "b"), ())
    assert fleet.members[1].cids == {CID_OF_LIST}


async def test_only_at_counts_no_member_that_has_unpinned_it(fleet):
    client = fleet.client(need=1)
    await client.store([1, 2, 3])
    fleet.members[1].repository.unpin(CID.parse(CID_OF_LIST))
    with pytest.raises(ConfigError, match="0 other sites are proven"):
        await client.revoke(CID_OF_LIST, only_at="a")


async def test_a_sample_asks_for_some_pins_and_the_others_count_by_their_last_proof(fleet):
    client = fleet.client(need=2)
    for number in range(8):
        await client.store({"number": number})
    fleet.members[0].lose_all()
    reports = await health(client, sample="3/4")  # the blocks of a fourth of them, by their hash
    lost = [report for report in reports if report.missing == ("a",)]
    assert len(reports) == 8
    assert len(lost) < 8
    seen = set()
    for part in range(1, 5):
        seen |= {
            report.cid for report in await health(client, sample=f"{part}/4") if report.missing
        }
    assert len(seen) == 8


async def test_a_pin_without_a_block_in_the_sample_keeps_its_last_proof(fleet):
    client = fleet.client(need=2)
    for number in range(8):
        await client.store({"number": number})
    for part in range(1, 4):
        reports = await health(client, sample=f"{part}/3", fix=True)
        assert [report.proven for report in reports] == [("a", "b")] * 8
    assert fleet.members[2].cids == set()


async def test_a_member_that_lacks_one_block_is_asked_for_all_that_it_lists_if_it_is_mended(fleet):
    client = fleet.client(need=2)
    for number in range(8):
        await client.store({"number": number})
    fleet.members[0].lose_all()
    parts = [f"{part}/4" for part in range(1, 5)]
    losses = {
        part: [report for report in await health(client, sample=part) if report.missing]
        for part in parts
    }
    part = next(part for part in parts if 0 < len(losses[part]) < 8)
    reports = await health(client, sample=part, fix=True)
    assert all(report.proven == ("a", "b") for report in reports)
    assert all(fleet.members[0].repository.has(CID.parse(report.cid)) for report in reports)


async def test_a_member_that_is_down_stands_for_no_copy_that_it_never_had(fleet):
    client = fleet.client(need=1)
    await client.store([1, 2, 3])
    fleet.members[1].lose_all()
    fleet.members[2].fault = "silent"
    (report,) = await health(client, fix=True)
    assert report.proven == ("a", "b")
    fleet.members[1].fault = "silent"  # it had a copy, and has its grace
    (report,) = await health(client, fix=True)
    assert (report.proven, report.claimed) == (("a",), ("b",))


async def test_all_tombstones_are_finished_however_many_wait_for_a_member(fleet, monkeypatch):
    monkeypatch.setattr(health_run, "TOMBSTONES", 2)
    client = fleet.client(need=2)
    cids = [(await client.store([number])).cid for number in range(7)]
    for member in fleet.members[:2]:
        member.fault = "silent"
    for cid in cids:
        await client.revoke(cid)
    fleet.members[0].fault = ""
    other = fleet.client(need=1)
    assert await health(other) == []
    assert (fleet.members[0].cids, fleet.members[1].cids) == (set(), set(cids))
    calls = fleet.members[1].state["calls"].count("unpin")
    fleet.members[1].fault = ""
    assert await health(fleet.client(need=1)) == []
    assert fleet.members[1].cids == set()
    assert calls == len(cids) + 1  # it was avoided by the second client after one of them


async def test_a_name_that_a_member_missed_is_set_by_the_next_run(fleet):
    client = fleet.client(need=2)
    await client.store([1, 2, 3], name="old")
    fleet.members[1].fault = "down"
    await client.update(CID_OF_LIST, name="new", keyvalues={"year": 2026})
    fleet.members[1].fault = ""
    await health(client, fix=True)
    (pin,) = fleet.members[1].repository.pins()
    assert (pin.name, pin.keyvalues) == ("new", {"year": 2026})


async def test_content_of_a_crash_after_its_proof_leaves_the_small_store(fleet):
    client = fleet.client(need=2)
    await client.store([1, 2, 3])
    client.provider._repository.add(b"[1,2,3]", client.provider.profile)
    assert small_store(client) == [CID_OF_LIST]
    await health(client, fix=True)
    assert small_store(client) == []


async def test_foreign_pins_are_shown_with_their_member_and_taken_in_on_request(fleet):
    client = fleet.client(need=2)
    await client.store([1, 2, 3])
    theirs = await AsyncClient(fleet.members[0]).store({"theirs": True}, name="theirs")
    foreign = [pin async for pin in client.provider.foreign_pins()]
    assert [(pin.cid, pin.peers) for pin in foreign] == [(theirs.cid, {"a": "foreign"})]
    await health(client, adopt=True)
    assert await peers_of(client, theirs.cid) == {"a": "proven"}
    assert [pin async for pin in client.provider.foreign_pins()] == []


async def test_a_lost_ledger_is_rebuilt_from_the_members(fleet):
    client = fleet.client(need=2)
    await client.store([1, 2, 3], name="tides", keyvalues={"year": 2026})
    other = fleet.client(need=2, path=fleet.folder / "another")
    (report,) = await health(other, adopt=True)
    assert (report.name, report.proven) == ("tides", ("a", "b"))
    assert (await other.pins())[0].keyvalues == {"year": 2026}


async def test_a_drill_reads_from_the_other_members_alone(fleet):
    client = fleet.client(need=1)
    await client.store([1, 2, 3], name="tides")
    (report,) = await health(AsyncClient(client.provider.without("a")))
    assert (report.name, report.proven) == ("tides", ("b",))
    fleet.members[1].lose_all()
    (report,) = await health(AsyncClient(client.provider.without("a")))
    assert (report.proven, report.missing) == ((), ("b",))
    with pytest.raises(ConfigError, match="'x' is not a member: the members are a, b, c"):
        client.provider.without("x")


async def test_progress_counts_pins(fleet):
    client = fleet.client(need=2)
    for number in range(3):
        await client.store([number])
    done = []
    await health(client, progress=lambda *counts: done.append(counts))
    assert done == [(3, 3)]
    with pytest.raises(ValueError, match="is not a sample"):
        client.health(sample="lots")


async def test_a_member_that_only_fetches_by_cid_gets_its_copy_from_another_one(
    memory_folder, empty_node
):
    """Nothing can be sent to it: a write waits until the other one has it."""
    sites = {"names": ["older", "psa"], "sites": ["cellar", "attic"], "path": memory_folder}
    with running_node(gateways=(empty_node.gateway_url,)) as node:
        config = node.config.with_options(provider="psa", pin_api_url=f"{node.api_url}/psa")
        async with AsyncClient.init(empty_node.config) as older, AsyncClient.init(config) as psa:
            provider = AsyncCopiesProvider([older, psa], need=2, patience=30, **sites)
            client = AsyncClient(provider)
            cid = (await client.store([1, 2, 3], name="tides")).cid
            assert await peers_of(client, cid) == {"older": "proven", "psa": "proven"}
            with node.repository._database.writing() as connection:
                connection.execute("DELETE FROM blocks")
            (report,) = await health(client)
            assert (report.proven, report.missing) == (("older",), ("psa",))
            (report,) = await health(client, fix=True)
            assert report.proven == ("older", "psa")
            assert node.repository.has(CID.parse(cid))
            await provider.aclose()


async def test_a_member_that_only_fetches_is_refused_beside_stores_alone(fleet, node):
    config = node.config.with_options(provider="psa", pin_api_url=f"{node.api_url}/psa")
    async with AsyncClient.init(config) as psa:
        members = [fleet.members[0].inner, psa]
        provider = AsyncCopiesProvider(members, sites=["a", "b"], path=fleet.folder / "other")
        fleet.opened.append(provider)
        with pytest.raises(ConfigError, match="psa cannot keep copies: it fetches by CID, and no"):
            await AsyncClient(provider).store([1])


async def test_a_repair_takes_as_long_as_it_takes(fleet):
    client = fleet.client(need=1)
    await client.store([1, 2, 3])
    client.provider.patience = 0.05
    fleet.members[1].repository.unpin(CID.parse(CID_OF_LIST))
    fleet.members[1].fault = fleet.members[2].fault = "slow"
    (report,) = await health(client, fix=True)
    assert len(report.proven) == 2


async def test_a_member_that_lacks_blocks_is_not_taken_for_a_copy_because_it_is_down(fleet):
    client = fleet.client(need=1)
    await client.store([1, 2, 3])
    fleet.members[1].lose_all()
    await health(client)
    assert (await peers_of(client, CID_OF_LIST))["b"] == "missing"
    fleet.members[1].fault = "silent"
    (report,) = await health(client, fix=True)
    assert (report.proven, report.missing) == (("a", "c"), ("b",))


async def test_a_write_that_arrives_after_its_revoke_is_removed_by_the_next_run(fleet):
    client = fleet.client(need=1, patience=0.2)
    fleet.members[1].fault = fleet.members[2].fault = "hangs"
    await client.store([1, 2, 3])
    await client.revoke(CID_OF_LIST)
    fleet.members[1].fault = ""
    await AsyncClient(fleet.members[1]).store([1, 2, 3])  # as if the service went on
    assert await health(client, fix=True) == []
    assert [member.cids for member in fleet.members] == [set(), set(), set()]


async def test_only_at_counts_no_other_member_of_the_same_site(fleet):
    client = fleet.client(sites=["cellar", "cellar", "office"], want=1, need=1)
    await client.store([1, 2, 3])
    await AsyncClient(fleet.members[1]).store([1, 2, 3])
    await health(client, adopt=True)
    with pytest.raises(ConfigError, match="0 other sites are proven"):
        await client.revoke(CID_OF_LIST, only_at="a")


async def test_a_member_is_not_blamed_because_another_one_is_down(fleet, monkeypatch):
    client = fleet.client(need=2)
    await client.store([1, 2, 3])
    big = (await client.upload(os.urandom(600_000))).cid
    await client.provider.collect()
    fleet.members[0].lose(big)  # a block with links, so nobody knows the others
    fleet.members[1].fault = "silent"
    get_from = AsyncMemberBlocks._get_from

    async def silent(blocks, member, cid):
        if member.name == "b":
            raise NetworkError("nobody answers", sent=False)
        return await get_from(blocks, member, cid)

    monkeypatch.setattr(AsyncMemberBlocks, "_get_from", silent)
    reports = {report.cid: report for report in await health(client)}
    assert (reports[big].claimed, reports[big].missing) == (("b",), ("a",))
    assert reports[CID_OF_LIST].proven == ("a",)
    down = {name: client.provider.ledger.find_verdict(name, "down") for name in "ab"}
    assert (down["a"], down["b"].reason) == (None, "nobody answers")
    await health(client, fix=True)  # which has nobody to read it from
    assert (await peers_of(client, big))["a"] == "missing"


async def test_a_copy_that_was_removed_at_one_member_is_made_at_another_one(fleet):
    client = fleet.client(need=1)
    await client.store([1, 2, 3])
    await client.revoke(CID_OF_LIST, only_at="a")
    assert await peers_of(client, CID_OF_LIST) == {"b": "proven"}
    with pytest.raises(NotFoundError):
        await client.revoke(CID_OF_LIST, only_at="a")
    (report,) = await health(client, fix=True)
    assert (report.proven, fleet.members[0].cids) == (("b", "c"), set())
    fleet.members[1].lose_all()
    fleet.members[2].lose_all()
    client.provider._repository.add(b"[1,2,3]", client.provider.profile)
    fleet.members[2].fault = "down"
    (report,) = await health(client, fix=True)  # there is no other member
    assert report.proven == ("a", "b")
    assert await client.revoke(CID_OF_LIST)
    assert fleet.members[0].cids == set()


async def test_an_adopt_that_could_not_read_a_list_says_so(fleet):
    await AsyncClient(fleet.members[1]).store({"theirs": True})
    client = fleet.client(need=1)
    fleet.members[1].fault = "fails once"
    assert await health(client, adopt=True) == []
    verdict = client.provider.ledger.find_verdict("b", "down")
    assert (verdict.is_good, verdict.reason) == (False, "HTTP error 500")
    (report,) = await health(client, adopt=True)
    assert report.proven == ("b",)
    assert client.provider.ledger.find_verdict("b", "down") is None


async def test_revoked_content_that_a_member_keeps_is_noted(fleet):
    client = fleet.client(need=2)
    await client.store([1, 2, 3])
    fleet.members[1].fault = "denied"
    await client.revoke(CID_OF_LIST)
    assert await health(client) == []
    verdict = client.provider.ledger.find_verdict("b", "unpin")
    words = f"it keeps {CID_OF_LIST}, which was revoked: this key may not unpin"
    assert (verdict.reason, client.provider.ledger.find_verdict("b", "down")) == (words, None)
    fleet.members[1].fault = ""
    await health(client)
    assert client.provider.ledger.find_verdict("b", "unpin") is None
    assert fleet.members[1].cids == set()

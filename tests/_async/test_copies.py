"""Writes to several places that are proven there, reads from whoever has a block, and removal."""

import os
from pathlib import Path

import pytest

from holdfast import AsyncClient, AsyncLocalProvider, ClientConfig, compute_cid
from holdfast._async.runtime import sleep
from holdfast.content.car import write_car
from holdfast.content.cid import CID
from holdfast.errors import (
    ConfigError,
    NetworkError,
    NotFoundError,
    PermissionDeniedError,
    ProviderError,
)
from holdfast.hints import hint_of
from holdfast.provider import AsyncWrappingProvider
from holdfast.providers import AsyncCopiesProvider
from holdfast.records import Added, Verdict, now_ms
from holdfast.repository import PinQuery
from tests.content import read_archive

CID_OF_LIST = compute_cid(b"[1,2,3]")


WRITES = {"add", "own_block", "unpin", "update_pin"}
DOWN = {"down": WRITES, "silent": WRITES | {"find_pins"}}


class Member(AsyncWrappingProvider):
    """A store of this machine that can be down, slow, hang, and claim what it does not have."""

    def __init__(self, path):
        super().__init__(AsyncLocalProvider(ClientConfig(path=path)))
        self.state = {"fault": "", "ended": True, "calls": []}  # copies of the wrapper share it

    @property
    def fault(self):
        return self.state["fault"]

    @fault.setter
    def fault(self, fault):
        self.state["fault"] = fault

    def forward(self, name, /, *args, **options):
        self.state["calls"].append(name)
        if self.fault in {"down", "silent"} and name in DOWN[self.fault]:
            raise NetworkError("nobody answers", sent=False)
        if self.fault == "fails once" and name == "find_pins":
            self.fault = ""
            raise ProviderError("HTTP error 500", status=500)
        if self.fault == "denied" and name == "unpin":
            raise PermissionDeniedError("this key may not unpin")
        return super().forward(name, *args, **options)

    async def add(self, content, info, call, progress, /):
        if self.fault == "hangs":
            self.state["ended"] = False
            try:
                await sleep(60)
            finally:
                self.state["ended"] = True
        if self.fault == "slow":
            await sleep(0.4)
        if self.fault == "claims":
            return Added(cid=str(content.root), duplicate=False)
        return await self.forward("add", content, info, call, progress)

    @property
    def repository(self):
        return self.inner.repository

    @property
    def cids(self):
        return {pin.cid for pin in self.repository.pins()}

    def lose(self, cid):
        """Keep the pin, and lose the first block of it."""
        with self.repository._database.writing() as connection:
            connection.execute("DELETE FROM blocks WHERE key = ?", (CID.parse(cid).key,))

    def lose_all(self):
        lose_blocks(self.repository)


class Fleet:
    """Three members at three sites, and clients over them."""

    def __init__(self, folder):
        self.folder = folder
        self.members = [Member(folder / name) for name in "abc"]
        self.opened = []

    def client(self, **options):
        provider = AsyncCopiesProvider(
            self.members,
            **{
                "sites": ["cellar", "attic", "office"],
                "names": ["a", "b", "c"],
                "path": self.folder / "copies",
                "patience": 20.0,
                **options,
            },
        )
        self.opened.append(provider)
        return AsyncClient(provider)

    async def aclose(self):
        for provider in (*self.opened, *self.members):
            await provider.aclose()


@pytest.fixture
async def fleet(memory_folder):
    fleet = Fleet(memory_folder)
    yield fleet
    await fleet.aclose()


def small_store(client):
    return [pin.cid for pin in client.provider._repository.pins()]


async def peers_of(client, cid):
    (pin,) = await client.pins(cid=cid)
    return pin.peers


def open_files():
    return [file.resolve().name for file in Path("/proc/self/fd").iterdir()]


def lose_blocks(repository):
    """Keep the pins, and lose the blocks."""
    with repository._database.writing() as connection:
        connection.execute("DELETE FROM blocks")


# Writes


async def test_a_write_is_at_want_members_and_no_longer_in_the_small_store(fleet):
    client = fleet.client(need=2)
    record = await client.store([1, 2, 3], name="tides", keyvalues={"year": 2026})
    assert record.cid == CID_OF_LIST
    assert [member.cids for member in fleet.members] == [{CID_OF_LIST}, {CID_OF_LIST}, set()]
    assert await peers_of(client, CID_OF_LIST) == {"a": "proven", "b": "proven"}
    assert small_store(client) == []
    (pin,) = fleet.members[1].repository.pins()
    assert (pin.name, pin.keyvalues) == ("tides", {"year": 2026})


async def test_a_folder_and_a_stream_that_is_read_once_are_stored(fleet, tmp_path):
    (tmp_path / "a.txt").write_bytes(b"hello")
    client = fleet.client(need=2)
    folder = await client.upload(tmp_path)
    stream = await client.upload(iter([b"once ", b"only"]), name="stream.txt")
    assert (await client.download(f"{folder.cid}/a.txt")).read() == b"hello"
    assert (await client.download(stream.cid)).read() == b"once only"
    assert fleet.members[0].cids == fleet.members[1].cids == {folder.cid, stream.cid}


@pytest.mark.parametrize("fault", ["down", "hangs", "claims"])
async def test_another_member_replaces_one_that_does_not_work(fleet, fault):
    client = fleet.client(need=2, patience=0.5 if fault == "hangs" else 20.0)
    fleet.members[0].fault = fault
    await client.store([1, 2, 3])
    peers = await peers_of(client, CID_OF_LIST)
    assert peers.pop("a") == ("missing" if fault == "claims" else "unknown")
    assert peers == {"b": "proven", "c": "proven"}
    assert fleet.members[0].state["ended"]  # nothing runs after the call has returned
    assert small_store(client) == []
    fleet.members[0].fault = ""
    client.provider.patience = 20.0
    record = await client.store([4])  # it is asked last from now on
    assert await peers_of(client, record.cid) == {"b": "proven", "c": "proven"}


async def test_a_write_returns_when_need_are_proven_and_the_rest_is_noted(fleet):
    client = fleet.client(need=1, patience=0.2)
    fleet.members[1].fault = fleet.members[2].fault = "hangs"
    await client.store([1, 2, 3])
    peers = await peers_of(client, CID_OF_LIST)
    assert peers == {**dict.fromkeys(peers, "unknown"), "a": "proven"}
    assert small_store(client) == [CID_OF_LIST]  # the second copy, until another member has it
    assert all(member.state["ended"] for member in fleet.members)


async def test_a_member_that_hangs_is_not_tried_by_the_next_writes(fleet):
    fleet.members[0].fault = "hangs"
    client = fleet.client(patience=0.5)
    assert set(await peers_of(client, (await client.store([0])).cid)) == {"a", "b", "c"}
    client.provider.patience = 20.0
    for number in (1, 2):  # the substitute had time to finish, so it is in use now
        record = await client.store([number])
        assert await peers_of(client, record.cid) == {"b": "proven", "c": "proven"}


async def test_too_few_members_are_an_error_and_nothing_is_lost(fleet):
    client = fleet.client(need=2)
    fleet.members[0].fault = "down"
    fleet.members[1].fault = "claims"
    with pytest.raises(ProviderError, match="proven at 1 of the 2 sites") as caught:
        await client.store([1, 2, 3])
    assert caught.value.__notes__ == [
        "a: nobody answers",
        "b: it lists the content but does not have it",
    ]
    assert await client.retrieve(CID_OF_LIST) == [1, 2, 3]

    fleet.members[0].fault = fleet.members[1].fault = ""
    record = await client.store([1, 2, 3])
    assert record.duplicate is False
    assert (await client.store([1, 2, 3])).duplicate is True


async def test_a_known_write_is_proven_again_and_sent_where_it_was_lost(fleet):
    client = fleet.client(need=2)
    await client.store([1, 2, 3])
    fleet.members[0].lose_all()
    await client.store([1, 2, 3])
    assert fleet.members[0].repository.has(CID.parse(CID_OF_LIST))
    assert await peers_of(client, CID_OF_LIST) == {"a": "proven", "b": "proven"}


async def test_a_write_counts_no_earlier_proof_of_a_member_that_is_down(fleet):
    client = fleet.client(need=1)
    await client.store([1, 2, 3])
    for member in fleet.members:
        member.fault = "down"
    with pytest.raises(ProviderError, match="proven at 0 of the 1 sites"):
        await client.store([1, 2, 3])
    assert small_store(client) == [CID_OF_LIST]
    assert await peers_of(client, CID_OF_LIST) == {"a": "proven", "b": "proven", "c": "unknown"}


async def test_members_of_one_site_count_once(fleet):
    client = fleet.client(sites=["cellar", "cellar", "office"], need=2)
    await client.store([1, 2, 3])
    assert await peers_of(client, CID_OF_LIST) == {"a": "proven", "c": "proven"}


async def test_many_writes_of_the_same_content_make_two_copies(fleet):
    client = fleet.client(need=2)
    async for outcome in client.store_many([[1, 2, 3]] * 8):
        assert outcome.result().cid == CID_OF_LIST
    assert await peers_of(client, CID_OF_LIST) == {"a": "proven", "b": "proven"}
    assert small_store(client) == []


# Reads


async def test_a_block_that_one_member_lacks_comes_from_the_next(fleet):
    client = fleet.client(need=2, want=2)
    data = os.urandom(2_500_000)
    cid = (await client.upload(data)).cid
    blocks = read_archive(fleet.members[0].repository.export_car(CID.parse(cid)))[1]
    root, *leaves = blocks
    halves = [[root, *leaves[:1]], leaves[1:]]
    for member, half in zip(fleet.members, halves, strict=False):
        member.lose_all()
        member.repository.import_blocks(write_car([root[0]], iter(half)))
    assert (await client.download(cid)).read() == data
    with pytest.raises(NotFoundError, match="no member has"):
        await client.retrieve(compute_cid(b"nowhere"))


# Pins


async def test_a_change_reaches_the_members_and_one_that_is_down_is_noted(fleet):
    client = fleet.client(need=2)
    await client.store([1, 2, 3], name="old")
    fleet.members[1].fault = "down"
    pin = await client.update(CID_OF_LIST, name="new", keyvalues={"year": 2026})
    assert (pin.name, pin.keyvalues) == ("new", {"year": 2026})
    names = [member.repository.pins()[0].name for member in fleet.members[:2]]
    assert names == ["new", "old"]
    row = client.provider.ledger.find(CID.parse(CID_OF_LIST))
    assert [row.states[name].named for name in "ab"] == [True, False]
    assert [pin.name for pin in await client.pins(keyvalues={"year": 2026})] == ["new"]
    with pytest.raises(NotFoundError):
        await client.update(compute_cid(b"nowhere"), name="x")


async def test_pins_of_members_that_nobody_wrote_here_are_not_listed_or_touched(fleet):
    theirs = await AsyncClient(fleet.members[0]).store({"theirs": True})
    client = fleet.client(need=2)
    assert await client.pins() == []
    with pytest.raises(NotFoundError):
        await client.revoke(theirs.cid)
    assert fleet.members[0].cids == {theirs.cid}
    assert (await client.pin(theirs.cid, name="ours")).peers == {"a": "proven", "b": "proven"}
    assert fleet.members[1].cids == {theirs.cid}


# Removal


async def test_a_tombstone_is_written_first_and_finished_later(fleet):
    client = fleet.client(need=2)
    await client.store([1, 2, 3])
    fleet.members[1].fault = "down"
    assert await client.revoke(CID_OF_LIST)
    assert [member.cids for member in fleet.members] == [set(), {CID_OF_LIST}, set()]
    assert await client.pins() == []
    ledger = client.provider.ledger
    (row,) = ledger.unfinished_tombstones(10)
    assert [*row.states] == ["b"]

    fleet.members[1].fault = ""
    await client.provider.finish_tombstone(row)
    assert fleet.members[1].cids == set()
    assert ledger.unfinished_tombstones(10) == []
    with pytest.raises(NotFoundError):
        await client.revoke(CID_OF_LIST)
    await client.store([1, 2, 3])  # the second member is still asked last
    assert await peers_of(client, CID_OF_LIST) == {"a": "proven", "c": "proven"}


async def test_only_one_member_lets_go_if_enough_others_are_proven_now(fleet):
    client = fleet.client(want=3, need=1)
    await client.store([1, 2, 3])
    assert await client.revoke(CID_OF_LIST, only_at="c")
    assert await peers_of(client, CID_OF_LIST) == {"a": "proven", "b": "proven"}
    fleet.members[0].lose_all()
    words = "0 other sites are proven to have it now, and 1 are"
    with pytest.raises(ConfigError, match=words) as caught:
        await client.revoke(CID_OF_LIST, only_at="b")
    assert hint_of(caught.value).on_command_line == "run `holdfast health --fix`"
    assert fleet.members[1].cids == {CID_OF_LIST}
    with pytest.raises(ConfigError, match="'d' is not a member: the members are a, b, c"):
        await client.revoke(CID_OF_LIST, only_at="d")
    with pytest.raises(NotFoundError):
        await client.revoke(CID_OF_LIST, only_at="c")


async def test_two_ledger_users_never_leave_too_few(fleet):
    clients = [fleet.client(want=2, need=1), fleet.client(want=2, need=1)]
    await clients[0].store([1, 2, 3])
    refusals = 0
    for client, name in zip(clients, "ab", strict=True):
        try:
            await client.revoke(CID_OF_LIST, only_at=name)
        except ConfigError:
            refusals += 1
    assert refusals == 1
    assert sum(CID_OF_LIST in member.cids for member in fleet.members) == 1


async def test_other_providers_are_one_place(fleet):
    with pytest.raises(ConfigError, match="is one place; leave only_at out"):
        await AsyncClient(fleet.members[0].inner).revoke(CID_OF_LIST, only_at="b")


# Health


async def test_health_names_what_is_lost_and_fix_brings_it_back(fleet):
    client = fleet.client(need=2)
    await client.store([1, 2, 3], name="tides")
    fleet.members[0].lose_all()
    (report,) = [report async for report in client.health()]
    assert (report.name, report.want, report.proven, report.missing) == ("tides", 2, ("b",), ("a",))
    assert report.last_proof is not None
    (report,) = [report async for report in client.health(fix=True)]
    assert len(report.proven) == 2
    assert small_store(client) == []


async def test_what_the_small_store_has_lost_comes_from_the_members(fleet):
    client = fleet.client(need=1)
    fleet.members[1].fault = fleet.members[2].fault = "down"
    await client.store([1, 2, 3])
    assert small_store(client) == [CID_OF_LIST]
    lose_blocks(client.provider._repository)
    fleet.members[1].fault = ""
    (health,) = [row async for row in client.health(fix=True)]
    assert health.proven == ("a", "b")
    assert small_store(client) == []


async def test_a_member_that_is_merely_down_is_replaced_after_its_grace(fleet):
    client = fleet.client(need=1, grace=3600)
    await client.store([1, 2, 3])
    fleet.members[1].fault = "down"
    (report,) = [report async for report in client.health(fix=True)]
    assert {*report.claimed, *report.proven} == {"a", "b"}
    client.provider.grace = 0
    (report,) = [report async for report in client.health(fix=True)]
    assert report.proven == ("a", "c")


async def test_health_finishes_tombstones_and_never_copies_them(fleet):
    client = fleet.client(need=2)
    await client.store([1, 2, 3])
    fleet.members[1].fault = "down"
    await client.revoke(CID_OF_LIST)
    fleet.members[1].fault = ""
    assert [report async for report in client.health(fix=True, adopt=True)] == []
    assert [member.cids for member in fleet.members] == [set(), set(), set()]


async def test_health_takes_in_what_a_crash_has_left_and_on_request_foreign_pins(fleet):
    client = fleet.client(need=2)
    left, _ = client.provider._repository.add(b"left", client.provider.profile, name="left")
    theirs = await AsyncClient(fleet.members[2]).store({"theirs": True}, name="theirs")
    (report,) = [report async for report in client.health(fix=True)]
    assert (report.cid, report.proven) == (left.cid, ("a", "b"))
    assert small_store(client) == []
    reports = [report async for report in client.health(fix=True, adopt=True)]
    assert {report.name: len(report.proven) for report in reports} == {"left": 2, "theirs": 2}
    assert [pin.cid for pin in await client.pins(name="theirs")] == [theirs.cid]


# Configuration


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"want": 4}, "want is 4, but the members are at 3 different sites"),
        ({"want": 2, "sites": ["a", "a", "a"]}, r"but the members are at one site \(a\)"),
        ({"sites": None}, r"at one site \(this machine\)"),
        ({"want": 1, "need": 2}, "need cannot be more"),
        ({"want": True}, "want must be a whole number"),
        ({"need": 0}, "need must be a whole number"),
        ({"patience": -1}, "patience must be a number from 0"),
        ({"names": ["a"]}, "one entry for each member"),
        ({"names": ["a", "a", "b"]}, "must be different"),
    ],
)
def test_numbers_that_cannot_work_are_refused(fleet, options, message):
    with pytest.raises(ConfigError, match=message):
        fleet.client(**options)


async def test_members_that_prove_nothing_are_counted_over_all_checks(fleet):
    client = fleet.client(need=2)
    provider = client.provider
    bad = Verdict(is_good=False, reason="it fetches what it lacks", since=now_ms())
    provider.ledger.note_verdict("a", "witness", bad)
    provider.avoid(provider.member("c"))  # so that it is checked later
    await client.store([1])
    provider.ledger.note_verdict("c", "witness", bad)
    provider._avoided.clear()
    provider._provers.clear()
    with pytest.raises(ConfigError, match="can be proven at 1 sites, and not at a, c") as caught:
        await client.store([2])
    assert caught.value.__notes__[0] == "a: it fetches what it lacks"


async def test_a_ledger_is_not_used_for_other_places(fleet):
    client = fleet.client(need=2)
    await client.store([1, 2, 3])
    with pytest.raises(ConfigError, match=r"belongs to a, b, c: set another `path`"):
        fleet.client(names=["x", "y", "z"])
    with pytest.raises(ConfigError, match=r"the member 'b' was .*/b, and is .*/a now"):
        fleet.client(names=["b", "a", "c"])
    fleet.client(names=["a", "b", "d"])  # another member in the place of c


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="shows what is open")
async def test_a_refused_ledger_is_closed(fleet):
    client = fleet.client()
    await client.store([1, 2, 3])
    await client.provider.aclose()
    with pytest.raises(ConfigError) as refusal:
        fleet.client(names=["x", "y", "z"])
    assert not [name for name in open_files() if name.startswith("ledger.sqlite3")]
    assert refusal.traceback  # which has the ledger


FILE = """
[connections.disk]
provider = "local"
path = "disk"
site = "cellar"

[connections.backup]
provider = "local"
path = "backup"
site = "attic"

[connections.safe]
provider = "copies"
path = "ledger"
provider_options = { connections = ["disk", "backup"], need = 2 }

[connections.nested]
provider = "copies"
provider_options = { connections = ["disk", "safe"] }

[connections.twice]
provider = "copies"
provider_options = { connections = ["disk", "disk"] }

[connections.bare]
provider = "copies"
"""


@pytest.fixture
def user_file(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    file = tmp_path / "holdfast" / "holdfast.toml"
    file.parent.mkdir()
    file.write_text(FILE)
    return file


async def test_the_members_are_connections_of_the_users_file(user_file):
    async with AsyncClient.connect("safe") as client:
        record = await client.store([1, 2, 3])
        assert await peers_of(client, record.cid) == {"backup": "proven", "disk": "proven"}
        assert await client.test_connection()
    async with AsyncClient.connect("disk") as disk:
        assert [pin.cid for pin in await disk.pins()] == [CID_OF_LIST]
    assert (user_file.parent / "ledger" / "ledger.sqlite3").is_file()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nested", "'safe' has provider copies"),
        ("twice", "names of different connections"),
        ("bare", "connections must be a list"),
    ],
)
async def test_connections_that_cannot_be_members_are_refused(user_file, name, message):
    with pytest.raises(ConfigError, match=message):
        await AsyncClient.connect(name)


async def test_the_small_store_is_emptied(fleet):
    client = fleet.client(need=2)
    await client.upload(os.urandom(300_000))
    await client.provider.aclose()
    with fleet.client().provider._repository._database.reading() as connection:
        assert connection.execute("SELECT count(*) FROM blocks").fetchone() == (0,)
    assert fleet.client().provider._repository.pins(PinQuery()) == []

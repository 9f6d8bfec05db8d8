"""Copies of content at another provider, under the same CIDs."""

import json
import os
import re
from dataclasses import replace

import pytest

from holdfast import AsyncClient, AsyncLocalProvider, AsyncPinProvider, ClientConfig, compute_cid
from holdfast._async.copying import AsyncCopier
from holdfast._async.providers.base import ignore
from holdfast.content.cid import CID
from holdfast.content.profiles import KUBO_LEGACY_CIDV1, UNIXFS_V0_2015
from holdfast.errors import (
    ClientClosedError,
    ConfigError,
    InvalidCIDError,
    NotFoundError,
    UnsupportedError,
    VerificationError,
)
from holdfast.providers import AsyncPinataProvider
from holdfast.records import Copied, Pin
from holdfast.testing import running_node
from tests.content import stream
from tests.gateways import ODD_LAYOUT, gateway

LARGE = b"".join(stream("copies", 3_000_000))


@pytest.fixture
def node(node):
    """A node without pins; the other tests need theirs no more."""
    for pin in node.repository.pins():
        node.repository.unpin(CID.parse(pin.cid))
    return node


@pytest.fixture
async def service(node):
    async with AsyncClient.init(node.config) as client:
        yield client


def add(client, data, profile, name=""):
    """Put content into a local store in any layout; return its CID."""
    return client.provider.repository.add(data, profile, name=name)[0].cid


async def pin_of(client, cid):
    (pin,) = await client.pins(cid=cid)
    return pin


# Targets that take archives


async def test_a_copy_has_the_same_cid_name_and_key_values(here, there):
    record = await here.upload(LARGE, name="a.bin", keyvalues={"a": 1, "b": "x"})
    told = []
    copied = await here.copy(record.cid, to=there, progress=lambda *each: told.append(each))
    assert copied == Copied(cid=record.cid, name="a.bin", how="archive", size=copied.size)
    assert len(LARGE) < copied.size < len(LARGE) + 1000
    assert told[-1] == (copied.size, (await pin_of(here, record.cid)).size)
    pin = await pin_of(there, record.cid)
    assert (pin.name, pin.keyvalues) == ("a.bin", {"a": 1, "b": "x"})
    assert (await there.download(record.cid)).read() == LARGE


async def test_what_the_target_has_is_not_sent_again_but_gets_the_name(here, there):
    record = await here.upload(b"same", name="new", keyvalues={"a": 1, "b": 2})
    await there.upload(b"same", name="old", keyvalues={"a": "1", "c": 3})
    copied = await here.copy(record.cid, to=there)
    assert copied == Copied(cid=record.cid, name="new", duplicate=True)
    pin = await pin_of(there, record.cid)
    assert (pin.name, pin.keyvalues) == ("new", {"a": "1", "b": 2, "c": 3})
    assert await here.copy(record.cid, to=there) == copied


async def test_content_that_is_not_pinned_is_copied_without_a_name(here, there):
    record = await here.upload(b"hello", name="gone")
    await here.revoke(record.cid)
    copied = await here.copy(f"https://example.com/ipfs/{record.cid}?x=1", to=there)
    assert (copied.cid, copied.name, copied.how) == (record.cid, "", "archive")
    assert (await pin_of(there, record.cid)).name == ""


async def test_what_the_source_does_not_have_is_not_found(here, there):
    with pytest.raises(NotFoundError):
        await here.copy(str(CID.of_raw(b"unknown")), to=there)
    assert await there.pins() == []


async def test_the_arguments_are_checked(here, there):
    cid = (await here.store([1])).cid
    with pytest.raises(TypeError, match="to must be a client of the same kind, not str"):
        await here.copy(cid, to="local")
    with pytest.raises(TypeError, match="to must be a client of the same kind"):
        here.copy_pins(to=None, journal="x")
    await there.aclose()
    with pytest.raises(ClientClosedError):
        await here.copy(cid, to=there)


async def test_any_layout_comes_from_a_service(node, service, there):
    cids = [
        node.repository.add(LARGE, profile, name=profile.name, keyvalues={"n": 1})[0].cid
        for profile in (ODD_LAYOUT, UNIXFS_V0_2015, KUBO_LEGACY_CIDV1)
    ]
    outcomes = [outcome async for outcome in service.copy_pins(to=there)]
    assert sorted(outcome.result().cid for outcome in outcomes) == sorted(cids)
    assert {outcome.result().how for outcome in outcomes} == {"archive"}
    for cid in cids:
        assert (await there.download(cid)).read() == LARGE
        assert (await pin_of(there, cid)).keyvalues == {"n": 1}


# Targets without archives


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("size", [0, 3_000_000])
async def test_a_file_is_uploaded_where_the_service_gives_it_the_same_cid(
    here, service, version, size
):
    data = LARGE[:size]
    source = here.with_options()
    cid = add(here, data, UNIXFS_V0_2015) if version == 0 else (await here.upload(data)).cid
    await source.update(cid, name="a b.bin", keyvalues={"a": 1})
    copied = await source.copy(cid, to=service)
    assert copied == Copied(cid=cid, name="a b.bin", how="upload", size=size)
    pin = await pin_of(service, cid)
    assert (pin.cid, pin.name, pin.keyvalues) == (cid, "a b.bin", {"a": 1})
    assert (await service.download(cid)).read() == data
    assert len(await service.pins()) == 1


async def test_every_name_comes_along(here, service):
    for name in ["", "a/b", "..", 'say "hi"', "client-1"]:
        record = await here.store({"name": name})
        await here.update(record.cid, name=name, keyvalues={"k": "v"})
        assert (await here.copy(record.cid, to=service)).name == name
        pin = await pin_of(service, record.cid)
        assert (pin.name, pin.keyvalues) == (name or record.cid, {"k": "v"})
        assert await service.retrieve(record.cid) == {"name": name}


async def test_a_folder_is_uploaded(here, service, tmp_path):
    folder = tmp_path / "folder"
    (folder / "sub").mkdir(parents=True)
    (folder / ".hidden").write_bytes(b"hidden")
    (folder / "sub" / "large").write_bytes(LARGE)
    record = await here.upload(folder, include_hidden=True, keyvalues={"a": 1})
    copied = await here.copy(record.cid, to=service)
    size = len(LARGE) + 6
    assert copied == Copied(cid=record.cid, name="folder", how="upload", size=size)
    pin = await pin_of(service, record.cid)
    assert (pin.name, pin.keyvalues) == ("folder", {"a": 1})
    assert {each.name for each in await service.entries(record.cid)} == {".hidden", "sub"}


async def test_what_would_get_another_cid_is_refused_and_leaves_nothing(here, service, node):
    cids = [add(here, LARGE, profile, "x") for profile in (ODD_LAYOUT, KUBO_LEGACY_CIDV1)]
    for cid in cids:
        with pytest.raises(UnsupportedError) as caught:
            await here.copy(cid, to=service)
        kind = type(service.provider).__name__
        assert str(caught.value) == (
            f"{kind} takes no archives, and would store {cid} under another CID; and "
            f"{type(here.provider).__name__} is not on the network, from which it could fetch it "
            "by its CID: copy to a provider that takes archives, such as kubo"
        )
        assert caught.value.__notes__ == ["if it can fetch it all the same, pass pin_by_cid=True"]
    assert await service.pins() == []
    assert node.repository.pins() == []


async def test_a_pin_that_an_upload_only_found_is_kept(here, service):
    other = await service.upload(LARGE, name="mine")
    cid = add(here, LARGE, KUBO_LEGACY_CIDV1, "x")
    with pytest.raises(UnsupportedError):
        await here.copy(cid, to=service)
    (pin,) = await service.pins()
    assert pin.cid == other.cid


async def test_the_service_fetches_by_cid_what_it_cannot_be_sent(node, service, tmp_path):
    pin, _ = node.repository.add(LARGE, ODD_LAYOUT, name="odd", keyvalues={"a": 1})
    with running_node(tmp_path / "other", gateways=(node.gateway_url,)) as other:
        async with AsyncClient.init(other.config) as to:
            with pytest.raises(UnsupportedError):  # the gateway has a private address
                await service.copy(pin.cid, to=to)
            copied = await service.copy(pin.cid, to=to, pin_by_cid=True)
            assert copied == Copied(cid=pin.cid, name="odd", how="pin")
            kept = await pin_of(to, pin.cid)
            assert (kept.name, kept.keyvalues) == ("odd", {"a": 1})
            assert (await to.download(pin.cid)).read() == LARGE


# Hostile sources


async def test_a_source_that_lies_pins_nothing_at_the_target(node, there):
    pin, _ = node.repository.add(LARGE, ODD_LAYOUT)

    def change(_kind, _request, reply):
        return replace(reply, body=reply.body[:-1] + b"?")

    with gateway(node, change) as server:
        config = node.config.with_options(gateway_url=f"{server.url}/ipfs")
        provider = AsyncPinProvider(config)
        try:
            with pytest.raises(VerificationError):
                await AsyncClient(provider).copy(pin.cid, to=there)
        finally:
            await provider.aclose()
    assert await there.pins() == []
    assert there.provider.repository.collect_garbage().blocks == 0


async def test_a_block_that_the_source_lost_pins_nothing_at_the_target(node, service, there):
    content = os.urandom(1_000_000)  # no cache has it
    pin, _ = node.repository.add(content, ODD_LAYOUT, name="x")
    lost = [each for each in node.repository.path.rglob("*") if each.is_file()]
    block = CID.of_raw(content[:100_000])
    (lost,) = [each for each in lost if each.name.endswith(block.digest.hex())]
    lost.unlink()
    (outcome,) = [each async for each in service.copy_pins(to=there)]
    assert isinstance(outcome.error, (NotFoundError, VerificationError))
    assert await there.pins() == []
    assert there.provider.repository.collect_garbage().blocks == 0
    await service.revoke(pin.cid)


# Many pins, with a journal


async def fill(client, count=12):
    """Store documents and files with names and key-values; return the pins."""
    for number in range(count):
        name = f"pin {number}"
        if number % 3:
            await client.store({"n": number}, name=name, keyvalues={"n": number})
        else:
            await client.upload(LARGE[: number * 100_000], name=name)
    return {pin.cid: (pin.name, pin.keyvalues) for pin in await client.pins()}


async def outcomes_of(source, to, journal=None):
    return [outcome async for outcome in source.copy_pins(to=to, journal=journal)]


async def copied(outcomes):
    return {outcome.item.cid: outcome.result() async for outcome in outcomes}


async def test_a_copy_with_a_journal_goes_on_after_what_it_has_noted(here, there, tmp_path):
    pins = await fill(here)
    path = tmp_path / "journal"
    outcomes = here.copy_pins(to=there, journal=path, concurrency=2)
    async with outcomes:
        async for outcome in outcomes:
            if outcome.index >= 4:
                break
    noted = len(path.read_text().splitlines()) - 1
    assert 4 <= noted < len(pins)
    results = await copied(here.copy_pins(to=there, journal=path))
    assert set(results) == set(pins)
    assert [each.earlier for each in results.values()].count(True) == noted
    assert {each.how for each in results.values()} == {"archive"}
    assert not any(each.duplicate for each in results.values())
    assert {pin.cid: (pin.name, pin.keyvalues) for pin in await there.pins()} == pins
    again = await copied(here.copy_pins(to=there, journal=path))
    assert again == {cid: replace(each, earlier=True) for cid, each in results.items()}
    assert len(path.read_text().splitlines()) == 1 + len(pins)


async def test_without_a_journal_the_target_says_what_it_has(here, there):
    pins = await fill(here)
    first = await copied(here.copy_pins(to=there, limit=5))
    assert {each.how for each in first.values()} == {"archive"}
    results = await copied(here.copy_pins(to=there))
    assert {cid for cid, each in results.items() if each.duplicate} == set(first)
    assert set(results) == set(pins)


async def test_a_pin_that_changed_since_is_copied_again(here, there, tmp_path):
    record = await here.store([1], name="old")
    path = tmp_path / "journal"
    await copied(here.copy_pins(to=there, journal=path))
    await here.update(record.cid, name="new")
    (result,) = (await copied(here.copy_pins(to=there, journal=path))).values()
    assert (result.duplicate, result.earlier, result.name) == (True, False, "new")
    assert (await pin_of(there, record.cid)).name == "new"


async def test_filters_choose_what_is_copied(here, there):
    await fill(here)
    results = await copied(here.copy_pins(to=there, keyvalues={"n": 4}))
    assert [each.name for each in results.values()] == ["pin 4"]
    progress = []
    await copied(here.copy_pins(to=there, name="pin 9", progress=lambda *x: progress.append(x)))
    assert progress[-1][0] > 900_000


async def test_one_failure_does_not_stop_the_others(here, service):
    pins = await fill(here, 4)
    bad = add(here, LARGE, ODD_LAYOUT, "odd")
    outcomes = [outcome async for outcome in here.copy_pins(to=service)]
    (failed,) = [outcome for outcome in outcomes if outcome.error]
    assert failed.item.cid == bad
    assert isinstance(failed.error, UnsupportedError)
    assert {pin.cid: (pin.name, pin.keyvalues) for pin in await service.pins()} == pins


async def test_a_journal_of_another_copy_is_an_error(here, there, service, tmp_path):
    await here.store([1])
    path = tmp_path / "journal"
    await copied(here.copy_pins(to=there, journal=path))
    with pytest.raises(ConfigError, match="is of another copy, from") as caught:
        await copied(here.copy_pins(to=service, journal=path))
    assert str(path) in str(caught.value)
    with pytest.raises(ConfigError, match="is of another copy"):
        await copied(there.copy_pins(to=here, journal=path))


async def test_a_journal_tells_two_accounts_apart_without_their_tokens(here, node, tmp_path):
    await here.store([1])
    path = tmp_path / "journal"
    first, second = "account-number-one", "account-number-two"
    async with AsyncClient.init(node.config.with_options(provider_token=first)) as to:
        assert len(await outcomes_of(here, to, path)) == 1
    text = path.read_text()
    assert first not in text
    async with AsyncClient.init(node.config.with_options(provider_token=second)) as to:
        with pytest.raises(ConfigError, match="with the same tokens"):
            await outcomes_of(here, to, path)


async def test_a_journal_is_for_one_copy_at_a_time(here, there, tmp_path):
    await fill(here, 3)
    path = tmp_path / "journal"
    async with here.copy_pins(to=there, journal=path, concurrency=1) as outcomes:
        async for _ in outcomes:
            with pytest.raises(ConfigError, match="is in use by another copy"):
                await copied(here.copy_pins(to=there, journal=path))
            break
    assert len(await copied(here.copy_pins(to=there, journal=path))) == 3


async def test_a_line_that_was_cut_off_is_written_again(here, there, tmp_path):
    pins = await fill(here, 4)
    path = tmp_path / "journal"
    await copied(here.copy_pins(to=there, journal=path))
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    for end in range(len(whole) - len(lines[-1]), len(whole), 7):
        path.write_bytes(whole[:end])
        results = await copied(here.copy_pins(to=there, journal=path))
        assert set(results) == set(pins)
        assert [each.earlier for each in results.values()].count(False) == 1
        for line in path.read_bytes().splitlines():
            json.loads(line)
    path.write_bytes(lines[0][:20])  # not even the first line is whole
    assert set(await copied(here.copy_pins(to=there, journal=path))) == set(pins)
    assert len(path.read_bytes().splitlines()) == 5


PIN = json.dumps({"pin": "x", "how": "archive", "duplicate": False, "size": 5, "dropped": []})


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (PIN[:-1] + ', "verified": true}', "has the unknown field 'verified'"),
        (PIN[:-1] + ', "cid": "bafkqaaa"}', "has the unknown field 'cid'"),
        (PIN.replace('"archive"', '"magic"'), "is damaged"),
        (PIN.replace("5", '"5"'), "is damaged"),
        (PIN.replace("5", "true"), "is damaged"),
        (PIN.replace("false", "0"), "is damaged"),
        (PIN.replace("[]", "[1]"), "is damaged"),
        (PIN.replace("[]", '"name"'), "is damaged"),
        (PIN.replace(', "size": 5', ""), "is damaged"),
        ("[" * 100_000 + "]" * 100_000, "is damaged"),
        ("{}", "is damaged"),
    ],
)
async def test_a_line_that_no_copy_writes_is_a_typed_error(here, there, tmp_path, line, fault):
    await here.store([1])
    path = tmp_path / "journal"
    await copied(here.copy_pins(to=there, journal=path))
    good = path.read_text()
    path.write_text(good + PIN.replace('"x"', r'"\ud800"') + "\n")
    assert len(await copied(here.copy_pins(to=there, journal=path))) == 1
    path.write_text(good + line + "\n")
    message = f"line 3 of the journal {path} {fault}: remove the file to begin again"
    with pytest.raises(ConfigError, match=re.escape(message)):
        await copied(here.copy_pins(to=there, journal=path))
    assert path.read_text() == good + line + "\n"


async def test_what_the_target_lost_since_is_copied_again(here, there, tmp_path):
    pins = await fill(here)
    path = tmp_path / "journal"
    first = await copied(here.copy_pins(to=there, journal=path))
    lost = sorted(pins)[::3]
    for cid in lost:
        await there.revoke(cid)
    there.provider.repository.collect_garbage()
    results = await copied(here.copy_pins(to=there, journal=path))
    assert results == {
        cid: each if cid in lost else replace(each, earlier=True) for cid, each in first.items()
    }
    assert {pin.cid: (pin.name, pin.keyvalues) for pin in await there.pins()} == pins


async def test_a_name_that_the_target_lost_is_set_again(here, there, tmp_path):
    record = await here.store([1], name="right")
    path = tmp_path / "journal"
    await copied(here.copy_pins(to=there, journal=path))
    await there.update(record.cid, name="wrong")
    (result,) = (await copied(here.copy_pins(to=there, journal=path))).values()
    assert (result.name, result.earlier) == ("right", True)
    assert (await pin_of(there, record.cid)).name == "right"


async def test_a_journal_belongs_to_a_store_not_to_its_folder(here, tmp_path):
    pins = await fill(here, 3)
    path, folder = tmp_path / "journal", tmp_path / "there"
    async with AsyncClient.init(path=folder) as there:
        await copied(here.copy_pins(to=there, journal=path))
    moved = folder.rename(tmp_path / "moved")
    async with AsyncClient.init(path=moved) as there:
        results = await copied(here.copy_pins(to=there, journal=path))
        assert [each.earlier for each in results.values()] == [True] * 3
    async with AsyncClient.init(path=folder) as another:
        with pytest.raises(ConfigError, match="is of another copy, from"):
            await copied(here.copy_pins(to=another, journal=path))
        path.unlink()
        results = await copied(here.copy_pins(to=another, journal=path))
        assert [each.earlier for each in results.values()] == [False] * 3
        assert {pin.cid: (pin.name, pin.keyvalues) for pin in await another.pins()} == pins


class WithoutList(AsyncLocalProvider):
    """A store that cannot be asked which pins it has."""

    def supports(self, operation):
        return operation != "find_pins" and super().supports(operation)


async def test_a_journal_is_believed_only_where_the_target_cannot_be_asked(here, tmp_path):
    await fill(here, 3)
    path = tmp_path / "journal"
    async with AsyncClient(WithoutList(ClientConfig(path=tmp_path / "there"))) as there:
        first = await copied(here.copy_pins(to=there, journal=path))
        assert {(each.earlier, each.checked) for each in first.values()} == {(False, True)}
        again = await copied(here.copy_pins(to=there, journal=path))
        assert again == {
            cid: replace(each, earlier=True, checked=False) for cid, each in first.items()
        }
        without = await copied(here.copy_pins(to=there))
        assert {(each.earlier, each.checked) for each in without.values()} == {(False, True)}


async def test_compute_cid_agrees_with_what_was_copied(here, there):
    record = await here.upload(LARGE)
    await here.copy(record.cid, to=there)
    assert record.cid == compute_cid(LARGE)
    assert there.provider.repository.file_size(CID.parse(record.cid)) == len(LARGE)


# Providers that are hostile, slow or not complete


@pytest.mark.parametrize("content", ["my notes", "my notes\n", '{"kind":"other"', "{"])
async def test_a_file_of_the_user_is_not_taken_for_a_journal(here, there, tmp_path, content):
    await here.store([1])
    path = tmp_path / "notes.txt"
    path.write_text(content)  # without a line break at its end
    if content == "{":
        assert len(await outcomes_of(here, there, path)) == 1
        return
    with pytest.raises(ConfigError, match="is not the journal of a copy: give another path"):
        await outcomes_of(here, there, path)
    assert path.read_text() == content


class Renaming(AsyncLocalProvider):
    """A store whose list says other things about its pins than it has."""

    async def find_pins(self, wanted, *, limit=None):
        async for pin in super().find_pins(wanted, limit=limit):
            yield replace(pin, **self.says)  # set by the test


async def test_a_name_of_any_length_is_noted_in_a_journal(here, there, tmp_path):
    provider = Renaming(ClientConfig(path=tmp_path / "here"))
    provider.says = {"name": "\x01" * 400_000}
    async with AsyncClient(provider) as source:
        await source.store([1])
        path = tmp_path / "journal"
        (first,) = await outcomes_of(source, there, path)
        assert first.result().earlier is False
        (second,) = await outcomes_of(source, there, path)
        assert second.result().earlier is True
    assert path.stat().st_size < 1_000


@pytest.mark.parametrize("text", ["../../id?x=", "bafkqaaa/../x", ""])
async def test_a_cid_that_is_none_is_not_sent_to_the_target(here, tmp_path, text):
    asked = []

    class Target(AsyncLocalProvider):
        async def find_pins(self, wanted, *, limit=None):
            asked.append(wanted)
            async for pin in super().find_pins(wanted, limit=limit):
                yield pin

    source = Renaming(ClientConfig(path=tmp_path / "here"))
    source.says = {"cid": text}
    async with (
        AsyncClient(source) as client,
        AsyncClient(Target(ClientConfig(path=tmp_path / "there"))) as to,
    ):
        await client.store([1])
        (outcome,) = await outcomes_of(client, to)
    assert isinstance(outcome.error, InvalidCIDError)
    assert asked == []


class Waiting(AsyncLocalProvider):
    """A store that accepts pins of content that it does not have, as a cluster does."""

    waiting: tuple = ()
    peers = None

    async def find_pins(self, wanted, *, limit=None):
        found = [pin async for pin in super().find_pins(wanted, limit=limit)]
        for cid in self.waiting:
            if not found and wanted.cid == cid:
                yield Pin(id=cid, cid=cid, size=None, state="pinning", peers=self.peers)
        for pin in found:
            yield pin


async def test_a_pin_without_its_content_is_not_taken_for_a_copy(here, tmp_path):
    record = await here.store([1], name="one")
    target = Waiting(ClientConfig(path=tmp_path / "there"))
    target.waiting = (record.cid,)
    async with AsyncClient(target) as there:
        (outcome,) = await outcomes_of(here, there, tmp_path / "journal")
        assert (outcome.result().how, outcome.result().state) == ("archive", "pinned")
        assert await there.retrieve(record.cid) == [1]


async def test_a_pin_that_some_peers_have_is_not_noted_as_done(here, tmp_path):
    pin, _ = here.provider.repository.add(b"x", KUBO_LEGACY_CIDV1)
    target = Waiting(ClientConfig(path=tmp_path / "there"))
    target.waiting, target.peers = (pin.cid,), {"one": "pinned", "two": "pin_queued"}
    path = tmp_path / "journal"
    async with AsyncClient(target) as there:
        for _ in range(2):
            (outcome,) = await outcomes_of(here, there, path)
            copied = outcome.result()
            assert (copied.duplicate, copied.state, copied.earlier) == (True, "pinning", False)
    assert len(path.read_text().splitlines()) == 1


async def test_what_another_copy_may_need_is_not_removed(here, service):
    """The service stores one pin under the CID of the other, which is copied at the same time."""
    other = (await here.upload(LARGE, name="other")).cid
    cid = add(here, LARGE, KUBO_LEGACY_CIDV1, "x")
    with pytest.raises(UnsupportedError):
        await here.copy(cid, to=service)
    assert [pin.cid for pin in await service.pins()] == [other]
    assert (await here.copy(other, to=service)).duplicate
    assert [pin.name for pin in await service.pins()] == ["other"]


async def test_two_accounts_of_a_provider_of_somebody_have_two_journals(here, tmp_path):
    class Other(AsyncLocalProvider):
        """A provider that is not one of ours: its address and token tell its accounts apart."""

    def config(number):
        return ClientConfig(
            provider="pinning",
            provider_token=f"account-number-{number}",
            pin_api_url="https://api.example.com",
            path=tmp_path / "there",
        )

    await here.store([1])
    path = tmp_path / "journal"
    async with AsyncClient(Other(config(1))) as to:
        await outcomes_of(here, to, path)
    assert "account-number" not in path.read_text()
    assert "https://api.example.com" in json.loads(path.read_text().splitlines()[0])["target"]
    async with AsyncClient(Other(config(2))) as to:
        with pytest.raises(ConfigError, match="is of another copy"):
            await outcomes_of(here, to, path)


def pinata(network, account="account-number-one"):
    return AsyncPinataProvider(
        ClientConfig(
            provider="pinata",
            provider_token=account,
            gateway_url="https://example.mypinata.cloud",
            provider_options={"network": network},
        )
    )


def test_the_networks_of_a_service_are_two_places():
    places = [pinata(network).place() for network in ("public", "private", "private")]
    assert len({place.name for place in places}) == 1
    marks = [place.fingerprint("salt") for place in places]
    assert marks[0] != marks[1] == marks[2]
    assert marks[1] != pinata("private", "account-number-two").place().fingerprint("salt")


def test_nobody_is_asked_to_fetch_private_files():
    assert pinata("public").is_on_network()
    assert not pinata("private").is_on_network()


class Modest(AsyncLocalProvider):
    """A store that keeps no key-values and no long names, as Kubo does."""

    async def import_archive(self, cid, pieces, info):
        if info.keyvalues or len(info.name) > 255:
            raise UnsupportedError("leave that out")
        return await super().import_archive(cid, pieces, info)

    async def update_pin(self, cid, *, name, keyvalues):
        if keyvalues or len(name or "") > 255:
            raise UnsupportedError("leave that out")
        return await super().update_pin(cid, name=name, keyvalues=keyvalues)


async def test_a_name_that_is_too_long_is_left_out_and_reported(here, tmp_path):
    records = [
        await here.store(1, name="x" * 300, keyvalues={"a": 1}),
        await here.store(2, name="x" * 300),
        await here.store(3, name="short", keyvalues={"a": 1}),
    ]
    dropped = [("keyvalues", "name"), ("name",), ("keyvalues",)]
    async with AsyncClient(Modest(ClientConfig(path=tmp_path / "there"))) as there:
        for record, expected in zip(records * 2, dropped * 2, strict=True):
            assert (await here.copy(record.cid, to=there)).dropped == expected
        assert {pin.name for pin in await there.pins()} == {"", "short"}
        assert [each.error for each in await outcomes_of(here, there)] == [None] * 3


async def test_a_pin_that_the_source_cannot_give_takes_no_key_values_from_others(there, tmp_path):
    class Source(AsyncLocalProvider):
        async def export_archive(self, cid):
            if cid == first.cid:
                raise UnsupportedError("this one has no blocks")
            async for piece in super().export_archive(cid):
                yield piece

    async with AsyncClient(Source(ClientConfig(path=tmp_path / "here"))) as here:
        first = await here.store(1, keyvalues={"a": 1})
        second = await here.store(2, keyvalues={"a": 1})
        copier = AsyncCopier(here.provider, there.provider)
        with pytest.raises(UnsupportedError, match="this one has no blocks"):
            await copier.copy((await here.pins(cid=first.cid))[0], ignore)
        copied = await copier.copy((await here.pins(cid=second.cid))[0], ignore)
    assert copied.dropped == ()
    assert [pin.keyvalues for pin in await there.pins()] == [{"a": 1}]

"""Copies of content at another provider, under the same CIDs."""

import json
import re
from dataclasses import replace

import pytest

from holdfast import AsyncClient, AsyncLocalProvider, AsyncPinProvider, ClientConfig
from holdfast._async.copying import AsyncCopier
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
from holdfast.sources.sources import no_progress
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


@pytest.fixture
def journal(tmp_path):
    return tmp_path / "journal"


def add(client, data, profile, name=""):
    """Put content into a local store in any layout; return its CID."""
    return client.provider.repository.add(data, profile, name=name)[0].cid


async def pin_of(client, cid):
    (pin,) = await client.pins(cid=cid)
    return pin


# Targets that take archives


async def test_a_copy_has_the_same_cid_name_and_key_values(source, target):
    record = await source.upload(LARGE, name="a.bin", keyvalues={"a": 1, "b": "x"})
    steps = []
    copied = await source.copy(record.cid, to=target, progress=lambda *step: steps.append(step))
    assert copied == Copied(cid=record.cid, name="a.bin", how="archive", size=copied.size)
    assert len(LARGE) < copied.size < len(LARGE) + 1000
    assert steps[-1] == (copied.size, (await pin_of(source, record.cid)).size)
    pin = await pin_of(target, record.cid)
    assert (pin.name, pin.keyvalues) == ("a.bin", {"a": 1, "b": "x"})
    assert (await target.download(record.cid)).read() == LARGE


async def test_what_the_target_has_is_not_sent_again_but_gets_the_name(source, target):
    record = await source.upload(b"same", name="new", keyvalues={"a": 1, "b": 2})
    await target.upload(b"same", name="old", keyvalues={"a": "1", "c": 3})
    copied = await source.copy(record.cid, to=target)
    assert copied == Copied(cid=record.cid, name="new", duplicate=True)
    pin = await pin_of(target, record.cid)
    assert (pin.name, pin.keyvalues) == ("new", {"a": "1", "b": 2, "c": 3})
    assert await source.copy(record.cid, to=target) == copied


async def test_content_that_is_not_pinned_is_copied_without_a_name(source, target):
    record = await source.upload(b"hello", name="gone")
    await source.revoke(record.cid)
    copied = await source.copy(f"https://example.com/ipfs/{record.cid}?x=1", to=target)
    assert (copied.cid, copied.name, copied.how) == (record.cid, "", "archive")
    assert (await pin_of(target, record.cid)).name == ""


async def test_the_arguments_are_checked(source, target):
    with pytest.raises(NotFoundError):
        await source.copy(str(CID.of_raw(b"unknown")), to=target)
    assert await target.pins() == []
    cid = (await source.store([1])).cid
    with pytest.raises(TypeError, match="to must be a client of the same kind, not str"):
        await source.copy(cid, to="local")
    with pytest.raises(TypeError, match="to must be a client of the same kind"):
        source.copy_pins(to=None, journal="x")
    await target.aclose()
    with pytest.raises(ClientClosedError):
        await source.copy(cid, to=target)


async def test_any_layout_comes_from_a_service(node, service, target):
    cids = [
        node.repository.add(LARGE, profile, name=profile.name, keyvalues={"n": 1})[0].cid
        for profile in (ODD_LAYOUT, UNIXFS_V0_2015, KUBO_LEGACY_CIDV1)
    ]
    outcomes = [outcome async for outcome in service.copy_pins(to=target)]
    assert sorted(outcome.result().cid for outcome in outcomes) == sorted(cids)
    assert {outcome.result().how for outcome in outcomes} == {"archive"}
    for cid in cids:
        assert (await target.download(cid)).read() == LARGE
        assert (await pin_of(target, cid)).keyvalues == {"n": 1}


# Targets without archives


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("size", [0, 3_000_000])
async def test_a_file_is_uploaded_where_the_service_gives_it_the_same_cid(
    source, service, version, size
):
    data = LARGE[:size]
    cid = add(source, data, UNIXFS_V0_2015) if version == 0 else (await source.upload(data)).cid
    await source.update(cid, name="a b.bin", keyvalues={"a": 1})
    copied = await source.copy(cid, to=service)
    assert copied == Copied(cid=cid, name="a b.bin", how="upload", size=size)
    pin = await pin_of(service, cid)
    assert (pin.cid, pin.name, pin.keyvalues) == (cid, "a b.bin", {"a": 1})
    assert (await service.download(cid)).read() == data
    assert len(await service.pins()) == 1


async def test_every_name_comes_along(source, service):
    for name in ["", "a/b", "..", 'say "hi"', "client-1"]:
        record = await source.store({"name": name})
        await source.update(record.cid, name=name, keyvalues={"k": "v"})
        assert (await source.copy(record.cid, to=service)).name == name
        pin = await pin_of(service, record.cid)
        assert (pin.name, pin.keyvalues) == (name or record.cid, {"k": "v"})
        assert await service.retrieve(record.cid) == {"name": name}


async def test_a_folder_is_uploaded(source, service, tmp_path):
    folder = tmp_path / "folder"
    (folder / "sub").mkdir(parents=True)
    (folder / ".hidden").write_bytes(b"hidden")
    (folder / ".ipfsignore").write_bytes(b"*")  # of whoever uploaded it: a copy has all of it
    (folder / "sub" / "large").write_bytes(LARGE)
    record = await source.upload(folder, include_hidden=True, ignore_file=None, keyvalues={"a": 1})
    copied = await source.copy(record.cid, to=service)
    size = len(LARGE) + 7
    assert copied == Copied(cid=record.cid, name="folder", how="upload", size=size)
    pin = await pin_of(service, record.cid)
    assert (pin.name, pin.keyvalues) == ("folder", {"a": 1})
    names = {entry.name for entry in await service.entries(record.cid)}
    assert names == {".hidden", ".ipfsignore", "sub"}


async def test_what_would_get_another_cid_is_refused_and_leaves_nothing(source, service, node):
    cids = [add(source, LARGE, profile, "x") for profile in (ODD_LAYOUT, KUBO_LEGACY_CIDV1)]
    for cid in cids:
        with pytest.raises(UnsupportedError) as caught:
            await source.copy(cid, to=service)
        kind = type(service.provider).__name__
        assert str(caught.value) == (
            f"{kind} accepts no archives, and would store {cid} under a different CID; and "
            f"{type(source.provider).__name__} is not on the network, so the target cannot fetch "
            "it by its CID: copy to a provider that accepts archives, such as kubo"
        )
        assert caught.value.__notes__ == ["if it can be fetched anyway, use pin_by_cid=True"]
    assert await service.pins() == []
    assert node.repository.pins() == []


async def test_the_service_fetches_by_cid_what_it_cannot_be_sent(node, service, tmp_path):
    pin, _ = node.repository.add(LARGE, ODD_LAYOUT, name="odd", keyvalues={"a": 1})
    with running_node(tmp_path / "other", gateways=(node.gateway_url,)) as other:
        async with AsyncClient.init(other.config) as to:
            with pytest.raises(UnsupportedError):  # the gateway has a private address
                await service.copy(pin.cid, to=to)
            copied = await service.copy(pin.cid, to=to, pin_by_cid=True)
            assert copied == Copied(cid=pin.cid, name="odd", how="pin")
            copy = await pin_of(to, pin.cid)
            assert (copy.name, copy.keyvalues) == ("odd", {"a": 1})
            assert (await to.download(pin.cid)).read() == LARGE


# Hostile sources


async def test_a_source_that_lies_pins_nothing_at_the_target(node, target):
    pin, _ = node.repository.add(LARGE, ODD_LAYOUT)

    def change(_kind, _request, reply):
        return replace(reply, body=reply.body[:-1] + b"?")

    with gateway(node, change) as server:
        config = node.config.with_options(gateway_url=f"{server.url}/ipfs")
        provider = AsyncPinProvider(config)
        try:
            with pytest.raises(VerificationError):
                await AsyncClient(provider).copy(pin.cid, to=target)
        finally:
            await provider.aclose()
    assert await target.pins() == []
    assert target.provider.repository.collect_garbage().blocks == 0


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


async def outcomes_of(client, to, journal=None, **options):
    return [outcome async for outcome in client.copy_pins(to=to, journal=journal, **options)]


async def reports_of(client, to, journal=None, **options):
    outcomes = await outcomes_of(client, to, journal, **options)
    return {outcome.item.cid: outcome.result() for outcome in outcomes}


async def test_a_copy_with_a_journal_goes_on_after_what_it_has_noted(source, target, journal):
    pins = await fill(source)
    outcomes = source.copy_pins(to=target, journal=journal, concurrency=2)
    async with outcomes:
        async for outcome in outcomes:
            if outcome.index >= 4:
                break
    noted = len(journal.read_text().splitlines()) - 1
    assert 4 <= noted < len(pins)
    results = await reports_of(source, target, journal)
    assert set(results) == set(pins)
    assert [report.earlier for report in results.values()].count(True) == noted
    assert {report.how for report in results.values()} == {"archive"}
    assert not any(report.duplicate for report in results.values())
    assert {pin.cid: (pin.name, pin.keyvalues) for pin in await target.pins()} == pins
    again = await reports_of(source, target, journal)
    assert again == {cid: replace(report, earlier=True) for cid, report in results.items()}
    assert len(journal.read_text().splitlines()) == 1 + len(pins)


async def test_filters_choose_what_is_copied(source, target):
    await fill(source)
    results = await reports_of(source, target, keyvalues={"n": 4})
    assert [report.name for report in results.values()] == ["pin 4"]
    steps = []
    await reports_of(source, target, name="pin 9", progress=lambda *step: steps.append(step))
    assert steps[-1][0] > 900_000


async def test_one_failure_does_not_stop_the_others(source, service):
    pins = await fill(source, 4)
    bad = add(source, LARGE, ODD_LAYOUT, "odd")
    outcomes = [outcome async for outcome in source.copy_pins(to=service)]
    (failed,) = [outcome for outcome in outcomes if outcome.error]
    assert failed.item.cid == bad
    assert isinstance(failed.error, UnsupportedError)
    assert {pin.cid: (pin.name, pin.keyvalues) for pin in await service.pins()} == pins


async def test_a_journal_tells_two_accounts_apart_without_their_tokens(source, node, journal):
    await source.store([1])
    first, second = "account-number-one", "account-number-two"
    async with AsyncClient.init(node.config.with_options(provider_token=first)) as to:
        assert len(await outcomes_of(source, to, journal)) == 1
    text = journal.read_text()
    assert first not in text
    async with AsyncClient.init(node.config.with_options(provider_token=second)) as to:
        with pytest.raises(ConfigError, match="with the same tokens"):
            await outcomes_of(source, to, journal)


async def test_a_journal_is_for_one_copy_at_a_time(source, target, journal):
    await fill(source, 3)
    async with source.copy_pins(to=target, journal=journal, concurrency=1) as outcomes:
        async for _ in outcomes:
            with pytest.raises(ConfigError, match="is in use by another copy"):
                await reports_of(source, target, journal)
            break
    assert len(await reports_of(source, target, journal)) == 3


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
async def test_a_line_that_no_copy_writes_is_a_typed_error(source, target, journal, line, fault):
    await source.store([1])
    await reports_of(source, target, journal)
    good = journal.read_text()
    journal.write_text(good + PIN.replace('"x"', r'"\ud800"') + "\n")
    assert len(await reports_of(source, target, journal)) == 1
    journal.write_text(good + line + "\n")
    message = f"line 3 of the journal {journal} {fault}: remove the file to begin again"
    with pytest.raises(ConfigError, match=re.escape(message)):
        await reports_of(source, target, journal)
    assert journal.read_text() == good + line + "\n"


async def test_what_the_target_lost_since_is_copied_again(source, target, journal):
    pins = await fill(source)
    first = await reports_of(source, target, journal)
    lost = sorted(pins)[::3]
    for cid in lost:
        await target.revoke(cid)
    target.provider.repository.collect_garbage()
    results = await reports_of(source, target, journal)
    assert results == {
        cid: replace(report, earlier=cid not in lost) for cid, report in first.items()
    }
    assert {pin.cid: (pin.name, pin.keyvalues) for pin in await target.pins()} == pins


async def test_a_name_that_the_target_lost_is_set_again(source, target, journal):
    record = await source.store([1], name="old")
    await reports_of(source, target, journal)
    await target.update(record.cid, name="wrong")
    (result,) = (await reports_of(source, target, journal)).values()
    assert (result.name, result.earlier) == ("old", True)
    assert (await pin_of(target, record.cid)).name == "old"
    # A pin that has another name by now is copied again.
    await source.update(record.cid, name="new")
    (result,) = (await reports_of(source, target, journal)).values()
    assert (result.duplicate, result.earlier, result.name) == (True, False, "new")
    assert (await pin_of(target, record.cid)).name == "new"


async def test_a_journal_belongs_to_a_store_not_to_its_folder(source, tmp_path, journal):
    pins = await fill(source, 3)
    folder = tmp_path / "target"
    async with AsyncClient.init(path=folder) as target:
        await reports_of(source, target, journal)
    moved = folder.rename(tmp_path / "moved")
    async with AsyncClient.init(path=moved) as target:
        results = await reports_of(source, target, journal)
        assert [report.earlier for report in results.values()] == [True] * 3
    async with AsyncClient.init(path=folder) as another:
        for pair in ((source, another), (another, source)):
            with pytest.raises(ConfigError, match="belongs to another copy, from") as caught:
                await reports_of(*pair, journal)
            assert str(journal) in str(caught.value)
        journal.unlink()
        results = await reports_of(source, another, journal)
        assert [report.earlier for report in results.values()] == [False] * 3
        assert {pin.cid: (pin.name, pin.keyvalues) for pin in await another.pins()} == pins


class WithoutList(AsyncLocalProvider):
    """A store that cannot be asked which pins it has."""

    def supports(self, operation):
        return operation != "find_pins" and super().supports(operation)


async def test_a_journal_is_believed_only_where_the_target_cannot_be_asked(source, journal):
    await fill(source, 3)
    async with AsyncClient(WithoutList(ClientConfig(path=journal.parent / "target"))) as target:
        first = await reports_of(source, target, journal)
        assert {(report.earlier, report.checked) for report in first.values()} == {(False, True)}
        again = await reports_of(source, target, journal)
        assert again == {
            cid: replace(report, earlier=True, checked=False) for cid, report in first.items()
        }
        without = await reports_of(source, target)
        assert {(report.earlier, report.checked) for report in without.values()} == {(False, True)}


# Providers that are hostile, slow or not complete


@pytest.mark.parametrize("content", ["my notes", "my notes\n", '{"kind":"other"', "{"])
async def test_a_file_of_the_user_is_not_taken_for_a_journal(source, target, tmp_path, content):
    await source.store([1])
    path = tmp_path / "notes.txt"
    path.write_text(content)  # without a line break at its end
    if content == "{":
        assert len(await outcomes_of(source, target, path)) == 1
        return
    with pytest.raises(ConfigError, match="is not the journal of a copy: give another path"):
        await outcomes_of(source, target, path)
    assert path.read_text() == content


@pytest.mark.parametrize("text", ["../../id?x=", "bafkqaaa/../x", ""])
async def test_a_cid_that_is_none_is_not_sent_to_the_target(tmp_path, text):
    asked = []

    class Renaming(AsyncLocalProvider):
        """A store whose list says other CIDs than it has."""

        async def find_pins(self, pin_filter, *, limit=None):
            asked.append(self)
            async for pin in super().find_pins(pin_filter, limit=limit):
                yield replace(pin, cid=text)

    providers = [Renaming(ClientConfig(path=tmp_path / name)) for name in ("from", "to")]
    async with AsyncClient(providers[0]) as client, AsyncClient(providers[1]) as to:
        await client.store([1])
        (outcome,) = await outcomes_of(client, to)
    assert isinstance(outcome.error, InvalidCIDError)
    assert providers[1] not in asked


class Waiting(AsyncLocalProvider):
    """A store that accepts pins of content that it does not have, as a cluster does."""

    waiting: tuple = ()
    peers = None

    async def find_pins(self, pin_filter, *, limit=None):
        pins = [pin async for pin in super().find_pins(pin_filter, limit=limit)]
        for cid in self.waiting:
            if not pins and pin_filter.cid == cid:
                yield Pin(id=cid, cid=cid, size=None, state="pinning", peers=self.peers)
        for pin in pins:
            yield pin


async def test_a_pin_without_its_content_is_not_taken_for_a_copy(source, tmp_path):
    record = await source.store([1], name="one")
    provider = Waiting(ClientConfig(path=tmp_path / "waiting"))
    provider.waiting = (record.cid,)
    async with AsyncClient(provider) as target:
        (outcome,) = await outcomes_of(source, target, tmp_path / "journal")
        assert (outcome.result().how, outcome.result().state) == ("archive", "pinned")
        assert await target.retrieve(record.cid) == [1]


async def test_a_pin_that_some_peers_have_is_not_noted_as_done(source, tmp_path, journal):
    pin, _ = source.provider.repository.add(b"x", KUBO_LEGACY_CIDV1)
    provider = Waiting(ClientConfig(path=tmp_path / "waiting"))
    provider.waiting, provider.peers = (pin.cid,), {"one": "pinned", "two": "pin_queued"}
    async with AsyncClient(provider) as target:
        for _ in range(2):
            (outcome,) = await outcomes_of(source, target, journal)
            copied = outcome.result()
            assert (copied.duplicate, copied.state, copied.earlier) == (True, "pinning", False)
    assert len(journal.read_text().splitlines()) == 1


async def test_what_another_copy_may_need_is_not_removed(source, service):
    """The service stores one pin under the CID of the other, which is copied at the same time.

    If it has that pin already, it keeps it as well.
    """
    other = (await source.upload(LARGE, name="other")).cid
    cid = add(source, LARGE, KUBO_LEGACY_CIDV1, "x")
    with pytest.raises(UnsupportedError):
        await source.copy(cid, to=service)
    assert [pin.cid for pin in await service.pins()] == [other]
    assert (await source.copy(other, to=service)).duplicate
    assert [pin.name for pin in await service.pins()] == ["other"]
    await source.revoke(other)
    with pytest.raises(UnsupportedError):
        await source.copy(cid, to=service)
    assert [pin.cid for pin in await service.pins()] == [other]


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
    assert pinata("public").is_on_network()
    assert not pinata("private").is_on_network()  # nobody is asked to fetch private files
    places = [pinata(network).place() for network in ("public", "private", "private")]
    assert len({place.name for place in places}) == 1
    marks = [place.fingerprint("salt") for place in places]
    assert marks[0] != marks[1] == marks[2]
    assert marks[1] != pinata("private", "account-number-two").place().fingerprint("salt")


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


async def test_a_name_that_is_too_long_is_left_out_and_reported(source, tmp_path):
    records = [
        await source.store(1, name="x" * 300, keyvalues={"a": 1}),
        await source.store(2, name="x" * 300),
        await source.store(3, name="short", keyvalues={"a": 1}),
    ]
    dropped = [("keyvalues", "name"), ("name",), ("keyvalues",)]
    async with AsyncClient(Modest(ClientConfig(path=tmp_path / "target"))) as target:
        for record, expected in zip(records * 2, dropped * 2, strict=True):
            assert (await source.copy(record.cid, to=target)).dropped == expected
        assert {pin.name for pin in await target.pins()} == {"", "short"}
        assert [outcome.error for outcome in await outcomes_of(source, target)] == [None] * 3


async def test_a_pin_that_the_source_cannot_give_takes_no_key_values_from_others(target, tmp_path):
    class Source(AsyncLocalProvider):
        async def export_archive(self, cid):
            if cid == first.cid:
                raise UnsupportedError("this one has no blocks")
            async for piece in super().export_archive(cid):
                yield piece

    async with AsyncClient(Source(ClientConfig(path=tmp_path / "source"))) as source:
        first = await source.store(1, keyvalues={"a": 1})
        second = await source.store(2, keyvalues={"a": 1})
        copier = AsyncCopier(source.provider, target.provider)
        with pytest.raises(UnsupportedError, match="this one has no blocks"):
            await copier.copy((await source.pins(cid=first.cid))[0], no_progress)
        copied = await copier.copy((await source.pins(cid=second.cid))[0], no_progress)
    assert copied.dropped == ()
    assert [pin.keyvalues for pin in await target.pins()] == [{"a": 1}]

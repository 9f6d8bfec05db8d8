"""Copies between providers of which one is hostile, slow or not complete."""

import json
from dataclasses import replace

import pytest

from holdfast import AsyncClient, AsyncLocalProvider, ClientConfig
from holdfast._async.copying import AsyncCopier
from holdfast._async.providers.base import ignore
from holdfast.content.cid import CID
from holdfast.content.profiles import KUBO_LEGACY_CIDV1
from holdfast.errors import ConfigError, InvalidCIDError, UnsupportedError
from holdfast.providers import AsyncPinataProvider
from holdfast.records import Pin
from tests.content import stream

LARGE = b"".join(stream("copies", 3_000_000))


async def outcomes_of(source, to, journal=None):
    return [outcome async for outcome in source.copy_pins(to=to, journal=journal)]


@pytest.mark.parametrize("content", ["my only notes", '{"kind":"something else"', "{"])
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


async def test_what_another_copy_may_need_is_not_removed(here, node):
    """The service stores one pin under the CID of the other, which is copied at the same time."""
    for pin in node.repository.pins():
        node.repository.unpin(CID.parse(pin.cid))
    other = (await here.upload(LARGE, name="other")).cid
    pin, _ = here.provider.repository.add(LARGE, KUBO_LEGACY_CIDV1, name="x")
    async with AsyncClient.init(node.config) as service:
        with pytest.raises(UnsupportedError):
            await here.copy(pin.cid, to=service)
        assert [each.cid for each in await service.pins()] == [other]
        assert (await here.copy(other, to=service)).duplicate
        assert [each.name for each in await service.pins()] == ["other"]


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


def service(network, account="account-number-one"):
    return AsyncPinataProvider(
        ClientConfig(
            provider="pinata",
            provider_token=account,
            gateway_url="https://example.mypinata.cloud",
            provider_options={"network": network},
        )
    )


def test_the_networks_of_a_service_are_two_places():
    places = [service(network).place() for network in ("public", "private", "private")]
    assert len({place.name for place in places}) == 1
    marks = [place.fingerprint("salt") for place in places]
    assert marks[0] != marks[1] == marks[2]
    assert marks[1] != service("private", "account-number-two").place().fingerprint("salt")


def test_nobody_is_asked_to_fetch_private_files():
    assert service("public").is_on_network()
    assert not service("private").is_on_network()


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

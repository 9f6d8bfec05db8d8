"""The seam of providers: what the base class does, and what a provider supports."""

from functools import partial

import pytest

from holdfast import AsyncBaseProvider, AsyncClient, AsyncLocalProvider, ClientConfig
from holdfast.content.cid import CID
from holdfast.errors import (
    ClientClosedError,
    ClientError,
    ConfigError,
    NotFoundError,
    UnsupportedError,
)
from holdfast.provider import AsyncBlockReader
from holdfast.records import Added, Pin, PinFilter, PinInfo
from holdfast.sources.folder_source import FolderSource
from tests.support import HELLO_CID


class AsyncDictProvider(AsyncBaseProvider):
    """Blocks and pins in memory. `added` is what the primitives were given."""

    def __init__(self, config=None):
        self.blocks, self.pinned, self.added, self.releases = {}, {}, [], 0
        super().__init__(config or ClientConfig(), reader=AsyncBlockReader(self._get_block))

    async def _get_block(self, cid):
        if cid not in self.blocks:
            raise NotFoundError(f"{cid} is not here")
        return self.blocks[cid]

    async def add(self, content, info, call, progress):
        self.added.append((content.type, info, call.operation))
        part = await self.import_content(content, self.blocks.__setitem__, progress)
        is_duplicate = part.cid in self.pinned
        self.pinned[part.cid] = info.name
        return Added(cid=str(part.cid), duplicate=is_duplicate)

    async def unpin(self, cid, call):
        if self.pinned.pop(CID.parse(cid), None) is None:
            raise NotFoundError(f"{cid} is not pinned")

    async def check_credentials(self, call):
        pass

    async def release(self):
        self.releases += 1
        if self.releases == 1:
            raise OSError("the first time fails")


class AsyncListingProvider(AsyncDictProvider):
    async def list_pins(self, *, name=None, limit=None):
        async with self.call("pins"):
            return [
                Pin(id="1", cid=str(cid), name=pin_name) for cid, pin_name in self.pinned.items()
            ]

    async def pin(self, cid, info):
        async with self.call("pin", cid):
            return Pin(id="1", cid=cid, name=info.name)


async def test_json_is_added_as_a_file_unless_the_provider_says_otherwise():
    provider = AsyncDictProvider()
    await provider.put_json("[1]", name="a")
    await AsyncClient(provider).upload(b"x", name="b.txt")
    assert provider.added == [
        ("application/json", PinInfo(name="a"), "store"),
        ("", PinInfo(name="b.txt", given=True), "upload"),
    ]
    assert provider.blocks[CID.of_raw(b"[1]")] == b"[1]"


async def test_every_call_is_told_and_names_what_it_is_about():
    events = []
    provider = AsyncListingProvider(ClientConfig(on_event=events.append))
    client = AsyncClient(provider)
    cid = (await client.upload(b"hello")).cid
    await client.download(cid)
    await client.pins()
    await client.revoke(cid)
    with pytest.raises(NotFoundError):
        await client.revoke(cid)
    assert [(event.operation, event.cid, event.error) for event in events] == [
        ("upload", cid, None),
        ("download", cid, None),
        ("pins", None, None),
        ("revoke", cid, None),
        ("revoke", cid, "NotFoundError"),
    ]


async def test_a_copy_shares_what_the_provider_holds_and_is_closed_with_it():
    provider = AsyncDictProvider(ClientConfig(provider_options={"a": 1}))
    client = AsyncClient(provider)
    copy = client.with_options(cid_version=0)
    assert (await copy.upload(b"hello")).cid.startswith("Qm")
    assert (await client.upload(b"hello")).cid == HELLO_CID
    assert len(provider.pinned) == 2
    with pytest.raises(ConfigError, match="with_options cannot change provider_options"):
        client.with_options(provider_options={})
    with pytest.raises(OSError, match="the first time fails"):
        await provider.aclose()
    for closed in (client, copy):
        with pytest.raises(ClientClosedError):
            await closed.upload(b"hello")
    await provider.aclose()  # it is tried again, and then done
    await provider.aclose()
    assert provider.releases == 2


async def test_a_place_is_the_same_wherever_the_program_runs(tmp_path, monkeypatch):
    places = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        places.append(AsyncDictProvider(ClientConfig(path="store")).place())
    assert places[0] != places[1]
    path = tmp_path / "two" / "store"
    stores = [
        AsyncLocalProvider(ClientConfig(path=store, provider_options=options))
        for store, options in (("store", {}), (path, {"a": 1}))
    ]
    assert stores[0].place().is_same(stores[1].place())
    assert not places[0].is_same(places[1])
    for store in stores:
        await store.aclose()


async def test_what_a_subclass_must_write_is_seen_when_it_is_made():
    class Half(AsyncDictProvider):
        unpin = AsyncBaseProvider.unpin

    with pytest.raises(TypeError, match=r"abstract method .*unpin"):
        Half()


@pytest.mark.parametrize("name", ["put_json", "put_file"])
async def test_a_class_that_overrides_the_spec_alone_is_refused_when_it_is_made(name):
    async def put(self, *_, **__): ...

    mixin = type("Mixin", (), {name: put})
    for bases, members in (((AsyncLocalProvider,), {name: put}), ((mixin, AsyncLocalProvider), {})):
        with pytest.raises(TypeError, match=f"^Own overrides {name}, .*: override add$"):
            type("Own", bases, members)
        type("Own", bases, {**members, "add": put})


# What a provider supports


MISSING = {
    "list_pins": "cannot list what it keeps; keep the CIDs of your records",
    "pin": "cannot pin content by its CID; download it and upload it here",
    "add_directory": "cannot store directories; upload the files one by one",
    "import_car": "cannot import archives; upload the files",
    "export_car": "cannot export archives; download the files",
}
CALLS = {
    "list_pins": lambda it: it.list_pins(),
    "find_pins": lambda it: it.find_pins(PinFilter()),
    "update_pin": lambda it: it.update_pin(HELLO_CID, name="a", keyvalues=None),
    "pin": lambda it: it.pin(HELLO_CID, PinInfo()),
    "pin_from": lambda it: it.pin_from(HELLO_CID, PinInfo(), []),
    "addresses": lambda it: it.addresses(),
    "own_block": lambda it: it.own_block(CID.parse(HELLO_CID)),
    "signed_url": lambda it: it.signed_url(HELLO_CID, expires=1),
    "signed_upload_url": lambda it: it.signed_upload_url(expires=1, max_bytes=None, types=()),
    "import_car": lambda it: it.import_car([]),
    "export_car": lambda it: it.export_car(HELLO_CID),
    "add_directory": lambda it: it.add_directory(FolderSource.of("."), PinInfo()),
    "import_archive": lambda it: it.import_archive(HELLO_CID, [b""], PinInfo()),
}


@pytest.mark.parametrize("operation", CALLS)
async def test_what_is_not_overridden_is_not_supported_and_raises(operation):
    provider = AsyncDictProvider()
    assert not provider.supports(operation)
    with pytest.raises(UnsupportedError, match=r"^AsyncDictProvider (can|does|makes)"):
        await CALLS[operation](provider)
    words = MISSING.get(operation, "(can|does|makes)")
    with pytest.raises(UnsupportedError, match=rf"^AsyncDictProvider {words}") as caught:
        provider.require(operation)
    for kind in (ClientError, NotImplementedError, ConfigError):
        assert isinstance(caught.value, kind)


async def test_what_is_overridden_is_supported():
    for filters in ({}, {"cid": HELLO_CID}):
        with pytest.raises(UnsupportedError, match="cannot list what it keeps"):
            await AsyncClient(AsyncDictProvider()).pins(**filters)
    provider = AsyncListingProvider()
    assert provider.supports("list_pins")
    assert not provider.supports("find_pins")
    assert not provider.supports("no such operation")
    await provider.put_json("[1]", name="one")
    client = AsyncClient(provider)
    assert [pin.name for pin in await client.pins()] == ["one"]
    assert [pin.name async for pin in client.iter_pins(name="o")] == ["one"]
    for sign in (partial(client.signed_url, HELLO_CID), client.signed_upload_url):
        with pytest.raises(UnsupportedError, match="ListingProvider makes no signed links"):
            await sign(expires=5)
    for filters in ({"cid": HELLO_CID}, {"keyvalues": {"a": 1}}, {"since": 1}, {"until": 1}):
        with pytest.raises(UnsupportedError, match="can only list pins by name; leave the other"):
            client.iter_pins(**filters)
    pin = await provider.pin(HELLO_CID, PinInfo(name="two"))
    assert pin == Pin(id="1", cid=HELLO_CID, name="two")


async def test_pins_that_can_be_found_can_be_listed():
    class AsyncFindingProvider(AsyncDictProvider):
        async def find_pins(self, pin_filter, *, limit=None):
            yield Pin(id="1", cid=HELLO_CID, name=pin_filter.name)

    provider = AsyncFindingProvider()
    assert provider.supports("list_pins")
    assert [pin.name for pin in await AsyncClient(provider).pins(name="a")] == ["a"]


async def test_a_provider_without_add_stores_nothing():
    class ReadOnly(AsyncDictProvider):
        add = AsyncBaseProvider.add

    provider = ReadOnly()
    assert not any(map(provider.supports, ("add", "put_json", "put_file", "add_directory")))
    with pytest.raises(UnsupportedError, match=r"^ReadOnly cannot store new content, only pin"):
        await AsyncClient(provider).store([1])
    with pytest.raises(UnsupportedError, match=r"^ReadOnly cannot store new content, only pin"):
        await AsyncClient(provider).upload(".")

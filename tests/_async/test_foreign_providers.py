"""Classes of other people, which have the methods of the contract, and perhaps some more."""

from types import SimpleNamespace

import pytest
from examples.logging_provider import AsyncLoggingProvider
from examples.xor_provider import PREFIX, AsyncXORProvider, Key

from holdfast import AsyncClient, AsyncLocalProvider, ClientConfig, Pin, compute_cid
from holdfast.errors import UnsupportedError
from holdfast.records import Added, Entry

KEY = b"a secret that is no secret"
SMALL = b"hello world\n"


class AsyncForeign:
    """The contract over a dictionary; `stat` and `pin` besides, and names that we use as well."""

    require = "a word of its own"

    def __init__(self):
        self.content = {}
        self.calls = []

    async def put_json(self, text, *, name):
        return await self._put(text.encode())

    async def put_file(self, source, *, name, progress=None):
        return await self._put(b"".join(source.chunks()))

    async def _put(self, data):
        cid = compute_cid(data)
        self.content[cid] = data
        return cid

    async def get_json(self, cid):
        return self.content[cid].decode()

    async def get_file(self, cid, *, to=None, progress=None):
        return SimpleNamespace(read=lambda: self.content[cid])

    async def delete(self, cid):
        del self.content[cid]

    async def test_authentication(self):
        self.calls.append("test_authentication")

    async def aclose(self):
        self.calls.append("close")

    async def stat(self, cid):
        return Entry(name="", cid=cid, kind="file", size=len(self.content[cid]))

    # Names of ours with other meanings

    def put(self, key):
        raise AssertionError("this is no method of a provider")

    call = refusal = stored = place_at = check_open = release = import_content = put


async def test_a_foreign_provider_is_used_by_the_methods_of_the_contract():
    provider = AsyncForeign()
    client = AsyncClient(provider)
    assert client.provider is provider
    record = await client.upload(SMALL)
    assert record == type(record)(cid=record.cid, timestamp=record.timestamp, size=len(SMALL))
    assert (await client.download(record.cid)).read() == SMALL
    assert (await client.stat(record.cid)).size == len(SMALL)
    assert await client.retrieve((await client.store([1])).cid) == "[1]"
    assert await client.revoke(record.cid)
    assert await client.test_connection()
    for call in (client.pins, lambda: client.update(record.cid, name="x")):
        with pytest.raises(UnsupportedError, match=r"^(Async)?Foreign can"):
            await call()
    for call in (
        lambda: client.upload(SMALL, keyvalues={"a": 1}),
        lambda: client.download(record.cid, max_bytes=5),
        lambda: client.download_folder(record.cid, "nowhere"),
        lambda: client.open(record.cid),
    ):
        with pytest.raises(UnsupportedError, match=r"^(Async)?Foreign "):
            await call()
    with pytest.raises(UnsupportedError):
        client.with_options(verify=False)
    assert provider.calls == ["test_authentication"]


async def test_a_foreign_provider_has_what_it_has_methods_for(tmp_path):
    class AsyncOld(AsyncForeign):
        supports = frozenset({"json", "files"})  # a name of its own, which means something else

        async def list_pins(self, *, name=None, limit=None):
            return [Pin(id=cid, cid=cid, name="old") for cid in self.content]

        def url(self, cid):
            return f"old://{cid}"

    client = AsyncClient(AsyncOld())
    cid = (await client.upload(SMALL, name="a.txt")).cid
    assert await client.pins() == [Pin(id=cid, cid=cid, name="old")]
    assert client.url(cid) == f"old://{cid}"
    with pytest.raises(UnsupportedError, match="Old cannot open files in parts; use"):
        await client.open(cid)
    with pytest.raises(UnsupportedError, match="Old cannot store directories; upload the"):
        await client.upload(tmp_path)


async def test_a_foreign_provider_with_the_primitive_is_used_by_it():
    class AsyncModern(AsyncForeign):
        takes = ()  # says that its `add` is ours; what it takes, it decides itself

        async def add(self, content, info, call, progress):
            self.calls.append((call.operation, info.keyvalues))
            return Added(cid=await self._put(b"".join(content.chunks())))

    provider = AsyncModern()
    record = await AsyncClient(provider).upload(SMALL, keyvalues={"a": 1})
    assert provider.calls == [("upload", {"a": 1})]
    assert provider.content[record.cid] == SMALL


async def test_an_add_with_another_meaning_is_not_called():
    class AsyncLibrary(AsyncForeign):
        def add(self, path):
            raise AssertionError("this is no method of a provider")

    provider = AsyncLibrary()
    record = await AsyncClient(provider).upload(SMALL)
    assert provider.content[record.cid] == SMALL
    with pytest.raises(
        TypeError, match=r"a wrapper needs an (Async)?BaseProvider, not (Async)?Lib"
    ):
        AsyncLoggingProvider(provider)


async def test_copies_to_and_from_a_foreign_provider(tmp_path):
    foreign = AsyncClient(AsyncForeign())
    provider = AsyncXORProvider(AsyncLocalProvider(ClientConfig(path=tmp_path)), KEY)
    client = AsyncClient(provider)
    cid = (await client.upload(SMALL)).cid
    assert (await client.copy(cid, to=foreign)).how == "upload"
    stored = (await foreign.download(cid)).read()
    assert Key(KEY).xor(stored[PREFIX:], stored[:PREFIX], 0) == SMALL
    with pytest.raises(UnsupportedError, match="Foreign cannot send content block by block"):
        await foreign.copy((await foreign.upload(b"other")).cid, to=client)
    await provider.aclose()

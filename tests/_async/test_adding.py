"""What a client passes to providers, with and without `add`."""

import pytest

from holdfast import AsyncClient, AsyncLocalProvider, ClientConfig
from holdfast.errors import UnsupportedError
from tests._async.spec_only import AsyncSpecOnly


class AsyncOverriding(AsyncLocalProvider):
    """A provider of ours with `add` overridden, through which everything is stored."""

    stored = 0

    async def add(self, content, info, call, progress):
        self.stored += 1
        return await super().add(content, info, call, progress)


async def test_a_provider_of_the_spec_gets_the_name():
    provider = AsyncSpecOnly()
    client = AsyncClient(provider)
    record = await client.store([1], name="one")
    assert (provider.name, record.duplicate) == ("one", None)
    record = await client.upload(b"hello", name="two")
    assert (provider.name, record.duplicate) == ("two", None)


async def test_a_provider_of_the_spec_keeps_no_key_values():
    client = AsyncClient(AsyncSpecOnly())
    with pytest.raises(UnsupportedError, match="SpecOnly keeps no key-values; leave keyvalues out"):
        await client.store([1], keyvalues={"a": 1})
    with pytest.raises(UnsupportedError, match="keeps no key-values"):
        await client.upload(b"hello", keyvalues={"a": 1})


@pytest.mark.parametrize("name", ["put_json", "put_file"])
async def test_a_class_that_overrides_the_spec_alone_is_refused_when_it_is_made(name):
    async def put(self, *_, **__): ...

    mixin = type("Mixin", (), {name: put})
    for bases, members in (((AsyncLocalProvider,), {name: put}), ((mixin, AsyncLocalProvider), {})):
        with pytest.raises(TypeError, match=f"^Own overrides {name}, .*: override add$"):
            type("Own", bases, members)
        type("Own", bases, {**members, "add": put})


async def test_a_subclass_that_overrides_add_is_called(tmp_path):
    provider = AsyncOverriding(ClientConfig(path=tmp_path))
    client = AsyncClient(provider)
    await client.store([1])
    await provider.put_json("[3]", name="three")
    assert provider.stored == 2
    await client.store([2], keyvalues={"a": "b"})
    pins = await client.pins()
    assert dict(pins[0].keyvalues) == {"a": "b"}
    await provider.aclose()


async def test_a_message_is_no_duplicate(tmp_path):
    async with await AsyncClient.init(path=tmp_path) as client:
        assert (await client.send("alice", "hi")).duplicate is False


async def test_the_second_time_is_a_duplicate(tmp_path):
    async with await AsyncClient.init(path=tmp_path) as client:
        assert [(await client.store([1])).duplicate for _ in range(2)] == [False, True]
        assert [(await client.upload(b"x")).duplicate for _ in range(2)] == [False, True]


@pytest.mark.parametrize("keyvalues", ["a", {1: "x"}, {"a": None}, {"a": []}])
async def test_key_values_are_texts_and_numbers(tmp_path, keyvalues):
    async with await AsyncClient.init(path=tmp_path) as client:
        with pytest.raises(TypeError, match="keyvalues"):
            await client.store([1], keyvalues=keyvalues)

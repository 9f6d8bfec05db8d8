# WARNING: this file is generated from tests/_async/test_adding.py
# by scripts/generate_sync.py. Change the original instead.
"""What a client passes to providers, with and without `add`."""

import pytest

from holdfast import Client, ClientConfig, LocalProvider
from holdfast.errors import UnsupportedError
from tests._sync.spec_only import SpecOnly


class Overriding(LocalProvider):
    """A provider of ours with `add` overridden, through which everything is stored."""

    stored = 0

    def add(self, content, info, call, progress):
        self.stored += 1
        return super().add(content, info, call, progress)


def test_a_provider_of_the_spec_gets_the_name():
    provider = SpecOnly()
    client = Client(provider)
    record = client.store([1], name="one")
    assert (provider.name, record.duplicate) == ("one", None)
    record = client.upload(b"hello", name="two")
    assert (provider.name, record.duplicate) == ("two", None)


def test_a_provider_of_the_spec_keeps_no_key_values():
    client = Client(SpecOnly())
    with pytest.raises(UnsupportedError, match="SpecOnly keeps no key-values; leave keyvalues out"):
        client.store([1], keyvalues={"a": 1})
    with pytest.raises(UnsupportedError, match="keeps no key-values"):
        client.upload(b"hello", keyvalues={"a": 1})


@pytest.mark.parametrize("name", ["put_json", "put_file"])
def test_a_class_that_overrides_the_spec_alone_is_refused_when_it_is_made(name):
    def put(self, *_, **__): ...

    mixin = type("Mixin", (), {name: put})
    for bases, members in (((LocalProvider,), {name: put}), ((mixin, LocalProvider), {})):
        with pytest.raises(TypeError, match=f"^Own overrides {name}, .*: override add$"):
            type("Own", bases, members)
        type("Own", bases, {**members, "add": put})


def test_a_subclass_that_overrides_add_is_called(tmp_path):
    provider = Overriding(ClientConfig(path=tmp_path))
    client = Client(provider)
    client.store([1])
    provider.put_json("[3]", name="three")
    assert provider.stored == 2
    client.store([2], keyvalues={"a": "b"})
    pins = client.pins()
    assert dict(pins[0].keyvalues) == {"a": "b"}
    provider.close()


def test_a_message_is_no_duplicate(tmp_path):
    with Client.init(path=tmp_path) as client:
        assert (client.send("alice", "hi")).duplicate is False


def test_the_second_time_is_a_duplicate(tmp_path):
    with Client.init(path=tmp_path) as client:
        assert [(client.store([1])).duplicate for _ in range(2)] == [False, True]
        assert [(client.upload(b"x")).duplicate for _ in range(2)] == [False, True]


@pytest.mark.parametrize("keyvalues", ["a", {1: "x"}, {"a": None}, {"a": []}])
def test_key_values_are_texts_and_numbers(tmp_path, keyvalues):
    with Client.init(path=tmp_path) as client:
        with pytest.raises(TypeError, match="keyvalues"):
            client.store([1], keyvalues=keyvalues)

"""Providers by name: the built-in ones, and those that other packages bring."""

import pytest

from tests.commands import install_provider
from tests.programs import start_program

PACKAGE = """
from holdfast import Blob

class Memory:
    @classmethod
    def from_config(cls, config):
        provider = cls()
        provider.options = dict(config.provider_options)
        return provider

    def put_json(self, text, *, name): return "bafkqaaa"
    def get_json(self, cid): return self.options
    def put_file(self, source, *, name, progress=None): return "bafkqaaa"
    def get_file(self, cid, *, to=None, progress=None): return Blob(b"")
    def delete(self, cid): pass
    def test_authentication(self): pass
    def close(self): print("closed")

class Broken:
    pass
"""

ENTRY_POINTS = """[holdfast.providers]
memory = memory_provider:Memory
broken = memory_provider:Broken
"""


@pytest.fixture
def installed(tmp_path):
    """A folder as pip would leave it: a module, and its metadata."""
    install_provider(tmp_path, "memory_provider", PACKAGE)
    (tmp_path / "memory_provider-1.dist-info/entry_points.txt").write_text(ENTRY_POINTS)

    def run(code):
        prefix = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nfrom holdfast import Client\n"
        return start_program(prefix + code).communicate()

    return run


@pytest.mark.slow
def test_an_installed_provider_is_found_by_its_name(installed):
    output, errors = installed(
        "with Client.init(provider='memory', provider_options={'a': 1}) as client:\n"
        "    print(client.store([1]).cid, client.retrieve('bafkqaaa'))"
    )
    assert output == "bafkqaaa {'a': 1}\nclosed\n", errors
    _, errors = installed("Client.init(provider='memry')")
    *_, last, note = errors.splitlines()
    assert last.startswith("holdfast.errors.ConfigError: unknown provider 'memry'")
    assert "memory" in last
    assert "pinning" in last
    assert note == "did you mean 'memory'?"
    _, errors = installed("Client.init(provider='broken')")
    assert "has no from_config(config)" in errors.splitlines()[-1]

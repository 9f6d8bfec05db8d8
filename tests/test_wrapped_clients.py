"""Providers that change content, below fsspec and the commands; the length of the examples."""

import ast

import pytest
from examples.xor_provider import PREFIX, Key

from holdfast import Client
from holdfast.filesystem import HoldfastFileSystem
from tests.commands import install_provider
from tests.content import make_folder
from tests.folder_dags import on_disk
from tests.tus import random_bytes

KEY = b"a secret that is no secret"
LARGE = random_bytes(1_000_001)
TREE = {"a.csv": b"x,y\n1,2\n", "sub": None, "sub/large.bin": LARGE}

PROVIDER = """
from examples.xor_provider import AsyncXORProvider, XORProvider
from holdfast import AsyncLocalProvider, LocalProvider

class Provider(XORProvider):
    @classmethod
    def from_config(cls, config):
        return cls(LocalProvider(config), b"a secret that is no secret")

class AsyncProvider(AsyncXORProvider):
    @classmethod
    def from_config(cls, config):
        return cls(AsyncLocalProvider(config), b"a secret that is no secret")
"""


@pytest.fixture
def installed(tmp_path, pytestconfig):
    """The folder in which a provider that changes content is installed as ``scrambled``."""
    site = tmp_path / "site"
    install_provider(site, "scrambled", PROVIDER)
    points = site / "scrambled-1.dist-info/entry_points.txt"
    points.write_text(
        "[holdfast.providers]\nscrambled = scrambled:Provider\n"
        "[holdfast.async_providers]\nscrambled = scrambled:AsyncProvider\n"
    )
    (site / "examples").symlink_to(pytestconfig.rootpath / "examples")
    return site


@pytest.fixture
def folder(tmp_path):
    return make_folder(tmp_path / "up", TREE)


def plain(stored):
    return Key(KEY).xor(stored[PREFIX:], stored[:PREFIX], 0)


@pytest.mark.parametrize(("name", "limit"), [("logging", 20), ("xor", 120), ("mirror", 120)])
def test_the_examples_are_short_for_each_colour(pytestconfig, name, limit):
    text = (pytestconfig.rootpath / f"examples/{name}_provider.py").read_text()
    classes = [node for node in ast.parse(text).body if isinstance(node, ast.ClassDef)]
    lines = {node.name: node.end_lineno - node.lineno + 3 for node in classes}  # two are empty
    both = [kind for kind in lines if f"Async{kind}" in lines]
    everything = len(text.splitlines())
    assert both
    assert everything - sum(lines[kind] for kind in both) <= limit
    assert everything - sum(lines[f"Async{kind}"] for kind in both) <= limit


def test_a_file_system_has_plain_content_and_sizes(installed, tmp_path, folder, monkeypatch):
    monkeypatch.syspath_prepend(installed)
    fs = HoldfastFileSystem(
        provider="scrambled", path=str(tmp_path / "store"), skip_instance_cache=True
    )
    fs.put(f"{folder}/", "", recursive=True)
    cid = fs.cid
    assert fs.cat_file(f"{cid}/a.csv") == TREE["a.csv"]
    assert fs.info(f"{cid}/a.csv")["size"] == len(TREE["a.csv"])
    assert fs.size(f"{cid}/sub/large.bin") == len(LARGE)
    listed = {info["name"].partition("/")[2]: info["size"] for info in fs.ls(cid)}
    assert listed == {"a.csv": len(TREE["a.csv"]), "sub": 0}
    assert fs.du(cid) == len(TREE["a.csv"]) + len(LARGE)
    assert fs.cat_file(f"{cid}/sub/large.bin", start=500_000, end=500_010) == LARGE[500_000:500_010]
    assert fs.cat_file(f"{cid}/sub/large.bin", start=-7) == LARGE[-7:]
    with fs.open(f"{cid}/sub/large.bin") as file:
        assert file.size == len(LARGE)
        file.seek(900_000)
        assert file.read() == LARGE[900_000:]
    fs.get(cid, str(tmp_path / "down"), recursive=True)
    assert on_disk(tmp_path / "down") == TREE
    with fs.transaction:
        fs.pipe_file("b.csv", b"5,6\n")
        fs.cp_file(f"{cid}/a.csv", "a.csv")
    assert fs.cat_file(f"{fs.cid}/a.csv") == TREE["a.csv"]
    assert fs.cat_file(f"{fs.cid}/b.csv") == b"5,6\n"
    with Client.init(path=tmp_path / "store") as inner:
        assert plain(inner.download(f"{cid}/a.csv").read()) == TREE["a.csv"]

"""Providers that change content, below fsspec and the commands, and in processes that end."""

import ast
import json
import signal
import subprocess
import sys
from contextlib import closing
from dataclasses import replace

import pytest
from examples.mirror_provider import AsyncMirror
from examples.xor_provider import PREFIX, AsyncXORProvider, Key, XORProvider

from holdfast import AsyncClient, AsyncLocalProvider, Client, ClientConfig, PinProvider, compute_cid
from holdfast.filesystem import HoldfastFileSystem
from holdfast.testing import ScriptedServer, forward_to, running_node
from tests.commands import Commands, install_provider
from tests.content import stream
from tests.folder_dags import on_disk
from tests.forwarders import CountingProxy
from tests.node_process import NodeProcess
from tests.support import wait_until
from tests.tus import LEGACY, random_bytes

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
    top = tmp_path / "up"
    for name, content in TREE.items():
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir() if content is None else path.write_bytes(content)
    return top


def plain(stored):
    return Key(KEY).xor(stored[PREFIX:], stored[:PREFIX], 0)


@pytest.mark.parametrize(("name", "limit"), [("logging", 20), ("xor", 120), ("mirror", 120)])
def test_the_examples_are_short_for_each_colour(pytestconfig, name, limit):
    text = (pytestconfig.rootpath / f"examples/{name}_provider.py").read_text()
    classes = [node for node in ast.parse(text).body if isinstance(node, ast.ClassDef)]
    lines = {node.name: node.end_lineno - node.lineno + 3 for node in classes}  # two are empty
    both = [each for each in lines if f"Async{each}" in lines]
    everything = len(text.splitlines())
    assert both
    assert everything - sum(lines[each] for each in both) <= limit
    assert everything - sum(lines[f"Async{each}"] for each in both) <= limit


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


@pytest.mark.slow
def test_commands_show_plain_content_and_copy_what_is_stored(installed, tmp_path, folder):
    commands = Commands(tmp_path, PYTHONPATH=str(installed))
    commands.write_user_file(
        f'use = "scrambled"\n[connections.scrambled]\nprovider = "scrambled"\n'
        f'path = "{tmp_path / "one"}"\n'
        f'[connections.other]\nprovider = "scrambled"\npath = "{tmp_path / "two"}"\n'
        f'[connections.same]\nprovider = "local"\npath = "{tmp_path / "one"}"\n'
    )
    uploaded = commands.json("upload", folder)
    cid = uploaded["cid"]
    size = len(TREE["a.csv"]) + len(LARGE)
    assert uploaded["size"] == size
    assert commands.text("cat", f"{cid}/a.csv") == "x,y\n1,2"
    entry = commands.json("ls", "--long", f"{cid}/sub")
    assert (entry["name"], entry["size"]) == ("large.bin", len(LARGE))
    assert commands.json("info", f"{cid}/sub/large.bin")["size"] == len(LARGE)
    commands.text("get", cid, "down")
    assert on_disk(commands.folder / "down") == TREE
    assert commands.run("copy", "--from", "scrambled", "--to", "other", cid).returncode == 0
    assert commands.text("cat", f"{cid}/a.csv", "--use", "other") == "x,y\n1,2"
    with Client.init(path=tmp_path / "two") as inner:
        assert plain(inner.download(f"{cid}/sub/large.bin").read()) == LARGE
        inner.revoke(cid)
    assert commands.failure("copy", "--from", "scrambled", "--to", "same", cid)[0] != 0
    assert commands.run("backup", "pins.car").returncode == 0
    assert commands.run("restore", "pins.car", "--use", "other").returncode == 0
    assert commands.text("cat", f"{cid}/a.csv", "--use", "other") == "x,y\n1,2"


async def test_async_iterables_are_read_once(tmp_path):
    async def pieces():
        for at in range(0, len(LARGE), 100_000):
            yield LARGE[at : at + 100_000]

    members = [AsyncLocalProvider(ClientConfig(path=tmp_path / name)) for name in ("one", "two")]
    provider = AsyncXORProvider(AsyncMirror(*members), KEY)
    record = await AsyncClient(provider).upload(pieces())
    assert record.size == len(LARGE)
    for member in members:
        assert plain((await AsyncClient(member).download(record.cid)).read()) == LARGE
    await provider.aclose()


# Processes that are killed


def kills(test):
    """Mark a test that kills processes."""
    for mark in (
        pytest.mark.slow,
        pytest.mark.timeout(300),
        pytest.mark.skipif(sys.platform == "win32", reason="needs signals"),
        pytest.mark.parametrize("colour", ["blocking", "async"]),
    ):
        test = mark(test)
    return test


PIECE = 48 << 20
SIZE = 2 * PIECE + 5_000_000  # more than a form may have
HEADERS = 1 << 14  # bytes of all headers, and more

UPLOAD = """
import asyncio, json, os, signal, sys
from examples.xor_provider import AsyncXORProvider, XORProvider
from holdfast import AsyncClient, Client, ClientConfig
from holdfast.providers import AsyncPinataProvider, PinataProvider

url, token, path, colour, stop_at = sys.argv[1:]
config = ClientConfig(
    provider="pinata", provider_token=token, pin_api_url=url, gateway_url=url + "/ipfs"
)
KEY = b"a secret that is no secret"

def progress(done, total):
    assert total == os.path.getsize(path), "the plain size"
    if int(stop_at) and done > int(stop_at):
        os.kill(os.getpid(), signal.SIGKILL)

async def upload():
    provider = AsyncXORProvider(AsyncPinataProvider(config), KEY)
    record = await AsyncClient(provider).upload(path, progress=progress)
    await provider.aclose()
    return record

if colour == "async":
    record = asyncio.run(upload())
else:
    provider = XORProvider(PinataProvider(config), KEY)
    record = Client(provider).upload(path, progress=progress)
    provider.close()
print(json.dumps({"cid": record.cid, "size": record.size}))
"""


def run_upload(proxy, path, colour, stop_at, environment):
    arguments = [proxy.url, "token-0123456789", str(path), colour, str(stop_at)]
    return subprocess.run(  # noqa: S603
        [sys.executable, "-c", UPLOAD, *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )


@kills
def test_a_killed_upload_continues_with_the_same_bytes(tmp_path, colour, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    path = tmp_path / "large.bin"
    with path.open("wb") as file:
        file.writelines(stream(f"xor {colour}", SIZE))
    with closing(NodeProcess(tmp_path / "store")) as node, CountingProxy(node.api_url) as proxy:
        for stop_at in (20 << 20, PIECE + (20 << 20)):
            process = run_upload(proxy, path, colour, stop_at, None)
            assert process.returncode == -signal.SIGKILL
        other = "async" if colour == "blocking" else "blocking"
        process = run_upload(proxy, path, other, 0, None)
        assert process.returncode == 0
        result = json.loads(process.stdout)
        assert result["size"] == SIZE
        # Each kill may lose what it had sent of one piece.
        assert proxy.sent <= SIZE + PREFIX + 2 * (21 << 20) + 3 * HEADERS
        config = ClientConfig(
            provider="pinning",
            provider_token=node.token,
            pin_api_url=node.api_url,
            gateway_url=f"{node.api_url}/ipfs",
        )
        with Client.init(config) as inner:
            stored = inner.download(result["cid"]).read()
        assert compute_cid(stored, profile=LEGACY) == result["cid"]
        assert plain(stored) == path.read_bytes()


DOWNLOAD = """
import asyncio, sys
from examples.xor_provider import AsyncXORProvider, XORProvider
from holdfast import AsyncClient, AsyncPinProvider, Client, ClientConfig, PinProvider

url, token, cache, cid, target, colour, method = sys.argv[1:]
config = ClientConfig(
    provider="pinning", provider_token=token, pin_api_url=url, gateway_url=url + "/ipfs",
    cache_path=cache,
)
KEY = b"a secret that is no secret"

async def download():
    provider = AsyncXORProvider(AsyncPinProvider(config), KEY)
    await getattr(AsyncClient(provider), method)(cid, to=target)

if colour == "async":
    asyncio.run(download())
else:
    getattr(Client(XORProvider(PinProvider(config), KEY)), method)(cid, to=target)
"""


class Gateway:
    """A proxy of a node that counts the bytes of its replies, and stalls after `limit` bytes."""

    def __init__(self, node):
        self._forward = forward_to(node.api_url)
        self.fetched = 0
        self.limit = None
        self.server = ScriptedServer(self._reply)

    def _reply(self, request):
        reply = self._forward(request)
        left = None if self.limit is None else max(0, self.limit - self.fetched)
        is_node = len(reply.body) < 1 << 14  # of a tree, by which bytes are verified
        if left is not None and len(reply.body) >= left and not is_node:
            self.fetched += left
            return replace(reply, cut=left, ending="stall")
        self.fetched += len(reply.body)
        return reply


@pytest.fixture
def gateway(tmp_path):
    with running_node(tmp_path / "node") as node:
        gateway = Gateway(node)
        gateway.node = node
        with gateway.server:
            yield gateway


def kill_download(gateway, tmp_path, arguments, until):
    """Start a download with `arguments`: the CID, the colour and the method; kill it then."""
    cid, *rest = arguments
    arguments = [gateway.server.url, gateway.node.token, str(tmp_path / "cache"), cid]
    arguments += [str(tmp_path / "copy"), *rest]
    process = subprocess.Popen([sys.executable, "-c", DOWNLOAD, *arguments])  # noqa: S603
    try:
        wait_until(until)
    finally:
        process.kill()
        process.wait()
    assert not (tmp_path / "copy").exists()


def wrapped_client(gateway, tmp_path):
    """A client that reads through the gateway, which no longer stalls."""
    gateway.limit = None
    gateway.fetched = 0
    config = gateway.node.config.with_options(
        pin_api_url=gateway.server.url,
        gateway_url=f"{gateway.server.url}/ipfs",
        cache_path=tmp_path / "cache",
    )
    return Client(XORProvider(PinProvider(config), KEY))


@kills
def test_a_killed_download_resumes_from_its_verified_bytes(gateway, tmp_path, colour):
    data = random_bytes(20_000_000, colour)
    with Client.init(gateway.node.config) as inner:
        cid = Client(XORProvider(inner.provider, KEY)).upload(data).cid
    gateway.limit = 15_000_000
    cache = tmp_path / "cache"

    def is_enough():
        return any(path.stat().st_size >= 10_000_000 for path in cache.rglob("*.part"))

    kill_download(gateway, tmp_path, (cid, colour, "download"), is_enough)
    client = wrapped_client(gateway, tmp_path)
    assert client.download(cid, to=tmp_path / "copy").size == len(data)
    assert (tmp_path / "copy").read_bytes() == data
    assert gateway.fetched < 12_000_000
    assert not any(cache.rglob("*.part"))
    client.provider.close()


@kills
@pytest.mark.parametrize("count", [3, 60], ids=["a few large files", "many small files"])
def test_a_killed_folder_keeps_its_finished_files(gateway, tmp_path, colour, count):
    size = 6_000_000 // count
    content = {f"{number}.bin": random_bytes(size, f"{colour} {number}") for number in range(count)}
    top = tmp_path / "up"
    top.mkdir()
    for name, data in content.items():
        (top / name).write_bytes(data)
    with Client.init(gateway.node.config) as inner:
        cid = Client(XORProvider(inner.provider, KEY)).upload(top).cid
    gateway.limit = 4_500_000

    def finished():
        return [*tmp_path.glob(".copy.*/files/*")]

    def is_enough():
        return gateway.fetched >= gateway.limit and len(finished()) >= max(1, count // 4)

    kill_download(gateway, tmp_path, (cid, colour, "download_folder"), is_enough)
    done = {path.name: path for path in finished()}
    assert 0 < len(done) < count
    assert {name: path.read_bytes() for name, path in done.items()} == {
        name: content[name] for name in done
    }
    # One that was changed meanwhile is made again.
    changed = min(done)
    done[changed].write_bytes(b"changed")
    client = wrapped_client(gateway, tmp_path)
    client.download_folder(cid, tmp_path / "copy")
    assert on_disk(tmp_path / "copy") == content
    assert gateway.fetched < 6_000_000 - (len(done) - 1) * size + 200_000
    assert sorted(path.name for path in tmp_path.glob(".copy*")) == []
    client.provider.close()

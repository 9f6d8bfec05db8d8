# WARNING: this file is generated from tests/_async/test_read_through.py
# by scripts/generate_sync.py. Change the original instead.
"""The embedded store that reads through gateways what it lacks, and `pin`, which keeps it."""

import json
import os
from contextlib import contextmanager
from dataclasses import replace

import pytest

from holdfast import Client, ClientConfig, LocalProvider, PinProvider
from holdfast.cli.run import config_of
from holdfast.config.settings_files import gather
from holdfast.content import dag_cbor
from holdfast.content.car import write_car
from holdfast.content.cid import CID, DAG_CBOR
from holdfast.content.profiles import UNIXFS_V1_2025
from holdfast.errors import (
    ClientError,
    ConfigError,
    NetworkError,
    NotFoundError,
    ProviderError,
    VerificationError,
)
from holdfast.hints import hint_of
from holdfast.repository import Repository
from holdfast.sources.sources import Source
from holdfast.testing import ProviderTests, Scripted
from tests._sync.made_provider import Made
from tests._sync.parallel import in_parallel
from tests.content import stream
from tests.contract import OnTheNode
from tests.dags import Dag
from tests.disks import fill_up
from tests.forwarders import Forwarder
from tests.gateways import gateway, pin_tree
from tests.stores import UNLISTED
from tests.support import NOBODY_HAS

MESSAGE = {"recipientId": "a", "payload": "hi", "timestamp": 1}
LARGE = b"".join(stream("read through", 2_600_000))
FILES = {"large.bin": LARGE, "sub/note.json": json.dumps(MESSAGE).encode(), "sub/x": b"x" * 300_000}


@pytest.fixture(scope="module")
def tree(node, tmp_path_factory):
    """A folder that the node has; its CID."""
    folder = tmp_path_factory.mktemp("tree")
    for name, data in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(data)
    return pin_tree(node, folder, UNIXFS_V1_2025)


@pytest.fixture
def store(memory_folder):
    return memory_folder / "store"


@pytest.fixture
def client(node, store):
    with Client.init(path=store, gateway_url=node.gateway_url) as client:
        yield client


def count(client):
    """The number of blocks in the store of a client."""
    with client.provider.repository._database.reading() as connection:
        return connection.execute("SELECT count(*) FROM blocks").fetchone()[0]


def readings(client, tree, folder):
    """Each call that reads, with what it returns for a reader that has all of `tree`."""

    def open_part():
        with client.open(f"{tree}/large.bin") as file:
            file.seek(1_200_000)
            return file.read(1_000_000)

    def names():
        return [entry.name for entry in client.entries(tree, details=True)]

    def written():
        to = client.download_folder(tree, folder / os.urandom(4).hex())
        return {name: (to / name).read_bytes() for name in FILES}

    def exported():
        return len([piece for piece in client.provider.export_archive(tree)]) > 0

    def copied():
        with Client.init(path=folder / os.urandom(4).hex()) as other:
            client.copy(tree, to=other)
            return (other.download(f"{tree}/large.bin")).read()

    return {
        "retrieve": (lambda: client.retrieve(f"{tree}/sub/note.json"), MESSAGE),
        "receive": (lambda: client.receive(f"{tree}/sub/note.json"), MESSAGE),
        "download": (lambda: client.download(f"{tree}/large.bin"), LARGE),
        "download_folder": (written, FILES),
        "open": (open_part, LARGE[1_200_000:2_200_000]),
        "entries": (names, ["large.bin", "sub"]),
        "stat": (lambda: client.stat(f"{tree}/large.bin"), len(LARGE)),
        "export": (exported, True),
        "copy": (copied, LARGE),
    }


def plain(name, value):
    """A result in the form of `readings`."""
    if name == "receive":
        return value.to_dict()
    if name == "download":
        return value.read()
    return value.size if name == "stat" else value


def drop_part(client, tree):
    """Pin the tree, and remove every second block, but not the root."""
    client.pin(tree)
    client.revoke(tree)
    with client.provider.repository._database.writing() as connection:
        root = connection.execute(
            "SELECT id FROM blocks WHERE key = ?", (CID.parse(tree).key,)
        ).fetchone()[0]
        connection.execute("DELETE FROM blocks WHERE id % 2 = 0 AND id != ?", (root,))


@pytest.mark.parametrize("has", ["nothing", "a part", "all"])
def test_every_call_that_reads(client, tree, tmp_path, has, server):
    if has == "a part":
        drop_part(client, tree)
    elif has == "all":
        client.pin(tree)
    before = count(client)
    assert (before == 0) == (has == "nothing")
    reading = client if has != "all" else client.with_options(gateway_url=server.url)
    for name, (call, expected) in readings(reading, tree, tmp_path).items():
        assert plain(name, call()) == expected, name
    assert (count(client), server.connections) == (before, 0)  # reads keep nothing
    with pytest.raises(NotFoundError, match="there is no 'nothing' in"):
        client.retrieve(f"{tree}/nothing")


@pytest.mark.parametrize("has", ["nothing", "a part"])
def test_a_gateway_that_lies_is_caught(client, node, tree, tmp_path, has):
    if has == "a part":
        drop_part(client, tree)
    before = count(client)

    def lie(kind, request, reply):
        return replace(reply, body=reply.body[:-9] + bytes(9))

    with gateway(node, lie) as liar:
        lied = client.with_options(gateway_url=f"{liar.url}/ipfs", retries={"attempts": 1})
        calls = readings(lied, tree, tmp_path)
        for name in ("download", "download_folder", "open", "copy"):
            with pytest.raises(VerificationError):
                calls[name][0]()
        with pytest.raises(VerificationError):
            lied.pin(tree)
    assert client.pins() == []
    assert count(client) >= before
    # Nothing that was not verified is in the store, and an honest gateway has the rest.
    client.pin(tree)
    assert {damage.what for damage in client.provider.repository.check()} <= {UNLISTED}
    assert (client.download(f"{tree}/large.bin")).read() == LARGE


def test_a_pin_keeps_all_of_it(client, node, tree, server):
    steps = []
    pin = client.pin(tree, name="mine", keyvalues={"a": 1}, progress=steps.append)
    assert (pin.cid, pin.name, pin.state) == (tree, "mine", "pinned")
    for numbers in ([step.bytes for step in steps], [step.blocks for step in steps]):
        assert numbers == sorted(numbers)
    assert steps[-1].bytes > len(LARGE)
    assert steps[-1].blocks == count(client)
    assert {step.state for step in steps} == {"pinning"}
    offline = client.with_options(gateway_url=server.url)
    assert (offline.download(f"{tree}/large.bin")).read() == LARGE
    # The second time, nobody is asked.
    assert (offline.pin(tree, name="other")).name == "other"
    assert server.connections == 0
    assert list(client.provider.repository.check()) == []


def test_what_no_gateway_has_is_not_pinned(client):
    with pytest.raises(NotFoundError):
        client.pin(NOBODY_HAS)
    assert client.pins() == []


def test_a_pin_has_no_total_time_out(client, node, tree):
    """Only one reply may not take long."""
    slow = client.with_options(timeouts={"connect": 9, "read": 9, "write": 9, "total": 0.001})
    with pytest.raises(NetworkError):
        slow.retrieve(f"{tree}/sub/note.json")
    assert (slow.pin(tree)).state == "pinned"


@contextmanager
def breaking(node, after):
    """A gateway without archives that fails after some blocks; and the blocks it sent."""
    sent = []

    def change(kind, request, reply):
        if kind != "raw" or len(sent) >= after:
            return Scripted(status=500)
        sent.append(request.target)
        return reply

    with gateway(node, change, refuse=("car",)) as server:
        yield server, sent


def cid_in(target):
    return CID.parse(target.removeprefix("/ipfs/").partition("?")[0])


def test_a_pin_that_was_interrupted_continues(client, node, tree):
    with breaking(node, 4) as (server, first):
        options = {"gateway_url": f"{server.url}/ipfs", "retries": {"attempts": 1}}
        with pytest.raises(ProviderError):
            client.with_options(**options).pin(tree)
    assert client.pins() == []
    stored = [cid for cid in map(cid_in, first) if client.provider.repository.has(cid)]
    assert len(stored) >= 2
    with gateway(node, refuse=("car",)) as server:
        client.with_options(gateway_url=f"{server.url}/ipfs").pin(tree)
        assert not {cid_in(request.target) for request in server.requests} & {*stored}
    assert [pin.cid for pin in client.pins()] == [tree]


def test_a_collection_during_the_pin_removes_nothing(client, tree):
    removed = []

    def collect(_):
        removed.append(client.provider.repository.collect_garbage().blocks)

    client.pin(tree, progress=collect)
    assert removed
    assert sum(removed) == 0
    assert list(client.provider.repository.check()) == []


def test_an_error_of_the_progress_function_leaves_no_pin(client, tree):
    def fail(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        client.pin(tree, progress=fail)
    assert client.pins() == []
    assert count(client) > 0  # for the next call, until the garbage is collected
    assert client.provider.repository.collect_garbage().blocks > 0
    assert count(client) == 0
    client.pin(tree)


def test_a_full_disk_leaves_nothing_half_pinned(node, tree, small_disk):
    fill_up(small_disk, 2 << 20)
    with Client.init(path=small_disk / "store", gateway_url=node.gateway_url) as client:
        with pytest.raises((ClientError, OSError), match=r"(?i)space|room|full"):
            client.pin(tree)
        assert client.pins() == []
        assert (client.download(f"{tree}/sub/x")).read() == FILES["sub/x"]


def test_many_at_once(client, node, tree, store):
    """Readers, pins of the same tree, and a collection."""
    calls = [lambda: client.pin(tree)] * 4
    calls += [lambda: client.retrieve(f"{tree}/sub/note.json")] * 12
    calls += [lambda: client.entries(tree)] * 12
    results = in_parallel(calls)
    assert {pin.cid for pin in results[:4]} == {tree}
    assert [result for result in results[4:16] if result != MESSAGE] == []
    assert len(client.pins()) == 1


def test_options_that_belong_to_the_connections(client, server):
    with pytest.raises(ConfigError, match="with_options cannot change proxy"):
        client.with_options(proxy=server.url)
    with Client.init(path=client.config.path) as offline:
        assert offline.with_options(proxy=server.url).config.proxy is not None
        both = offline.with_options(gateway_url=server.url, proxy=server.url)
        assert both.config.reads_through
        with pytest.raises(ConfigError, match="with_options cannot change proxy"):
            offline.with_options(gateway_url=server.url)


# Which gateways are read through


class Recorder(Forwarder):
    """A proxy that counts who connects."""

    connections = 0

    def _forward(self, client):
        self.connections += 1
        client.close()


def assert_nothing_is_sent(client, tree, folder, names=None):
    """Call all that reads, or what `names` has, and `pin`: each names the remedy."""
    calls = readings(client, tree, folder)
    for call, _ in [calls[name] for name in names or calls]:
        with pytest.raises(NotFoundError) as caught:
            call()
        assert "gateway_url" in hint_of(caught.value).note
        assert "--gateway-url URL" in hint_of(caught.value).on_command_line
    with pytest.raises(NotFoundError) as caught:
        client.pin(tree)
    assert "gateway_url" in hint_of(caught.value).note
    assert "--gateway-url URL" in hint_of(caught.value).on_command_line


def test_without_a_gateway_nothing_is_sent(store, tree, tmp_path, monkeypatch):
    with Recorder(None) as proxy:
        for name in ("http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        for fields in ({"proxy": proxy.url}, {"trust_env": True}):
            with Client.init(path=store, **fields) as client:
                assert_nothing_is_sent(client, tree, tmp_path)
                assert client.url(tree) == f"ipfs://{tree}"
        assert proxy.connections == 0
        # It does record: with a gateway, the proxy is asked.
        fields = {"gateway_url": "http://a.example", "proxy": proxy.url, "retries": {"attempts": 1}}
        with Client.init(path=store, **fields) as client:
            with pytest.raises(NetworkError):
                client.retrieve(tree)
        assert proxy.connections > 0


LOCAL = {"provider": ("local", "--provider")}
WRONG = {
    "user": ("gateway_url = 'URL'\n", {}, "", {}),
    "user for pinning": ("provider = 'pinning'\ngateway_url = 'URL'\n", {}, "", LOCAL),
    "environment": ("", {"GATEWAY_URL": "URL"}, "", {}),
    "environment for kubo": ("", {"GATEWAY_URL": "URL", "PROVIDER": "kubo"}, "", LOCAL),
    "environment and user": ("provider = 'local'\n", {"GATEWAY_URL": "URL"}, "", {}),
    "user and environment": ("gateway_url = 'URL'\n", {"PROVIDER": "local"}, "", {}),
    "project": ("", {}, "gateway_url = 'URL'\n", {}),
    "project for local": ("", {}, "provider = 'local'\ngateway_url = 'URL'\n", {}),
    "project and user": ("provider = 'local'\n", {}, "gateway_url = 'URL'\n", LOCAL),
}
OTHERS = "use = 'a'\n[connections.a]\nprovider = 'kubo'\ngateway_url = 'URL'\n"
UNUSED = {
    "another connection": (OTHERS, {}, "", {"use": ("local", "--use")}),
    "beside a connection": (
        "[connections.b]\nprovider = 'local'\n",
        {"GATEWAY_URL": "URL", "PROVIDER": "local"},
        "gateway_url = 'URL'\n",
        {"use": ("b", "--use")},
    ),
}
RIGHT = {
    "flag": ("", {}, "", {"gateway_url": (["URL"], "--gateway-url")}),
    "user": ("provider = 'local'\ngateway_url = 'URL'\n", {}, "provider = 'local'\n", {}),
    "environment": ("", {"GATEWAY_URL": "URL", "PROVIDER": "local"}, "", LOCAL),
    "connection": (
        "[connections.b]\nprovider = 'local'\ngateway_url = 'URL'\n",
        {"PROVIDER": "kubo"},
        "",
        {"use": ("b", "--use")},
    ),
}


@pytest.fixture
def configure(home, monkeypatch):
    """A function: the configuration of a command for a case and an address."""

    def make(case, url):
        user, variables, project, flags = case
        for name, value in variables.items():
            monkeypatch.setenv(f"HOLDFAST_{name}", value.replace("URL", url))
        home.write_text(user.replace("URL", url))
        (home.parents[2] / "work/holdfast.toml").write_text(project.replace("URL", url))
        flags = {
            name: ([url] if value == ["URL"] else value, flag)
            for name, (value, flag) in flags.items()
        }
        return config_of(gather(flags))

    return make


@pytest.mark.parametrize("case", [*WRONG.values(), *UNUSED.values()], ids=[*WRONG, *UNUSED])
def test_gateways_of_others_are_for_links_only(configure, server, tree, case, store):
    config = configure(case, f"{server.url}/x")
    assert (config.provider, config.reads_through) == ("local", False)
    with Client.init(config, path=store) as client:
        assert_nothing_is_sent(client, tree, store.parent, ["retrieve", "entries", "open"])
        again = client.with_options(verify=False)
        with pytest.raises(NotFoundError):
            again.retrieve(tree)
        linked = f"{server.url}/x/{tree}" if case in WRONG.values() else f"ipfs://{tree}"
        assert (client.url(tree), again.url(tree)) == (linked, linked)
    assert server.connections == 0


@pytest.mark.parametrize("case", RIGHT.values(), ids=RIGHT)
def test_gateways_of_its_own_are_read_through(configure, node, tree, case, store):
    config = configure(case, node.gateway_url)
    with Client.init(config, path=store) as client:
        assert client.retrieve(f"{tree}/sub/note.json") == MESSAGE
        assert client.url(tree) == f"{node.gateway_url}/{tree}"


def test_the_rule_in_python(home, monkeypatch, node, tree, store):
    url, other = node.gateway_url, "http://127.0.0.1:9/ipfs"
    monkeypatch.setenv("HOLDFAST_GATEWAY_URL", other)
    home.write_text(f"[connections.b]\nprovider = 'local'\npath = '{store}'\n")
    kubo = ClientConfig(provider="kubo", gateway_url=other)
    for_links = [
        ClientConfig.from_env(),
        ClientConfig.from_env(provider="local"),
        kubo.with_options(provider="local"),
        kubo.with_options(verify=False).with_options(provider="local", verify=True),
        ClientConfig.of({"provider": "kubo", "gatewayUrl": other}, provider="local"),
        ClientConfig.of(ClientConfig.from_env(), cid_version=0),
    ]
    for config in for_links:
        assert (config.gateway_url, config.reads_through) == ((other,), False)
        assert ClientConfig(**config.to_dict()).reads_through is False
    own = [
        ClientConfig(gateway_url=url),
        ClientConfig.from_env(gateway_url=url),
        kubo.with_options(provider="local", gateway_url=url),
        ClientConfig.of({"gateway_url": url}, provider="local"),
    ]
    assert [config.reads_through for config in own] == [True] * 4
    with Client.connect("b", gateway_url=url) as client:
        assert client.retrieve(f"{tree}/sub/note.json") == MESSAGE
    monkeypatch.setenv("HOLDFAST_PROVIDER", "local")
    assert ClientConfig.from_env().reads_through


# The contract, and stores that cannot be written


class StoringOnTheNode(LocalProvider):
    """Stores on a node, through whose gateway the empty store reads. It lists no pins."""

    takes = (Source,)

    def supports(self, operation):
        is_of_pins = operation in {"find_pins", "list_pins", "update_pin", "pin"}
        return not is_of_pins and super().supports(operation)

    def __init__(self, config, node, **options):
        super().__init__(config, **options)
        self._storing = PinProvider(node.config)

    def add(self, content, info, call, progress, /):
        return self._storing.add(content, info, call, progress)

    def unpin(self, cid, call, /):
        self._storing.unpin(cid, call)

    def close(self):
        self._storing.close()
        super().close()


@pytest.mark.slow  # the quick tests are above
class TestReadThrough(OnTheNode, Made, ProviderTests):
    """The reading part of the contract."""

    @pytest.fixture(autouse=True)
    def folder(self, memory_folder):
        self.path = memory_folder / "store"

    def make(self, node):
        config = ClientConfig(path=self.path, gateway_url=node.gateway_url)
        return StoringOnTheNode(config, node)


def test_a_read_only_store_reads_through_and_pins_nothing(node, tree, store, read_only_disk):
    with Repository(store) as repository:
        repository.add(b"here", UNIXFS_V1_2025)
    read_only_disk(store)
    with gateway(node) as server:
        with Client.init(path=store, gateway_url=f"{server.url}/ipfs") as client:
            assert client.retrieve(f"{tree}/sub/note.json") == MESSAGE
            before = len(server.requests)
            with pytest.raises(OSError, match="read-only"):
                client.pin(tree)
            assert len(server.requests) == before  # nothing is fetched for nothing
            assert [pin.size for pin in client.pins()] == [4]


def test_a_path_goes_through_a_folder_into_a_value(node, client):
    """A gateway knows only the block of the value, as a whole."""
    dag = Dag()
    inner = dag.put(DAG_CBOR, dag_cbor.encode({"list": [0, {"deep": "yes"}]}))
    folder = dag.directory(value=inner)
    node.repository.import_car(write_car([folder], dag.blocks.items()))
    reader = Client.init(provider="gateway", gateway_url=node.gateway_url)
    with reader as gateways:
        for reading_client in (client, gateways):
            assert reading_client.retrieve(f"{folder}/value/list/1/deep") == "yes"
            for name in ("01", "2", "-1", "²", "9" * 5000, "deep"):
                with pytest.raises(NotFoundError, match="there is no '"):
                    reading_client.retrieve(f"{folder}/value/list/{name}")
    client.pin(str(folder))
    with Client.init(path=client.config.path) as alone:
        assert alone.retrieve(f"{folder}/value/list/1/deep") == "yes"

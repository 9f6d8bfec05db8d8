"""Commands that read public content: with the provider `gateway`, and with `local`."""

import signal

import pytest

from holdfast import Client
from holdfast.config.fields import FIELDS
from holdfast.content.profiles import UNIXFS_V1_2025
from holdfast.repository import Repository
from holdfast.testing import Scripted, ScriptedServer
from tests.content import stream
from tests.gateways import gateway, pin, pin_tree
from tests.support import NOBODY_HAS, TOKEN, wait_until
from tests.test_cli_tools import rows_of

TEXT = b'{"tide":"low"}'


@pytest.fixture(scope="module")
def folder(node, tmp_path_factory):
    """A folder that the node has; its CID."""
    path = tmp_path_factory.mktemp("folder") / "notes"
    (path / "sub").mkdir(parents=True)
    (path / "sub/a.json").write_bytes(TEXT)
    return pin_tree(node, path, UNIXFS_V1_2025)


def assert_reads(commands, folder, *flags):
    """Read what is public by all commands."""
    readings = {
        ("cat", f"{folder}/sub/a.json"): TEXT.decode(),
        ("get", f"{folder}/sub/a.json"): "a.json",
        ("get", folder, "copy"): "copy",
        ("ls", folder): "sub",
        ("retrieve", f"{folder}/sub/a.json", "--json"): '{"tide": "low"}',
    }
    for arguments, expected in readings.items():
        assert commands.text(*arguments, *flags) == expected
    assert (commands.folder / "a.json").read_bytes() == TEXT
    assert (commands.folder / "copy/sub/a.json").read_bytes() == TEXT
    assert commands.json("info", f"{folder}/sub/a.json", *flags)["size"] == len(TEXT)


def test_a_gateway_is_enough_to_read(commands, node, folder):
    flags = ("--gateway-url", node.gateway_url)
    assert_reads(commands, folder, *flags)
    assert commands.rows("list") == []
    code, lines = commands.failure("cat", f"{folder}/sub/a.json")
    assert (code, "--gateway-url URL" in lines[1]) == (10, True)
    code, lines = commands.failure("pin", folder)
    assert (code, "--gateway-url URL" in lines[1]) == (10, True)
    assert commands.text("pin", folder, "--name", "notes", *flags) == f"pinned {folder}"
    assert [row["name"] for row in commands.rows("list")] == ["notes"]
    assert commands.text("cat", f"{folder}/sub/a.json") == TEXT.decode()  # from the disk
    code, lines = commands.failure("pin", NOBODY_HAS, *flags)
    assert code == 10


def test_a_liar_is_caught(commands, node):
    cid = pin(node, b"the truth", UNIXFS_V1_2025)
    with ScriptedServer(lambda _: Scripted(body=b"no, truth")) as liar:
        for use in ("local", "gateway"):
            flags = ("--use", use, "--gateway-url", liar.url)
            code, lines = commands.failure("get", cid, "-o", "file", *flags)
            assert (code, "does not match the CID" in lines[0]) == (14, True), lines
    assert [path.name for path in commands.folder.iterdir()] == []


def test_the_provider_gateway_needs_no_configuration(commands, node, folder):
    flags = ("--use", "gateway", "--gateway-url", node.gateway_url)
    read = ("get", folder, "copy", *flags)
    assert commands.text(*read, HOLDFAST_PROVIDER_TOKEN=TOKEN) == "copy"
    assert commands.json("info", folder, *flags)["pins"] is None
    assert commands.text("test-connection", *flags) == "connected to 'gateway'"
    code, lines = commands.failure("pin", folder, *flags)
    assert (code, "only reads; to store or pin, use one of local" in lines[0]) == (3, True)
    assert not (commands.folder.parent / "data").exists()
    code, lines = commands.failure("login", "--provider", "gateway", stdin=TOKEN.encode())
    assert (code, "`holdfast config set provider gateway`" in lines[0]) == (2, True)
    assert commands.text("config", "set", "provider", "gateway")
    assert commands.text("cat", f"{folder}/sub/a.json", *flags[2:]) == TEXT.decode()
    assert "https://trustless-gateway.link/ipfs" in commands.text("config")


def test_where_it_is_read_and_who_pins_it_are_two_things(commands, node, folder):
    """The default connection is another provider: it pins, and the flag is for reads only."""
    commands.write_user_file(
        'use = "kubo"\n[connections.archive]\nprovider = "pinning"\n'
        f'pin_api_url = "{node.api_url}"\nprovider_token = "{node.token}"\n'
        'gateway_url = "http://127.0.0.1:9"\ngateway_token = "gateway-token-0123456789"\n'
    )
    with gateway(node) as server:
        flags = ("--gateway-url", f"{server.url}/ipfs")
        assert commands.text("get", folder, "copy", *flags, HOLDFAST_USE="archive") == "copy"
        headers = [name for request in server.requests for name in request.headers]
        assert server.requests
    assert not {"authorization", "x-pinata-gateway-token"} & {*headers}
    flags = ("--gateway-url", node.gateway_url)
    state = commands.text("pin", folder, *flags, HOLDFAST_USE="archive")
    assert state.endswith(folder)
    assert commands.rows("list", "--use", "local") == []
    assert commands.text("pin", folder, *flags, "--use", "local") == f"pinned {folder}"
    assert len(commands.rows("list", "--use", "local")) == 1


def test_status_and_connections_show_the_gateways(commands, node):
    assert "Gateways" not in rows_of(commands.text("status", HOLDFAST_GATEWAY_URL=node.api_url))
    rows = rows_of(commands.text("status", "--gateway-url", node.gateway_url))
    assert rows["Gateways"] == f"reads through {node.gateway_url}"
    commands.write_user_file(
        f'use = "a"\n[connections.a]\nprovider = "gateway"\ngateway_url = "{node.gateway_url}"\n'
        f'[connections.b]\nprovider = "local"\ngateway_url = "{node.gateway_url}"\n'
    )
    facts = commands.json("status")
    assert (facts["connected"], facts["address"]) == (True, node.gateway_url)
    assert facts["readsThrough"] == []
    assert commands.json("status", "--use", "b")["readsThrough"] == [node.gateway_url]
    commands.text("store", "1", "--use", "b")
    assert [row["connected"] for row in commands.rows("connections")] == [True, True]
    assert "gateway" in FIELDS["provider"].help


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_pin_that_is_killed_again_and_again_is_completed(commands, node):
    """What one run has fetched, the next one does not fetch again."""
    cid = pin(node, b"".join(stream("killed pins", 60_000_000)), UNIXFS_V1_2025)
    sent = []

    def count(kind, request, reply):
        sent.append(request.target)
        return reply

    with gateway(node, count, refuse=("car",)) as server:
        flags = ("pin", cid, "--gateway-url", f"{server.url}/ipfs")
        for number in range(4):
            before = len(sent)
            process = commands.start(*flags)
            wait_until(lambda: len(sent) > before + 12 or process.poll() is not None)  # noqa: B023
            process.send_signal(signal.SIGKILL if number % 2 == 0 else signal.SIGINT)
            process.communicate()
            assert process.returncode != 0
            assert commands.rows("list") == []
        assert commands.text(*flags) == f"pinned {cid}"
    assert len(sent) < 2 * len(set(sent))
    store = commands.folder.parent / "data/holdfast"
    with Repository(store) as repository:
        assert list(repository.check()) == []
        assert repository.collect_garbage().blocks == 0
    with Client.init(path=store) as client:
        assert client.download(cid).size == 60_000_000
    assert commands.json("list")["cid"] == cid

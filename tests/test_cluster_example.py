"""`examples/cluster`: the script with real engines, and what engines read of the compose file."""

import json
import os
import re
import subprocess

import pytest
import yaml
from scripts.build_engines import CLUSTER, KUBO

from tests.engines import engine_path
from tests.example_nodes import PORTS, ROOT, SCRIPT, engine_folder, example_nodes

COMPOSE = ROOT / "examples/cluster/compose.yaml"
REQUIRED = r"\$\{\w+:\?[^}]+\}"  # without the variable, nothing starts


@pytest.fixture(scope="module")
def compose():
    return yaml.safe_load(COMPOSE.read_text())


# The compose file


def test_images_have_the_versions_that_the_tests_run_with(compose):
    for name, service in compose["services"].items():
        image = f"ipfs/kubo:{KUBO.version}"
        if name.startswith("peer"):
            image = f"ipfs/ipfs-cluster:{CLUSTER.version}"
        assert service["image"] == image


def test_ports_are_those_of_the_script_and_on_the_loopback_only(compose):
    published = {}
    for name, service in compose["services"].items():
        ((host, port, inner),) = (each.split(":") for each in service["ports"])
        assert host == "127.0.0.1"
        published[name] = int(port), int(inner)
    assert published == {
        **{f"kubo{node}": (19_001 + 10 * node, 8080) for node in (1, 2, 3)},
        **{f"peer{node}": (19_003 + 10 * node, 9094) for node in (1, 2, 3)},
    }


def test_secrets_come_from_outside(compose):
    for name in ("peer1", "peer2", "peer3"):
        settings = compose["services"][name]["environment"]
        for field in ("CLUSTER_SECRET", "CLUSTER_RESTAPI_BASICAUTHCREDENTIALS"):
            assert re.fullmatch(REQUIRED, settings[field])
    assert not re.search("[0-9a-f]{16}", COMPOSE.read_text())


def test_each_peer_has_a_kubo_and_both_have_volumes(compose):
    services = compose["services"]
    for node in "123":
        peer, kubo = services[f"peer{node}"], services[f"kubo{node}"]
        address = f"/dns4/kubo{node}/tcp/5001"
        assert peer["environment"]["CLUSTER_IPFSHTTP_NODEMULTIADDRESS"] == address
        assert peer["depends_on"] == [f"kubo{node}"]
        assert kubo["volumes"] == [f"kubo{node}:/data/ipfs"]
        assert peer["volumes"] == [f"peer{node}:/data/ipfs-cluster"]
    assert set(compose["volumes"]) == set(services)


@pytest.mark.slow
def test_a_peer_takes_the_settings_of_the_compose_file(compose, tmp_path):
    given = {"CLUSTER_SECRET": "ab" * 32, "CLUSTER_CREDENTIALS": "name:password"}
    settings = {
        name: re.sub(r"\$\{(\w+):\?[^}]+\}", lambda found: given[found[1]], value)
        for name, value in compose["services"]["peer2"]["environment"].items()
    }
    subprocess.run(  # noqa: S603
        [engine_path(CLUSTER), "init", "--consensus", "crdt"],
        env={**os.environ, **settings, "IPFS_CLUSTER_PATH": str(tmp_path)},
        check=True,
        capture_output=True,
    )
    found = json.loads((tmp_path / "service.json").read_text())
    assert found["cluster"]["secret"] == "ab" * 32
    assert found["cluster"]["peername"] == "node2"
    assert found["cluster"]["replication_factor_min"] == 2
    assert found["cluster"]["replication_factor_max"] == 2
    assert found["consensus"]["crdt"]["trusted_peers"] == ["*"]
    assert found["api"]["restapi"]["http_listen_multiaddress"] == "/ip4/0.0.0.0/tcp/9094"
    assert found["api"]["restapi"]["basic_auth_credentials"] == {"name": "password"}
    assert found["ipfs_connector"]["ipfshttp"]["node_multiaddress"] == "/dns4/kubo2/tcp/5001"
    assert found["cluster"]["monitor_ping_interval"] == "2s"
    assert found["monitor"]["pubsubmon"]["check_interval"] == "2s"
    assert found["informer"]["disk"]["metric_ttl"] == "8s"


@pytest.mark.slow
def test_the_kubos_of_the_compose_file_are_private(compose, tmp_path):
    path = f"{engine_folder(tmp_path / 'bin')}:{os.environ['PATH']}"
    variables = {**os.environ, "PATH": path, "IPFS_PATH": str(tmp_path / "kubo")}
    for command in (["ipfs", "init"], ["sh", "-c", compose["configs"]["private-kubo"]["content"]]):
        subprocess.run(command, env=variables, check=True, capture_output=True)  # noqa: S603
    settings = json.loads((tmp_path / "kubo/config").read_text())
    assert not settings["Bootstrap"]
    assert settings["Routing"]["Type"] == "none"
    assert settings["AutoConf"]["Enabled"] is False


# The script


def listening(first):
    """The addresses on which anything listens at the ports of the script."""
    found = set()
    for line in subprocess.run(
        ["ss", "-Hltn"],  # noqa: S607
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines():
        host, _, port = line.split()[3].rpartition(":")
        if int(port) - first in PORTS:
            found.add((host, int(port) - first))
    return found


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_script_starts_kills_and_stops_three_nodes(tmp_path):
    with example_nodes(tmp_path) as nodes:
        assert nodes.check("start").count(" running ") == 6
        assert listening(nodes.first_port) == {("127.0.0.1", port) for port in PORTS}
        token = (tmp_path / "nodes/token").read_text().strip()
        shown = subprocess.run(
            ["ps", "ax", "-o", "args"],  # noqa: S607
            capture_output=True,
            text=True,
            check=True,
        )
        assert token not in shown.stdout
        for name in ("secret", "token"):
            assert (tmp_path / "nodes" / name).stat().st_mode & 0o77 == 0
        nodes.check("kill", "2")
        status = nodes.check("status")
        assert re.findall(r"node (\d) .* stopped", status) == ["2", "2"]
        assert status.count(" running ") == 4
        assert nodes.check("start").count(" running ") == 6
        nodes.check("stop")
        assert nodes.check("status").count(" stopped ") == 6
        assert listening(nodes.first_port) == set()


@pytest.mark.parametrize("words", [(), ("begin",), ("kill",), ("kill", "4"), ("start", "1")])
def test_without_a_command_the_script_shows_how_it_is_used(tmp_path, words):
    done = subprocess.run(  # noqa: S603
        [SCRIPT, *words], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "nodes.sh start " in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_script_changes_no_folder_that_has_other_files(tmp_path):
    for name in ("ipfs", "ipfs-cluster-service"):
        (tmp_path / name).symlink_to("/bin/false")
    other = tmp_path / "nodes"
    other.mkdir()
    (other / "photo.jpg").touch()
    done = subprocess.run(  # noqa: S603
        [SCRIPT, "start"],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "NODES": str(other)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (
        1,
        f"{other} is not empty: remove it, or set NODES\n",
    )
    assert [path.name for path in other.iterdir()] == ["photo.jpg"]

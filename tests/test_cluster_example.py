"""`examples/cluster`: the script with real engines, and what engines read of the compose file."""

import functools
import json
import operator
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


def test_the_services_of_the_compose_file(compose):
    """Versions and ports are those of the tests and the script; secrets come from outside."""
    for node in (1, 2, 3):
        kubo, peer = (compose["services"][f"{name}{node}"] for name in ("kubo", "peer"))
        assert kubo["image"] == f"ipfs/kubo:{KUBO.version}"
        assert kubo["ports"] == [f"127.0.0.1:{19_001 + 10 * node}:8080"]
        assert kubo["volumes"] == [f"kubo{node}:/data/ipfs"]
        assert peer["image"] == f"ipfs/ipfs-cluster:{CLUSTER.version}"
        assert peer["ports"] == [f"127.0.0.1:{19_003 + 10 * node}:9094"]
        assert peer["volumes"] == [f"peer{node}:/data/ipfs-cluster"]
        assert peer["depends_on"] == [f"kubo{node}"]
        settings = peer["environment"]
        assert settings["CLUSTER_IPFSHTTP_NODEMULTIADDRESS"] == f"/dns4/kubo{node}/tcp/5001"
        for field in ("CLUSTER_SECRET", "CLUSTER_RESTAPI_BASICAUTHCREDENTIALS"):
            assert re.fullmatch(REQUIRED, settings[field])
    assert len(compose["services"]) == 6
    assert set(compose["volumes"]) == set(compose["services"])
    assert not re.search("[0-9a-f]{16}", COMPOSE.read_text())


@pytest.mark.slow
def test_a_peer_takes_the_settings_of_the_compose_file(compose, tmp_path):
    secrets = {"CLUSTER_SECRET": "ab" * 32, "CLUSTER_CREDENTIALS": "name:password"}
    settings = {
        name: re.sub(r"\$\{(\w+):\?[^}]+\}", lambda match: secrets[match[1]], value)
        for name, value in compose["services"]["peer2"]["environment"].items()
    }
    subprocess.run(  # noqa: S603
        [engine_path(CLUSTER), "init", "--consensus", "crdt"],
        env={**os.environ, **settings, "IPFS_CLUSTER_PATH": str(tmp_path)},
        check=True,
        capture_output=True,
    )
    service = json.loads((tmp_path / "service.json").read_text())
    for path, expected in {
        "cluster.secret": "ab" * 32,
        "cluster.peername": "node2",
        "cluster.replication_factor_min": 2,
        "cluster.replication_factor_max": 2,
        "cluster.monitor_ping_interval": "2s",
        "consensus.crdt.trusted_peers": ["*"],
        "api.restapi.http_listen_multiaddress": "/ip4/0.0.0.0/tcp/9094",
        "api.restapi.basic_auth_credentials": {"name": "password"},
        "ipfs_connector.ipfshttp.node_multiaddress": "/dns4/kubo2/tcp/5001",
        "monitor.pubsubmon.check_interval": "2s",
        "informer.disk.metric_ttl": "8s",
    }.items():
        assert functools.reduce(operator.getitem, path.split("."), service) == expected, path


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


def run_text(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603


def listening(first):
    """The addresses on which anything listens at the ports of the script."""
    addresses = [line.split()[3].rpartition(":") for line in run_text("ss", "-Hltn").splitlines()]
    ports = {(host, int(port) - first) for host, _, port in addresses}
    return {(host, port) for host, port in ports if port in PORTS}


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_script_starts_kills_and_stops_three_nodes(tmp_path):
    with example_nodes(tmp_path) as nodes:
        assert nodes.check("start").count(" running ") == 6
        assert listening(nodes.first_port) == {("127.0.0.1", port) for port in PORTS}
        token = (tmp_path / "nodes/token").read_text().strip()
        assert token not in run_text("ps", "ax", "-o", "args")
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

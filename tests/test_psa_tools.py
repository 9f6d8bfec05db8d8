"""Other people's programs on the Pinning Services API of the node."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from holdfast import Client, ClientConfig, compute_cid
from holdfast.errors import NotFoundError
from holdfast.testing import running_node
from tests.engines import kubo_path
from tests.psa import ALL, PSACaller
from tests.support import wait_until

SUITE = "@ipfs-shipyard/pinning-service-compliance"
NAME_CHECK = "Can create a pin with name"  # it asks for content that exists nowhere


# Kubo


@pytest.fixture
def kubo_node(kubo):
    """A node that fetches from Kubo, which knows it as the service `holdfast`."""
    with running_node(gateways=(kubo.gateway_url,)) as node:
        # A token may begin with a hyphen.
        remote(kubo, "service", "add", "--", "holdfast", f"{node.api_url}/psa", node.token)
        yield node
        remote(kubo, "service", "rm", "holdfast")


def remote(kubo, *arguments, succeeds=True):
    """Run `ipfs pin remote`, and return the lines that it prints."""
    command = [kubo_path(), "pin", "remote", *arguments]
    environment = {**os.environ, "IPFS_PATH": str(kubo.folder)}
    result = subprocess.run(  # noqa: S603
        command, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert (result.returncode == 0) == succeeds, result.stderr
    return result.stdout.splitlines() if succeeds else result.stderr


@pytest.mark.slow
def test_kubo_pins_lists_and_removes(kubo, kubo_node):
    service = "--service=holdfast"
    (line,) = remote(kubo, "service", "ls", "--stat")
    assert line.split() == ["holdfast", f"{kubo_node.api_url}/psa", "0/0/0/0"]

    cid = kubo.add(os.urandom(3_000_000), pin=False, cid_version=1)
    assert remote(kubo, "add", service, "--name=tides", cid)[-1].split() == ["Status:", "pinned"]
    assert remote(kubo, "ls", service) == [f"{cid}\tpinned\ttides"]
    (pin,) = kubo_node.repository.pins()
    assert (pin.cid, pin.name) == (cid, "tides")
    with Client.init(kubo_node.config) as client:
        assert len(client.download(cid).read()) == 3_000_000

    remote(kubo, "add", service, "--name=again", "--background", cid)
    wait_until(lambda: len(remote(kubo, "ls", service, f"--cid={cid}")) == 2)
    assert remote(kubo, "ls", service, "--name=again") == [f"{cid}\tpinned\tagain"]
    assert "--force" in remote(kubo, "rm", service, f"--cid={cid}", succeeds=False)
    remote(kubo, "rm", service, "--name=again")
    assert remote(kubo, "ls", service) == [f"{cid}\tpinned\ttides"]
    remote(kubo, "rm", service, f"--cid={cid}")
    assert remote(kubo, "ls", service, f"--status={ALL}") == []


@pytest.mark.slow
def test_kubo_hears_of_failures_and_reads_all_pages(kubo, kubo_node):
    service = "--service=holdfast"
    missing = compute_cid(b"nobody has this content")
    assert "failed" in remote(kubo, "add", service, missing, succeeds=False)
    assert remote(kubo, "ls", service, "--status=failed") == [f"{missing}\tfailed\t"]
    remote(kubo, "rm", service, "--status=failed")
    remote(kubo, "service", "add", "wrong", f"{kubo_node.api_url}/psa", "wrong-token")
    assert "401" in remote(kubo, "ls", "--service=wrong", succeeds=False)
    remote(kubo, "service", "rm", "wrong")
    with Client.init(kubo_node.config) as client:
        cids = [stored.result().cid for stored in client.store_many([n] for n in range(35))]
    assert sorted(line.split()[0] for line in remote(kubo, "ls", service)) == sorted(cids)


# IPFS Cluster, as a service


@pytest.mark.slow
def test_a_cluster_is_such_a_service(cluster):
    """Its ids are CIDs, its times whole seconds, its list in no order, and it counts pages only."""
    peer = cluster.peers[0]
    cids = [peer.kubo.add(b"at a cluster %d" % number, pin=False) for number in range(12)]
    config = ClientConfig(
        provider="psa",
        provider_token="user:password",
        pin_api_url=peer.service_url,
        gateway_url=peer.kubo.gateway_url,
    )
    with Client.init(config) as client:
        assert client.test_connection() is True
        pin = client.pin(cids[0], name="tides 0", keyvalues={"n": 1}, wait=30)
        assert (pin.state, pin.name, pin.keyvalues) == ("pinned", "tides 0", {"n": "1"})
        for number, cid in enumerate(cids[1:], 1):
            client.pin(cid, name=f"tides {number}", wait=30)
        assert {pin.cid for pin in client.pins(name="tides")} == set(cids)
        assert len(client.pins(limit=5)) == 5
        assert [pin.cid for pin in client.pins(keyvalues={"n": 1})] == [cids[0]]
        client.update(cids[0], name="ebb", keyvalues={"n": 2})
        wait_until(lambda: [pin.name for pin in client.pins(cid=cids[0])] == ["ebb"])
        assert client.pin(cids[0], wait=30).keyvalues == {"n": "2"}
        assert client.download(cids[0]).read() == b"at a cluster 0"
        for cid in cids:
            assert client.revoke(cid) is True
        wait_until(lambda: not client.pins(name="tides") and not client.pins(cid=cids[0]))
        with pytest.raises(NotFoundError, match="is not pinned"):
            client.revoke(cids[0])


# The compliance suite


@pytest.fixture(scope="session")
def compliance_suite(install_packages):
    """The folder with the suite, from the npm registry, at the version in package.json."""
    return install_packages(Path(__file__).parent / "js" / "compliance")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("npm") is None, reason="Node.js with npm is not installed")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("pretend", [False, True], ids=["honest", "pretending"])
def test_the_compliance_suite(compliance_suite, pretend):
    """Eight of nine checks; the ninth wants content that exists nowhere to be pinned."""
    with running_node(pretend_pinned=pretend) as node:
        script = compliance_suite / "node_modules" / SUITE / "dist" / "src" / "index.js"
        result = subprocess.run(  # noqa: S603
            ["node", "--import", "./schemas.mjs", script, "-s", f"{node.api_url}/psa", node.token],  # noqa: S607
            cwd=compliance_suite,
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )
        assert PSACaller(node).count(status=ALL) == 0, "it deletes what it made"
    summary = result.stdout.partition("Summary (")[2]
    passed = re.findall(r"^  🟢 (.*)$", summary, re.MULTILINE)
    failed = re.findall(r"^  ❌ (.*)$", summary, re.MULTILINE)
    assert len(passed) + len(failed) == 9, result.stdout + result.stderr
    assert [name[: len(NAME_CHECK)] for name in failed] == ([] if pretend else [NAME_CHECK])

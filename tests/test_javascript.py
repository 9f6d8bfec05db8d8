"""The official JavaScript clients of the pinning service, unchanged, against the node."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from holdfast import Client, compute_cid

HERE = Path(__file__).parent / "js"

pytestmark = [
    pytest.mark.slow,  # packages are fetched
    pytest.mark.skipif(shutil.which("npm") is None, reason="Node.js with npm is not installed"),
    pytest.mark.timeout(300),
]


def run(script, *arguments, **environment):
    result = subprocess.run(  # noqa: S603
        ["node", script, *arguments],  # noqa: S607
        cwd=HERE,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_pinata_web3(javascript_packages, empty_node, tmp_path):
    out = run("web3.mjs", empty_node.api_url, empty_node.token)
    message = "Congratulations! You are communicating with the Pinata API!"
    assert out["auth"] == {"message": message}
    assert out["json"]["IpfsHash"] == compute_cid(b'{"hello":"world","n":1.5}')
    assert out["jsonV1"]["IpfsHash"] == compute_cid(b'{"hello":"world"}')
    assert out["file"]["IpfsHash"] == compute_cid(b"hello")
    assert out["file"]["PinSize"] == 5
    assert "isDuplicate" not in out["file"]
    assert out["fileAgain"]["isDuplicate"] is True
    assert out["named"]["IpfsHash"] == compute_cid(b"hello v1")
    assert out["base64"]["IpfsHash"] == compute_cid(b"base64 content")
    assert out["url"]["IpfsHash"] == compute_cid(b"from a url")
    assert out["stream"]["IpfsHash"] == compute_cid(b"a stream")
    assert out["folder"]["NumberOfFiles"] == 2
    (tmp_path / "a.txt").write_bytes(b"a")
    (tmp_path / "b.txt").write_bytes(b"b")
    assert out["folder"]["IpfsHash"] == compute_cid(tmp_path)
    with Client.init(empty_node.config) as client:
        record = client.upload(tmp_path)
    assert (record.cid, record.duplicate) == (out["folder"]["IpfsHash"], True)
    assert out["cid"]["ipfsHash"] == out["file"]["IpfsHash"]

    hashes = {row["ipfs_pin_hash"] for row in out["list"]}
    assert out["folder"]["IpfsHash"] in hashes
    assert [row["metadata"]["name"] for row in out["listByName"]] == ["named"]
    assert [row["ipfs_pin_hash"] for row in out["listByCid"]] == [out["file"]["IpfsHash"]]
    assert len(out["listPage"]) == 2
    assert [row["metadata"]["keyvalues"] for row in out["listByKey"]] == [
        {"kind": "test", "rank": "7"}
    ]
    assert len(out["listByDate"]) == len(out["list"])
    assert out["listBySize"] == []
    assert out["update"] == "OK"
    assert out["renamed"][0]["metadata"]["name"] == "renamed"
    assert out["count"] == len(hashes)
    assert out["size"] > 50

    assert out["getJson"]["data"] == {"hello": "world", "n": 1.5}
    assert out["getText"]["data"] == "hello"
    assert out["getInFolder"]["data"] == "a"
    assert out["unpin"] == [{"hash": out["file"]["IpfsHash"], "status": "OK"}]
    assert "OK" not in out["unpinAgain"][0]["status"]
    assert out["refused"]["status"] == 401


def test_pinata_sdk(javascript_packages, empty_node, tmp_path):
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "a.txt").write_bytes(b"a")
    (tmp_path / "site" / "b.txt").write_bytes(b"b")
    out = run("sdk.cjs", empty_node.token, str(tmp_path / "site"), HTTPS_PROXY=empty_node.api_url)
    assert out["auth"] == out["authPair"] == {"authenticated": True}
    assert out["bare"]["IpfsHash"] == compute_cid(b'{"a":1}')
    v0 = compute_cid(b'{"hello":"world"}', profile="unixfs-v0-2015")
    assert out["json"]["IpfsHash"] == v0
    assert out["file"]["IpfsHash"] == compute_cid(b"streamed content")
    assert out["disk"]["IpfsHash"] == compute_cid(b"a")
    assert out["folder"]["IpfsHash"] == compute_cid(tmp_path / "site")
    with Client.init(empty_node.config) as client:
        assert client.upload(tmp_path / "site").duplicate is True
    assert [row["metadata"]["name"] for row in out["list"]["rows"]] == ["greeting"]
    assert [row["metadata"]["keyvalues"] for row in out["listByKey"]["rows"]] == [{"kind": "sdk"}]
    assert out["metadata"] == "OK"
    assert out["byHash"]["status"] == "prechecking"
    assert out["total"]["pin_count"] == 5
    assert out["unpin"] == "OK"
    assert out["unpinAgain"]["reason"] == "CURRENT_USER_HAS_NOT_PINNED_CID"
    assert out["refused"]["reason"] == "INVALID_CREDENTIALS"

"""The official JavaScript clients of the pinning service, unchanged, against the node."""

import shutil
import time
from pathlib import Path

import pytest

from holdfast import Client, compute_cid
from tests.support import script_output

HERE = Path(__file__).parent / "js"
LEGACY = "kubo-legacy-cidv1"  # the layout of the service

pytestmark = [
    pytest.mark.slow,  # packages are fetched
    pytest.mark.skipif(shutil.which("npm") is None, reason="Node.js with npm is not installed"),
    pytest.mark.timeout(300),
]


def run(script, *arguments, **environment):
    return script_output("node", script, *arguments, cwd=HERE, **environment)


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


def test_pinata(javascript_packages, empty_node, tmp_path):
    out = run("pinata.mjs", empty_node.api_url, empty_node.token)
    message = "Congratulations! You are communicating with the Pinata API!"
    assert out["auth"] == {"message": message}

    contents = {
        "file": b"hello",
        "json": b'{"hello":"world","n":1.5}',
        "base64": b"base64 content",
        "url": b"from a url",
        "grouped": b"in a group",
        "signed": b"signed content",
        "secret": b"a secret",
    }
    for name, content in contents.items():
        assert out[name]["cid"] == compute_cid(content), name
    assert (out["fileAgain"]["id"], out["fileAgain"]["is_duplicate"]) == (out["file"]["id"], True)
    assert out["v0"]["cid"] == compute_cid(b"version 0", profile="unixfs-v0-2015")
    assert out["expiring"]["expires_at"] > time.time()
    medium = bytes((index * 7 + (index >> 9)) % 256 for index in range(3 << 20))
    assert out["medium"]["cid"] == compute_cid(medium, profile=LEGACY)
    for folder, names in (("folder", "ab"), ("signedFolder", "cd")):
        (tmp_path / folder).mkdir()
        for name in names:
            (tmp_path / folder / f"{name}.txt").write_text(name)
        assert out[folder]["cid"] == compute_cid(tmp_path / folder)
        assert (out[folder]["number_of_files"], out[folder]["mime_type"]) == (2, "directory")

    group = out["group"]["id"]
    assert out["groupGot"] == out["group"]
    assert (out["groupUpdated"]["id"], out["groupUpdated"]["name"]) == (group, "high tides")
    assert [each["name"] for each in out["groupList"]["groups"]] == ["other", "high tides"]
    assert [each["id"] for each in out["groupByName"]["groups"]] == [group]
    assert [each["id"] for each in out["groupNext"]["groups"]] == [group]
    assert [each["status"] for each in out["added"] + out["removed"]] == ["OK"] * 3
    assert ids(out["inGroup"]) == {out[name]["id"] for name in ("grouped", "json", "file")}
    assert ids(out["inGroupAfter"]) == {out[name]["id"] for name in ("grouped", "file")}
    assert ids(out["noGroup"]).isdisjoint(ids(out["inGroupAfter"]))
    assert (out["groupDeleted"], out["groupGone"]["status"]) == ("OK", 404)

    everything = ("grouped", "medium", "v0", "folder", "url", "base64", "json", "file")
    assert [each["id"] for each in out["list"]] == [out[name]["id"] for name in everything]
    assert [each["id"] for each in out["page"]["files"]] == [
        out[name]["id"] for name in everything[:3]
    ]
    assert ids(out["oldest"]) == ids(out["byCid"]) == {out["file"]["id"]}
    assert ids(out["byName"]) == ids(out["byType"]) == ids(out["byKey"]) == {out["json"]["id"]}
    assert ids(out["byOtherKey"]) == ids(out["pending"]) == set()
    assert out["got"]["keyvalues"] == {"kind": "json"}
    assert out["updated"]["name"] == "renamed.json"
    assert out["updated"]["keyvalues"] == {"kind": "json", "more": "yes"}
    assert out["deleted"] == [{"id": out["url"]["id"], "status": "OK"}]
    assert out["deletedAgain"][0]["status"] != "OK"
    assert out["gone"]["status"] == 404
    assert (out["pinned"]["status"], out["pinned"]["name"]) == ("prechecking", "by cid")
    assert [job["id"] for job in out["queue"]["jobs"]] == [out["queued"]["id"]]
    assert (out["cancelled"], out["count"]) == ("OK", len(everything) - 1)

    assert (out["signed"]["name"], out["signed"]["keyvalues"]) == ("signed.txt", {"by": "link"})
    assert (out["signedType"]["status"], out["signedSize"]["status"]) == (400, 413)
    assert out["secret"]["network"] == "private"
    assert ids(out["secretList"]) == {out["secret"]["id"]}
    assert ids(out["secretPublic"]) == set()
    assert out["linkText"] == out["secretGot"]["data"] == "a secret"
    assert (out["leak"], out["unsigned"]) == (404, 403)
    assert out["publicGot"]["data"] == "hello"
    assert (out["swap"]["status"], out["keys"]["status"], out["wrong"]["status"]) == (501, 501, 401)


@pytest.mark.parametrize(("size", "arguments"), [(200, ["public"]), (100, ["private"])])
def test_pinata_by_tus(javascript_packages, empty_node, size, arguments):
    out = run("tus.mjs", empty_node.api_url, empty_node.token, str(size), *arguments)
    assert out["cid"] == large_cid(size)
    assert (out["name"], out["keyvalues"]) == ("large", {"by": "tus"})
    methods = [request.split()[0] for request in empty_node.requests]
    pieces = -(-size * ((1 << 20) + 1) // ((50 << 20) + 1))
    assert methods == ["POST", *["PATCH"] * pieces, "GET"]


def test_pinata_by_tus_with_a_signed_address_and_a_lost_piece(javascript_packages, empty_node):
    empty_node.fail_next(status=500, method="PATCH")
    out = run("tus.mjs", empty_node.api_url, empty_node.token, "95", "public", "signed")
    assert out["cid"] == large_cid(95)


def large_cid(size):
    block = bytes(((index * 31) ^ (index >> 8)) % 256 for index in range(1 << 20))
    pieces = b"".join(bytes([number]) + block for number in range(size))
    return compute_cid(pieces, profile=LEGACY)


def ids(page):
    return {file["id"] for file in page["files"]}

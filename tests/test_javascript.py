"""The official JavaScript clients of the pinning service, unchanged, against the node."""

import shutil
import time
from pathlib import Path

import pytest

from holdfast import Client, compute_cid
from tests.support import script_output

HERE = Path(__file__).parent / "js"
LEGACY = "kubo-legacy-cidv1"  # the layout of the service
GREETING = "Congratulations! You are communicating with the Pinata API!"

pytestmark = [
    pytest.mark.slow,  # packages are fetched
    pytest.mark.skipif(shutil.which("npm") is None, reason="Node.js with npm is not installed"),
    pytest.mark.timeout(300),
]


def write_folder(folder, names):
    """Write a folder with a file for each letter, and return it."""
    folder.mkdir()
    for name in names:
        (folder / f"{name}.txt").write_text(name)
    return folder


def run(script, *arguments, **environment):
    return script_output("node", script, *arguments, cwd=HERE, **environment)


def test_pinata_web3(javascript_packages, empty_node, tmp_path):
    out = run("web3.mjs", empty_node.api_url, empty_node.token)
    assert out["auth"] == {"message": GREETING}
    folder = write_folder(tmp_path / "site", "ab")
    contents = {
        "json": b'{"hello":"world","n":1.5}',
        "jsonV1": b'{"hello":"world"}',
        "file": b"hello",
        "named": b"hello v1",
        "base64": b"base64 content",
        "url": b"from a url",
        "stream": b"a stream",
        "folder": folder,
    }
    cids = {name: out[name]["IpfsHash"] for name in contents}
    assert cids == {name: compute_cid(content) for name, content in contents.items()}
    assert (out["file"]["PinSize"], out["folder"]["NumberOfFiles"]) == (5, 2)
    assert ("isDuplicate" in out["file"], out["fileAgain"]["isDuplicate"]) == (False, True)
    with Client.init(empty_node.config) as client:
        record = client.upload(folder)
    assert (record.cid, record.duplicate) == (cids["folder"], True)
    assert out["cid"]["ipfsHash"] == cids["file"]

    hashes = {row["ipfs_pin_hash"] for row in out["list"]}
    assert cids["folder"] in hashes
    assert [row["metadata"]["name"] for row in out["listByName"]] == ["named"]
    assert [row["ipfs_pin_hash"] for row in out["listByCid"]] == [cids["file"]]
    (by_key,) = out["listByKey"]
    assert by_key["metadata"]["keyvalues"] == {"kind": "test", "rank": "7"}
    assert (len(out["listPage"]), out["listBySize"]) == (2, [])
    assert len(out["listByDate"]) == len(out["list"])
    assert (out["update"], out["renamed"][0]["metadata"]["name"]) == ("OK", "renamed")
    assert (out["count"], out["size"] > 50) == (len(hashes), True)

    assert out["getJson"]["data"] == {"hello": "world", "n": 1.5}
    assert (out["getText"]["data"], out["getInFolder"]["data"]) == ("hello", "a")
    assert out["unpin"] == [{"hash": cids["file"], "status": "OK"}]
    assert "OK" not in out["unpinAgain"][0]["status"]
    assert out["refused"]["status"] == 401


def test_pinata_sdk(javascript_packages, empty_node, tmp_path):
    folder = write_folder(tmp_path / "site", "ab")
    out = run("sdk.cjs", empty_node.token, str(folder), HTTPS_PROXY=empty_node.api_url)
    assert out["auth"] == out["authPair"] == {"authenticated": True}
    expected = {
        "bare": compute_cid(b'{"a":1}'),
        "json": compute_cid(b'{"hello":"world"}', profile="unixfs-v0-2015"),
        "file": compute_cid(b"streamed content"),
        "disk": compute_cid(b"a"),
        "folder": compute_cid(folder),
    }
    assert {name: out[name]["IpfsHash"] for name in expected} == expected
    with Client.init(empty_node.config) as client:
        assert client.upload(folder).duplicate is True
    assert [row["metadata"]["name"] for row in out["list"]["rows"]] == ["greeting"]
    assert [row["metadata"]["keyvalues"] for row in out["listByKey"]["rows"]] == [{"kind": "sdk"}]
    assert (out["metadata"], out["byHash"]["status"]) == ("OK", "prechecking")
    assert (out["total"]["pin_count"], out["unpin"]) == (5, "OK")
    assert out["unpinAgain"]["reason"] == "CURRENT_USER_HAS_NOT_PINNED_CID"
    assert out["refused"]["reason"] == "INVALID_CREDENTIALS"


def test_pinata(javascript_packages, empty_node, tmp_path):
    out = run("pinata.mjs", empty_node.api_url, empty_node.token)
    assert out["auth"] == {"message": GREETING}
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
        assert out[folder]["cid"] == compute_cid(write_folder(tmp_path / folder, names))
        assert (out[folder]["number_of_files"], out[folder]["mime_type"]) == (2, "directory")

    group = out["group"]["id"]
    assert out["groupGot"] == out["group"]
    assert (out["groupUpdated"]["id"], out["groupUpdated"]["name"]) == (group, "high tides")
    assert [row["name"] for row in out["groupList"]["groups"]] == ["other", "high tides"]
    for page in ("groupByName", "groupNext"):
        assert [row["id"] for row in out[page]["groups"]] == [group]
    assert [row["status"] for row in out["added"] + out["removed"]] == ["OK"] * 3
    assert ids(out["inGroup"]) == {out[name]["id"] for name in ("grouped", "json", "file")}
    assert ids(out["inGroupAfter"]) == {out[name]["id"] for name in ("grouped", "file")}
    assert ids(out["noGroup"]).isdisjoint(ids(out["inGroupAfter"]))
    assert (out["groupDeleted"], out["groupGone"]["status"]) == ("OK", 404)

    everything = ("grouped", "medium", "v0", "folder", "url", "base64", "json", "file")
    everything_ids = [out[name]["id"] for name in everything]
    assert [row["id"] for row in out["list"]] == everything_ids
    assert [row["id"] for row in out["page"]["files"]] == everything_ids[:3]
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

"""Other people's Python clients, unchanged but for the address, against the node."""

import hashlib
import json
import sys
from pathlib import Path

import pytest

from holdfast import Client, compute_cid
from tests.support import script_output

HERE = Path(__file__).parent / "python_clients"
HELLO = compute_cid(b'{"hello":"world"}')
V0 = "unixfs-v0-2015"

pytestmark = [
    pytest.mark.slow,  # packages are fetched
    pytest.mark.timeout(300),
]


class Runs:
    """Runs scripts, each of which calls one client, in a folder of their own."""

    def __init__(self, packages, folder):
        self.folder = folder
        self._environment = {"PYTHONPATH": str(packages), "NO_PROXY": "*"}

    def __call__(self, script, *arguments):
        command = [sys.executable, HERE / script, *arguments]
        return script_output(*command, cwd=self.folder, **self._environment)


@pytest.fixture
def run(python_clients, tmp_path):
    (tmp_path / "work").mkdir()
    return Runs(python_clients, tmp_path / "work")


def folder_cid(folder, files):
    """Write files by their paths, and return the CID of the folder."""
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(content)
    return compute_cid(folder, include_hidden=True)


def cids(out, *names):
    return [out[name]["IpfsHash"] for name in names]


def error_of(reply, status):
    """Return the error in what a client returns for a failed request."""
    assert status in {reply.get("status"), reply.get("error")}, reply
    return json.loads(reply["text"])["error"]


def test_pinatapy(run, empty_node, tmp_path):
    out = run("pinatapy_calls.py", empty_node.api_url, "holdfast", empty_node.token)
    assert cids(out, "file", "file_without_path") == [compute_cid(b"low"), compute_cid(b"kelp")]
    assert (out["file"]["Name"], out["file"]["MimeType"]) == (
        "tide.txt",
        "text/plain; charset=utf-8",
    )
    low_v0 = compute_cid(b"low", profile=V0)
    assert cids(out, "file_named", "file_with_texts") == [low_v0, low_v0]
    assert (out["file_named"]["Name"], out["file_with_texts"]["isDuplicate"]) == ("named", True)

    # The whole path of a file becomes folders, as with Kubo.
    whole = f"{run.folder}/photos"[1:]
    top, _, below = whole.partition("/")
    photos = {"kelp.txt": "kelp", "deep/crab.txt": "crab"}
    below_top = {f"{below}/{path}": content for path, content in photos.items()}
    below_whole = {f"{whole}/{path}": content for path, content in photos.items()}
    albums = {f"2026/{path}": content for path, content in below_whole.items()}
    expected = {
        "file_by_full_path": folder_cid(tmp_path / "1", {f"{below}/kelp.txt": "kelp"}),
        "file_to_folder": folder_cid(tmp_path / "2", {"tide.txt": "low"}),
        "folder": folder_cid(tmp_path / "3", below_top),
        "folder_without_path": folder_cid(tmp_path / "4", photos),
        "folder_to_folder": folder_cid(tmp_path / "5", albums),
        "folder_with_double_slash": folder_cid(tmp_path / "6", below_whole),
    }
    assert {name: out[name]["IpfsHash"] for name in expected} == expected
    assert out["folder"]["Name"] == top
    assert (out["folder"]["NumberOfFiles"], out["folder"]["MimeType"]) == (2, "directory")
    with Client.init(empty_node.config) as client:
        path = f"{expected['folder']}/{below}/deep/crab.txt"
        assert client.download(path).text() == "crab"

    assert out["json"]["IpfsHash"] == HELLO
    assert out["json_named"]["IpfsHash"] == compute_cid(b'{"tide":"high"}', profile=V0)
    assert (out["by_hash"]["ipfsHash"], out["by_hash"]["name"]) == (HELLO, "by hash")
    assert out["jobs_chosen"] == {"count": 0, "rows": []}
    assert out["list"]["count"] == out["total"]["pin_count"] == 11
    assert {row["metadata"]["name"] for row in out["list_by_name"]["rows"]} == {"named"}
    assert out["unpin"] == {"message": "Removed"}
    assert error_of(out["unpin_again"], 400)["reason"] == "CURRENT_USER_HAS_NOT_PINNED_CID"
    assert error_of(out["stranger"], 401)["reason"] == "INVALID_CREDENTIALS"
    # What the node does not have.
    assert "pinByHash" in error_of(out["by_old_hash"], 501)["details"]
    assert "no keys" in error_of(out["generate_key"], 501)["details"]
    assert "no keys" in error_of(out["revoke_key"], 501)["details"]


def test_pinata_python(run, empty_node, tmp_path):
    out = run("pinata_python_calls.py", empty_node.api_url, "holdfast", empty_node.token)
    assert (out["set_authentication"], out["headers"]) == (True, ["Authorization"])
    below = f"{run.folder}/photos"[1:].partition("/")[2]
    photos = {"kelp.png": "kelp", "crab.txt": "crab"}
    by_path = {f"{below}/{path}": content for path, content in photos.items()}
    expected = {
        "file": compute_cid(b"kelp"),
        "folder": folder_cid(tmp_path / "1", photos),
        "folder_with_slash": folder_cid(tmp_path / "1", photos),
        "folder_by_full_path": folder_cid(tmp_path / "2", by_path),
        "folder_of_one_kind": folder_cid(tmp_path / "3", {"kelp.png": "kelp"}),
        "json": HELLO,
        "json_named": compute_cid(b'{"name":"goku"}'),
    }
    assert {name: out[name]["IpfsHash"] for name in expected} == expected
    assert out["json_named"]["Keyvalues"] == {"power": 10, "stamina": "high"}
    assert (out["by_hash"]["ipfsHash"], out["by_hash"]["name"]) == (HELLO, "goku")
    assert out["metadata"] == out["read"] == out["unpin"] == 200
    assert out["jobs"] == {"count": 0, "rows": []}
    assert out["list"]["count"] == out["total"]["pin_count"] == 6
    (row,) = out["list_chosen"]["rows"]
    assert row["ipfs_pin_hash"] == HELLO
    assert row["metadata"] == {"name": "alice", "keyvalues": {"job": "queen"}}
    assert out["list_unpinned"] == {"count": 0, "rows": []}
    assert out["content"] == '{"hello":"world"}'
    assert error_of(out["unpin_again"], 400)["reason"] == "CURRENT_USER_HAS_NOT_PINNED_CID"
    assert error_of(out["stranger"], 401)["reason"] == "INVALID_CREDENTIALS"
    # What the node does not have.
    assert "no regions" in error_of(out["pin_policy"], 501)["details"]
    assert "no regions" in error_of(out["global_policy"], 501)["details"]
    assert "no keys" in error_of(out["generate_keys"], 501)["details"]
    assert "no keys" in error_of(out["revoke_key"], 501)["details"]


@pytest.fixture
def stored(empty_node, tmp_path):
    """A folder, a file of several blocks and a small one, in the node."""
    large = b"".join(bytes([number]) * 100_003 for number in range(40))
    with Client.init(empty_node.config) as client:
        folder = folder_cid(tmp_path / "photos", {"kelp.txt": "kelp", "deep/crab.txt": "crab"})
        assert client.upload(tmp_path / "photos").cid == folder
        return folder, client.upload(large).cid, client.upload(b"hello").cid, large


def test_ipfsspec(run, empty_node, stored):
    folder, large, hello, data = stored
    missing = compute_cid(b"missing")
    out = run("ipfsspec_calls.py", empty_node.api_url, folder, large, hello, missing)
    kelp = {"name": f"{folder}/kelp.txt", "CID": compute_cid(b"kelp"), "type": "file", "size": 4}
    deep = out["info_folder"]
    assert (deep["name"], deep["type"]) == (f"{folder}/deep", "directory")
    assert out["ls"] == [f"{folder}/deep", f"{folder}/kelp.txt"]
    assert out["ls_detail"] == [deep, kelp]
    assert out["ls_inner"] == [f"{folder}/deep/crab.txt"]
    assert (out["info_file"], out["ukey"]) == (kelp, kelp["CID"])
    assert out["info_large"] == {"name": large, "CID": large, "type": "file", "size": len(data)}
    assert out["large"] == hashlib.sha256(data).hexdigest()
    assert (out["size"], out["sizes"]) == (len(data), [5, len(data)])
    assert (out["cat"], out["cat_part"], out["head"]) == ("hello", "el", "he")
    files = [f"{folder}/deep/crab.txt", f"{folder}/kelp.txt"]
    assert out["cat_several"] == dict(zip(files, ["crab", "kelp"], strict=True))
    assert out["exists"] == [True, False, False]
    assert (out["isdir"], out["isfile"]) == ([True, False], [False, True])
    assert (out["find"], out["glob"], out["du"]) == (files, [f"{folder}/kelp.txt"], 8)
    assert out["walk"] == [
        [folder, ["deep"], ["kelp.txt"]],
        [f"{folder}/deep", [], ["crab.txt"]],
    ]
    assert (out["open"], out["open_text"], out["get_file"]) == ("crab", "hello", "hello")
    assert out["get_files"] == ["crab", "kelp"]
    assert out["async"] == "hello"
    assert out["missing"] == out["not_a_cid"] == "FileNotFoundError"
    assert (out["list_a_file"], out["write"]) == ("NotADirectoryError", "NotImplementedError")
    assert out["name_system"] == "FileNotFoundError"  # the node has no IPNS

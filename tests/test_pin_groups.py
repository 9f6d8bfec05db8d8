"""Groups in the older API of the node: `pinataOptions.groupId`. The v3 API makes them."""

import json
import sqlite3
import uuid
from contextlib import closing

import pytest

from holdfast import Client, compute_cid
from tests.support import wait_until
from tests.v3_caller import V3Caller


@pytest.fixture
def call(node):
    return V3Caller(node)


@pytest.fixture
def group(call):
    return call.data("POST", "/v3/groups/public", json={"name": "tides"})["id"]


def pin_json(call, content, **options):
    body = {"pinataContent": content, "pinataOptions": options}
    return call("POST", "/pinning/pinJSONToIPFS", json=body)


def pin_files(call, *files, **options):
    parts = [("file", file) for file in files]
    form = [*parts, ("pinataOptions", json.dumps(options))]
    return call("POST", "/pinning/pinFileToIPFS", fields=form)


def cids(call, group):
    """Return what each API finds in a group."""
    rows = call("GET", "/data/pinList", fields={"groupId": group}).json()["rows"]
    older = {row["ipfs_pin_hash"] for row in rows}
    assert older == {file["cid"] for file in call.files(group=group)}
    return older


def groups_in_database(call, *groups):
    """Return how many ids are in one of these groups, whether a pin has them or not."""
    path = call.node.repository.path / "holdfast.node.sqlite3"
    with closing(sqlite3.connect(path)) as database:
        rows = database.execute("SELECT group_id FROM files").fetchall()
    return sum(group in groups for (group,) in rows)


@pytest.mark.parametrize("size", [10, 200_000], ids=["small", "large"])
def test_json(call, group, size):
    value = f"{uuid.uuid4()}" * size
    reply = pin_json(call, value, groupId=group).json()
    assert (reply["IpfsHash"], reply["GroupId"]) == (compute_cid(f'"{value}"'.encode()), group)
    assert cids(call, group) == {reply["IpfsHash"]}


def test_files_and_folders(call, group):
    file = pin_files(call, ("a.txt", uuid.uuid4().bytes), groupId=group).json()
    folder = pin_files(
        call, ("d/a", uuid.uuid4().bytes), ("d/b", b"b"), groupId=group, cidVersion=0
    ).json()
    assert file["GroupId"] == folder["GroupId"] == group
    assert cids(call, group) == {file["IpfsHash"], folder["IpfsHash"]}


def test_pin_by_hash(call, group):
    cid = pin_json(call, str(uuid.uuid4())).json()["IpfsHash"]
    call("DELETE", f"/pinning/unpin/{cid}")
    body = {"hashToPin": cid, "pinataOptions": {"groupId": group}}
    assert call("POST", "/pinning/pinByHash", json=body).status == 200
    wait_until(lambda: call.files(group=group))
    assert cids(call, group) == {cid}


@pytest.mark.parametrize(
    "pin", [pin_json, lambda call, text, **o: pin_files(call, (text, text), **o)]
)
def test_content_that_is_pinned_already_stays_in_its_group(call, group, pin):
    other = call.data("POST", "/v3/groups/public", json={"name": "other"})["id"]
    alone, grouped = str(uuid.uuid4()), str(uuid.uuid4())
    assert pin(call, alone).json()["GroupId"] is None
    assert pin(call, alone, groupId=group).json()["GroupId"] is None
    pin(call, grouped, groupId=group)
    for options in ({}, {"groupId": other}, {"groupId": ""}, {"groupId": None}):
        reply = pin(call, grouped, **options).json()
        assert (reply["GroupId"], reply["isDuplicate"]) == (group, True)
    assert (len(cids(call, group)), cids(call, other)) == (1, set())
    # Nothing is left of the ids that no pin has got.
    assert groups_in_database(call, group, other) == 1


def test_a_pin_that_is_removed_leaves_its_group(call, group):
    text = str(uuid.uuid4())
    cid = pin_json(call, text, groupId=group).json()["IpfsHash"]
    assert call("DELETE", f"/pinning/unpin/{cid}").status == 200
    assert groups_in_database(call, group) == 0
    assert pin_json(call, text).json()["GroupId"] is None


@pytest.mark.parametrize("wrong", ["no-such-group", 5, ["x"], {"a": 1}], ids=str)
def test_a_group_that_does_not_exist_is_refused_and_nothing_is_pinned(call, wrong):
    before = call("GET", "/data/userPinnedDataTotal").json()
    text = str(uuid.uuid4())
    cid = compute_cid(b"x")
    body = {"hashToPin": cid, "pinataOptions": {"groupId": wrong}}
    replies = [
        pin_json(call, text, groupId=wrong),
        pin_files(call, (text, text), groupId=wrong),
        call("POST", "/pinning/pinByHash", json=body),
    ]
    status = 404 if isinstance(wrong, str) else 400
    assert [reply.status for reply in replies] == [status] * 3
    assert all("group" in reply.json()["error"] for reply in replies)
    assert call("GET", "/data/userPinnedDataTotal").json() == before
    assert call("GET", "/data/pinList", fields={"groupId": str(wrong)}).json()["rows"] == []


def test_a_folder_of_the_provider_pinata_is_in_its_group(node, call, group, tmp_path):
    """It uses the older call, because v3 takes no folders."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "a.txt").write_text(str(uuid.uuid4()))
    options = {"network": "public", "group": group}
    with Client.init(node.config, provider="pinata", provider_options=options) as client:
        folder = client.upload(tmp_path / "site").cid
        file = client.upload(uuid.uuid4().bytes).cid
    assert cids(call, group) == {folder, file}

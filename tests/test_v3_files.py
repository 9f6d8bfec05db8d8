"""The v3 API of the node over a real socket: files, groups, links, and private content."""

import json
import sqlite3
import time
import uuid
from contextlib import closing

import pytest

from holdfast import Client, compute_cid
from holdfast.content.car import write_car
from holdfast.content.cid import CID
from holdfast.content.profiles import UNIXFS_V1_2025
from holdfast.node.settings import NodeToken
from holdfast.repository import Repository
from holdfast.testing import running_node
from tests.support import wait_until
from tests.v3_caller import V3Caller, error_of

READER = NodeToken(token="only-reads-0123456789", scopes=frozenset({"org:files:read"}))
WRITER = NodeToken(token="writes-files-0123456789", scopes=frozenset({"org:files:write"}))
OLDER = NodeToken(token="the-older-api-0123456789", scopes=frozenset({"pinList", "pinFileToIPFS"}))
LEGACY = "kubo-legacy-cidv1"
SOON = int(time.time()) + 3600


@pytest.fixture(scope="module")
def shared_node():
    with running_node(tokens=(READER, WRITER, OLDER)) as node:
        yield node


@pytest.fixture
def call(shared_node):
    return V3Caller(shared_node)


@pytest.fixture
def fresh(empty_node):
    return V3Caller(empty_node)


# Uploads


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("size", [0, 1, 262_143, 262_144, 262_145, 700_000])
def test_cids_are_those_of_the_service_whatever_comes_first(call, size, last):
    content = bytes([size % 251, last]) * (size // 2) + b"x" * (size % 2)
    record = call.stored(content, last=last)
    assert record["cid"] == compute_cid(content, profile=LEGACY)
    old = call.stored(content, last=last, cid_version="v0")
    assert old["cid"] == compute_cid(content, profile="unixfs-v0-2015")
    reply = call("GET", f"/ipfs/{record['cid']}", token="")
    assert reply.data == content


def test_a_record_has_what_was_said_and_a_second_upload_changes_nothing(call):
    fields = {"name": "Tide", "keyvalues": '{"height":"low"}', "expires_at": SOON}
    record = call.stored(b"low tide", **fields)
    assert record["created_at"].endswith("Z")
    assert record == {
        "id": record["id"],
        "name": "Tide",
        "cid": compute_cid(b"low tide"),
        "size": 8,
        "number_of_files": 1,
        "mime_type": "text/plain",
        "group_id": None,
        "keyvalues": {"height": "low"},
        "created_at": record["created_at"],
        "expires_at": SOON,
        "vectorized": False,
        "network": "public",
    }
    assert call.stored(b"low tide", name="other") == {**record, "is_duplicate": True}
    assert call.stored(b"wrapped", keyvalues='{"keyvalues":{"a":"1"}}')["keyvalues"] == {"a": "1"}


def test_files_of_both_apis_are_the_same(fresh):
    with Client.init(fresh.node.config) as client:
        record = client.upload(b"older api", name="older.txt")
        (file,) = fresh.files(cid=record.cid)
        assert file["name"] == "older.txt"
        assert fresh.data("GET", f"/v3/files/public/{file['id']}") == file
        newer = fresh.stored(b"newer api", "newer.txt")
        assert [pin.name for pin in client.pins(cid=newer["cid"])] == ["newer.txt"]
        assert fresh.data("DELETE", f"/v3/files/public/{file['id']}") is None
        assert [pin.cid for pin in client.pins()] == [newer["cid"]]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"network": "hidden"}, "network must be public or private"),
        ({"keyvalues": "[]"}, "keyvalues must be an object"),
        ({"keyvalues": json.dumps({str(i): "" for i in range(11)})}, "at most 10 members"),
        ({"cid_version": "v2"}, "cid_version must be v0 or v1"),
        ({"expires_at": 1}, "expires_at must be a time in the future"),
        ({"car": "perhaps"}, "car must be true or false"),
        ({"colour": "red"}, "Unexpected field colour"),
        ({"name": "n" * 300}, "name must be a string of up to 245 characters"),
        ({"network": "private", "car": "true"}, "car is for the public network only"),
    ],
)
def test_what_makes_no_sense_is_refused(call, fields, message):
    for last in (False, True):
        status, text = error_of(call.upload(b"no sense", last=last, **fields))
        assert status == 400
        assert message in text


def test_folders_and_second_files_are_refused_with_a_remedy(call):
    for parts in (
        [("file", ("a/b.txt", b"x"))],
        [("file", ("a.txt", b"x")), ("file", ("b.txt", b"y"))],
    ):
        status, text = error_of(call("POST", "/v3/files", fields=[("network", "public"), *parts]))
        assert (status, "/pinning/pinFileToIPFS" in text) == (400, True)


def test_an_archive_is_imported_with_its_own_root(call, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.txt").write_bytes(b"in an archive")
    with Repository(tmp_path / "store") as repository:
        root = repository.add(tmp_path / "folder", UNIXFS_V1_2025)[0].cid
        car = b"".join(repository.export_car(CID.parse(root)))
    record = call.stored(car, "folder.car", car="true", last=True)
    assert (record["cid"], record["mime_type"]) == (root, "directory")
    assert call("GET", f"/ipfs/{root}/a.txt", token="").data == b"in an archive"
    for broken in (car[:-1], b"".join(write_car([], []))):
        assert error_of(call.upload(broken, car="true"))[0] == 400


# Lists


def test_lists_page_by_page_while_files_are_deleted(fresh):
    for number in range(7):
        fresh.stored(f"file {number}".encode(), f"{number}.txt")
    names, token = [], ""
    while token is not None:
        page = fresh.data("GET", "/v3/files/public", fields={"limit": "2", "pageToken": token})
        for file in page["files"]:
            names.append(file["name"])
            fresh.data("DELETE", f"/v3/files/public/{file['id']}")
        token = page["next_page_token"]
    assert names == [f"{number}.txt" for number in reversed(range(7))]
    assert fresh.files() == []


def test_lists_are_filtered(fresh):
    groups = [
        fresh.data("POST", "/v3/groups/public", json={"name": name})["id"] for name in ("a", "b")
    ]
    one = fresh.stored(b"1", "one.txt", group_id=groups[0], keyvalues='{"n":"1","k":"v"}')
    two = fresh.stored(b"2", "two.json", keyvalues='{"n":"2","k":"v"}')
    for query, expected in [
        ({}, [two, one]),
        ({"order": "ASC"}, [one, two]),
        ({"name": "ONE"}, [one]),
        ({"cid": two["cid"]}, [two]),
        ({"mimeType": "application/json"}, [two]),
        ({"group": groups[0]}, [one]),
        ({"group": groups[1]}, []),
        ({"group": "null"}, [two]),
        ({"cidPending": "true"}, []),
        *(({f"{spelling}[n]": "2"}, [two]) for spelling in ("keyvalues", "metadata")),
        ({"metadata[k]": "v", "keyvalues[n]": "1"}, [one]),
        ({"metadata[missing]": "None"}, []),
    ]:
        ids = [file["id"] for file in fresh.files(**query)]
        assert ids == [file["id"] for file in expected], query
    for query in ({"limit": "0"}, {"limit": "1001"}, {"order": "up"}, {"pageToken": "?"}):
        assert error_of(fresh("GET", "/v3/files/public", fields=query))[0] == 400


def test_a_file_is_changed_and_deleted_by_its_id(call):
    record = call.stored(b"to change", "before", keyvalues='{"a":"1","b":"2"}')
    address = f"/v3/files/public/{record['id']}"
    changed = call.data(
        "PUT",
        address,
        json={"name": "after", "keyvalues": {"a": None, "c": "3"}, "expires_at": SOON},
    )
    assert (changed["name"], changed["keyvalues"]) == ("after", {"b": "2", "c": "3"})
    assert call.data("GET", address) == changed
    assert "expires_at" not in call.data("PUT", address, json={"expires_at": None})
    assert error_of(call("PUT", address, json={}))[0] == 400
    response = call("DELETE", address)
    assert (response.status, response.reason, response.json()) == (200, "OK", {"data": None})
    for method, body in (("GET", None), ("PUT", {"name": "x"}), ("DELETE", None)):
        assert error_of(call(method, address, json=body))[0] == 404


@pytest.mark.slow
def test_an_expired_file_is_gone_for_both_apis(fresh):
    record = fresh.stored(b"short life", expires_at=int(time.time()) + 2)
    assert fresh.files(cid=record["cid"])
    wait_until(lambda: not fresh.files(cid=record["cid"]), 10)
    assert fresh("GET", "/data/pinList?status=pinned").json()["count"] == 0


# Groups


def test_groups(fresh):
    made = [
        fresh.data("POST", "/v3/groups/public", json={"name": name, "is_public": name == "b"})
        for name in ("a", "b", "ab")
    ]
    assert [group["is_public"] for group in made] == [False, True, False]
    listed, token = [], ""
    while token is not None:
        page = fresh.data("GET", f"/v3/groups/public?limit=2&pageToken={token}")
        listed += page["groups"]
        token = page["next_page_token"]
    assert listed == made[::-1]
    assert fresh.data("GET", "/v3/groups/public?isPublic=true")["groups"] == [made[1]]
    first, second = (f"/v3/groups/public/{group['id']}" for group in made[:2])
    file = fresh.stored(b"grouped", group_id=made[1]["id"])["id"]
    for method, address, group_id in (
        ("PUT", first, made[0]["id"]),
        ("DELETE", second, made[0]["id"]),  # a group that it is not in: nothing changes
        ("DELETE", first, None),
    ):
        assert fresh.data(method, f"{address}/ids/{file}") is None
        assert fresh.data("GET", f"/v3/files/public/{file}")["group_id"] == group_id
    assert fresh.data("PUT", first, json={"name": "c", "is_public": True})["name"] == "c"
    assert fresh.data("DELETE", first) is None
    for path in (first, f"/v3/groups/private/{made[1]['id']}"):
        assert error_of(fresh("GET", path))[0] == 404
    assert error_of(fresh("PUT", f"{first}/ids/{file}"))[0] == 404
    for body in ({"name": "x", "is_public": []}, {}):
        assert error_of(fresh("POST", "/v3/groups/public", json=body))[0] == 400


# Groups in the older API: `pinataOptions.groupId`


def pin_json(call, text, **options):
    body = {"pinataContent": text, "pinataOptions": options}
    return call("POST", "/pinning/pinJSONToIPFS", json=body)


def pin_files(call, text, **options):
    files = [("file", (f"d/{name}", text + name)) for name in "ab"]
    form = [*files, ("pinataOptions", json.dumps(options))]
    return call("POST", "/pinning/pinFileToIPFS", fields=form)


def pin_by_hash(call, text, **options):
    cid = pin_json(call, text).json()["IpfsHash"]
    call("DELETE", f"/pinning/unpin/{cid}")
    body = {"hashToPin": cid, "pinataOptions": options}
    return call("POST", "/pinning/pinByHash", json=body)


def cids_in(call, group):
    """Return what each API finds in a group, and how many ids are in it, of pins or not."""
    rows = call("GET", "/data/pinList", fields={"groupId": group}).json()["rows"]
    cids = {row["ipfs_pin_hash"] for row in rows}
    assert cids == {file["cid"] for file in call.files(group=group)}
    with (
        closing(sqlite3.connect(call.node.repository.path / "holdfast.node.sqlite3")) as database,
        database,
    ):
        groups = database.execute("SELECT group_id FROM files").fetchall()
    return cids, groups.count((group,))


@pytest.fixture
def group(call):
    return call.data("POST", "/v3/groups/public", json={"name": "tides"})["id"]


@pytest.mark.parametrize("size", [1, 200_000])
@pytest.mark.parametrize("pin", [pin_json, pin_files, pin_by_hash])
def test_content_is_pinned_into_a_group_and_leaves_it_with_its_pin(call, group, pin, size):
    reply = pin(call, f"{uuid.uuid4()}" * size, groupId=group).json()
    cid = reply.get("IpfsHash") or reply["ipfsHash"]
    assert reply.get("GroupId", group) == group
    wait_until(lambda: call.files(group=group))
    assert cids_in(call, group) == ({cid}, 1)
    assert call("DELETE", f"/pinning/unpin/{cid}").status == 200
    assert cids_in(call, group) == (set(), 0)


@pytest.mark.parametrize("pin", [pin_json, pin_files])
def test_content_that_is_pinned_already_stays_in_its_group(call, group, pin):
    other = call.data("POST", "/v3/groups/public", json={"name": "other"})["id"]
    alone, grouped = str(uuid.uuid4()), str(uuid.uuid4())
    assert pin(call, alone).json()["GroupId"] is None
    assert pin(call, alone, groupId=group).json()["GroupId"] is None
    cid = pin(call, grouped, groupId=group).json()["IpfsHash"]
    for options in ({}, {"groupId": other}, {"groupId": ""}, {"groupId": None}):
        reply = pin(call, grouped, **options).json()
        assert (reply["GroupId"], reply["isDuplicate"]) == (group, True)
    # Nothing is left of the ids that no pin has got.
    assert (cids_in(call, group), cids_in(call, other)) == (({cid}, 1), (set(), 0))


@pytest.mark.parametrize("wrong", ["no-such-group", 5, ["x"], {"a": 1}], ids=str)
def test_a_group_that_does_not_exist_is_refused_and_nothing_is_pinned(call, wrong):
    replies = [pin(call, str(uuid.uuid4()), groupId=wrong) for pin in (pin_files, pin_by_hash)]
    before = call("GET", "/data/userPinnedDataTotal").json()
    replies.append(pin_json(call, str(uuid.uuid4()), groupId=wrong))
    status = 404 if isinstance(wrong, str) else 400
    assert [reply.status for reply in replies] == [status] * 3
    assert all("group" in reply.json()["error"] for reply in replies)
    assert call("GET", "/data/userPinnedDataTotal").json() == before
    assert call("GET", "/data/pinList", fields={"groupId": str(wrong)}).json()["rows"] == []
    response = call.upload(b"group of nobody", group_id="none")
    assert error_of(response) == (404, "There is no public group with the id none")
    assert call.files(cid=compute_cid(b"group of nobody")) == []


def test_a_folder_of_the_provider_pinata_is_in_its_group(call, group, tmp_path):
    """It uses the older call, because v3 takes no folders."""
    (tmp_path / "a.txt").write_text(str(uuid.uuid4()))
    options = {"network": "public", "group": group}
    with Client.init(call.node.config, provider="pinata", provider_options=options) as client:
        cids = {client.upload(source).cid for source in (tmp_path, uuid.uuid4().bytes)}
    assert cids_in(call, group) == (cids, 2)


@pytest.mark.slow
def test_groups_and_links_survive_a_restart(tmp_path):
    with running_node(tmp_path) as node:
        call = V3Caller(node)
        group = call.data("POST", "/v3/groups/private", json={"name": "kept"})
        file = call.stored(b"kept", network="private", group_id=group["id"])
        query = call.link(file["cid"]).partition("?")[2]
    with running_node(tmp_path) as node:
        call = V3Caller(node)
        assert [row["id"] for row in call.files("private", group=group["id"])] == [file["id"]]
        assert call("GET", f"/files/{file['cid']}?{query}", token="").data == b"kept"


@pytest.mark.parametrize(
    "change",
    [
        "groups SET name = x'ff'",
        "groups SET created = 1e300",
        "groups SET uuid = x'ff'",
        "files SET group_id = x'ff'",
        "files SET expires = 'x'",
        "files SET cid = 'x', expires = 1",
        "files SET uuid = x'ff', expires = 1",
    ],
)
def test_a_damaged_row_of_a_group_is_said_and_no_content_is_lost(fresh, change):
    group = fresh.data("POST", "/v3/groups/public", json={"name": "tides"})
    file = fresh.stored(b"kept", group_id=group["id"])
    with (
        closing(
            sqlite3.connect(fresh.node.repository.path / "holdfast.node.sqlite3")
        ) as connection,
        connection,
    ):
        connection.execute(f"UPDATE {change}")
    replies = [fresh("GET", f"/v3/{path}/public") for path in ("groups", "files")]
    texts = [error_of(reply)[1] for reply in replies if reply.status != 200]
    assert texts
    assert all("node's store is damaged" in text for text in texts)
    assert fresh("GET", f"/ipfs/{file['cid']}").data == b"kept"


@pytest.mark.parametrize(("is_foreign", "status"), [(False, 500), (True, 503)])
def test_a_database_that_cannot_be_read_stops_no_upload_without_a_group(
    tmp_path, is_foreign, status
):
    path = tmp_path / "holdfast.node.sqlite3"
    if is_foreign:
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("CREATE TABLE groups (id)")
    else:
        path.write_bytes(b"damaged" * 1000)
    with running_node(tmp_path) as node:
        call = V3Caller(node)
        assert error_of(call("GET", "/v3/groups/public"))[0] == status
        assert call.stored(b"kept")["group_id"] is None
        assert call.pin(b"kept too") == compute_cid(b"kept too")


# Pin by CID


def test_pin_by_cid_with_its_queue(fresh):
    with Client.init(fresh.node.config) as client:
        cid = client.upload(b"pinned before").cid
        client.revoke(cid)
    group = fresh.data("POST", "/v3/groups/public", json={"name": "pins"})
    body = {"cid": cid, "name": "by cid", "group_id": group["id"], "keyvalues": {"a": "1"}}
    job = fresh.data("POST", "/v3/files/public/pin_by_cid", json=body)
    assert (job["status"], job["cid"]) == ("prechecking", cid)
    wait_until(lambda: fresh.files(cid=cid))
    (file,) = fresh.files(cid=cid)
    assert (file["id"], file["name"], file["group_id"]) == (job["id"], "by cid", group["id"])
    nowhere = compute_cid(b"nobody has this")
    lost = fresh.data("POST", "/v3/files/public/pin_by_cid", json={"cid": nowhere})
    wait_until(lambda: fresh.data("GET", "/v3/files/public/pin_by_cid?status=expired")["jobs"])
    (row,) = fresh.data("GET", f"/v3/files/public/pin_by_cid?cid={nowhere}")["jobs"]
    assert (row["id"], row["status"]) == (lost["id"], "expired")
    assert fresh.data("DELETE", f"/v3/files/public/pin_by_cid/{lost['id']}") is None
    assert fresh.data("GET", "/v3/files/public/pin_by_cid")["jobs"] == []
    assert error_of(fresh("DELETE", f"/v3/files/public/pin_by_cid/{lost['id']}"))[0] == 404
    assert error_of(fresh("POST", "/v3/files/public/pin_by_cid", json={"cid": "no"}))[0] == 400


# Tokens


def test_scopes_of_the_two_apis_are_apart(call):
    assert call.data("GET", "/v3/files/public", token=READER.token) is not None
    assert call.data("GET", "/v3/files/public", token=WRITER.token) is not None
    assert call("GET", "/data/testAuthentication", token=WRITER.token).status == 200
    assert call("GET", "/data/pinList", token=WRITER.token).status == 403
    assert error_of(call("GET", "/v3/files/public", token=OLDER.token))[0] == 403
    assert error_of(call("GET", "/v3/groups/public", token=WRITER.token))[0] == 403
    for method, path in (("POST", "/v3/files"), ("DELETE", "/v3/files/public/x")):
        assert error_of(call(method, path, token=READER.token))[0] == 403
        assert error_of(call(method, path, token="wrong")) == (401, "Not Authorized")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("PUT", "/v3/files/public/swap/bafkqaaa", 501),
        ("POST", "/v3/files/public/signature/bafkqaaa", 501),
        ("POST", "/v3/vectorize/files/x", 501),
        ("GET", "/v3/x402/payment_instructions", 501),
        ("GET", "/v3/ipfs/gateway_analytics_top", 501),
        ("POST", "/v3/pinata/keys", 501),
        ("GET", "/v3/nothing", 404),
    ],
)
def test_what_the_node_lacks_is_said_in_a_sentence(call, method, path, status):
    refused, message = error_of(call(method, path))
    assert refused == status
    assert " " in message


# Signed addresses


def sign(call, **grant):
    body = {"date": int(time.time()), "expires": 60, "network": "public", **grant}
    return call.data("POST", "/v3/files/sign", json=body)


def test_a_signed_address_takes_an_upload_without_a_token(call):
    address = sign(call, filename="granted", keyvalues={"k": "v"})
    fields = [("file", ("own.txt", b"by link")), ("network", "private"), ("name", "own")]
    response = call("POST", address, token="", fields=fields)
    record = response.json()["data"]
    assert (record["name"], record["keyvalues"], record["network"]) == (
        *("granted", {"k": "v"}),
        "public",
    )
    assert response.headers["Access-Control-Allow-Origin"] == "*"
    preflight = call("OPTIONS", address, token="")
    assert (preflight.status, preflight.headers["Tus-Version"]) == (204, "1.0.0")


def test_a_signed_address_limits_what_it_takes(call):
    small = sign(call, max_file_size=3, allow_mime_types=["text/*"])
    for file, status, words in (
        (("a.txt", b"four", "text/plain"), 413, "3 bytes"),
        (("a.png", b"png", "image/png"), 400, "image/png"),
        (("a/b.txt", b"b", "text/plain"), 400, "MIME type: directory"),
    ):
        refused, message = error_of(call("POST", small, token="", fields=[("file", file)]))
        assert (refused, words in message) == (status, True)
    assert error_of(call.create(4, path=small, token="", filetype="text/plain"))[0] == 413
    assert error_of(call.create(3, path=small, token="", filetype="image/png"))[0] == 400


def test_a_signed_address_that_was_changed_or_has_expired_is_refused(call):
    address = sign(call)
    payload, _, signature = address.rpartition(".")
    old = sign(call, date=int(time.time()) - 61)
    for bad in (f"{payload}x.{signature}", f"{payload}.{'0' * 64}", f"{payload}.é", old):
        assert error_of(call("POST", bad, token="", fields=[("file", ("x", b"x"))]))[0] == 403
    assert call("GET", address, token="").status == 405
    no_network = {"date": 1, "expires": 1, "network": []}
    no_date = {"date": True, "expires": 1}
    for body in ({}, {"date": 1}, {"date": 1, "expires": "soon"}, no_date, no_network):
        assert error_of(call("POST", "/v3/files/sign", json=body))[0] == 400


# Private content


@pytest.mark.parametrize("last", [False, True])
def test_private_content_is_read_through_a_link_and_nothing_else(fresh, last):
    content = b"private " * 100_000
    cid = fresh.stored(content, "secret.txt", network="private", last=last)["cid"]
    leaves = [CID.of_raw(content[at : at + 262_144]) for at in range(0, 786_432, 262_144)]
    for block in (cid, *leaves):
        for query in ("", "?format=raw", "?format=car", "?format=tar", "?format=json"):
            assert fresh("GET", f"/ipfs/{block}{query}", token="").status == 404
    assert fresh("GET", f"/files/{cid}", token="").status == 403
    assert fresh("GET", f"/files/{cid}").status == 403  # a token is not a link
    link = fresh.link(cid)
    reply = fresh("GET", link, token="")
    assert reply.data == content
    assert reply.headers["Cache-Control"] == "private, no-store"
    assert reply.headers["Content-Security-Policy"].startswith("sandbox; ")
    part = fresh("GET", link, token="", headers={"Range": "bytes=3-5"})
    assert (part.status, part.data) == (206, content[3:6])
    assert fresh("HEAD", link, token="").status == 200
    car = fresh("GET", f"{link}&format=car", token="")
    assert car.headers["Content-Type"].startswith("application/vnd.ipld.car")
    # No job pins it in the public network.
    fresh.data("POST", "/v3/files/public/pin_by_cid", json={"cid": cid})
    wait_until(lambda: fresh.data("GET", "/v3/files/public/pin_by_cid?status=expired")["jobs"])
    assert fresh.node.repository.pins() == []
    assert fresh("GET", f"/ipfs/{cid}", token="").status == 404


def test_content_of_both_networks_is_public_and_stays_private_after_the_public_file(call):
    private = call.stored(b"in both", network="private")
    public = call.stored(b"in both")
    assert private["cid"] == public["cid"]
    assert private["id"] != public["id"]
    cid = public["cid"]
    assert call("GET", f"/ipfs/{cid}", token="").data == b"in both"
    call.data("DELETE", f"/v3/files/public/{public['id']}")
    call.node.repository.collect_garbage()
    assert call("GET", call.link(cid), token="").data == b"in both"
    call.data("DELETE", f"/v3/files/private/{private['id']}")
    assert call("GET", call.link(cid), token="").status == 404


def test_a_folder_with_private_content_makes_it_public(call, tmp_path):
    call.stored(b"both", "a.txt", network="private")
    (tmp_path / "a.txt").write_bytes(b"both")
    with Client.init(call.node.config) as client:
        root = client.upload(tmp_path).cid
    assert call("GET", f"/ipfs/{root}/a.txt", token="").data == b"both"


def test_a_link_that_was_changed_or_has_expired_is_refused(call):
    one, other = (call.stored(content, network="private")["cid"] for content in (b"one", b"other"))
    link = call.link(one)
    changes = [("X-Expires=60", "X-Expires=61"), ("X-Method=GET", "X-Method=PUT"), (one, other)]
    for before, after in changes:
        assert call("GET", link.replace(before, after), token="").status == 403
    assert call("GET", call.link(one, date=1, expires=60), token="").status == 403
    for url in (None, [], "http://x/ipfs/bafkqaaa", "http://[x/files/bafkqaaa"):
        body = {"url": url, "date": 1, "expires": 1}
        assert error_of(call("POST", "/v3/files/private/download_link", json=body))[0] == 400


def test_the_key_of_links_can_only_be_read_by_its_owner(call):
    call.stored(b"key", network="private")
    call.link(compute_cid(b"key"))
    path = call.node.repository.path / "holdfast.links.key"
    assert (path.stat().st_mode & 0o777, path.stat().st_size) == (0o600, 32)
    assert path.stat().st_nlink == 1


@pytest.mark.slow
def test_a_private_folder_that_is_a_link_is_refused(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "private").symlink_to(tmp_path / "elsewhere")
    with running_node(tmp_path / "store") as node:
        assert V3Caller(node).upload(b"x", network="private").status == 503
        assert V3Caller(node).upload(b"x").status == 200
    assert list((tmp_path / "elsewhere").iterdir()) == []

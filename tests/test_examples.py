"""The programs in `examples/`, run as their docstrings say, against real nodes."""

import ast
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pytest
import urllib3
from examples import mailbox, service

from holdfast import Client, compute_cid, errors
from holdfast.testing import running_node
from tests.commands import Commands, node_variables
from tests.support import EMPTY_DIRECTORY_V0, HELLO_CID, wait_until

pytestmark = pytest.mark.slow  # many processes, and nodes of their own

ROOT = Path(__file__).resolve().parent.parent
MIB = 1 << 20


def example(folder, name, **variables):
    """Runs one of the examples in a folder of its own."""
    command = (sys.executable, "-W", "error", str(ROOT / f"examples/{name}.py"))
    return Commands(folder, command, **variables)


def documented(name):
    """The command lines in an example's docstring, without their comments."""
    text = ast.get_docstring(ast.parse((ROOT / f"examples/{name}.py").read_text()))
    return [
        shlex.split(line, comments=True)
        for line in text.splitlines()
        if re.match(r"    (python|uvicorn|curl) ", line)
    ]


def test_they_need_what_they_say_and_no_more():
    needed = {}
    for path in (ROOT / "examples").glob("*.py"):
        imported = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add(node.module.partition(".")[0])
        needed[path.stem] = imported - sys.stdlib_module_names - {"holdfast"}
    expected = {
        "service": {"fastapi", "pydantic"},
        "browser_upload": {"fastapi"},
        "tracing": {"opentelemetry"},
    }
    assert {name: extras for name, extras in needed.items() if extras} == expected


# The service


@contextmanager
def running_service(folder, name="service", **variables):
    """The service's address; it must end well and without a traceback."""
    (command,) = [words for words in documented(name) if words[0] == "uvicorn"]
    environment = Commands(folder, **variables).environment
    with subprocess.Popen(  # noqa: S603 - our own command
        [sys.executable, "-W", "error", "-m", *command, "--port", "0"],
        cwd=ROOT,
        env=environment,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    ) as process:
        log = ""
        try:
            for line in process.stderr:
                log += line
                if address := re.search(r"running on (http://\S+)", line):
                    yield address[1]
                    break
        finally:
            process.send_signal(signal.SIGINT)
            log += process.communicate(timeout=120)[1]
    assert "Application shutdown complete." in log, log
    assert process.returncode == 0, log


class Visitor:
    """Asks a service; a refusal is an answer like any other."""

    def __init__(self, url):
        self.url = url
        self.http = urllib3.PoolManager(retries=False)

    def get(self, path, **headers):
        return self.http.request("GET", self.url + path, headers=headers)

    def post_file(self, data, name="data.bin"):
        return self.http.request("POST", f"{self.url}/files", fields={"file": (name, data)})

    def post_json(self, text):
        headers = {"Content-Type": "application/json"}
        return self.http.request("POST", f"{self.url}/json", body=text, headers=headers)


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    """A node, and a service in front of it."""
    with (
        running_node() as node,
        running_service(tmp_path_factory.mktemp("service"), **node_variables(node)) as service,
    ):
        visitor = Visitor(service)
        yield node, visitor
        visitor.http.clear()


@pytest.mark.skipif(shutil.which("curl") is None, reason="the docstring speaks curl")
def test_the_service_does_what_its_docstring_says(tmp_path):
    readme = (ROOT / "README.md").read_bytes()
    replies, cid = [], ""
    with running_service(tmp_path) as url:
        for command in documented("service"):
            if command[0] == "curl":
                line = " ".join(map(shlex.quote, [*command, "--silent", "--show-error"]))
                line = line.replace("localhost:8000", url).replace("bafkrei…", cid)
                done = subprocess.run(  # noqa: S603 - our own command
                    shlex.split(line), cwd=ROOT, capture_output=True, check=True
                )
                replies.append(done.stdout)
                if written := re.match(rb'{"cid":"(\w+)"', done.stdout):
                    cid = written[1].decode()
        assert b"swagger" in Visitor(url).get("/docs").data
    uploaded, streamed, whole, part, stored, value, health = replies
    assert json.loads(uploaded) == {"cid": compute_cid(readme), "size": len(readme)}
    assert json.loads(streamed) == json.loads(uploaded)
    assert whole == readme
    assert part == readme[100:200]
    assert json.loads(stored) == {"cid": compute_cid(b'{"hello":"world"}'), "size": 17}
    assert (json.loads(value), json.loads(health)) == ({"hello": "world"}, {"status": "ok"})


def test_a_file_goes_in_and_comes_back_whole_or_in_part(house):
    node, visitor = house
    data = os.urandom(8 * MIB)
    reply = visitor.post_file(data, name="holiday/ż 1.bin")
    cid, size = compute_cid(data), 8 * MIB
    assert (reply.status, reply.json()) == (201, {"cid": cid, "size": size})
    assert node.repository.pins()[0].name == "ż 1.bin"
    whole = visitor.get(f"/files/{cid}")
    assert (whole.status, whole.data == data) == (200, True)
    assert whole.headers["content-type"] == "application/octet-stream"
    assert whole.headers["content-length"] == str(size)
    for asked, start, stop in [
        ("bytes=5-9", 5, 10),
        ("bytes=1048570-2097160", 1048570, 2097161),
        (f"bytes={size - 3}-{size + 50}", size - 3, size),
        ("bytes=-7", size - 7, size),
        ("bytes=0-", 0, size),
        (f"bytes=-{size + 1}", 0, size),
    ]:
        part = visitor.get(f"/files/{cid}", Range=asked)
        assert (part.status, part.data == data[start:stop]) == (206, True), asked
        assert part.headers["content-range"] == f"bytes {start}-{stop - 1}/{size}"
    for ignored in ["bytes=0-1,4-5", "lines=1-2", "bytes=-", f"bytes={'9' * 5000}-"]:
        assert visitor.get(f"/files/{cid}", Range=ignored).status == 200
    beyond = visitor.get(f"/files/{cid}", Range=f"bytes={size}-")
    assert (beyond.status, beyond.headers["content-range"]) == (416, f"bytes */{size}")
    empty = visitor.post_file(b"", name="..").json()
    whole = visitor.get(f"/files/{empty['cid']}")
    assert (empty["size"], whole.status, whole.data) == (0, 200, b"")
    assert visitor.get(f"/files/{empty['cid']}", Range="bytes=0-").status == 416


def test_an_error_is_a_status_and_its_own_words(house):
    node, visitor = house
    text = visitor.post_file(b"no JSON").json()["cid"]
    for path, status, error in (
        ("/files/nonsense", 422, "InvalidCIDError"),
        (f"/files/{EMPTY_DIRECTORY_V0}", 404, "NotFoundError"),
        (f"/json/{text}", 422, "SerializationError"),
    ):
        reply = visitor.get(path)
        assert (reply.status, reply.json()["error"]) == (status, error)
    assert visitor.get("/health").json() == {"status": "ok"}
    node.fail_next(status=429, headers={"Retry-After": "7"})
    busy = visitor.get("/health")
    assert (busy.status, busy.headers["retry-after"]) == (503, "7")
    node.fail_next(status=401)  # our token: nothing that the caller could mend
    refused = visitor.get("/health")
    assert (refused.status, refused.json()["detail"]) == (502, "HTTP error 401")
    assert visitor.post_json(b'{"a": NaN}').json()["error"] == "SerializationError"
    assert visitor.post_json(b"{").status == 422


def test_wrong_bytes_reach_nobody(house):
    node, visitor = house
    cid = visitor.post_file(os.urandom(3 * MIB)).json()["cid"]
    node.corrupt_next(times=99)
    reply = visitor.get(f"/files/{cid}")
    assert (reply.status, reply.json()["error"]) == (502, "VerificationError")
    node.heal()
    # Now the root block is right, and what follows is not.
    node.corrupt_next(after=1000, times=99)
    with pytest.raises(urllib3.exceptions.ProtocolError, match="IncompleteRead"):
        visitor.get(f"/files/{cid}")
    node.heal()


async def test_without_a_token_the_service_does_not_start(monkeypatch):
    monkeypatch.setenv("HOLDFAST_PROVIDER", "pinning")
    with pytest.raises(errors.ConfigError, match="provider_token is missing"):
        await service.lifespan(service.app).__aenter__()


async def test_every_error_has_a_status():
    """Most are ours or the provider's, and nothing that the caller could mend."""
    statuses = {
        **dict.fromkeys(("InvalidCIDError", "SerializationError", "NotAFileError"), 422),
        **dict.fromkeys(("NotFoundError", "NotAFolderError"), 404),
        "RateLimitError": 503,
        "NetworkError": 503,
        "RequestTimeoutError": 504,
    }
    for kind in (kind for kind in vars(errors).values() if isinstance(kind, type)):
        reply = await service.fail(None, kind("words"))
        assert json.loads(reply.body) == {"error": kind.__name__, "detail": "words"}
        assert reply.status_code == statuses.get(kind.__name__, 502)


# The importer

ODD_NAMES = [
    b"plain.txt",
    b"sub/deeper/\xc5\xbc \xf0\x9f\x99\x82.txt",
    b"sub/new\nline",
    b"sub/quo\"te;s'",
    b"sub/\xff.bin",
    b"-dash",
    b"%41",
    b"empty",
]


def fill(folder, names=ODD_NAMES):
    """A folder of files, each with its name for content; CIDs by path."""
    cids = {}
    for name in names:
        path = Path(os.fsdecode(os.fsencode(folder) + b"/" + name))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"" if name == b"empty" else name)
        cids[os.fsdecode(name)] = compute_cid(path)
    return cids


def manifest_of(file):
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    return {line["path"]: line["cid"] for line in lines}


@pytest.fixture
def node(empty_node):
    return empty_node


@pytest.fixture
def importer(tmp_path, node):
    return example(tmp_path, "bulk_import", **node_variables(node))


def outcome(result):
    return result.returncode, result.stdout.decode()


def test_every_file_is_imported_once(importer, node):
    folder = importer.folder / "photos"
    cids = fill(folder)
    (folder / "sub/again").symlink_to(folder)  # round and round, if it were followed
    for words in documented("bulk_import"):
        first = importer.run(*words[2:])
        assert outcome(first) == (0, "8 uploaded, 0 unchanged, 0 failed\n")
    manifest = importer.folder / "photos.manifest.jsonl"
    assert manifest_of(manifest) == manifest_of(importer.folder / "done.jsonl") == cids
    assert {pin.cid for pin in node.repository.pins()} == set(cids.values())
    manifest.write_bytes(manifest.read_bytes()[:-20])  # the last line is cut short
    assert outcome(importer.run("photos")) == (0, "1 uploaded, 7 unchanged, 0 failed\n")
    (folder / "plain.txt").write_bytes(b"other.txt")  # as long as before
    (folder / "more").write_bytes(b"more")
    again = importer.run("photos/", "--manifest", manifest, "--at-once", 1)
    assert outcome(again) == (0, "2 uploaded, 7 unchanged, 0 failed\n")
    changed = {"plain.txt": compute_cid(b"other.txt"), "more": compute_cid(b"more")}
    cut, *lines = [line for line in manifest.read_text().splitlines() if line[-1:] != "}"]
    assert (cut[:1], lines) == ("{", [])
    manifest.write_text(manifest.read_text().replace(f"{cut}\n", ""))
    assert manifest_of(manifest) == {**cids, **changed}


def test_faults_are_survived_or_reported(importer, node):
    cids = fill(importer.folder / "photos")
    (importer.folder / "photos/dangling").symlink_to("nothing")
    os.mkfifo(importer.folder / "photos/pipe")  # nobody writes to it: to read it is to wait
    node.fail_next(status=503, times=2)
    node.fail_next(status=402, body={"error": "the plan is used up"})
    result = importer.run("photos", "--at-once", 1)
    assert outcome(result) == (1, "7 uploaded, 0 unchanged, 2 failed\n")
    dangling, refused = result.stderr.decode().splitlines()[-2:]
    assert re.fullmatch(r"failed: '\S+/photos/dangling': \[Errno 2\] No such file.*", dangling)
    assert refused == "failed: '%41': the plan is used up"
    (importer.folder / "photos/dangling").unlink()
    result = importer.run("photos")
    assert outcome(result) == (0, "1 uploaded, 7 unchanged, 0 failed\n")
    assert manifest_of(importer.folder / "photos.manifest.jsonl") == cids


def test_a_refused_token_ends_it_at_the_first_file(importer, node):
    fill(importer.folder / "photos")
    node.fail_next(status=401, times=99)
    result = importer.run("photos", "--at-once", 2)
    assert result.returncode == 1
    assert b": HTTP error 401\n" in result.stderr
    assert len(node.requests) <= 2


def test_after_ctrl_c_it_goes_on_where_it_was(importer, node):
    cids = fill(importer.folder / "photos")
    node.delay_next(0, times=3)
    node.delay_next(40, times=2)
    manifest = importer.folder / "photos.manifest.jsonl"
    with importer.start("photos", "--at-once", 2) as process:
        wait_until(lambda: len(node.requests) == 5 and manifest.read_bytes().count(b"\n") == 3)
        process.send_signal(signal.SIGINT)
        said, noted = process.communicate(timeout=120)
    assert (process.returncode, said) == (130, "3 uploaded, 0 unchanged, 0 failed\n")
    assert "Traceback" not in noted
    assert len(manifest_of(manifest)) == 3
    node.heal()
    assert outcome(importer.run("photos")) == (0, "5 uploaded, 3 unchanged, 0 failed\n")
    assert manifest_of(manifest) == cids


# The mailbox


def words(text):
    """The lines of the mailbox without their dates, which must be such."""
    lines = []
    for line in text.splitlines():
        date, _, rest = line.partition("  ")
        age = datetime.now().astimezone() - datetime.fromisoformat(date).astimezone()
        assert abs(age).days == 0
        lines.append(rest)
    return lines


def test_a_folder_that_cannot_be_trusted(tmp_path, node):
    party = example(tmp_path, "mailbox", **node_variables(node))
    party.text("send", "alice", "the truth")
    to_carol = party.text("send", "carol", "not for alice")
    with Client.init(node.config) as client:
        no_message = client.store([1, 2, 3]).cid
        far = {"recipientId": "alice", "payload": "\x1b[2Jboo", "timestamp": 10**400}
        no_date = client.store(far).cid
    new = party.folder / "mailboxes/alice/new"
    (new / ".synchronising").touch()
    for time_and_cid in (f"1.{to_carol}", f"2.{no_message}", "3.nonsense", f"4.{HELLO_CID}"):
        (new / time_and_cid).touch()
    (new / f"9.{no_date}").touch()
    result = party.run("read", "alice")
    assert result.returncode == 1
    strange, dated = sorted(result.stdout.decode().splitlines(), key=lambda line: line[0] != "(")
    assert (words(dated), strange) == (["the truth"], "(no date)  �[2Jboo")
    assert [line.partition(": ")[2] for line in result.stderr.decode().splitlines()] == [
        "this is a message for 'carol'",
        "expected a JSON object with 'recipientId', got an array",
        "Invalid CID",
        f"Not Found: {HELLO_CID} is not here.",
    ]
    assert len(list(new.glob("[0-9]*"))) == 4  # for another day


@pytest.mark.parametrize("name", ["../bob", "..", "a/b", "b\\..", "alice@example.com", "Zoë"])
def test_no_name_leads_out_of_the_folder(tmp_path, name):
    with Client.init(path=tmp_path / "store") as client:
        box = mailbox.Mailbox(client, tmp_path / "shared", name)
        box.send("hi")
        (entry,) = box.waiting(read_too=False)
        assert box.open(entry).payload == "hi"
    (read,) = (tmp_path / "shared").glob("*/read/*")
    assert read.name == entry.name
    assert {path.name for path in tmp_path.iterdir()} == {"shared", "store"}


def test_the_mailbox_does_what_its_docstring_says(tmp_path):
    party = example(tmp_path, "mailbox")
    send, *reads = [line[2:] for line in documented("mailbox")]
    cid = party.text(*send)
    (entry,) = (party.folder / "mailboxes/alice/new").iterdir()
    assert re.fullmatch(rf"\d{{13}}\.{cid}", entry.name)
    assert [words(party.text(*read)) for read in reads] == [["hi"], ["hi"]]
    assert (party.folder / "mailboxes/alice/read" / entry.name).exists()


# The NFT collection


def test_a_collection_of_images_and_their_metadata(tmp_path, node):
    run = example(tmp_path, "nft_collection", **node_variables(node))
    images = run.folder / "images"
    images.mkdir()
    for name in ("ayla", "bo", "cy #2"):
        (images / f"{name}.png").write_bytes(b"\x89PNG " + name.encode())
    (images / ".DS_Store").touch()
    (command,) = documented("nft_collection")
    lines = run.text(*command[2:]).splitlines()
    art = compute_cid(images)
    assert lines == [
        f"token 1: ayla, ipfs://{art}/ayla.png",
        f"base URI: ipfs://{compute_cid(run.folder / 'metadata')}/",
    ]
    third = json.loads((run.folder / "metadata/3").read_text())
    assert third == {"name": "cy #2", "image": f"ipfs://{art}/cy%20%232.png"}
    assert not (run.folder / "metadata/4").exists()

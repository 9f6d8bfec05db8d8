"""What comes into the node's store is what was asked for: archives of others, and large forms."""

import itertools
import json
import os
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import urllib3

from holdfast._sync.reads import blocks as block_sources
from holdfast.content.car import V2_PRAGMA, write_car
from holdfast.content.cid import CID
from holdfast.content.profiles import UNIXFS_V1_2025
from holdfast.content.unixfs.files import FileImporter
from holdfast.node import form_upload, pin_jobs
from holdfast.repository import Repository
from holdfast.repository.adding import Adding
from holdfast.testing import running_node
from tests.node_process import ON_LINUX, node_process
from tests.support import wait_until

SMALL = b"ten bytes."
SMALL_CID = CID.of_raw(SMALL)


# Archives of others


@contextmanager
def gateway(pieces):
    """Serve one archive, which may be endless; tells how many bytes of it were sent."""
    sent = [0]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "application/vnd.ipld.car")
            self.end_headers()
            try:
                for piece in pieces():
                    self.wfile.write(piece)
                    sent[0] += len(piece)
            except OSError:
                pass  # the node has had enough

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/ipfs", sent
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def unrelated(size=100_000):
    """Blocks of no DAG, without an end."""
    for number in itertools.count():
        data = number.to_bytes(8, "big") + bytes(size)
        yield CID.of_raw(data), data


def file_blocks(data):
    """The blocks of a file with several leaves, its root first."""
    blocks = []
    importer = FileImporter(UNIXFS_V1_2025, lambda cid, block: blocks.append((cid, block)))
    importer.update(data)
    root = importer.finish().cid
    return root, sorted(blocks, key=lambda block: block[0] != root)


def pin_by_hash(node, cid):
    """Have the node pin `cid`; give the status of the job at its end, None for success."""
    headers = {"Authorization": f"Bearer {node.token}"}
    urllib3.request(
        "POST",
        f"{node.api_url}/pinning/pinByHash",
        json={"hashToPin": str(cid)},
        headers=headers,
        timeout=60,
    )
    for _ in range(1000):
        jobs = urllib3.request(
            "GET", f"{node.api_url}/pinning/pinJobs", headers=headers, timeout=60
        ).json()
        if not jobs["rows"] or jobs["rows"][0]["status"] not in {"prechecking", "retrieving"}:
            return jobs["rows"][0]["status"] if jobs["rows"] else None
        time.sleep(0.02)
    return "under way"


def stored(repository):
    with repository._database.reading() as connection:
        return connection.execute("SELECT count(*) FROM blocks").fetchone()[0]


def test_an_endless_archive_of_unrelated_blocks_ends_and_none_of_it_is_stored(monkeypatch):
    monkeypatch.setattr(block_sources, "MAX_UNRELATED", 2 << 20)
    with gateway(lambda: write_car([SMALL_CID], unrelated())) as (url, sent):
        with running_node(gateways=(url,)) as node:
            assert pin_by_hash(node, SMALL_CID) == "expired"
            assert stored(node.repository) == 0
        assert sent[0] < 32 << 20  # what the sockets hold of it included


def test_unrelated_blocks_around_the_wanted_ones_are_left_out(monkeypatch):
    monkeypatch.setattr(block_sources, "MAX_UNRELATED", 2 << 20)
    root, blocks = file_blocks(os.urandom(3 << 20))
    mixed = itertools.chain(
        itertools.islice(unrelated(), 5), blocks[:2], itertools.islice(unrelated(), 5), blocks[2:]
    )
    endless = itertools.chain(mixed, unrelated())
    with (
        gateway(lambda: write_car([root], endless)) as (url, sent),
        running_node(gateways=(url,)) as node,
    ):
        assert pin_by_hash(node, root) is None
        assert stored(node.repository) == len(blocks)
        assert node.repository.file_size(root) == 3 << 20
        assert sent[0] < 32 << 20


def test_blocks_that_come_before_those_that_link_to_them_are_taken():
    root, blocks = file_blocks(os.urandom(3 << 20))
    with (
        gateway(lambda: write_car([root], reversed(blocks))) as (url, _),
        running_node(gateways=(url,)) as node,
    ):
        assert pin_by_hash(node, root) is None
        assert stored(node.repository) == len(blocks)


def test_what_a_failed_job_left_is_collected(monkeypatch):
    monkeypatch.setattr(block_sources, "MAX_UNRELATED", 2 << 20)
    root, blocks = file_blocks(os.urandom(10 << 20))
    begun = itertools.chain(blocks[:-1], unrelated())
    with (
        gateway(lambda: write_car([root], begun)) as (url, _),
        running_node(gateways=(url,)) as node,
    ):
        assert pin_by_hash(node, root) == "expired"
        node.repository.collect_garbage()
        assert stored(node.repository) == 0


def test_an_archive_that_never_comes_to_its_data_ends(monkeypatch):
    monkeypatch.setattr(block_sources, "MAX_UNRELATED", 2 << 20)

    def far_away():
        yield bytes([len(V2_PRAGMA)]) + V2_PRAGMA
        yield bytes(16) + (1 << 60).to_bytes(8, "little") + bytes(16)
        while True:
            yield bytes(100_000)

    with gateway(far_away) as (url, sent), running_node(gateways=(url,)) as node:
        assert pin_by_hash(node, SMALL_CID) == "expired"
        assert sent[0] < 32 << 20


def test_content_that_is_too_large_is_given_up(monkeypatch):
    root, blocks = file_blocks(os.urandom(4 << 20))
    with gateway(lambda: write_car([root], blocks)) as (url, _):
        with running_node(gateways=(url,), max_upload=2 << 20) as node:
            assert pin_by_hash(node, root) == "over_max_size"
            node.repository.collect_garbage()
            assert stored(node.repository) == 0
        monkeypatch.setattr(pin_jobs, "MAX_BLOCKS", 3)
        with running_node(gateways=(url,)) as node:
            assert pin_by_hash(node, root) == "over_max_size"


def test_a_job_that_the_end_of_the_node_interrupts_leaves_nothing_that_stays(tmp_path):
    root, blocks = file_blocks(os.urandom(20 << 20))
    is_over = threading.Event()

    def stalling():
        yield from write_car([root], blocks[:-1])
        is_over.wait(30)

    with gateway(stalling) as (url, sent):
        with running_node(tmp_path, gateways=(url,)) as node:
            headers = {"Authorization": f"Bearer {node.token}"}
            body = {"hashToPin": str(root)}
            call = f"{node.api_url}/pinning/pinByHash"
            urllib3.request("POST", call, json=body, headers=headers, timeout=60)
            wait_until(lambda: sent[0] >= 19 << 20 and stored(node.repository))
        is_over.set()
    with Repository(tmp_path) as repository:
        assert stored(repository) > 0
        repository.collect_garbage()
        assert stored(repository) == 0


# Forms


def upload(node, *paths, **fields):
    forms = [("file", (path, b"x")) for path in paths]
    forms += [(name, json.dumps(value)) for name, value in fields.items()]
    headers = {"Authorization": f"Bearer {node.token}"}
    url = f"{node.api_url}/pinning/pinFileToIPFS"
    body, kind = urllib3.encode_multipart_formdata(forms)
    return urllib3.request(
        "POST", url, body=body, headers=headers | {"Content-Type": kind}, timeout=60
    )


def sentence(response):
    assert response.status == 400
    return response.json()["error"]


def test_a_filename_has_at_most_64_levels(node):
    assert upload(node, "/".join("a" * 64)).status == 200
    assert "64 levels" in sentence(upload(node, "/".join("a" * 65)))
    assert "16384 bytes" in sentence(upload(node, "/".join("a" * 10_000)))


def test_an_upload_has_at_most_100000_files(node, monkeypatch):
    assert form_upload.MAX_FILES == 100_000
    monkeypatch.setattr(form_upload, "MAX_FILES", 20)
    assert upload(node, *(f"d/{n}" for n in range(20))).status == 200
    assert "20 files" in sentence(upload(node, *(f"d/{n}" for n in range(21))))


def test_an_upload_has_at_most_a_million_folders(node, monkeypatch):
    assert form_upload.MAX_FOLDERS == 1_000_000
    monkeypatch.setattr(form_upload, "MAX_FOLDERS", 11)
    assert upload(node, *(f"d/{n}/f" for n in range(10))).status == 200
    assert "11 folders" in sentence(upload(node, *(f"d/{n}/f" for n in range(11))))


def test_the_filenames_of_an_upload_have_a_limit_together(node, monkeypatch):
    monkeypatch.setattr(form_upload, "MAX_PATHS", 10_000)
    assert upload(node, *(f"d/{n}-{'x' * 900}" for n in range(10))).status == 200
    assert "10000 bytes" in sentence(upload(node, *(f"d/{n}-{'x' * 900}" for n in range(12))))


def test_the_parts_of_a_form_have_few_and_short_headers(node):
    headers = {
        "Authorization": f"Bearer {node.token}",
        "Content-Type": "multipart/form-data; boundary=b",
    }
    url = f"{node.api_url}/pinning/pinFileToIPFS"
    for more in ("X-Long: " + "x" * 20_000, "\r\n".join(f"X-{n}: y" for n in range(20))):
        part = f'--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n{more}\r\n\r\n'
        body = part.encode() + b"x\r\n--b--\r\n"
        assert "16 headers" in sentence(
            urllib3.request("POST", url, body=body, headers=headers, timeout=60)
        )


def test_files_that_are_cut_anew_are_stored_once_and_not_one_by_one(node, monkeypatch):
    flushes = []
    flush = Adding.flush

    def counted(adding):
        flushes.append(adding)
        flush(adding)

    monkeypatch.setattr(Adding, "flush", counted)
    paths = [f"d/{n}" for n in range(50)]
    reply = upload(node, *paths, pinataOptions={"cidVersion": 0})
    assert reply.json()["IpfsHash"].startswith("Qm")
    assert len(flushes) < 5


def test_paths_in_any_order_give_the_same_directory(node):
    paths = ["d/b/c/x", "d/a", "d/b/y", "d/b-/z", "d/b/c/d/w", "d/b\x01/v", "d/e/f"]
    results = {
        upload(node, *order).json()["IpfsHash"]
        for order in (paths, paths[::-1], sorted(paths), paths[3:] + paths[:3])
    }
    assert len(results) == 1
    root = CID.parse(results.pop())
    names = [entry.name for entry in node.repository.entries(root)]
    assert sorted(names) == ["a", "b", "b\x01", "b-", "e"]
    assert "both a file and a directory" in sentence(upload(node, "d/a/b", "d/a"))
    assert "both a file and a directory" in sentence(upload(node, "d/a", "d/a/b"))
    assert "twice" in sentence(upload(node, "d/a", "d/a"))
    assert "More than one" in sentence(upload(node, "d/a", "e/a"))


@ON_LINUX
@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "name"),
    [(100_000, "d/{n:06}" + "x" * 200), (2000, "d/" + "/".join(["{n}"] * 62) + "/f")],
    ids=["many files", "deep folders"],
)
def test_the_largest_upload_takes_less_than_128_mib(tmp_path, count, name):
    with node_process(tmp_path) as process:
        urllib3.request("GET", f"{process.api_url}/ipfs/bafkqaaa", timeout=60)
        idle = process.memory()
        head = '--b\r\nContent-Disposition: form-data; name="file"; filename="{}"\r\n\r\nx\r\n'
        parts = (head.format(name.format(n=n)).encode() for n in range(count))
        headers = {
            "Authorization": f"Bearer {process.token}",
            "Content-Type": "multipart/form-data; boundary=b",
        }
        url = f"{process.api_url}/pinning/pinFileToIPFS"
        body = itertools.chain(parts, [b"--b--\r\n"])
        reply = urllib3.request("POST", url, body=body, headers=headers, timeout=600)
        assert reply.status == 200
        assert reply.json()["NumberOfFiles"] == count
        assert process.peak_memory() - idle < 128 << 20

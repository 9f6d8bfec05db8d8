# WARNING: this file is generated from tests/_async/test_wrong_content.py
# by scripts/generate_sync.py. Change the original instead.
"""Gateways that send other content than the CID names, in each way in which content is verified.

A real node has the files; before it stands a server that changes what passes by.
"""

import re
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pytest

from holdfast import Client
from holdfast.content.car import CarReader, write_car
from holdfast.content.cid import CID, DAG_PB, IDENTITY, RAW, SHA2_256
from holdfast.errors import (
    MalformedError,
    NetworkError,
    ProviderError,
    UnprovenError,
    VerificationError,
)
from holdfast.testing import RunningNode, Scripted, ScriptedServer, forward_to, running_node
from tests._sync.reading import client_of, failed_download, failure_of
from tests.content import stream
from tests.faulty import flipped, patient_config
from tests.gateways import one_file
from tests.lying_dags import LIES, TRUTHS, bodies, build

MIB = 1 << 20
CHUNK = {0: MIB // 4, 1: MIB}
VERSIONS = pytest.mark.parametrize("version", CHUNK, ids=["dag-pb leaves", "raw leaves"])


def cut(data, size):
    return [data[start : start + size] for start in range(0, len(data), size)]


@dataclass(frozen=True)
class Shelf:
    """A node with two files of each CID version: the right one, and the other."""

    node: RunningNode
    data: dict
    cids: dict

    def forward(self, request):
        return forward_to(self.node.api_url)(request)

    def leaves(self, version, name="right"):
        return cut(self.data[version, name], CHUNK[version])


@pytest.fixture(scope="module")
def shelf():
    data, cids = {}, {}
    with running_node() as node:
        for version, size in CHUNK.items():
            config = node.config.with_options(cid_version=version)
            with Client.init(config) as client:
                for name in ("right", "other"):
                    data[version, name] = b"".join(stream(name, 7 * size // 2))
                    cids[version, name] = client.upload(data[version, name]).cid
        yield Shelf(node, data, cids)


# Faults: what becomes of the leaves of a file; the same for a plain body and for an archive.


def flip(place):
    return lambda leaves, _: _with(leaves, place, flipped(leaves[place], len(leaves[place]) // 2))


def _with(leaves, place, leaf):
    leaves = list(leaves)
    leaves[place] = leaf
    return leaves


FAULTS = {
    "bit flip in the first block": flip(0),
    "bit flip in the middle block": flip(1),
    "bit flip in the last block": flip(-1),
    "swapped blocks": lambda leaves, _: [leaves[0], leaves[2], leaves[1], *leaves[3:]],
    "extra byte": lambda leaves, _: _with(leaves, -1, leaves[-1] + b"\0"),
    "missing byte": lambda leaves, _: _with(leaves, -1, leaves[-1][:-1]),
    "right root, wrong leaf": lambda leaves, others: _with(leaves, 1, others[1]),
}
OTHER_FILE = "other valid file"


class Liar:
    """The script of a gateway that changes the right file of one version.

    Attributes:
        way: What it gives besides plain bodies: "blocks", an "archive" alone, or "nothing".
        fault: What it does to the leaves.
    """

    def __init__(self, shelf, version, way, fault):
        self.shelf = shelf
        self.version = version
        self.way = way
        self.fault = FAULTS.get(fault, lambda leaves, _others: leaves)
        self.cid = shelf.cids[version, "right"]
        self.swap = shelf.cids[version, "other"] if fault == OTHER_FILE else self.cid

    def __call__(self, request):
        request = replace(request, target=request.target.replace(self.cid, self.swap))
        path, _, query = request.target.partition("?")
        if self.way == "archive" and "format=car" in query:
            return self.archive(request)
        if self.way == "archive" and query:
            return Scripted(status=406)
        if self.way == "blocks" and query:
            return self.shelf.forward(request)
        # One that knows no formats overlooks that it was asked for one.
        plain = replace(request, target=path, headers={**request.headers, "accept": "*/*"})
        reply = self.shelf.forward(plain)
        leaves = cut(reply.body, CHUNK[self.version])
        others = self.shelf.leaves(self.version, "other")
        return replace(reply, body=b"".join(self.fault(leaves, others)))

    def archive(self, request):
        reply = self.shelf.forward(request)
        root, *leaves = blocks_of(reply.body)
        others = blocks_of(self.other_archive(request).body)[1:]
        changed = self.fault([data for _, data in leaves], [data for _, data in others])
        cids = [cid for cid, _ in leaves]
        archive = write_car([root[0]], [root, *zip(cids, changed, strict=True)])
        return replace(reply, body=b"".join(archive))

    def other_archive(self, request):
        other = self.shelf.cids[self.version, "other"]
        return self.shelf.forward(replace(request, target=request.target.replace(self.cid, other)))


def blocks_of(archive):
    return list(CarReader().update(archive))


def queries(server):
    """What was asked of a gateway: the formats, "" for the plain body."""
    asked = (request.target.partition("?")[2] for request in server.requests)
    return [query.partition("&")[0].removeprefix("format=") for query in asked]


def patient(first, *others, **changes):
    urls = [f"{server.url}/ipfs" for server in (first, *others)]
    return patient_config(first, gateway_url=urls, **changes)


@contextmanager
def reading(*scripts, **changes):
    """A patient client of gateways with these scripts, and the gateways."""
    gateways = map(ScriptedServer, scripts)
    with client_of(*gateways, make_config=patient, **changes) as client_and_gateways:
        yield client_and_gateways


def failure(script, cid, folder, asked):
    """What a download raises, when the gateway was asked for these formats."""
    with reading(script, cache_path=folder / "cache") as (client, gateway):
        error = failed_download(client, cid, folder, VerificationError, within=20)
    assert queries(gateway) == asked
    return error


each_fault = pytest.mark.parametrize("fault", [*FAULTS, OTHER_FILE])
each_way = pytest.mark.parametrize("way", ["blocks", "archive", "nothing"])


@each_fault
@each_way
@VERSIONS
def test_wrong_content_is_found_in_each_way(shelf, version, way, fault, tmp_path):
    liar = Liar(shelf, version, way, fault)
    asked = ["", "raw", "car"]
    if way == "blocks":
        # A piece that does not match may be an inner node, or another size than its parent
        # declares: its block tells.
        asked = ["", "raw", *["raw"] * (fault not in {"extra byte", OTHER_FILE})]
    error = failure(liar, liar.cid, tmp_path, asked)
    # Blocks that are sound, but not those of this file, prove nothing in either direction.
    is_unproven = way == "nothing" or (way == "archive" and fault == OTHER_FILE)
    assert isinstance(error, UnprovenError) == is_unproven
    if way == "nothing":
        assert str(error).startswith(f"no known layout of this content gives {liar.cid}")
    else:
        assert error.cid is not None


@each_way
@pytest.mark.parametrize("fault", ["bit flip in the middle block", OTHER_FILE])
def test_the_next_gateway_makes_up_for_wrong_content(shelf, fault, way):
    liar = Liar(shelf, 0, way, fault)
    with reading(liar, shelf.forward) as (client, lying, _):
        assert (client.download(liar.cid)).read() == shelf.data[0, "right"]
        asked = len(lying.requests)
        assert (client.download(liar.cid)).read() == shelf.data[0, "right"]
    # Who lied comes last for a while; who could not prove it has not lied.
    proven_wrong = way == "blocks" or (way == "archive" and fault != OTHER_FILE)
    assert (len(lying.requests) == asked) == proven_wrong


@VERSIONS
def test_a_wrong_root_block_is_a_verification_error(shelf, version, tmp_path):
    def script(request):
        reply = shelf.forward(request)
        body = (
            flipped(reply.body, len(reply.body) - 1)
            if "format=raw" in request.target
            else reply.body
        )
        return replace(reply, body=body)

    cid = shelf.cids[version, "right"]
    error = failure(script, cid, tmp_path, ["", "raw"])
    assert str(error) == f"the block does not match its CID {cid}"
    assert not isinstance(error, UnprovenError)


# CIDs of other kinds


@pytest.mark.parametrize(
    "body",
    [b"inlinE", b"inlin", b"inline!", b"", b"x" * 3 * MIB],
    ids=["other byte", "missing byte", "extra byte", "empty", "large"],
)
def test_wrong_content_for_an_identity_cid_is_a_verification_error(body, tmp_path):
    cid = str(CID(1, RAW, IDENTITY, b"inline"))
    script = lambda _: Scripted(body=body)  # noqa: E731
    error = failure(script, cid, tmp_path, [""])
    assert str(error) == f"the content does not match the CID {cid}"


def test_a_tree_may_be_asked_for_by_either_version_of_its_cid(shelf):
    old = shelf.cids[0, "right"]
    new = str(CID(1, DAG_PB, SHA2_256, CID.parse(old).digest))
    assert (old[:2], new[:4]) == ("Qm", "bafy")
    with reading(shelf.forward) as (client, gateway):
        for cid in (old, new):
            assert (client.download(cid)).read() == shelf.data[0, "right"]
    assert queries(gateway) == ["", "raw"] * 2


def test_an_archive_may_name_its_blocks_in_the_other_version(shelf):
    def archives(request):
        if "format=car" not in request.target:
            return Scripted(status=406)
        reply = shelf.forward(request)
        blocks = [
            (CID(1, DAG_PB, SHA2_256, cid.digest), data) for cid, data in blocks_of(reply.body)
        ]
        return replace(reply, body=b"".join(write_car([], blocks)))

    with (
        reading(archives) as (client, _),
        client.open(shelf.cids[0, "right"]) as file,
    ):
        assert file.read() == shelf.data[0, "right"]


# Ranges

ANOTHER_PART = "the gateway sent a different part of the content than requested"
WRONG_BYTES = r"does not match the CID|ends too early|is too long"


def range_of(request):
    first, last = re.fullmatch(r"bytes=(\d+)-(\d*)", request.headers["range"]).groups()
    return int(first), int(last) if last else None


def moved(request, by):
    """The same request for a part that begins elsewhere."""
    first, last = range_of(request)
    span = f"bytes={first + by}-{'' if last is None else last + by}"
    return replace(request, headers={**request.headers, "range": span})


def whole(request):
    headers = {name: value for name, value in request.headers.items() if name != "range"}
    return replace(request, headers=headers)


def spoilt(reply, at):
    return replace(reply, body=flipped(reply.body, at % len(reply.body)))


def renamed(reply, value):
    headers = {
        name: text for name, text in reply.headers.items() if name.lower() != "content-range"
    }
    if value is not None:
        headers["Content-Range"] = value
    return replace(reply, headers=headers)


OTHER_PARTS = {
    "another part": lambda ask, it: ask(moved(it, -MIB)),
    "a part that is a byte off": lambda ask, it: ask(moved(it, -1)),
    "the right part under no name": lambda ask, it: renamed(ask(it), None),
    "a senseless name": lambda ask, it: renamed(ask(it), f"bytes {'9' * 5000}-/x"),
    "the whole file under the name of a part": lambda ask, it: replace(ask(whole(it)), status=206),
}
WRONG_PARTS = {
    "another part under the right name": (
        lambda ask, it: renamed(ask(moved(it, -1)), ask(it).headers["content-range"]),
        WRONG_BYTES,
    ),
    "wrong bytes": (lambda ask, it: spoilt(ask(it), 0), WRONG_BYTES),
    "a whole file with a wrong byte": (lambda ask, it: spoilt(ask(whole(it)), -1), WRONG_BYTES),
    "a whole file that ends before the part": (
        lambda ask, it: replace(ask(whole(it)), body=b"x" * 1000),
        "ends too early",
    ),
}
bad_range = pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        *((change, ProviderError, ANOTHER_PART) for change in OTHER_PARTS.values()),
        *((change, VerificationError, words) for change, words in WRONG_PARTS.values()),
    ],
    ids=[*OTHER_PARTS, *WRONG_PARTS],
)
SHORT_RANGES = {
    "too few bytes": lambda ask, it: replace(ask(it), body=ask(it).body[:-1]),
    "no bytes": lambda ask, it: replace(ask(it), body=b""),
}


def range_script(shelf, change, faults=(True,)):
    """Changes the replies to range requests while `faults` is not empty."""

    def script(request):
        if faults and "range" in request.headers:
            return change(shelf.forward, request)
        return shelf.forward(request)

    return script


@contextmanager
def end_of_file(shelf, change):
    """An open file at its last bytes, and these bytes; the gateway, and its `faults`."""
    faults = []
    data = shelf.data[1, "right"]
    with (
        reading(range_script(shelf, change, faults)) as (client, gateway),
        client.open(shelf.cids[1, "right"]) as file,
    ):
        faults.append(True)
        file.seek(len(data) - 1000)
        yield file, data[-1000:], gateway, faults


@bad_range
def test_a_bad_part_of_an_open_file_is_an_error_after_one_request(shelf, change, kind, words):
    with end_of_file(shelf, change) as (file, data, gateway, faults):
        asked = len(gateway.requests)
        error = failure_of(file.read, kind)
        assert re.search(words, str(error))
        assert not isinstance(error, UnprovenError)
        # The part, and where it came and did not match, its block.
        assert len(gateway.requests) == asked + 1 + (kind is VerificationError)
        # Nothing of it stays: when the gateway has come to its senses, so has the file.
        faults.clear()
        assert file.read() == data


@pytest.mark.parametrize("change", SHORT_RANGES.values(), ids=SHORT_RANGES)
def test_a_part_that_is_shorter_than_asked_for_is_asked_for_again(shelf, change):
    """A server may send less than it was asked for; what never comes is a broken connection."""
    with end_of_file(shelf, change) as (file, data, gateway, faults):
        asked = len(gateway.requests)
        with pytest.raises(NetworkError, match="broke off"):
            file.read()
        assert len(gateway.requests) == asked + 4
        faults.clear()
        assert file.read() == data


LONG_RANGES = {
    "more behind it": lambda ask, it: replace(ask(it), body=ask(it).body + b"more"),
    "the whole file": lambda ask, it: ask(whole(it)),
}


@pytest.mark.parametrize("change", LONG_RANGES.values(), ids=LONG_RANGES)
def test_a_whole_file_in_reply_to_a_range_is_cut_to_it(shelf, change):
    with end_of_file(shelf, change) as (file, data, gateway, _):
        asked = len(gateway.requests)
        assert file.read() == data
        assert len(gateway.requests) == asked + 1


def cut_script(shelf):
    """Sends the file in part, and then knows nothing of it."""

    def script(request):
        if "range" in request.headers:
            return Scripted(status=404)
        reply = shelf.forward(request)
        return reply if "format=" in request.target else replace(reply, cut=11 * MIB // 4)

    return script


@bad_range
def test_a_bad_rest_of_a_download_is_an_error_and_leaves_no_file(
    shelf, change, kind, words, tmp_path
):
    gateways = cut_script(shelf), range_script(shelf, change)
    with reading(*gateways, cache_path=tmp_path / "cache") as (client, first, second):
        error = failed_download(client, shelf.cids[1, "right"], tmp_path, kind)
    assert re.search(words, str(error))
    ranges = [r.headers["range"] for r in second.requests if "range" in r.headers]
    assert ranges == [f"bytes={2 * MIB}-"]  # what is verified of the part
    # The one whose connection broke is asked once more; for the rest, and in vain.
    assert queries(first) == ["", "raw", ""]
    assert [note for note in error.__notes__ if note.endswith("/ipfs: HTTP error 404")]


# Files whose nodes declare other sizes than their children have (number 6)

WAYS = {
    "blocks": ((), 0),
    "blocks, the body in its declared length": ((), 1),
    "archive": (("raw",), 0),
    "blocks alone": (("car",), 0),
}


@pytest.mark.parametrize(
    ("refuse", "length"),
    [
        pytest.param(*way, id=name, marks=() if name == "blocks" else pytest.mark.slow)
        for name, way in WAYS.items()
    ],
)
def test_lies_are_malformed_and_truths_are_read(refuse, length, tmp_path):
    """The content of a lie has several lengths, of which a gateway chooses one for its body."""
    for case in LIES.values():
        root, blocks, content = build(case)
        sent = bodies(root, blocks, content)
        gateway = one_file(root, blocks, sent[min(length, len(sent) - 1)], refuse)
        with client_of(gateway, cache_path=tmp_path / "cache") as (client, _):
            failed_download(client, str(root), tmp_path, MalformedError)
            with pytest.raises(MalformedError):
                with client.open(str(root)) as file:
                    file.read()
    for case in TRUTHS.values():
        root, blocks, content = build(case)
        with client_of(one_file(root, blocks, content, refuse)) as (client, _):
            assert (client.download(str(root))).read() == content
            with client.open(str(root)) as file:
                assert file.read() == content

# WARNING: this file is generated from tests/_async/test_verified.py
# by scripts/generate_sync.py. Change the original instead.
"""Reads are verified, whichever gateway answers, in whichever way it can."""

import os
from dataclasses import replace
from itertools import groupby

import pytest

from holdfast import Client
from holdfast.content.profiles import CANDIDATES, KUBO_LEGACY_CIDV1, UNIXFS_V0_2015, UNIXFS_V1_2025
from holdfast.errors import (
    NotAFileError,
    NotFoundError,
    ProviderError,
    UnprovenError,
    VerificationError,
)
from holdfast.sources.importing import import_content
from tests.faulty import PLACES, flipped
from tests.gateways import ODD_LAYOUT, config_for_all, gateway, kinds, pin

DATA = os.urandom(3_500_000)
LAYOUTS = [*CANDIDATES, ODD_LAYOUT]
TWO_LEVELS = 46_000_000  # bytes: more than the links of one node of the legacy layouts hold


@pytest.mark.parametrize("profile", LAYOUTS, ids=lambda profile: profile.name)
def test_any_layout_is_proven_by_its_blocks(node, profile, tmp_path):
    cid = pin(node, DATA, profile)
    with gateway(node) as server:
        with Client.init(config_for_all(server)) as client:
            assert (client.download(cid)).read() == DATA
            client.download(cid, to=tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == DATA
    assert set(kinds(server)) == {"plain", "raw"}


def test_a_file_of_one_level_costs_one_further_request(node):
    cid = pin(node, DATA, UNIXFS_V1_2025)
    with gateway(node) as server:
        with Client.init(config_for_all(server)) as client:
            client.download(cid)
    assert kinds(server) == ["plain", "raw"]
    assert server.requests[0].target == f"/ipfs/{cid}"
    assert server.requests[1].target == f"/ipfs/{cid}?format=raw"
    assert server.requests[1].headers["accept"] == "application/vnd.ipld.raw"


@pytest.mark.parametrize("size", [0, 1, 1000, 262_144])
@pytest.mark.parametrize("profile", LAYOUTS[:4], ids=lambda profile: profile.name)
def test_a_file_of_one_block_costs_no_further_request(node, profile, size):
    cid = pin(node, DATA[:size], profile)
    with gateway(node) as server:
        with Client.init(config_for_all(server)) as client:
            assert (client.download(cid)).read() == DATA[:size]
    assert kinds(server) == ["plain"]


@pytest.mark.parametrize("how", [{"refuse": {"raw"}}, {"ignore": {"raw"}}], ids=["406", "ignored"])
@pytest.mark.parametrize("profile", LAYOUTS[:4], ids=lambda profile: profile.name)
def test_without_blocks_the_body_is_imported_anew(node, profile, how):
    cid = pin(node, DATA, profile)
    with gateway(node, **how) as server:
        with Client.init(config_for_all(server)) as client:
            assert (client.download(cid)).read() == DATA
    assert kinds(server) == ["plain", "raw"]


def test_without_blocks_and_in_an_odd_layout_the_archive_proves(node):
    cid = pin(node, DATA, ODD_LAYOUT)
    with gateway(node, refuse={"raw"}) as server:
        with Client.init(config_for_all(server)) as client:
            assert (client.download(cid)).read() == DATA
    assert kinds(server) == ["plain", "raw", "car"]


@pytest.mark.parametrize("how", ["refuse", "ignore"])
def test_what_cannot_be_proven_is_not_returned(node, how, tmp_path):
    cid = pin(node, DATA, ODD_LAYOUT)
    with gateway(node, **{how: {"raw", "car"}}) as server:
        with Client.init(config_for_all(server)) as client:
            with pytest.raises(UnprovenError, match="no known layout") as caught:
                client.download(cid, to=tmp_path / "copy")
            assert caught.value.cid == cid
            assert (client.with_options(verify=False).download(cid)).read() == DATA
    assert list(tmp_path.iterdir()) == []


def test_a_gateway_that_gives_the_root_but_no_further_blocks(node):
    """As a gateway may that serves only what is pinned at it."""
    cid = pin(node, DATA, ODD_LAYOUT)
    legacy = pin(node, bytes(TWO_LEVELS), KUBO_LEGACY_CIDV1)

    def only_root(kind, request, reply):
        if kind == "raw" and cid not in request.target and legacy not in request.target:
            return replace(reply, status=403, body=b"", headers={})
        return reply

    def changes_of_kind(server):
        return [kind for kind, _ in groupby(kinds(server))]

    with gateway(node, only_root) as server:
        with Client.init(config_for_all(server)) as client:
            assert (client.download(cid)).read() == DATA
    assert changes_of_kind(server) == ["plain", "raw", "car"]
    with gateway(node, only_root, refuse={"car"}) as server:
        with Client.init(config_for_all(server)) as client:
            blob = client.download(legacy)
            assert blob.size == TWO_LEVELS
    # Its layout is a known one: without further blocks, the whole body proves itself.
    assert changes_of_kind(server) == ["plain", "raw", "car", "plain"]
    assert kinds(server).count("plain") == 2


@pytest.fixture
def tree(tmp_path):
    """A directory with a small and a large file, a directory in it, and a symbolic link."""
    root = tmp_path / "tree"
    (root / "sub dir").mkdir(parents=True)
    (root / "sub dir" / "ü?.json").write_bytes(b'{"deep":true}')
    (root / "large.bin").write_bytes(DATA)
    (root / "link").symlink_to("large.bin")
    return root


def pin_tree(node, path, profile):
    with node.repository.adding() as adding:
        part = import_content(path, profile, adding.put)
        adding.pin(part.cid, name="tree", size=part.dag_size)
    return str(part.cid)


@pytest.mark.parametrize("refuse", [(), ("raw",)], ids=["blocks", "archive"])
@pytest.mark.parametrize("profile", [UNIXFS_V1_2025, UNIXFS_V0_2015], ids=lambda each: each.name)
def test_files_in_directories_are_proven_from_the_root_on(node, tree, profile, refuse):
    cid = pin_tree(node, tree, profile)
    with gateway(node, refuse=refuse) as server:
        with Client.init(config_for_all(server)) as client:
            assert client.retrieve(f"{cid}/sub dir/ü%3F.json") == {"deep": True}
            blob = client.download(f"/ipfs/{cid}/large.bin")
            assert blob.read() == DATA
            assert blob.name == "large.bin"


def test_another_file_of_the_directory_is_not_taken_for_the_one_asked_for(node, tree):
    (tree / "other.bin").write_bytes(DATA[::-1])
    cid = pin_tree(node, tree, UNIXFS_V1_2025)

    def other_name(kind, request, reply):
        if kind == "plain":
            return replace(reply, body=DATA[::-1])
        return reply

    with gateway(node, other_name) as server:
        with Client.init(config_for_all(server)) as client:
            with pytest.raises(VerificationError):
                client.download(f"{cid}/large.bin")


def test_a_path_cannot_be_proven_without_blocks_or_archive(node, tree):
    cid = pin_tree(node, tree, UNIXFS_V1_2025)
    with gateway(node, refuse={"raw", "car"}) as server:
        with Client.init(config_for_all(server)) as client:
            with pytest.raises(UnprovenError, match="gives neither its blocks nor an archive"):
                client.download(f"{cid}/large.bin")


def test_a_path_to_nothing_and_a_path_to_a_directory(node, tree):
    cid = pin_tree(node, tree, UNIXFS_V1_2025)
    with gateway(node) as server:
        with Client.init(config_for_all(server)) as client:
            with pytest.raises(NotFoundError):
                client.download(f"{cid}/missing.bin")
            with pytest.raises(NotAFileError):
                client.download(f"{cid}/sub dir")
            with pytest.raises(NotAFileError):
                client.download(cid)


def test_a_listing_is_not_taken_for_a_file(node, tree):
    """A gateway may answer with an HTML page where a directory stands."""
    cid = pin_tree(node, tree, UNIXFS_V1_2025)

    def listing(kind, request, reply):
        if kind == "plain":
            return replace(reply, status=200, headers={}, body=b"<html>index</html>")
        return reply

    with gateway(node, listing) as server:
        with Client.init(config_for_all(server)) as client:
            with pytest.raises(NotAFileError, match="is a directory"):
                client.download(cid)


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("profile", LAYOUTS, ids=lambda profile: profile.name)
def test_a_flipped_bit_is_found_and_the_next_gateway_asked(node, profile, place, tmp_path):
    cid = pin(node, DATA, profile)

    def flip(kind, request, reply):
        if kind != "plain":
            return reply
        # Counted from the end: it may be that only a part was asked for.
        at = int(place * (len(DATA) - 1)) - len(DATA)
        return replace(reply, body=flipped(reply.body, len(reply.body) + at))

    target = tmp_path / "copy"
    with gateway(node, flip) as bad, gateway(node) as good:
        with Client.init(config_for_all(bad)) as client:
            with pytest.raises(VerificationError):
                client.download(cid, to=target)
            assert not target.exists()
        with Client.init(config_for_all(bad, good)) as client:
            client.download(cid, to=target)
            assert target.read_bytes() == DATA
            # From now on the one that lied comes last.
            before = len(bad.requests)
            client.download(cid, to=target)
            assert len(bad.requests) == before


def test_the_next_gateway_goes_on_where_the_last_one_broke_off(node, tmp_path):
    cid = pin(node, DATA, UNIXFS_V1_2025)

    def die(kind, request, reply):
        return replace(reply, cut=2_500_000) if kind == "plain" else reply

    calls = []
    with gateway(node, die) as bad, gateway(node) as good:
        with Client.init(config_for_all(bad, good)) as client:
            client.download(cid, to=tmp_path / "copy", progress=lambda *call: calls.append(call))
    assert (tmp_path / "copy").read_bytes() == DATA
    assert kinds(good) == ["plain"]
    assert good.requests[0].headers["range"] == "bytes=2097152-"
    assert calls == sorted(calls)
    assert calls[-1] == (len(DATA), len(DATA))


def test_one_gateway_that_breaks_off_again_and_again_is_enough(node, tmp_path):
    """Every attempt proves some more, and then counts anew."""
    data = os.urandom(12_000_000)
    cid = pin(node, data, UNIXFS_V1_2025)

    def die(kind, request, reply):
        return replace(reply, cut=1_200_000) if kind == "plain" else reply

    retries = {"attempts": 2, "base": 0.001}
    with gateway(node, die) as server:
        with Client.init(config_for_all(server, retries=retries)) as client:
            assert (client.download(cid)).read() == data
    assert kinds(server).count("plain") == 12


def test_a_hash_or_codec_that_cannot_be_proven_is_not_asked_for(node, server):
    with Client.init(config_for_all(server)) as client:
        for cid in ("bafyreigbtj4x7ip5legnfznufuopl4sg4knzc2cof6duas4b3q2fy6swua",):
            with pytest.raises(UnprovenError):
                client.download(cid)
    assert server.requests == []


def test_a_refused_block_is_not_the_end_but_a_broken_one_is(node):
    """A failure of the moment is retried in the same way; it does not make the proof weaker."""
    cid = pin(node, DATA, UNIXFS_V1_2025)
    failures = [503, 503]

    def unwell(kind, request, reply):
        if kind == "raw" and failures:
            return replace(reply, status=failures.pop(), body=b"")
        return reply

    with gateway(node, unwell) as server:
        retries = {"attempts": 4, "base": 0.001}
        with Client.init(config_for_all(server, retries=retries)) as client:
            assert (client.download(cid)).read() == DATA
    assert kinds(server) == ["plain", "raw"] * 3


def test_a_wrong_block_is_a_verification_error(node):
    cid = pin(node, DATA, UNIXFS_V1_2025)

    def lie(kind, request, reply):
        return replace(reply, body=reply.body[::-1]) if kind == "raw" else reply

    with gateway(node, lie) as server:
        with Client.init(config_for_all(server)) as client:
            with pytest.raises(VerificationError) as caught:
                client.download(cid)
    assert not isinstance(caught.value, UnprovenError)


def test_messages_and_json_of_many_blocks_are_proven_too(node):
    text = b'["' + b"x" * 2_000_000 + b'"]'
    cid = pin(node, text, UNIXFS_V0_2015)
    with gateway(node) as server:
        with Client.init(config_for_all(server)) as client:
            assert client.retrieve(cid) == ["x" * 2_000_000]


def test_the_gateways_http_error_is_the_error(empty_node):
    with gateway(empty_node) as server:
        with Client.init(config_for_all(server)) as client:
            with pytest.raises(ProviderError) as caught:
                client.download("QmbFMke1KXqnYyBBWxB74N4c5SBnJMVAiMNRcGu6x1AwQH")
    assert caught.value.status == 404
    assert kinds(server) == ["plain"]

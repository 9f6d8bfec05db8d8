# WARNING: this file is generated from tests/_async/test_copy_many.py
# by scripts/generate_sync.py. Change the original instead.
"""Many CIDs to another provider, through gateways of which some lie, hang or drip."""

import json
from dataclasses import replace

import pytest

from holdfast import Client
from holdfast.content.cid import CID
from holdfast.disk.journal import format_line
from holdfast.errors import (
    ConfigError,
    InvalidCIDError,
    NotFoundError,
    RequestTimeoutError,
    UnsupportedError,
)
from holdfast.protocol.gateway import CAR_TYPE
from holdfast.records import Copied, Pin
from holdfast.testing import Scripted
from tests.content import stream
from tests.faulty import flipped
from tests.gateways import ODD_LAYOUT, gateway, kinds, pin

LARGE = b"".join(stream("many copies", 400_000))
DEAD = str(CID.of_raw(b"nobody has it"))


def reading(*servers, **changes):
    """A client that only reads, through these gateways."""
    urls = [f"{server.url}/ipfs" for server in servers]
    return Client.init(
        provider="gateway", gateway_url=urls, **{"retries": {"attempts": 1}, **changes}
    )


def host(server):
    return server.url.removeprefix("http://")


def lying(_kind, _request, reply):
    return replace(reply, body=flipped(reply.body, len(reply.body) - 1)) if reply.body else reply


def copied(client, items, target, **options):
    return [outcome for outcome in client.copy_many(items, to=target, **options)]


def test_cids_links_and_pins_are_copied_and_each_says_from_where(node, target):
    cids = [pin(node, LARGE[n:], ODD_LAYOUT) for n in range(4)]
    items = [
        cids[0],
        f"ipfs://{cids[1]}",
        Pin(id="", cid=cids[2], name="mine", keyvalues={"year": "2026"}),
        Pin(id="", cid=f"https://example.com/ipfs/{cids[3]}"),
        DEAD,
        "no CID",
        f"{cids[0]}/a",
    ]
    with gateway(node) as server:
        with reading(server) as client:
            outcomes = copied(client, iter(items), target)
    by_index = {outcome.index: outcome for outcome in outcomes}
    assert [by_index[n].item for n in range(len(items))] == items
    for n, name in enumerate(["", "", "mine", ""]):
        record = by_index[n].result()
        assert record == Copied(
            cid=cids[n], name=name, how="archive", size=record.size, gateways=(host(server),)
        )
        assert (target.download(cids[n])).read() == LARGE[n:]
    (mine,) = target.pins(cid=cids[2])
    assert (mine.name, mine.keyvalues) == ("mine", {"year": "2026"})
    errors = [type(by_index[n].error) for n in (4, 5, 6)]
    assert errors == [NotFoundError, InvalidCIDError, InvalidCIDError]
    assert "only a CID" in by_index[6].error.reason


def test_items_are_taken_as_they_are_needed(source, target):
    cid = (source.store([1])).cid
    taken = received = 0

    def endless():
        nonlocal taken
        while True:
            taken += 1
            yield cid

    with source.copy_many(endless(), to=target, concurrency=2) as outcomes:
        for _ in outcomes:
            received += 1
            if received == 10:
                break
    assert taken <= 10 + 2


def test_a_gateway_that_lies_is_avoided_and_not_named(node, target):
    cids = [pin(node, LARGE[n:], ODD_LAYOUT) for n in range(5, 10)]
    with gateway(node, lying) as liar, gateway(node) as honest:
        with reading(liar, honest) as client:
            outcomes = copied(client, cids, target, concurrency=1)
        assert {outcome.result().gateways for outcome in outcomes} == {(host(honest),)}
        assert len(liar.requests) < 5
    assert (target.download(cids[0])).read() == LARGE[5:]


@pytest.mark.slow
@pytest.mark.parametrize("refused", [(), ("car",)], ids=["archives", "blocks"])
def test_a_gateway_that_drips_is_left_for_another(node, target, refused):
    cids = [pin(node, LARGE[n:], ODD_LAYOUT) for n in range(10, 13)]

    def drip(_kind, _request, reply):
        return replace(reply, drip=0.001)

    with gateway(node, drip, refuse=refused) as dripping, gateway(node, refuse=refused) as honest:
        with reading(dripping, honest, timeouts={"read": 3, "total": 60}) as client:
            outcomes = copied(client, cids, target, concurrency=1)
        assert {outcome.error for outcome in outcomes} == {None}
        assert host(honest) in outcomes[0].record.gateways
        assert {outcome.record.gateways for outcome in outcomes[1:]} == {(host(honest),)}
        assert len(dripping.requests) < (12 if refused else 5)  # eight blocks are asked for at once


@pytest.mark.slow
def test_content_that_gateways_only_search_for_ends_by_the_total(node, target):
    alive = pin(node, LARGE[20:], ODD_LAYOUT)

    def searching(_kind, request, reply):
        return Scripted(hang_up=True, delay=30) if DEAD in request.target else reply

    with gateway(node, searching) as one, gateway(node, searching) as two:
        with reading(one, two, timeouts={"total": 5}) as client:
            outcomes = copied(client, [DEAD, alive], target, concurrency=1)
    dead, living = sorted(outcomes, key=lambda outcome: outcome.index)
    assert isinstance(dead.error, RequestTimeoutError)
    assert living.result().how == "archive"


@pytest.mark.slow
def test_an_archive_that_has_begun_may_take_longer_than_the_total(node, target):
    cid = pin(node, LARGE[:3_000], ODD_LAYOUT)

    def drip(_kind, _request, reply):
        return replace(reply, headers={"Content-Type": CAR_TYPE}, drip=0.002)

    with gateway(node, drip) as server:
        with reading(server, timeouts={"total": 4}) as client:
            (outcome,) = copied(client, [cid], target)
            assert kinds(server) == ["car"]
    assert outcome.result().how == "archive"


def test_a_journal_keeps_the_gateways_and_older_ones_have_none(node, target, tmp_path):
    cids = [pin(node, LARGE[n:], ODD_LAYOUT) for n in (30, 31)]
    journal = tmp_path / "journal"
    with gateway(node) as server:
        with reading(server) as client:
            copied(client, cids, target, journal=journal)
            lines = [json.loads(line) for line in journal.read_text().splitlines()]
            del lines[2]["gateways"]
            journal.write_bytes(b"".join(map(format_line, lines)))
            # The gateways are the same place, whichever they are.
            with reading(server, server) as other:
                outcomes = copied(other, cids, target, journal=journal)
    records = [outcome.result() for outcome in outcomes]
    assert {record.earlier for record in records} == {True}
    assert sorted(record.gateways for record in records) == [(), (host(server),)]


def test_what_is_uploaded_says_from_where_too(node, empty_node):
    cid = pin(node, b"small enough for any layout", ODD_LAYOUT)
    with gateway(node) as server:
        with reading(server) as client, Client.init(empty_node.config) as target:
            (outcome,) = copied(client, [cid], target)
    assert (outcome.result().how, outcome.record.gateways) == ("upload", (host(server),))


def test_a_target_that_only_reads_is_refused_at_once(source, node):
    with gateway(node) as server:
        with reading(server) as client:
            with pytest.raises(UnsupportedError, match="only reads"):
                source.copy_many([DEAD], to=client)
            with pytest.raises(TypeError, match="for one item, use `copy`"):
                source.copy_many(DEAD, to=source)
        assert server.requests == []


def test_a_journal_of_another_copy_is_the_only_error(source, target, tmp_path):
    (tmp_path / "journal").write_text("a letter\n")
    with pytest.raises(ConfigError, match="is not the journal of a copy"):
        copied(source, [DEAD], target, journal=tmp_path / "journal")

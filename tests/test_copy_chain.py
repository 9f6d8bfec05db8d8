"""Pins of all kinds go from provider to provider, and arrive wherever their CIDs can exist."""

import random
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast import Client, compute_cid
from holdfast.content.cid import CID
from holdfast.content.profiles import KUBO_LEGACY_CIDV1, UNIXFS_V0_2015, UNIXFS_V1_2025
from holdfast.errors import UnsupportedError
from holdfast.repository import Repository
from holdfast.testing import running_node
from tests.clusters import running_cluster
from tests.content import stream
from tests.engines import running_kubo
from tests.gateways import ODD_LAYOUT

PINS = 500
WRAPPED_LEAVES = replace(UNIXFS_V0_2015, name="wrapped-cidv1", cid_version=1)
LAYOUTS = (UNIXFS_V1_2025, KUBO_LEGACY_CIDV1, UNIXFS_V0_2015, ODD_LAYOUT, WRAPPED_LEAVES)
SIZES = (0, 20, 5_000, 90_000, 262_144, 262_145, 600_000, 1_048_576, 1_048_577, 1_500_000)
# What the node gives uploads by the v3 API, and folders, which it takes by the older one.
OFFERED = {
    "file": ("kubo-legacy-cidv1", "unixfs-v0-2015"),
    "folder": ("unixfs-v1-2025", "unixfs-v0-2015"),
}


def contents(folder):
    """Yield documents, files and folders, no two of them equal, and the layout of each."""
    large = b"".join(stream("chain", 1_600_000))
    for number in range(PINS):
        layout = LAYOUTS[number % len(LAYOUTS)]
        match number // len(LAYOUTS) % 10:
            case 0 | 1 | 2:
                yield b'{"number":%d}' % number, layout
            case 3:
                yield b'{"number":%d,"text":"%s"}' % (number, b"x" * 300_000), layout
            case 4 | 5:
                path = folder / f"folder-{number}"
                (path / "sub").mkdir(parents=True)
                (path / "sub" / "a.txt").write_text(f"a {number}")
                size = SIZES[number // 50 % len(SIZES)]
                (path / "data").write_bytes(b"%d " % number + large[:size])
                yield path, layout
            case _:
                size = SIZES[number // 25 % len(SIZES)]
                label = b"%d " % number
                yield label + large[: max(0, size - len(label))], layout


def is_offered(content, cid):
    """Return whether the node gives an upload of `content` this CID in one of its layouts.

    A CID is the same in version 0 and 1.
    """
    kind = "folder" if isinstance(content, Path) else "file"
    return cid in {CID.parse(compute_cid(content, profile=name)) for name in OFFERED[kind]}


def names_of(client):
    return {CID.parse(pin.cid): pin.name for pin in client.iter_pins()}


def copy_all(source, to, **options):
    """Copy all pins; return the errors by CID. The others are at the target, as reported."""
    outcomes = list(source.copy_pins(to=to, **options))
    cids = {CID.parse(outcome.item.cid): outcome for outcome in outcomes}
    errors = {cid: outcome.error for cid, outcome in cids.items() if outcome.error is not None}
    copied = {cid: outcome.item.name for cid, outcome in cids.items() if outcome.error is None}
    assert names_of(to) == copied
    return errors


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_pin_arrives_unless_no_layout_of_the_target_gives_its_cid(tmp_path):
    choose = random.Random("chain")  # noqa: S311
    pins = list(contents(tmp_path))
    choose.shuffle(pins)  # the order in which they are copied
    expected = {}
    with Repository(tmp_path / "first") as repository:
        for number, (content, layout) in enumerate(pins):
            pin, was_known = repository.add(content, layout, name=f"pin {number}")
            assert not was_known
            expected[CID.parse(pin.cid)] = content
    with ExitStack() as stack:
        enter = stack.enter_context
        first = enter(Client.init(path=tmp_path / "first"))
        kubo = enter(Client.init(enter(running_kubo(tmp_path / "kubo")).provider_config()))
        for pin in kubo.pins():  # an empty directory
            kubo.revoke(pin.cid)
        folder = tmp_path / "cluster"
        folder.mkdir()
        cluster = enter(Client.init(enter(running_cluster(folder, size=1)).provider_config()))
        node = enter(running_node(tmp_path / "node"))
        service = enter(Client.init(node.config.with_options(provider="pinata")))
        last = enter(Client.init(path=tmp_path / "last"))

        assert copy_all(first, kubo) == {}
        assert copy_all(kubo, cluster) == {}
        errors = copy_all(cluster, service, pin_by_cid=False)
        assert copy_all(service, last) == {}

    refused = {cid for cid, content in expected.items() if not is_offered(content, cid)}
    assert set(errors) == refused
    assert {type(error) for error in errors.values()} == {UnsupportedError}
    assert PINS // 5 < len(refused) < PINS // 2
    kinds = {(cid.version, cid.codec) for cid in expected.keys() - refused}
    assert len(kinds) == 3  # CIDv0; CIDv1 of raw blocks and of nodes
    with Repository(tmp_path / "last") as repository:
        assert {CID.parse(pin.cid) for pin in repository.pins()} == expected.keys() - refused
        assert list(repository.check()) == []

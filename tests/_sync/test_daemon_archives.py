# WARNING: this file is generated from tests/_async/test_daemon_archives.py
# by scripts/generate_sync.py. Change the original instead.
"""Archives (CAR) into a real Kubo and a real cluster: all content under its CID, or nothing."""

import os

import pytest

from holdfast import Client
from holdfast.content.car import write_car
from holdfast.content.cid import CID
from holdfast.content.profiles import UNIXFS_V1_2025
from holdfast.content.unixfs.files import FileImporter
from holdfast.errors import NetworkError, ProviderError, RequestTimeoutError
from holdfast.providers import ClusterProvider, KuboProvider
from holdfast.records import PinInfo

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def kubo_provider(kubo):
    provider = KuboProvider(kubo.provider_config())
    yield provider
    provider.close()


@pytest.fixture
def cluster_provider(cluster):
    provider = ClusterProvider(cluster.provider_config(timeouts={"total": 4}))
    yield provider
    provider.close()


@pytest.fixture(params=["kubo", pytest.param("cluster", marks=pytest.mark.slow)])
def provider(request):
    return request.getfixturevalue(f"{request.param}_provider")


def blocks_of(data):
    """The root of a file and its blocks, the root first."""
    blocks = {}
    importer = FileImporter(UNIXFS_V1_2025, blocks.__setitem__)
    importer.update(data)
    root = importer.finish().cid
    return root, [(root, blocks.pop(root)), *blocks.items()]


def archive_of(data, *, roots=None):
    root, blocks = blocks_of(data)
    return root, b"".join(write_car([root] if roots is None else roots, blocks))


def pieces_of(archive, size=100_000):
    for start in range(0, len(archive), size):
        yield archive[start : start + size]


def names_of(provider, cid):
    return [pin.name for pin in Client(provider).pins(cid=str(cid))]


def test_an_archive_is_stored_under_its_cid_and_name(provider):
    data = os.urandom(3_000_000)
    root, archive = archive_of(data)
    cid = str(root)
    added = provider.import_archive(cid, pieces_of(archive), PinInfo(name="a.bin"))
    assert (added.cid, added.duplicate) == (cid, False)
    assert names_of(provider, root) == ["a.bin"]
    assert (Client(provider).download(cid)).read() == data
    exported = b"".join([piece for piece in provider.export_archive(cid)])
    for info, name in ((PinInfo(name="b"), "a.bin"), (PinInfo(name="c", given=True), "c")):
        again = provider.import_archive(cid, pieces_of(exported), info)
        assert again.duplicate is True
        assert names_of(provider, root) == [name]


@pytest.mark.slow
@pytest.mark.parametrize("left_out", [0, 2])
def test_a_cluster_that_looks_for_a_block_without_end_pins_nothing(cluster_provider, left_out):
    """It accepts such an archive."""
    root, blocks = blocks_of(os.urandom(3_000_000))
    del blocks[left_out]
    archive = b"".join(write_car([root], blocks))
    with pytest.raises(RequestTimeoutError, match=r"is on 0 of 2 peers: peer\d "):
        cluster_provider.import_archive(str(root), pieces_of(archive), PinInfo(name="x"))
    assert names_of(cluster_provider, root) == []


@pytest.mark.slow
def test_a_damaged_archive_is_an_error_and_nothing_is_pinned(provider):
    root, archive = archive_of(os.urandom(3_000_000))
    wrong = bytearray(archive)
    wrong[-1] ^= 1
    for broken, words in ((archive[:-10], "unexpected EOF"), (wrong, "mismatch in content")):
        with pytest.raises(ProviderError, match=words):
            provider.import_archive(str(root), pieces_of(broken), PinInfo(name="x"))
        assert names_of(provider, root) == []


@pytest.mark.slow
def test_an_error_of_the_pieces_is_raised_and_nothing_is_pinned(kubo_provider):
    root, archive = archive_of(os.urandom(3_000_000))

    def broken():
        for piece in pieces_of(archive[:2_000_000]):
            yield piece
        raise NetworkError("the other side broke off")

    with pytest.raises(NetworkError, match="the other side broke off"):
        kubo_provider.import_archive(str(root), broken(), PinInfo())
    assert names_of(kubo_provider, root) == []


@pytest.mark.slow
def test_content_inside_the_cid_is_pinned(provider):
    archive = b"".join(write_car([CID.parse("bafkqaaa")], []))
    added = provider.import_archive("bafkqaaa", pieces_of(archive), PinInfo(name="empty"))
    assert added.cid == "bafkqaaa"
    assert names_of(provider, "bafkqaaa") == ["empty"]
    provider.delete("bafkqaaa")

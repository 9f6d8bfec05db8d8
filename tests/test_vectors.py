"""CIDs as other implementations give them: JavaScript, Rust and Kubo itself."""

import pytest

from holdfast import compute_cid, verify
from holdfast.content.profiles import PROFILES
from holdfast.content.unixfs.directories import build_directory
from holdfast.content.unixfs.files import FileImporter
from holdfast.sources.importing import import_content
from tests.content import (
    VECTORS,
    file_pieces,
    json_text,
    key_stream,
    kubo_names,
    make_directory,
)

LARGE = 45_900_000  # bytes: the edges of all layouts but one are below it


@pytest.fixture
def tmp_path(memory_folder):
    return memory_folder


def cases(vectors):
    """Each vector; the largest ones only in the slow run."""
    for vector in vectors:
        slow = [pytest.mark.slow, pytest.mark.timeout(600)]
        marks = slow if vector.get("size", 0) > LARGE else []
        yield pytest.param(vector, id=vector["name"], marks=marks)


@pytest.mark.parametrize("vector", list(cases(VECTORS["files"])))
def test_files(vector, tmp_path):
    """In memory and on disk, in each of the profiles of the vector."""
    importers = {profile: FileImporter(PROFILES[profile]) for profile in vector["cids"]}
    path = tmp_path / "file"
    with path.open("wb") as file:
        for piece in file_pieces(vector):
            file.write(piece)
            for importer in importers.values():
                importer.update(piece)
    for profile, importer in importers.items():
        part = importer.finish()
        assert str(part.cid) == vector["cids"][profile], profile
        assert part.size == vector["size"]
        assert part.dag_size == vector["tsizes"][profile]
        for threads in (1, 3):
            part = import_content(path, PROFILES[profile], threads=threads)
            assert str(part.cid) == vector["cids"][profile], profile
            assert part.dag_size == vector["tsizes"][profile]
        assert compute_cid(path, profile=profile) == vector["cids"][profile]


@pytest.mark.parametrize("vector", list(cases(VECTORS["json"])))
def test_json_texts(vector):
    text = json_text(vector)
    assert len(text) == vector["size"]
    for profile, cid in vector["cids"].items():
        assert compute_cid(text, profile=profile) == cid
        assert verify(text, cid)


@pytest.mark.parametrize(
    "vector",
    [
        pytest.param(
            each,
            marks=[pytest.mark.slow]
            if each["name"].startswith(("generated-", "threshold-"))
            else [],
        )
        for each in VECTORS["directories"]
    ],
    ids=lambda vector: vector["name"],
)
def test_directories(vector, tmp_path):
    root = make_directory(tmp_path / "root", vector)
    parts = {profile: import_content(root, PROFILES[profile]) for profile in vector["cids"]}
    assert {profile: str(part.cid) for profile, part in parts.items()} == vector["cids"]
    assert {profile: part.dag_size for profile, part in parts.items()} == vector["tsizes"]
    profile = next(iter(parts))
    assert compute_cid(str(root), profile=profile) == vector["cids"][profile]


def kubo_cases():
    for vector in VECTORS["kubo_published"]:
        slow = [pytest.mark.slow, pytest.mark.timeout(600)]
        marks = slow if vector.get("size", 0) > LARGE else []
        yield pytest.param(vector, id=vector["cid"], marks=marks)


@pytest.mark.parametrize("vector", list(kubo_cases()))
def test_cids_that_kubo_published(vector):
    profile = PROFILES[vector["profile"]]
    if "directory" in vector:
        importer = FileImporter(profile)
        importer.update(vector["directory"]["content"].encode())
        leaf = importer.finish()
        names = kubo_names(vector["directory"])
        part = build_directory(((name.encode(), leaf) for name in names), profile)
    else:
        importer = FileImporter(profile)
        for piece in key_stream(vector["chacha20_seed"], vector["size"]):
            importer.update(piece)
        part = importer.finish()
    assert str(part.cid) == vector["cid"]


def test_published_by_the_pinning_service():
    assert compute_cid(b"hello world!") == (
        "bafkreidvbhs33ighmljlvr7zbv2ywwzcmp5adtf4kqvlly67cy56bdtmve"
    )
    document = b'{"version":"0.7.0","appCode":"CowSwap","metadata":{}}'
    assert compute_cid(document, profile="unixfs-v0-2015") == (
        "QmUbsYUqP4DXDvXDipKDG6hKhKnb6dADMeBiHHYJiizr25"
    )

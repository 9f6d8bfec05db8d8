"""CIDs as other implementations give them: JavaScript, Rust and Kubo itself."""

import pytest

from holdfast import compute_cid, verify
from holdfast.content.profiles import PROFILES
from holdfast.content.unixfs.directories import build_directory
from holdfast.content.unixfs.files import FileImporter
from holdfast.sources.importing import import_content
from tests.content import VECTORS, file_pieces, json_text, key_stream, kubo_names, make_directory

LARGE = 45_900_000  # bytes: the edges of all layouts but one are below it


def list_cases(kind):
    """Each vector; the largest ones only in the slow run."""
    cases = []
    for vector in VECTORS[kind]:
        name = vector.get("name") or vector["cid"]
        is_slow = vector.get("size", 0) > LARGE or name.startswith(("generated-", "threshold-"))
        marks = [pytest.mark.slow, pytest.mark.timeout(600)] if is_slow else []
        cases.append(pytest.param(vector, id=name, marks=marks))
    return cases


@pytest.mark.parametrize("vector", list_cases("files"))
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


@pytest.mark.parametrize("vector", list_cases("json"))
def test_json_texts(vector):
    text = json_text(vector)
    assert len(text) == vector["size"]
    for profile, cid in vector["cids"].items():
        assert compute_cid(text, profile=profile) == cid
        assert verify(text, cid)


@pytest.mark.parametrize("vector", list_cases("directories"))
def test_directories(vector, tmp_path):
    root = make_directory(tmp_path / "root", vector)
    parts = {profile: import_content(root, PROFILES[profile]) for profile in vector["cids"]}
    assert {profile: str(part.cid) for profile, part in parts.items()} == vector["cids"]
    assert {profile: part.dag_size for profile, part in parts.items()} == vector["tsizes"]
    profile = next(iter(parts))
    assert compute_cid(str(root), profile=profile) == vector["cids"][profile]


@pytest.mark.parametrize("vector", list_cases("kubo_published"))
def test_cids_that_kubo_published(vector):
    profile = PROFILES[vector["profile"]]
    if recipe := vector.get("directory"):
        leaf = import_content(recipe["content"].encode(), profile)
        part = build_directory(((name.encode(), leaf) for name in kubo_names(recipe)), profile)
    else:
        part = import_content(key_stream(vector["chacha20_seed"], vector["size"]), profile)
    assert str(part.cid) == vector["cid"]


def test_published_by_the_pinning_service():
    assert compute_cid(b"hello world!") == (
        "bafkreidvbhs33ighmljlvr7zbv2ywwzcmp5adtf4kqvlly67cy56bdtmve"
    )
    document = b'{"version":"0.7.0","appCode":"CowSwap","metadata":{}}'
    assert compute_cid(document, profile="unixfs-v0-2015") == (
        "QmUbsYUqP4DXDvXDipKDG6hKhKnb6dADMeBiHHYJiizr25"
    )

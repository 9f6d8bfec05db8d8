"""Sources and what wraps them: the same bytes in every reading, and leaves that end as asked."""

import hashlib
import io
from dataclasses import replace

import pytest

from holdfast import compute_cid, verify
from holdfast.content.cid import CID, DAG_PB
from holdfast.content.dag_pb import Link, encode
from holdfast.content.profiles import KUBO_LEGACY_CIDV1, UNIXFS_V1_2025
from holdfast.content.unixfs.files import FileImporter
from holdfast.content.unixfs.recognition import recognize
from holdfast.errors import UnprovenError
from holdfast.sinks.sinks import spool
from holdfast.sources.folder_source import FolderSource, plain_progress
from holdfast.sources.hashed_source import HashedFolder
from holdfast.sources.importing import import_content
from holdfast.sources.sources import PiecesFile, Source, WrappingSource, open_source
from tests.content import SMALL_PROFILES
from tests.dags import message
from tests.wrapping import PREFIX, PrefixedSource, size_of, unwrapped

MIB = 1 << 20
DATA = hashlib.shake_128(b"sources").digest(3 * MIB + 5)


def read(source, start=0):
    return b"".join(source.chunks(start))


class SectionedSource(WrappingSource):
    """The same bytes, with leaves that end at `leaf_ends`."""

    def __init__(self, inner, leaf_ends):
        super().__init__(inner)
        self.leaf_ends = leaf_ends


# Wrapped sources


@pytest.mark.parametrize("kind", ["path", "bytes", "file", "list"])
def test_a_wrapped_source_gives_the_same_bytes_from_any_offset(tmp_path, kind):
    (tmp_path / "file").write_bytes(DATA)
    opened = {"path": tmp_path / "file", "bytes": DATA, "file": io.BytesIO(DATA), "list": [DATA]}
    with PrefixedSource(open_source(opened[kind])) as source:
        whole = read(source)
        assert (len(whole), source.size, source.bytes_read) == (PREFIX + len(DATA),) * 3
        assert unwrapped(whole) == DATA
        assert source.seekable
        for start in (0, 1, PREFIX, PREFIX + 1, MIB, len(whole)):
            assert read(source, start) == whole[start:]
        source.check_unchanged()
        # Nothing reads a wrapped file without its wrapper.
        assert (source.file, source.inner.file is not None) == (None, kind == "path")
        assert compute_cid(source) == compute_cid(whole)


def test_a_generator_is_spooled_as_it_is_sent():
    pieces = (DATA[at : at + 1000] for at in range(0, len(DATA), 1000))
    source = PrefixedSource(open_source(pieces), leaf_ends=(PREFIX,))
    with spool(source) as spooled:
        assert (spooled.size, spooled.leaf_ends) == (PREFIX + len(DATA), (PREFIX,))
        first = read(spooled)
        assert read(spooled) == first
        assert first[:PREFIX] == source.prefix
        assert unwrapped(first) == DATA


def test_an_iterable_may_use_its_buffer_again():
    def pieces():
        buffer = bytearray(4)
        with io.BytesIO(b"kelpcrabeel") as file:
            while size := file.readinto(buffer):
                yield memoryview(buffer)[:size]

    assert read(open_source(pieces())) == b"kelpcrabeel"


@pytest.mark.parametrize("pieces", [[None], [b"kelp", None, b"crab"]])
def test_none_does_not_end_an_iterable(pieces):
    for iterable in (pieces, iter(pieces)):
        with pytest.raises(TypeError, match="cannot read NoneType: the iterable must give bytes"):
            read(open_source(iterable))


def test_a_new_reading_ends_the_one_before_without_a_last_piece():
    ends = []

    class Ended(WrappingSource):
        def wrap(self, start):
            yield from self.inner.chunks(start)
            ends.append(start)

    source = Ended(open_source(DATA))
    first = source.chunks()
    assert next(first) == DATA[:MIB]
    assert read(source, MIB) == DATA[MIB:]
    assert list(first) == []
    assert ends == [MIB]


def test_a_wrapper_that_gives_other_bytes_than_its_size_is_an_error():
    class Short(WrappingSource):
        def wrap(self, start):
            yield read(self.inner, start)[:-1]

    with pytest.raises(OSError, match="ended after 4 of 5 bytes"):
        read(Short(open_source(b"hello")))
    with pytest.raises(OSError, match="grew beyond the 4 bytes"):
        read(WrappingSource(open_source(b"hello"), size=4))


def test_a_wrapped_file_that_changes_is_an_error(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(DATA)
    with PrefixedSource(open_source(path)) as source:
        chunks = source.chunks()
        next(chunks)
        path.write_bytes(DATA[:-1] + b"!")
        with pytest.raises(OSError, match="file was written to"):
            list(chunks)


class Upper(WrappingSource):
    def wrap(self, start):
        return (chunk.upper() for chunk in self.inner.chunks(start))


def test_the_states_of_nested_wrappers_make_the_same_bytes():
    def nested(key=b"key"):
        return PrefixedSource(PrefixedSource(open_source(b"hello"), key), b"outer")

    first, second, other = nested(), nested(), nested(b"another")
    assert read(first) != read(second)
    states = first.states(9)
    assert second.restore_states(states)
    assert read(first) == read(second)
    assert (first.asked, first.inner.asked) == ([9], [9])
    # None is restored around another one that is not.
    before = other.prefix
    assert not other.restore_states(states)
    assert other.prefix == before
    for fewer in (states[:1], []):
        assert not nested().restore_states(fewer)
    assert not open_source(b"").restore_states(states)
    assert open_source(b"").restore_states([])
    # Nor does a wrapper of another class continue an upload.
    upper, plain = Upper(open_source(b"hello")), WrappingSource(open_source(b"hello"))
    assert upper.restore_states(upper.states(5))
    assert not plain.restore_states(upper.states(5))
    assert not plain.restore_states([])


def test_a_wrapped_file_is_identified_by_the_file(tmp_path):
    (tmp_path / "file").write_bytes(DATA)
    with open_source(tmp_path / "file") as plain, PrefixedSource(plain) as source:
        identity = plain.identify()
        assert identity["size"] == len(DATA)
        assert source.identify() == identity
    assert PrefixedSource(open_source(DATA)).identify() is None


def test_a_json_source_says_so_and_what_wraps_it_does_not():
    source = Source.of_json('{"a":"\u00e9"}')
    assert (source.json, source.type) == ('{"a":"é"}'.encode(), "application/json")
    assert read(source) == read(source) == source.json
    assert source.size == len(source.json)
    assert WrappingSource(source).json is None
    assert open_source(b"{}").json is None


# Progress


def reports(content, calls):
    seen = []
    progress = plain_progress(content, lambda *numbers: seen.append(numbers))
    for call in calls:
        progress(*call)
    return seen


def test_progress_counts_the_plain_bytes():
    sized = open_source(bytes(100))
    assert reports(sized, [(0, 116), (58, 116), (116, 116)]) == [(0, 100), (50, 100), (100, 100)]
    assert reports(open_source(b""), [(0, 16), (16, 16)]) == [(0, 0), (0, 0)]
    stream = open_source(iter([bytes(100)]))
    assert reports(stream, [(0, None)]) == [(0, None)]
    read(stream)
    assert reports(stream, [(50, None), (116, None)]) == [(50, None), (100, None)]
    assert reports(stream, [(58, 116), (116, 116)]) == [(50, None), (100, None)]


# Folders


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "folder"
    (root / "sub" / "empty").mkdir(parents=True)
    (root / "a").write_bytes(b"hello")
    (root / "sub" / "large").write_bytes(DATA)
    (root / "sub" / "nothing").write_bytes(b"")
    (root / "link").symlink_to("a")
    return FolderSource.of(root)


def contents(folder):
    files = {}
    for entry in folder.entries:
        if entry.kind == "file":
            with folder.open(entry) as source:
                assert source.size == entry.size
                files[entry.path] = read(source)
    return files


def test_a_mapped_folder_has_the_same_other_bytes_each_time(folder):
    mapped = folder.map(PrefixedSource, size_of)
    assert (mapped.size, mapped.files) == (folder.size + 3 * PREFIX, 3)
    first = contents(mapped)
    assert contents(mapped) == first
    assert {path: unwrapped(data) for path, data in first.items()} == contents(folder)
    assert len({data[:PREFIX] for data in first.values()}) == 3
    assert contents(folder.map(PrefixedSource, size_of)) != first
    assert [entry.path for entry in mapped.entries] == [entry.path for entry in folder.entries]


def test_the_cid_of_a_mapped_folder_is_that_of_its_new_content(folder, tmp_path):
    mapped = folder.map(PrefixedSource, size_of).map(PrefixedSource, size_of)
    copy = tmp_path / "copy"
    (copy / "sub" / "empty").mkdir(parents=True)
    (copy / "link").symlink_to("a")
    for path, data in contents(mapped).items():
        (copy / path).write_bytes(data)
    for emit in (None, lambda *_: None):
        assert str(import_content(mapped, UNIXFS_V1_2025, emit).cid) == compute_cid(copy)


def test_a_file_of_a_mapped_folder_that_changed_or_has_another_size_is_an_error(folder):
    mapped = folder.map(PrefixedSource, size_of)
    contents(mapped)
    (folder.path / "a").write_bytes(b"hullo")
    for changed in (mapped, FolderSource.of(folder.path).map(PrefixedSource, int)):
        with pytest.raises(OSError, match="was written to"):
            contents(changed)


def test_a_folder_that_is_hashed_while_it_is_sent_has_the_layout_of_the_service(tmp_path):
    """A service does not know where leaves must end."""
    (tmp_path / "a").write_bytes(DATA)
    folder = FolderSource.of(tmp_path).map(lambda source: SectionedSource(source, (100,)), int)
    hashed = HashedFolder(folder, UNIXFS_V1_2025)
    assert [path for path, _ in hashed.files()] == ["a"]
    assert hashed.cid is None  # nothing was read
    for _, file in hashed.files():
        assert b"".join(file.chunks()) == DATA
    assert str(hashed.cid) == compute_cid(tmp_path)
    legacy = compute_cid(tmp_path, profile=KUBO_LEGACY_CIDV1.name)
    assert str(hashed.read_again(KUBO_LEGACY_CIDV1)) == legacy


# Where leaves end


def leaf(data):
    return CID.of_raw(data), len(data), len(data)


def node(children):
    """A dag-pb node of a file over (CID, bytes of the file, bytes of all blocks)."""
    size = sum(child[1] for child in children)
    links = [Link(cid, b"", total) for cid, _, total in children]
    block = encode(links, message(size=size, sizes=[child[1] for child in children]))
    cid = replace(CID.of_raw(block), codec=DAG_PB)
    return cid, size, len(block) + sum(child[2] for child in children)


def chunked(data):
    return [leaf(data[at : at + MIB]) for at in range(0, len(data), MIB)]


@pytest.mark.parametrize(
    ("ends", "build"),
    [
        ((200,), lambda: node([leaf(DATA[:200]), node(chunked(DATA[200:]))])),
        ((MIB,), lambda: node([leaf(DATA[:MIB]), node(chunked(DATA[MIB:]))])),
        (
            (2 * MIB,),
            lambda: node([node(chunked(DATA[: 2 * MIB])), node(chunked(DATA[2 * MIB :]))]),
        ),
        ((1, 7), lambda: node([leaf(DATA[:1]), leaf(DATA[1:7]), node(chunked(DATA[7:]))])),
        ((len(DATA) - 1,), lambda: node([node(chunked(DATA[:-1])), leaf(DATA[-1:])])),
        ((0,), lambda: node(chunked(DATA))),
        ((len(DATA),), lambda: node(chunked(DATA))),
        ((len(DATA) + 1,), lambda: node(chunked(DATA))),
    ],
)
def test_leaves_end_where_a_source_says(tmp_path, ends, build):
    (tmp_path / "file").write_bytes(DATA)
    expected = str(build()[0])
    for content in (DATA, tmp_path / "file", io.BytesIO(DATA), iter([DATA[:9], DATA[9:]])):
        assert compute_cid(SectionedSource(open_source(content), ends)) == expected
    with open_source(tmp_path / "file") as source:
        source.leaf_ends = ends
        assert compute_cid(source) == expected


def test_a_small_header_and_its_content_are_two_leaves():
    source = SectionedSource(open_source(b"header" + b"body"), (6,))
    assert compute_cid(source) == str(node([leaf(b"header"), leaf(b"body")])[0])
    alone = SectionedSource(open_source(b"header"), (6,))
    assert compute_cid(alone) == compute_cid(b"header")
    assert compute_cid(SectionedSource(open_source(b""), (6,))) == compute_cid(b"")


@pytest.mark.parametrize("profile", SMALL_PROFILES, ids=lambda profile: profile.name)
def test_all_pieces_give_the_same_blocks(profile):
    data, imports = bytes(range(200)) * 2, set()
    for size in (1, 7, 64, 400):
        blocks = {}
        importer = FileImporter(profile, blocks.__setitem__, (13, 14, 100))
        for at in range(0, len(data), size):
            importer.update(data[at : at + size])
        imports.add((importer.finish(), frozenset(blocks)))
    assert len(imports) == 1


def test_content_is_verified_with_the_ends_of_its_leaves():
    source = lambda: SectionedSource(open_source(DATA), (200,))  # noqa: E731
    cid = compute_cid(source())
    assert verify(source(), cid)
    for other in (DATA, SectionedSource(open_source(DATA), (201,))):
        with pytest.raises(UnprovenError):
            verify(other, cid)


def test_the_root_over_two_sections_has_no_named_layout():
    blocks = {}
    importer = FileImporter(UNIXFS_V1_2025, blocks.__setitem__, (200,))
    importer.update(DATA)
    cid = importer.finish().cid
    assert recognize(cid, blocks[cid]) == (None, None)


def test_another_header_changes_two_blocks_of_a_large_file():
    """In the one balanced tree it would also change the nodes between its leaf and the root."""
    profile = SMALL_PROFILES[0]
    blocks = [{}, {}]
    for emitted, header in zip(blocks, (b"one", b"three"), strict=True):
        importer = FileImporter(profile, emitted.__setitem__, (len(header),))
        importer.update(header + bytes(range(256)) * 40)
        importer.finish()
    assert len(blocks[0]) > profile.width**2
    assert len(blocks[1].keys() - blocks[0].keys()) == 2


class Tagged(WrappingSource):
    """Its state grows with the bytes that were read, as that of an encrypting source does."""

    def __init__(self, inner):
        super().__init__(inner)
        self.tags = b""

    def state(self, end):
        return max(self.tags, b"x" * end, key=len)

    def restore(self, state):
        self.tags = state
        return True


def test_an_interrupted_reading_of_a_mapped_file_forgets_nothing(folder):
    mapped = folder.map(Tagged, lambda size: size)
    (entry,) = (entry for entry in mapped.entries if entry.path == "sub/large")
    with mapped.open(entry) as source:
        read(source)
    with mapped.open(entry):
        pass  # nothing is read
    with mapped.open(entry) as source:
        assert len(source.inner.tags) == entry.size


def test_spooling_ends_when_nobody_needs_it():
    pieces = iter(lambda: bytes(1000), b"")  # without an end
    asked = []

    def stopped():
        asked.append(1)
        return len(asked) > 5

    with pytest.raises(InterruptedError):
        spool(open_source(pieces), None, stopped)


def test_all_pieces_are_read_by_a_negative_size():
    assert PiecesFile([b"a", b"bc"]).read(-1) == b"abc"

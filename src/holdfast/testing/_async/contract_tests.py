"""Tests of what every async provider must do.

A provider that lacks an operation, or raises `UnsupportedError`, skips its tests.
"""

import filecmp
import json
import os
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from holdfast import AsyncClient, AsyncStorageProvider, errors, verify
from holdfast._async.providers.foreign import as_provider
from holdfast._async.reads.reader import AsyncReader
from holdfast._async.runtime import now, sleep
from holdfast.content.car import Block, CarReader, write_car
from holdfast.content.cid import CID
from holdfast.content.profiles import UNIXFS_V1_2025
from holdfast.content.reference import Reference
from holdfast.content.unixfs.files import FileImporter
from holdfast.records import Added, Pin, PinFilter, PinInfo
from holdfast.sinks.sinks import MemorySink
from holdfast.sources.sources import CHUNK_SIZE, Progress, Source, Uploadable, open_source
from holdfast.testing import provider_cases as cases
from holdfast.testing._async.parallel import in_parallel

METHODS = ("put_json", "put_file", "get_json", "get_file", "delete", "test_authentication")
ODD: Final = replace(UNIXFS_V1_2025, name="odd", chunk_size=100_000, width=5)
"""A layout that no provider gives an upload."""


class AsyncContractTests(cases.Contract):
    """The tests that both colours have."""

    async def put(
        self,
        provider: AsyncStorageProvider,
        file: Uploadable,
        *,
        name: str = "file.bin",
        progress: Progress | None = None,
    ) -> str:
        """Upload `file` and return its CID. Your own tests can use it too.

        Example:
            >>> from holdfast.testing import AsyncProviderTests
            >>> class TestMine(AsyncProviderTests):
            ...     async def test_that_is_mine(self, provider: AsyncStorageProvider) -> None:
            ...         cid = await self.put(provider, b"hello", name="greeting.txt")
            ...         assert (await provider.get_file(cid)).text() == "hello"
        """
        with open_source(file) as source:
            cid = await provider.put_file(source, name=name, progress=progress)
        return cases.check_cid(cid, "put_file")

    async def stored(self, provider: AsyncStorageProvider, cid: str, data: bytes) -> bytes:
        """Return the bytes that `cid` names: `data`, unless the provider changes content."""
        if not cases.changes_content(provider):
            return data
        sink = MemorySink()
        adapted = as_provider(provider)
        async with adapted.call("read", cid) as call:
            await AsyncReader.read(adapted.reader, Reference.parse(cid), sink, call)
        return bytes(sink.data)

    def is_known(self, provider: AsyncStorageProvider, cid: str, again: str) -> bool:
        """Return whether the same bytes have the CID that they had the first time.

        They must, unless the provider changes content: an encrypted file is another one each time.
        """
        assert again == cid or cases.changes_content(provider), "the same bytes have another CID"
        return again == cid

    async def call(self, provider: AsyncStorageProvider, method: str, cid: str) -> Any:
        """Call `method`, with `cid` if it takes one."""
        if method == "put_json":
            return await provider.put_json(cases.unique_json(), name="x")
        if method == "put_file":
            return await self.put(provider, b"[1]")
        if method == "test_authentication":
            return await provider.test_authentication()
        return await getattr(provider, method)(cid)

    # Content is read back unchanged, under a CID that verifies it

    async def test_it_has_the_methods_of_a_provider(self, provider: AsyncStorageProvider) -> None:
        cases.check_methods(provider, AsyncStorageProvider)

    @pytest.mark.parametrize("value", cases.VALUES, ids=lambda value: json.dumps(value)[:20])
    async def test_json_comes_back(self, provider: AsyncStorageProvider, value: Any) -> None:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        cid = cases.check_cid(await provider.put_json(text, name="Zoë's 🌊 value"), "put_json")
        cases.check_json(await provider.get_json(cid), value)
        stored = cases.bytes_of(await provider.get_file(cid))
        assert json.loads(stored) == value
        assert verify(await self.stored(provider, cid, stored), cid)

    @pytest.mark.parametrize("size", cases.SIZES)
    async def test_files_come_back(self, provider: AsyncStorageProvider, size: int) -> None:
        data = os.urandom(size)
        cid = await self.put(provider, data)
        cases.check_blob(await provider.get_file(cid), data)

    @pytest.mark.parametrize("size", cases.SIZES)
    async def test_the_cid_proves_the_file(self, provider: AsyncStorageProvider, size: int) -> None:
        data = os.urandom(size)
        cid = await self.put(provider, data)
        assert verify(await self.stored(provider, cid, data), cid)

    async def test_the_same_content_has_the_same_cid(self, provider: AsyncStorageProvider) -> None:
        cid = await self.put(provider, b"the same bytes", name="a.txt")
        again = await self.put(provider, b"the same bytes", name="b.txt")
        self.is_known(provider, cid, again)
        cases.check_blob(await provider.get_file(again), b"the same bytes")
        cid = await provider.put_json('["the same"]', name="a")
        again = await provider.put_json('["the same"]', name="b")
        self.is_known(provider, cid, again)
        cases.check_json(await provider.get_json(again), ["the same"])

    async def test_names_may_be_in_any_language(self, provider: AsyncStorageProvider) -> None:
        for name in ('ünï "cøde" 🌊.txt', "a b;c=d%20.txt", "名前"):
            cid = await self.put(provider, name.encode(), name=name)
            cases.check_blob(await provider.get_file(cid), name.encode())

    async def test_the_size_need_not_be_known(self, provider: AsyncStorageProvider) -> None:
        pieces = [os.urandom(700_000) for _ in range(3)]
        cid = await self.put(provider, iter(pieces))
        cases.check_blob(await provider.get_file(cid), b"".join(pieces))

    @pytest.mark.parametrize("data", cases.NO_JSON)
    async def test_files_are_no_json(self, provider: AsyncStorageProvider, data: bytes) -> None:
        cid = await self.put(provider, data)
        with pytest.raises(errors.SerializationError):
            await provider.get_json(cid)

    async def test_large_files_take_little_memory(
        self, provider: AsyncStorageProvider, tmp_path: Path
    ) -> None:
        large, copy = tmp_path / "large", tmp_path / "copy"
        with large.open("wb") as file:
            for _ in range(self.large_size >> 20):
                file.write(os.urandom(1 << 20))
        with cases.memory_below(self.memory_limit):
            cid = await self.put(provider, large)
        with cases.memory_below(self.memory_limit):
            await provider.get_file(cid, to=copy)
        assert filecmp.cmp(large, copy, shallow=False)
        with cases.memory_below(self.memory_limit):
            blob = await provider.get_file(cid)
        assert blob.size == self.large_size

    async def test_many_calls_at_once_do_not_mix(self, provider: AsyncStorageProvider) -> None:
        def round_trip(number: int) -> Callable[[], Awaitable[None]]:
            async def call() -> None:
                data = f"file {number}".encode() * 20_000
                stored = await provider.put_json(f'{{"number":{number}}}', name=f"n{number}")
                cid = await self.put(provider, data)
                assert await provider.get_json(stored) == {"number": number}
                cases.check_blob(await provider.get_file(cid), data)

            return call

        await in_parallel(round_trip(number) for number in range(20))

    async def test_the_same_bytes_may_be_put_at_once(self, provider: AsyncStorageProvider) -> None:
        data = os.urandom(300_000)
        cids = await in_parallel([lambda: self.put(provider, data)] * 8)
        for cid in cids:
            self.is_known(provider, cids[0], cid)
        cases.check_blob(await provider.get_file(cids[-1]), data)

    @pytest.mark.parametrize("size", [5, cases.SPOOLED])
    async def test_a_blob_outlives_its_provider(
        self, provider: AsyncStorageProvider, size: int
    ) -> None:
        data = os.urandom(size)
        cid = await self.put(provider, data)
        blob = await provider.get_file(cid)
        await provider.delete(cid)
        cases.check_blob(blob, data)
        await provider.aclose()
        cases.check_blob(blob, data)

    async def test_a_client_can_use_it(self, provider: AsyncStorageProvider) -> None:
        value = {"a": [1, "ü"], **json.loads(cases.unique_json())}
        async with AsyncClient(provider) as client:
            assert await client.test_connection() is True
            record = await client.store(value)
            assert await client.retrieve(f"ipfs://{record.cid}") == value
            note = await client.send("älice", "hi 🌊")
            assert await client.receive(note.cid) == note.data
            assert await client.revoke(record.cid) is True

    # Progress, interrupted transfers, and downloads to files

    @pytest.mark.parametrize("size", [0, 5, 3_000_000])
    async def test_progress_is_told(
        self, provider: AsyncStorageProvider, tmp_path: Path, size: int
    ) -> None:
        calls: list[tuple[int, int | None]] = []

        def note(done: int, total: int | None) -> None:
            calls.append((done, total))

        cid = await self.put(provider, os.urandom(size), progress=note)
        cases.check_progress(calls, size, "put_file")
        calls.clear()
        await provider.get_file(cid, progress=note)
        cases.check_progress(calls, size, "get_file")
        calls.clear()
        await provider.get_file(cid, to=tmp_path / "copy", progress=note)
        cases.check_progress(calls, size, "get_file with to=")

    async def test_what_progress_raises_ends_the_call(self, provider: AsyncStorageProvider) -> None:
        data = os.urandom(3_000_000)
        with cases.interrupted("put_file"):
            await self.put(provider, data, progress=cases.interrupt)
        cid = await self.put(provider, data)
        with cases.interrupted("get_file"):
            await provider.get_file(cid, progress=cases.interrupt)
        cases.check_blob(await provider.get_file(cid), data)

    async def test_half_a_file_is_not_kept(self, provider: AsyncStorageProvider) -> None:
        half = os.urandom(CHUNK_SIZE)
        with pytest.raises(cases.Interrupted):
            await self.put(provider, half_of_a_file(half))
        for cid in cases.possible_cids(half):
            with pytest.raises(errors.ProviderError):
                await provider.delete(cid)
        cid = await self.put(provider, b"afterwards")
        cases.check_blob(await provider.get_file(cid), b"afterwards")

    @pytest.mark.parametrize("kind", [Path, str])
    async def test_a_download_may_go_to_a_file(
        self,
        provider: AsyncStorageProvider,
        tmp_path: Path,
        kind: Callable[[Path], str | os.PathLike[str]],
    ) -> None:
        for data in (b"", b"short", os.urandom(3_000_000)):
            cid = await self.put(provider, data)
            target = tmp_path / "cöpy.bin"  # replaced each time
            blob = await provider.get_file(cid, to=kind(target))
            cases.check_blob(blob, data)
            cases.check_bytes(target.read_bytes(), data, "get_file wrote")
            assert cases.names_in(tmp_path) == [target.name]
            with pytest.raises(FileNotFoundError):
                await provider.get_file(cid, to=kind(tmp_path / "nowhere" / "copy"))

    @pytest.mark.parametrize("before", [None, b"old"])
    async def test_a_failed_download_leaves_what_was_there(
        self, provider: AsyncStorageProvider, tmp_path: Path, before: bytes | None
    ) -> None:
        target = tmp_path / "copy"
        if before is not None:
            target.write_bytes(before)
        cid = await self.put(provider, os.urandom(3_000_000))
        with cases.interrupted("get_file with to="):
            await provider.get_file(cid, to=target, progress=cases.interrupt)
        with pytest.raises(errors.ClientError):
            await provider.get_file(cases.NOWHERE, to=target)
        assert cases.names_in(tmp_path) == ([] if before is None else [target.name])
        assert before is None or target.read_bytes() == before

    # Missing content, invalid CIDs, directories, and closing

    async def test_what_was_deleted_can_be_kept_again(self, provider: AsyncStorageProvider) -> None:
        data, text = os.urandom(20), cases.unique_json()
        first = await provider.put_json(text, name="first")
        second = await self.put(provider, data)
        await provider.delete(first)
        with pytest.raises(errors.NotFoundError):
            await provider.delete(first)
        cases.check_blob(await provider.get_file(second), data)
        await provider.delete(second)
        again = await provider.put_json(text, name="again")
        self.is_known(provider, first, again)
        cases.check_blob(await provider.get_file(again), text.encode())
        await provider.delete(again)

    async def test_a_path_cannot_be_deleted(self, provider: AsyncStorageProvider) -> None:
        text = cases.unique_json()
        cid = await provider.put_json(text, name="x")
        with pytest.raises(errors.InvalidCIDError):
            await provider.delete(f"{cid}/x")
        cases.check_blob(await provider.get_file(cid), text.encode())
        await provider.delete(cid)

    async def test_what_is_not_there_is_an_error(self, provider: AsyncStorageProvider) -> None:
        with pytest.raises(errors.NotFoundError):
            await provider.delete(cases.NOWHERE)
        with pytest.raises(errors.ClientError):
            await provider.get_json(cases.NOWHERE)
        with pytest.raises(errors.ClientError):
            await provider.get_file(cases.NOWHERE)

    @pytest.mark.parametrize("text", cases.NO_CIDS)
    async def test_what_is_no_cid_is_refused(
        self, provider: AsyncStorageProvider, text: str, tmp_path: Path
    ) -> None:
        for method in ("get_json", "get_file", "delete"):
            with pytest.raises(errors.InvalidCIDError):
                await self.call(provider, method, text)
        with pytest.raises(errors.InvalidCIDError):
            await provider.get_file(text, to=tmp_path / "copy")
        assert cases.names_in(tmp_path) == []

    # Directories, if the provider has any

    async def test_a_directory_is_no_file(
        self, provider: AsyncStorageProvider, directory_cid: str, tmp_path: Path
    ) -> None:
        with pytest.raises(errors.NotAFileError):
            await provider.get_file(directory_cid)
        with pytest.raises(errors.NotAFileError):
            await provider.get_file(directory_cid, to=tmp_path / "copy")
        with pytest.raises(errors.NotAFileError):
            await provider.get_json(directory_cid)
        for call in (provider.get_file, provider.get_json):
            with pytest.raises(errors.ClientError):
                await call(f"{directory_cid}/nobody/has/this.txt")
        assert cases.names_in(tmp_path) == []

    async def test_a_path_leads_to_a_file(
        self,
        provider: AsyncStorageProvider,
        directory_cid: str,
        directory_file: tuple[str, bytes],
        tmp_path: Path,
    ) -> None:
        path, data = directory_file
        target = tmp_path / "copy"
        cases.check_blob(await provider.get_file(f"{directory_cid}/{path}"), data)
        await provider.get_file(f"{directory_cid}/{path}", to=target)
        cases.check_bytes(target.read_bytes(), data, "get_file wrote")

    # Closing

    @pytest.mark.parametrize("method", METHODS)
    async def test_nothing_works_after_closing(
        self, provider: AsyncStorageProvider, method: str
    ) -> None:
        cid = await self.put(provider, b"[1]")
        cases.check_json(await provider.get_json(cid), [1])
        await provider.aclose()
        await provider.aclose()  # which does nothing
        with pytest.raises(errors.ClientClosedError):
            await self.call(provider, method, cid)

    # Pins that are listed, found, changed, and made by a CID

    async def test_pins_are_found_by_name_and_cid(self, provider: Any) -> None:
        cases.require(as_provider(provider), "list_pins")
        salt = secrets.token_hex(8)
        cids = [await provider.put_json(cases.unique_json(), name=f"{salt} {n}") for n in range(2)]
        searches = [provider.list_pins]
        if as_provider(provider).supports("find_pins"):
            searches.append(partial(find, provider))
            cases.check_pins(await find(provider, cid=cids[0]), cids[:1], "by CID")
        for search in searches:
            cases.check_pins(await search(name=salt), cids, "by a part of the name")
            cases.check_pins(await search(name=f"{salt} 1"), cids[1:], "by the name")
            assert len(await search(name=salt, limit=1)) == 1, "a limit of 1 was not kept"
        for cid in cids:
            await provider.delete(cid)
        for search in searches:
            cases.check_pins(await search(name=salt), [], "after they were deleted")

    async def test_pins_are_found_by_key_values(self, provider: Any) -> None:
        cases.require(as_provider(provider), "add", "find_pins")
        salt = secrets.token_hex(8)
        cids = []
        for number in "12":
            info = PinInfo(name=salt, keyvalues={"salt": salt, "number": number})
            with cases.supported():
                cids.append((await add_json(provider, cases.unique_json(), info)).cid)
        cases.check_pins(await find(provider, keyvalues={"salt": salt}), cids, "by a key-value")
        both = {"salt": salt, "number": "2"}
        cases.check_pins(await find(provider, keyvalues=both), cids[1:], "by two key-values")
        for cid in cids:
            await provider.delete(cid)

    async def test_pins_are_found_by_time(self, provider: Any) -> None:
        cases.require(as_provider(provider), "find_pins")
        salt = secrets.token_hex(8)
        cids = [await provider.put_json(cases.unique_json(), name=f"{salt} {n}") for n in range(2)]
        times = [pin.created_ms or 0 for pin in await find(provider, name=salt)]
        first, last = min(times), max(times)
        with cases.supported():
            cases.check_pins(await find(provider, name=salt, since=first), cids, "since the first")
        cases.check_pins(await find(provider, name=salt, until=last), cids, "until the last")
        cases.check_pins(await find(provider, name=salt, since=last + 1), [], "since later")
        cases.check_pins(await find(provider, name=salt, until=first - 1), [], "until earlier")
        for cid in cids:
            await provider.delete(cid)

    async def test_known_content_gets_the_name_that_is_given(self, provider: Any) -> None:
        cases.require(as_provider(provider), "add", "find_pins")
        text = cases.unique_json()
        cid = (await add_json(provider, text, PinInfo(name="first"))).cid
        added = await add_json(provider, text, PinInfo(name="second"))
        if not self.is_known(provider, cid, added.cid):
            pins = [*await find(provider, cid=cid), *await find(provider, cid=added.cid)]
            assert [pin.name for pin in pins] == ["first", "second"]
            return
        assert added.duplicate in {True, None}, "known content was added as new"
        (pin,) = await find(provider, cid=cid)
        assert pin.name == "first", "nothing was given to change it"
        await add_json(provider, text, PinInfo(name="third", given=True))
        (pin,) = await find(provider, cid=cid)
        assert pin.name == "third"
        await provider.delete(cid)

    async def test_known_content_gets_the_key_values_that_are_given(self, provider: Any) -> None:
        cases.require(as_provider(provider), "add", "find_pins")
        text = cases.unique_json()
        with cases.supported():
            cid = (await add_json(provider, text, PinInfo(name="x", keyvalues={"a": "1"}))).cid
        added = await add_json(provider, text, PinInfo(name="y"))
        (pin,) = await find(provider, cid=cid)
        assert pin.keyvalues == {"a": "1"}, "nothing was given to change it"
        if not self.is_known(provider, cid, added.cid):
            return
        await add_json(provider, text, PinInfo(name="z", keyvalues={"b": "2"}))
        (pin,) = await find(provider, cid=cid)
        assert (pin.name, pin.keyvalues) == ("x", {"a": "1", "b": "2"})
        await provider.delete(cid)

    async def test_the_name_of_a_pin_can_be_changed(self, provider: Any) -> None:
        cases.require(as_provider(provider), "find_pins", "update_pin")
        cid = await provider.put_json(cases.unique_json(), name="first")
        pin = await provider.update_pin(cid, name="second", keyvalues=None)
        (listed,) = await find(provider, cid=cid)
        assert (pin.name, listed.name) == ("second", "second")
        await provider.delete(cid)
        with pytest.raises(errors.NotFoundError):
            await provider.update_pin(cases.NOWHERE, name="x", keyvalues=None)

    async def test_the_key_values_of_a_pin_can_be_changed(self, provider: Any) -> None:
        cases.require(as_provider(provider), "add", "find_pins", "update_pin")
        info = PinInfo(name="first", keyvalues={"a": "1", "b": "2"}, given=True)
        with cases.supported():
            cid = (await add_json(provider, cases.unique_json(), info)).cid
        pin = await provider.update_pin(cid, name=None, keyvalues={"a": None, "c": "3"})
        assert (pin.name, pin.keyvalues) == ("first", {"b": "2", "c": "3"})
        (listed,) = await find(provider, cid=cid)
        assert (listed.name, listed.keyvalues) == (pin.name, pin.keyvalues)
        await provider.delete(cid)

    async def test_what_is_there_can_be_pinned_by_its_cid(self, provider: Any) -> None:
        cases.require(as_provider(provider), "pin")
        cid = await provider.put_json(cases.unique_json(), name="x")
        pin = await provider.pin(cid, PinInfo(name="y", given=True))
        end = now() + self.patience
        while pin.state != "pinned":
            assert now() < end, f"the pin is still {pin.state}"
            await sleep(0.1)
            pin = await provider.check_pin(pin)
        cases.check_pins([pin], [cid], "by its CID")
        await provider.delete(cid)

    # Content as archives (CAR), to and from other providers, whole or not at all

    async def test_an_exported_archive_has_each_block_once(self, provider: Any) -> None:
        cases.require(as_provider(provider), "export_archive")
        cid = await self.put(provider, os.urandom(1 << 20) * 3)
        reader = CarReader()
        blocks: list[Block] = []
        async for piece in provider.export_archive(cid):
            blocks += reader.update(piece)
        reader.finish()
        assert reader.roots == [CID.parse(cid)], "the archive has another root"
        assert len(dict(blocks)) == len(blocks), "a block came twice"
        assert CID.parse(cid) in dict(blocks), "the root is missing"
        with pytest.raises(errors.ClientError):
            _ = [piece async for piece in provider.export_archive(cases.NOWHERE)]

    async def test_an_imported_archive_keeps_its_cid_and_name(self, provider: Any) -> None:
        cases.require(as_provider(provider), "import_archive")
        data = os.urandom(1_500_000)
        root, blocks = odd_blocks(data)
        info = PinInfo(name="odd", given=True)
        added = await provider.import_archive(str(root), pieces(root, blocks), info)
        assert CID.parse(added.cid) == root
        cases.check_blob(await provider.get_file(str(root)), data)
        if as_provider(provider).supports("find_pins"):
            (pin,) = await find(provider, cid=str(root))
            assert pin.name == "odd"
        again = await provider.import_archive(str(root), pieces(root, blocks), info)
        assert again.duplicate in {True, None}, "known content was added as new"
        await provider.delete(str(root))

    async def test_an_archive_that_does_not_fit_is_not_pinned(self, provider: Any) -> None:
        cases.require(as_provider(provider), "import_archive")
        root, blocks = odd_blocks(os.urandom(300_000))
        other, _ = odd_blocks(b"other")
        for cid, sent in ((root, blocks[1:]), (other, blocks)):
            with pytest.raises(errors.ClientError):
                await provider.import_archive(str(cid), pieces(root, sent), PinInfo())
        for cid in (root, other):
            with pytest.raises(errors.ClientError):
                await provider.delete(str(cid))


def half_of_a_file(half: bytes) -> Iterator[bytes]:
    """Yield `half`, then raise `Interrupted`."""
    yield half
    raise cases.Interrupted


async def add_json(provider: Any, text: str, info: PinInfo) -> Added:
    """Store a JSON text, as a client does."""
    return await as_provider(provider).put(Source.of_json(text), info)


async def find(provider: Any, *, limit: int | None = None, **filters: Any) -> Sequence[Pin]:
    """Return the pins that match the filters."""
    return [pin async for pin in provider.find_pins(PinFilter(**filters), limit=limit)]


def odd_blocks(data: bytes) -> tuple[CID, list[Block]]:
    """Return the root and the blocks of a file in a layout of its own."""
    blocks: list[Block] = []
    importer = FileImporter(ODD, lambda cid, block: blocks.append((cid, block)))
    importer.update(data)
    return importer.finish().cid, blocks


async def pieces(root: CID, blocks: Iterable[Block]) -> AsyncIterator[bytes]:
    """Yield an archive."""
    for piece in write_car([root], blocks):
        yield piece

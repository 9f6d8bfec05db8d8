"""A provider of somebody else that is right but for its memory, and many that are not."""

import asyncio
import contextlib
import json
import os
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from holdfast import Blob, Pin
from holdfast.content.cid import CID
from holdfast.disk.atomic import PendingFile
from holdfast.errors import (
    ClientClosedError,
    InvalidCIDError,
    NotAFileError,
    NotFoundError,
    ProviderError,
    SerializationError,
)
from holdfast.protocol import json_text
from holdfast.provider import Added, PinFilter, PinInfo, Source


def fails(*words):
    """Name the tests of the contract suite that must fail for a class; all others pass."""
    return lambda kind: note(kind, "fails", {f"test_{word}" for word in " ".join(words).split()})


def says(*words):
    """Name a test that must fail for a class, and the beginning of what its failure says."""
    return lambda kind: note(kind, "says", [*getattr(kind, "says", ()), words])


def note(kind, name, value):
    setattr(kind, name, value)
    return kind


class MemoryProvider:
    def __init__(self):
        self._files = {}
        self._closed = False

    @classmethod
    def from_config(cls, config):
        return cls()

    def put_json(self, text, *, name):
        return self._put(text.encode())

    def get_json(self, cid):
        return json_text.from_text(self._get(cid))

    def put_file(self, source, *, name, progress=None):
        data = b"".join(source.chunks())
        if progress is not None:
            progress(len(data), source.size)
        return self._put(data)

    def get_file(self, cid, *, to=None, progress=None):
        blob = Blob(self._get(cid))
        if progress is not None:
            progress(blob.size, blob.size)
        if to is not None:
            blob.save(to)
        return blob

    def delete(self, cid):
        self.test_authentication()
        if self._files.pop(CID.parse(cid), None) is None:
            raise NotFoundError(f"{cid} is not pinned")

    def test_authentication(self):
        if self._closed:
            raise ClientClosedError

    def close(self):
        self._closed = True

    def _put(self, data):
        self.test_authentication()
        cid = CID.of_raw(data)
        self._files[cid] = data
        return str(cid)

    def _get(self, cid):
        self.test_authentication()
        try:
            return self._files[CID.parse(cid)]
        except KeyError:
            raise NotFoundError(f"{cid} is not here") from None


@fails("a_client_can_use_it json_comes_back")
class LosesLetters(MemoryProvider):
    def put_json(self, text, *, name):
        return self._put(text.encode("ascii", "replace"))


@fails("the_cid_proves_the_file")
class LiesAboutCIDs(MemoryProvider):
    def put_file(self, source, *, name, progress=None):
        cid = super().put_file(source, name=name, progress=progress)
        other = str(CID.of_raw(cid.encode()))
        self._files[CID.parse(other)] = self._get(cid)
        return other


@fails(
    "nothing_works_after_closing progress_is_told the_cid_proves_the_file",
    "the_same_content_has_the_same_cid what_progress_raises_ends_the_call",
)
class NamesByTheFileName(MemoryProvider):
    def put_file(self, source, *, name, progress=None):
        data = b"".join(source.chunks())
        cid = CID.of_raw(data + name.encode())
        self._files[cid] = data
        return str(cid)


@fails("half_a_file_is_not_kept the_size_need_not_be_known")
class NeedsTheSize(MemoryProvider):
    def put_file(self, source, *, name, progress=None):
        if source.size is None:
            raise ProviderError("how large is it?")
        return super().put_file(source, name=name, progress=progress)


@fails(
    "a_failed_download_leaves_what_was_there progress_is_told what_progress_raises_ends_the_call"
)
class TellsNoProgress(MemoryProvider):
    def get_file(self, cid, *, to=None, progress=None):
        return super().get_file(cid, to=to)


@fails("a_failed_download_leaves_what_was_there what_progress_raises_ends_the_call")
class HidesErrorsOfProgress(MemoryProvider):
    def get_file(self, cid, *, to=None, progress=None):
        def careful(done, total):
            with contextlib.suppress(Exception):
                progress(done, total)

        return super().get_file(cid, to=to, progress=careful if progress else None)


@fails("a_failed_download_leaves_what_was_there")
class WritesInPlace(MemoryProvider):
    def get_file(self, cid, *, to=None, progress=None):
        if to is not None:
            CID.parse(cid)
            Path(to).write_bytes(self._get(cid))
        return super().get_file(cid, progress=progress)


@fails(
    "half_a_file_is_not_kept what_is_not_there_is_an_error",
    "what_was_deleted_cannot_be_deleted_again",
)
class DeletesAnything(MemoryProvider):
    def delete(self, cid):
        self.test_authentication()
        self._files.pop(CID.parse(cid), None)


@fails("what_is_not_there_is_an_error what_was_deleted_cannot_be_deleted_again")
class HidesThatItIsNotPinned(MemoryProvider):
    def delete(self, cid):
        try:
            super().delete(cid)
        except NotFoundError as error:
            raise ProviderError(str(error)) from None


@fails("what_was_deleted_cannot_be_deleted_again")
class DeletesEverything(MemoryProvider):
    def delete(self, cid):
        super().delete(cid)
        self._files.clear()


@fails("what_is_no_cid_is_refused")
class TakesAnyCID(MemoryProvider):
    def _get(self, cid):
        try:
            return super()._get(cid)
        except InvalidCIDError:
            return b"anything"


@fails("a_failed_download_leaves_what_was_there what_is_not_there_is_an_error")
class RaisesKeyErrors(MemoryProvider):
    def _get(self, cid):
        self.test_authentication()
        return self._files[CID.parse(cid)]


@fails("many_calls_at_once_do_not_mix")
class MixesThreadsUp(MemoryProvider):
    def _put(self, data):
        self._last = data
        time.sleep(0.001)
        return super()._put(self._last)


@fails("nothing_works_after_closing")
class ClosesOnce(MemoryProvider):
    def close(self):
        self.test_authentication()
        super().close()


@fails("nothing_works_after_closing")
class NeverCloses(MemoryProvider):
    def close(self):
        pass


@fails("a_download_may_go_to_a_file")
class NeedsAPath(MemoryProvider):
    def get_file(self, cid, *, to=None, progress=None):
        if to is not None:
            _ = to.parent
        return super().get_file(cid, to=to, progress=progress)


@fails("files_are_no_json")
class TakesNaN(MemoryProvider):
    def get_json(self, cid):
        data = self._get(cid)
        try:
            return json.loads(data)
        except ValueError as error:
            raise SerializationError(str(error)) from None


@fails("json_comes_back")
class TakesTrueForOne(MemoryProvider):
    def get_json(self, cid):
        value = super().get_json(cid)
        return 1 if value is True else value


@fails("json_comes_back")
class SortsKeys(MemoryProvider):
    def get_json(self, cid):
        value = super().get_json(cid)
        return dict(sorted(value.items())) if isinstance(value, dict) else value


@fails("the_same_content_has_the_same_cid")
class RefusesJSONTwice(MemoryProvider):
    def put_json(self, text, *, name):
        if CID.of_raw(text.encode()) in self._files:
            raise ProviderError("it is here already")
        return super().put_json(text, name=name)


@fails("what_was_deleted_can_be_kept_again")
class BearsGrudges(MemoryProvider):
    def delete(self, cid):
        super().delete(cid)
        self.gone = {*getattr(self, "gone", ()), cid}

    def _get(self, cid):
        if cid in getattr(self, "gone", ()):
            raise ProviderError("it was deleted")
        return super()._get(cid)


@fails("the_same_bytes_may_be_put_at_once")
class TakesOneOfAKind(MemoryProvider):
    busy = ()

    def _put(self, data):
        if data in self.busy:
            raise ProviderError("this is being put")
        self.busy = (*self.busy, data)
        time.sleep(0.1)
        self.busy = tuple(each for each in self.busy if each != data)
        return super()._put(data)


@fails("half_a_file_is_not_kept")
class KeepsHalves(MemoryProvider):
    def put_file(self, source, *, name, progress=None):
        came = []

        def chunks():
            for chunk in type(source).chunks(source):
                came.append(chunk)
                yield chunk

        source.chunks = chunks
        try:
            return super().put_file(source, name=name, progress=progress)
        except Exception:
            self._put(b"".join(came))
            raise


@fails("progress_is_told")
class TellsProgressBackwards(MemoryProvider):
    def get_file(self, cid, *, to=None, progress=None):
        blob = super().get_file(cid, to=to, progress=progress)
        if to is not None and progress is not None:
            progress(0, blob.size)
        return blob


@fails("a_path_cannot_be_deleted")
class DeletesByPaths(MemoryProvider):
    def delete(self, cid):
        super().delete(cid.partition("/")[0])


@fails("a_blob_outlives_its_provider")
class LendsItsFiles(MemoryProvider):
    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()

    def get_file(self, cid, *, to=None, progress=None):
        blob = super().get_file(cid, to=to, progress=progress)
        path = Path(self.folder.name, cid)
        path.write_bytes(blob.read())
        return Blob.of_file(path, size=blob.size, temporary=False)

    def close(self):
        super().close()
        self.folder.cleanup()


class DirectoryProvider(MemoryProvider):
    def __init__(self):
        super().__init__()
        self._directories = {}

    def put_directory(self, files):
        cid = str(CID.of_raw(repr(files).encode()))
        self._directories[cid] = files
        return cid

    def _get(self, cid):
        root, _, path = cid.partition("/")
        if root not in self._directories:
            return super()._get(cid)
        if not path:
            raise NotAFileError(f"{cid} is a directory")
        if path not in self._directories[root]:
            raise NotFoundError(f"{cid} is not here")
        return self._directories[root][path]


@fails("a_directory_is_no_file")
class HandsOutDirectories(DirectoryProvider):
    def _get(self, cid):
        return b"[]" if cid in self._directories else super()._get(cid)


@fails("a_path_leads_to_a_file")
class KnowsNoPaths(DirectoryProvider):
    def _get(self, cid):
        if cid.partition("/")[0] in self._directories:
            raise NotAFileError("a directory")
        return super()._get(cid)


@fails("a_path_that_leads_nowhere_is_an_error")
class TakesAnyPath(DirectoryProvider):
    def _get(self, cid):
        root, slash, _ = cid.partition("/")
        files = self._directories.get(root)
        return next(iter(files.values())) if files and slash else super()._get(cid)


class PinsProvider(MemoryProvider):
    takes = (Source,)

    def __init__(self):
        super().__init__()
        self._pins = {}

    def put_json(self, text, *, name):
        return self.add(Source.of_json(text), PinInfo(name=name), None, None).cid

    def add(self, content, info, call, progress):
        if content.json is None:
            return Added(cid=self.put_file(content, name=info.name, progress=progress))
        cid = super().put_json(content.json.decode(), name=info.name)
        known = cid in self._pins
        if not known:
            self._pins[cid] = Pin(id=cid, cid=cid, created=int(time.time() * 1000))
        self._note(cid, info.name if info.given or not known else None, info.keyvalues)
        return Added(cid=cid, duplicate=known)

    def _note(self, cid, name, keyvalues):
        pin = self._pins[cid]
        merged = self._merged(pin.keyvalues, keyvalues or {})
        new = {"name": pin.name if name is None else name, "keyvalues": merged}
        self._pins[cid] = replace(pin, **new)

    def _merged(self, before, changes):
        return {key: each for key, each in {**before, **changes}.items() if each is not None}

    def delete(self, cid):
        super().delete(cid)
        self._pins.pop(cid, None)

    def list_pins(self, *, name=None, limit=None):
        return list(self.find_pins(PinFilter(name=name), limit=limit))

    def find_pins(self, wanted, *, limit=None):
        return iter([pin for pin in self._pins.values() if self._fits(pin, wanted)][:limit])

    def _fits(self, pin, wanted):
        return (
            (wanted.name is None or wanted.name in pin.name)
            and (wanted.cid is None or wanted.cid == pin.cid)
            and wanted.fits(pin.keyvalues)
            and (wanted.since is None or wanted.since <= pin.created)
            and (wanted.until is None or pin.created <= wanted.until)
        )

    def update_pin(self, cid, *, name, keyvalues):
        if cid not in self._pins:
            raise NotFoundError(f"{cid} is not pinned")
        self._note(cid, name, keyvalues)
        return self._pins[cid]

    def pin(self, cid, info):
        self._get(cid)
        pin = Pin(id=cid, cid=cid, name=info.name)
        return replace(self._pins.setdefault(cid, pin), state="pinning")

    def check_pin(self, pin):
        return self._pins[pin.cid]


@fails("pins_are_found_by_name_and_cid")
class FindsAllNames(PinsProvider):
    def _fits(self, pin, wanted):
        return super()._fits(pin, replace(wanted, name=None))


@fails("pins_are_found_by_name_and_cid")
class FindsAllCIDs(PinsProvider):
    def _fits(self, pin, wanted):
        return super()._fits(pin, replace(wanted, cid=None))


@fails("pins_are_found_by_key_values")
class FindsAllKeys(PinsProvider):
    def _fits(self, pin, wanted):
        return super()._fits(pin, replace(wanted, keyvalues=None))


@fails("pins_are_found_by_time")
class FindsAllTimes(PinsProvider):
    def _fits(self, pin, wanted):
        return super()._fits(pin, replace(wanted, until=None))


@fails("pins_are_found_by_name_and_cid")
class KnowsNoLimit(PinsProvider):
    def find_pins(self, wanted, *, limit=None):
        return super().find_pins(wanted)


@fails("known_content_gets_the_key_values_that_are_given", "the_key_values_of_a_pin_can_be_changed")
class ForgetsKeyValues(PinsProvider):
    def _merged(self, before, changes):
        return dict(changes)


@fails("known_content_gets_the_name_that_is_given the_name_of_a_pin_can_be_changed")
class KeepsOldNames(PinsProvider):
    def _note(self, cid, name, keyvalues):
        super()._note(cid, self._pins[cid].name or name, keyvalues)


@fails("the_name_of_a_pin_can_be_changed")
class ChangesAnything(PinsProvider):
    def update_pin(self, cid, *, name, keyvalues):
        if cid not in self._pins:
            return Pin(id="1", cid=cid)
        return super().update_pin(cid, name=name, keyvalues=keyvalues)


@fails("the_name_of_a_pin_can_be_changed")
class HidesThatNothingIsPinned(PinsProvider):
    def update_pin(self, cid, *, name, keyvalues):
        if cid not in self._pins:
            raise ProviderError(f"{cid} is not pinned")
        return super().update_pin(cid, name=name, keyvalues=keyvalues)


@fails("what_is_there_can_be_pinned_by_its_cid")
class NeverPins(PinsProvider):
    def check_pin(self, pin):
        return pin


async def write_whole(to, data, progress):
    with PendingFile(to) as pending:
        await write_slowly(pending, data, progress)
        await asyncio.sleep(0.001)
        pending.commit()


async def write_in_place(to, data, progress):
    with Path(to).open("wb") as file:  # noqa: ASYNC230
        await write_slowly(file, data, progress)


async def write_slowly(file, data, progress):
    for start in range(0, len(data) or 1, 1 << 20):
        file.write(data[start : start + (1 << 20)])
        await asyncio.sleep(0.001)
        if progress is not None:
            progress(min(start + (1 << 20), len(data)), len(data))


class AsyncMemoryProvider:
    def __init__(self):
        self._kept = MemoryProvider()

    async def put_json(self, text, *, name):
        return self._kept.put_json(text, name=name)

    async def get_json(self, cid):
        return self._kept.get_json(cid)

    async def put_file(self, source, *, name, progress=None):
        put = self._kept.put_file
        return await asyncio.to_thread(put, source, name=name, progress=progress)

    async def get_file(self, cid, *, to=None, progress=None, write=write_whole):
        if to is None:
            return self._kept.get_file(cid, progress=progress)
        blob = self._kept.get_file(cid)
        await write(to, blob.read(), progress)
        return blob

    async def delete(self, cid):
        self._kept.delete(cid)

    async def test_authentication(self):
        self._kept.test_authentication()

    async def aclose(self):
        self._kept.close()


@fails("a_source_that_waits_holds_up_nobody")
class ReadsInTheLoop(AsyncMemoryProvider):
    async def put_file(self, source, *, name, progress=None):
        return self._kept.put_file(source, name=name, progress=progress)


@fails("a_cancelled_download_leaves_nothing_behind")
class LeavesHalves(AsyncMemoryProvider):
    async def get_file(self, cid, *, to=None, progress=None):
        if to is None:
            return await super().get_file(cid, progress=progress)
        part = f"{os.fspath(to)}.part"
        try:
            await super().get_file(cid, to=part, progress=progress, write=write_in_place)
            Path(part).replace(to)  # noqa: ASYNC240
        except Exception:  # but being cancelled is none
            Path(part).unlink(missing_ok=True)  # noqa: ASYNC240
            raise
        return self._kept.get_file(cid)


@fails("a_cancelled_download_leaves_nothing_behind")
class KeepsItsLock(AsyncMemoryProvider):
    async def get_file(self, cid, *, to=None, progress=None):
        if not hasattr(self, "lock"):
            self.lock = asyncio.Lock()
        await self.lock.acquire()
        try:
            blob = await super().get_file(cid, to=to, progress=progress)
        except Exception:  # but being cancelled is none
            self.lock.release()
            raise
        self.lock.release()
        return blob


@says("has_the_methods", "AssertionError: HasNoDelete has no delete")
class HasNoDelete(MemoryProvider):
    delete = None


@says("files_come_back", "Failed: put_file returned 5, not a CID as str")
class GivesNumbers(MemoryProvider):
    def put_file(self, source, *, name, progress=None):
        return 5


@says("json_comes_back", "Failed: put_json returned 'null', not a CID as str")
class GivesText(MemoryProvider):
    def put_json(self, text, *, name):
        return text


@says("files_come_back", "AssertionError: get_file returned bytes, not a Blob")
class GivesBytes(MemoryProvider):
    def get_file(self, cid, *, to=None, progress=None):
        return self._get(cid)


@says("progress_is_told", "AssertionError: get_file with to= reported no progress")
@says(
    "leaves_what_was_there",
    "Failed: get_file with to= reported no progress, or ignored an error that",
)
class IsSilent(MemoryProvider):
    def get_file(self, cid, *, to=None, progress=None):
        return super().get_file(cid, to=to, progress=None if to else progress)


@says("do_not_mix", "AssertionError: assert {'number': 0} == {'number': 1}")
class Mixes(MemoryProvider):
    def get_json(self, cid):
        return {"number": 0}


@says("after_closing", "Failed: DID NOT RAISE ")
class DeletesForEver(MemoryProvider):
    def delete(self, cid):
        pass

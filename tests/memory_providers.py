"""Providers for the contract suite: one of somebody else that is right, and many that are not."""

import asyncio
import json
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from holdfast import AsyncLocalProvider, BaseProvider, Blob, LocalProvider, Pin
from holdfast.content.cid import CID
from holdfast.errors import (
    ClientClosedError,
    InvalidCIDError,
    NotAFileError,
    NotFoundError,
    ProviderError,
    SerializationError,
)
from holdfast.protocol import json_text
from holdfast.sources.sources import open_source


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
    def __init__(self, config):
        self._files = {}
        self._closed = False

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


@says("progress_is_told", "AssertionError: get_file reported no progress")
@says("leaves_what_was_there", "Failed: get_file with to= reported no progress, or ignored")
@fails(
    "a_failed_download_leaves_what_was_there progress_is_told what_progress_raises_ends_the_call"
)
class TellsNoProgress(MemoryProvider):
    def get_file(self, cid, *, to=None, progress=None):
        return super().get_file(cid, to=to)


@fails("a_failed_download_leaves_what_was_there")
class WritesInPlace(MemoryProvider):
    def get_file(self, cid, *, to=None, progress=None):
        if to is not None:
            CID.parse(cid)
            Path(to).write_bytes(self._get(cid))
        return super().get_file(cid, progress=progress)


@fails(
    "half_a_file_is_not_kept what_is_not_there_is_an_error",
    "what_was_deleted_can_be_kept_again",
)
class DeletesAnything(MemoryProvider):
    def delete(self, cid):
        self.test_authentication()
        self._files.pop(CID.parse(cid), None)


@fails("what_was_deleted_can_be_kept_again")
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


@says("after_closing", "Failed: DID NOT RAISE ")
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
        self.busy = tuple(other for other in self.busy if other != data)
        return super()._put(data)


@fails("half_a_file_is_not_kept")
class KeepsHalves(MemoryProvider):
    def put_file(self, source, *, name, progress=None):
        data = b""
        try:
            for chunk in source.chunks():
                data += chunk
        except Exception:
            self._put(data)
            raise
        return super().put_file(open_source(data), name=name, progress=progress)


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
    def __init__(self, config):
        super().__init__(config)
        self.folder = tempfile.TemporaryDirectory()

    def get_file(self, cid, *, to=None, progress=None):
        blob = super().get_file(cid, to=to, progress=progress)
        path = Path(self.folder.name, cid)
        path.write_bytes(blob.read())
        return Blob.of_file(path, size=blob.size)

    def close(self):
        super().close()
        self.folder.cleanup()


class DirectoryProvider(LocalProvider):
    """A store, which has directories."""


@fails("a_directory_is_no_file")
class HandsOutDirectories(DirectoryProvider):
    def get_file(self, cid, *, to=None, progress=None):
        try:
            return super().get_file(cid, to=to, progress=progress)
        except NotAFileError:
            return Blob(b"[]")


@fails("a_path_leads_to_a_file")
class KnowsNoPaths(DirectoryProvider):
    def get_file(self, cid, *, to=None, progress=None):
        return super().get_file(cid.partition("/")[0], to=to, progress=progress)


@fails("a_directory_is_no_file")
class TakesAnyPath(DirectoryProvider):
    def get_file(self, cid, *, to=None, progress=None):
        try:
            return super().get_file(cid, to=to, progress=progress)
        except NotFoundError:
            return Blob(b"anything")


class PinsProvider(LocalProvider):
    """A store whose pins are listed by `find_pins` alone."""

    list_pins = BaseProvider.list_pins


def finds_any(field, tests):
    """Return a class that ignores a field of filters."""

    class FindsAny(PinsProvider):
        def find_pins(self, pin_filter, *, limit=None):
            return super().find_pins(replace(pin_filter, **{field: None}), limit=limit)

    return fails(tests)(FindsAny)


FindsAnyName = finds_any("name", "pins_are_found_by_name_and_cid")
FindsAnyCID = finds_any("cid", "pins_are_found_by_name_and_cid")
FindsAnyKey = finds_any("keyvalues", "pins_are_found_by_key_values")
FindsAnyTime = finds_any("until", "pins_are_found_by_time")


@fails("pins_are_found_by_name_and_cid")
class KnowsNoLimit(PinsProvider):
    def find_pins(self, pin_filter, *, limit=None):
        return super().find_pins(pin_filter)


@fails("known_content_gets_the_key_values_that_are_given the_key_values_of_a_pin_can_be_changed")
class ForgetsKeyValues(PinsProvider):
    def _change(self, cid, name, keyvalues):
        return super()._change(cid, name, {})


@fails("known_content_gets_the_name_that_is_given the_name_of_a_pin_can_be_changed")
class KeepsOldNames(PinsProvider):
    def _change(self, cid, name, keyvalues):
        return super()._change(cid, None, keyvalues)


@fails("the_name_of_a_pin_can_be_changed")
class ChangesAnything(PinsProvider):
    def update_pin(self, cid, *, name, keyvalues):
        try:
            return super().update_pin(cid, name=name, keyvalues=keyvalues)
        except NotFoundError:
            return Pin(id="1", cid=cid)


@fails("what_is_there_can_be_pinned_by_its_cid")
class NeverPins(PinsProvider):
    def pin(self, cid, info):
        return replace(super().pin(cid, info), state="pinning")


class AsyncStore(AsyncLocalProvider):
    """A store, as the base of async classes."""


@fails("a_source_that_waits_holds_up_nobody")
class ReadsInTheLoop(AsyncStore):
    async def add(self, content, info, call, progress):
        data = b"".join(content.chunks())
        return await super().add(open_source(data), info, call, progress)


@fails("a_cancelled_download_leaves_nothing_behind")
class LeavesHalves(AsyncStore):
    async def get_file(self, cid, *, to=None, progress=None):
        part = Path(f"{to}.part")
        part.touch()  # noqa: ASYNC240
        blob = await super().get_file(cid, to=to, progress=progress)
        part.unlink()  # noqa: ASYNC240 - but not if the download is cancelled
        return blob


@fails("a_cancelled_download_leaves_nothing_behind")
class KeepsItsLock(AsyncStore):
    def __init__(self, config):
        super().__init__(config)
        self.lock = asyncio.Lock()

    async def get_file(self, cid, *, to=None, progress=None):
        await self.lock.acquire()
        blob = await super().get_file(cid, to=to, progress=progress)
        self.lock.release()
        return blob


@says("has_the_methods", "AssertionError: HasNoDelete has no delete")
class HasNoDelete(MemoryProvider):
    delete = None


@says("files_come_back", "Failed: put_file returned 5, not a CID as str")
class GivesNumbers(MemoryProvider):
    def put_file(self, source, *, name, progress=None):
        return 5


@says("files_come_back", "AssertionError: get_file returned bytes, not a Blob")
class GivesBytes(MemoryProvider):
    def get_file(self, cid, *, to=None, progress=None):
        return self._get(cid)

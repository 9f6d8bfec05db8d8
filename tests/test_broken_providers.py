"""The contract suite, on providers of somebody else: one that is right, and many that are not."""

import os
import re
import textwrap
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]
# Runs of pytest within a run of pytest.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

RIGHT = Path(__file__).with_name("memory_provider.py")

# What is wrong with each, in place of what the right one has, and the tests that say so.
BROKEN = {
    "LosesLetters": (
        """
        def put_json(self, text, *, name):
            return self._put(text.encode("ascii", "replace"))
        """,
        {"test_json_comes_back", "test_a_client_can_use_it"},
    ),
    "LiesAboutCIDs": (
        """
        def put_file(self, source, *, name, progress=None):
            cid = super().put_file(source, name=name, progress=progress)
            other = str(CID.of_raw(cid.encode()))
            self._files[CID.parse(other)] = self._get(cid)
            return other
        """,
        {"test_the_cid_proves_the_file"},
    ),
    "NamesByTheFileName": (
        """
        def put_file(self, source, *, name, progress=None):
            data = b"".join(source.chunks())
            cid = CID.of_raw(data + name.encode())
            self._files[cid] = data
            return str(cid)
        """,
        {"test_the_cid_proves_the_file", "test_the_same_bytes_have_the_same_cid"}
        | {"test_progress_is_told", "test_what_progress_raises_ends_the_call"}
        | {"test_nothing_works_after_closing"},
    ),
    "NeedsTheSize": (
        """
        def put_file(self, source, *, name, progress=None):
            if source.size is None:
                raise ProviderError("how large is it?")
            return super().put_file(source, name=name, progress=progress)
        """,
        {"test_the_size_need_not_be_known", "test_a_source_that_fails_ends_the_call"}
        | {"test_half_a_file_is_not_kept"},
    ),
    "TellsNoProgress": (
        """
        def get_file(self, cid, *, to=None, progress=None):
            return super().get_file(cid, to=to)
        """,
        {"test_progress_is_told", "test_what_progress_raises_ends_the_call"}
        | {"test_a_failed_download_leaves_no_file", "test_a_failed_download_leaves_the_old_file"},
    ),
    "HidesErrorsOfProgress": (
        """
        def get_file(self, cid, *, to=None, progress=None):
            def careful(done, total):
                with contextlib.suppress(Exception):
                    progress(done, total)
            return super().get_file(cid, to=to, progress=careful if progress else None)
        """,
        {"test_what_progress_raises_ends_the_call"}
        | {"test_a_failed_download_leaves_no_file", "test_a_failed_download_leaves_the_old_file"},
    ),
    "WritesInPlace": (
        """
        def get_file(self, cid, *, to=None, progress=None):
            if to is not None:
                CID.parse(cid)
                with open(to, "wb") as file:
                    file.write(self._get(cid))
            return super().get_file(cid, progress=progress)
        """,
        {"test_a_failed_download_leaves_no_file", "test_a_failed_download_leaves_the_old_file"},
    ),
    "DeletesAnything": (
        """
        def delete(self, cid):
            self.test_authentication()
            self._files.pop(CID.parse(cid), None)
        """,
        {"test_what_was_deleted_cannot_be_deleted_again", "test_what_is_not_there_is_an_error"}
        | {"test_half_a_file_is_not_kept"},
    ),
    "HidesThatItIsNotPinned": (
        """
        def delete(self, cid):
            try:
                super().delete(cid)
            except NotFoundError as error:
                raise ProviderError(str(error)) from None
        """,
        {"test_what_was_deleted_cannot_be_deleted_again", "test_what_is_not_there_is_an_error"},
    ),
    "DeletesEverything": (
        """
        def delete(self, cid):
            super().delete(cid)
            self._files.clear()
        """,
        {"test_what_was_deleted_cannot_be_deleted_again"},
    ),
    "TakesAnyCID": (
        """
        def _get(self, cid):
            try:
                return super()._get(cid)
            except InvalidCIDError:
                return b"anything"
        """,
        {"test_what_is_no_cid_is_refused", "test_what_is_no_cid_is_not_written"},
    ),
    "RaisesKeyErrors": (
        """
        def _get(self, cid):
            self.test_authentication()
            return self._files[CID.parse(cid)]
        """,
        {"test_what_is_not_there_is_an_error"}
        | {"test_a_failed_download_leaves_no_file", "test_a_failed_download_leaves_the_old_file"},
    ),
    "MixesThreadsUp": (
        """
        def _put(self, data):
            self._last = data
            time.sleep(0.001)
            return super()._put(self._last)
        """,
        {"test_many_calls_at_once_do_not_mix"},
    ),
    "ClosesOnce": (
        """
        def close(self):
            self.test_authentication()
            super().close()
        """,
        {"test_closing_twice_does_nothing"},
    ),
    "NeverCloses": (
        """
        def close(self):
            pass
        """,
        {"test_nothing_works_after_closing"},
    ),
    "NeedsAPath": (
        """
        def get_file(self, cid, *, to=None, progress=None):
            if to is not None:
                to.parent
            return super().get_file(cid, to=to, progress=progress)
        """,
        {"test_a_download_may_go_to_a_file"},
    ),
    "TakesNaN": (
        """
        def get_json(self, cid):
            data = self._get(cid)
            try:
                return json.loads(data)
            except ValueError as error:
                raise SerializationError(str(error)) from None
        """,
        {"test_files_are_no_json"},
    ),
    "TakesTrueForOne": (
        """
        def get_json(self, cid):
            value = super().get_json(cid)
            return 1 if value is True else value
        """,
        {"test_json_comes_back"},
    ),
    "SortsKeys": (
        """
        def get_json(self, cid):
            value = super().get_json(cid)
            return dict(sorted(value.items())) if isinstance(value, dict) else value
        """,
        {"test_json_comes_back"},
    ),
    "RefusesJSONTwice": (
        """
        def put_json(self, text, *, name):
            if CID.of_raw(text.encode()) in self._files:
                raise ProviderError("it is here already")
            return super().put_json(text, name=name)
        """,
        {"test_the_same_json_has_the_same_cid"},
    ),
    "BearsGrudges": (
        """
        def delete(self, cid):
            super().delete(cid)
            self.gone = {*getattr(self, "gone", ()), cid}

        def _get(self, cid):
            if cid in getattr(self, "gone", ()):
                raise ProviderError("it was deleted")
            return super()._get(cid)
        """,
        {"test_what_was_deleted_can_be_kept_again"},
    ),
    "TakesOneOfAKind": (
        """
        busy = ()

        def _put(self, data):
            if data in self.busy:
                raise ProviderError("this is being put")
            self.busy = (*self.busy, data)
            time.sleep(0.1)
            self.busy = tuple(each for each in self.busy if each != data)
            return super()._put(data)
        """,
        {"test_the_same_bytes_may_be_put_at_once"},
    ),
    "KeepsHalves": (
        """
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
        """,
        {"test_half_a_file_is_not_kept"},
    ),
    "TellsProgressBackwards": (
        """
        def get_file(self, cid, *, to=None, progress=None):
            blob = super().get_file(cid, to=to, progress=progress)
            if to is not None and progress is not None:
                progress(0, blob.size)
            return blob
        """,
        {"test_progress_is_told"},
    ),
    "DeletesByPaths": (
        """
        def delete(self, cid):
            super().delete(cid.partition("/")[0])
        """,
        {"test_a_path_cannot_be_deleted"},
    ),
    "LendsItsFiles": (
        """
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
        """,
        {"test_a_blob_outlives_its_provider"},
    ),
}

# Of those that keep directories.
BROKEN_DIRECTORIES = {
    "HandsOutDirectories": (
        """
        def _get(self, cid):
            return b"[]" if cid in self._directories else super()._get(cid)
        """,
        {"test_a_directory_is_no_file"},
    ),
    "KnowsNoPaths": (
        """
        def _get(self, cid):
            if cid.partition("/")[0] in self._directories:
                raise NotAFileError("a directory")
            return super()._get(cid)
        """,
        {"test_a_path_leads_to_a_file"},
    ),
    "TakesAnyPath": (
        """
        def _get(self, cid):
            root, slash, _ = cid.partition("/")
            files = self._directories.get(root)
            return next(iter(files.values())) if files and slash else super()._get(cid)
        """,
        {"test_a_path_that_leads_nowhere_is_an_error"},
    ),
}

BROKEN_ASYNC = {
    "ReadsInTheLoop": (
        """
        async def put_file(self, source, *, name, progress=None):
            return self._kept.put_file(source, name=name, progress=progress)
        """,
        {"test_a_source_that_waits_holds_up_nobody"},
    ),
    "LeavesHalves": (
        """
        async def get_file(self, cid, *, to=None, progress=None):
            if to is None:
                return await super().get_file(cid, progress=progress)
            part = f"{os.fspath(to)}.part"
            try:
                await super().get_file(cid, to=part, progress=progress, write=write_in_place)
                os.replace(part, to)
            except Exception:  # but being cancelled is none
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(part)
                raise
            return self._kept.get_file(cid)
        """,
        {"test_a_cancelled_download_leaves_nothing_behind"},
    ),
    "KeepsItsLock": (
        """
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
        """,
        {"test_a_cancelled_download_leaves_nothing_behind"},
    ),
}

HEAD = """
import asyncio, contextlib, json, os, tempfile, time
from dataclasses import replace
from pathlib import Path
import pytest, pytest_asyncio
from holdfast import Blob
from holdfast.disk.atomic import PendingFile
from holdfast.content.cid import CID
from holdfast.errors import InvalidCIDError, NotAFileError, NotFoundError, ProviderError
from holdfast.errors import SerializationError
from holdfast.provider import Added, Pin, PinFilter, PinInfo, Source
from holdfast.testing import AsyncProviderTests, ProviderTests
from memory_provider import MemoryProvider

class MemoryTests(ProviderTests):
    kind = MemoryProvider
    struck_out = frozenset({"test_large_files_take_little_memory"})  # that is where it keeps them

    @pytest.fixture
    def provider(self):
        provider = self.kind()
        yield provider
        with contextlib.suppress(Exception):
            provider.close()

class TestMemoryProvider(MemoryTests):
    pass
"""
DIRECTORIES = """
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

class DirectoryTests(MemoryTests):
    kind = DirectoryProvider

    @pytest.fixture
    def directory_cid(self, provider):
        return provider.put_directory({"a/b.json": b"[1]"})

    @pytest.fixture
    def directory_file(self):
        return "a/b.json", b"[1]"

class TestDirectoryProvider(DirectoryTests):
    pass
"""
PINS = """
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
        new = dict(name=pin.name if name is None else name, keyvalues=merged)
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

class PinsTests(MemoryTests):
    kind = PinsProvider
    patience = 3.0

class TestPinsProvider(PinsTests):
    pass
"""
BY_NAME = "test_pins_are_found_by_name_and_cid"
BY_KEYS = "test_pins_are_found_by_key_values"
NEW_NAME = "test_the_name_of_a_pin_can_be_changed"
NEW_KEYS = "test_the_key_values_of_a_pin_can_be_changed"
GIVEN_KEYS = "test_known_content_gets_the_key_values_that_are_given"
BROKEN_PINS = {
    "FindsAllNames": (
        "def _fits(self, pin, wanted): return super()._fits(pin, replace(wanted, name=None))",
        {BY_NAME, "test_pins_are_listed_by_name"},
    ),
    "FindsAllCIDs": (
        "def _fits(self, pin, wanted): return super()._fits(pin, replace(wanted, cid=None))",
        {BY_NAME},
    ),
    "FindsAllKeys": (
        "def _fits(self, pin, wanted): return super()._fits(pin, replace(wanted, keyvalues=None))",
        {BY_KEYS},
    ),
    "FindsAllTimes": (
        "def _fits(self, pin, wanted): return super()._fits(pin, replace(wanted, until=None))",
        {"test_pins_are_found_by_time"},
    ),
    "KnowsNoLimit": (
        "def find_pins(self, wanted, *, limit=None): return super().find_pins(wanted)",
        {BY_NAME, "test_pins_are_listed_by_name"},
    ),
    "ForgetsKeyValues": (
        "def _merged(self, before, changes): return dict(changes)",
        {NEW_KEYS, GIVEN_KEYS},
    ),
    "KeepsOldNames": (
        """
        def _note(self, cid, name, keyvalues):
            super()._note(cid, self._pins[cid].name or name, keyvalues)
        """,
        {NEW_NAME, "test_known_content_gets_the_name_that_is_given"},
    ),
    "ChangesAnything": (
        """
        def update_pin(self, cid, *, name, keyvalues):
            if cid not in self._pins:
                return Pin(id="1", cid=cid)
            return super().update_pin(cid, name=name, keyvalues=keyvalues)
        """,
        {NEW_NAME},
    ),
    "HidesThatItIsNotPinned": (
        """
        def update_pin(self, cid, *, name, keyvalues):
            if cid not in self._pins:
                raise ProviderError(f"{cid} is not pinned")
            return super().update_pin(cid, name=name, keyvalues=keyvalues)
        """,
        {NEW_NAME},
    ),
    "NeverPins": (
        "def check_pin(self, pin): return pin",
        {"test_what_is_there_can_be_pinned_by_its_cid"},
    ),
}
AWAITED = """
async def write_whole(to, data, progress):
    with PendingFile(to) as pending:
        for start in range(0, len(data) or 1, 1 << 20):
            pending.write(data[start : start + (1 << 20)])
            await asyncio.sleep(0.001)
            if progress is not None:
                progress(min(start + (1 << 20), len(data)), len(data))
        await asyncio.sleep(0.001)
        pending.commit()

async def write_in_place(to, data, progress):
    with open(to, "wb") as file:
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

class AsyncMemoryTests(AsyncProviderTests):
    pytestmark = pytest.mark.asyncio
    kind = AsyncMemoryProvider
    struck_out = frozenset({"test_large_files_take_little_memory"})
    patience = 1.0

    @pytest_asyncio.fixture
    async def provider(self):
        provider = self.kind()
        yield provider
        await provider.aclose()

class TestAsyncMemoryProvider(AsyncMemoryTests):
    patience = 30.0
"""
TESTS = """
class {name}({base}Provider):
{body}

class Test{name}({base}Tests):
    kind = {name}
"""


def code_of(broken, base):
    """Tests of providers that differ from `base` in what is wrong with them."""
    return "".join(
        TESTS.format(name=name, base=base, body=textwrap.indent(textwrap.dedent(lines), "    "))
        for name, (lines, _) in broken.items()
    )


def expected(broken):
    return {name: tests for name, (_, tests) in broken.items()}


@pytest.fixture
def run(pytester, monkeypatch):
    """Run tests of the provider beside this file."""
    for name in [name for name in os.environ if name.startswith(("PYTEST_", "COV_"))]:
        monkeypatch.delenv(name)
    pytester.makepyfile(memory_provider=RIGHT.read_text())
    # All are errors, but for what pytest-asyncio says about an option of its own.
    warnings = ("-W", "error", "-W", "ignore:The configuration option")

    def run(code, *options):
        (pytester.path / "test_providers.py").write_text(HEAD + code)
        return pytester.runpytest_subprocess("-q", "-rfE", *warnings, *options)

    return run


@pytest.fixture
def failed(run):
    """Which tests failed, by their class."""

    def failed(code, *options):
        result = run(code, "--tb=no", *options)
        lines = re.findall(
            r"^(?:FAILED|ERROR) \S+::Test(\w+)::(\w+)", result.stdout.str(), re.MULTILINE
        )
        assert result.parseoutcomes()["passed"] > 0
        found = {}
        for name, test in lines:
            found.setdefault(name, set()).add(test)
        return found

    return failed


def test_a_broken_provider_fails_where_it_is_broken(failed):
    assert failed(code_of(BROKEN, "Memory")) == expected(BROKEN)


def test_a_broken_provider_of_directories_fails_where_it_is_broken(failed):
    found = failed(DIRECTORIES + code_of(BROKEN_DIRECTORIES, "Directory"))
    assert found == expected(BROKEN_DIRECTORIES)


def test_a_broken_async_provider_fails_where_it_is_broken(failed):
    found = failed(AWAITED + code_of(BROKEN_ASYNC, "AsyncMemory"))
    assert found == expected(BROKEN_ASYNC)


def test_a_broken_provider_of_pins_fails_where_it_is_broken(failed):
    found = failed(PINS + code_of(BROKEN_PINS, "Pins"), "-k", "pins or pinned or pin_ or known")
    assert found == expected(BROKEN_PINS)


def test_a_provider_that_holds_files_in_memory_is_found_out(failed):
    code = """
class TestMemory(MemoryTests):
    struck_out = frozenset()
    large_size, memory_limit = 16 << 20, 12 << 20

class TestNothing(ProviderTests):
    pass
"""
    found = failed(code)
    assert found["Memory"] == {"test_large_files_take_little_memory"}
    assert len(found["Nothing"]) > 20


def test_the_memory_of_others_is_not_held_against_a_provider(run, monkeypatch):
    monkeypatch.setenv("PYTHONTRACEMALLOC", "1")
    code = """
held = bytes(20 << 20)

class TestEmbedded(ProviderTests):
    large_size, memory_limit = 16 << 20, 15 << 20

    @pytest.fixture
    def provider(self, tmp_path_factory):
        from holdfast import ClientConfig, LocalProvider
        provider = LocalProvider(ClientConfig(path=tmp_path_factory.mktemp("store")))
        yield provider
        provider.close()

def test_it_is_still_traced():
    import tracemalloc
    assert tracemalloc.is_tracing()
"""
    result = run(code, "-k", "(Embedded and little_memory) or traced")
    result.assert_outcomes(passed=2, deselected=result.parseoutcomes()["deselected"])


def test_what_is_struck_out_is_seen_to_be(run):
    result = run("", "-rs")
    result.assert_outcomes(passed=result.parseoutcomes()["passed"], skipped=18)
    result.stdout.fnmatch_lines(["SKIPPED*struck out by TestMemoryProvider"])


def test_what_is_no_test_cannot_be_struck_out(run):
    names = {"test_progres_is_told", "provider"}
    result = run(f"class TestMine(ProviderTests): struck_out = frozenset({names})")
    result.assert_outcomes(errors=1)
    message = "struck_out of TestMine names unknown tests: provider, test_progres_is_told"
    result.stdout.fnmatch_lines([f"E *TypeError: {message}"])


def test_the_contract_and_a_class_that_is_no_test_by_its_own_word_are_not_collected(pytester, run):
    pytester.makeini("[pytest]\npython_classes = Test* *Tests")
    code = "class TestBase(ProviderTests):\n    __test__ = False\n"
    result = run(code, "-k", "deleted")
    result.assert_outcomes(passed=6, deselected=result.parseoutcomes()["deselected"])
    assert "TestBase" not in result.stdout.str()


# What is wrong with each, and what its failures say, in some of its tests.
SAYS = {
    "HasNoDelete": (
        "delete = None",
        "has_the_methods",
        "AssertionError: HasNoDelete has no delete",
    ),
    "GivesNumbers": (
        "def put_file(self, source, *, name, progress=None): return 5",
        "files_come_back",
        "Failed: put_file returned 5, not a CID as str",
    ),
    "GivesText": (
        "def put_json(self, text, *, name): return text",
        "json_comes_back",
        "Failed: put_json returned 'null', not a CID as str",
    ),
    "GivesBytes": (
        "def get_file(self, cid, *, to=None, progress=None): return self._get(cid)",
        "files_come_back",
        "AssertionError: get_file returned bytes, not a Blob",
    ),
    "IsSilent": (
        """
        def get_file(self, cid, *, to=None, progress=None):
            return super().get_file(cid, to=to, progress=None if to else progress)
        """,
        "progress_is_told",
        "AssertionError: get_file with to= reported no progress",
    ),
    "GoesOn": (
        """
        def get_file(self, cid, *, to=None, progress=None):
            return super().get_file(cid, to=to, progress=None if to else progress)
        """,
        "leaves_no_file",
        "Failed: get_file with to= reported no progress, or ignored an error that progress raised",
    ),
    "Mixes": (
        "def get_json(self, cid): return {'number': 0}",
        "do_not_mix",
        "AssertionError: assert {'number': 0} == {'number': 1}",
    ),
    "DeletesForEver": (
        "def delete(self, cid): pass",
        "after_closing",
        "Failed: DID NOT RAISE ",
    ),
}


def test_a_failure_says_what_is_wrong(run):
    code = code_of({name: (lines, None) for name, (lines, _, _) in SAYS.items()}, "Memory")
    chosen = " or ".join(f"(Test{name} and {test})" for name, (_, test, _) in SAYS.items())
    said = run(code, "--tb=short", "-k", chosen).stdout.str().splitlines()
    for _, _, message in SAYS.values():
        assert any(line.startswith(f"E   {message}") for line in said), message
    assert any("test_nothing_works_after_closing[delete]" in line for line in said)

"""The contract suite, on providers of somebody else: one that is right, and many that are not."""

import re
import textwrap
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.timeout(240)  # runs of pytest within a run of pytest

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
        {"test_files_come_back"},
    ),
    "NamesByTheFileName": (
        """
        def put_file(self, source, *, name, progress=None):
            data = b"".join(source.chunks())
            cid = CID.of_raw(data + name.encode())
            self._files[cid] = data
            return str(cid)
        """,
        {"test_files_come_back", "test_the_same_bytes_have_the_same_cid", "test_progress_is_told"}
        | {"test_what_progress_raises_ends_the_call", "test_nothing_works_after_closing"},
    ),
    "NeedsTheSize": (
        """
        def put_file(self, source, *, name, progress=None):
            if source.size is None:
                raise ProviderError("how large is it?")
            return super().put_file(source, name=name, progress=progress)
        """,
        {"test_the_size_need_not_be_known", "test_a_source_that_fails_ends_the_call"},
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
        {"test_what_is_no_cid_is_refused"},
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
    "HandsOutDirectories": ("directory = b'a directory'", {"test_a_directory_is_no_file"}),
}

HEAD = """
import contextlib, time
import pytest
from holdfast.content.cid import CID
from holdfast.errors import InvalidCIDError, ProviderError
from holdfast.testing import ProviderTests
from memory_provider import MemoryProvider

class MemoryTests(ProviderTests):
    test_large_files_take_little_memory = None  # that is where it keeps them

    @pytest.fixture
    def provider(self):
        provider = self.kind()
        yield provider
        with contextlib.suppress(Exception):
            provider.close()

class TestMemoryProvider(MemoryTests):
    kind = MemoryProvider
"""
TESTS = """
class {name}(MemoryProvider):
{body}

class Test{name}(MemoryTests):
    kind = {name}
    if hasattr({name}, "directory"):
        @pytest.fixture
        def directory_cid(self, provider):
            return provider._put(provider.directory)
"""


@pytest.fixture
def failed(pytester):
    """Run tests of the provider beside this file; which failed, by their class."""
    pytester.makepyfile(memory_provider=RIGHT.read_text())

    def run(code):
        path = pytester.path / "test_providers.py"
        path.write_text(code)
        result = pytester.runpytest_subprocess("-q", "-rfE", "--tb=no", "-p", "no:asyncio")
        lines = re.findall(
            r"^(?:FAILED|ERROR) \S+::Test(\w+)::(\w+)", result.stdout.str(), re.MULTILINE
        )
        assert result.parseoutcomes()["passed"] > 0
        found = {}
        for name, test in lines:
            found.setdefault(name, set()).add(test)
        return found

    return run


def test_a_broken_provider_fails_where_it_is_broken(failed):
    code = HEAD
    for name, (lines, _) in BROKEN.items():
        body = textwrap.indent(textwrap.dedent(lines), "    ")
        code += TESTS.format(name=name, body=body)
    found = failed(code)
    assert found == {name: tests for name, (_, tests) in BROKEN.items()}


def test_a_provider_that_holds_files_in_memory_is_found_out(failed):
    code = """
import pytest
from holdfast.testing import ProviderTests
from memory_provider import MemoryProvider

class TestMemory(ProviderTests):
    large_size, memory_limit = 16 << 20, 12 << 20
    @pytest.fixture
    def provider(self):
        return MemoryProvider()

class TestNothing(ProviderTests):
    pass
"""
    found = failed(code)
    assert found["Memory"] == {"test_large_files_take_little_memory"}
    assert len(found["Nothing"]) > 20

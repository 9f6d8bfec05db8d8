"""The contract suite, on providers of somebody else: one that is right, and many that are not."""

import os
import re
from pathlib import Path

import pytest

from tests import memory_providers

pytest_plugins = ["pytester"]
# Runs of pytest within a run of pytest.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

HEAD = """
import contextlib
import pytest, pytest_asyncio
from holdfast import ClientConfig
from holdfast.testing import AsyncProviderTests, ProviderTests
from tests import memory_providers
from tests.contract import DIRECTORY_ARCHIVE

class MemoryTests(ProviderTests):
    kind = memory_providers.MemoryProvider
    struck_out = frozenset({"test_large_files_take_little_memory"})  # that is where it keeps them
    patience = 3.0

    @pytest.fixture
    def provider(self, tmp_path_factory):
        provider = self.kind(ClientConfig(path=tmp_path_factory.mktemp("store")))
        yield provider
        with contextlib.suppress(Exception):
            provider.close()

class DirectoryTests(MemoryTests):
    @pytest.fixture
    def directory_cid(self, provider):
        return provider.import_car([DIRECTORY_ARCHIVE])[0]

    @pytest.fixture
    def directory_file(self):
        return "subdir/hello.txt", b"hello world\\n"

class AsyncMemoryTests(AsyncProviderTests):
    pytestmark = pytest.mark.asyncio
    patience = 1.0

    @pytest_asyncio.fixture
    async def provider(self, tmp_path_factory):
        provider = self.kind(ClientConfig(path=tmp_path_factory.mktemp("store")))
        yield provider
        await provider.aclose()

def define_tests(base, *names):
    for name in names:
        kind = getattr(memory_providers, name)
        patience = 30.0 if name == "AsyncStore" else base.patience
        members = {"kind": kind, "patience": patience}
        globals()[f"Test{name}"] = type(f"Test{name}", (base,), members)
"""


def classes(base, mark="fails"):
    """The wrong classes over `base` by name, with what is noted about them."""
    bases = (getattr(memory_providers, base),)
    return {
        name: getattr(kind, mark)
        for name, kind in vars(memory_providers).items()
        if hasattr(kind, mark) and kind.__bases__ == bases
    }


@pytest.fixture
def run(pytester, monkeypatch):
    """Run tests of providers."""
    for name in [name for name in os.environ if name.startswith(("PYTEST_", "COV_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
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
        tests = {}
        for name, test in lines:
            tests.setdefault(name, set()).add(test)
        return tests

    return failed


@pytest.mark.parametrize(
    ("base", "tests", "options"),
    [
        ("MemoryProvider", "MemoryTests", ()),
        ("DirectoryProvider", "DirectoryTests", ("-k", "directory or a_path_")),
        ("AsyncStore", "AsyncMemoryTests", ("-k", "cancelled or waits")),
        ("PinsProvider", "MemoryTests", ("-k", "pins or pinned or pin_ or known")),
    ],
)
def test_a_broken_provider_fails_where_it_is_broken(failed, base, tests, options):
    """And the right one nowhere."""
    broken = classes(base)
    assert len(broken) >= 3
    assert failed(f"define_tests({tests}, *{(base, *broken)})", *options) == broken


def test_a_provider_that_holds_files_in_memory_is_found_out(failed):
    code = """
class TestMemory(MemoryTests):
    struck_out = frozenset()
    large_size, memory_limit = 16 << 20, 12 << 20

class TestNothing(ProviderTests):
    pass
"""
    tests = failed(code)
    assert tests["Memory"] == {"test_large_files_take_little_memory"}
    assert len(tests["Nothing"]) > 20


def test_the_memory_of_others_is_not_held_against_a_provider(run, monkeypatch):
    monkeypatch.setenv("PYTHONTRACEMALLOC", "1")
    code = """
other = bytes(20 << 20)

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
    result = run("define_tests(MemoryTests, 'MemoryProvider')", "-rs")
    result.assert_outcomes(passed=result.parseoutcomes()["passed"], skipped=14)
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
    result = run(
        f"{code}DirectoryTests.__test__ = AsyncMemoryTests.__test__ = False", "-k", "deleted"
    )
    assert result.parseoutcomes()["passed"] == 2
    assert "TestBase" not in result.stdout.str()


def test_a_failure_says_what_is_wrong(run):
    broken = classes("MemoryProvider", "says")
    rows = [(name, *row) for name, rows in broken.items() for row in rows]
    chosen = " or ".join(f"(Test{name} and {test})" for name, test, _ in rows)
    code = f"define_tests(MemoryTests, *{tuple(broken)})"
    said = run(code, "--tb=short", "-k", chosen).stdout.str().splitlines()
    for _, _, message in rows:
        assert any(line.startswith(f"E   {message}") for line in said), message
    assert any("test_nothing_works_after_closing[delete]" in line for line in said)

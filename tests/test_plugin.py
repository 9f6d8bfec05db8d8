"""The pytest plugin, in runs of pytest of its own."""

import os
import site
import sys
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.timeout(240)  # runs of pytest within a run of pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"

# All are errors, but for what pytest-asyncio says about an option of its own.
WARNINGS = ("-W", "error", "-W", "ignore:The configuration option")

FIRST = """
def test_first(holdfast_client):
    assert holdfast_client.retrieve(holdfast_client.store([1]).cid) == [1]
"""
AWAITED = """
import pytest
pytestmark = pytest.mark.asyncio
async def test_awaited(holdfast_async_client):
    assert await holdfast_async_client.test_connection()
"""
OWN = """
import pytest
@pytest.mark.parametrize("number", range(2))
def test_it_is_empty(holdfast_node, holdfast_client, number):
    assert holdfast_node.repository.pins() == []
    assert holdfast_node.requests == []
    holdfast_client.store([1])
    holdfast_node.fail_next(times=5)
"""


@pytest.fixture(autouse=True)
def apart(pytester, monkeypatch):
    """Runs without what surrounds this one."""
    for name in [name for name in os.environ if name.startswith(("PYTEST_", "COV_"))]:
        monkeypatch.delenv(name)


@pytest.fixture
def run(pytester):
    """Run pytest with all that is installed."""
    return lambda *arguments: pytester.runpytest_subprocess(*WARNINGS, *arguments)


@pytest.fixture
def without_asyncio(pytester, monkeypatch, tmp_path_factory):
    """Run pytest where pytest-asyncio is not installed, and all else is."""
    installed = Path(pytest.__file__).parent.parent
    assert installed in {Path(folder) for folder in site.getsitepackages()}
    other = tmp_path_factory.mktemp("site")
    for path in installed.iterdir():
        if not path.name.startswith("pytest_asyncio"):
            (other / path.name).symlink_to(path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(other), str(SOURCE)]))

    command = (sys.executable, "-S", "-m", "pytest", *WARNINGS)
    return lambda *arguments: pytester.run(*command, *arguments)


@pytest.mark.slow
def test_the_fixtures_are_there_and_each_test_has_a_node_of_its_own(pytester, run):
    pytester.makepyfile(test_first=FIRST, test_awaited=AWAITED, test_own=OWN)
    run().assert_outcomes(passed=4)


@pytest.mark.slow
def test_nothing_is_left_behind(pytester, run, monkeypatch):
    home, temporary = pytester.mkdir("home"), pytester.mkdir("temporary")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("TMPDIR", str(temporary))
    for name in ("XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    pytester.makepyfile(
        """
        def test_interrupted(holdfast_node, holdfast_client, tmp_path):
            cid = holdfast_client.upload(bytes(3_000_000)).cid
            holdfast_node.cut_next(after=2_000_000, times=99)
            holdfast_client.with_options(retries={"attempts": 1}).download(cid, to=tmp_path / "x")
        """
    )
    result = run("-p", "no:cacheprovider", f"--basetemp={home / 'base'}")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E *holdfast.errors.NetworkError: *"])
    assert list(temporary.iterdir()) == []
    assert [path.name for path in home.iterdir()] == ["base"]


@pytest.mark.slow
def test_loading_the_plugin_imports_next_to_nothing(pytester, run):
    pytester.makepyfile(
        """
        import sys
        heavy = {"aiohttp", "starlette", "uvicorn", "urllib3"} & set(sys.modules)
        ours = sorted(name for name in sys.modules if name.partition(".")[0] == "holdfast")
        def test_it():
            assert heavy == set()
            assert ours == [
                "holdfast",
                "holdfast._version",
                "holdfast.lazy",
                "holdfast.testing",
                "holdfast.testing.asyncio_fixtures",
                "holdfast.testing.plugin",
            ]
        """
    )
    # These bring in HTTP libraries by themselves.
    others = ("-p", "no:anyio", "-p", "no:hypothesispytest")
    run(*others).assert_outcomes(passed=1)


@pytest.mark.slow
def test_without_pytest_asyncio_all_but_the_async_fixture_works(pytester, without_asyncio):
    pytester.makepyfile(
        test_first=FIRST,
        test_other="""
        def test_wanting(holdfast_async_client):
            pass
        """,
    )
    result = without_asyncio()
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(
        ["the fixture holdfast_async_client needs pytest-asyncio, *: pip install pytest-asyncio"]
    )
    result.stdout.no_fnmatch_line("*Traceback*")
    listed = without_asyncio("--fixtures").stdout.str()
    assert "holdfast_async_client -- " in listed
    assert "asyncio_mode" not in listed


SHARED_LOOP = AWAITED.replace("mark.asyncio", "mark.asyncio(loop_scope='session')")


@pytest.mark.slow  # each is a run of pytest by itself
@pytest.mark.parametrize(
    ("tests", "options", "autoload"),
    [
        (AWAITED.replace("pytestmark", "_"), ["--asyncio-mode=auto"], ""),  # no mark is needed
        (AWAITED, ["-p", "holdfast.testing.plugin", "-p", "pytest_asyncio.plugin"], "1"),
        (SHARED_LOOP, ["-o", "asyncio_default_fixture_loop_scope=session"], ""),
    ],
)
def test_settings_of_pytest_asyncio(pytester, run, monkeypatch, tests, options, autoload):  # noqa: PLR0917
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", autoload)
    pytester.makepyfile(test_one=tests, test_two=tests)
    run(*options).assert_outcomes(passed=2)


@pytest.mark.slow
def test_without_the_node_the_fixture_says_what_to_install(pytester, run):
    pytester.makepyfile(conftest="import sys; sys.modules['starlette'] = None", test_first=FIRST)
    result = run("-p", "no:anyio")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["E *ModuleNotFoundError: the node needs*holdfast?node?*"])

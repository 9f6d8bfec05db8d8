"""Every example that is shown to people runs."""

import importlib
import pkgutil
import re
import shutil
from types import ModuleType

import pytest

import holdfast
from tests.docstrings import failures_in
from tests.documents import DOCUMENTS, ROOT, Page, blocks_in, blocks_of


@pytest.fixture
def page(tmp_path, monkeypatch, request):
    page = Page(tmp_path, monkeypatch, lambda: request.getfixturevalue("javascript_packages"))
    yield page
    page.close()


def run(page, text):
    for block in blocks_in(text):
        page.run(block)
    page.finish()


SLOW_PAGES = {
    *("browser-uploads", "cli", "connections", "copies", "copying", "encryption", "examples"),
    *(
        "files",
        "folders",
        "from-javascript",
        "getting-a-key",
        "many-files",
        "messages",
        "node",
        "resuming",
    ),
    *("outgrowing-one-machine", "testing", "verification", "writing-a-provider"),
    *("archives", "data-tools", "json", "leaving-a-service", "public-content", "quick-start"),
    "README",
}
NEEDS = {"data-tools": ("pandas", "pyarrow", "xarray", "zarr")}  # `make data` installs them


@pytest.mark.timeout(900)  # dozens of commands, and runs of pytest within a run of pytest
@pytest.mark.parametrize(
    "path",
    [
        # Pages that run pytest, or install packages for Node.js, take longest.
        pytest.param(path, marks=[pytest.mark.slow] if path.stem in SLOW_PAGES else [])
        for path in DOCUMENTS
        if blocks_of(path)
    ],
    ids=lambda path: path.stem,
)
def test_every_block_runs(path, page):
    for name in NEEDS.get(path.stem, ()):
        pytest.importorskip(name)
    for block in blocks_of(path):
        page.run(block)
    page.finish()
    if page.missing:
        pytest.skip(f"all else has run, but not installed here: {', '.join(page.missing)}")


def test_the_guide_to_providers_shows_the_example():
    shown = blocks_of(ROOT / "docs/guides/writing-a-provider.md")[0].text
    example = (ROOT / "examples/folder_provider.py").read_text()
    assert shown == f"# folder_provider.py\n{example}"
    assert example.count("\n") < 90


def test_the_links_of_the_readme_lead_somewhere():
    """It is no page of the site, whose build looks at all others."""
    links = re.findall(r"\]\(([^)]+)\)", (ROOT / "README.md").read_text())
    inner = [link for link in links if not link.startswith("https://")]
    assert inner
    assert [link for link in inner if not (ROOT / link.partition("#")[0]).exists()] == []


def test_no_document_installs_the_other_project_that_pypi_has_under_our_name():
    texts = {path: path.read_text() for path in (*DOCUMENTS, *(ROOT / "examples").glob("*.py"))}
    commands = re.compile(r"pip install [^`\n]*(?<![\w./])holdfast\b")
    assert {path.name: commands.findall(text) for path, text in texts.items()} == {
        path.name: [] for path in texts
    }
    assert commands.search("pip install -U 'holdfast[all]'")


def test_the_readme_gives_the_version_and_says_what_to_do_first():
    readme = (ROOT / "README.md").read_text()
    before_the_reasons, _, rest = readme.partition("## Why Holdfast")
    assert f"Version {holdfast.__version__}," in before_the_reasons
    for line in ("Apache-2.0", "$ make demo", "$ make test", "$ pip install '.[all]'"):
        assert line in before_the_reasons
    assert "## Quick start" in rest
    assert "CONTRIBUTING.md#reporting-a-bug" in rest
    assert "\n## Reporting a bug\n" in (ROOT / "CONTRIBUTING.md").read_text()


@pytest.mark.parametrize(
    ("block", "trouble"),
    [
        ("```ruby\nx = 1\n```", "nobody knows how to run 'ruby'"),
        ("```python\nx = 1\n", "this block has no end"),
        ("```python\n1 / 0\n```", "division by zero"),
        ("```python\nprint(1 + 1)  # 3\n```", "came:\n2"),
        ("```python\nif False:\n    print(1)  # 1\n```", "has written nothing"),
        ("```python\nimport warnings\nwarnings.warn('old')\n```", "old"),
        ("```python\n# module.py\n1 / 0\n```", "ZeroDivisionError"),
        ("```python\n# test_it.py\ndef test_it():\n    assert 0\n```", "1 failed"),
        ("```python\n# sub/conftest.py\n```", "no test uses it"),
        ("```console\n$ false | true\n```", "ended with 1"),
        ("```console\n$ echo one\ntwo\n```", "came:\none"),
        ("```console\n$ echo one; echo two\none\n```", "came:\none\ntwo"),
        ("```console\none\n```", "output without a command"),
        ("```console\n$ pip install '.[nothing]'\n```", ".[nothing]"),
        ("```console\n$ pip install no-such-package\n```", "no-such-package"),
        ("```console\n$ make nothing\n```", "nothing"),
        ("```console\n$ echo http://127.0.0.1:5080\n```", "no node was started"),
        ("```console\n$ holdfast node --no-such-option\n```", "has ended"),
        ("```json\n{'a': 1}\n```", "property name"),
        ("```toml\n# holdfast.toml\nprovidr = 'local'\n```", "did you mean 'provider'"),
        ("```toml\n# other.toml\nx = 1\n```", "nobody knows what other.toml is"),
        (
            "```toml\n# pyproject.toml\n[project.entry-points.providers]\nx = 'no:X'\n```",
            "No module named 'no'",
        ),
    ],
)
def test_what_is_wrong_in_a_document_is_found(page, block, trouble):
    with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever the block raises
        run(page, block)
    assert trouble in str(caught.value)


@pytest.mark.slow  # packages are fetched
@pytest.mark.skipif(shutil.which("npm") is None, reason="Node.js with npm is not installed")
@pytest.mark.timeout(300)  # it may have to fetch the packages
@pytest.mark.parametrize(
    ("block", "trouble"),
    [
        ("import 'pinata-web3';\nconsole.log(1); // 2", "came:\n1"),
        ("import 'pinata-web3';\nconsole.log(1);", "must say what it writes"),
        ("import 'no-such-package';", "ERR_MODULE_NOT_FOUND"),
        ("await fetch('https://example.com/');", "not on this machine"),
    ],
)
def test_what_is_wrong_in_javascript_is_found(page, block, trouble):
    with pytest.raises(AssertionError) as caught:
        run(page, f"```javascript\n{block}\n```")
    assert trouble in str(caught.value)


MODULES = ["holdfast"] + [
    module.name for module in pkgutil.walk_packages(holdfast.__path__, "holdfast.")
]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_docstrings_run(name, tmp_path, monkeypatch):
    module = importlib.import_module(name)
    assert module.__doc__, name
    assert failures_in(module, tmp_path, monkeypatch) == 0


def test_what_is_wrong_in_a_docstring_is_found(tmp_path, monkeypatch):
    module = ModuleType("holdfast._async.made_up")
    module.__doc__ = """Await, at the top level.

    >>> record = await client.store([1])
    >>> await client.retrieve(record.cid)
    [2]
    >>> await client.retrieve("nothing")
    """
    assert failures_in(module, tmp_path, monkeypatch) == 2

"""What holds for the code as a whole: imports, twins, tables, documents."""

import ast
import importlib
import inspect
import re
from collections import Counter, defaultdict
from pathlib import Path

import aiohttp
import pytest
import urllib3
from scripts import generate_sync

from holdfast import (
    AsyncBaseProvider,
    AsyncClient,
    AsyncLocalProvider,
    AsyncPinProvider,
    BaseProvider,
    Client,
    LocalProvider,
    PinProvider,
)
from holdfast._async import transport as async_transport
from holdfast._sync import transport as sync_transport
from holdfast.errors import ClientError
from holdfast.protocol import transport_errors
from holdfast.provider import AsyncBlockReader, BlockReader
from holdfast.sources.sources import Uploadable
from tests.commands import run_python

ROOT = Path(__file__).resolve().parent.parent


EXTRAS = ("aiohttp", "typer", "starlette", "uvicorn", "asyncio", "cryptography")
FOR_FEW = ("copying", "folder_download", "providers", "gateway_reader", "copy_journal")
COMMAND = "from holdfast.cli import execution; execution.run(['{}'])"
INIT = 'from holdfast import Client; Client.init(provider="pinning", provider_token="x").close()'


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        (INIT, EXTRAS),
        ("from holdfast import Client", FOR_FEW),
        ("from holdfast import AsyncClient", ("aiohttp", *FOR_FEW)),
        ("from holdfast import PinProvider", ("sqlite3",)),
        ("from holdfast import AsyncPinProvider", ("sqlite3",)),
        ("from holdfast import ContentFile", ("sqlite3",)),
        (COMMAND.format("--version"), ("urllib3", "ssl", "sqlite3", "rich", *EXTRAS[2:])),
        (COMMAND.format("--help"), ("urllib3", "ssl", "sqlite3", "rich", *EXTRAS[2:])),
    ],
)
def test_an_import_brings_in_nothing_that_it_does_not_need(code, absent):
    modules = run_python("-c", f"import sys; {code}; print(*sys.modules)").stdout
    assert "holdfast" in modules
    assert [name for name in absent if re.search(rf"\b{name}\b", modules)] == []


def test_without_aiohttp_all_works_but_the_async_client_which_says_what_to_install():
    code = """
import sys
sys.modules["aiohttp"] = None
import asyncio, holdfast, pydoc
from holdfast import *
print(len(pydoc.render_doc(holdfast)) > 5000, AsyncPinProvider.__name__)
asyncio.run(AsyncClient.init(provider="pinning", provider_token="secret-token"))
"""
    result = run_python("-c", code)
    assert (result.returncode, result.stdout) == (1, "True AsyncPinProvider\n")
    assert "pip install 'holdfast[async]'" in result.stderr.splitlines()[-1]
    assert "secret-token" not in result.stderr.splitlines()[-1]


def test_connections_need_no_library_of_the_command_line(tmp_path):
    file = tmp_path / "holdfast/holdfast.toml"
    file.parent.mkdir()
    file.write_text('[connections.disk]\nprovider = "local"\npath = "store"\n')
    code = f"""
import os, sys
sys.modules |= dict.fromkeys(("typer", "tomlkit", "aiohttp"))
os.environ["XDG_CONFIG_HOME"] = {str(tmp_path)!r}
from holdfast import Client, connections
for name in connections():
    with Client.connect(name) as client:
        print(name, client.retrieve(client.store([1]).cid))
print([name for name in sys.modules if name.startswith("holdfast.cli")])
"""
    assert run_python("-c", code).stdout == "disk [1]\n[]\n"


@pytest.mark.parametrize(
    ("missing", "module", "what", "extra"),
    [
        *((name, "node", "the node", "node") for name in ("starlette", "uvicorn", "multipart")),
        ("fsspec", "filesystem", "the file system", "fsspec"),
        ("cryptography", "content.age", "encryption", "encryption"),
    ],
)
def test_a_module_without_its_extra_says_what_to_install(missing, module, what, extra):
    code = f"""
import sys
from importlib.machinery import PathFinder
class Hidden(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name == "{missing}" else super().find_spec(name, path, target)
sys.meta_path = [Hidden if finder is PathFinder else finder for finder in sys.meta_path]
from holdfast.testing import ScriptedServer
import holdfast.{module}
"""
    result = run_python("-c", code)
    assert result.returncode == 1
    least = " 48 or newer" if missing == "cryptography" else ""
    words = f"ModuleNotFoundError: {what} needs {missing}{least}: pip install 'holdfast[{extra}]'"
    assert result.stderr.splitlines()[-1] == words


def signatures(kind):
    texts = {}
    for name, member in inspect.getmembers(kind):
        if not name.startswith("_") or name == "__init__":
            text = str(inspect.signature(member)) if callable(member) else "property"
            text = text.replace("'Uploadable | AsyncIterable[bytes]'", repr(Uploadable))
            text = re.sub(r" \| collections\.abc\.AsyncIterable\[\S+\]", "", text)
            text = text.replace("Async", "").replace("_async", "_sync")
            texts[name.replace("aclose", "close")] = text
    return texts


@pytest.mark.parametrize(
    ("blocking", "awaited"),
    [
        (Client, AsyncClient),
        (PinProvider, AsyncPinProvider),
        (LocalProvider, AsyncLocalProvider),
        (BaseProvider, AsyncBaseProvider),
        (BlockReader, AsyncBlockReader),
    ],
)
def test_the_two_colours_have_the_same_signatures(blocking, awaited):
    assert signatures(blocking) == signatures(awaited)
    for name, _ in inspect.getmembers(awaited, inspect.iscoroutinefunction):
        if not name.startswith("__"):
            assert not inspect.iscoroutinefunction(
                getattr(blocking, name.replace("aclose", "close"))
            )


def library_errors(module, base):
    kinds = (kind for _, kind in inspect.getmembers(module, inspect.isclass))
    ours = (kind for kind in kinds if kind.__module__ == module.__name__)
    return [kind for kind in ours if issubclass(kind, base) and not issubclass(kind, Warning)]


@pytest.mark.parametrize(
    ("table", "kinds", "base"),
    [
        (
            sync_transport.TABLE,
            library_errors(urllib3.exceptions, Exception),
            urllib3.exceptions.HTTPError,
        ),
        (
            async_transport.TABLE,
            library_errors(importlib.import_module("aiohttp.client_exceptions"), Exception),
            aiohttp.ClientError,
        ),
    ],
    ids=["urllib3", "aiohttp"],
)
def test_every_exception_of_the_library_is_mapped(table, kinds, base):
    assert len(kinds) > 20
    # These cannot reach a plain request: no websockets, no uploads by aiohttp's own tracker.
    out_of_reach = {"WSMessageTypeError", "UploadAbortedError"}
    for kind in kinds:
        mapped = [up for up in kind.__mro__ if up in table and up not in {base, OSError}]
        assert mapped or kind is base or kind.__name__ in out_of_reach, kind


@pytest.mark.parametrize("table", [sync_transport.TABLE, async_transport.TABLE])
def test_every_row_of_the_table_gives_an_error_of_ours(table):
    for kind in table:
        error = kind.__new__(kind)
        ours = transport_errors.translate(error, table, "example.com")
        assert isinstance(ours, ClientError)


BY_HAND = {
    tree.replace("_async", "_sync"): {
        path.removeprefix(f"{tree}/")
        for path in generate_sync.HAND_WRITTEN
        if path.startswith(f"{tree}/")
    }
    for tree in generate_sync.TREES
}


@pytest.mark.parametrize("tree", BY_HAND)
def test_generated_files_say_so(tree):
    """All but those that are written by hand, in folders below as well."""
    silent = {
        path.relative_to(ROOT / tree).as_posix()
        for path in (ROOT / tree).rglob("*.py")
        if not path.read_text().startswith("# WARNING: this file is generated from ")
    }
    assert silent == BY_HAND[tree]


def test_the_page_on_the_architecture_lists_what_is_written_twice():
    page = (ROOT / "docs/architecture.md").read_text()
    [sentence] = re.findall(r"written by hand in both colours: ([^.]+(?:\.py[^.]*)+)\.", page)
    listed = set(re.findall(r"`(\w+\.py)`", sentence))
    assert listed == BY_HAND["src/holdfast/_sync"] - {"__init__.py"}


def test_no_async_name_is_left_in_the_blocking_trees():
    for tree in BY_HAND:
        for path in (ROOT / tree).rglob("*.py"):
            assert re.findall(r"\b_*Async[A-Z]\w*", path.read_text()) == [], path


def test_the_generator_names_rules_that_match_nothing_and_files_that_are_missing():
    _, matches = generate_sync.apply_rules(
        "async def f() -> AsyncClient: await _AsyncRoom.aclose()"
    )
    sources = set(generate_sync.HAND_WRITTEN) - {"tests/_async/__init__.py"}
    problems = generate_sync.problems(sources, matches)
    assert r"rule matches nothing: \banext\(" in problems
    assert r"rule matches nothing: \baclose\b" not in problems
    assert problems[-1] == "no such file: tests/_async/__init__.py"


def test_no_two_public_classes_have_one_name():
    """Outside of `_sync`, whose classes have the names of their async twins."""
    places = defaultdict(list)
    for path in sorted((ROOT / "src/holdfast").rglob("*.py")):
        if "_sync" not in path.parts:
            for name in re.findall(r"^class ([A-Za-z]\w*)", path.read_text(), re.MULTILINE):
                places[name].append(path.relative_to(ROOT).as_posix())
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


def names_in(path):
    return set(re.findall(r"^(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE))


def rows_of(document):
    """The rows of the tables in `document`, each a list of its cells."""
    return [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in (ROOT / document).read_text().splitlines()
        if line.startswith("|") and not line.startswith(("| requirement", "| case", "|---"))
    ]


def check_named_tests(what, held_by):
    named = re.findall(r"`([\w/]+\.py)::(test_\w+)`", held_by)
    assert named, what
    for file, test in named:
        paths = [ROOT / "tests" / file]
        if not paths[0].exists():
            paths = [ROOT / "tests/_async" / file, ROOT / "tests/_sync" / file]
        for path in paths:
            assert test in names_in(path), f"{path}: {test} ({what})"


def test_each_requirement_and_each_fault_names_tests_that_exist():
    requirements, faults = rows_of("docs/spec.md"), rows_of("docs/faults.md")
    assert len(requirements) > 60
    cases = [case for case, _, _ in faults if case.startswith("T")]
    counts = {"T1": 42, "T2": 20, "T3": 10, "T4": 16, "T5": 12, "T6": 14, "T7": 12, "T8": 18}
    counts |= {"T9": 21, "T10": 18, "T11": 10, "T12": 9, "T13": 6}
    assert Counter(case.partition(".")[0] for case in cases) == counts
    assert len(set(cases)) == sum(counts.values()) == 208
    for letter, last in {"H": 20, "S": 19}.items():
        numbers = [re.match(rf"{letter}(\d+)", case) for case, _, _ in faults]
        assert {int(number[1]) for number in numbers if number} == set(range(1, last + 1))
    for what, *_, held_by in requirements + faults:
        if what not in cases or "the same" not in held_by:
            check_named_tests(what, held_by)


def test_the_documents_count_faults_and_their_tests_as_they_are():
    """Each number that they give; README must give the first two."""
    rows = rows_of("docs/faults.md")
    faults = [row for row in rows if row[0].startswith("T")]
    attacks = {row[0].partition(".")[0] for row in rows if row[0].startswith("H")}
    tests = {test for row in faults for test in re.findall(r"`[\w/]+\.py::test_\w+`", row[2])}
    unreachable = [row for row in faults if "not reachable yet" in row[2]]
    counts = {
        r"(\d+) (?:faults|listed cases|cases)\b": len(faults),
        r"(\d+) kinds of attack\b": len(attacks),
        r"(\d+) tests for\b": len(tests),
        r"(\d+) (?:are |cases are )?not reachable yet\b": len(unreachable),
    }
    for document in ("README.md", "docs/faults.md"):
        text = (ROOT / document).read_text()
        numbers = [re.findall(pattern, text) for pattern in counts]
        for shown, count in zip(numbers, counts.values(), strict=True):
            assert set(shown) <= {str(count)}, document
        assert numbers[0], document
        assert numbers[1] or document != "README.md"


def test_documents_help_and_page_avoid_words_over_which_readers_stumble():
    """Of the reference, those of the command line: they are the words of `--help`."""
    words = (
        r"\b(shall|anew|as always|comes? along|(is|are) told|do I take|whoever|somebody|everybody"
        r"|meanwhile|thereby|of ours)\b|: take `|Take `|; else\b"
    )
    names = ("README.md", "SECURITY.md", "CONTRIBUTING.md", "docs/index.md", "docs/quick-start.md")
    paths = [ROOT / name for name in (*names, "docs/reference/cli.md", "docs/examples.md")]
    texts = ("docs/guides/*.md", "src/holdfast/cli/*.py", "src/holdfast/node/page/*.[jh]*")
    for path in (*paths, *(path for pattern in texts for path in ROOT.glob(pattern))):
        assert not re.search(words, path.read_text()), path.name


def test_a_decision_is_at_most_a_page_with_a_status_and_their_numbers_have_no_gaps():
    paths = sorted((ROOT / "docs/decisions").glob("0*.md"))
    index = (ROOT / "docs/decisions/index.md").read_text()
    for number, path in enumerate(paths, 1):
        text = path.read_text()
        assert path.name.startswith(f"{number:04}-")
        assert text.startswith(f"# {number}. ")
        assert f"\n{number}. [" in index
        assert f"]({path.name})" in index
        assert re.search(r"^\*\*Status:\*\* (Accepted|Replaced by \[\d+\])", text, re.MULTILINE)
        assert len(text) <= 4600, path.name
        for other in re.findall(r"[Rr]eplaced (?:in part )?by \[\d+\]\(([^)]+)\)", text):
            assert path.name in (path.parent / other).read_text(), other


def test_nothing_in_the_spec_directory_of_tests_is_left_unlisted():
    table = (ROOT / "docs/spec.md").read_text()
    for name in ("test_store", "test_messages", "test_errors"):
        for test in names_in(ROOT / f"tests/_async/{name}.py"):
            assert f"`{name}.py::{test}`" in table, test


# To parse all files takes seconds. No line of a docstring begins like an import.
IMPORTED = re.compile(r"^ *(?:from (\S+) )?import (\([^)]*\)|.*)", re.MULTILINE)


def imports_beside(path):
    """The files in the folder of `path` that it imports, anywhere in it and for types too."""
    folder = ".".join(path.parent.relative_to(ROOT / "src").parts)
    for origin, names in IMPORTED.findall(path.read_text(encoding="utf-8")):
        inner = [f"{origin}.{name}" for name in re.findall(r"[\w.]+", names)]
        for module in [origin, *inner] if origin else re.findall(r"[\w.]+", names):
            parent, _, name = module.rpartition(".")
            if parent == folder and (path.parent / f"{name}.py").exists():
                yield path.parent / f"{name}.py"


def test_the_files_of_one_folder_import_each_other_in_no_circle():
    package = ROOT / "src/holdfast"
    graph = {path: set(imports_beside(path)) for path in package.rglob("*.py")}

    def reachable(start):
        seen, pending = set(), [start]
        while pending:
            following = graph[pending.pop()] - seen
            seen |= following
            pending += following
        return seen

    in_circles = [path for path in graph if path in reachable(path)]
    assert [path.relative_to(package).as_posix() for path in in_circles] == []


def test_only_the_registry_knows_the_names_of_providers():
    """In prose and examples they may stand; code asks the table."""
    names = {"local", "pinning", "kubo", "cluster", "provider_b", "provider_c"}
    texts_by_file = {}
    quoted = re.compile(f"[\"']({'|'.join(names)})[\"']")
    for path in files_with(quoted, "."):  # it takes seconds to parse them all
        tree = ast.parse(path.read_text(encoding="utf-8"))
        texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
        if used := sorted(names & {text for text in texts if isinstance(text, str)}):
            texts_by_file[path.relative_to(ROOT / "src/holdfast").as_posix()] = used
    assert texts_by_file == {
        "registry.py": sorted(names),
        "testing/running_nodes.py": ["pinning"],  # the configuration of a client for the node
        "records.py": ["pinning"],  # a state of a pin
        "protocol/pinning.py": ["pinning"],  # the same
        "protocol/cluster.py": ["pinning"],  # the same
        "protocol/psa.py": ["pinning"],  # the same
        "node/service.py": ["pinning"],  # the same
        "node/tables.py": ["pinning"],  # the same
        "node/pinning_api.py": ["local"],  # the id of the node's one user
    }


def files_with(pattern, folder):
    paths = (ROOT / "src/holdfast" / folder).rglob("*.py")
    return {path for path in paths if re.search(pattern, path.read_text(encoding="utf-8"))}


def test_only_content_looks_at_the_codec_of_a_cid():
    """The others ask the functions of `content/codecs.py`, so that a new codec is one row."""
    assert files_with(r"\.codec\b", ".") == files_with(r"\.codec\b", "content")


def test_only_the_parser_of_addresses_reads_the_raw_path_of_a_request():
    """What checks a decoded path must not serve by the raw one: both use the same `Address`."""
    names = {path.name for path in files_with(r"raw_path|request\.url\b", "node")}
    assert names == {"http_connection.py", "application.py", "addresses.py"}


def names_made_in(tree):
    """Yield the names of the variables, attributes, arguments, functions and classes of a file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.id if isinstance(node, ast.Name) else node.attr
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name


def test_ten_vague_words_are_not_names():
    """A name is a noun of the field that says what the thing is."""
    words = "found|given|known|wanted|about|each|held|told|kept|there"
    may_be_made = re.compile(rf"\b_*({words})_*(?=\s*([]:,=)(|+-]| in\b))")
    folders = (ROOT / name for name in ("src", "bench", "scripts", "tests"))
    vague = {}
    for path in (path for folder in folders for path in folder.rglob("*.py")):
        if ".peers" in path.parts:  # other libraries, which the benchmarks install
            continue
        text = path.read_text(encoding="utf-8")
        is_generated = text.startswith("# WARNING: this file is generated")
        if not is_generated and may_be_made.search(text):  # it takes seconds to parse them all
            names = {name.strip("_") for name in names_made_in(ast.parse(text))}
            vague[path.relative_to(ROOT).as_posix()] = names & {*words.split("|")}
    assert {path: names for path, names in vague.items() if names} == {
        "src/holdfast/records.py": {"given"},  # of `PinInfo`, which is public
    }

"""Undocumented parts of urllib3, http.client and aiohttp: what happens when a version lacks one.

A copy of the library in which such a part has another name stands for that version.
"""

import ast
import inspect
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from holdfast._async import connections as async_connections
from holdfast._async import transport as async_transport
from holdfast._sync import connections as sync_connections
from holdfast._sync import transport as sync_transport
from holdfast.protocol.library_parts import LibraryPart, has_shortcuts
from holdfast.testing import Scripted, ScriptedServer
from tests.programs import SETTINGS, in_both_colours
from tests.support import HELLO_CID, TOKEN, pinned, raw_cid

PYTHON = sync_connections.PYTHON_PARTS
LIBRARIES = {"urllib3": sync_connections.PARTS, "aiohttp": async_connections.PARTS}
PARTS = [*PYTHON, *LIBRARIES["urllib3"], *LIBRARIES["aiohttp"]]

DOCUMENT = b'{"hello": "world"}'
SCRIPT = """
import asyncio
from holdfast import AsyncClient
async def main():
    for _ in range(2):
        async with await AsyncClient.init(settings) as client:
            await client.store("hello")
            await client.upload(iter([b"hello"]))
            print((await client.download(sys.argv[3])).read(), await client.retrieve(sys.argv[4]))
asyncio.run(main())
"""
SCRIPTS = dict(zip(LIBRARIES, in_both_colours(SETTINGS + SCRIPT).values(), strict=True))


@pytest.mark.parametrize("part", PARTS, ids=str)
def test_the_library_has_the_part(part):
    assert not part.is_missing, f"{part} was seen in {part.seen}: {part.reason}"


def library_bases(module, name):
    """The classes of a library that a class of `module` derives from."""
    bases = getattr(module, name).__mro__[:-1]
    return [base for base in bases if not base.__module__.startswith("holdfast")]


def private_names(module):
    """The private attributes of classes of a library that `module` uses or overrides."""
    tree = ast.parse(inspect.getsource(module))
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    for node in tree.body:
        bases = library_bases(module, node.name) if isinstance(node, ast.ClassDef) else []
        for inner in ast.walk(node):
            name = getattr(inner, "attr" if isinstance(inner, ast.Attribute) else "name", "") or ""
            if not re.match("_[a-z]", name):
                continue
            is_foreign = isinstance(inner, ast.Attribute) and (
                ast.unparse(inner.value) not in {"self", "super()"} and name not in own
            )
            if is_foreign or any(not LibraryPart(base, name, "", "").is_missing for base in bases):
                yield name


@pytest.mark.parametrize("module", [sync_connections, async_connections])
def test_every_private_attribute_is_in_the_table(module):
    assert set(private_names(module)) <= {part.name for part in PARTS}


@pytest.mark.parametrize("module", [sync_transport, async_transport])
def test_no_other_file_has_one(module):
    assert set(private_names(module)) == set()


# A version of a library that lacks one


def copy_without(part, folder):
    """Copy the library, with another name for `part`; return the name and version of it."""
    name = part.owner.__module__.partition(".")[0]
    source = Path(find_spec(name).origin).parent
    shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    for path in (folder / name).rglob("*.py"):
        text = path.read_text()
        path.write_text(re.sub(rf"\b{part.name}\b", f"{part.name}_of_old", text))
    return name, sys.modules[name].__version__


def run_without(part, folder):
    """Use a client in a process whose library lacks `part`; return how it ended, and the version.

    The second document comes in chunks.
    """

    def answer(request):
        if request.method == "POST":
            return Scripted(body=pinned())
        is_document = raw_cid(DOCUMENT) in request.target
        return Scripted(body=DOCUMENT if is_document else b"hello", chunked=is_document)

    library, version = copy_without(part, folder)
    with ScriptedServer(answer) as server:
        command = [sys.executable, "-W", "default", "-c", SCRIPTS[library]]
        process = subprocess.run(  # noqa: S603
            [*command, server.url, TOKEN, HELLO_CID, raw_cid(DOCUMENT)],
            env={"PYTHONPATH": f"{folder}:{Path.cwd()}", "PATH": ""},
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
    return process, f"{library} {version}", len(server.requests)


def renamed(*, shortcuts, quick):
    """The parts whose names mean nothing else; but for those in `quick`, they are for slow runs."""
    return [
        pytest.param(part, id=str(part), marks=[] if part.name in quick else [pytest.mark.slow])
        for part in [*LIBRARIES["urllib3"], *LIBRARIES["aiohttp"]]
        if part.is_shortcut == shortcuts and "_" in part.name
    ]


@pytest.mark.slow
@pytest.mark.parametrize("part", renamed(shortcuts=True, quick={"_get_conn", "_parser"}))
def test_without_a_shortcut_content_is_right_and_one_warning_says_so(part, tmp_path):
    process, version, _ = run_without(part, tmp_path)
    assert (process.returncode, process.stdout) == (0, "b'hello' {'hello': 'world'}\n" * 2)
    warnings = [line for line in process.stderr.splitlines() if "Warning" in line]
    (line,) = warnings
    assert f"RuntimeWarning: {version} has no {part}: requests work, and take longer" in line


@pytest.mark.slow
@pytest.mark.parametrize("part", renamed(shortcuts=False, quick={"_new_conn", "_payload"}))
def test_without_a_part_that_keeps_a_limit_no_client_starts(part, tmp_path):
    process, version, requests = run_without(part, tmp_path)
    assert process.returncode == 1
    assert process.stderr.splitlines()[-1] == (
        f"ImportError: {version} has no {part}, without which holdfast cannot keep a limit "
        f"({part.reason}): install a version from {part.seen}"
    )
    assert (process.stdout, requests) == ("", 0)


class Reader:
    def __init__(self):
        self._left = 1

    @property
    def size(self):
        return self._left

    @size.setter
    def size(self, value):
        self._declared = value

    def read(self): ...


@pytest.mark.parametrize("name", ["read", "size", "_left", "_declared"])
def test_a_part_may_be_a_method_or_set_by_one(name):
    assert not LibraryPart(Reader, name, "", "").is_missing


def test_a_missing_part_is_looked_for_once():
    gone = LibraryPart(Reader, "_gone", "of the test", "Reader 1", is_shortcut=True)
    with pytest.warns(RuntimeWarning, match=r"Reader 2 has no Reader\._gone: .* seen in Reader 1"):
        assert not has_shortcuts((gone,), "Reader", "2")
    assert not has_shortcuts((gone,), "Reader", "2")

"""The documents, and how each block of code in them is run.

The blocks of a page run in order, in one folder and one environment: later ones build on earlier
ones. What is shown is compared with what comes, and `…` stands for anything:

- below a command of a `console` block, its output;
- behind a `print` in a `python` block, or a `console.log` in a `javascript` one, what it writes.

Addresses of the pinning service, of its gateway and of public ones lead to nodes on this machine.
Pages about Kubo and IPFS Cluster run them, on other ports than those that they show.
"""

import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tokenize
import tomllib
import warnings
from contextlib import ExitStack
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from holdfast import ClientConfig, registry
from holdfast.cli.run import config_of
from holdfast.config.settings_files import gather
from holdfast.content.profiles import UNIXFS_V1_2025
from holdfast.node.settings import NodeToken
from holdfast.testing import running_node
from tests.consoles import Console
from tests.contract import DIRECTORY_ARCHIVE
from tests.example_nodes import example_nodes, shut_down_kubo

ROOT = Path(__file__).resolve().parent.parent
JAVASCRIPT = ROOT / "tests/js"
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])

TOKEN = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJkb2NzIn0.c2lnbmF0dXJl"
API, GATEWAY = "https://api.pinata.cloud", "https://example.mypinata.cloud"
ENGINE_PORT = re.compile(r"(127\.0\.0\.1(?::|/tcp/))19(0\d\d)\b")
# An address in a variable is not saved, so that a login refuses it.
LOGIN = "env -u HOLDFAST_PIN_API_URL holdfast login --pin-api-url {} "
OF_THE_SERVICE = (API, GATEWAY, "PINATA_JWT", "pinning")
PUBLIC = ('provider="gateway"', "--use gateway", "register_ipfs")

# All are errors, but for what pytest-asyncio says about an option of its own.
WARNINGS = ("-W", "error", "-W", "ignore:The configuration option")


class Block(NamedTuple):
    """A block of code in a document."""

    document: str
    line: int
    language: str
    text: str

    def __str__(self):
        return f"{self.document}:{self.line}"


def blocks_in(text, document="document.md"):
    """The fenced blocks of a document, whatever their language."""
    lines = iter(enumerate(text.splitlines(), 1))
    for number, line in lines:
        if opening := re.match(r"( *)(`{3,}|~{3,}) *(\S*)", line):
            indent, fence, language = opening.groups()
            content = []
            for _, inner in lines:
                if re.fullmatch(rf" *{fence[0]}{{{len(fence)},}} *", inner):
                    break
                content.append(inner.removeprefix(indent))
            else:
                raise AssertionError(f"{document}:{number}: this block has no end")
            yield Block(document, number, language, "".join(f"{line}\n" for line in content))


def blocks_of(path):
    return list(blocks_in(path.read_text(), path.relative_to(ROOT).as_posix()))


def check_shown(shown, came):
    """Compare what a document shows with what came."""
    lines = [re.escape(line.rstrip()).replace("…", ".*") for line in shown.strip().splitlines()]
    # A line of its own stands for any number of lines.
    pattern = "\n".join(r"(?s:.*)" if line == ".*" else line for line in lines)
    came = "\n".join(line.rstrip() for line in came.strip().splitlines())
    assert re.fullmatch(pattern, came), f"shown:\n{shown.strip()}\n\ncame:\n{came}"


class Page:
    """Runs the blocks of one document."""

    def __init__(self, folder, monkeypatch, packages):
        self.folder = folder / "work"
        # What readers have: some photos, and the examples.
        (self.folder / "photos").mkdir(parents=True)
        (self.folder / "photos/kelp.png").write_bytes(b"\x89PNG...")
        (self.folder / "examples").symlink_to(ROOT / "examples")
        self.missing = set()
        self._patch = monkeypatch
        self._packages = packages
        self._open = ExitStack()
        self._places = {}
        self._public = {}
        self._nodes = None
        self._namespace = {"__name__": "__main__", "print": self._print}
        self._printed = {}
        self._tests = []
        self._script = ""
        self._modules = set(sys.modules)
        self._set_up(folder)
        self._variables = set(os.environ)

    def _set_up(self, folder):
        own = [Path(sys.executable).parent, os.environ["PATH"]]
        age = [Path(os.environ["HOLDFAST_AGE"]).parent] if "HOLDFAST_AGE" in os.environ else []
        variables = {
            "HOME": str(folder),
            "XDG_DATA_HOME": str(folder / "data"),
            "XDG_CONFIG_HOME": str(folder / ".config"),
            "XDG_CACHE_HOME": str(folder / "cache"),
            "PINATA_JWT": TOKEN,
        }
        for name in os.environ:
            if re.match(r"(HOLDFAST|PYTEST|COV)_|.*_PROXY$", name.upper()):
                self._patch.delenv(name)
        for name, value in variables.items():
            self._patch.setenv(name, value)
        self._patch.chdir(self.folder)
        self._patch.syspath_prepend(self.folder)
        self._console = Console(
            self.folder,
            {
                **{name: os.environ[name] for name in ("LANG",) if name in os.environ},
                **variables,
                # The engines are in the last folders, if a page needs them.
                "PATH": ":".join(map(str, (*own, folder / "bin", *age))),
                "PYTHONPATH": str(self.folder),
                "PYTHONWARNINGS": "error::ResourceWarning",
                "COLUMNS": "100",
            },
        )

    def run(self, block):
        """Run `block` as its language has it."""
        runner = RUNNERS.get(block.language)
        assert runner, f"{block}: nobody knows how to run {block.language!r}"
        if self.missing:
            return  # what follows may build on what could not be run
        try:
            runner(self, block)
        except Exception as error:
            error.add_note(f"in the block at {block}")
            raise

    def finish(self):
        """Run the tests that the page has written."""
        for path in self._tests:
            if path.name == "conftest.py":
                beside = [test for test in self._tests if test.parent == path.parent]
                assert len(beside) > 1, f"{path}: no test uses it"
        files = [path for path in self._tests if path.name != "conftest.py"]
        if files:
            result = subprocess.run(  # noqa: S603 - what our documents say
                [sys.executable, "-m", "pytest", *WARNINGS, "-v", "-p", "no:cacheprovider"],
                cwd=self.folder,
                env=self._console.environment,
                capture_output=True,
                text=True,
                check=False,
            )
            assert result.returncode == 0, result.stdout + result.stderr
            for path in files:
                assert re.search(rf"^{path}::.* PASSED", result.stdout, re.MULTILINE), path

    def close(self):
        """Leave nothing behind for the next page."""
        for name in set(os.environ) - self._variables:
            del os.environ[name]
        for name in set(sys.modules) - self._modules:
            origin = getattr(sys.modules[name], "__file__", None)
            if origin and Path(origin).is_relative_to(self.folder):
                del sys.modules[name]
        if file_systems := sys.modules.get("holdfast.filesystem"):
            file_systems.HoldfastFileSystem.clear_instance_cache()  # fsspec shares them
        self._console.close()
        self._open.close()

    def _in_place(self, text):
        """`text` with addresses on this machine."""
        if not self._places and any(words in text for words in OF_THE_SERVICE):
            node = self._open.enter_context(running_node(tokens=(NodeToken(token=TOKEN),)))
            self._places = {
                API: node.api_url,
                GATEWAY: node.api_url,
                "holdfast login ": LOGIN.format(node.api_url),
            }
            self._patch.setattr(ClientConfig, "pin_api_url", node.api_url)
            self._console.environment["HOLDFAST_PIN_API_URL"] = node.api_url
        if not self._public and any(words in text for words in PUBLIC):
            self._start_public_gateway()
        for old, new in (self._places | self._public).items():
            text = text.replace(old, new)
        return self._console.in_place(ENGINE_PORT.sub(self._engine_port, text))

    def _start_public_gateway(self):
        """Have a node with public content in the place of the public gateways."""
        node = self._open.enter_context(running_node())
        node.repository.import_car([DIRECTORY_ARCHIVE])
        node.repository.add(b"hello world", UNIXFS_V1_2025)
        row = replace(registry.row_of("gateway"), gateways=(node.gateway_url,))
        self._patch.setitem(registry.BUILT_IN, "gateway", row)
        self._public = {
            "--use gateway": f"--use gateway --gateway-url {node.gateway_url}",
            "https://ipfs.io": node.api_url,
        }

    def _engine_port(self, match):
        """A free port instead of one that a page shows for Kubo or a cluster."""
        if self._nodes is None:
            self._nodes = self._open.enter_context(example_nodes(Path.home()))
            self._open.callback(shut_down_kubo, Path.home() / "kubo", self._nodes)
            self._console.environment["FIRST_PORT"] = str(self._nodes.first_port)
        return f"{match[1]}{self._nodes.first_port + int(match[2])}"

    def _python(self, block):
        block = block._replace(text=self._in_place(block.text))
        if named := re.match(r"# (\S+\.py)\n", block.text):
            path = self.folder / named[1]
            path.parent.mkdir(exist_ok=True)
            path.write_text(block.text)
            if path.name.startswith("test_") or path.name == "conftest.py":
                self._tests.append(path.relative_to(self.folder))
            else:
                self._console.check([sys.executable, "-W", "error", path])
            return
        self._printed.clear()
        # With the document's own lines in tracebacks.
        code = compile("\n" * block.line + block.text, block.document, "exec")
        exec(code, self._namespace)  # noqa: S102 - what our documents say
        for line, shown in _shown_prints(block):
            assert line in self._printed, f"line {line} has written nothing"
            for came in self._printed[line]:
                check_shown(shown, came)

    def _print(self, *values, sep=" "):
        line = sys._getframe(1).f_lineno
        self._printed.setdefault(line, []).append(sep.join(map(str, values)))

    def _console_block(self, block):
        self._in_place(block.text)  # starts what the block needs
        for command, shown in self._console.commands_in(block.text):
            for program in re.findall(r"\bcurl\b|(?<=\| )age\b", command):
                if shutil.which(program, path=self._console.environment["PATH"]) is None:
                    self.missing.add(program)
                    return
            came = self._console.run(self._in_place(command))
            if shown:
                check_shown(self._in_place(shown), came)

    def _javascript(self, block):
        """A block without imports goes on where the one before it ended."""
        self._in_place(block.text)
        if shutil.which("npm") is None:
            self.missing.add("npm")
            return
        modules = self.folder / "node_modules"
        if not modules.exists():
            modules.symlink_to(self._packages())
        begins = block.text.startswith("import ")
        earlier = "" if begins else self._script + '\nconsole.log("--8<--");\n'
        self._script = earlier + block.text
        script = self.folder / "script.mjs"
        script.write_text(self._script)
        # One client speaks by fetch, the other takes the node for a proxy.
        came = self._console.check(
            ["node", "--import", JAVASCRIPT / "local.mjs", script],
            HTTPS_PROXY=self._places.get(API, ""),
            GATEWAY=GATEWAY,
        )
        shown = re.findall(r"console\.log\(.*\); // (.*)", block.text)
        assert len(shown) == block.text.count("console.log("), "each must say what it writes"
        check_shown("\n".join(shown), came.rpartition("--8<--\n")[2])

    def _toml(self, block):
        text = self._in_place(block.text)
        if self._places and "[connections." in text and "pin_api_url" not in text:
            # A connection takes no address from the environment.
            address = f'pin_api_url = "{self._places[API]}"'
            text = text.replace('provider = "pinata"', f'provider = "pinata"\n{address}')
        values = tomllib.loads(text)
        name = re.match(r"# (\S+)", block.text)[1]
        if name == "pyproject.toml":
            self._install(values["project"]["entry-points"])
            return
        path = Path(name).expanduser()
        assert path.name == "holdfast.toml", f"{block}: nobody knows what {name} is"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        for connection in values.pop("connections", ()):
            config_of(gather({"use": (connection, "--use")}))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a command would show them
            settings = gather({})
        assert all(settings[name].source == str(path.absolute()) for name in values)
        config_of(settings)

    def _install(self, groups):
        """Have entry points found, as pip would."""
        package = self.folder / "page-1.0.dist-info"
        package.mkdir()
        (package / "METADATA").write_text("Metadata-Version: 2.1\nName: page\nVersion: 1.0\n")
        lines = []
        for group, points in groups.items():
            lines += [f"[{group}]", *(f"{name} = {value}" for name, value in points.items())]
        (package / "entry_points.txt").write_text("\n".join(lines))
        for group, points in groups.items():
            for name in points:
                (point,) = metadata.entry_points(group=group, name=name)
                point.load()

    def _json(self, block):
        json.loads(block.text)

    def _leave(self, block):
        """Drawings and figures are not run."""


RUNNERS = {
    "python": Page._python,
    "console": Page._console_block,
    "javascript": Page._javascript,
    "toml": Page._toml,
    "json": Page._json,
    "text": Page._leave,
}


def _shown_prints(block):
    """The lines of the document that print, and what stands there as their output."""
    lines = block.text.splitlines()
    with contextlib.suppress(tokenize.TokenError):
        for token in tokenize.generate_tokens(io.StringIO(block.text).readline):
            row = token.start[0]
            if token.type == tokenize.COMMENT and lines[row - 1].lstrip().startswith("print("):
                yield block.line + row, token.string.removeprefix("#").strip()

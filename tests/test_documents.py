"""Every example that is shown to people runs."""

import doctest
import importlib
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast

ROOT = Path(__file__).resolve().parent.parent


def python_blocks(document):
    return re.findall(r"```python\n(.*?)```", (ROOT / document).read_text(), re.DOTALL)


def test_the_quick_start_runs_as_it_stands(tmp_path):
    quick_start = python_blocks("README.md")[0]
    result = subprocess.run(  # noqa: S603
        [sys.executable, "-W", "error", "-c", quick_start],
        cwd=tmp_path,
        env={**os.environ, "XDG_DATA_HOME": str(tmp_path / "data")},
        capture_output=True,
        text=True,
        check=True,
    )
    cid = "bafkreietui4xdkiu4xvmx4fi2jivjtndbhb4drzpxomrjvd4mdz4w2avra"
    assert result.stdout.splitlines() == [cid, "{'hello': 'world'}", "hi"]
    assert result.stderr == ""
    assert (tmp_path / "copy.png").read_bytes() == b"\x89PNG..."


def test_the_same_lines_with_a_real_provider_run(node, monkeypatch):
    """The second block, with the addresses of a service on this machine."""
    block = python_blocks("README.md")[1]
    block = block.replace('"https://example.mypinata.cloud/ipfs"', f'"{node.gateway_url}"')
    block = block.replace("    gateway_url", f'    pin_api_url="{node.api_url}",\n    gateway_url')
    monkeypatch.setenv("PINATA_JWT", node.token)
    block = block.replace("    ...", "    assert client.test_connection()")
    exec(compile(block, "README", "exec"), {})  # noqa: S102


def test_the_async_lines_run_as_they_stand(tmp_path):
    result = subprocess.run(  # noqa: S603
        [sys.executable, "-W", "error", "-c", python_blocks("README.md")[3]],
        env={**os.environ, "XDG_DATA_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    cid = "bafkreietui4xdkiu4xvmx4fi2jivjtndbhb4drzpxomrjvd4mdz4w2avra"
    assert (result.stdout, result.stderr) == (f"{cid}\n", "")


@pytest.mark.parametrize(
    ("document", "number"),
    [("README.md", 2), ("README.md", 4), ("README.md", 6), ("CONTRIBUTING.md", 0)],
)
def test_further_examples_run(document, number):
    exec(compile(python_blocks(document)[number], document, "exec"), {"__name__": "example"})  # noqa: S102


def test_no_example_is_forgotten():
    assert len(python_blocks("README.md")) == 7  # the sixth runs in test_plugin.py
    assert len(python_blocks("CONTRIBUTING.md")) == 1


MODULES = ["holdfast"] + [
    module.name for module in pkgutil.walk_packages(holdfast.__path__, "holdfast.")
]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_docstrings_run(name):
    module = importlib.import_module(name)
    assert module.__doc__, name
    failed, _ = doctest.testmod(module, raise_on_error=False)
    assert failed == 0


def test_the_demo_runs_and_leaves_nothing_behind(tmp_path):
    result = subprocess.run(
        [sys.executable, "-W", "error", "-m", "holdfast", "demo"],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    for words in ("test_connection  True", "the same bytes", "revoke           True"):
        assert words in result.stdout
    assert "VerificationError" in result.stdout
    assert result.stderr == ""
    assert list(tmp_path.iterdir()) == []

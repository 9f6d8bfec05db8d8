"""The page on platforms, and what works where the system lacks parts of POSIX."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from scripts.test_pythons import (
    VERSIONS,
    NotAvailableError,
    classified_versions,
    find_python,
    unpack_debian,
)

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WITHOUT_POSIX = """
import os, sys
sys.modules["fcntl"] = None  # so that its import fails
del os.O_NOFOLLOW
os.supports_dir_fd.clear()
import holdfast
"""
MADE = {
    "Client": "holdfast.Client.init({fields}).close()",
    "AsyncClient": "import asyncio\n"
    "async def make():\n    async with holdfast.AsyncClient.init({fields}): pass\n"
    "asyncio.run(make())",
}


def needs(requirements):
    """The text of the page for the requirements of the package."""
    names = (re.match(r"([\w.-]+)>=([\w.]+)", text) for text in requirements)
    return ", ".join(f"{name[1]} {name[2]} or newer" for name in names)


def test_the_page_names_the_versions_that_are_needed():
    page = (ROOT / "docs/platforms.md").read_text()
    extras = {f"[{name}]": PROJECT["optional-dependencies"][name] for name in ("async", "cli")}
    extras |= {
        f"[{name}]": PROJECT["optional-dependencies"][name] for name in ("node", "fsspec", "blake3")
    }
    for extra, requirements in {"": PROJECT["dependencies"], **extras}.items():
        assert f"| `holdfast{extra}` | {needs(requirements)} |" in page


def test_only_versions_that_were_tested_have_a_classifier():
    page = (ROOT / "docs/platforms.md").read_text()
    (tested,) = re.findall(
        r"^\| Linux, x86-64, Python ([^|]*) \| \*\*tested\*\*", page, re.MULTILINE
    )
    versions = re.findall(r"3\.\d+", tested)
    assert versions == sorted(classified_versions(), key=lambda text: int(text[2:]))
    assert set(versions) <= set(VERSIONS)
    assert f'requires-python = ">={versions[0]}"' in (ROOT / "pyproject.toml").read_text()


def test_a_python_is_asked_for_its_version(tmp_path, monkeypatch):
    own = f"{sys.version_info[0]}.{sys.version_info[1]}"
    for name in ("python3.14t", "python3.99"):
        (tmp_path / name).symlink_to(sys.executable)  # says that it is another one
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert find_python("3.99") is None
    assert find_python(own).name == f"python{own}"


def test_a_version_that_cannot_be_had_did_not_run(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotAvailableError, match="no free-threaded Python"):
        unpack_debian("3.14t")
    with pytest.raises(NotAvailableError, match="not on this machine"):
        unpack_debian("3.99")


@pytest.mark.slow
@pytest.mark.parametrize("kind", MADE)
@pytest.mark.parametrize("provider", ["pinning", "pinata"])
def test_clients_of_services_need_no_posix(kind, provider):
    fields = f'provider="{provider}", provider_token="eyJhbGciOi"'
    program = WITHOUT_POSIX + MADE[kind].format(fields=fields)
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)  # noqa: S603

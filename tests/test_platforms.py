"""The page on platforms, and what works where the system lacks parts of POSIX."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

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


@pytest.mark.slow
@pytest.mark.parametrize("kind", MADE)
@pytest.mark.parametrize("provider", ["pinning", "pinata"])
def test_clients_of_services_need_no_posix(kind, provider):
    fields = f'provider="{provider}", provider_token="eyJhbGciOi"'
    program = WITHOUT_POSIX + MADE[kind].format(fields=fields)
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)  # noqa: S603

"""The wheel and the source distribution: what they hold, and that each Python can install them."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

ROOT = Path(__file__).parent.parent
VERSIONS = ["3.11", "3.12", "3.13", "3.14"]
USE = """
from holdfast import Client
with Client.init(path="store") as client:
    print(client.retrieve(client.store({"a": 1}).cid))
"""


def run(*command, cwd):
    done = subprocess.run(  # noqa: S603
        [str(word) for word in command], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder with both packages."""
    folder = tmp_path_factory.mktemp("packages")
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT, cwd=folder)
    return folder


@pytest.fixture(scope="module")
def wheel(built):
    (wheel,) = built.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def metadata(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (file for file in archive.namelist() if file.endswith(".dist-info/METADATA"))
        return message_from_bytes(archive.read(name))


def test_the_description_is_the_readme_as_far_as_it_has_no_relative_link(metadata):
    text = metadata.get_payload(decode=True).decode()
    readme = (ROOT / "README.md").read_text()
    assert text == readme[: readme.index("<!-- The description of the package ends here")]
    assert re.findall(r"\]\((?!https?:)[^)]*\)", text) == []
    assert re.findall(r"(?:src|href|srcset)=", text) == []
    headings = re.findall(r"^## (.*)", text, re.MULTILINE)
    assert headings == ["Why Holdfast", "Quick start"]


def test_the_metadata_is_complete(metadata):
    assert metadata["Name"] == "holdfast"
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata["Requires-Python"] == ">=3.11"
    for name in ("Summary", "Author", "Keywords", "Version"):
        assert metadata[name]
    for version in VERSIONS:
        assert f"Programming Language :: Python :: {version}" in metadata.get_all("Classifier")
    assert metadata.get_all("Requires-Dist")[0].startswith("urllib3")


def test_the_wheel_has_the_package_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.partition("/")[0] for name in names} == {
        "holdfast",
        wheel.stem.partition("-py3")[0] + ".dist-info",
    }
    assert "holdfast/py.typed" in names
    assert "holdfast/node/page/index.html" in names
    assert not [name for name in names if "__pycache__" in name]


def test_the_source_distribution_has_what_the_tests_need(built):
    (file,) = built.glob("*.tar.gz")
    with tarfile.open(file) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "Makefile", "tests/conftest.py", "docs/index.md"} <= names
    assert not [name for name in names if "node_modules" in name or ".peers" in name]


@pytest.mark.parametrize(
    ("pattern", "version"), [("*.tar.gz", "3.11"), *(("*.whl", version) for version in VERSIONS)]
)
def test_a_package_installs_and_works(built, tmp_path, pattern, version):
    (package,) = built.glob(pattern)
    run(find_python(version), "-m", "venv", tmp_path / "environment", cwd=tmp_path)
    python = tmp_path / "environment/bin/python"
    pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    run(*pip, package, cwd=tmp_path)
    assert run(python, "-c", USE, cwd=tmp_path) == "{'a': 1}\n"
    assert run(python, "-c", "import sys; print(sys.version)", cwd=tmp_path).startswith(version)
    if package.suffix == ".whl":
        run(*pip, f"{package}[all]", cwd=tmp_path)
        shown = run(python.with_name("holdfast"), "demo", cwd=tmp_path)
        assert "does not match the CID" in shown


def pyright(install_packages, *options):
    """Run Pyright in the root, with the settings of pyproject.toml."""
    folder = install_packages(ROOT / "tests" / "js" / "types")
    program = folder / "node_modules" / "pyright" / "index.js"
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(  # noqa: S603
        ["node", program, *options],  # noqa: S607
        cwd=ROOT,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.skipif(shutil.which("npm") is None, reason="Node.js with npm is not installed")
def test_every_public_name_has_a_type(install_packages):
    options = ["--verifytypes", "holdfast", "--ignoreexternal", "--outputjson"]
    done = pyright(install_packages, *options)
    symbols = json.loads(done.stdout)["typeCompleteness"]["symbols"]
    public = [symbol for symbol in symbols if symbol["isExported"]]
    assert len(public) > 4000
    assert [symbol["name"] for symbol in public if not symbol["isTypeKnown"]] == []


@pytest.mark.skipif(shutil.which("npm") is None, reason="Node.js with npm is not installed")
def test_the_examples_pass_a_second_strict_checker(install_packages):
    """Mypy checks them in `make lint`."""
    done = pyright(install_packages, "--outputjson")
    report = json.loads(done.stdout)
    assert report["summary"]["filesAnalyzed"] >= len([*ROOT.glob("examples/*.py")])
    assert [row["message"] for row in report["generalDiagnostics"]] == []


def find_python(version):
    """Return a Python of this version, from the path or from pyenv; skip where there is none."""
    own = Path(sys.base_prefix, "bin", f"python{version}")
    installed = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python"))
    for candidate in (own, shutil.which(f"python{version}"), *installed):
        if candidate is None or not Path(candidate).exists():
            continue
        done = subprocess.run(  # noqa: S603
            [candidate, "-c", "import ensurepip"], capture_output=True, check=False
        )
        if done.returncode == 0:
            return candidate
    pytest.skip(f"Python {version} is not installed")

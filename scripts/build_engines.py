"""Build Kubo, which some tests run against, from source with Go: `make engines`.

The binary goes into a cache folder of the user, named after its version, so a second clone builds
nothing. Prints its path. Go's own caches keep what was compiled, so an interrupted build resumes.
"""

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

MODULE = "github.com/ipfs/kubo"
VERSION = "v0.43.0"
NEEDED_GO = (1, 26)  # the `go` line in Kubo's go.mod


def kubo_binary() -> Path:
    """Return where `make engines` puts Kubo, whether it is there or not."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache, "holdfast-engines", f"kubo-{VERSION}", "ipfs")


def main() -> None:
    try:
        print(build_once(kubo_binary()))
    except subprocess.CalledProcessError as error:
        sys.exit(f"Kubo {VERSION} could not be built: {error}")
    except OSError as error:
        sys.exit(f"Kubo {VERSION} could not be put into the cache folder: {error}")


def build_once(binary: Path) -> Path:
    """Build Kubo unless it is there; a second process waits for the first and then has it."""
    folder = binary.parent
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not runs(binary):
            partial = folder / "partial"
            shutil.rmtree(partial, ignore_errors=True)  # of a build that was interrupted
            partial.mkdir()
            built = build(partial)
            if not runs(built):
                sys.exit(f"The Kubo that was built does not say that it is {VERSION}: {built}")
            built.replace(binary)
            shutil.rmtree(partial, ignore_errors=True)
    return binary


def runs(binary: Path) -> bool:
    """Tell whether the binary starts on this machine and is of the wanted version."""
    try:
        reply = run(str(binary), "version", "--number", IPFS_PATH=str(binary.parent / "none"))
    except (OSError, subprocess.CalledProcessError):
        return False
    return reply.strip() == VERSION.removeprefix("v")


def build(folder: Path) -> Path:
    """Build Kubo below a folder and return the path of the binary."""
    check_go()
    print(f"Building Kubo {VERSION}; this takes about ten minutes", file=sys.stderr)
    try:
        run("go", "install", f"{MODULE}/cmd/ipfs@{VERSION}", GOBIN=str(folder))
    except subprocess.CalledProcessError:
        # `go install` refuses a module with `replace` lines in its go.mod; `go build` takes them.
        print("`go install` failed; trying `go build` in a copy of the module", file=sys.stderr)
        module = json.loads(run("go", "mod", "download", "-json", f"{MODULE}@{VERSION}"))
        copy = folder / "source"
        shutil.copytree(module["Dir"], copy, copy_function=shutil.copyfile)
        for directory in [copy, *(path for path in copy.rglob("*") if path.is_dir())]:
            directory.chmod(0o755)  # they are read-only in Go's cache, and are removed later
        run("go", "build", "-o", str(folder / "ipfs"), "./cmd/ipfs", cwd=copy)
    return folder / "ipfs"


def check_go() -> None:
    """End with a sentence unless Go is there and new enough."""
    wanted = ".".join(map(str, NEEDED_GO))
    if shutil.which("go") is None:
        sys.exit(
            f"Kubo is built with Go {wanted} or newer, which is not installed: https://go.dev/dl"
        )
    version = run("go", "env", "GOVERSION").strip()
    match = re.match(r"go(\d+)\.(\d+)", version)
    if match and (int(match[1]), int(match[2])) < NEEDED_GO:
        sys.exit(f"Kubo is built with Go {wanted} or newer; this is {version}: https://go.dev/dl")


def run(*command: str, cwd: Path | None = None, **variables: str) -> str:
    """Run a command and return its output; its messages go to our stderr."""
    environment = {**os.environ, **variables}
    done = subprocess.run(  # noqa: S603 - our own commands
        command, cwd=cwd, env=environment, check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout


if __name__ == "__main__":
    main()

"""Build Kubo, IPFS Cluster and age, which some tests run against, from source: `make engines`.

Each binary goes into a cache folder of the user, named after its version, so a second clone builds
nothing. Go's own caches keep what was compiled, so an interrupted build resumes. Prints the path of
Kubo; with `kubo`, `cluster` or `age` as its argument, builds only that one and prints its path.
"""

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

NEEDED_GO = (1, 26)  # the highest `go` line in the go.mod of these


@dataclass(frozen=True)
class Engine:
    """A program that is built from one version of a Go module.

    Attributes:
        title: Its name for people.
        name: Its name in the cache folder.
        module: The Go module.
        version: The version of the module.
        program: The name of the binary, and of its folder below `cmd` in the module.
        ask: The arguments that make it print its version and nothing else.
        others: More programs of the module that are built beside it.
        version_name: The variable that is set to the version when it is linked, if it needs that.
    """

    title: str
    name: str
    module: str
    version: str
    program: str
    ask: tuple[str, ...]
    others: tuple[str, ...] = ()
    version_name: str = ""

    @property
    def binary(self) -> Path:
        """Where `make engines` puts the program, whether it is there or not."""
        cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return Path(cache, "holdfast-engines", f"{self.name}-{self.version}", self.program)

    def __str__(self) -> str:
        return f"{self.title} {self.version}"


KUBO = Engine(
    "Kubo", "kubo", "github.com/ipfs/kubo", "v0.43.0", "ipfs", ask=("version", "--number")
)
CLUSTER = Engine(
    "IPFS Cluster",
    "cluster",
    "github.com/ipfs-cluster/ipfs-cluster",
    "v1.1.6",
    "ipfs-cluster-service",
    ask=("version",),
)
AGE = Engine(
    "age",
    "age",
    "filippo.io/age",
    "v1.3.1",
    "age",
    ask=("--version",),
    others=("age-keygen",),
    version_name="main.Version",
)
ENGINES = {engine.name: engine for engine in (KUBO, CLUSTER, AGE)}


def main() -> None:
    engines = [ENGINES[name] for name in sys.argv[1:] or ENGINES]
    for engine in engines:
        try:
            build_once(engine)
        except subprocess.CalledProcessError as error:
            sys.exit(f"{engine} could not be built: {error}")
        except OSError as error:
            sys.exit(f"{engine} could not be put into the cache folder: {error}")
    print(engines[0].binary)


def build_once(engine: Engine) -> None:
    """Build it unless it is there; a second process waits for the first and then has it."""
    folder = engine.binary.parent
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not runs(engine, engine.binary):
            partial = folder / "partial"
            shutil.rmtree(partial, ignore_errors=True)  # of a build that was interrupted
            partial.mkdir()
            built = build(engine, partial)
            if not runs(engine, built):
                sys.exit(f"What was built does not say that it is {engine}: {built}")
            for program in (*engine.others, engine.program):  # this one last: it is asked for
                (partial / program).replace(folder / program)
            shutil.rmtree(partial, ignore_errors=True)


def runs(engine: Engine, binary: Path) -> bool:
    """Tell whether the binary starts on this machine and is of the wanted version."""
    try:
        reply = run(str(binary), *engine.ask, IPFS_PATH=str(binary.parent / "none"))
    except (OSError, subprocess.CalledProcessError):
        return False
    return reply.strip().removeprefix("v") == engine.version.removeprefix("v")


def build(engine: Engine, folder: Path) -> Path:
    """Build an engine below a folder and return the path of the binary."""
    check_go(engine)
    print(f"Building {engine}; this takes up to ten minutes", file=sys.stderr)
    module = json.loads(run("go", "mod", "download", "-json", f"{engine.module}@{engine.version}"))
    copy = folder / "source"
    shutil.copytree(module["Dir"], copy, copy_function=shutil.copyfile)
    for directory in [copy, *(path for path in copy.rglob("*") if path.is_dir())]:
        directory.chmod(0o755)  # they are read-only in Go's cache, and are removed later
    link = f"-X={engine.version_name}={engine.version}" if engine.version_name else ""
    for program in (engine.program, *engine.others):
        output = str(folder / program)
        run("go", "build", "-ldflags", link, "-o", output, f"./cmd/{program}", cwd=copy)
    return folder / engine.program


def check_go(engine: Engine) -> None:
    """End with a sentence unless Go is there and new enough."""
    needs = f"{engine.title} is built with Go {'.'.join(map(str, NEEDED_GO))} or newer"
    if shutil.which("go") is None:
        sys.exit(f"{needs}, which is not installed: https://go.dev/dl")
    version = run("go", "env", "GOVERSION").strip()
    match = re.match(r"go(\d+)\.(\d+)", version)
    if match and (int(match[1]), int(match[2])) < NEEDED_GO:
        sys.exit(f"{needs}; this is {version}: https://go.dev/dl")


def run(*command: str, cwd: Path | None = None, **variables: str) -> str:
    """Run a command and return its output; its messages go to our stderr."""
    environment = {**os.environ, **variables}
    done = subprocess.run(  # noqa: S603 - our own commands
        command, cwd=cwd, env=environment, check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout


if __name__ == "__main__":
    main()

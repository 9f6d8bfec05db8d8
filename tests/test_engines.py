"""Our CIDs against those of a real Kubo, and the builds by `make engines`."""

import hashlib
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from scripts import build_engines

from holdfast import compute_cid
from tests.engines import ADD_OPTIONS

MIB = 1 << 20
SCRIPT = Path(build_engines.__file__)
# Around the borders of chunks, of a full node (174 leaves are 43.5 MiB) and of one block.
SIZES = [0, 1, 262_144, 262_145, MIB, MIB + 1, 5_000_000, 174 * 262_144, 174 * 262_144 + 1]


@pytest.mark.slow
@pytest.mark.parametrize("profile", ADD_OPTIONS)
def test_files_have_the_cids_that_kubo_gives_them(kubo, profile):
    for size in SIZES:
        data = hashlib.shake_128(str(size).encode()).digest(size)
        theirs = kubo.add(data, **ADD_OPTIONS[profile], trickle=False, hash="sha2-256")
        assert (size, compute_cid(data, profile=profile)) == (size, theirs)


def run_script(*engines, **variables):
    """Run the build with these variables and no others but the machine's own."""
    environment = {"HOME": os.environ.get("HOME", "/"), **variables}
    command = [sys.executable, SCRIPT, *engines]
    return subprocess.run(  # noqa: S603
        command, env=environment, capture_output=True, text=True, check=False
    )


def make_program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("go", "words"),
    [
        (None, "Kubo is built with Go 1.26 or newer, which is not installed: https://go.dev/dl\n"),
        (
            "echo go1.25.3",
            "Kubo is built with Go 1.26 or newer; this is go1.25.3: https://go.dev/dl\n",
        ),
    ],
)
def test_without_a_new_go_one_sentence_says_what_is_missing(tmp_path, go, words):
    if go is not None:
        make_program(tmp_path / "go", go)
    done = run_script(PATH=str(tmp_path), XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert (done.returncode, done.stdout, done.stderr) == (1, "", words)


FAKE_GO = r"""
echo "$@" >> "$LOG"
case "$1" in
  env) echo go1.26.8 ;;
  mod) echo "{\"Dir\": \"$MODULE\"}" ;;
  build) sleep "${SLOW:-0}"; [ -d "$6" ] && cp "$FAKE" "$5" ;;
esac
"""


@pytest.fixture
def fake_go(tmp_path):
    """Variables for a Go that "builds" in no time a program of the wanted version."""
    make_program(tmp_path / "bin/go", FAKE_GO)
    versions = "*cluster*) echo 1.1.6 ;; */age) echo v1.3.1 ;; *) echo 0.43.0 ;;"
    make_program(tmp_path / "fake", f'case "$0" in {versions} esac')
    module = tmp_path / "module"
    for program in ("ipfs", "ipfs-cluster-service", "age", "age-keygen"):
        (module / "cmd" / program).mkdir(parents=True)
    (module / "go.mod").touch()
    for folder in (*module.glob("cmd/*"), module / "cmd", module):
        folder.chmod(0o555)  # as in Go's cache of modules
    return {
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "LOG": str(tmp_path / "log"),
        "FAKE": str(tmp_path / "fake"),
        "MODULE": str(module),
    }


def commands_of(variables):
    return [line.split()[0] for line in Path(variables["LOG"]).read_text().splitlines()]


@pytest.mark.slow
def test_an_engine_is_built_alone_and_once(fake_go, tmp_path):
    """By two at once, and by the second clone."""
    binary = tmp_path / "cache/holdfast-engines/cluster-v1.1.6/ipfs-cluster-service"
    with ThreadPoolExecutor() as pool:
        both = [pool.submit(run_script, "cluster", **fake_go, SLOW="0.5") for _ in range(2)]
    for done in (*(future.result() for future in both), run_script("cluster", **fake_go)):
        assert (done.returncode, done.stdout) == (0, f"{binary}\n")
    assert commands_of(fake_go) == ["env", "mod", "build"]
    assert [path.name for path in binary.parent.parent.iterdir()] == ["cluster-v1.1.6"]
    assert sorted(path.name for path in binary.parent.iterdir()) == [binary.name, "lock"]


def test_what_an_interrupted_or_wrong_build_left_is_replaced(fake_go, tmp_path):
    folder = tmp_path / "cache/holdfast-engines/kubo-v0.43.0"
    good = (tmp_path / "fake").read_text()
    make_program(tmp_path / "fake", "echo 0.41.0")
    done = run_script(**fake_go)
    assert (done.returncode, (folder / "ipfs").exists()) == (1, False)
    assert "does not say that it is Kubo v0.43.0" in done.stderr
    make_program(folder / "ipfs", "echo 0.42.0")
    (folder / "partial/source").mkdir(parents=True, exist_ok=True)
    (folder / "partial/ipfs").write_bytes(b"half")
    (tmp_path / "fake").write_text(good)
    assert run_script(**fake_go).returncode == 0
    assert subprocess.check_output([folder / "ipfs", "version"], text=True) == "0.43.0\n"  # noqa: S603
    assert not (folder / "partial").exists()

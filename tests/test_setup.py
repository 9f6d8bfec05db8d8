"""What `make setup` does where Python has no pip of its own: `scripts/pip_install.sh`."""

import os
import shlex
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parent.parent / "scripts" / "pip_install.sh"


@pytest.fixture
def installed(tmp_path):
    """A function that installs with programs that only write how they were called."""
    (tmp_path / "venv" / "bin").mkdir(parents=True)

    def program(path, *modules):
        modules = "|".join(modules) or "none"
        path.write_text(f'#!/bin/sh\ncase $2 in {modules}) echo "$0" "$@";; *) exit 1;; esac\n')
        path.chmod(0o755)

    def run(python=(), environment=(), *, has_uv=False, before="", folder=""):
        program(tmp_path / "".join(shlex.split(folder)) / "python", *python)
        program(tmp_path / "venv" / "bin" / "python", *environment)
        if has_uv:
            program(tmp_path / "uv", "install")
        path = os.pathsep.join((str(tmp_path), *os.defpath.split(os.pathsep)))
        result = subprocess.run(  # noqa: S603 - our own script
            [SCRIPT, f"{before}{tmp_path}/{folder}python", tmp_path / "venv", "--editable", "a b"],
            env={"PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        return result.returncode, result.stdout.replace(f"{tmp_path}/", ""), result.stderr

    return run


def test_pip_is_used_where_there_is_one(installed):
    code, called, _ = installed(("pip",), has_uv=True)
    assert code == 0
    assert called.startswith("python -m pip --python venv/bin/python install")
    assert called.endswith("--editable a b\n")


def test_python_may_be_several_words(installed):
    code, called, _ = installed(("pip",), before="env ")
    assert code == 0
    assert called.startswith("python -m pip --python venv/bin/python install")


@pytest.mark.parametrize("quote", [r"a\ b/", "'a b'/"])
def test_a_path_may_have_a_space_as_in_a_shell(installed, tmp_path, quote):
    (tmp_path / "a b").mkdir()
    code, called, _ = installed(("pip",), folder=quote)
    assert code == 0
    assert called.startswith("a b/python -m pip --python venv/bin/python install")


def test_without_pip_uv_installs(installed):
    code, called, _ = installed(has_uv=True)
    assert (code, called) == (
        0,
        "uv pip install --quiet --python venv/bin/python --editable a b\n",
    )


def test_without_both_the_environment_gets_a_pip(installed):
    code, called, _ = installed(environment=("ensurepip", "pip"))
    assert (code, called[:29]) == (0, "venv/bin/python -m pip instal")


def test_where_nothing_installs_it_says_what_to_do(installed):
    code, called, complaint = installed()
    assert (code, called) == (1, "")
    assert "has no pip: install pip or uv" in complaint
    assert "make PYTHON=" in complaint

"""The commands of `console` blocks, run in a real shell."""

import os
import re
import shlex
import signal
import subprocess
import tomllib
from importlib import metadata
from pathlib import Path

import urllib3

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# They run until they are interrupted.
NODE = re.compile(r"holdfast node\b|-m holdfast\.node\b")
SERVER = re.compile(rf"{NODE.pattern}|\buvicorn\b")
NODE_ADDRESS = "http://127.0.0.1:5080"


class Console:
    """Runs commands in a folder. Variables that one sets are there for the next."""

    def __init__(self, folder, environment):
        self.folder = folder
        self.environment = environment
        self._variables = folder.parent / "variables"
        self._variables.touch()
        self._server = None
        self._node_address = None

    @staticmethod
    def commands_in(text):
        """Each command of a block, and the output that stands below it."""
        pairs = []
        for line in text.splitlines(keepends=True):
            if pairs and pairs[-1][0].endswith("\\\n"):
                pairs[-1][0] += line
            elif line.startswith("$ "):
                pairs.append([line.removeprefix("$ "), ""])
            else:
                assert pairs, f"output without a command: {line}"
                pairs[-1][1] += line
        return pairs

    @staticmethod
    def program_of(command):
        words = shlex.split(command, comments=True)
        return next((word for word in words if not re.match(r"\w+=", word)), "")

    def run(self, command):
        """The output of `command`, which succeeds."""
        program = self.program_of(command)
        if program == "pip":
            return self._pip(command)
        if program == "make":
            # The targets have tests of their own, or are this very run.
            return self.check(
                ["make", "--dry-run", *shlex.split(command, comments=True)[1:]], cwd=ROOT
            )
        if SERVER.search(command) and "--help" not in command:
            return self._start(command)
        return self._shell(command)

    def check(self, command, *, cwd=None, **variables):
        """The output of a program, which succeeds."""
        result = subprocess.run(  # noqa: S603 - what our documents say
            command,
            cwd=cwd or self.folder,
            env={**self.environment, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert result.returncode == 0, f"{command} ended with {result.returncode}:\n{result.stdout}"
        assert "Traceback" not in result.stdout, result.stdout
        return result.stdout

    def in_place(self, text):
        """`text` with the address of the node that was started last."""
        return text.replace(NODE_ADDRESS, self._node_address or NODE_ADDRESS)

    def close(self):
        """Interrupt the server, if there is one."""
        if self._server is not None:
            os.killpg(self._server.pid, signal.SIGINT)
            rest, _ = self._server.communicate(timeout=120)
            code, self._server = self._server.returncode, None
            assert code in {0, 130, -signal.SIGINT}, (code, rest)
            assert not re.search(r"Traceback|Warning", rest), rest

    def _script(self, command):
        return f"set -a -o pipefail; . {shlex.quote(str(self._variables))}\n{command.strip()}\n"

    def _shell(self, command):
        assert NODE_ADDRESS not in command, "no node was started before"
        keep = f"code=$?; export -p > {shlex.quote(str(self._variables))}; exit $code"
        return self.check(["bash", "-c", self._script(command) + keep])

    def _start(self, command):
        """What a server announces. It runs until the next one does, or the page ends."""
        self.close()
        assert "--port" not in command, "two pages may run at once: leave the port to them"
        self._server = subprocess.Popen(  # noqa: S603 - what our documents say
            ["bash", "-c", self._script(SERVER.sub(r"\g<0> --port=0", command, count=1))],  # noqa: S607
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        said = ""
        while not re.search(r"^Page|running on", said, re.MULTILINE):  # the last that it says
            line = self._server.stdout.readline()
            if not line:
                self._server.communicate()
                self._server = None
                raise AssertionError(f"{command} has ended: {said}")
            said += line
        address = re.search(r"http://[\d.]+:\d+", said)[0]
        with urllib3.PoolManager(timeout=20, retries=False) as pool:
            pool.request("GET", address)  # till it answers
        if NODE.search(command):
            self._node_address = address
        return said

    def _pip(self, command):
        """What a reader would install is there: extras of ours, packages that tests use."""
        words = shlex.split(command, comments=True)
        assert words[:2] == ["pip", "install"], command
        for word in words[2:]:
            name, extras = re.fullmatch(r"([\w-]+|\.)(?:\[([\w,]+)\])?", word).groups()
            if name == ".":  # the clone; what PyPI has under our name is another project
                chosen = set(extras.split(",") if extras else ())
                assert chosen <= set(PROJECT["optional-dependencies"]), word
            else:
                metadata.distribution(name)
        return ""

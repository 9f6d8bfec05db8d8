"""The installed command or another, run as a process: in pipes, or on a real pseudo-terminal."""

import json
import os
import pty
import select
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

from tests.launcher import Launcher

HOLDFAST = str(Path(sys.executable).parent / "holdfast")
# A session leader gets its terminal by opening it; then the command takes the process over.
ON_TERMINAL = (
    "import os, sys; os.close(os.open(sys.argv[1], os.O_RDWR)); os.execv(sys.argv[2], sys.argv[2:])"
)


class Commands:
    """Runs commands in a folder of their own, in an environment that knows nothing of ours."""

    def __init__(self, folder, command=(HOLDFAST,), **variables):
        self.command = command
        self.folder = folder / "work"
        self.folder.mkdir(parents=True)
        self.environment = {
            **base_environment(),
            "HOME": str(folder),
            "XDG_DATA_HOME": str(folder / "data"),
            "XDG_CONFIG_HOME": str(folder / "settings"),
            "XDG_CACHE_HOME": str(folder / "cache"),
            **variables,
        }
        self.user_file = folder / "settings/holdfast/holdfast.toml"

    def write_user_file(self, text):
        self.user_file.parent.mkdir(parents=True, exist_ok=True)
        self.user_file.write_text(text)

    def run(self, *arguments, given=b"", cwd=None, **variables):
        """The finished process, its output as bytes.

        The installed command is forked where that makes no difference: see `tests/launcher.py`.
        """
        words = [str(argument) for argument in arguments]
        folder = cwd or self.folder
        environment = {**self.environment, **variables}
        if self.command == (HOLDFAST,) and launcher().can_run(environment):
            result = launcher().run(
                words, given=given, cwd=folder, environment=environment, timeout=120
            )
        else:
            result = subprocess.run(  # noqa: S603 - our own command
                [*self.command, *words],
                input=given,
                cwd=folder,
                env=environment,
                capture_output=True,
                timeout=120,
                check=False,
            )
        assert b"Traceback" not in result.stderr, result.stderr.decode()
        return result

    def text(self, *arguments, **options):
        """What a command wrote that succeeds without a word on the side; no last line end."""
        result = self.run(*arguments, **options)
        assert (result.returncode, result.stderr) == (0, b""), result
        return result.stdout.decode().removesuffix("\n")

    def json(self, *arguments, **options):
        """The value that a command writes with ``--json``: one line, and nothing else."""
        text = self.text(*arguments, "--json", **options)
        assert len(text.splitlines()) == 1
        return json.loads(text)

    def failure(self, *arguments, **options):
        """The exit code of a command that fails, and the lines that it wrote on the side."""
        result = self.run(*arguments, **options)
        assert result.returncode != 0
        assert result.stdout == b""
        return result.returncode, result.stderr.decode().splitlines()

    def start(self, *arguments, **variables):
        """A process under way, its output as text."""
        return subprocess.Popen(  # noqa: S603 - our own command
            [*self.command, *map(str, arguments)],
            cwd=self.folder,
            env={**self.environment, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def on_terminal(self, *arguments, typed="", signal=None, prompt="", given=None, **variables):
        """The exit code of a command on a terminal, and what the terminal showed.

        `typed` is typed, or the `signal` sent, when the `prompt` stands there; with `given`,
        standard input is a pipe.
        """
        main, side = pty.openpty()
        source, target = (side, None) if given is None else os.pipe()
        process = self._start_on_terminal(
            [str(argument) for argument in arguments],
            os.ttyname(side),
            [source, side, side],
            {**self.environment, "TERM": "xterm-256color", **variables},
        )
        os.close(side)
        if target is not None:
            os.close(source)
            with os.fdopen(target, "wb") as pipe:
                pipe.write(given)
        shown = b""
        deadline = time.monotonic() + 50
        try:
            while time.monotonic() < deadline:
                if select.select([main], [], [], 0.2)[0]:
                    try:
                        piece = os.read(main, 65536)
                    except OSError:  # Linux says EIO where others say that it has ended
                        piece = b""
                    if not piece:
                        break
                    shown += piece
                if typed and prompt.encode() in shown:
                    os.write(main, typed.encode())
                    typed = ""
                if signal and prompt.encode() in shown:
                    process.send_signal(signal)
                    signal = None
            return process.wait(timeout=120), shown.decode().replace("\r\n", "\n")
        finally:
            process.kill()
            os.close(main)

    def _start_on_terminal(self, words, terminal, streams, environment):
        """The process; forked as in `run`."""
        if self.command == (HOLDFAST,) and launcher().can_run(environment):
            return launcher().start(
                words, streams, cwd=self.folder, environment=environment, terminal=terminal
            )
        source, output, errors = streams
        return Started(
            [sys.executable, "-c", ON_TERMINAL, terminal, *self.command, *words],
            cwd=self.folder,
            env=environment,
            stdin=source,
            stdout=output,
            stderr=errors,
            start_new_session=True,
        )


class Started(subprocess.Popen):
    """A process that has ended when `kill` returns."""

    def kill(self):
        super().kill()
        self.wait()


def base_environment():
    """The variables that all commands have."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return {**kept, "PYTHONWARNINGS": "error::ResourceWarning", "COLUMNS": "100"}


@cache
def launcher():
    return Launcher(HOLDFAST, base_environment())


def shell(words):
    """The installed command behind a shell, which adds `words`: ``2>&-``, say."""
    return ("sh", "-c", f'exec "$0" "$@" {words}', HOLDFAST)


def install_provider(folder, name, code):
    """The environment in which the class ``Provider`` in `code` is an installed provider."""
    about = folder / f"{name}-1.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Name: {name}\nVersion: 1\n")
    (about / "entry_points.txt").write_text(f"[holdfast.providers]\n{name} = {name}:Provider\n")
    (folder / f"{name}.py").write_text(code)
    return {"PYTHONPATH": str(folder)}


def node_variables(node, provider="pinning"):
    """The environment that leads to a node."""
    return {
        "HOLDFAST_PROVIDER": provider,
        "HOLDFAST_PROVIDER_TOKEN": node.token,
        "HOLDFAST_PIN_API_URL": node.api_url,
        "HOLDFAST_GATEWAY_URL": node.gateway_url,
    }

"""The installed command or another, run as a process: in pipes, or on a real pseudo-terminal."""

import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from contextlib import ExitStack
from functools import cache, partial
from pathlib import Path

from tests.launcher import Launcher
from tests.support import TOKEN

HOLDFAST = str(Path(sys.executable).parent / "holdfast")
# A session leader gets its terminal by opening it; then the command takes the process over.
ON_TERMINAL = (
    "import os, sys; os.close(os.open(sys.argv[1], os.O_RDWR)); os.execv(sys.argv[2], sys.argv[2:])"
)


class Commands:
    """Runs commands in a folder of their own, in an environment that knows nothing of ours.

    Bars appear after `delay` seconds, if it is not None; but not where `command` is another one.
    """

    def __init__(self, folder, command=(HOLDFAST,), **variables):
        self.command = command
        self.delay = None
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

    def run(self, *arguments, stdin=b"", cwd=None, **variables):
        """The finished process, its output as bytes.

        The installed command is forked where that makes no difference: see `tests/launcher.py`.
        """
        words = [str(argument) for argument in arguments]
        folder = cwd or self.folder
        environment = {**self.environment, **variables}
        if self.command == (HOLDFAST,) and launcher().can_run(environment):
            process = {"cwd": folder, "environment": environment, "delay": self.delay}
            result = launcher().run(words, stdin=stdin, timeout=120, **process)
        else:
            result = subprocess.run(  # noqa: S603 - our own command
                [*self.command, *words],
                input=stdin,
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

    def rows(self, *arguments, **options):
        """The values that a command writes with ``--json``: a line for each."""
        text = self.text(*arguments, "--json", **options)
        return [json.loads(line) for line in text.splitlines()]

    def failure(self, *arguments, **options):
        """The exit code of a command that fails, and the lines that it wrote on the side."""
        result = self.run(*arguments, **options)
        assert result.returncode != 0
        assert result.stdout == b""
        return result.returncode, result.stderr.decode().splitlines()

    def complete(self, words, shell="bash", **variables):
        """The completions of the last of `words`."""
        request = {
            "_HOLDFAST_COMPLETE": f"complete_{shell}",
            "COMP_WORDS": f"holdfast {words}",
            "COMP_CWORD": str(words.count(" ") + 1),
            "_TYPER_COMPLETE_ARGS": f"holdfast {words}",
            "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        }
        return self.text(**request, **variables).splitlines()

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

    def on_terminal(
        self, *arguments, typed="", signal=None, prompt="", stdin=None, stdin_ends="", **variables
    ):
        """The exit code of a command on a terminal, and what the terminal showed.

        `typed` is typed, or the `signal` sent, when the `prompt` stands there; or `typed` has a
        text for each of several prompts. With `stdin`, standard input is a pipe, which ends when
        the text `stdin_ends` stands there.
        """
        main, side = pty.openpty()
        source, target = (side, None) if stdin is None else os.pipe()
        process = self._start_on_terminal(
            [str(argument) for argument in arguments],
            os.ttyname(side),
            [source, side, side],
            {**self.environment, "TERM": "xterm-256color", **variables},
        )
        os.close(side)
        texts = typed if isinstance(typed, dict) else {prompt: typed}
        reactions = [(text, partial(os.write, main, texts[text].encode())) for text in texts]
        if signal:
            reactions.append((prompt, partial(process.send_signal, signal)))
        with ExitStack() as streams:
            streams.callback(os.close, main)
            streams.callback(process.kill)
            if target is not None:
                os.close(source)
                pipe = streams.enter_context(os.fdopen(target, "wb"))
                pipe.write(stdin)
                pipe.flush()
                reactions.insert(0, (stdin_ends, pipe.close))
            shown = _read_terminal(main, reactions)
            return process.wait(timeout=120), shown.decode().replace("\r\n", "\n")

    def _start_on_terminal(self, words, terminal, streams, environment):
        """The process; forked as in `run`."""
        if self.command == (HOLDFAST,) and launcher().can_run(environment):
            process = {"cwd": self.folder, "environment": environment, "delay": self.delay}
            return launcher().start(words, streams, terminal=terminal, **process)
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


def _read_terminal(main, reactions):
    """What a terminal shows until it ends; each reaction is called when its prompt stands there."""
    shown = b""
    deadline = time.monotonic() + 50
    while time.monotonic() < deadline:
        if select.select([main], [], [], 0.2)[0]:
            try:
                piece = os.read(main, 65536)
            except OSError:  # Linux says EIO where others say that it has ended
                break
            if not piece:
                break
            shown += piece
        while reactions and reactions[0][0].encode() in shown:
            reactions.pop(0)[1]()
    return shown


class Started(subprocess.Popen):
    """A process that has ended when `kill` returns."""

    def kill(self):
        super().kill()
        self.wait()


def base_environment():
    """The variables that all commands have."""
    ours = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return {**ours, "PYTHONWARNINGS": "error::ResourceWarning", "COLUMNS": "100"}


@cache
def launcher():
    return Launcher(HOLDFAST, base_environment())


def run_python(*words, **variables):
    """The finished process of Python with these words, its output as text."""
    return subprocess.run(  # noqa: S603 - our own code
        [sys.executable, *map(str, words)],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def shell(words):
    """The installed command behind a shell, which adds `words`: ``2>&-``, say."""
    return ("sh", "-c", f'exec "$0" "$@" {words}', HOLDFAST)


def install_provider(folder, name, code):
    """The environment in which the class ``Provider`` in `code` is an installed provider."""
    package = folder / f"{name}-1.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text(f"Name: {name}\nVersion: 1\n")
    (package / "entry_points.txt").write_text(f"[holdfast.providers]\n{name} = {name}:Provider\n")
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


def server_variables(server, provider="pinning"):
    """The environment that leads to a scripted server."""
    return {
        "HOLDFAST_PROVIDER": provider,
        "HOLDFAST_PROVIDER_TOKEN": TOKEN,
        "HOLDFAST_PIN_API_URL": server.url,
    }


def plain(shown):
    """What a terminal showed, without colours and movements of the cursor."""
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown)

"""Starts the installed command by forking a process that has imported it already.

To start Python and import the command takes several times as long as most commands run. A process
that is forked is a process of its own all the same: with pipes, an environment, a folder and an
exit code. What depends on the start of Python itself must be started as usual.

`python launcher.py PATH` serves at the Unix socket PATH until its standard input ends. A request is
a line of JSON with the three standard streams as descriptors. It may name a terminal, which the
process gets as its own. The reply is the number of the process, then its exit status, each as a
line.
"""

import atexit
import gc
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout, suppress
from importlib import import_module
from pathlib import Path

IMPORTED = (
    *("holdfast.cli.execution", "holdfast.cli.tokens", "holdfast.cli.settings_editor"),
    *("holdfast._sync.providers.local", "holdfast._sync.providers.pinning"),
    "holdfast._sync.transport",
)
READY = b"ready\n"
# Variables that are read when a command runs, or completes; or that `become` applies.
PASSED_ON = (
    *("HOME", "XDG_", "HOLDFAST_", "TERM", "NO_COLOR", "COLUMNS", "LINES", "BROWSER"),
    *("HTTPS_PROXY", "_HOLDFAST_", "COMP_", "_TYPER_", "TZ", "TMPDIR", "PYTHONPATH"),
)


class Launcher:
    """Runs the command `command` in forks of a process that was started with `environment`."""

    def __init__(self, command, environment):
        self._command = command
        self._environment = _without_passed_on(environment)
        self._folder = tempfile.mkdtemp(prefix="holdfast-launcher-")
        self._path = str(Path(self._folder, "socket"))
        self._process = subprocess.Popen(  # noqa: S603 - ourselves
            [sys.executable, __file__, self._path],
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,  # all three are pipes, as they are for a command
        )
        atexit.register(self.close)
        if self._process.stdout.readline() != READY:
            raise RuntimeError(self._process.stdout.read().decode())

    def can_run(self, environment):
        """Tell whether a command in this environment may be forked."""
        return _without_passed_on(environment) == self._environment

    def run(self, arguments, *, stdin, timeout, **setting):
        """Run the command as `subprocess.run` does, with its output captured."""
        pipes = [os.pipe() for _ in range(3)]
        (their_input, our_input), (our_output, their_output), (our_errors, their_errors) = pipes
        theirs = [their_input, their_output, their_errors]
        process = self.start(arguments, theirs, **setting)
        for descriptor in theirs:
            os.close(descriptor)
        with ThreadPoolExecutor(3) as threads:
            threads.submit(_write, our_input, stdin)
            output, errors = (
                threads.submit(_read, descriptor) for descriptor in (our_output, our_errors)
            )
            try:
                status = process.wait(timeout)
            finally:
                process.kill()
        command = [self._command, *arguments]
        return subprocess.CompletedProcess(command, status, output.result(), errors.result())

    def start(self, arguments, streams, *, cwd, environment, terminal=None, delay=None):
        """Start the command with these three descriptors, on the terminal of this name, if any.

        Bars appear after `delay` seconds, if it is given.
        """
        request = {
            "argv": [self._command, *arguments],
            "cwd": str(cwd),
            "env": environment,
            "terminal": terminal,
            "delay": delay,
        }
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(self._path)
        line = json.dumps(request).encode() + b"\n"
        sent = socket.send_fds(connection, [line], streams)
        connection.sendall(line[sent:])
        return _Process(connection)

    def close(self):
        """End the process, and all of it."""
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


class _Process:
    """A process that was forked, with the methods of `subprocess.Popen`."""

    def __init__(self, connection):
        self._connection = connection
        self._replies = connection.makefile("r")
        self.pid = int(self._replies.readline())
        self._status = None

    def send_signal(self, number):
        os.kill(self.pid, number)

    def wait(self, timeout=None):
        if self._status is None:
            self._connection.settimeout(timeout)
            self._status = int(self._replies.readline())
        return self._status

    def kill(self):
        """End it, if it has not ended, and hear of it."""
        if self._status is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        self._replies.close()
        self._connection.close()


def _write(descriptor, data):
    with suppress(BrokenPipeError), os.fdopen(descriptor, "wb", buffering=0) as pipe:
        while data:
            data = data[pipe.write(data) :]


def _read(descriptor):
    with os.fdopen(descriptor, "rb") as pipe:
        return pipe.read()


def _without_passed_on(environment):
    return {name: value for name, value in environment.items() if not name.startswith(PASSED_ON)}


def serve(path):
    """Fork for each request; return the arguments of a command in the process that is to run it."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    lifeline = os.dup(0)  # it ends with the process that has started us
    os.write(1, READY)
    while True:
        ready, _, _ = select.select([listener, lifeline], [], [])
        if lifeline in ready:
            os._exit(0)
        connection, _ = listener.accept()
        if os.fork():
            connection.close()
            continue
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        listener.close()
        os.close(lifeline)
        line, descriptors, _, _ = socket.recv_fds(connection, 1 << 16, 3)
        while not line.endswith(b"\n"):
            line += connection.recv(1 << 16)
        child = os.fork()
        if child:
            connection.sendall(b"%d\n" % child)
            for descriptor in (0, 1, *descriptors):
                os.close(descriptor)
            _, status = os.waitpid(child, 0)
            connection.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
            os._exit(0)
        connection.close()
        for number, descriptor in enumerate(descriptors):
            os.dup2(descriptor, number)
            os.close(descriptor)
        request = json.loads(line)
        if request["terminal"] is not None:
            # A session leader gets its terminal by opening it.
            os.setsid()
            os.close(os.open(request["terminal"], os.O_RDWR))
            # As Python does when it starts: how a stream is buffered depends on what is behind it.
            for number, name in enumerate(("stdin", "stdout", "stderr")):
                old = getattr(sys, name)
                stream = open(  # noqa: SIM115
                    number, old.mode, encoding=old.encoding, errors=old.errors, closefd=False
                )
                setattr(sys, name, stream)
        return request


def main():
    from holdfast.cli.app import COMMANDS  # noqa: PLC0415
    from holdfast.cli.execution import run  # noqa: PLC0415
    from holdfast.cli.main import main  # noqa: PLC0415

    for name in (*IMPORTED, *(f"holdfast.cli.{module}" for module in COMMANDS.values())):
        import_module(name)

    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):  # noqa: PTH123
        for words in (["cid", os.devnull], ["--help"]):  # for all that they import
            run(words)
    gc.collect()
    gc.freeze()  # what is there now is never looked at again, and so stays shared
    become(serve(sys.argv[1]))
    end_with(main)


def end_with(main):
    """Run `main` and end as Python does, but leave its memory to the system.

    To take all objects apart, one by one, would take longer than most commands.
    """
    try:
        main()
    except SystemExit as end:
        threading._shutdown()  # this and the next: what Python does when it ends
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError, AttributeError):
                stream.flush()
        os._exit(end.code)


def become(request):
    """Make this process what one would be that was started as usual."""
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    sys.argv = request["argv"]
    time.tzset()
    tempfile.tempdir = None
    sys.path[:0] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    if request["delay"] is not None:
        from holdfast.cli import output  # noqa: PLC0415

        output.DELAY = request["delay"]
        if not output.DELAY:
            output.threading.Timer.start = output.threading.Timer.run


if __name__ == "__main__":
    main()

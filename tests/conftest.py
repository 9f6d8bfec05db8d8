import gc
import importlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path

import pytest
from bench.peers import pip_install
from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import none

from holdfast.testing import ScriptedServer, running_node
from tests.browser import Visit, running_browser
from tests.clusters import running_cluster
from tests.commands import Commands
from tests.disks import MEMORY, disk, has_room, in_memory, mount, unmount
from tests.engines import running_kubo

# A machine that stalls is no fault of the code: nothing fails because one example took long.
settings.register_profile("steady", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steady")

# Under `nohup`, or in the background of a script, signals are ignored: by our processes as well.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Where pytest makes its folders: in memory, else the tests mostly wait for the disk.
if has_room(8 << 30):
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


# Generated tests that `make test` runs: of what is written by hand in both colours, or differs
# between tasks and threads. The others test the same logic a second time, and are slow tests.
BOTH_COLOURS = {
    *("transport", "connection_loss", "wrong_replies", "limits_of_replies"),
    *("lifecycle", "many", "provider_contract"),
}


def only_in_the_slow_run(path):
    """Whether a module has generated tests of logic that is the same in both colours."""
    return path.parent.name == "_sync" and path.stem.removeprefix("test_") not in BOTH_COLOURS


def pytest_ignore_collect(collection_path, config):
    """Do not import modules that have no test for the quick run."""
    if config.option.markexpr == "not slow" and only_in_the_slow_run(collection_path):
        return True
    return None  # another plugin may decide


def pytest_collection_modifyitems(items):
    for item in items:
        if only_in_the_slow_run(item.path):
            item.add_marker(pytest.mark.slow)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session):
    """Collect without the garbage collector, which would look at all of it again and again."""
    run_one_example()  # before `freeze`: Hypothesis would not see who holds its generator after it
    gc.disable()
    try:
        share_compiling(session.config)
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@settings(max_examples=1, database=None)
@given(none())
def run_one_example(_):
    """Let Hypothesis make the random generator of this thread."""


def share_compiling(config):
    """Let the workers share the compiling of test modules, which takes seconds in a new clone.

    Each imports all of them, starting at another one, and finds most of them compiled already.
    """
    worker = getattr(config, "workerinput", None)
    if worker is None or config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        return
    folder = Path(__file__).parent
    names = [
        ".".join(path.relative_to(folder.parent).with_suffix("").parts)
        for path in sorted(folder.rglob("test_*.py"))
        if not pytest_ignore_collect(path, config)
    ]
    first = len(names) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
    for name in names[first:] + names[:first]:
        importlib.import_module(name)


@pytest.fixture(scope="session", autouse=True)
def no_resolver():
    """No resolver is asked for names that are never known (RFC 6761): it may take seconds."""
    ask = socket.getaddrinfo

    def look_up(host, *arguments, **options):
        name = host.decode() if isinstance(host, bytes) else host
        if name is not None and name.endswith((".invalid", ".example")):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return ask(host, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", look_up)
        yield


@pytest.fixture
def public_folder():
    """A folder that other users of this machine can reach; pytest's own are closed to them."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture
def memory_folder():
    with in_memory() as folder:
        yield folder


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 8 MiB."""
    with disk(tmp_path / "disk", "size=8m") as folder:
        yield folder


@pytest.fixture
def read_only_disk():
    """Something that makes a folder a read-only disk."""
    mounted = []

    def remount(folder):
        mount(folder, "--bind", str(folder))
        mounted.append(folder)
        mount(folder, "-o", "remount,ro,bind")

    yield remount
    for folder in mounted:
        unmount(folder)


@pytest.fixture
def home(tmp_path, monkeypatch):
    """The user's file in this process; it and the current folder are empty."""
    for name in [*os.environ]:
        if name.startswith("HOLDFAST_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    file = tmp_path / "settings/holdfast/holdfast.toml"
    file.parent.mkdir(parents=True)
    file.touch()
    return file


@pytest.fixture
def server():
    with ScriptedServer() as server:
        yield server


@pytest.fixture
def other_server():
    with ScriptedServer() as server:
        yield server


@pytest.fixture(scope="module")
def node():
    """One node for all tests of a module: to start and stop it takes longer than most tests."""
    with in_memory() as folder, running_node(folder) as node:
        yield node


@pytest.fixture
def empty_node():
    """A node of a test's own, for one that looks at all that the node holds, or breaks it."""
    with in_memory() as folder, running_node(folder) as node:
        yield node


@pytest.fixture
def no_noise(capfd):
    """A fault that a test asked for is nothing for the node to complain of."""
    yield
    assert capfd.readouterr().err == ""


@pytest.fixture
def commands(memory_folder):
    return Commands(memory_folder)


@pytest.fixture(scope="session")
def kubo():
    with in_memory() as folder, running_kubo(folder) as kubo:
        yield kubo


@pytest.fixture(scope="session")
def trustless_kubo():
    """Kubo whose gateway answers only trustless requests: 406 to a plain GET."""
    with in_memory() as folder, running_kubo(folder, trustless_only=True) as kubo:
        yield kubo


@pytest.fixture(scope="session")
def cluster():
    """Three Kubos and their cluster peers, for tests that leave all of them running."""
    with in_memory() as folder, running_cluster(folder) as cluster:
        yield cluster


@pytest.fixture
def own_cluster(memory_folder):
    with running_cluster(memory_folder) as cluster:
        yield cluster


@pytest.fixture
def salt():
    """Text that makes content new to an engine that all tests share."""
    return os.urandom(8).hex()


@pytest.fixture
def salted_folder(tmp_path, salt):
    """A folder of all kinds of entries, whose content is new to an engine."""
    root = tmp_path / "photos"
    (root / "empty").mkdir(parents=True)
    (root / "2024").mkdir()
    (root / "2024" / "a.txt").write_text(salt)
    (root / "large.bin").write_bytes(os.urandom(3_000_000))
    (root / "link").symlink_to("2024/a.txt")
    return root


@pytest.fixture(scope="session")
def install_packages(tmp_path_factory):
    """A function that installs what the package.json of a folder names, from the npm registry."""
    fcntl = pytest.importorskip("fcntl", reason="needs file locks as POSIX has them")
    command = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts"]

    def install(folder):
        # Several workers may come here at once.
        with (tmp_path_factory.getbasetemp().parent / "npm.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            manifest = (folder / "package.json").read_text()
            installed = folder / "node_modules" / ".installed"
            if not installed.exists() or installed.read_text() != manifest:
                subprocess.run(command, cwd=folder, check=True, capture_output=True)  # noqa: S603
                installed.write_text(manifest)
        return folder

    return install


@pytest.fixture(scope="session")
def javascript_packages(install_packages):
    """The clients in JavaScript."""
    return install_packages(Path(__file__).parent / "js") / "node_modules"


@pytest.fixture(scope="session")
def python_clients(tmp_path_factory):
    """The folder with other people's clients in Python, at the versions in requirements.txt."""
    fcntl = pytest.importorskip("fcntl", reason="needs file locks as POSIX has them")
    here = Path(__file__).parent
    requirements = here / "python_clients" / "requirements.txt"
    folder = here.parent / ".venv" / "python-clients"
    complete = folder / ".complete"
    with (tmp_path_factory.getbasetemp().parent / "pip.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not complete.exists() or complete.read_text() != requirements.read_text():
            shutil.rmtree(folder, ignore_errors=True)
            command = pip_install(folder, "--requirement", str(requirements))
            subprocess.run(command, check=True, capture_output=True)  # noqa: S603
            complete.write_text(requirements.read_text())
    return folder


@pytest.fixture(scope="module")
def browser():
    with running_browser() as browser:
        yield browser


@pytest.fixture
def visit(browser, empty_node):
    visit = Visit(browser, empty_node)
    yield visit
    visit.close()

"""Encrypted views, seen from outside: what is sent to providers, and what is left on disk.

`HOLDFAST_WIRE_CALLS=1000` makes so many random calls in the slow run.
"""

import hashlib
import io
import json
import logging
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
from contextlib import ExitStack, closing

import pytest

from holdfast import Client
from holdfast.content.age.keys import HybridIdentity, Identity
from holdfast.errors import NetworkError
from holdfast.protocol import pinata
from tests._sync import wire_calls
from tests.node_process import ON_LINUX, NodeProcess
from tests.programs import run_measured
from tests.tus import LARGEST, PIECE
from tests.wire import (
    KEY_MARK,
    MARK,
    Recorder,
    assert_never_two_ciphertexts,
    ciphertexts,
    leaking_files,
    leaks,
    mark_file_keys,
    marked,
    probes,
    requests_in,
)

MINE = HybridIdentity((KEY_MARK + os.urandom(4)) * 3 + os.urandom(2))
YOURS = Identity.generate()
SECRETS = probes(MINE)
RETRIES = {"attempts": 6, "base": 0.01, "cap": 0.05}
CALLS = int(os.environ.get("HOLDFAST_WIRE_CALLS", "100"))


def random_limits(seed):
    """Return limits for connections: each is cut, many of them soon."""
    chance = random.Random(seed)  # noqa: S311
    return lambda: int(2_000_000 * chance.random() ** 3)


def sent_secrets(*recorders):
    """Return the secrets in what was sent."""
    return [
        leaks(sent, SECRETS)
        for one in recorders
        for sent in one.connections
        if leaks(sent, SECRETS)
    ]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with `home`, in which everything is that is left behind."""
    for name in ("here", "temporary"):
        (tmp_path / "home" / name).mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for kind in ("DATA", "CONFIG", "CACHE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path / "home" / kind.lower()))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "home/temporary"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def fields_for(url, token, home, **more):
    return {
        "provider": "pinning",
        "provider_token": token,
        "pin_api_url": url,
        "gateway_url": f"{url}/ipfs",
        "cache_path": str(home / "cache"),
        "cache_bytes": 100_000_000,
        "retries": RETRIES,
        **more,
    }


# No plaintext leaves


def test_the_search_finds_secrets(node, folder):
    """In each way in which the tests below search, and in what is not encrypted."""
    for text in (
        MINE.text.reveal()[40:56].encode(),
        marked(16, 3).encode(),
        marked(16, 8).encode(),
    ):
        assert leaks(b"..." + text + b"...", SECRETS)
    with (
        Recorder(node.api_url) as recorder,
        Client.init(**fields_for(recorder.url, node.token, folder / "home")) as client,
    ):
        client.upload(marked(64, 0).encode())
        client.store({"key": marked(64, 0)})
    assert len(sent_secrets(recorder)) >= 1
    (folder / "home/log").write_text(MARK)
    assert leaking_files(SECRETS, folder / "home") == {folder / "home/log"}


def test_no_plaintext_is_sent_or_left(empty_node, folder, monkeypatch):
    home, node = folder / "home", empty_node
    mark_file_keys(monkeypatch.setattr)
    handler = logging.FileHandler(home / "log")
    logger = logging.getLogger("holdfast")
    monkeypatch.setattr(logger, "handlers", [*logger.handlers, handler])
    monkeypatch.setattr(logger, "level", logging.DEBUG)
    with closing(handler), Recorder(node.api_url, random_limits("quick")) as recorder:
        settings = {
            "local": {"path": str(home / "store"), "cache_path": str(home / "cache")},
            "pinning": fields_for(recorder.url, node.token, home),
        }
        plan = {"identity": MINE.text.reveal(), "reader": YOURS.recipient.text}
        (folder / "plan").write_text(json.dumps({**plan, "settings": settings}))
        wire_calls.run(folder, 30)
        assert recorder.cuts > 0
    rows = rows_in(folder)
    assert {row.get("kind") for row in rows if row["at"] == "pinning"} >= {"read", "large"}
    assert sum("error" in row for row in rows) < 5
    assert sent_secrets(recorder) == []
    payloads = ciphertexts(recorder.connections, MINE)
    assert all(key.startswith(KEY_MARK) for key, _ in payloads)
    assert len(payloads) >= 5
    assert_never_two_ciphertexts(payloads)
    assert leaking_files(SECRETS, home, node.repository.path) == set()
    assert [path.name for path in home.joinpath("temporary").iterdir()] == []


@pytest.mark.slow
@pytest.mark.timeout(600 + 3 * CALLS)
def test_no_plaintext_is_sent_or_left_with_kills(kubo, folder):
    """Processes of both colours make the calls, and are killed again and again."""
    home, chance = folder / "home", random.Random("kills")  # noqa: S311
    with ExitStack() as stack:
        profile = ("--v3-profile", "unixfs-v1-2025")
        node = stack.enter_context(closing(NodeProcess(folder / "store", *profile)))
        urls = {"pinning": node.api_url, "pinata": node.api_url, "kubo": kubo.api_url}
        recorders = {
            name: stack.enter_context(Recorder(url, random_limits(name)))
            for name, url in urls.items()
        }
        settings = {
            name: fields_for(recorder.url, node.token, home, provider=name)
            for name, recorder in recorders.items()
        }
        for name in ("gateway_url", "provider_token"):
            del settings["kubo"][name]
        plan = {"identity": MINE.text.reveal(), "reader": YOURS.recipient.text}
        (folder / "plan").write_text(json.dumps({**plan, "settings": settings}))
        (folder / "rows").touch()
        kills = 0
        for number in range(CALLS):  # at most so many processes
            colour = ("blocking", "async")[number % 2]
            command = [sys.executable, "-m", "tests.wire_worker", str(folder), str(CALLS), colour]
            process = subprocess.Popen(command)  # noqa: S603
            try:
                limit = None if number > CALLS // 4 else chance.uniform(1, 4)
                assert process.wait(limit) == 0
                break
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.wait()
                kills += 1
        rows = rows_in(folder)
        assert len(rows) == CALLS
        assert kills >= 3
        connections = [sent for one in recorders.values() for sent in one.connections]
        assert sum(recorder.cuts for recorder in recorders.values()) >= 10
        # What a killed call has not finished is finished by the next one of that kind, not by us.
        assert sent_secrets(*recorders.values()) == []
        assert_never_two_ciphertexts(ciphertexts(connections, MINE))
        assert leaking_files(SECRETS, home, folder / "store", kubo.folder) <= set(
            (home / "here/copy").rglob("*")
        )
    for name in ("pinning", "pinata", "kubo", "copies"):
        of_name = [row for row in rows if row["at"] == name]
        errors = [row["error"] for row in of_name if "error" in row]
        assert len(errors) < len(of_name) / 2, errors


def rows_in(folder):
    return [json.loads(line) for line in (folder / "rows").read_text().splitlines()]


# Sources that change


class ChangingFile(io.BytesIO):
    """A file of the caller, of which the system knows nothing."""

    def change(self, position):
        buffer = self.getbuffer()
        buffer[position] ^= 1
        del buffer


@pytest.fixture
def recorder(node):
    with Recorder(node.api_url) as recorder:
        yield recorder


def cut_once(recorder, limit, on_cut):
    """Cut the first connection that sends so many bytes, and call `on_cut` before."""
    recorder.limit = lambda: limit if recorder.cuts == 0 else None
    recorder.on_cut = on_cut


def view_of(client):
    return client.encrypted(identities=[MINE.text])


@pytest.mark.parametrize("provider", ["pinning", "pinata"])
def test_a_file_that_changes_between_attempts_is_not_sent_again(
    node, recorder, folder, monkeypatch, provider
):
    """As one form to the one, in pieces to the other."""
    monkeypatch.setattr(pinata, "LARGEST_FORM", LARGEST)
    monkeypatch.setattr(pinata, "PIECE_SIZE", PIECE)
    file = ChangingFile(os.urandom(3_000_000))
    fields = fields_for(recorder.url, node.token, folder / "home", provider=provider)
    with Client.init(**fields) as client:
        # In the chunk in which the connection is cut: the node may have those before.
        cut_once(recorder, 200_000, lambda: file.change(200_000))
        with pytest.raises(OSError, match="was written to") as caught:
            view_of(client).upload(file)
        assert not isinstance(caught.value, NetworkError)
        file.seek(0)
        record = view_of(client).upload(file)
        assert view_of(client).download(record.cid).read() == file.getvalue()
    payloads = ciphertexts(recorder.connections, MINE)
    assert len(payloads) == 2
    assert_never_two_ciphertexts(payloads)


def test_a_file_of_a_folder_that_changes_between_attempts_is_not_sent_again(node, recorder, folder):
    path = folder / "sources/a"
    path.parent.mkdir()
    path.write_bytes(os.urandom(300_000))
    before = path.stat()

    def change():
        with path.open("r+b") as file:
            file.write(b"other bytes")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    with Client.init(**fields_for(recorder.url, node.token, folder / "home")) as client:
        cut_once(recorder, 200_000, change)
        with pytest.raises(OSError, match="was written to"):
            view_of(client).upload(path.parent)
        record = view_of(client).upload(path.parent)
        assert view_of(client).download(f"{record.cid}/a").read() == path.read_bytes()
    payloads = ciphertexts(recorder.connections, MINE)
    assert len(payloads) == 2
    assert_never_two_ciphertexts(payloads)


# Processes that are killed

CHILD = """
import json, os, pathlib, signal, sys
from holdfast import Client
from holdfast.content.age.keyring import Keyring
from holdfast.protocol import pinata
from holdfast.sources.sources import Source
from tests.tus import LARGEST, PIECE

pinata.LARGEST_FORM, pinata.PIECE_SIZE = LARGEST, PIECE
plan, option, method, *arguments = sys.argv[1:]
fields, key = json.loads(plan)

if option == "forgetful":
    def identify(source, identify=Source.identify):
        return {name: value for name, value in identify(source).items() if name != "ctime_ns"}
    Source.identify = identify

if option.startswith("decrypted "):
    def decrypt(keyring, read, decrypt=Keyring.decrypt):
        left = int(option.split()[1])
        for piece in decrypt(keyring, read):
            yield piece
            left -= len(piece)
            if left <= 0:
                os.kill(os.getpid(), signal.SIGKILL)
    Keyring.decrypt = decrypt

with Client.init(**fields) as client:
    view = client.encrypted(identities=[key])
    try:
        print(getattr(view, method)(*arguments).cid if method == "upload" else
              getattr(view, method)(arguments[0], to=arguments[1]))
    except OSError as error:
        print(type(error).__name__, error)
"""


class Calls:
    """Calls of a view in processes of their own, which reach the node through a recorder."""

    def __init__(self, node, recorder, folder, **more):
        self._recorder = recorder
        fields = fields_for(recorder.url, node.token, folder / "home", **more)
        self._plan = json.dumps([fields, MINE.text.reveal()])

    def start(self, *arguments, option=""):
        command = [sys.executable, "-c", CHILD, self._plan, option, *map(str, arguments)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603

    def run(self, *arguments, option=""):
        """Return what a call prints."""
        output, _ = self.start(*arguments, option=option).communicate(timeout=120)
        return output.strip()

    def kill(self, *arguments, option="", sent=None, received=None):
        """Kill a call when it has sent or received so many bytes, or when the option does it."""
        recorder = self._recorder
        recorder.limit = lambda: sent
        recorder.reply_limit = None if received is None else recorder.received + received
        process = self.start(*arguments, option=option)
        recorder.on_cut = process.kill
        process.communicate(timeout=120)
        assert process.returncode == -signal.SIGKILL
        recorder.limit, recorder.reply_limit, recorder.on_cut = lambda: None, None, lambda: None


def random_file(folder, size):
    path = folder / "sources/large.bin"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(os.urandom(size))
    return path


@pytest.mark.slow
@pytest.mark.parametrize("how", ["forgetful", "other times", "another file"])
def test_a_file_that_changes_between_processes_gets_a_new_key(node, recorder, folder, how):
    """Its time is set back, and its beginning and end are as before.

    In one case even the time of its status is forgotten: only the tags show that it has changed.
    """
    calls = Calls(node, recorder, folder, provider="pinata")
    path = random_file(folder, 3_000_000)
    before = path.stat()
    calls.kill("upload", path, option=how, sent=1_600_000)
    if how == "another file":
        other = path.with_name("other")
        other.write_bytes(path.read_bytes())
        other.replace(path)
    with path.open("r+b") as file:
        file.seek(1_200_000)
        file.write(b"other bytes")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    outcome = calls.run("upload", path, option=how)
    if how == "forgetful":
        assert outcome.startswith("OSError large.bin was written to")
        outcome = calls.run("upload", path, option=how)
    with Client.init(node.config) as client:
        assert view_of(client).download(outcome).read() == path.read_bytes()
    payloads = ciphertexts(recorder.connections, MINE)
    assert len(payloads) == 2
    assert_never_two_ciphertexts(payloads)


@pytest.mark.slow
def test_a_killed_upload_continues_with_the_same_bytes(node, recorder, folder):
    calls = Calls(node, recorder, folder, provider="pinata")
    path = random_file(folder, 5_000_000)
    for sent in (2_000, 900_000, 1_300_000, 300_000, 700_000):
        calls.kill("upload", path, sent=sent)
    cid = calls.run("upload", path)
    with Client.init(node.config) as client:
        assert view_of(client).download(cid).read() == path.read_bytes()
    payloads = ciphertexts(recorder.connections, MINE)
    ((_, pieces),) = payloads.items()
    assert_never_two_ciphertexts(payloads)
    assert sum(len(piece) for _, piece in pieces) < 5_000_000 + 5 * 2 * PIECE


@pytest.mark.slow
@pytest.mark.parametrize("method", ["download", "download_folder"])
def test_a_killed_download_continues(node, recorder, folder, method):
    path, target = random_file(folder, 20_000_000), folder / "home/here/copy"
    for number in range(3):
        path.with_name(f"{number}").write_bytes(os.urandom(4_000_000))
    whole = path if method == "download" else path.parent
    with Client.init(node.config) as client:
        cid = view_of(client).upload(whole).cid
    calls = Calls(node, recorder, folder)
    calls.kill(method, cid, target, received=6_000_000)
    calls.kill(method, cid, target, received=9_000_000)
    # A file is decrypted while it is downloaded, a folder when all of it is there.
    decrypted, most = (18_000_000, 3_000_000) if method == "download" else (2_000_000, 100_000)
    calls.kill(method, cid, target, option=f"decrypted {decrypted}")
    received = recorder.received
    assert calls.run(method, cid, target)
    assert recorder.received - received < most  # nothing is fetched a second time
    for file in [path] if method == "download" else path.parent.iterdir():
        copy = target if method == "download" else target / file.name
        assert copy.read_bytes() == file.read_bytes()
    if method == "download":  # it went on after the bytes that were saved
        fields = [fields for sent in recorder.connections for _, fields, _ in requests_in(sent)]
        starts = [re.match(r"bytes=(\d+)-$", row.get("range", "")) for row in fields]
        assert [start for start in starts if start and int(start[1]) > 1 << 20]


# Memory

MEASURED = """
import json, sys
from pathlib import Path
from holdfast import Client

plan, provider, path, target = sys.argv[1:]
fields, key = json.loads(plan)
with Client.init(**{**fields, "provider": provider}) as client:
    view = client.encrypted(identities=[key])
    view.retrieve(view.store([1]).cid)  # all that is imported when it is used is there
    idle = start_measuring()
    cid = view.upload(path).cid
    up = peak_since(idle)
    idle = start_measuring()
    view.download(cid, to=target)
    print(up, peak_since(idle))
"""


@pytest.mark.slow
@ON_LINUX
@pytest.mark.timeout(900)
@pytest.mark.parametrize("provider", ["pinning", "pinata"])
def test_a_large_file_takes_little_memory(folder, provider):
    size = int(os.environ.get("HOLDFAST_WIRE_MIB", "256")) << 20
    path, target = folder / "large.bin", folder / "copy"
    pattern = os.urandom(1 << 20)
    with path.open("wb") as file:
        for number in range(size >> 20):
            file.write(number.to_bytes(8, "big") + pattern[8:])
    with closing(NodeProcess(folder / "store")) as node:
        fields = fields_for(node.api_url, node.token, folder / "home", cache_bytes=0)
        plan = json.dumps([fields, MINE.text.reveal()])
        up, down = map(int, run_measured(MEASURED, plan, provider, path, target).split())
    with path.open("rb") as one, target.open("rb") as other:
        assert (
            hashlib.file_digest(one, "sha256").digest()
            == hashlib.file_digest(other, "sha256").digest()
        )
    assert max(up, down) < 64 << 20

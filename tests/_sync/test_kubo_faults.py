# WARNING: this file is generated from tests/_async/test_kubo_faults.py
# by scripts/generate_sync.py. Change the original instead.
"""Faults of a real Kubo, each a typed error: it is down, full, killed, or lacks the content."""

import os
import socket
import threading
from contextlib import suppress

import pytest

from holdfast import Client, compute_cid
from holdfast.errors import (
    AuthenticationError,
    NotFoundError,
    PermissionDeniedError,
    ProviderError,
    RequestTimeoutError,
)
from holdfast.testing.provider_cases import memory_below
from tests.disks import disk
from tests.engines import running_kubo, stopped
from tests.support import NOBODY_HAS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

WRITES = ["/api/v0/add", "/api/v0/dag/import", "/api/v0/pin"]
ACCESS = {
    "alice": {"AuthSecret": "bearer:sekrit-0123", "AllowedPaths": ["/api/v0"]},
    "bob": {"AuthSecret": "basic:bob:pass-0123", "AllowedPaths": ["/api/v0"]},
    "carol": {"AuthSecret": "bearer:only-version", "AllowedPaths": ["/api/v0/version"]},
    "dan": {"AuthSecret": "bearer:only-add-0123", "AllowedPaths": ["/api/v0/add"]},
    "erin": {"AuthSecret": "bearer:no-reads-0123", "AllowedPaths": WRITES},
}


@pytest.fixture
def guarded_kubo(memory_folder):
    """A Kubo that asks for credentials."""

    def change(settings):
        settings["API"] = {"Authorizations": ACCESS}

    with running_kubo(memory_folder, change=change) as kubo:
        yield kubo


@pytest.fixture
def online_kubo(memory_folder):
    """A Kubo that asks the network, in which nobody is."""
    with running_kubo(memory_folder, is_online=True) as kubo:
        yield kubo


@pytest.fixture
def steady_kubo(memory_folder):
    """A Kubo that has the same addresses after a restart."""
    with socket.create_server(("127.0.0.1", 0)) as one:
        port = one.getsockname()[1]

    def change(settings):
        settings["Addresses"]["API"] = f"/ip4/127.0.0.1/tcp/{port}"

    with running_kubo(memory_folder, change=change) as kubo:
        yield kubo


def test_credentials(guarded_kubo):
    for token in ("sekrit-0123", "bob:pass-0123"):
        config = guarded_kubo.provider_config(provider_token=token)
        with Client.init(config) as client:
            assert client.test_connection() is True
            record = client.upload(token.encode(), name="x")
            assert (client.download(record.cid)).text() == token
    for token in (None, "sekrit-0124", "bob:wrong", "Sekrit-0123"):
        config = guarded_kubo.provider_config(provider_token=token)
        with Client.init(config) as client:
            for call in (client.test_connection, client.pins, lambda: client.store([1])):
                with pytest.raises(AuthenticationError, match="Kubo RPC Access Denied") as caught:
                    call()
                assert caught.value.status == 403
    config = guarded_kubo.provider_config(provider_token="only-version")
    with Client.init(config) as client:
        with pytest.raises(AuthenticationError):
            client.store([1])


@pytest.mark.parametrize(
    ("token", "lacking"),
    [
        ("only-version", "add, dag/import, pin/add, pin/ls, pin/rm, block/get, cat, dag/export"),
        ("only-add-0123", "dag/import, pin/add, pin/ls, pin/rm, block/get, cat, dag/export"),
        ("no-reads-0123", "block/get, cat, dag/export"),
    ],
)
def test_a_token_that_is_not_for_all_commands(guarded_kubo, token, lacking):
    """Kubo says the same to a wrong token and to one that may not do this."""
    with Client.init(guarded_kubo.provider_config(provider_token=token)) as client:
        with pytest.raises(PermissionDeniedError) as caught:
            client.test_connection()
    error = caught.value
    assert str(error) == f"Kubo accepts the token, but not for {lacking}"
    assert (error.status, error.details[:22]) == (403, "Kubo RPC Access Denied")
    paths = ", ".join(f'"/api/v0/{command}"' for command in lacking.split(", "))
    assert error.__notes__[0].startswith(f"add {paths} to AllowedPaths of this user")


def test_a_token_that_need_not_read(guarded_kubo):
    """What is asked has no effect, and a gateway needs no right to read."""
    admin = guarded_kubo.provider_config(provider_token="sekrit-0123")
    writer = guarded_kubo.provider_config(
        provider_token="no-reads-0123", gateway_url=guarded_kubo.gateway_url
    )
    with Client.init(admin) as client:
        before = client.pins()
        assert client.test_connection() is True
        with Client.init(writer) as other:
            assert other.test_connection() is True
            record = other.store([1, 2])
            assert other.retrieve(record.cid) == [1, 2]
            other.revoke(record.cid)
        assert client.pins() == before


def test_content_that_nobody_has_takes_bounded_time(online_kubo):
    config = online_kubo.provider_config(timeouts={"total": 6})
    with Client.init(config) as client:
        for call in (client.download, client.retrieve, client.open):
            with pytest.raises(RequestTimeoutError, match=NOBODY_HAS):
                call(NOBODY_HAS)
        # Kubo may have begun its reply with progress: then it cannot say why it stopped.
        with pytest.raises((RequestTimeoutError, ProviderError), match=NOBODY_HAS):
            client.pin(NOBODY_HAS)
        assert client.pins(cid=NOBODY_HAS) == []


def test_a_kubo_that_stops_answering_is_a_timeout(steady_kubo):
    config = steady_kubo.provider_config(timeouts={"read": 1, "write": 1, "total": 2})
    with Client.init(config) as client:
        record = client.upload(b"known")
        with stopped(steady_kubo):
            for call in (
                client.test_connection,
                client.pins,
                lambda: client.store([1]),
                lambda: client.upload(os.urandom(30_000_000)),
                lambda: client.download(record.cid),
            ):
                with pytest.raises(RequestTimeoutError):
                    call()
        assert (client.download(record.cid)).read() == b"known"


def restarting(kubo, at):
    """A function for progress that kills Kubo once, when `at` bytes are sent, and starts it."""
    killed = []

    def progress(done, total):
        if done >= at and not killed:
            killed.append(done)
            kubo.stop(kill=True)
            kubo.start()

    return progress, killed


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_can_be_read_again_is_sent_again_to_a_kubo_that_was_killed(
    steady_kubo, tmp_path, kind
):
    top = tmp_path / "top"
    top.mkdir()
    for number in range(1 if kind == "file" else 30):
        (top / f"{number}.bin").write_bytes(os.urandom(30_000_000 if kind == "file" else 1_000_000))
    path = top / "0.bin" if kind == "file" else top
    progress, killed = restarting(steady_kubo, 10_000_000)
    config = steady_kubo.provider_config(retries={"attempts": 4})
    with Client.init(config) as client:
        record = client.upload(path, progress=progress)
        assert killed
        assert record.cid == compute_cid(path)
        assert [pin.name for pin in client.pins(cid=record.cid)] == [path.name]
        stored = record.cid if kind == "file" else f"{record.cid}/0.bin"
        assert (client.download(stored)).read() == (top / "0.bin").read_bytes()


def test_a_download_goes_on_after_kubo_was_killed(steady_kubo, tmp_path):
    data = os.urandom(30_000_000)
    progress, killed = restarting(steady_kubo, 10_000_000)
    config = steady_kubo.provider_config(retries={"attempts": 4})
    with Client.init(config) as client:
        record = client.upload(data)
        client.download(record.cid, to=tmp_path / "copy", progress=progress)
    assert killed
    assert (tmp_path / "copy").read_bytes() == data


def test_a_full_disk_is_an_error_with_kubos_words(tmp_path):
    large = tmp_path / "folder" / "large.bin"
    large.parent.mkdir()
    large.write_bytes(os.urandom(80_000_000))
    with disk(tmp_path / "disk", "size=64m") as folder, running_kubo(folder) as kubo:
        with Client.init(kubo.provider_config()) as client:
            for content in (large, iter([large.read_bytes()]), large.parent):
                with pytest.raises(ProviderError, match="no space left on device"):
                    client.upload(content)
            # The one pin is Kubo's own, of the empty folder.
            assert [pin.name for pin in client.pins()] == [""]


def test_a_large_folder_takes_little_memory(kubo, memory_folder):
    for number in range(60):
        (memory_folder / f"{number}.bin").write_bytes(os.urandom(1_000_000))
    with Client.init(kubo.provider_config()) as client:
        with memory_below(24 << 20):
            client.upload(memory_folder)


def test_what_is_acknowledged_survives_the_collection_of_garbage(steady_kubo, tmp_path):
    """Kubo collects its garbage all the time, so also between the requests of one upload."""
    over = threading.Event()

    def collect():
        while not over.is_set():
            steady_kubo.call("repo/gc", quiet=True)

    collector = threading.Thread(target=collect)
    collector.start()
    stored = {}
    try:
        with Client.init(steady_kubo.provider_config()) as client:
            for number in range(12):
                data = os.urandom(2_000_000)
                folder = tmp_path / str(number)
                folder.mkdir()
                (folder / "file.bin").write_bytes(data[:1_500_000])
                stored[(client.upload(data)).cid] = data
                record = client.upload(folder)
                stored[f"{record.cid}/file.bin"] = data[:1_500_000]
                # A stream that had no name is pinned last: it may be lost, but never silently.
                with suppress(NotFoundError):
                    stored[(client.upload(iter([data[1_000_000:]]))).cid] = data[1_000_000:]
    finally:
        over.set()
        collector.join()
    config = steady_kubo.provider_config(provider_options={"offline": True})
    with Client.init(config) as client:
        for cid, data in stored.items():
            assert (client.download(cid)).read() == data
        assert len(client.pins(name="client-file")) >= 12

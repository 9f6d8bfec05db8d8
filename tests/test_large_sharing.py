"""A large file gets one more reader: next to nothing is sent, and the command age opens it.

`HOLDFAST_SHARE_MIB=1024` makes the file so large. The figures are logged (`--log-cli-level=INFO`).
"""

import hashlib
import logging
import os
import subprocess
import time
from contextlib import ExitStack

import pytest
from scripts.build_engines import AGE

from holdfast import Client
from holdfast.content.age.header import MAC_LINE_SIZE
from holdfast.content.age.keys import Identity
from holdfast.errors import NoKeyError
from holdfast.providers import CopiesProvider
from tests.engines import engine_path, kubo_path
from tests.wire import Recorder, requests_in

MIB = int(os.environ.get("HOLDFAST_SHARE_MIB", "64"))
MINE, YOURS = Identity.generate(), Identity.generate()
ROOT_SIZE = 109  # bytes of a node with two links
PLACES = {"kubo": ["kubo"], "cluster": ["cluster"], "copies": ["kubo", "cluster"]}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600 + 2 * MIB)]
logger = logging.getLogger(__name__)


class SilentRecorder(Recorder):
    """Records what is sent when `is_recording` is set: an upload would fill the memory."""

    is_recording = False

    def _record(self):
        record = super()._record()
        return lambda data: record(data) if self.is_recording else None

    def bodies(self):
        """The bytes in the bodies of all requests that were recorded."""
        return sum(len(body) for sent in self.connections for _, _, body in requests_in(sent))


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    """A large file, and its hash."""
    path, hashed = tmp_path_factory.mktemp("content") / "file", hashlib.sha256()
    with path.open("wb") as file:
        for _ in range(MIB):
            piece = os.urandom(1 << 20)
            hashed.update(piece)
            file.write(piece)
    return path, hashed.hexdigest()


def digest_of(view, cid, target):
    """Download a file, remove it, and return its hash."""
    view.download(cid, to=target)
    with target.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    target.unlink()
    return digest


def opened_by_age(kubo, cid, identity, folder):
    """The hash of what ``ipfs cat CID | age -d`` gives."""
    (folder / "key").write_text(identity.text.reveal())
    host, _, port = kubo.api_url.removeprefix("http://").partition(":")
    words = [kubo_path(), f"--api=/ip4/{host}/tcp/{port}", "cat", cid]
    age = [engine_path(AGE), "-d", "-i", str(folder / "key")]
    with (
        subprocess.Popen(words, stdout=subprocess.PIPE) as cat,  # noqa: S603
        subprocess.Popen(age, stdin=cat.stdout, stdout=subprocess.PIPE) as command,  # noqa: S603
    ):
        cat.stdout.close()
        digest = hashlib.file_digest(command.stdout, "sha256").hexdigest()
    assert (cat.returncode, command.returncode) == (0, 0)
    return digest


@pytest.mark.parametrize("name", PLACES)
def test_one_more_reader_of_a_large_file(name, content, kubo, request, tmp_path):
    path, digest = content
    engines = {place: request.getfixturevalue(place) for place in PLACES[name]}
    with ExitStack() as stack:
        recorders, clients = {}, {}
        for place, engine in engines.items():
            urls = [engine.api_url] if place == "kubo" else engine.api_urls
            recorders[place] = [stack.enter_context(SilentRecorder(url)) for url in urls]
            config = engine.provider_config(
                pin_api_url=[recorder.url for recorder in recorders[place]],
                timeouts={"total": 600 + MIB},
            )
            clients[place] = stack.enter_context(Client.init(config))
        client = clients.get(name)
        if client is None:
            members = [*clients.values()]
            provider = CopiesProvider(
                members, sites=["a", "b"], path=tmp_path / "ledger", need=2, want=2
            )
            client = Client(provider)
            stack.callback(provider.close)
        mine, yours = (client.encrypted(identities=[one.text]) for one in (MINE, YOURS))
        start = time.monotonic()
        old = mine.upload(path).cid
        uploaded = time.monotonic()
        for recorder in (one for group in recorders.values() for one in group):
            recorder.is_recording = True
        new = mine.share(old, [YOURS.recipient.text]).cid
        shared = time.monotonic()
        with client.open(new) as file:
            header = file.read(8192).index(b"\n---") + 1 + MAC_LINE_SIZE
        for place, group in recorders.items():
            bodies = sum(recorder.bodies() for recorder in group)
            sent = sum(recorder.sent for recorder in group)
            besides = bodies - header - ROOT_SIZE
            logger.info(
                "%s of %s, %d MiB: upload %.1f s, share %.1f s; bodies %d bytes: header %d, "
                "root %d, %d besides; %d with the heads of HTTP",
                *(place, name, MIB, uploaded - start, shared - uploaded),
                *(bodies, header, ROOT_SIZE, besides, sent),
            )
            assert 0 < besides < 1024
        for view in (mine, yours):
            assert digest_of(view, new, tmp_path / "copy") == digest
        with pytest.raises(NoKeyError):
            yours.download(old, to=tmp_path / "copy")
        assert digest_of(mine, old, tmp_path / "copy") == digest
        for place, engine in engines.items():
            node = engine if place == "kubo" else engine.peers[0].kubo
            for identity in (MINE, YOURS):
                assert opened_by_age(node, new, identity, tmp_path) == digest

"""A download of a folder that is killed: the next one fetches only what is missing."""

import signal
import subprocess
import sys

import pytest

from holdfast import Client
from holdfast.testing import ScriptedServer
from tests.folder_dags import FolderDag, on_disk, serving
from tests.support import TOKEN, config_for, wait_until

COUNT = 2_000
PROGRAM = """
import sys
from holdfast import Client

url, cid, target, token = sys.argv[1:]
fields = {"provider_token": token, "pin_api_url": url, "gateway_url": url + "/ipfs"}
with Client.init(provider="pinning", **fields) as client:
    client.download_folder(cid, target)
"""


@pytest.mark.slow
@pytest.mark.parametrize("kinds", [("raw", "plain"), ("raw", "car", "plain")])
def test_after_a_kill_only_what_is_missing_is_fetched(kinds, tmp_path):
    dag = FolderDag()
    files = {f"{n}.txt": dag.file(b"%d" % n * 2_000) for n in range(COUNT)}
    names = list(files)
    halves = (names[: COUNT // 2], names[COUNT // 2 :])
    root = dag.folder(
        *(
            (f"{n}", dag.folder(*((name, files[name]) for name in half)))
            for n, half in enumerate(halves)
        )
    )
    target = tmp_path / "photos"
    with ScriptedServer(serving(dag, kinds=kinds)) as server:
        arguments = [server.url, str(root), str(target), TOKEN]
        process = subprocess.Popen([sys.executable, "-c", PROGRAM, *arguments])  # noqa: S603
        wait_until(lambda: sum(1 for _ in tmp_path.glob(".photos.*/files/*/*")) > COUNT // 4)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert not target.exists()
    there = {path.name for path in tmp_path.glob(".photos.*/files/*/*")}
    assert COUNT // 4 < len(there) < COUNT
    with ScriptedServer(serving(dag, kinds=kinds)) as server:
        with Client.init(config_for(server)) as client:
            client.download_folder(str(root), target)
        asked = [request.target[6:].partition("?")[0] for request in server.requests]
    assert not set(asked) & {str(files[name]) for name in there}
    assert len(asked) <= COUNT - len(there) + 4  # directories, and an archive
    assert on_disk(target) == dag.tree(root)
    assert list(tmp_path.iterdir()) == [target]

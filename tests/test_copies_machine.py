"""Copies on a machine that fails them: a full disk under the ledger, and a process that forks."""

import asyncio
import errno
import os
from contextlib import closing

import pytest

from holdfast import AsyncClient, Client
from holdfast.providers import AsyncCopiesProvider, CopiesProvider
from tests.disks import disk, fill_up
from tests.programs import run_program


@pytest.fixture
def members(memory_folder):
    """Two stores, which have room."""
    with Client.init(path=memory_folder / "a") as a, Client.init(path=memory_folder / "b") as b:
        yield [a, b]


def copies_over(members, path):
    return CopiesProvider(members, names=["a", "b"], sites=["a", "b"], path=path)


def assert_everywhere(client, members, cids):
    """All of `cids`, and nothing else, is cared for and at both members."""
    for one in (client, *members):
        assert {pin.cid for pin in one.pins()} == set(cids)
    for report in client.health():
        assert report.proven == ("a", "b")
    assert client.provider.small.repository.pins() == []


def test_nothing_is_lost_by_a_full_disk_under_the_ledger(members, tmp_path):
    with (
        disk(tmp_path / "disk", "size=4m") as folder,
        closing(copies_over(members, folder / "ledger")) as provider,
    ):
        client = Client(provider)
        cids = [client.store({"number": number}).cid for number in range(3)]
        with pytest.raises(OSError, match="No space left") as caught:
            client.upload(os.urandom(8_000_000))
        assert caught.value.errno == errno.ENOSPC
        cids.append(client.store("it takes small content still").cid)
        filler = fill_up(folder)
        actions = [
            lambda: client.store("one too many"),
            lambda: client.revoke(cids[0]),
            lambda: list(client.health(fix=True)),
        ]
        for action in actions:
            with pytest.raises(OSError, match="disk of the store is full: free some space"):
                action()
        for one in (client, *members):  # nothing was begun
            assert {pin.cid for pin in one.pins()} == set(cids)
        filler.unlink()
        list(client.health(fix=True))
        client.revoke(cids.pop(0))
        cids.append(client.store("one too many").cid)
        assert_everywhere(client, members, cids)


FORKED = """
import os, sys, threading
from pathlib import Path
from holdfast import AsyncClient, Client
from holdfast.providers import AsyncCopiesProvider, CopiesProvider

folder = Path(sys.argv[1])
with Client.init(path=folder / "a") as a, Client.init(path=folder / "b") as b:
    provider = CopiesProvider([a, b], names=["a", "b"], sites=["a", "b"], path=folder / "ledger")
    client = Client(provider)
    client.store("before")
    writing = threading.Thread(target=lambda: [client.store(["thread", n]) for n in range(10)])
    writing.start()
    child = os.fork()
    name = "parent" if child else "child"
    for number in range(10):
        record = client.store([name, number])
        assert client.retrieve(record.cid) == [name, number]
    if child:
        writing.join()
        assert os.waitpid(child, 0)[1] == 0
        reports = [report.proven for report in client.health(fix=True)]
        print(len(reports), {*reports}, provider.small.repository.pins())
        provider.close()
    else:
        os._exit(0)
"""


@pytest.mark.slow
def test_a_forked_child_writes_to_the_same_ledger(memory_folder):
    output = run_program(FORKED, memory_folder)
    assert output == "31 {('a', 'b')} []\n"


def test_writes_that_are_cancelled_leave_no_lock(memory_folder):
    """A lock that a cancelled call had just got would make all others wait without end."""

    async def cancel_many():
        one = await AsyncClient.init(path=memory_folder / "one")
        other = await AsyncClient.init(path=memory_folder / "two")
        provider = AsyncCopiesProvider([one, other], sites=["a", "b"], path=memory_folder / "l")
        client = AsyncClient(provider)
        await client.store(["warm"])
        for number in range(150):
            writes = [asyncio.ensure_future(client.store([number % 3])) for _ in range(2)]
            await asyncio.sleep(number / 20_000)
            for write in writes:
                write.cancel()
            await asyncio.gather(*writes, return_exceptions=True)
        async with asyncio.timeout(60):
            for number in range(3):
                await client.store([number])
        await provider.aclose()

    asyncio.run(cancel_many())

"""A member that is down costs the first write time, and no other."""

from holdfast import AsyncClient
from holdfast.providers import AsyncCopiesProvider
from holdfast.testing import Scripted, ScriptedServer
from tests.support import config_for


async def test_a_member_that_was_down_from_the_start_is_not_asked_by_every_write(tmp_path):
    with ScriptedServer(lambda _: Scripted(hang_up=True)) as server:
        async with (
            AsyncClient.init(config_for(server)) as down,
            AsyncClient.init(path=tmp_path / "one") as one,
            AsyncClient.init(path=tmp_path / "two") as two,
        ):
            sites = ["down", "one", "two"]
            provider = AsyncCopiesProvider([down, one, two], sites=sites, path=tmp_path / "ledger")
            async with AsyncClient(provider) as client:
                await client.store(["first"])
                asked = len(server.requests)
                assert asked > 0
                for number in range(3):
                    await client.store([number])
                assert len(server.requests) == asked
                places = [set(pin.peers) - {"pinning"} for pin in await client.pins()]
                assert places == [{"local", "local-2"}] * 4

# WARNING: this file is generated from tests/_async/test_copies_avoid.py
# by scripts/generate_sync.py. Change the original instead.
"""A member that is down costs the first write time, and no other."""

from holdfast import Client
from holdfast.providers import CopiesProvider
from holdfast.testing import Scripted, ScriptedServer
from tests.support import config_for


def test_a_member_that_was_down_from_the_start_is_not_asked_by_every_write(tmp_path):
    with ScriptedServer(lambda _: Scripted(hang_up=True)) as server:
        with (
            Client.init(config_for(server)) as down,
            Client.init(path=tmp_path / "one") as one,
            Client.init(path=tmp_path / "two") as two,
        ):
            sites = ["down", "one", "two"]
            provider = CopiesProvider([down, one, two], sites=sites, path=tmp_path / "ledger")
            with Client(provider) as client:
                client.store(["first"])
                asked = len(server.requests)
                assert asked > 0
                for number in range(3):
                    client.store([number])
                assert len(server.requests) == asked
                places = [set(pin.peers) - {"pinning"} for pin in client.pins()]
                assert places == [{"local", "local-2"}] * 4

"""Tests of users that must type-check: they are read by mypy, never run."""

from collections.abc import Iterator
from typing import assert_type

import pytest

import holdfast
from holdfast import AsyncClient, Client, ClientConfig, testing
from holdfast.testing import RunningNode


@pytest.fixture(scope="session")
def one_node() -> Iterator[RunningNode]:
    reader = testing.NodeToken(token="reader", scopes=frozenset({"pinList"}))
    with testing.running_node(tokens=(reader,), rate_limit=60) as node:
        yield node
    testing.running_node(rate_limits=60)  # type: ignore[call-arg]


@pytest.mark.parametrize("part", ["api", "gateway"])
def test_faults(holdfast_node: RunningNode, holdfast_client: Client, part: testing.Part) -> None:
    holdfast_node.fail_next(status=503, times=2, on=part, headers={"Retry-After": "0"})
    holdfast_node.fail_next(body=b"<html>", on="any")
    holdfast_node.fail_next(on="pins")  # type: ignore[arg-type]
    holdfast_node.delay_next(0.1)
    holdfast_node.corrupt_next(after=3)
    holdfast_node.cut_next(after=1)
    assert_type(holdfast_node.requests, list[str])
    assert_type(holdfast_node.faults_left, int)
    assert_type(holdfast_node.repository.pins(), list[holdfast.Pin])
    assert_type(holdfast_node.config, ClientConfig)


async def test_awaited(holdfast_async_client: AsyncClient) -> None:
    assert await holdfast_async_client.test_connection()


def script(request: testing.Recorded) -> testing.Scripted:
    return testing.Scripted(body=request.json(), cut=2)


def test_scripted(holdfast_node: RunningNode) -> None:
    scripts: list[testing.Script] = [script, testing.forward_to(holdfast_node.api_url)]
    with testing.ScriptedServer(scripts[0]) as server:
        server.reply(503, {"error": "busy"}, headers={"Retry-After": "0"}, delay=0.1)
        server.reply(hang_up=True, ending="reset")
        server.reply(statuss=503)  # type: ignore[call-arg]
        server.reply(ending="rest")  # type: ignore[arg-type]
        assert_type(server.requests, list[testing.Recorded])


class TestMine(testing.ProviderTests):
    struck_out = frozenset({"test_large_files_take_little_memory"})

    @pytest.fixture
    def provider(
        self, tmp_path_factory: pytest.TempPathFactory
    ) -> Iterator[holdfast.StorageProvider]:
        provider = holdfast.LocalProvider(ClientConfig(path=tmp_path_factory.mktemp("store")))
        yield provider
        provider.close()

    @pytest.fixture
    def directory_cid(self, provider: holdfast.LocalProvider) -> str:
        return provider.import_car([b""])[0]

    def test_that_is_mine(self, provider: holdfast.StorageProvider) -> None:
        assert_type(self.put(provider, b"hello", name="greeting.txt"), str)

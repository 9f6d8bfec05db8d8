"""`max_json_bytes` and `total` hold in every strategy, for DAGs that are larger than they look."""

import time

import pytest

from holdfast import AsyncClient
from holdfast.errors import RequestTimeoutError, SerializationError
from holdfast.testing import Scripted, ScriptedServer
from tests.bombs import MIB, Dag, archive_gateway, block_gateway
from tests.gateways import kinds
from tests.support import config_for


def bomb(kind, size, *widths):
    dag = Dag()
    leaf = (dag.raw if kind == "raw" else dag.leaf)(b" " * size)
    root, _ = dag.repeated(leaf, size, *widths)
    return dag, str(root)


def body_gateway(dag):
    """Plain bodies without an end in sight, and blocks."""
    blocks = block_gateway(dag.blocks)

    def answer(request):
        if "format=car" in request.target:
            return Scripted(status=406)
        return (
            blocks(request)
            if "?" in request.target
            else Scripted(body=b" " * 3 * MIB, chunked=True)
        )

    return answer


GATEWAYS = {
    "archive": (lambda dag: archive_gateway(dag.archive()), ["plain", "car"]),
    "blocks": (lambda dag: block_gateway(dag.blocks), ["plain", "car", "raw"]),
    "body": (body_gateway, ["plain", "raw"]),
}


@pytest.mark.parametrize("kind", ["raw", "dag-pb"])
@pytest.mark.parametrize(("make", "asked"), GATEWAYS.values(), ids=GATEWAYS)
async def test_a_document_that_is_too_large_is_refused_by_its_root(make, asked, kind):
    dag, root = bomb(kind, MIB, 2000, 2000)
    with ScriptedServer(make(dag)) as server:
        async with await AsyncClient.init(config_for(server, max_json_bytes=2 * MIB)) as client:
            with pytest.raises(SerializationError, match="max_json_bytes"):
                await client.retrieve(root)
        # Nothing but the root was needed to know.
        assert kinds(server) == asked


@pytest.mark.parametrize("kind", ["raw", "dag-pb"])
@pytest.mark.parametrize("name", ["archive", "blocks"])
async def test_a_bomb_ends_with_the_total(kind, name):
    dag, root = bomb(kind, 1000, 5000, 5000)
    with ScriptedServer(GATEWAYS[name][0](dag)) as server:
        config = config_for(server, max_json_bytes=1 << 50, timeouts={"total": 0.2})
        begun = time.monotonic()
        async with await AsyncClient.init(config) as client:
            with pytest.raises(RequestTimeoutError):
                await client.retrieve(root)
        assert time.monotonic() - begun < 20  # without it, hours


async def test_the_local_store_holds_to_both(tmp_path):
    dag, root = bomb("raw", 1000, 5000, 5000)
    async with await AsyncClient.init(path=tmp_path, max_json_bytes=MIB) as client:
        with client.provider.repository.adding() as adding:
            for cid, block in dag.blocks.items():
                adding.put(cid, block)
            adding.flush()
            with pytest.raises(SerializationError, match="max_json_bytes"):
                await client.retrieve(root)
            patient = client.with_options(max_json_bytes=1 << 50, timeouts={"total": 0.2})
            with pytest.raises(RequestTimeoutError):
                await patient.retrieve(root)

"""Reading with a reader alone, and with a client that a test's gateways serve."""

import time
from contextlib import ExitStack, asynccontextmanager

import pytest

from holdfast import AsyncClient
from tests.faulty import assert_shows_no_token
from tests.gateways import config_for_all


@asynccontextmanager
async def client_of(*gateways, make_config=config_for_all, **options):
    """A client that asks `gateways`, which are started here, in this order; and their servers."""
    with ExitStack() as stack:
        servers = [stack.enter_context(gateway) for gateway in gateways]
        async with await AsyncClient.init(make_config(*servers, **options)) as client:
            yield client, *servers


@asynccontextmanager
async def opened(gateway, cid, **options):
    """The file at `cid`, open at a gateway, which is started here; and its server."""
    async with (
        client_of(gateway, **options) as (client, server),
        await client.open(cid) as file,
    ):
        yield file, server


async def failure_of(operation, kind, *, within=10):
    """What `operation` raises, in time and without a word of the token."""
    start = time.monotonic()
    with pytest.raises(kind) as caught:
        await operation()
    assert time.monotonic() - start < within
    assert_shows_no_token(caught.value)
    return caught.value


async def failed_download(client, reference, folder, kind, *, within=10):
    """The `failure_of` a download into `folder`, where it has left nothing beside the cache."""
    operation = lambda: client.download(reference, to=folder / "copy")  # noqa: E731
    error = await failure_of(operation, kind, within=within)
    assert [path.name for path in folder.iterdir() if path.name != "cache"] == []
    return error

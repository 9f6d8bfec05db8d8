# WARNING: this file is generated from tests/_async/reading.py
# by scripts/generate_sync.py. Change the original instead.
"""Reading with a reader alone, and with a client that a test's gateways serve."""

import time
from contextlib import ExitStack, contextmanager

import pytest

from holdfast import Client
from tests.faulty import assert_shows_no_token
from tests.gateways import config_for_all


@contextmanager
def client_of(*gateways, make_config=config_for_all, **options):
    """A client that asks `gateways`, which are started here, in this order; and their servers."""
    with ExitStack() as stack:
        servers = [stack.enter_context(gateway) for gateway in gateways]
        with Client.init(make_config(*servers, **options)) as client:
            yield client, *servers


@contextmanager
def opened(gateway, cid, **options):
    """The file at `cid`, open at a gateway, which is started here; and its server."""
    with (
        client_of(gateway, **options) as (client, server),
        client.open(cid) as file,
    ):
        yield file, server


def failure_of(operation, kind, *, within=10):
    """What `operation` raises, in time and without a word of the token."""
    start = time.monotonic()
    with pytest.raises(kind) as caught:
        operation()
    assert time.monotonic() - start < within
    assert_shows_no_token(caught.value)
    return caught.value


def failed_download(client, reference, folder, kind, *, within=10):
    """The `failure_of` a download into `folder`, where it has left nothing beside the cache."""
    operation = lambda: client.download(reference, to=folder / "copy")  # noqa: E731
    error = failure_of(operation, kind, within=within)
    assert [path.name for path in folder.iterdir() if path.name != "cache"] == []
    return error

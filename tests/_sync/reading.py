# WARNING: this file is generated from tests/_async/reading.py
# by scripts/generate_sync.py. Change the original instead.
"""Reading with a reader alone, and with a client that a test's gateways serve."""

from contextlib import ExitStack, contextmanager

from holdfast import Client
from holdfast.calls import Call
from holdfast.records import Entry
from tests.gateways import config_for_all


def list_entries(reader, reference, *, total=None, details=False):
    """The entries of a directory, all pages in one list."""
    pages = reader.pages(reference, details=details)
    entries = []
    while (page := pages.next_page(Call("entries", total=total))) is not None:
        entries += page
    assert all(isinstance(entry, Entry) for entry in entries)
    return entries


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

"""Reads through the reverse proxies that people put in front of gateways.

`HOLDFAST_PROXY_READS` is the number of reads through each proxy in front of each gateway.
"""

import hashlib
import os

import pytest

from holdfast import AsyncClient
from tests.proxies import PROXIES, add_objects, running_proxy
from tests.support import TOKEN, closed_port_url

READS = int(os.environ.get("HOLDFAST_PROXY_READS", "200"))

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180 + READS)]


@pytest.fixture(scope="module", params=["kubo", "node"])
def objects(request):
    return add_objects(request.getfixturevalue(request.param))


@pytest.mark.parametrize("proxy", PROXIES)
async def test_all_reads_through_a_proxy_succeed(objects, proxy, tmp_path):
    with running_proxy(proxy, objects.gateway_url, tmp_path) as gateway_url:
        config = {
            "provider": "pinning",
            "provider_token": TOKEN,
            "pin_api_url": closed_port_url(),
            "gateway_url": gateway_url,
            "retries": {"attempts": 1},
        }
        async with await AsyncClient.init(config) as client:
            for number, cid in enumerate(objects.choices(READS)):
                blob = await client.download(cid)
                digest = hashlib.sha256(blob.read()).digest()
                assert (number, cid, digest) == (number, cid, objects.digests[cid])

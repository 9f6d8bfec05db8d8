"""A node that fails on command, through the fixtures of the plugin."""

import os
import time

import pytest

from holdfast import AsyncClient, compute_cid
from holdfast.errors import (
    NetworkError,
    ProviderError,
    RateLimitError,
    RequestTimeoutError,
    VerificationError,
)
from holdfast.testing.provider_cases import memory_below

STORE = "POST /pinning/pinJSONToIPFS"


pytestmark = pytest.mark.usefixtures("no_noise")


@pytest.fixture
def holdfast_node(node):
    """One node for all tests of the module, without the faults and requests of the last one."""
    node.heal()
    return node


async def test_the_next_requests_fail(holdfast_node, holdfast_async_client):
    holdfast_node.fail_next(status=503, times=2)
    assert holdfast_node.faults_left == 2
    record = await holdfast_async_client.store([1])
    assert record.cid == compute_cid(b"[1]")
    assert holdfast_node.requests == [STORE] * 3
    assert holdfast_node.faults_left == 0


async def test_refused_requests_do_nothing(holdfast_node, holdfast_async_client):
    before = holdfast_node.repository.totals()
    holdfast_node.fail_next(times=4)
    with pytest.raises(ProviderError) as caught:
        await holdfast_async_client.store(["refused"])
    assert str(caught.value) == "HTTP error 503"
    assert caught.value.status == 503
    assert holdfast_node.requests == [STORE] * 4
    assert holdfast_node.repository.totals() == before


async def test_a_refusal_may_have_words_and_headers(holdfast_node, holdfast_async_client):
    body = {"error": {"reason": "LIMIT", "details": "slow down"}}
    holdfast_node.fail_next(status=429, body=body, headers={"Retry-After": "7"})
    with pytest.raises(RateLimitError, match="slow down") as caught:
        await holdfast_async_client.test_connection()
    assert caught.value.retry_after == 7


async def test_a_refused_upload_is_sent_again(holdfast_node, holdfast_async_client):
    data = os.urandom(5_000_000)
    holdfast_node.fail_next(on="api")
    record = await holdfast_async_client.upload(data)
    assert record.cid == compute_cid(data)
    assert holdfast_node.requests == ["POST /pinning/pinFileToIPFS"] * 2


async def test_a_fault_waits_for_the_request_that_it_is_meant_for(
    holdfast_node, holdfast_async_client
):
    holdfast_node.fail_next(status=404, on="gateway")
    holdfast_node.fail_next(status=403, on="api")
    with pytest.raises(ProviderError, match="403"):
        await holdfast_async_client.store([1])
    record = await holdfast_async_client.store([1])
    with pytest.raises(ProviderError, match="404"):
        await holdfast_async_client.retrieve(record.cid)
    assert await holdfast_async_client.retrieve(record.cid) == [1]


async def test_requests_can_be_delayed(holdfast_node, holdfast_async_client):
    holdfast_node.delay_next(0.3)
    start = time.monotonic()
    assert await holdfast_async_client.test_connection() is True
    assert time.monotonic() - start >= 0.3
    holdfast_node.delay_next(30, times=4)
    with pytest.raises(RequestTimeoutError):
        await holdfast_async_client.with_options(
            timeouts={"read": 0.1, "total": 0.5}
        ).test_connection()
    holdfast_node.heal()
    assert await holdfast_async_client.test_connection() is True


@pytest.mark.parametrize("after", [0, 2_000_000])
async def test_wrong_bytes_are_caught(holdfast_node, holdfast_async_client, tmp_path, after):
    data = os.urandom(3_000_000)
    record = await holdfast_async_client.upload(data)
    # As many as may come: the body, and the blocks that prove it.
    holdfast_node.corrupt_next(after=after, times=50)
    with pytest.raises(VerificationError):
        await holdfast_async_client.download(record.cid, to=tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
    holdfast_node.heal()
    assert holdfast_node.faults_left == 0
    assert holdfast_node.requests == []
    async with await AsyncClient.init(holdfast_node.config) as another:
        assert (await another.download(record.cid)).read() == data


async def test_a_cut_body_is_asked_for_again(holdfast_node, holdfast_async_client):
    data = os.urandom(3_000_000)
    record = await holdfast_async_client.upload(data)
    holdfast_node.heal()
    holdfast_node.cut_next(after=1_500_000, times=2)
    assert (await holdfast_async_client.download(record.cid)).read() == data
    assert len(holdfast_node.requests) > 2


async def test_a_cut_reply_was_a_request_all_the_same(holdfast_node, holdfast_async_client):
    before = holdfast_node.repository.totals().pins
    holdfast_node.cut_next(after=3, on="api", times=4)
    with pytest.raises(NetworkError):
        await holdfast_async_client.store(["cut"])
    assert holdfast_node.repository.totals().pins == before + 1


async def test_a_fault_that_was_healed_bites_nobody(holdfast_node, holdfast_async_client):
    record = await holdfast_async_client.upload(bytes(3_000_000))
    holdfast_node.cut_next(after=2_000_000)

    def heal(done, total):
        holdfast_node.heal()

    await holdfast_async_client.download(record.cid, progress=heal)
    assert holdfast_node.faults_left == 0


async def test_large_bodies_pass_through_in_pieces(holdfast_node, holdfast_async_client, tmp_path):
    large = tmp_path / "large"
    with large.open("wb") as file:
        for _ in range(32):
            file.write(os.urandom(1 << 20))
    with memory_below(24 << 20):
        holdfast_node.delay_next(0.01, on="api")
        record = await holdfast_async_client.upload(large)
        holdfast_node.cut_next(after=15 << 20, on="gateway")
        await holdfast_async_client.download(record.cid, to=tmp_path / "copy")
    assert compute_cid(tmp_path / "copy") == record.cid


async def test_the_token_is_not_shown(holdfast_node, holdfast_async_client):
    await holdfast_async_client.test_connection()
    for shown in (repr(holdfast_node), str(holdfast_node.requests), repr(holdfast_node.config)):
        assert holdfast_node.token not in shown

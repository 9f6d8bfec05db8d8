"""Many calls at once, in the colour of these tests."""

from holdfast.testing._async.parallel import in_parallel

__all__ = ["assert_round_trips", "in_parallel"]


async def assert_round_trips(client, count):
    """Write and read `count` times at once, and assert that each call gets what it asked for."""

    def round_trip(number):
        async def call():
            record = await client.store({"number": number})
            uploaded = await client.upload(f"file {number}".encode())
            blob = await client.download(uploaded.cid)
            return await client.retrieve(record.cid), blob.text()

        return call

    results = await in_parallel(round_trip(number) for number in range(count))
    assert results == [({"number": number}, f"file {number}") for number in range(count)]

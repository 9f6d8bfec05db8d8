# WARNING: this file is generated from tests/_async/parallel.py
# by scripts/generate_sync.py. Change the original instead.
"""Many calls at once, in the colour of these tests."""

from holdfast.testing._sync.parallel import in_parallel

__all__ = ["assert_round_trips", "in_parallel"]


def assert_round_trips(client, count):
    """Write and read `count` times at once, and assert that each call gets what it asked for."""

    def round_trip(number):
        def call():
            record = client.store({"number": number})
            uploaded = client.upload(f"file {number}".encode())
            blob = client.download(uploaded.cid)
            return client.retrieve(record.cid), blob.text()

        return call

    results = in_parallel(round_trip(number) for number in range(count))
    assert results == [({"number": number}, f"file {number}") for number in range(count)]

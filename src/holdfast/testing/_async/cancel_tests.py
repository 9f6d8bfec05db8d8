"""Of the contract of providers, what only async ones can promise: calls end when cancelled."""

import asyncio
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import AsyncStorageProvider
from holdfast.testing._async.provider_calls import AsyncCalls
from holdfast.testing.provider_cases import (
    check_blob,
    check_bytes,
    names_in,
)

LARGE = 9_000_000  # in several pieces, wherever it goes


class AsyncCancelTests(AsyncCalls):
    """Many tasks share one loop, and each may be cancelled."""

    @pytest.mark.parametrize("moment", ["at the start", "in the midst"])
    async def test_a_cancelled_download_leaves_nothing_behind(
        self, provider: AsyncStorageProvider, tmp_path: Path, moment: str
    ) -> None:
        data, target = os.urandom(LARGE), tmp_path / "copy"
        cid = await self.put(provider, data)
        loop = asyncio.get_running_loop()

        def progress(done: int, total: int | None) -> None:  # noqa: ARG001
            loop.call_soon_threadsafe(download.cancel)

        download = asyncio.ensure_future(provider.get_file(cid, to=target, progress=progress))
        if moment == "at the start":
            loop.call_soon(download.cancel)
        await asyncio.wait([download], timeout=self.patience)
        assert download.done(), "get_file did not end when it was cancelled"
        # It may have come to its end before.
        assert names_in(tmp_path) == ([] if download.cancelled() else [target.name])

        again = asyncio.ensure_future(provider.get_file(cid, to=target))
        await asyncio.wait([again], timeout=self.patience)
        assert again.done(), "get_file did not work any more after one was cancelled"
        check_blob(again.result(), data)
        check_bytes(target.read_bytes(), data, "get_file wrote")

    async def test_a_source_that_waits_holds_up_nobody(
        self, provider: AsyncStorageProvider
    ) -> None:
        loop = asyncio.get_running_loop()
        loop_has_run = threading.Event()
        in_time: list[bool] = []

        def pieces() -> Iterator[bytes]:
            loop.call_soon_threadsafe(loop_has_run.set)
            in_time.append(loop_has_run.wait(self.patience))
            yield b"at last"

        cid = await self.put(provider, pieces())
        assert in_time == [True], "put_file reads its source in the event loop, which stands still"
        check_blob(await provider.get_file(cid), b"at last")

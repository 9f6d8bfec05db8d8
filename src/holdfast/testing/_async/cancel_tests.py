"""Tests of async providers: calls end when they are cancelled."""

import asyncio
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import AsyncStorageProvider
from holdfast.testing._async.provider_calls import AsyncProviderCalls
from holdfast.testing.provider_cases import check_blob, check_bytes, names_in

LARGE = 9_000_000  # bytes; sent in several pieces by every provider


class AsyncCancelTests(AsyncProviderCalls):
    """Calls that are cancelled, and calls that wait."""

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
        # The download may have finished before it was cancelled.
        assert names_in(tmp_path) == ([] if download.cancelled() else [target.name])

        again = asyncio.ensure_future(provider.get_file(cid, to=target))
        await asyncio.wait([again], timeout=self.patience)
        assert again.done(), "get_file did not work after another one was cancelled"
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
        assert in_time == [True], "put_file blocks the event loop while it reads its source"
        check_blob(await provider.get_file(cid), b"at last")

"""The tests of async providers. `_sync/provider_tests.py` is the blocking version."""

import asyncio
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import AsyncStorageProvider
from holdfast.testing._async.contract_tests import AsyncContractTests
from holdfast.testing.provider_cases import check_blob, check_bytes, names_in

LARGE = 9_000_000  # bytes; sent in several pieces by every provider


class AsyncProviderTests(AsyncContractTests):
    """Tests of what every async provider must do: `ProviderTests`, awaited.

    The tests have no mark, so that any async plugin can run them. With pytest-asyncio, mark your
    class, or set ``asyncio_mode = "auto"``.

    Example:
        >>> from collections.abc import AsyncIterator
        >>> import pytest, pytest_asyncio
        >>> from holdfast import AsyncLocalProvider, ClientConfig
        >>> class TestMine(AsyncProviderTests):
        ...     pytestmark = pytest.mark.asyncio
        ...     @pytest_asyncio.fixture
        ...     async def provider(
        ...         self, tmp_path_factory: pytest.TempPathFactory
        ...     ) -> AsyncIterator[AsyncLocalProvider]:
        ...         config = ClientConfig(path=tmp_path_factory.mktemp("store"))
        ...         provider = AsyncLocalProvider(config)
        ...         yield provider
        ...         await provider.aclose()
    """

    # Calls that are cancelled, and calls that wait

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

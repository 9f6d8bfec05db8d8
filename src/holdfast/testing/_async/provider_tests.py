"""The tests of async providers. `_sync/provider_tests.py` is the blocking version."""

from holdfast.testing._async.archive_tests import AsyncArchiveTests
from holdfast.testing._async.cancel_tests import AsyncCancelTests
from holdfast.testing._async.content_tests import AsyncContentTests
from holdfast.testing._async.pin_tests import AsyncPinTests
from holdfast.testing._async.refusal_tests import AsyncRefusalTests
from holdfast.testing._async.transfer_tests import AsyncTransferTests


class AsyncProviderTests(
    AsyncContentTests,
    AsyncTransferTests,
    AsyncRefusalTests,
    AsyncPinTests,
    AsyncArchiveTests,
    AsyncCancelTests,
):
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

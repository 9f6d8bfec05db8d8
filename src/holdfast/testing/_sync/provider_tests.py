"""The contract of providers as tests: subclass it to test a provider of your own."""

from holdfast.testing._sync.content_tests import ContentTests
from holdfast.testing._sync.refusal_tests import RefusalTests
from holdfast.testing._sync.transfer_tests import TransferTests


class ProviderTests(ContentTests, TransferTests, RefusalTests):
    """Everything that holds for any provider.

    Name your subclass ``Test…`` and define the fixture `provider`, a fresh one for each test. Close
    the provider in the fixture: a second time must do nothing. A provider that keeps directories
    should define the fixtures `directory_cid`, and `directory_file`: the path of a file below it,
    and the file's bytes.

    Attributes:
        struck_out: The names of the tests whose promise you cannot keep. They are skipped, for
            readers to see.
        large_size: The bytes of the large file.
        memory_limit: The bytes that a call with the large file may allocate at a time.
        patience: The seconds after which a call that should have ended has failed.

    Example:
        >>> from collections.abc import Iterator
        >>> import pytest
        >>> from holdfast import ClientConfig, LocalProvider
        >>> class TestMine(ProviderTests):
        ...     struck_out = frozenset({"test_large_files_take_little_memory"})
        ...     @pytest.fixture
        ...     def provider(
        ...         self, tmp_path_factory: pytest.TempPathFactory
        ...     ) -> Iterator[LocalProvider]:
        ...         provider = LocalProvider(ClientConfig(path=tmp_path_factory.mktemp("store")))
        ...         yield provider
        ...         provider.close()
    """

"""The tests of providers: subclass `ProviderTests` to test a provider of your own."""

from holdfast.testing._sync.contract_tests import ContractTests


class ProviderTests(ContractTests):
    """Tests of what every provider must do.

    Name your subclass ``Test…`` and define the fixture `provider`, a new one for each test. Close
    the provider in the fixture; tests may close it before, and a second call must do nothing. For
    a provider with directories, define the fixtures `directory_cid`, the CID of a directory, and
    `directory_file`, the path of a file in it and the file's bytes. Tests of a capability that your
    provider does not have are skipped.

    Attributes:
        struck_out: The names of tests that your provider cannot pass. They are reported as
            skipped.
        large_size: The size of the large file in bytes.
        memory_limit: The bytes that a call with the large file may allocate at a time.
        patience: The seconds after which a call that should have ended fails the test.

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

# WARNING: this file is generated from src/holdfast/testing/_async/refusal_tests.py
# by scripts/generate_sync.py. Change the original instead.
"""Tests of blocking providers: missing content, invalid CIDs, directories, and closing."""

import os
from pathlib import Path

import pytest

from holdfast import StorageProvider
from holdfast.errors import (
    ClientClosedError,
    ClientError,
    InvalidCIDError,
    NotAFileError,
    NotFoundError,
)
from holdfast.testing._sync.provider_calls import BY_CID, METHODS, ProviderCalls
from holdfast.testing.provider_cases import (
    NO_CIDS,
    NOWHERE,
    check_blob,
    check_bytes,
    check_json,
    names_in,
    unique_json,
)


class RefusalTests(ProviderCalls):
    """Calls that raise an error, and similar calls that do not."""

    def test_what_was_deleted_cannot_be_deleted_again(self, provider: StorageProvider) -> None:
        data = os.urandom(20)
        first = provider.put_json(unique_json(), name="first")
        second = self.put(provider, data)
        provider.delete(first)
        with pytest.raises(NotFoundError):
            provider.delete(first)
        check_blob(provider.get_file(second), data)
        provider.delete(second)

    def test_what_was_deleted_can_be_kept_again(self, provider: StorageProvider) -> None:
        text = unique_json()
        cid = provider.put_json(text, name="first")
        provider.delete(cid)
        again = provider.put_json(text, name="second")
        self.is_known(provider, cid, again)
        check_blob(provider.get_file(again), text.encode())
        provider.delete(again)

    def test_a_path_cannot_be_deleted(self, provider: StorageProvider) -> None:
        text = unique_json()
        cid = provider.put_json(text, name="x")
        with pytest.raises(InvalidCIDError):
            provider.delete(f"{cid}/x")
        check_blob(provider.get_file(cid), text.encode())
        provider.delete(cid)

    def test_what_is_not_there_is_an_error(self, provider: StorageProvider) -> None:
        with pytest.raises(NotFoundError):
            provider.delete(NOWHERE)
        with pytest.raises(ClientError):
            provider.get_json(NOWHERE)
        with pytest.raises(ClientError):
            provider.get_file(NOWHERE)

    @pytest.mark.parametrize("method", BY_CID)
    @pytest.mark.parametrize("text", NO_CIDS)
    def test_what_is_no_cid_is_refused(
        self, provider: StorageProvider, text: str, method: str
    ) -> None:
        with pytest.raises(InvalidCIDError):
            self.call(provider, method, text)

    @pytest.mark.parametrize("text", NO_CIDS)
    def test_what_is_no_cid_is_not_written(
        self, provider: StorageProvider, text: str, tmp_path: Path
    ) -> None:
        with pytest.raises(InvalidCIDError):
            provider.get_file(text, to=tmp_path / "copy")
        assert names_in(tmp_path) == []

    # Directories, if the provider has any

    def test_a_directory_is_no_file(
        self, provider: StorageProvider, directory_cid: str, tmp_path: Path
    ) -> None:
        with pytest.raises(NotAFileError):
            provider.get_file(directory_cid)
        with pytest.raises(NotAFileError):
            provider.get_file(directory_cid, to=tmp_path / "copy")
        with pytest.raises(NotAFileError):
            provider.get_json(directory_cid)
        assert names_in(tmp_path) == []

    def test_a_path_leads_to_a_file(
        self,
        provider: StorageProvider,
        directory_cid: str,
        directory_file: tuple[str, bytes],
        tmp_path: Path,
    ) -> None:
        path, data = directory_file
        target = tmp_path / "copy"
        check_blob(provider.get_file(f"{directory_cid}/{path}"), data)
        provider.get_file(f"{directory_cid}/{path}", to=target)
        check_bytes(target.read_bytes(), data, "get_file wrote")

    def test_a_path_that_leads_nowhere_is_an_error(
        self, provider: StorageProvider, directory_cid: str
    ) -> None:
        for call in (provider.get_file, provider.get_json):
            with pytest.raises(ClientError):
                call(f"{directory_cid}/nobody/has/this.txt")

    # Credentials and closing

    def test_good_credentials_are_accepted(self, provider: StorageProvider) -> None:
        provider.test_authentication()

    def test_closing_twice_does_nothing(self, provider: StorageProvider) -> None:
        provider.close()
        provider.close()

    @pytest.mark.parametrize("method", METHODS)
    def test_nothing_works_after_closing(self, provider: StorageProvider, method: str) -> None:
        cid = self.put(provider, b"[1]")
        check_json(provider.get_json(cid), [1])
        provider.close()
        with pytest.raises(ClientClosedError):
            self.call(provider, method, cid)

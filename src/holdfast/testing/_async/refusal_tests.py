"""Tests of async providers: missing content, invalid CIDs, directories, and closing."""

import os
from pathlib import Path

import pytest

from holdfast import AsyncStorageProvider
from holdfast.errors import (
    ClientClosedError,
    ClientError,
    InvalidCIDError,
    NotAFileError,
    NotFoundError,
)
from holdfast.testing._async.provider_calls import BY_CID, METHODS, AsyncProviderCalls
from holdfast.testing.provider_cases import (
    NO_CIDS,
    NOWHERE,
    check_blob,
    check_bytes,
    check_json,
    names_in,
    unique_json,
)


class AsyncRefusalTests(AsyncProviderCalls):
    """Calls that raise an error, and similar calls that do not."""

    async def test_what_was_deleted_cannot_be_deleted_again(
        self, provider: AsyncStorageProvider
    ) -> None:
        data = os.urandom(20)
        first = await provider.put_json(unique_json(), name="first")
        second = await self.put(provider, data)
        await provider.delete(first)
        with pytest.raises(NotFoundError):
            await provider.delete(first)
        check_blob(await provider.get_file(second), data)
        await provider.delete(second)

    async def test_what_was_deleted_can_be_kept_again(self, provider: AsyncStorageProvider) -> None:
        text = unique_json()
        cid = await provider.put_json(text, name="first")
        await provider.delete(cid)
        again = await provider.put_json(text, name="second")
        self.is_known(provider, cid, again)
        check_blob(await provider.get_file(again), text.encode())
        await provider.delete(again)

    async def test_a_path_cannot_be_deleted(self, provider: AsyncStorageProvider) -> None:
        text = unique_json()
        cid = await provider.put_json(text, name="x")
        with pytest.raises(InvalidCIDError):
            await provider.delete(f"{cid}/x")
        check_blob(await provider.get_file(cid), text.encode())
        await provider.delete(cid)

    async def test_what_is_not_there_is_an_error(self, provider: AsyncStorageProvider) -> None:
        with pytest.raises(NotFoundError):
            await provider.delete(NOWHERE)
        with pytest.raises(ClientError):
            await provider.get_json(NOWHERE)
        with pytest.raises(ClientError):
            await provider.get_file(NOWHERE)

    @pytest.mark.parametrize("method", BY_CID)
    @pytest.mark.parametrize("text", NO_CIDS)
    async def test_what_is_no_cid_is_refused(
        self, provider: AsyncStorageProvider, text: str, method: str
    ) -> None:
        with pytest.raises(InvalidCIDError):
            await self.call(provider, method, text)

    @pytest.mark.parametrize("text", NO_CIDS)
    async def test_what_is_no_cid_is_not_written(
        self, provider: AsyncStorageProvider, text: str, tmp_path: Path
    ) -> None:
        with pytest.raises(InvalidCIDError):
            await provider.get_file(text, to=tmp_path / "copy")
        assert names_in(tmp_path) == []

    # Directories, if the provider has any

    async def test_a_directory_is_no_file(
        self, provider: AsyncStorageProvider, directory_cid: str, tmp_path: Path
    ) -> None:
        with pytest.raises(NotAFileError):
            await provider.get_file(directory_cid)
        with pytest.raises(NotAFileError):
            await provider.get_file(directory_cid, to=tmp_path / "copy")
        with pytest.raises(NotAFileError):
            await provider.get_json(directory_cid)
        assert names_in(tmp_path) == []

    async def test_a_path_leads_to_a_file(
        self,
        provider: AsyncStorageProvider,
        directory_cid: str,
        directory_file: tuple[str, bytes],
        tmp_path: Path,
    ) -> None:
        path, data = directory_file
        target = tmp_path / "copy"
        check_blob(await provider.get_file(f"{directory_cid}/{path}"), data)
        await provider.get_file(f"{directory_cid}/{path}", to=target)
        check_bytes(target.read_bytes(), data, "get_file wrote")

    async def test_a_path_that_leads_nowhere_is_an_error(
        self, provider: AsyncStorageProvider, directory_cid: str
    ) -> None:
        for call in (provider.get_file, provider.get_json):
            with pytest.raises(ClientError):
                await call(f"{directory_cid}/nobody/has/this.txt")

    # Credentials and closing

    async def test_good_credentials_are_accepted(self, provider: AsyncStorageProvider) -> None:
        await provider.test_authentication()

    async def test_closing_twice_does_nothing(self, provider: AsyncStorageProvider) -> None:
        await provider.aclose()
        await provider.aclose()

    @pytest.mark.parametrize("method", METHODS)
    async def test_nothing_works_after_closing(
        self, provider: AsyncStorageProvider, method: str
    ) -> None:
        cid = await self.put(provider, b"[1]")
        check_json(await provider.get_json(cid), [1])
        await provider.aclose()
        with pytest.raises(ClientClosedError):
            await self.call(provider, method, cid)

# WARNING: this file is generated from src/holdfast/testing/_async/provider_tests.py
# by scripts/generate_sync.py. Change the original instead.
"""The contract of providers as tests, blocking: subclass it to test a provider of your own."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import Blob, Client, StorageProvider, verify
from holdfast.errors import (
    ClientClosedError,
    ClientError,
    InvalidCIDError,
    NotAFileError,
    ProviderError,
    SerializationError,
)
from holdfast.files.sources import Uploadable, open_source
from holdfast.provider import Progress
from holdfast.testing._sync.parallel import in_parallel
from holdfast.testing.provider_cases import (
    NO_CIDS,
    NOWHERE,
    SIZES,
    VALUES,
    Interrupted,
    check_progress,
    interrupt,
    memory_below,
    names_in,
)


class ProviderTests:
    """Everything that holds for any provider.

    Name your subclass ``Test…`` and define the fixture `provider`; a provider that keeps
    directories should define `directory_cid` as well. Close the provider in the fixture: a second
    time must do nothing. A promise that you cannot keep is struck out by name, for readers to see:
    ``test_large_files_take_little_memory = None``.

    Example:
        >>> class TestMine(ProviderTests):
        ...     @pytest.fixture
        ...     def provider(self, tmp_path: Path) -> "StorageProvider":
        ...         from holdfast import LocalProvider, ClientConfig
        ...         provider = LocalProvider(ClientConfig(path=tmp_path / "store"))
        ...         yield provider
        ...         provider.close()

    Attributes:
        large_size: The bytes of the large file.
        memory_limit: The bytes that a call with the large file may allocate at a time.
    """

    large_size = 64 << 20
    memory_limit = 40 << 20

    @pytest.fixture
    def provider(self) -> StorageProvider:
        """The provider to test, with nothing in it that the tests could not share."""
        pytest.fail(f"{type(self).__name__} must define the fixture provider", pytrace=False)

    @pytest.fixture
    def directory_cid(self) -> str:
        """The CID of a directory that the provider keeps."""
        pytest.skip("the fixture directory_cid is not defined")

    def put(
        self,
        provider: StorageProvider,
        file: Uploadable,
        *,
        name: str = "file.bin",
        progress: Progress | None = None,
    ) -> str:
        """The CID that `provider` gives to `file`."""
        with open_source(file) as source:
            return provider.put_file(source, name=name, progress=progress)

    # What is kept comes back

    def test_it_has_the_methods_of_a_provider(self, provider: StorageProvider) -> None:
        assert isinstance(provider, StorageProvider)

    @pytest.mark.parametrize("value", VALUES, ids=lambda value: json.dumps(value)[:20])
    def test_json_comes_back(self, provider: StorageProvider, value: Any) -> None:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        cid = provider.put_json(text, name="Zoë's 🌊 value")
        assert provider.get_json(cid) == value
        stored = (provider.get_file(cid)).read()
        assert json.loads(stored) == value
        assert verify(stored, cid)

    @pytest.mark.parametrize("size", SIZES)
    def test_files_come_back(self, provider: StorageProvider, size: int) -> None:
        data = os.urandom(size)
        cid = self.put(provider, data)
        assert verify(data, cid)
        blob = provider.get_file(cid)
        assert isinstance(blob, Blob)
        assert blob.size == size
        assert blob.read() == data

    def test_the_same_bytes_have_the_same_cid(self, provider: StorageProvider) -> None:
        cid = self.put(provider, b"the same bytes", name="a.txt")
        assert self.put(provider, b"the same bytes", name="b.txt") == cid
        assert (provider.get_file(cid)).read() == b"the same bytes"

    def test_names_may_be_in_any_language(self, provider: StorageProvider) -> None:
        for name in ('ünï "cøde" 🌊.txt', "a b;c=d%20.txt", "名前"):
            cid = self.put(provider, name.encode(), name=name)
            assert (provider.get_file(cid)).read() == name.encode()

    def test_the_size_need_not_be_known(self, provider: StorageProvider) -> None:
        pieces = [os.urandom(700_000) for _ in range(3)]
        cid = self.put(provider, iter(pieces))
        assert (provider.get_file(cid)).read() == b"".join(pieces)

    def test_files_are_no_json(self, provider: StorageProvider) -> None:
        for data in (b"", b"not json", b"\xff", b'{"open":'):
            cid = self.put(provider, data)
            with pytest.raises(SerializationError):
                provider.get_json(cid)

    def test_large_files_take_little_memory(
        self, provider: StorageProvider, tmp_path: Path
    ) -> None:
        large, copy = tmp_path / "large", tmp_path / "copy"
        with large.open("wb") as file:
            for _ in range(self.large_size >> 20):
                file.write(os.urandom(1 << 20))
        with memory_below(self.memory_limit):
            cid = self.put(provider, large)
        assert verify(large, cid)
        with memory_below(self.memory_limit):
            provider.get_file(cid, to=copy)
        assert verify(copy, cid)
        with memory_below(self.memory_limit):
            blob = provider.get_file(cid)
        assert blob.size == self.large_size

    def test_many_calls_at_once_do_not_mix(self, provider: StorageProvider) -> None:
        def round_trip(number: int) -> Callable[[], bool]:
            def call() -> bool:
                data = f"file {number}".encode() * 20_000
                stored = provider.put_json(f'{{"number":{number}}}', name=f"n{number}")
                cid = self.put(provider, data)
                value = provider.get_json(stored)
                blob = provider.get_file(cid)
                return bool(value == {"number": number} and blob.read() == data)

            return call

        assert all(in_parallel(round_trip(number) for number in range(20)))

    def test_a_client_can_use_it(self, provider: StorageProvider) -> None:
        with Client(provider) as client:
            assert client.test_connection() is True
            record = client.store({"a": [1, "ü"]})
            assert client.retrieve(f"ipfs://{record.cid}") == {"a": [1, "ü"]}
            note = client.send("älice", "hi 🌊")
            assert client.receive(note.cid) == note.data
            assert client.revoke(record.cid) is True

    # Progress

    @pytest.mark.parametrize("size", [0, 5, 3_000_000])
    def test_progress_is_told(self, provider: StorageProvider, size: int) -> None:
        sent: list[tuple[int, int | None]] = []
        cid = self.put(provider, os.urandom(size), progress=lambda *call: sent.append(call))
        check_progress(sent, size)
        came: list[tuple[int, int | None]] = []
        provider.get_file(cid, progress=lambda *call: came.append(call))
        check_progress(came, size)

    def test_what_progress_raises_ends_the_call(self, provider: StorageProvider) -> None:
        data = os.urandom(3_000_000)
        with pytest.raises(Interrupted):
            self.put(provider, data, progress=interrupt)
        cid = self.put(provider, data)
        with pytest.raises(Interrupted):
            provider.get_file(cid, progress=interrupt)
        assert (provider.get_file(cid)).read() == data

    def test_a_source_that_fails_ends_the_call(self, provider: StorageProvider) -> None:
        def pieces() -> Iterator[bytes]:
            yield b"a" * 1_500_000
            raise Interrupted

        with pytest.raises(Interrupted):
            self.put(provider, pieces())
        cid = self.put(provider, b"afterwards")
        assert (provider.get_file(cid)).read() == b"afterwards"

    # Downloads to a file: whole, or not there

    def test_a_download_may_go_to_a_file(self, provider: StorageProvider, tmp_path: Path) -> None:
        for data in (b"", b"short", os.urandom(3_000_000)):
            cid = self.put(provider, data)
            target = tmp_path / "cöpy.bin"  # written anew each time
            blob = provider.get_file(cid, to=target)
            assert target.read_bytes() == blob.read() == data
            assert blob.size == len(data)
            assert names_in(tmp_path) == [target.name]

    def test_a_failed_download_leaves_no_file(
        self, provider: StorageProvider, tmp_path: Path
    ) -> None:
        cid = self.put(provider, os.urandom(3_000_000))
        with pytest.raises(Interrupted):
            provider.get_file(cid, to=tmp_path / "copy", progress=interrupt)
        with pytest.raises(ClientError):
            provider.get_file(NOWHERE, to=tmp_path / "copy")
        assert names_in(tmp_path) == []

    def test_a_failed_download_leaves_the_old_file(
        self, provider: StorageProvider, tmp_path: Path
    ) -> None:
        old = tmp_path / "copy"
        old.write_bytes(b"old")
        cid = self.put(provider, os.urandom(3_000_000))
        with pytest.raises(Interrupted):
            provider.get_file(cid, to=old, progress=interrupt)
        with pytest.raises(ClientError):
            provider.get_file(NOWHERE, to=old)
        assert old.read_bytes() == b"old"
        assert names_in(tmp_path) == [old.name]

    def test_a_folder_that_is_not_there_is_an_os_error(
        self, provider: StorageProvider, tmp_path: Path
    ) -> None:
        cid = self.put(provider, b"hello")
        with pytest.raises(FileNotFoundError):
            provider.get_file(cid, to=tmp_path / "nowhere" / "copy")

    # What is not there, and what is no file

    def test_what_was_deleted_cannot_be_deleted_again(self, provider: StorageProvider) -> None:
        first = provider.put_json('{"to":"delete"}', name="first")
        second = self.put(provider, b"to stay")
        provider.delete(first)
        with pytest.raises(ProviderError):
            provider.delete(first)
        assert (provider.get_file(second)).read() == b"to stay"
        provider.delete(second)

    def test_what_is_not_there_is_an_error(self, provider: StorageProvider) -> None:
        with pytest.raises(ProviderError):
            provider.delete(NOWHERE)
        with pytest.raises(ClientError):
            provider.get_json(NOWHERE)
        with pytest.raises(ClientError):
            provider.get_file(NOWHERE)

    @pytest.mark.parametrize("text", NO_CIDS)
    def test_what_is_no_cid_is_refused(
        self, provider: StorageProvider, text: str, tmp_path: Path
    ) -> None:
        for call in (provider.get_json, provider.get_file, provider.delete):
            with pytest.raises(InvalidCIDError):
                call(text)
        with pytest.raises(InvalidCIDError):
            provider.get_file(text, to=tmp_path / "copy")
        assert names_in(tmp_path) == []

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

    # Credentials, and the end

    def test_good_credentials_are_accepted(self, provider: StorageProvider) -> None:
        provider.test_authentication()

    def test_closing_twice_does_nothing(self, provider: StorageProvider) -> None:
        provider.close()
        provider.close()

    def test_nothing_works_after_closing(self, provider: StorageProvider) -> None:
        cid = self.put(provider, b"[1]")
        provider.close()
        for call in (
            lambda: provider.put_json("[1]", name="x"),
            lambda: self.put(provider, b"[1]"),
            lambda: provider.get_json(cid),
            lambda: provider.get_file(cid),
            lambda: provider.delete(cid),
            provider.test_authentication,
        ):
            with pytest.raises(ClientClosedError):
                call()

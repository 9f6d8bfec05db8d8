"""The provider of an encrypted view: it stores age files, and reads nothing else.

The CID of an age file names the ciphertext. So pins, copies, proofs and gateways need no key.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Unpack

from holdfast._async.content_file import AsyncRanges
from holdfast._async.providers.base import AsyncBaseProvider, Content
from holdfast._async.providers.wrapping import AsyncWrappingProvider
from holdfast._async.reads.reader import AsyncEntryPages, AsyncReader, AsyncWrappingReader, ReadArgs
from holdfast._async.runtime import compute
from holdfast._async.sharing import AsyncSharing, read_header
from holdfast.calls import Call
from holdfast.content.age import stream
from holdfast.content.age.header import MAX_HEADER, Header
from holdfast.content.age.keyring import Keyring, Seal
from holdfast.content.age.keys import Recipient
from holdfast.content.reference import Reference
from holdfast.errors import NoKeyError, NotEncryptedError, VerificationError
from holdfast.records import Added, Entry, PinInfo
from holdfast.sinks.sinks import Finish, MemorySink, Sink
from holdfast.sources.encrypted_source import EncryptedSource, encrypt_at_once, random_name
from holdfast.sources.folder_source import FolderSource, plain_progress
from holdfast.sources.sources import Progress, Source, no_progress


class AsyncDecryptingReader(AsyncWrappingReader):
    """Reads age files that one of the identities of `keys` opens, and nothing else.

    The inner reader verifies the ciphertext. No byte is given before its chunk is authenticated.
    """

    def __init__(self, inner: AsyncReader, keys: Keyring) -> None:
        super().__init__(inner)
        self._keys = keys

    @property
    def finishes(self) -> tuple[Finish, ...]:
        """Those of the inner reader, then one that decrypts."""
        return (*self.inner.finishes, self._finish(MAX_HEADER))

    def _finish(self, head: int) -> Finish:
        """Return what decrypts a file after a header of `head` bytes, which tell its size."""
        return Finish(
            lambda file: self._keys.decrypt(file.read), lambda size: stream.content_in(size - head)
        )

    async def read(
        self, reference: Reference, sink: Sink, call: Call, **options: Unpack[ReadArgs]
    ) -> str:
        """Fill `sink` with an age file, which a finish decrypts."""
        # A large file should not be fetched only to find that it cannot be decrypted. A document in
        # memory is small, and one request for it is faster than two.
        is_document = isinstance(sink, MemorySink)
        head = MAX_HEADER if is_document else (await self._open(reference, call))[1]
        finish = self._finish(head)
        sink.add_finish(finish)
        options["progress"] = finish.progress(options.get("progress"))
        await self.inner.read(reference, sink, call, **options)
        return ""  # the peer knows nothing of the content

    async def open(self, reference: Reference, call: Call) -> AsyncRanges:
        """Return a file whose parts are decrypted on demand."""
        return (await self._open(reference, call))[0]

    async def _open(self, reference: Reference, call: Call) -> tuple[AsyncRanges, int]:
        """Return the content of an age file, decrypted on demand, and the size of the header.

        Raise unless one of the identities opens it, and its last chunk is authenticated.
        """
        ciphertext = await self.inner.open(reference, call)
        header, rest = await read_header(ciphertext)
        begin = len(header.raw)
        size = stream.plain_size(ciphertext.size - begin)
        if len(rest) < stream.NONCE_SIZE:
            rest = bytes(await ciphertext.read(begin, begin + stream.NONCE_SIZE))
        cipher = stream.ChunkCipher(self._keys.open(header), rest[: stream.NONCE_SIZE])

        async def read(start: int, stop: int) -> bytes:
            first, end = start // stream.CHUNK_SIZE, max(1, -(-stop // stream.CHUNK_SIZE))
            past = min(begin + stream.chunk_offset(end), ciphertext.size)
            data = await ciphertext.read(begin + stream.chunk_offset(first), past)
            is_end = past == ciphertext.size
            plain = await compute(len(data), cipher.decrypt, first, data, last=is_end)
            offset = first * stream.CHUNK_SIZE
            return bytes(plain[start - offset : stop - offset])

        await read(max(0, size - 1), size)
        return AsyncRanges(size, read), begin

    async def stat(self, reference: Reference, call: Call) -> Entry:
        """Return the kind of content, and the size of a file when it is decrypted."""
        entry = await self.inner.stat(reference, call)
        is_file = entry.kind == "file"
        return replace(entry, size=(await self.open(reference, call)).size) if is_file else entry

    def pages(self, reference: Reference, *, details: bool = False) -> AsyncEntryPages:
        """Return the entries of a directory, with the sizes of the decrypted files."""

        async def decrypted(entry: Entry, call: Call) -> Entry:
            size = None
            if details and entry.kind == "file":
                # A file that is not ours has no size, and must not hide the others.
                with suppress(NoKeyError, NotEncryptedError, VerificationError):
                    size = (await self.open(Reference.parse(entry.cid), call)).size
            return replace(entry, size=size)

        return self.inner.pages(reference, details=details).map_in_call(decrypted)


class AsyncEncryptedProvider(AsyncWrappingProvider):
    """Encrypts everything that it stores at `inner`, and decrypts everything that it reads there.

    Args:
        inner: The provider that stores the age files.
        keys: The recipients and identities.
    """

    takes = (Source, FolderSource)

    def __init__(self, inner: AsyncBaseProvider, keys: Keyring) -> None:
        super().__init__(inner)
        self._keys = keys

    @property
    def reader(self) -> AsyncReader:
        """Reads and decrypts what the inner provider has."""
        return AsyncDecryptingReader(self.inner.reader, self._keys)

    def default_name(self, own: str) -> str:  # noqa: ARG002 - it may say much of the content
        """Return a random name: only names that the user gives are sent."""
        return random_name()

    async def add(
        self, content: Content, info: PinInfo, call: Call, progress: Progress, /
    ) -> Added:
        """Encrypt and store `content`."""
        own_layout = self.inner.keeps_layout
        seals: dict[bytes, Seal] = {}
        encrypted = partial(EncryptedSource, keys=self._keys, seals=seals, own_layout=own_layout)
        report = plain_progress(content, progress)
        if isinstance(content, FolderSource):
            head = len(self._keys.new_seal().header.raw)
            content = content.map(encrypted, lambda size: head + stream.payload_size(size))
        elif content.data is not None and len(content.data) <= stream.CHUNK_SIZE:
            content = encrypt_at_once(content.data, self._keys, own_layout=own_layout)
        else:
            content = encrypted(content)
        return await super().add(content, info, call, report)

    def supports(self, operation: str) -> bool:
        """Return whether there is an operation: the view's own, or one of the inner provider."""
        return operation in {"share", "readers"} or super().supports(operation)

    async def share(
        self, cid: str, recipients: Sequence[str], info: PinInfo, progress: Progress | None
    ) -> tuple[Added, int]:
        """Store an age file or a folder of them for more readers; return also the plain size."""
        readers = [*dict.fromkeys(map(Recipient.parse, recipients))]

        def with_readers(header: Header) -> Header:
            return header.with_recipients_added(self._keys.open(header), readers)

        async with self.call("share", cid, total=False) as call:
            sharing = AsyncSharing(self.inner, with_readers, call)
            added = await sharing.share(Reference.parse(cid), info, progress or no_progress)
            return added, sharing.size

    async def readers(self, cid: str) -> dict[str, int]:
        """Return how many readers of each kind an age file has."""
        async with self.call("readers", cid) as call:
            header, _ = await read_header(await self.inner.reader.open(Reference.parse(cid), call))
            return header.readers()

"""Store content XOR a key, after a random prefix: how a provider that encrypts is built.

XOR does not protect anything, but the rest is what an encrypting provider needs. A second attempt,
or a process that continues an upload, sends the same bytes. Sizes and progress count plain bytes.
"""

import hashlib
import secrets
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import holdfast.provider as hp
from holdfast.errors import MalformedError

PREFIX = 16  # random bytes before the content; the pad of a file depends on them
PAD = 1 << 12  # bytes after which the pad begins again


class Key:
    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self.name = hashlib.sha256(secret).hexdigest()[:16]

    def xor(self, data: bytes | bytearray, prefix: bytes, position: int) -> bytes:
        pad = hashlib.shake_128(self._secret + prefix).digest(PAD) * (len(data) // PAD + 2)
        start = position % PAD
        number = int.from_bytes(data, "big") ^ int.from_bytes(pad[start : start + len(data)], "big")
        return number.to_bytes(len(data), "big")

    def changed(self, content: hp.Content) -> hp.Content:
        if isinstance(content, hp.FolderSource):
            return content.map(lambda source: XORSource(source, self), lambda size: size + PREFIX)
        return XORSource(content, self)

    def plain(self, file: hp.BytesReader) -> Iterator[bytes]:
        prefix = file.read(PREFIX)
        if len(prefix) < PREFIX:
            raise MalformedError("this was not stored by XORProvider")
        while chunk := file.read(256 * PAD):
            yield self.xor(chunk, prefix, 0)


class XORSource(hp.WrappingSource):
    def __init__(self, inner: hp.Source, key: Key) -> None:
        super().__init__(inner, size=None if inner.size is None else inner.size + PREFIX)
        self._key = key
        self._prefix = secrets.token_bytes(PREFIX)

    def wrap(self, start: int) -> Iterator[bytes]:
        yield self._prefix[start:]
        position = max(0, start - PREFIX)
        for chunk in self.inner.chunks(position):
            yield self._key.xor(chunk, self._prefix, position)
            position += len(chunk)

    def state(self, end: int) -> bytes:  # noqa: ARG002 - the prefix is all that is random
        return self._prefix + self._key.name.encode()

    def restore(self, state: bytes) -> bool:
        is_ours = state[PREFIX:] == self._key.name.encode()
        self._prefix = state[:PREFIX] if is_ours else self._prefix
        return is_ours


def plain_size(size: int) -> int:
    return max(0, size - PREFIX)


def plain_entry(entry: hp.Entry) -> hp.Entry:
    is_file = entry.kind == "file" and entry.size is not None
    return replace(entry, size=plain_size(entry.size or 0)) if is_file else entry


class XORReader(hp.WrappingReader):
    def __init__(self, inner: hp.Reader, key: Key) -> None:
        super().__init__(inner)
        self._key = key

    @property
    def finishes(self) -> tuple[hp.Finish, ...]:
        return (*self.inner.finishes, hp.Finish(self._key.plain, plain_size))

    def read(self, reference: hp.Reference, sink: hp.Sink, call: hp.Call, **more: Any) -> str:
        sink.add_finish(finish := self.finishes[-1])
        more["progress"] = finish.progress(more.get("progress"))
        return self.inner.read(reference, sink, call, **more)

    def open(self, reference: hp.Reference, call: hp.Call) -> hp.Ranges:
        file = self.inner.open(reference, call)
        prefix = bytes(file.read(0, min(PREFIX, file.size)))

        def read_part(start: int, stop: int) -> bytes:
            return self._key.xor(file.read(start + PREFIX, stop + PREFIX), prefix, start)

        return hp.Ranges(plain_size(file.size), read_part, type=file.type)

    def stat(self, reference: hp.Reference, call: hp.Call) -> hp.Entry:
        return plain_entry(self.inner.stat(reference, call))

    def pages(self, reference: hp.Reference, *, details: bool = False) -> hp.EntryPages:
        return self.inner.pages(reference, details=details).map(plain_entry)


class XORProvider(hp.WrappingProvider):
    takes = (hp.Source, hp.FolderSource)  # the blocks of an archive cannot be changed

    def __init__(self, inner: hp.BaseProvider, secret: bytes) -> None:
        super().__init__(inner)
        self._key = Key(secret)

    @property
    def reader(self) -> hp.Reader:
        return XORReader(self.inner.reader, self._key)

    def add(
        self, content: hp.Content, info: hp.PinInfo, call: hp.Call, progress: hp.Progress
    ) -> hp.Added:
        told = hp.plain_progress(content, progress)
        return super().add(self._key.changed(content), info, call, told)


class AsyncXORReader(hp.AsyncWrappingReader):
    def __init__(self, inner: hp.AsyncReader, key: Key) -> None:
        super().__init__(inner)
        self._key = key

    @property
    def finishes(self) -> tuple[hp.Finish, ...]:
        return (*self.inner.finishes, hp.Finish(self._key.plain, plain_size))

    async def read(self, reference: hp.Reference, sink: hp.Sink, call: hp.Call, **more: Any) -> str:
        sink.add_finish(finish := self.finishes[-1])
        more["progress"] = finish.progress(more.get("progress"))
        return await self.inner.read(reference, sink, call, **more)

    async def open(self, reference: hp.Reference, call: hp.Call) -> hp.AsyncRanges:
        file = await self.inner.open(reference, call)
        prefix = bytes(await file.read(0, min(PREFIX, file.size)))

        async def read_part(start: int, stop: int) -> bytes:
            return self._key.xor(await file.read(start + PREFIX, stop + PREFIX), prefix, start)

        return hp.AsyncRanges(plain_size(file.size), read_part, type=file.type)

    async def stat(self, reference: hp.Reference, call: hp.Call) -> hp.Entry:
        return plain_entry(await self.inner.stat(reference, call))

    def pages(self, reference: hp.Reference, *, details: bool = False) -> hp.AsyncEntryPages:
        return self.inner.pages(reference, details=details).map(plain_entry)


class AsyncXORProvider(hp.AsyncWrappingProvider):
    takes = (hp.Source, hp.FolderSource)  # the blocks of an archive cannot be changed

    def __init__(self, inner: hp.AsyncBaseProvider, secret: bytes) -> None:
        super().__init__(inner)
        self._key = Key(secret)

    @property
    def reader(self) -> hp.AsyncReader:
        return AsyncXORReader(self.inner.reader, self._key)

    async def add(
        self, content: hp.Content, info: hp.PinInfo, call: hp.Call, progress: hp.Progress
    ) -> hp.Added:
        told = hp.plain_progress(content, progress)
        return await super().add(self._key.changed(content), info, call, told)

"""A reader around another that removes the mask from files."""

from holdfast.provider import AsyncWrappingReader
from tests.masks import FINISH


class AsyncMaskingReader(AsyncWrappingReader):
    def __init__(self, inner, finish=FINISH):
        super().__init__(inner)
        self._finish = finish

    @property
    def finishes(self):
        return (*self.inner.finishes, self._finish)

    async def read(self, reference, sink, call, *, progress=None, **options):
        sink.add_finish(self._finish)
        progress = self._finish.progress(progress)
        return await self.inner.read(reference, sink, call, progress=progress, **options)


def unmasking(client, finish=FINISH):
    """Let a client remove the mask from what it reads."""
    client.provider._reader = AsyncMaskingReader(client.provider.reader, finish)
    return client

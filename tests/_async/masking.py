"""A reader around another that removes the mask from files."""

from holdfast.provider import AsyncWrappingReader
from tests.masks import FINISH, FORM


class AsyncMaskingReader(AsyncWrappingReader):
    def __init__(self, inner, finish=FINISH, form=FORM):
        super().__init__(inner)
        self._finish = finish
        self._form = form

    @property
    def form(self):
        return self.inner.form + self._form

    async def read(self, reference, sink, call, *, progress=None, **options):
        sink.add_finish(self._finish)
        progress = self._finish.progress(progress)
        return await self.inner.read(reference, sink, call, progress=progress, **options)


def unmasking(client, finish=FINISH, form=FORM):
    """Let a client remove the mask from what it reads."""
    client.provider._reader = AsyncMaskingReader(client.provider.reader, finish, form)
    return client

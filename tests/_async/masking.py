"""A reader around another that removes the mask from files."""

from holdfast._async.reads.reader import AsyncReader
from tests.masks import FINISH, FORM


class AsyncMaskingReader(AsyncReader):
    def __init__(self, inner, finish=FINISH, form=FORM):
        super().__init__()
        self._inner = inner
        self._finish = finish
        self.is_remote = inner.is_remote
        self.form = inner.form + form

    def blocks(self, reference, call):
        return self._inner.blocks(reference, call)

    async def archive(self, reference, scope, call):
        return await self._inner.archive(reference, scope, call)

    async def read(self, reference, sink, call, *, progress=None, blocks=None, verify=None):
        sink.add_finish(self._finish)
        progress = self._finish.progress(progress)
        return await self._inner.read(
            reference, sink, call, progress=progress, blocks=blocks, verify=verify
        )


def unmasking(client, finish=FINISH, form=FORM):
    """Let a client remove the mask from what it reads."""
    client.provider._reader = AsyncMaskingReader(client.provider.reader, finish, form)
    return client

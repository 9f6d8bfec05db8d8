# WARNING: this file is generated from tests/_async/masking.py
# by scripts/generate_sync.py. Change the original instead.
"""A reader around another that removes the mask from files."""

from holdfast._sync.reads.reader import Reader
from tests.masks import FINISH, FORM


class MaskingReader(Reader):
    def __init__(self, inner, finish=FINISH, form=FORM):
        super().__init__()
        self._inner = inner
        self._finish = finish
        self.is_remote = inner.is_remote
        self.form = inner.form + form

    def blocks(self, reference, call):
        return self._inner.blocks(reference, call)

    def archive(self, reference, scope, call):
        return self._inner.archive(reference, scope, call)

    def read(self, reference, sink, call, *, progress=None, blocks=None, verify=None):
        sink.add_finish(self._finish)
        progress = self._finish.progress(progress)
        return self._inner.read(
            reference, sink, call, progress=progress, blocks=blocks, verify=verify
        )


def unmasking(client, finish=FINISH, form=FORM):
    """Let a client remove the mask from what it reads."""
    client.provider._reader = MaskingReader(client.provider.reader, finish, form)
    return client

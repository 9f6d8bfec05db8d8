"""A provider that has only the methods of the spec."""

from holdfast import Blob
from tests.support import HELLO_CID


class AsyncSpecOnly:
    """No base class, and one dictionary. It remembers the last name."""

    def __init__(self):
        self.name = None
        self.stored = {}
        self.closed = 0

    async def put_json(self, text, *, name):
        self.name, self.stored[HELLO_CID] = name, text
        return HELLO_CID

    async def get_json(self, cid):
        return self.stored[cid]

    async def put_file(self, source, *, name, progress=None):
        self.name, self.stored[HELLO_CID] = name, b"".join(source.chunks())
        return HELLO_CID

    async def get_file(self, cid, *, to=None, progress=None):
        return Blob(self.stored[cid])

    async def delete(self, cid):
        del self.stored[cid]

    async def test_authentication(self): ...

    async def aclose(self):
        self.closed += 1

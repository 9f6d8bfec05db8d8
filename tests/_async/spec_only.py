"""A provider that has only the methods of the spec."""

from tests.support import HELLO_CID


class AsyncSpecOnly:
    """Only the methods of the spec. It stores nothing, and remembers the last name."""

    name = None

    async def put_json(self, text, *, name):
        self.name = name
        return HELLO_CID

    async def get_json(self, cid): ...

    async def put_file(self, source, *, name, progress=None):
        self.name = name
        return HELLO_CID

    async def get_file(self, cid, *, to=None, progress=None): ...

    async def delete(self, cid): ...

    async def test_authentication(self): ...

    async def aclose(self): ...

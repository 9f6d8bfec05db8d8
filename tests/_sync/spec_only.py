# WARNING: this file is generated from tests/_async/spec_only.py
# by scripts/generate_sync.py. Change the original instead.
"""A provider that has only the methods of the spec."""

from holdfast import Blob
from tests.support import HELLO_CID


class SpecOnly:
    """No base class, and one dictionary. It remembers the last name."""

    def __init__(self):
        self.name = None
        self.stored = {}
        self.closed = 0

    def put_json(self, text, *, name):
        self.name, self.stored[HELLO_CID] = name, text
        return HELLO_CID

    def get_json(self, cid):
        return self.stored[cid]

    def put_file(self, source, *, name, progress=None):
        self.name, self.stored[HELLO_CID] = name, b"".join(source.chunks())
        return HELLO_CID

    def get_file(self, cid, *, to=None, progress=None):
        return Blob(self.stored[cid])

    def delete(self, cid):
        del self.stored[cid]

    def test_authentication(self): ...

    def close(self):
        self.closed += 1

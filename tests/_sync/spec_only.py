# WARNING: this file is generated from tests/_async/spec_only.py
# by scripts/generate_sync.py. Change the original instead.
"""A provider that has only the methods of the spec."""

from tests.support import HELLO_CID


class SpecOnly:
    """Only the methods of the spec. It stores nothing, and remembers the last name."""

    name = None

    def put_json(self, text, *, name):
        self.name = name
        return HELLO_CID

    def get_json(self, cid): ...

    def put_file(self, source, *, name, progress=None):
        self.name = name
        return HELLO_CID

    def get_file(self, cid, *, to=None, progress=None): ...

    def delete(self, cid): ...

    def test_authentication(self): ...

    def close(self): ...

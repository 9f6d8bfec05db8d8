"""A provider that is right but for its memory; test_broken_providers.py breaks it in many ways."""

from holdfast import Blob
from holdfast.content.cid import CID
from holdfast.errors import ClientClosedError, NotFoundError
from holdfast.protocol import json_text


class MemoryProvider:
    def __init__(self):
        self._files = {}
        self._closed = False

    @classmethod
    def from_config(cls, config):
        return cls()

    def put_json(self, text, *, name):
        return self._put(text.encode())

    def get_json(self, cid):
        return json_text.from_text(self._get(cid))

    def put_file(self, source, *, name, progress=None):
        data = b"".join(source.chunks())
        if progress is not None:
            progress(len(data), source.size)
        return self._put(data)

    def get_file(self, cid, *, to=None, progress=None):
        blob = Blob(self._get(cid))
        if progress is not None:
            progress(blob.size, blob.size)
        if to is not None:
            blob.save(to)
        return blob

    def delete(self, cid):
        self.test_authentication()
        if self._files.pop(CID.parse(cid), None) is None:
            raise NotFoundError(f"{cid} is not pinned")

    def test_authentication(self):
        if self._closed:
            raise ClientClosedError

    def close(self):
        self._closed = True

    def _put(self, data):
        self.test_authentication()
        cid = CID.of_raw(data)
        self._files[cid] = data
        return str(cid)

    def _get(self, cid):
        self.test_authentication()
        try:
            return self._files[CID.parse(cid)]
        except KeyError:
            raise NotFoundError(f"{cid} is not here") from None

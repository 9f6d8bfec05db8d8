"""A DAG whose root is a value, over UnixFS, as some services have made them."""

from holdfast.content import dag_cbor, dag_json
from holdfast.content.car import write_car
from holdfast.content.cid import CBOR, DAG_CBOR, DAG_JSON, JSON
from tests.content import stream
from tests.folder_dags import FolderDag

PHOTO = b"".join(stream("values", 300_000))
NOTE = b'{"note": true}'


class ValueDag(FolderDag):
    """A token with a picture and a folder; a root of each codec over it, and a folder over them.

    Attributes:
        value: The value of `cbor`.
        cbor: The root of dag-cbor: links to a file and a folder, and values of all kinds.
        json: One of dag-json, which links to `cbor`.
        plain: The CIDs of values without links, by their codec.
        top: A folder in which all of them are.
    """

    def __init__(self, salt=""):
        super().__init__()
        self.photo = self.file(PHOTO + salt.encode())
        self.folder_cid = self.folder(("note.json", self.file(NOTE)), ("photo", self.photo))
        self.value = {
            "name": f"token {salt}",
            "image": self.photo,
            "files": [self.folder_cid, {"size": 1.5, "none": None}],
            "raw": b"\0\xff",
        }
        self.cbor = self.put(dag_cbor.encode(self.value), DAG_CBOR)
        self.json = self.put(dag_json.encode({"token": self.cbor, "n": [1, 2]}), DAG_JSON)
        self.plain = {
            "cbor": self.put(dag_cbor.encode({"a": [1, b"x"], "salt": salt}), CBOR),
            "json": self.put(b'{"a": [1, "x"], "salt": "%s"}' % salt.encode(), JSON),
        }
        entries = {"cbor": self.cbor, "json": self.json, "plain": self.plain["cbor"]}
        self.top = self.folder(*entries.items(), ("plain-json", self.plain["json"]))

    @property
    def roots(self):
        """All roots, by what they are."""
        return {"dag-cbor": self.cbor, "dag-json": self.json, **self.plain, "folder": self.top}

    def archive(self, root):
        """Return everything below `root` as an archive."""
        return b"".join(write_car([root], self.depth_first(root)))

"""DAGs of directories, honest and hostile, and gateways that serve them."""

import os
import re
from dataclasses import replace
from itertools import islice
from pathlib import Path
from urllib.parse import unquote_to_bytes

from holdfast.content import dag_pb
from holdfast.content.car import write_car
from holdfast.content.cid import CID, DAG_PB
from holdfast.content.codecs import is_node
from holdfast.content.codecs import kind_of as unixfs_kind
from holdfast.content.dag_pb import Link
from holdfast.content.hashes import FUNCTIONS, SHA2_256
from holdfast.content.profiles import UNIXFS_V1_2025
from holdfast.content.unixfs import data
from holdfast.content.unixfs.file_nodes import file_node
from holdfast.content.unixfs.files import FileImporter
from holdfast.content.unixfs.hamt import build_shard
from holdfast.content.unixfs.walks import DirectoryWalk
from holdfast.protocol.gateway import CAR_TYPE, RAW_TYPE
from holdfast.testing import Scripted
from tests.content import Blocks
from tests.gateways import kind_of

LARGEST = 64 << 20  # bytes of a file that the gateway sends
MOST_BLOCKS = 20_000  # of an archive: a small DAG may have very many paths


class FolderDag(Blocks):
    """Blocks of directories in the making. Names are texts or bytes, and may be anything."""

    def put(self, block, codec=DAG_PB):
        cid = CID(1, codec, SHA2_256, FUNCTIONS[SHA2_256].new(block).digest())
        self[cid] = block
        return cid

    def file(self, content, profile=UNIXFS_V1_2025):
        importer = FileImporter(profile, self.__setitem__)
        importer.update(content)
        return importer.finish().cid

    def link(self, text):
        return self.put(dag_pb.encode([], data.symlink_data(os.fsencode(text))))

    def folder(self, *entries, **more):
        return self.put(dag_pb.encode(self._links(*entries, *more.items()), data.DIRECTORY))

    def shard(self, *entries, **more):
        links = self._links(*entries, *more.items())
        return build_shard(links, UNIXFS_V1_2025, self.__setitem__).cid

    def nested(self, depth, cid):
        for _ in range(depth):
            cid = self.folder(("d", cid))
        return cid

    def _links(self, *entries):
        return [Link(cid, os.fsencode(name), len(self.get(cid, b""))) for name, cid in entries]

    def directory_blocks(self, cid):
        """The blocks of one directory without its content, or all of a file."""
        if unixfs_kind(cid, self[cid]) not in {data.Kind.DIRECTORY, data.Kind.SHARD}:
            yield from self.depth_first(cid)
            return
        walk = DirectoryWalk(cid)
        while (need := walk.need) is not None:
            yield need, self[need]
            walk.feed(self[need])

    def tree(self, cid, path=()):
        """What a download should write: bytes of files, texts of links, None for folders."""
        kind = unixfs_kind(cid, self[cid])
        if kind is data.Kind.SYMLINK:
            text = os.fsdecode(data.decode(dag_pb.decode(self[cid]).data).data)
            return {"/".join(path): text}
        if kind not in {data.Kind.DIRECTORY, data.Kind.SHARD}:
            return {"/".join(path): self.read(cid)}
        tree = {"/".join(path): None} if path else {}
        for entry in self.list(cid):
            tree |= self.tree(entry.cid, (*path, entry.name))
        return tree


def on_disk(folder):
    """What is in a folder: bytes of files, texts of links, None for folders."""
    tree = {}
    for path in sorted(Path(folder).iterdir()):
        if path.is_symlink():
            tree[path.name] = os.readlink(path)  # noqa: PTH115 - to the letter
        elif path.is_dir():
            below = {f"{path.name}/{name}": what for name, what in on_disk(path).items()}
            tree |= {path.name: None, **below}
        else:
            tree[path.name] = path.read_bytes() if path.is_file() else path.stat().st_mode
    return tree


def serving(dag, *, kinds=("raw", "car", "plain"), roots=None, cut_archives=None):
    """A script of a gateway: it has the blocks of `dag`, and these kinds of replies.

    With `roots`, it serves only what is below them, by its path.
    """

    def answer(request):
        kind = kind_of(request)
        parts = re.match(r"/ipfs/([^/?]+)([^?]*)", request.target)
        root = CID.parse(parts[1])
        if kind not in kinds:
            return Scripted(status=406)
        if roots is not None and root not in roots:
            return Scripted(status=403)
        names = [os.fsdecode(unquote_to_bytes(name)) for name in parts[2].split("/") if name]
        try:
            cid = dag.find(root, *names)
            reply = _reply(dag, kind, request, (root, names), cid)
        except Exception:  # noqa: BLE001 - whatever it is, it is not there
            return Scripted(status=404)
        return replace(reply, cut=cut_archives) if kind == "car" else reply

    return answer


def _reply(dag, kind, request, reference, cid):
    if kind == "raw":
        return Scripted(body=dag[cid], headers={"Content-Type": RAW_TYPE})
    if unixfs_kind(cid, dag[cid]) is data.Kind.FILE and file_node(cid, dag[cid]).size > LARGEST:
        return Scripted(status=406)
    if kind == "car":
        path = [(parent, dag[parent]) for parent in parents(dag, *reference)]
        below = dag.depth_first if "dag-scope=all" in request.target else dag.directory_blocks
        body = b"".join(write_car([], [*path, *islice(below(cid), MOST_BLOCKS)]))
        return Scripted(body=body, headers={"Content-Type": CAR_TYPE})
    if is_node(cid) and unixfs_kind(cid, dag[cid]) is not data.Kind.FILE:
        return Scripted(status=301, headers={"Location": request.target + "/"})
    return Scripted(body=dag.read(cid))


def parents(dag, root, names):
    for depth in range(len(names)):
        yield dag.find(root, *names[:depth])

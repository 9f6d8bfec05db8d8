"""The content of the benchmarks: many distinct documents of 1 KB, and one large file."""

import hashlib
import json
import os
from pathlib import Path

from holdfast.content.cid import CID, RAW
from holdfast.content.profiles import UNIXFS_V1_2025
from holdfast.sources.importing import import_content

MIB = 1 << 20
DOCUMENT_SIZE = 1024
DOCUMENTS = 17_000  # ten rounds of bench/kubo.py
SMALLEST_BLOCK = MIB // 4  # in which anyone here cuts a file


def write_documents(folder: Path, count: int = DOCUMENTS) -> None:
    """Write `documents.jsonl`, one document a line, and `cids.txt`, their CIDs as raw blocks."""
    lines = [_document(number) for number in range(count)]
    folder.joinpath("documents.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    cids = "".join(f"{CID.of_raw(line)}\n" for line in lines)
    folder.joinpath("cids.txt").write_text(cids, encoding="ascii")


def _document(number: int) -> bytes:
    """Return the JSON text of document `number`: different in most of its bytes from any other."""
    value = {
        "id": number,
        "name": f"document {number}",
        "tags": ["bench", "json"],
        "owner": {"name": "Zoë", "verified": True},
        "text": "",
    }
    fixed = len(_to_json(value))
    seed = hashlib.shake_128(str(number).encode()).hexdigest(DOCUMENT_SIZE)
    return _to_json({**value, "text": seed[: DOCUMENT_SIZE - fixed]})


def _to_json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def write_large(folder: Path, mebibytes: int) -> Path:
    """Write a file into `files/`, its nodes without the leaves into `blocks/`; `root` is its CID.

    Files and blocks are named by their CIDs.
    """
    path = folder / "large"
    pattern = os.urandom(8 * MIB)
    with path.open("wb") as file:
        for _ in range(mebibytes // 8):
            file.write(pattern)
    mark_blocks(path, "original")
    (folder / "blocks").mkdir()
    files = folder / "files"
    files.mkdir()
    root = write_nodes(path, folder)
    folder.joinpath("root").write_text(root, encoding="ascii")
    return path.rename(files / root)


def write_nodes(path: Path, folder: Path) -> str:
    """Write the nodes of a file without the leaves into `blocks/`; return the CID of the file."""

    def keep(cid: CID, block: bytes) -> None:
        if cid.codec != RAW:
            folder.joinpath("blocks", str(cid)).write_bytes(block)

    return str(import_content(path, UNIXFS_V1_2025, keep).cid)


def mark_blocks(path: Path, text: str) -> None:
    """Make all blocks of a file different from each other, and from those with another text."""
    with path.open("r+b") as file:
        for position in range(0, path.stat().st_size, SMALLEST_BLOCK):
            os.pwrite(file.fileno(), f"{text} {position} ".encode(), position)

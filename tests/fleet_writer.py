"""Writes that are known by their numbers, and a program that makes them until it is killed.

`python -m tests.fleet_writer write FIRST COUNT` stores content through the connection ``copies`` of
the user's file, and prints a line of JSON when a write has returned, never before. With
``revoke MEMBER CID…`` it removes content from one member, and prints what became of each; with
``forget CID…`` it removes it from all of them. ``mend COUNT`` makes so many runs of health.
"""

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from holdfast import Client
from holdfast.errors import ClientError
from tests.content import stream

LARGE = 20_000_000
EVERY = 50  # one of so many writes is large


def data_of(number: int) -> bytes:
    """Return the bytes of a file; most are of a few blocks."""
    size = LARGE if number % EVERY == EVERY - 1 else 50_000 + 300_000 * (number % 7)
    return b"".join(stream(f"write {number}", size))


def value_of(number: int) -> dict[str, Any]:
    return {"number": number, "text": f"value {number} " * (number % 40)}


def files_of(number: int) -> dict[str, bytes]:
    return {
        "a.txt": f"folder {number}".encode(),
        "sub/b.bin": b"".join(stream(f"folder {number}", 400_000)),
    }


def write(client: Any, number: int) -> str:
    """Store the content of a number: JSON, a file, a stream that is read once, or a folder."""
    kind = number % 5
    if kind < 2:
        return str(client.store(value_of(number), name=f"write {number}").cid)
    data = data_of(number)
    if kind == 2:
        return str(client.upload(data, name=f"write {number}").cid)
    if kind == 3:
        with tempfile.TemporaryDirectory() as name:
            for path, content in files_of(number).items():
                file = Path(name, "folder", path)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)
            return str(client.upload(Path(name, "folder")).cid)
    return str(client.upload(_pieces(data), name=f"write {number}").cid)


def _pieces(data: bytes) -> Iterator[bytes]:
    for start in range(0, len(data), 100_000):
        yield data[start : start + 100_000]


def assert_whole(client: Any, number: int, cid: str) -> None:
    """Read what `write` has stored, and compare it."""
    kind = number % 5
    if kind < 2:
        assert client.retrieve(cid) == value_of(number)
    elif kind == 3:
        for path, content in files_of(number).items():
            assert client.download(f"{cid}/{path}").read() == content
    else:
        assert client.download(cid).read() == data_of(number)


def write_all(client: Any, first: str, count: str) -> None:
    for number in range(int(first), int(first) + int(count)):
        tell(number=number, cid=write(client, number))


def revoke_all(client: Any, member: str, *cids: str) -> None:
    for cid in cids:
        try:
            client.revoke(cid, only_at=member)
        except ClientError as error:
            tell(cid=cid, error=str(error))
        else:
            tell(cid=cid, error=None)


def forget_all(client: Any, *cids: str) -> None:
    for cid in cids:
        client.revoke(cid)
        tell(cid=cid)


def mend(client: Any, count: str) -> None:
    for _ in range(int(count)):
        for report in client.health(fix=True):
            tell(cid=report.cid, proven=report.proven)


ACTIONS = {"write": write_all, "revoke": revoke_all, "forget": forget_all, "mend": mend}


def tell(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)  # noqa: T201


def main(action: str, *arguments: str) -> None:
    with Client.connect("copies") as client:
        tell(ready=True)
        ACTIONS[action](client, *arguments)


if __name__ == "__main__":
    main(*sys.argv[1:])

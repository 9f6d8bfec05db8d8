"""The server for machines without Go: the same answers as server/main.go, written for asyncio.

`python -m bench.asyncio_server FOLDER` prints its address.
"""

import asyncio
import json
import sys
from pathlib import Path

from holdfast.content.cid import CID

RAW_TYPE = "application/vnd.ipld.raw"
ADDED = '{"IpfsHash":"%s","PinSize":%d,"Timestamp":"2026-01-01T00:00:00.000Z"}'
FILE = '{"id":"1","name":"a","cid":"%s","size":%d,"created_at":"2026-01-01T00:00:00.000Z"}'


SMALL_FORM = 1 << 18  # bytes of a form whose file is one block


def _file_in(headers: dict[str, str], form: bytes) -> bytes:
    """Return the content of the file in a form."""
    boundary = headers["content-type"].partition("boundary=")[2].encode()
    parts = (part.partition(b"\r\n\r\n") for part in form.split(b"\r\n--" + boundary))
    return next(content for head, _, content in parts if b"filename=" in head)


class Content:
    """What the gateway has: documents and nodes in memory, files on disk."""

    def __init__(self, folder: Path) -> None:
        lines = folder.joinpath("documents.jsonl").read_bytes().splitlines()
        self.documents = {str(CID.of_raw(line)): line for line in lines}
        self.nodes = {path.name: path.read_bytes() for path in folder.glob("blocks/*")}
        self.files = folder / "files"
        root = folder / "root"
        self.root = root.read_text(encoding="ascii") if root.exists() else ""


class Connection(asyncio.Protocol):
    """Answers the requests of one connection, one after the other."""

    def __init__(self, content: Content) -> None:
        self._content = content
        self._data = b""
        self._head: tuple[str, str, dict[str, str]] | None = None
        self._body = bytearray()
        self._left = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        if not isinstance(transport, asyncio.Transport):
            raise TypeError("a connection has two directions")
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Take the head, then the body, which is kept if it is a JSON document or small."""
        if self._head is None:
            self._data += data
            head, end, data = self._data.partition(b"\r\n\r\n")
            if not end:
                return
            self._data = b""
            first, *lines = head.decode("latin-1").split("\r\n")
            method, target, _ = first.split(" ")
            headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines)}
            self._head = method, target, headers
            self._left = int(headers.get("content-length", 0))
        self._left -= len(data)
        size = int(self._head[2].get("content-length", 0))
        if self._head[1].endswith("pinJSONToIPFS") or size <= SMALL_FORM:
            self._body += data
        if self._left <= 0:
            (method, target, headers), self._head = self._head, None
            body, self._body = bytes(self._body), bytearray()
            self._answer(method, target, headers, body)

    def _answer(self, method: str, target: str, headers: dict[str, str], body: bytes) -> None:
        content = self._content
        size = int(headers.get("content-length", 0))
        if target.startswith("/v3/"):
            self._answer_third_api(method, headers, size)
        elif target.endswith("pinJSONToIPFS"):
            value = json.dumps(
                json.loads(body)["pinataContent"], ensure_ascii=False, separators=(",", ":")
            ).encode()
            self._reply((ADDED % (CID.of_raw(value), len(value))).encode())
        elif method == "POST" and size <= SMALL_FORM:
            file = _file_in(headers, body)
            self._reply((ADDED % (CID.of_raw(file), len(file))).encode())
        elif method == "POST":
            self._reply((ADDED % (content.root, size)).encode())
        else:
            cid, _, query = target.rpartition("/")[2].partition("?")
            is_block = "format=raw" in query or headers.get("accept") == RAW_TYPE
            self._send_content(cid, is_block=is_block)

    def _answer_third_api(self, method: str, headers: dict[str, str], size: int) -> None:
        root = self._content.root
        if method == "PATCH":
            self._reply(b"", status="204 No Content", more=f"Upload-Cid: {root}\r\n")
        elif method == "GET":
            self._reply(('{"data":{"files":[' + FILE % (root, 0) + "]}}").encode())
        elif "upload-length" in headers:
            location = f"Location: http://{headers['host']}/v3/files/1\r\n"
            self._reply(b"", status="201 Created", more=location)
        else:
            self._reply(('{"data":' + FILE % (CID.of_raw(b""), size) + "}").encode())

    def _send_content(self, cid: str, *, is_block: bool) -> None:
        block = self._content.documents.get(cid)
        if block is None and is_block:
            block = self._content.nodes.get(cid)
        path = self._content.files / cid
        if block is not None:
            self._reply(block, kind=RAW_TYPE if is_block else "application/json")
        elif path.exists():
            length = path.stat().st_size
            self._reply(b"", kind="application/octet-stream", length=length)
            asyncio.ensure_future(self._send_file(path))  # noqa: RUF006 - ends with the reply
        else:
            self._reply(b"", status="404 Not Found")

    async def _send_file(self, path: Path) -> None:
        with path.open("rb") as file:
            await asyncio.get_running_loop().sendfile(self._transport, file)

    def _reply(
        self,
        body: bytes,
        *,
        kind: str = "application/json",
        status: str = "200 OK",
        more: str = "",
        length: int | None = None,
    ) -> None:
        size = len(body) if length is None else length
        head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {size}\r\n{more}\r\n"
        self._transport.write(head.encode("latin-1") + body)


async def main() -> None:
    content = Content(Path(sys.argv[1]))
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(content), "127.0.0.1", 0)
    print("http://{}:{}".format(*server.sockets[0].getsockname()), flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())

"""What clients send: a proxy that records it, and what can be learned from the record.

Plaintexts and keys of these tests have marks, so that a single search finds any 16 bytes of them.
"""

import base64
import os
import re
from itertools import combinations

from holdfast.content.age.header import Header
from holdfast.content.age.keys import FileKey
from holdfast.content.age.stream import NONCE_SIZE
from tests.forwarders import Forwarder

MARK = "q7Zx2K"  # in every 16 bytes of a plaintext
KEY_MARK = bytes.fromhex("c3a1f05e9b47")  # in every file key
PROBE = 8  # bytes: every 16 bytes of a secret have one whole part of this size
HEADER_BEGIN = b"age-encryption.org/v1\n"
HEADER_END = re.compile(rb"\n--- [A-Za-z0-9+/]{43}\n")


def marked(size, number):
    """Return a text of this size, another one for each number."""
    count = size // 10 + 1
    return "".join(f"{MARK}{(7 * n + number) % 10_000:04}" for n in range(count))[:size]


def mark_file_keys(patch):
    """Let every new file key have a mark; `patch` sets an attribute of a class."""
    patch(FileKey, "generate", classmethod(lambda cls: cls(KEY_MARK + os.urandom(10))))


class Recorder(Forwarder):
    """Records what clients send, and cuts connections.

    Attributes:
        connections: What was sent on each connection.
        limit: Called for each new connection; returns the bytes after which it is cut, or None.
        reply_limit: How many bytes of replies there may be before a connection is cut, or None.
        on_cut: Called before a connection is cut.
        cuts: How many were cut.
        sent: The bytes on all connections.
        received: The bytes of all replies.
    """

    def __init__(self, target, limit=lambda: None):
        self.connections = []
        self.limit = limit
        self.reply_limit = None
        self.on_cut = lambda: None
        self.cuts = self.sent = self.received = 0
        super().__init__(target)

    def _pump(self, source, target, on_data):
        super()._pump(source, target, self._record() if on_data == self.on_sent else on_data)

    def _record(self):
        sent, limit = bytearray(), self.limit()
        self.connections.append(sent)

        def record(data):
            sent.extend(data)
            self.sent += len(data)
            if limit is not None and len(sent) >= limit:
                self._cut()

        return record

    def on_received(self, data):
        self.received += len(data)
        if self.reply_limit is not None and self.received >= self.reply_limit:
            self._cut()

    def _cut(self):
        self.cuts += 1
        self.on_cut()
        raise ConnectionAbortedError


# Secrets in what was sent, or in files


def probes(*identities):
    """Return what is searched for: marks and parts of keys, plain and as other texts."""
    marks = [MARK.encode(), KEY_MARK]
    texts = [identity.text.reveal().rpartition("1")[2].encode() for identity in identities]
    parts = [text[at : at + PROBE] for text in texts for at in range(0, len(text) - PROBE, PROBE)]
    return [form for mark in marks for form in _forms(mark)] + parts


def _forms(mark):
    """Yield `mark` itself, in base 16, and in base 64, wherever it begins there."""
    yield from (mark, mark.hex().encode(), mark.hex().upper().encode())
    for shift in range(3):
        text = base64.b64encode(bytes(shift) + mark).rstrip(b"=")
        is_whole = (shift + len(mark)) % 3 == 0
        yield text[-(-8 * shift // 6) : None if is_whole else -1]


def leaks(data, secrets):
    """Return which of the secrets are in `data`."""
    return [secret for secret in secrets if secret in data]


def leaking_files(secrets, *folders):
    """Return the paths of all files below the folders in which there is a secret."""
    paths = (path for folder in folders for path in folder.rglob("*"))
    files = [path for path in paths if path.is_file() and not path.is_symlink()]
    return {path for path in files if leaks(path.read_bytes(), secrets)}


# Ciphertexts in what was sent


def requests_in(sent):
    """Yield the first line, the fields and the body of each request; the last may be incomplete."""
    data, position = bytes(sent), 0
    while (end := data.find(b"\r\n\r\n", position)) >= 0:
        line, *lines = data[position:end].decode("latin-1").split("\r\n")
        pairs = (text.partition(":") for text in lines)
        fields = {name.lower(): value.strip() for name, _, value in pairs}
        position = end + 4
        if fields.get("transfer-encoding") == "chunked":
            body, position = _unchunked(data, position)
        else:
            start, position = position, position + int(fields.get("content-length", 0))
            body = data[start:position]
        yield line, fields, body


def _unchunked(data, position):
    pieces = []
    while (end := data.find(b"\r\n", position)) >= 0:
        size = int(data[position:end], 16)
        pieces.append(data[end + 2 : end + 2 + size])
        position = end + 4 + size
        if not size:
            return b"".join(pieces), position
    return b"".join(pieces), len(data)


def age_pieces(connections):
    """Yield the pieces of age files that were sent: the head of the file, a position, and bytes.

    A form has whole files. A resumable upload has pieces, of which the first has the head.
    """
    uploads = {}
    for sent in connections:
        for line, fields, body in requests_in(sent):
            if line.startswith("PATCH "):
                offset = int(fields["upload-offset"])
                uploads.setdefault(line.split()[1], []).append((offset, body))
            elif "boundary=" in fields.get("content-type", ""):
                boundary = fields["content-type"].partition("boundary=")[2].encode()
                for part in body.split(b"\r\n--" + boundary):
                    content = part.partition(b"\r\n\r\n")[2]
                    if (head := _head(content)) is not None:
                        yield head, 0, content
    for pieces in uploads.values():
        heads = {head for offset, body in pieces if not offset and (head := _head(body))}
        assert len(heads) <= 1
        for offset, body in pieces if heads else []:
            yield *heads, offset, body


def _head(content):
    """Return the header and the nonce of an age file; None if it is none, or not all is there."""
    end = HEADER_END.search(content) if content.startswith(HEADER_BEGIN) else None
    size = 0 if end is None else end.end() + NONCE_SIZE
    return content[:size] if 0 < size <= len(content) else None


def ciphertexts(connections, identity):
    """Return the sent pieces of each payload, by its file key and nonce."""
    payloads = {}
    for head, position, data in age_pieces(connections):
        key = Header.parse(head[:-NONCE_SIZE]).unwrap([identity]).reveal()
        payloads.setdefault((key, head[-NONCE_SIZE:]), []).append((position - len(head), data))
    return payloads


def assert_never_two_ciphertexts(payloads):
    """Assert that no byte of a payload was sent with two values, so no chunk was."""
    for pieces in payloads.values():
        for (one, first), (other, second) in combinations(pieces, 2):
            start = max(one, other, 0)
            end = min(one + len(first), other + len(second))
            if start < end:
                assert first[start - one : end - one] == second[start - other : end - other]

"""Calls a node as anybody would: with plain HTTP, or with bytes on a socket."""

import json
import socket

import urllib3


class Caller:
    """Calls a node with its token; `path` may be a whole URL."""

    prefix = ""

    def __init__(self, node):
        self.node = node
        self.pool = urllib3.PoolManager()

    def __call__(self, method, path, *, token=None, headers=None, **more):
        """Send a request; without a token if it is empty."""
        token = self.node.token if token is None else token
        fields = {"Authorization": f"Bearer {token}"} if token else {}
        fields = {**fields, **(headers or {})}
        url = path if path.startswith("http") else f"{self.node.api_url}{self.prefix}{path}"
        return self.pool.request(method, url, headers=fields, timeout=120, retries=False, **more)

    def get(self, path, **fields):
        return self("GET", path, fields=fields).json()

    def pin_json(self, body, **more):
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        return self("POST", "/pinning/pinJSONToIPFS", body=raw, headers=headers, **more)

    def pin_files(self, files, *, options=None, metadata=None, options_first=False):
        fields = [("file", (name, data)) for name, data in files]
        texts = [("pinataOptions", json.dumps(options))] if options is not None else []
        texts += [("pinataMetadata", json.dumps(metadata))] if metadata is not None else []
        fields = texts + fields if options_first else fields + texts
        return self("POST", "/pinning/pinFileToIPFS", fields=fields)

    def pin(self, data):
        """Pin a file; return its CID."""
        return self.pin_files([("f", data)]).json()["IpfsHash"]

    def pin_form(self, body, kind="multipart/form-data; boundary=b"):
        """Send the body of a form as it is."""
        headers = {"Content-Type": kind}
        return self("POST", "/pinning/pinFileToIPFS", body=body, headers=headers)


def refusal(response):
    """The status of a refusal by the older API, and its error."""
    assert 400 <= response.status < 500, response.data
    assert response.headers["content-type"] == "application/json"
    return response.status, response.json()["error"]


def connect(node, address="127.0.0.1"):
    """Connect with little room for what comes, so that it stays with the node."""
    host, port = node.api_url.removeprefix("http://").split(":")
    peer = socket.socket()
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    peer.settimeout(20)
    peer.bind((address, 0))
    peer.connect((host, int(port)))
    return peer


def head_of(node, path, method="POST", **headers):
    lines = [f"{method} {path} HTTP/1.1", "Host: x", f"Authorization: Bearer {node.token}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def raw_exchange(node, data):
    """Send bytes as they are, and read the head of the reply; empty if the node closes."""
    received = b""
    with connect(node) as peer:
        peer.sendall(data)
        try:
            while b"\r\n\r\n" not in received and (piece := peer.recv(65536)):
                received += piece
        except (TimeoutError, ConnectionError):
            pass
    return received

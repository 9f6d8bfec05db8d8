"""Calls the v3 API of a node as anybody would, with plain HTTP."""

import base64
import json
import time

from tests.node_caller import Caller


class V3Caller(Caller):
    def data(self, method, path, **more):
        """Return the `data` of a reply that must be a success."""
        response = self(method, path, **more)
        assert response.status == 200, response.data
        return response.json()["data"]

    def upload(self, content, filename="file.txt", *, path="/v3/files", last=False, **fields):
        """Upload a file; its fields come before it, or after it as in the official SDK."""
        parts = [("file", (filename, content))]
        texts = [(key, str(value)) for key, value in ({"network": "public"} | fields).items()]
        return self("POST", path, fields=parts + texts if last else texts + parts)

    def stored(self, content, filename="file.txt", **fields):
        response = self.upload(content, filename, **fields)
        assert response.status == 200, response.data
        return response.json()["data"]

    def files(self, network="public", **query):
        page = self.data("GET", f"/v3/files/{network}", fields={"limit": "1000", **query})
        return page["files"]

    def link(self, cid, expires=60, date=None):
        body = {
            "url": f"{self.node.api_url}/files/{cid}",
            "date": int(time.time()) if date is None else date,
            "expires": expires,
            "method": "GET",
        }
        return self.data("POST", "/v3/files/private/download_link", json=body)

    # Uploads in several requests

    def create(self, length, *, path="/v3/files", token=None, headers=None, **metadata):
        pairs = {"filename": "file.bin", "network": "public"} | metadata
        header = ",".join(
            f"{key} {base64.b64encode(str(value).encode()).decode()}"
            for key, value in pairs.items()
        )
        fields = {"Upload-Length": str(length), "Upload-Metadata": header, **(headers or {})}
        return self("POST", path, headers=fields, token=token)

    def patch(self, location, offset, content, *, token=None, **headers):
        fields = {
            "Content-Type": "application/offset+octet-stream",
            "Upload-Offset": str(offset),
            **headers,
        }
        return self("PATCH", location, headers=fields, body=content, token=token)

    def offset(self, location):
        response = self("HEAD", location)
        assert response.status == 200, response.status
        return int(response.headers["Upload-Offset"])


def error_of(response):
    """Return the status of a refusal and its message, which has the shape of the service."""
    error = json.loads(response.data)["error"]
    assert error["code"] == response.status
    return response.status, error["message"]

"""One `PoolManager.request`, with the defaults of the library."""

import json
from typing import Any

import urllib3

from bench.clients import HEADERS, Settings, pin_request


class Bare:
    """No check but that of the status."""

    def __init__(self, settings: Settings) -> None:
        self._url = settings.url
        self._pool = urllib3.PoolManager()

    def store(self, document: object) -> str:
        """Return the CID."""
        body = json.dumps(pin_request(document)).encode()
        url = f"{self._url}/pinning/pinJSONToIPFS"
        response = self._pool.request("POST", url, body=body, headers=HEADERS)
        if response.status != 200:
            raise RuntimeError(f"status {response.status}")
        return str(json.loads(response.data)["IpfsHash"])

    def retrieve(self, cid: str) -> Any:
        """Return the document."""
        response = self._pool.request("GET", f"{self._url}/ipfs/{cid}")
        if response.status != 200:
            raise RuntimeError(f"status {response.status}")
        return json.loads(response.data)

    def close(self) -> None:
        """Close the connections."""
        self._pool.clear()


connect = Bare

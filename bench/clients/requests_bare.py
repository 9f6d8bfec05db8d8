"""One `requests.Session`, with the defaults of the library."""

from typing import Any

import requests

from bench.clients import HEADERS, Settings, pin_request


class Bare:
    """No check but that of the status."""

    def __init__(self, settings: Settings) -> None:
        self._url = settings.url
        self._session = requests.Session()

    def store(self, document: object) -> str:
        """Return the CID."""
        url = f"{self._url}/pinning/pinJSONToIPFS"
        response = self._session.post(url, json=pin_request(document), headers=HEADERS)
        response.raise_for_status()
        return str(response.json()["IpfsHash"])

    def retrieve(self, cid: str) -> Any:
        """Return the document."""
        response = self._session.get(f"{self._url}/ipfs/{cid}")
        response.raise_for_status()
        return response.json()

    def close(self) -> None:
        """Close the connections."""
        self._session.close()


connect = Bare

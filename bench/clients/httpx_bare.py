"""One `httpx.AsyncClient` without a limit of connections, with the library's other defaults."""

from typing import Any

import httpx

from bench.clients import HEADERS, Settings, pin_request


class Bare:
    """No check but that of the status."""

    def __init__(self, settings: Settings) -> None:
        self._url = settings.url
        self._client = httpx.AsyncClient(limits=httpx.Limits(max_connections=None))

    async def store(self, document: object) -> str:
        """Return the CID."""
        url = f"{self._url}/pinning/pinJSONToIPFS"
        response = await self._client.post(url, json=pin_request(document), headers=HEADERS)
        response.raise_for_status()
        return str(response.json()["IpfsHash"])

    async def retrieve(self, cid: str) -> Any:
        """Return the document."""
        response = await self._client.get(f"{self._url}/ipfs/{cid}")
        response.raise_for_status()
        return response.json()

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()


async def connect(settings: Settings) -> Bare:
    """Return the client."""
    return Bare(settings)

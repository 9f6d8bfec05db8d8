"""One `ClientSession` without a limit of connections, with the other defaults of the library."""

import json
from typing import Any

import aiohttp

from bench.clients import HEADERS, Settings, pin_request


class Bare:
    """No check but that of the status."""

    def __init__(self, settings: Settings) -> None:
        self._url = settings.url
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))

    async def store(self, document: object) -> str:
        """Return the CID."""
        body = json.dumps(pin_request(document)).encode()
        url = f"{self._url}/pinning/pinJSONToIPFS"
        async with self._session.post(url, data=body, headers=HEADERS) as response:
            if response.status != 200:
                raise RuntimeError(f"status {response.status}")
            return str(json.loads(await response.read())["IpfsHash"])

    async def retrieve(self, cid: str) -> Any:
        """Return the document."""
        async with self._session.get(f"{self._url}/ipfs/{cid}") as response:
            if response.status != 200:
                raise RuntimeError(f"status {response.status}")
            return json.loads(await response.read())

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()


async def connect(settings: Settings) -> Bare:
    """Return the client; it needs a running event loop."""
    return Bare(settings)

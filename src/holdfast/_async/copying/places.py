"""What is known about a provider that content is copied from or to."""

import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from holdfast._async.providers.http import AsyncHTTPProvider
from holdfast._async.providers.local import AsyncLocalProvider
from holdfast._async.reads.gateway_reader import AsyncGatewayReader
from holdfast.config.locations import data_folder
from holdfast.config.secret import Secret
from holdfast.errors import ClientError
from holdfast.files.copy_journal import Place
from holdfast.protocol.host_privacy import WORLD, privacy
from holdfast.provider import AsyncFinding, AsyncReachable, has_capability
from holdfast.records import Pin, PinFilter


def place_of(provider: object) -> Place:
    """Return what a journal calls `provider`. It reads the id of a local store from disk.

    A store keeps its id when its folder is moved, and another store in the same folder has another.
    """
    kind = type(provider).__name__.removeprefix("Async")
    config = getattr(provider, "config", None)
    if config is None:
        return Place(kind)
    account = _account(config.provider_token, config.provider_options)
    if isinstance(provider, AsyncHTTPProvider):
        return Place(f"{kind} {config.api_url}", account)
    store = provider.repository.id if isinstance(provider, AsyncLocalProvider) else ""
    path = os.path.realpath(data_folder() if config.path is None else config.path)
    address = "" if config.pin_api_url is None else f" {config.pin_api_url}"
    return Place(f"{kind} {store or path}{address}", account)


def are_one_place(one: object, other: object) -> bool:
    """Return whether two providers are the same place, with the same account.

    A copy of a local store has the same id, so two stores are compared by their folders.
    """
    if isinstance(one, AsyncLocalProvider) and isinstance(other, AsyncLocalProvider):
        return one.repository.path.samefile(other.repository.path)
    return place_of(one) == place_of(other)


def _account(token: Secret | None, options: Mapping[str, Any]) -> Secret | None:
    """Return what tells two accounts at one address apart. The options may name a part of one."""
    if not options:
        return token
    return Secret(f"{token and token.reveal()} {sorted(options.items())}")


async def find_pin(provider: Any, cid: str) -> Pin | None:
    """Return the pin of `cid` at `provider`; None if there is none, or it cannot be asked."""
    if not has_capability(provider, AsyncFinding):
        return None
    async for pin in provider.find_pins(PinFilter(cid=cid), limit=1):
        return pin
    return None


def has_content(pin: Pin) -> bool:
    """Return whether a provider has the content of `pin`, perhaps not at all of its nodes yet."""
    return pin.state == "pinned" or "pinned" in (pin.peers or {}).values()


async def addresses_of(provider: object) -> list[str]:
    """Return the public addresses of `provider` on the network; none if it does not say them."""
    if not has_capability(provider, AsyncReachable):
        return []
    try:
        return await provider.addresses()
    except ClientError:  # they are hints, and a token may lack the permission to ask
        return []


def is_on_network(provider: object) -> bool:
    """Return whether other nodes of IPFS can fetch the content of `provider` by its CID.

    A store on this machine is not on the network. A service is, unless all of its gateways have
    private addresses, or it is asked for private files; a node is, unless it is used offline.
    """
    if not isinstance(provider, AsyncHTTPProvider):
        return False
    config = provider.config
    options = config.provider_options
    if options.get("offline") or options.get("network") == "private":
        return False
    if not isinstance(provider.reader, AsyncGatewayReader):
        return True
    return config.gateway_url is None or any(
        privacy(urlsplit(url).hostname) == WORLD for url in config.gateway_url
    )

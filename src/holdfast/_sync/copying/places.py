# WARNING: this file is generated from src/holdfast/_async/copying/places.py
# by scripts/generate_sync.py. Change the original instead.
"""What is known about a provider that content is copied from or to."""

import os
from urllib.parse import urlsplit

from holdfast._sync.providers.http import HTTPProvider
from holdfast._sync.reads.gateway_reader import GatewayReader
from holdfast.files.copy_journal import Place
from holdfast.files.locations import data_folder
from holdfast.protocol.gateway import DEFAULT_GATEWAYS
from holdfast.protocol.host_privacy import WORLD, privacy


def place_of(provider: object) -> Place:
    """Return what a journal calls `provider`."""
    place = getattr(provider, "place", None)
    if isinstance(place, Place):
        return place
    kind = type(provider).__name__.removeprefix("Async")
    config = getattr(provider, "config", None)
    if config is None:
        return Place(kind)
    if isinstance(provider, HTTPProvider):
        return Place(f"{kind} {config.api_url}", config.provider_token)
    path = os.path.realpath(data_folder() if config.path is None else config.path)
    return Place(f"{kind} {path}")


def is_on_network(provider: object) -> bool:
    """Return whether other nodes of IPFS can fetch the content of `provider` by its CID.

    A store on this machine is not on the network. A service is, unless all of its gateways have
    private addresses; a node is, unless it is used offline.
    """
    if not isinstance(provider, HTTPProvider):
        return False
    config = provider.config
    if config.provider_options.get("offline"):
        return False
    if not isinstance(provider.reader, GatewayReader):
        return True
    gateways = config.gateway_url or DEFAULT_GATEWAYS
    return any(privacy(urlsplit(url).hostname) == WORLD for url in gateways)

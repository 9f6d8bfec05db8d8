"""Addresses of nodes of the IPFS network (multiaddrs), such as ``/ip4/203.0.113.1/tcp/4001``."""

from collections.abc import Iterable
from typing import Final

from holdfast.protocol.host_privacy import WORLD, privacy

HOSTS: Final = frozenset({"ip4", "ip6", "dns", "dns4", "dns6", "dnsaddr"})
PEER: Final = "/p2p/"
RELAY: Final = "/p2p-circuit"
MAX_LENGTH: Final = 1000  # characters


def public_addresses(addresses: Iterable[object]) -> list[str]:
    """Return the addresses that all can reach, which name a peer; services refuse all others.

    Example:
        >>> public_addresses(["/ip4/10.0.0.1/tcp/4001/p2p/12D3", "/dns/example.com/tcp/1/p2p/12D3"])
        ['/dns/example.com/tcp/1/p2p/12D3']
    """
    texts = (each for each in addresses if isinstance(each, str) and len(each) <= MAX_LENGTH)
    return [each for each in dict.fromkeys(texts) if _is_public(each)]


def _is_public(address: str) -> bool:
    if RELAY in address or PEER not in address or not address.isascii():
        return False
    empty, kind, host, *_ = [*address.split("/"), "", ""]
    return not empty and kind in HOSTS and bool(host) and privacy(host) == WORLD

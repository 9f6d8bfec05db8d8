"""How private a host is, which decides whether a redirect to it is followed."""

import re
import unicodedata
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final, TypeAlias
from urllib.parse import unquote, urlsplit

WORLD: Final = 0
PRIVATE: Final = 1
MACHINE: Final = 2  # this machine: loopback, and 0.0.0.0, which connects to it
METADATA: Final = 3  # link-local: where clouds offer the credentials of their machines

METADATA_ADDRESSES: Final = (
    ip_address("192.0.0.192"),  # Oracle
    ip_address("100.100.100.200"),  # Alibaba
    ip_address("168.63.129.16"),  # Azure; public only by its number
    ip_address("fd00:ec2::254"),  # Amazon
    ip_address("fd20:ce::254"),  # Google
    ip_address("fd00:42::42"),  # Scaleway
)

_Address: TypeAlias = IPv4Address | IPv6Address
_THIS_NETWORK: Final = IPv4Network("0.0.0.0/8")
# Only a private resolver knows names under these (RFC 6762, RFC 8375, ICANN 2024).
_PRIVATE_SUFFIXES: Final = (".local", ".home.arpa", ".internal", ".localdomain")
_NUMERIC_END: Final = re.compile(r"(^|\.)(0x[0-9a-f]*|[0-9]+)$", re.IGNORECASE)

# IPv6 networks whose addresses contain an IPv4 address, and the number of bits after it.
_EMBEDDING: Final = (
    (IPv6Network("::/96"), 0),  # IPv4-compatible
    (IPv6Network("::ffff:0:0/96"), 0),  # IPv4-mapped
    (IPv6Network("::ffff:0:0:0/96"), 0),  # IPv4-translated
    (IPv6Network("64:ff9b::/96"), 0),  # NAT64
    (IPv6Network("64:ff9b:1::/48"), 0),  # NAT64 of a private network; other positions are possible
    (IPv6Network("2002::/16"), 80),  # 6to4
    (IPv6Network("2001::/32"), 64),  # Teredo: the server
)
_TRANSLATED: Final = tuple(network for network, _ in _EMBEDDING[1:4])
_TEREDO: Final = IPv6Network("2001::/32")
_LOCAL_NAT64: Final = IPv6Network("64:ff9b:1::/48")
_ISATAP: Final = 0x5EFE


def site_of(url: str) -> str:
    """Return the site of an address: those of one site may fail together.

    It is the last two labels of the host, an IP address itself, or this machine.

    Example:
        >>> site_of("https://api.pinata.cloud"), site_of("http://10.0.0.7:5001"), site_of("")
        ('pinata.cloud', '10.0.0.7', 'this machine')
    """
    host = (urlsplit(url).hostname or "").removesuffix(".")
    if not host or privacy(host) == MACHINE:
        return "this machine"
    is_address = ":" in host or _NUMERIC_END.search(host) is not None
    return host if is_address else ".".join(host.split(".")[-2:])


def privacy(host: str | None) -> int:
    """Return how private `host` is: `WORLD`, `PRIVATE`, `MACHINE` or `METADATA`.

    `host` is an address or a name. A name is not resolved: it counts as `WORLD` unless the name
    itself shows otherwise. The transport checks the address when it connects.

    Example:
        >>> privacy("ipfs.io"), privacy("10.0.0.1"), privacy("localhost"), privacy("169.254.0.1")
        (0, 1, 2, 3)
        >>> privacy("::ffff:169.254.169.254"), privacy("2002:7f00:1::")
        (3, 2)
    """
    name = _plain_spelling(host or "")
    if name == "localhost" or name.endswith(".localhost"):
        return MACHINE
    try:
        address = ip_address(name)
    except ValueError:
        if _NUMERIC_END.search(name):
            # Some programs read 2130706433, 127.1 and 0x7f000001 as addresses. No host name ends
            # like that.
            return METADATA
        return PRIVATE if "." not in name or name.endswith(_PRIVATE_SUFFIXES) else WORLD
    return max(map(_level, (address, *_embedded(address))))


def allows(most: int, address: str) -> bool:
    """Return whether a request that may go to hosts of the privacy `most` may go to `address`."""
    return most >= METADATA or privacy(address) <= most  # the most private level allows every one


def _plain_spelling(host: str) -> str:
    """Return `host` as a proxy may read it: without full-width digits, other dots, %61 for a."""
    name = unicodedata.normalize("NFKC", unquote(host)).replace("\u3002", ".")
    return name.lower().rstrip(".")


def _level(address: _Address) -> int:
    if address.is_link_local or address in METADATA_ADDRESSES:
        return METADATA
    if address.is_loopback or address.is_unspecified or address in _THIS_NETWORK:
        return MACHINE
    if isinstance(address, IPv4Address):
        is_private = address.is_reserved
    elif any(address in network for network in _TRANSLATED):
        return WORLD  # only the embedded address counts
    else:
        # 6to4 has no public relays any more, and versions of Python disagree about it.
        is_private = address.is_site_local or address in _LOCAL_NAT64 or bool(address.sixtofour)
    is_private = is_private or address.is_multicast or not address.is_global
    return PRIVATE if is_private else WORLD


def _embedded(address: _Address) -> Iterator[IPv4Address]:
    """Yield the IPv4 addresses that a router may derive from an IPv6 address."""
    if isinstance(address, IPv4Address):
        return
    number = int(address)
    for network, shift in _EMBEDDING:
        if address in network:
            yield _ipv4(number >> shift)
    if address in _TEREDO:
        yield _ipv4(~number)  # the client
    if number >> 32 & 0xFFFF == _ISATAP:
        yield _ipv4(number)
    if address in _LOCAL_NAT64 and number >> 64 & 0xFFFF:
        # RFC 6052, 2.2: with a prefix of 48 bits, the address lies around bits 64 to 71.
        yield _ipv4((number >> 64 & 0xFFFF) << 16 | number >> 40 & 0xFFFF)


def _ipv4(number: int) -> IPv4Address:
    return IPv4Address(number & 0xFFFF_FFFF)

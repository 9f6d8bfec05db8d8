"""Multiaddrs, the addresses that Kubo shows and stores, as URLs."""

import re
from typing import Final

_TCP: Final = re.compile(
    r"/(ip4|ip6|dns|dns4|dns6)/(?P<host>[A-Za-z0-9.:_-]+)/tcp/(?P<port>[0-9]+)"
    r"(/http|(?P<tls>/https|/tls|/tls/http))?/?"
)
"""The multiaddr of a TCP port, perhaps with HTTP over it."""


def multiaddr_url(address: str) -> str:
    """Return the URL that a multiaddr stands for; "" for any other text.

    Example:
        >>> multiaddr_url("/ip4/127.0.0.1/tcp/5001")
        'http://127.0.0.1:5001'
        >>> multiaddr_url("http://127.0.0.1:5001")
        ''
    """
    parts = _TCP.fullmatch(address)
    if parts is None:
        return ""
    host = f"[{parts['host']}]" if ":" in parts["host"] else parts["host"]
    return f"{'https' if parts['tls'] else 'http'}://{host}:{parts['port']}"

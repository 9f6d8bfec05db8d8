"""Checks of configuration values: one function for each kind of field.

Each takes the field's name and a value, and returns the value in its stored form, or raises a
`ConfigError` that names the field and the remedy. It never shows the value, which may be a secret,
but for a host and its port.
"""

import ipaddress
import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import SplitResult, urlsplit

from holdfast import registry
from holdfast.config.secret import Secret
from holdfast.errors import ConfigError
from holdfast.events import EventHook

if TYPE_CHECKING:
    import ssl

# The multiaddr of a TCP port, perhaps with HTTP over it.
_TCP: Final = re.compile(
    r"/(ip4|ip6|dns|dns4|dns6)/(?P<host>[A-Za-z0-9.:_-]+)/tcp/(?P<port>[0-9]+)"
    r"(/http|(?P<tls>/https|/tls|/tls/http))?/?"
)
# The names of the CID profiles (IPIP-499, and Kubo's older CIDv1 layout) and their CID version.
PROFILES: Final[Mapping[str, int]] = {
    "unixfs-v1-2025": 1,
    "unixfs-v0-2015": 0,
    "kubo-legacy-cidv1": 1,
}
# An address without a scheme: a host, perhaps with a port and a path.
_BARE_ADDRESS: Final = re.compile(r"(?P<host>\[[^]/]+\]|[^][:/]+)(?P<port>:[0-9]+)?(/.*)?")
# What CIDs look like in addresses: in base58 (version 0), base32 and base36.
_CID: Final = re.compile(
    r"Qm[1-9A-HJ-NP-Za-km-z]{44}|baf[ky][a-z2-7]{4,}|b[a-z2-7]{50,}|k[a-z0-9]{48,}"
)
# Neither a path nor of the length of a recipient, which is post-quantum or classic.
_PART_OF_RECIPIENT: Final = re.compile(r"age1(?!(pq1[a-z0-9]{1952}|[a-z0-9]{58})\Z)[^/]*")
_BEARER: Final = re.compile(r"\Abearer(\s+|\Z)", re.IGNORECASE)  # copied with the token
_LABEL: Final = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
MAX_SECONDS: Final = 10**9
MIN_RATE: Final = 0.001


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


def base_url(name: str, value: Any) -> str:
    """Check an address to which paths are added: no query or user name. Remove a final slash.

    An address without a scheme gets one: ``http`` on this machine, else ``https``.
    """
    if isinstance(value, Secret):
        raise ConfigError(
            f"{name} must be a plain address, without a user name or a query: "
            "credentials go in provider_token or gateway_token"
        )
    if not isinstance(value, str):
        raise ConfigError(f"{name} must be a URL as a string, not {type(value).__name__}")
    address = _with_scheme(value.strip())
    if (right := multiaddr_url(address)) and not address_error(right):
        raise ConfigError(f"{name} is a multiaddr: write {right}")
    if expected := address_error(address):
        raise ConfigError(f"{name} must be {expected}")
    parts = urlsplit(address)
    if parts.fragment:
        raise ConfigError(f"{name} must not hold a fragment: remove the '#' and what follows it")
    return parts.geturl().rstrip("/")


def _with_scheme(address: str) -> str:
    """Return an address with its scheme. A single word stays as it is: it may be a mistake."""
    bare = _BARE_ADDRESS.fullmatch(address)
    if bare is None:
        return address
    host = bare["host"].strip("[]").lower()
    if is_loopback(host):
        return f"http://{address}"
    return f"https://{address}" if "." in host or ":" in host or bare["port"] else address


def api_urls(name: str, value: Any) -> str | tuple[str, ...] | None:
    """Check the address of an API, or several; None is for the provider's usual one."""
    if value is None or not isinstance(value, list | tuple):
        return None if value is None else base_url(name, value)
    if not value:
        raise ConfigError(f"{name} is empty: leave it out to use the default address")
    first, *others = (base_url(name, url) for url in value)
    return (first, *others) if others else first


def is_loopback(host: str | None) -> bool:
    """Return whether `host` is this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False


def address_error(value: str) -> str:
    """Return what `value` must be instead, or "" if all HTTP libraries read this address alike.

    It raises nothing: a traceback would show `value`, which may hold a password.
    """
    if not value.isascii() or not value.isprintable() or " " in value or "\\" in value:
        return "a URL in plain ASCII without spaces: write an international host in its xn-- form"
    try:
        parts = urlsplit(value)
        is_sound = parts.scheme in {"http", "https"} and parts.port != 0 and _is_host(parts)
    except ValueError:
        is_sound = False
    return "" if is_sound else "an address such as https://example.com"


def _is_host(parts: SplitResult) -> bool:
    """Return whether the host is a name or an IP address, followed by a port or nothing."""
    host = parts.netloc.rpartition("@")[2]
    if host.startswith("["):
        literal, _, port = host.removeprefix("[").partition("]")
        return bool(ipaddress.IPv6Address(literal)) and (not port or port.startswith(":"))
    labels = host.partition(":")[0].removesuffix(".").split(".")
    return all(_LABEL.fullmatch(label) for label in labels)


class LinkGateways(tuple[str, ...]):
    """Gateways that were not set for `local`: it uses them for links, and reads nothing there."""

    __slots__ = ()


def gateways(name: str, value: Any) -> tuple[str, ...] | None:
    """Check one gateway or several, and give each a path."""
    if value is None:
        return None
    urls = value if isinstance(value, list | tuple) else (value,)
    if not urls:
        raise ConfigError(f"{name} is empty: leave it out to use the default gateways")
    kind = LinkGateways if isinstance(value, LinkGateways) else tuple
    return kind(_gateway(name, url) for url in urls)


def own_gateways(name: str, value: Any, provider: Any) -> Any:
    """Return a field that was set with `provider`: gateways are for links only but for `local`."""
    if name != "gateway_url" or value is None or provider == registry.DEFAULT:
        return value
    return LinkGateways(value if isinstance(value, list | tuple) else [value])


def _gateway(name: str, value: Any) -> str:
    url = base_url(name, value)
    parts = urlsplit(url)
    if remedy := _without_cid(parts):
        raise ConfigError(f"{name} holds a CID: {remedy}")
    return url if parts.path else f"{url}/ipfs"


def _without_cid(parts: SplitResult) -> str:
    """Return what to give instead of a gateway's address that holds a CID, or "" if it does not."""
    label, _, host = parts.netloc.partition(".ipfs.")
    if host and _CID.fullmatch(label):
        return f"give the gateway alone, {parts.scheme}://{host}/ipfs"
    path, *others = re.split(rf"/(?:{_CID.pattern})(?=/|$)", parts.path, maxsplit=1)
    if not others:
        return ""
    if path in {"", "/ipfs"}:
        return f"give the gateway alone, {parts.scheme}://{parts.netloc}/ipfs"
    return "remove it and what follows it"  # without the path, which may hold a key


def token(name: str, value: Any) -> Secret | None:
    """Check a wrapped credential for a header. Trim it, and remove a leading ``Bearer``."""
    if value is None:
        return None
    if not isinstance(value.reveal(), str):
        raise ConfigError(f"{name} must be a string, not {type(value.reveal()).__name__}")
    trimmed = Secret(_BEARER.sub("", value.reveal().strip()))
    if not trimmed.reveal():
        raise ConfigError(f"{name} is blank: give the credential, or leave the field out")
    if not all("!" <= character <= "~" for character in trimmed.reveal()):
        raise ConfigError(
            f"{name} holds a space, a control or a non-ASCII character: "
            "copy the credential again, on one line"
        )
    return trimmed


def recipients(name: str, value: Any) -> tuple[str, ...] | None:
    """Check one source of recipients or several; None is for none."""
    sources = _key_sources(name, value)
    if any("SECRET-KEY" in source.reveal().upper() for source in sources):
        raise ConfigError(f"{name} holds an identity, which is secret: put it into identities")
    if any(_PART_OF_RECIPIENT.fullmatch(source.reveal()) for source in sources):
        raise ConfigError(f"{name} holds a part of a recipient: copy all of age1pq1… or age1…")
    return tuple(source.reveal() for source in sources) or None


def identities(name: str, value: Any) -> Secret | None:
    """Check one source of identities or several. They are kept together, on a line each."""
    sources = _key_sources(name, value)
    return Secret("\n".join(source.reveal() for source in sources)) if sources else None


def _key_sources(name: str, value: Any) -> list[Secret]:
    """Return the lines of a text, or of the texts in a list, each wrapped."""
    if value is None:
        return []
    outer = value if isinstance(value, Secret) else Secret(value)
    inner = outer.reveal() if isinstance(outer.reveal(), list | tuple) else [outer]
    texts = [text if isinstance(text, Secret) else Secret(text) for text in inner]
    del inner, value
    if not texts or not all(isinstance(text.reveal(), str) and text.reveal() for text in texts):
        raise ConfigError(f"{name} must be one text or several: keys, names of keys, or paths")
    return [Secret(line.strip()) for text in texts for line in text.reveal().split("\n")]


def proxy(name: str, value: Any) -> Secret | None:
    """Check the URL of a proxy. It is wrapped like a token, because it may hold a password."""
    checked = token(name, value)
    if checked is None:
        return None
    # A single word may be a mistake; in the environment, it is the usual form for some.
    address = checked if checked.reveal().isalnum() else proxy_address(checked)
    if expected := address_error(address.reveal()):
        raise ConfigError(f"{name} must be {expected}")
    return address


def proxy_address(proxy: Secret) -> Secret:
    """Return the address of a proxy with its scheme, which people leave out."""
    return proxy if "://" in proxy.reveal() else proxy.prefixed("http://")


def provider(name: str, value: Any) -> str:
    """Check the form of a provider's name. The registry checks that the provider exists."""
    if not isinstance(value, str) or not value.strip():
        examples = f"{registry.SERVICE!r} or {registry.DEFAULT!r}"
        raise ConfigError(f"{name} must be the name of a provider, such as {examples}")
    return value.strip()


def cid_version(name: str, value: Any) -> int:
    """Check that `value` is 0 or 1."""
    if value not in (0, 1) or isinstance(value, bool):
        raise ConfigError(f"{name} must be 0 or 1")
    return int(value)


def profile(name: str, value: Any) -> str | None:
    """Check the name of a profile, or None."""
    if value is not None and not (isinstance(value, str) and value in PROFILES):
        raise ConfigError(f"{name} must be one of {', '.join(PROFILES)}")
    return value


def flag(name: str, value: Any) -> bool:
    """Check that `value` is True or False, not only truthy or falsy."""
    if not isinstance(value, bool):
        raise ConfigError(f"{name} must be True or False, not {type(value).__name__}")
    return value


def positive(name: str, value: Any) -> float:
    """Check a number above 0."""
    number = _number(name, value)
    if not 0 < number <= MAX_SECONDS:
        raise ConfigError(f"{name} must be a number above 0 and up to {MAX_SECONDS}")
    return number


def not_negative(name: str, value: Any) -> float:
    """Check a number of 0 or more."""
    number = _number(name, value)
    if not 0 <= number <= MAX_SECONDS:
        raise ConfigError(f"{name} must be a number from 0 up to {MAX_SECONDS}")
    return number


def _number(name: str, value: Any) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError(f"{name} must be a number, not {type(value).__name__}")
    return value


def whole(name: str, value: Any) -> int:
    """Check a whole number above 0."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigError(f"{name} must be a whole number of at least 1")
    return value


def size(name: str, value: Any) -> int:
    """Check a number of bytes, which may be 0."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ConfigError(f"{name} must be a number of bytes: a whole number of at least 0")
    return value


def rate(name: str, value: Any) -> float | None:
    """Check a number of requests a minute, or None."""
    if value is not None and positive(name, value) < MIN_RATE:
        raise ConfigError(f"{name} must be {MIN_RATE} or more: one in {1 / MIN_RATE:.0f} minutes")
    return None if value is None else float(value)


def seconds(name: str, value: Any) -> float | None:
    """Check a number of seconds above 0, or None."""
    return None if value is None else positive(name, value)


def hook(name: str, value: Any) -> EventHook | None:
    """Check a function, or None."""
    if value is not None and not callable(value):
        raise ConfigError(f"{name} must be a function that takes an Event")
    return cast("EventHook | None", value)


def path(name: str, value: Any) -> str | os.PathLike[str] | None:
    """Check a path of the file system, or None."""
    if value is not None and not isinstance(value, str | os.PathLike):
        raise ConfigError(f"{name} must be a path, not {type(value).__name__}")
    if value == "":
        raise ConfigError(f"{name} is empty: name a folder, or leave the field out")
    return value


def ssl_context(name: str, value: Any) -> "ssl.SSLContext | None":
    """Check an `ssl.SSLContext`, or None."""
    import ssl  # noqa: PLC0415 - the help of commands does without it

    if value is not None and not isinstance(value, ssl.SSLContext):
        raise ConfigError(
            f"{name} must be an ssl.SSLContext: make one with ssl.create_default_context(cafile=…)"
        )
    return value


def options(name: str, value: Any) -> Mapping[str, Any]:
    """Check a mapping and copy it. It may be wrapped as a secret."""
    mapping = value.reveal() if isinstance(value, Secret) else value
    kind = type(mapping).__name__
    if isinstance(mapping, Mapping):
        return dict(mapping)
    del mapping
    raise ConfigError(f"{name} must be a mapping, not {kind}")

"""Checks of configuration values: one function for each kind of field.

Each takes the field's name and a value, and returns the value in its stored form, or raises a
`ConfigError` that names the field and the remedy. It never shows the value, which may be a secret.
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

PROFILES: Final[Mapping[str, int]] = {
    "unixfs-v1-2025": 1,
    "unixfs-v0-2015": 0,
    "kubo-legacy-cidv1": 1,
}
"""The names of the CID profiles (IPIP-499, and Kubo's older CIDv1 layout) and their CID version."""

_LABEL: Final = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
MAX_SECONDS: Final = 10**9
MIN_RATE: Final = 0.001


def base_url(name: str, value: Any) -> str:
    """Check an address to which paths are added: no query or user name. Remove a final slash."""
    if isinstance(value, Secret):
        raise ConfigError(
            f"{name} must be a plain address, without a user name or a query: "
            "credentials go in provider_token or gateway_token"
        )
    if not isinstance(value, str):
        raise ConfigError(f"{name} must be a URL as a string, not {type(value).__name__}")
    if expected := address_error(value.strip()):
        raise ConfigError(f"{name} must be {expected}")
    parts = urlsplit(value.strip())
    if parts.fragment:
        raise ConfigError(f"{name} must not hold a fragment: remove the '#' and what follows it")
    return parts.geturl().rstrip("/")


def api_urls(name: str, value: Any) -> str | tuple[str, ...] | None:
    """Check the address of an API, or several; None is for the provider's usual one."""
    if value is None or not isinstance(value, list | tuple):
        return None if value is None else base_url(name, value)
    if not value:
        raise ConfigError(f"{name} names no address: leave it out to use the usual one")
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


def gateways(name: str, value: Any) -> tuple[str, ...] | None:
    """Check one gateway or several, and give each a path."""
    if value is None:
        return None
    each = value if isinstance(value, list | tuple) else (value,)
    if not each:
        raise ConfigError(f"{name} names no gateway: leave it out to use the default gateways")
    return tuple(_gateway(name, url) for url in each)


def _gateway(name: str, value: Any) -> str:
    url = base_url(name, value)
    return url if urlsplit(url).path else f"{url}/ipfs"


def token(name: str, value: Any) -> Secret | None:
    """Check a wrapped credential that goes into a header, and trim it."""
    if value is None:
        return None
    if not isinstance(value.reveal(), str):
        raise ConfigError(f"{name} must be a string, not {type(value.reveal()).__name__}")
    trimmed = Secret(value.reveal().strip())
    if not trimmed.reveal():
        raise ConfigError(f"{name} is blank: give the credential, or leave the field out")
    if not all("!" <= character <= "~" for character in trimmed.reveal()):
        raise ConfigError(
            f"{name} holds a space, a control or a non-ASCII character: "
            "copy the credential again, on one line"
        )
    return trimmed


def proxy(name: str, value: Any) -> Secret | None:
    """Check the URL of a proxy. It is wrapped like a token, because it may hold a password."""
    address = token(name, value)
    if address is not None and (expected := address_error(address.reveal())):
        raise ConfigError(f"{name} must be {expected}")
    return address


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
    given = value.reveal() if isinstance(value, Secret) else value
    kind = type(given).__name__
    if isinstance(given, Mapping):
        return dict(given)
    del given
    raise ConfigError(f"{name} must be a mapping, not {kind}")

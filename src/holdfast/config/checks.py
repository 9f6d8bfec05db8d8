"""What makes a value of the configuration acceptable: one function for each kind of field.

Each takes the field's name and a value, and returns the value in its stored form or raises a
`ConfigError` that names the field and the remedy, never the value: it may be a secret.
"""

import ipaddress
import os
import re
import ssl
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from holdfast.config.secret import Secret
from holdfast.errors import ConfigError

PROFILES: Final[Mapping[str, int]] = {
    "unixfs-v1-2025": 1,
    "unixfs-v0-2015": 0,
    "kubo-legacy-cidv1": 1,
}
"""The names of the CID profiles (IPIP-499, and Kubo's older CIDv1 layout) and their CID version."""

NOT_SECRET: Final = frozenset(
    {
        *("provider", "gatewayurl", "pinapiurl", "cidversion", "profile", "verify", "timeouts"),
        *("retries", "ratelimit", "hedgeafter", "maxjsonbytes", "path", "cachepath", "onevent"),
        *("maxunverifiedbytes", "trustenv", "sslcontext", "allowinsecure"),
    }
)
"""The fields that hold no secret, in lower case. Any other may, under a mistyped name too."""

_LABEL: Final = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
MAX_NAME: Final = 40  # a longer "name" is a credential in the wrong field
MAX_SECONDS: Final = 10**9
MIN_RATE: Final = 0.001


def seal(values: Any) -> Any:
    """`values` with its secrets wrapped, so that no frame of ours holds one in the clear.

    A URL with a user name or a query may hold one as well; it is refused later, but not shown.
    """
    if isinstance(values, str | bytes):
        return Secret(values)  # type: ignore[arg-type] # somebody's token, given as the whole config
    if not isinstance(values, Mapping):
        return values
    return {key: _sealed(str(key).lower().replace("_", ""), values[key]) for key in values}


def _sealed(key: str, value: Any) -> Any:
    if value is None or isinstance(value, Secret):
        return value
    if key.endswith("url") and isinstance(value, list | tuple):
        return tuple(_sealed(key, each) for each in value)
    harmless = key in NOT_SECRET
    if harmless and key.endswith("url"):
        harmless = not (isinstance(value, str) and ("@" in value or "?" in value))
    elif harmless and isinstance(value, str | bytes) and not key.endswith("path"):
        harmless = len(value) <= MAX_NAME
    return value if harmless else Secret(value)


def base_url(name: str, value: Any) -> str:
    """`value` as an address to put paths behind: no trailing slash, query, or user name."""
    if isinstance(value, Secret):
        raise ConfigError(
            f"{name} must be a plain address, without a user name or a query: "
            "credentials go in provider_token or gateway_token"
        )
    if not isinstance(value, str):
        raise ConfigError(f"{name} must be a URL as a string, not {type(value).__name__}")
    if fault := address_fault(value.strip()):
        raise ConfigError(f"{name} must be {fault}")
    parts = urlsplit(value.strip())
    if parts.fragment:
        raise ConfigError(f"{name} must not hold a fragment: drop what follows the '#'")
    return parts.geturl().rstrip("/")


def is_loopback(host: str | None) -> bool:
    """Whether `host` is this very machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False


def address_fault(value: str) -> str:
    """What an address that every HTTP library reads in the same way would be; "" if `value` is one.

    Raises nothing: the frames of an error would show `value`, which may hold a password.
    """
    if not value.isascii() or not value.isprintable() or " " in value or "\\" in value:
        return "a URL in plain ASCII without spaces: write an international host in its xn-- form"
    try:
        parts = urlsplit(value)
        sound = parts.scheme in {"http", "https"} and parts.port != 0 and _is_host(parts)
    except ValueError:
        sound = False
    return "" if sound else "an address such as https://example.com"


def _is_host(parts: SplitResult) -> bool:
    """Whether the host is a name or an address, and nothing stands beside it but a port."""
    place = parts.netloc.rpartition("@")[2]
    if place.startswith("["):
        literal, _, port = place.removeprefix("[").partition("]")
        return bool(ipaddress.IPv6Address(literal)) and (not port or port.startswith(":"))
    labels = place.partition(":")[0].removesuffix(".").split(".")
    return all(_LABEL.fullmatch(label) for label in labels)


def gateways(name: str, value: Any) -> tuple[str, ...] | None:
    """One gateway or several, each with a path."""
    if value is None:
        return None
    each = value if isinstance(value, list | tuple) else (value,)
    if not each:
        raise ConfigError(f"{name} names no gateway: leave it out for the default ones")
    return tuple(_gateway(name, url) for url in each)


def _gateway(name: str, value: Any) -> str:
    url = base_url(name, value)
    return url if urlsplit(url).path else f"{url}/ipfs"


def token(name: str, value: Any) -> Secret | None:
    """A credential fit for a header."""
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
    """A proxy's URL, which may hold a password and is therefore kept like a token."""
    address = token(name, value)
    if address is not None and (fault := address_fault(address.reveal())):
        raise ConfigError(f"{name} must be {fault}")
    return address


def provider(name: str, value: Any) -> str:
    """A provider's name; the registry says whether there is one."""
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f"{name} must be the name of a provider, such as 'pinning' or 'local'")
    return value.strip()


def cid_version(name: str, value: Any) -> int:
    """0 or 1."""
    if value not in (0, 1) or isinstance(value, bool):
        raise ConfigError(f"{name} must be 0 or 1")
    return int(value)


def profile(name: str, value: Any) -> str | None:
    """A profile by name, or None."""
    if value is not None and not (isinstance(value, str) and value in PROFILES):
        raise ConfigError(f"{name} must be one of {', '.join(PROFILES)}")
    return value


def flag(name: str, value: Any) -> bool:
    """True or False, and nothing that is merely like it."""
    if not isinstance(value, bool):
        raise ConfigError(f"{name} must be True or False, not {type(value).__name__}")
    return value


def positive(name: str, value: Any) -> float:
    """A number above 0."""
    number = _number(name, value)
    if not 0 < number <= MAX_SECONDS:
        raise ConfigError(f"{name} must be a number above 0 and up to {MAX_SECONDS}")
    return number


def not_negative(name: str, value: Any) -> float:
    """A number of 0 or more."""
    number = _number(name, value)
    if not 0 <= number <= MAX_SECONDS:
        raise ConfigError(f"{name} must be a number from 0 up to {MAX_SECONDS}")
    return number


def _number(name: str, value: Any) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError(f"{name} must be a number, not {type(value).__name__}")
    return value


def whole(name: str, value: Any) -> int:
    """A whole number above 0."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigError(f"{name} must be a whole number of at least 1")
    return value


def rate(name: str, value: Any) -> float | None:
    """How many in a minute, or None."""
    if value is not None and positive(name, value) < MIN_RATE:
        raise ConfigError(f"{name} must be {MIN_RATE} or more: one in {1 / MIN_RATE:.0f} minutes")
    return None if value is None else float(value)


def seconds(name: str, value: Any) -> float | None:
    """A number above 0, or None."""
    return None if value is None else positive(name, value)


def hook(name: str, value: Any) -> Any:
    """A function, or None."""
    if value is not None and not callable(value):
        raise ConfigError(f"{name} must be a function that takes an Event")
    return value


def path(name: str, value: Any) -> str | os.PathLike[str] | None:
    """A path of the file system, or None."""
    if value is not None and not isinstance(value, str | os.PathLike):
        raise ConfigError(f"{name} must be a path, not {type(value).__name__}")
    if value == "":
        raise ConfigError(f"{name} is empty: name a folder, or leave the field out")
    return value


def ssl_context(name: str, value: Any) -> ssl.SSLContext | None:
    """An `ssl.SSLContext`, or None."""
    if value is not None and not isinstance(value, ssl.SSLContext):
        raise ConfigError(
            f"{name} must be an ssl.SSLContext: make one with ssl.create_default_context(cafile=…)"
        )
    return value


def options(name: str, value: Any) -> dict[str, Any]:
    """A mapping, copied."""
    given = value.reveal() if isinstance(value, Secret) else value
    kind = type(given).__name__
    if isinstance(given, Mapping):
        return dict(given)
    del given
    raise ConfigError(f"{name} must be a mapping, not {kind}")

"""The settings of a connection: its proxy, its TLS context, and the secrets to mask in replies."""

import base64
import os
import ssl
from collections.abc import Callable
from functools import lru_cache
from typing import Final
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from holdfast.config.checks import address_error, is_loopback, proxy_address
from holdfast.config.client_config import ClientConfig
from holdfast.config.secret import Scrubber, Secret
from holdfast.errors import ConfigError, NetworkError
from holdfast.hints import advise

MAX_SCRUBBERS: Final = 20  # that are kept: a token of `with_options` needs its own


def proxy_for(url: str, config: ClientConfig) -> Secret | None:
    """Return the proxy for `url`: the configured one, or the environment's with `trust_env`.

    A proxy from the environment is not used for addresses of this machine.
    """
    if config.proxy is not None or not config.trust_env:
        return config.proxy
    _, proxy = _environment_proxy(url)
    if proxy is not None and (expected := address_error(proxy.reveal())):
        raise ConfigError(f"the proxy in the environment must be {expected}")
    return proxy


def _environment_proxy(url: str) -> tuple[str, Secret | None]:
    """Return the proxy for `url` that the environment names, and what names it."""
    parts = urlsplit(url)
    if is_loopback(parts.hostname) or proxy_bypass(parts.netloc):
        return "", None
    proxies = getproxies()
    kind = next((kind for kind in (parts.scheme, "all") if proxies.get(kind)), None)
    if kind is None:
        return "", None
    variables = [name for name in os.environ if name.lower() == f"{kind}_proxy"]
    # Lower case comes last and counts, as in `getproxies`, which may also read other settings.
    return max(variables, default="a proxy of the system"), proxy_address(Secret(proxies[kind]))


def advise_proxy(error: Exception, url: str, config: ClientConfig) -> Exception:
    """Return `error`, with a hint if no request was sent and a proxy for `url` is not used."""
    if not isinstance(error, NetworkError) or error.sent or not error.transient:
        return error
    if config.proxy is not None or config.trust_env:
        return error
    name, proxy = _environment_proxy(url)
    if proxy is None or address_error(proxy.reveal()):
        return error
    words = f"{name} is set, but not used: set {{}} to use it"
    return advise(error, words.format("trust_env=True"), words.format("HOLDFAST_TRUST_ENV=true"))


def tls_context(config: ClientConfig) -> ssl.SSLContext:
    """Return the configured context, or one that trusts the system's certificates."""
    return config.ssl_context or ssl.create_default_context()


def split_proxy(proxy: Secret) -> tuple[str, Secret | None]:
    """Return the address of a checked proxy, and its credentials as a header's value, if any."""
    parts = urlsplit(proxy.reveal())
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    address = f"{parts.scheme}://{host}:{parts.port or {'http': 80, 'https': 443}[parts.scheme]}"
    if parts.username is None:
        return address, None
    credentials = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
    return address, Secret(base64.b64encode(credentials).decode()).prefixed("Basic ")


def secrets(config: ClientConfig, proxy: Secret | None) -> tuple[Secret | None, ...]:
    """Return the credentials that a peer or a proxy may send back, and that are then masked."""
    own = (config.provider_token, _password(config.provider_token), config.gateway_token)
    if proxy is None:
        return own
    password = Secret(unquote(urlsplit(proxy.reveal()).password or ""))
    return *own, password, split_proxy(proxy)[1]


def _password(token: Secret | None) -> Secret | None:
    """Return the password of a token that is written ``user:password``."""
    if token is None or ":" not in token.reveal():
        return None
    return Secret(token.reveal().partition(":")[2])


def scrubbers(config: ClientConfig) -> Callable[[tuple[Secret, ...], Secret | None], Scrubber]:
    """Return the function that makes the mask for a reply.

    Most requests have the same credentials, and so the same mask.
    """
    return lru_cache(MAX_SCRUBBERS)(lambda sent, proxy: Scrubber((*sent, *secrets(config, proxy))))

"""The configuration of a client: frozen, checked when it is made, its secrets masked.

A mistake is a `ConfigError` that names the field and what to do; nothing is sent to find it out.
"""

import os
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from typing import Any, Final, Self, TypedDict, Unpack
from urllib.parse import urlsplit

from holdfast import registry
from holdfast.config import checks
from holdfast.config.environment import read_environment
from holdfast.config.limits import Retries, Timeouts
from holdfast.config.secret import Secret
from holdfast.errors import ConfigError
from holdfast.events import EventHook

PIN_API_URL: Final = "https://api.pinata.cloud"
MAX_JSON_BYTES: Final = 64 << 20
MAX_UNVERIFIED_BYTES: Final = 1 << 30


class ConfigFields(TypedDict, total=False):
    """The fields of `ClientConfig` as its keywords take them."""

    provider: str
    provider_token: str | Secret | None
    gateway_url: str | tuple[str, ...] | list[str] | None
    gateway_token: str | Secret | None
    pin_api_url: str
    cid_version: int
    profile: str | None
    verify: bool
    timeouts: Timeouts | Mapping[str, Any]
    retries: Retries | Mapping[str, Any]
    rate_limit: float | None
    hedge_after: float | None
    max_json_bytes: int
    max_unverified_bytes: int
    path: str | os.PathLike[str] | None
    cache_path: str | os.PathLike[str] | None
    on_event: EventHook | None
    proxy: str | Secret | None
    trust_env: bool
    ssl_context: ssl.SSLContext | None
    allow_insecure: bool
    provider_options: Mapping[str, Any]


@dataclass(frozen=True, init=False)
class ClientConfig:
    """What a client is to do, and with what. All fields are keywords.

    Attributes:
        provider: ``local``, ``pinning``, or the name of an installed provider.
        provider_token: The provider's credential, a JWT. Outer whitespace is trimmed.
        gateway_url: The gateway for reads, or several in order. An empty path gets ``/ipfs``.
        gateway_token: A credential for the first gateway, if it wants one.
        pin_api_url: The base address of the pinning API.
        cid_version: The version of new CIDs, 0 or 1.
        profile: How content is cut into blocks; None follows `cid_version`.
        verify: Whether what is read is proven against its CID.
        timeouts: See `Timeouts`; a mapping of its fields is taken too.
        retries: See `Retries`; a mapping of its fields is taken too.
        rate_limit: Requests a minute at the most, evenly spaced, over all threads or tasks of the
            client; None is no limit.
        hedge_after: Seconds after which a read that a gateway has not begun to answer is tried at
            the next one too; the first proven answer wins. None waits for the first to fail.
        max_json_bytes: The largest JSON document that `retrieve` and `receive` take.
        max_unverified_bytes: How many bytes of a file a gateway may send that are verified only at
            their end, where no verified block tells the size. No ``Content-Length`` raises it.
        path: The folder of the embedded store.
        cache_path: Where downloads to a file keep what is proven so far, to resume after an
            interruption; None is the platform's folder for caches.
        on_event: Called with each `Event`, for metrics and traces; see `holdfast.events`.
        proxy: The proxy for all requests, as ``http://user:password@host:port``.
        trust_env: Whether ``HTTPS_PROXY`` and the like in the environment name the proxy.
        ssl_context: For a CA of your own: ``ssl.create_default_context(cafile=…)``.
        allow_insecure: Whether a token may go over plain HTTP to another machine.
        provider_options: What one provider alone needs.

    Example:
        >>> config = ClientConfig(provider="pinning", provider_token=" eyJhbGciOi ")
        >>> config.provider_token
        Secret('********')
        >>> config.with_options(verify=False).verify
        False
    """

    provider: str = registry.DEFAULT
    provider_token: Secret | None = None
    gateway_url: tuple[str, ...] | None = None
    gateway_token: Secret | None = None
    pin_api_url: str = PIN_API_URL
    cid_version: int = 1
    profile: str | None = None
    verify: bool = True
    timeouts: Timeouts = Timeouts()  # noqa: RUF009 - frozen
    retries: Retries = Retries()  # noqa: RUF009 - frozen
    rate_limit: float | None = None
    hedge_after: float | None = None
    max_json_bytes: int = MAX_JSON_BYTES
    max_unverified_bytes: int = MAX_UNVERIFIED_BYTES
    path: str | os.PathLike[str] | None = None
    cache_path: str | os.PathLike[str] | None = None
    on_event: EventHook | None = None
    proxy: Secret | None = None
    trust_env: bool = False
    ssl_context: ssl.SSLContext | None = None
    allow_insecure: bool = False
    # Its values are the provider's own business and may be secret: they are not shown.
    provider_options: Mapping[str, Any] = field(default_factory=dict, hash=False, repr=False)

    def __init__(self, **values: Unpack[ConfigFields]) -> None:
        values = checks.seal(values)
        for name in values:
            if name not in CHECKS:
                raise ConfigError(unknown_field(str(name)))
        for name, check in CHECKS.items():
            if name in values:
                object.__setattr__(self, name, check(name, values[name]))  # type: ignore[literal-required]
        if "provider_options" not in values:
            object.__setattr__(self, "provider_options", {})
        _check_together(self)

    @classmethod
    def of(cls, config: "ClientConfig | Mapping[str, Any] | None", /, **changes: Any) -> Self:
        """`config`, a mapping (camelCase is taken too) or nothing, with `changes` on top."""
        config, changes = checks.seal(config), checks.seal(changes)
        if config is None:
            return cls(**changes)
        if isinstance(config, ClientConfig):
            return cls(**{**config.to_dict(), **changes})
        if not isinstance(config, Mapping):
            kind = type(config.reveal() if isinstance(config, Secret) else config).__name__
            raise ConfigError(
                f"config must be a ClientConfig or a mapping, not {kind}; "
                "single fields go in as keywords"
            )
        return cls(**{**_snake_keys(config), **changes})

    @classmethod
    def from_env(cls, **changes: Unpack[ConfigFields]) -> Self:
        """The configuration that the ``HOLDFAST_*`` variables describe, with `changes` on top.

        A variable is ``HOLDFAST_`` and the field's name in capitals: ``HOLDFAST_PROVIDER_TOKEN``.
        An empty one counts as absent. Several gateways stand with commas between them, as do the
        parts of ``HOLDFAST_RETRIES="attempts=6, max_retry_after=30"`` and of ``HOLDFAST_TIMEOUTS``.
        """
        changes = checks.seal(changes)
        found = checks.seal(read_environment(CHECKS))
        return cls.of(None, **{**found, **changes})

    def with_options(self, **changes: Unpack[ConfigFields]) -> Self:
        """A copy with `changes`, checked anew."""
        changes = checks.seal(changes)
        return self.of(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """The fields by name, secrets still wrapped."""
        return {each.name: getattr(self, each.name) for each in fields(self)}


def _settings(kind: type[Timeouts] | type[Retries]) -> Callable[[str, Any], Any]:
    def check(name: str, value: Any) -> Any:
        if isinstance(value, kind):
            return value
        known = [each.name for each in fields(kind)]
        if not isinstance(value, Mapping) or not set(value) <= set(known):
            raise ConfigError(f"{name} must be {kind.__name__}({', '.join(known)})")
        return kind(**value)

    return check


CHECKS: Final[Mapping[str, Callable[[str, Any], Any]]] = {
    "provider": checks.provider,
    "provider_token": checks.token,
    "gateway_url": checks.gateways,
    "gateway_token": checks.token,
    "pin_api_url": checks.base_url,
    "cid_version": checks.cid_version,
    "profile": checks.profile,
    "verify": checks.flag,
    "timeouts": _settings(Timeouts),
    "retries": _settings(Retries),
    "rate_limit": checks.rate,
    "hedge_after": checks.seconds,
    "max_json_bytes": checks.whole,
    "max_unverified_bytes": checks.whole,
    "path": checks.path,
    "cache_path": checks.path,
    "on_event": checks.hook,
    "proxy": checks.proxy,
    "trust_env": checks.flag,
    "ssl_context": checks.ssl_context,
    "allow_insecure": checks.flag,
    "provider_options": checks.options,
}
"""Each field, and what checks it and brings it into its stored form."""


def _check_together(config: ClientConfig) -> None:
    """The mistakes that show only when two fields are seen side by side."""
    if config.provider_token is not None and registry.is_on_this_machine(config.provider):
        raise ConfigError(
            f"provider_token is given, but provider is {config.provider!r}, which writes to this "
            f"machine's disk: say provider={registry.SERVICE!r}, or leave the token out"
        )
    if config.profile is not None and checks.PROFILES[config.profile] != config.cid_version:
        raise ConfigError(
            f"profile {config.profile!r} makes CIDs of version {checks.PROFILES[config.profile]}: "
            f"set cid_version={checks.PROFILES[config.profile]} with it"
        )
    if config.gateway_token is not None and config.gateway_url is None:
        raise ConfigError("gateway_token is given without gateway_url: name the gateway it is for")
    _check_secure("pin_api_url", config.pin_api_url, config)
    if config.gateway_token is not None and config.gateway_url is not None:
        _check_secure("gateway_url", config.gateway_url[0], config)


def _check_secure(name: str, url: str, config: ClientConfig) -> None:
    parts = urlsplit(url)
    if (
        parts.scheme == "http"
        and not checks.is_loopback(parts.hostname)
        and not config.allow_insecure
    ):
        raise ConfigError(
            f"{name} would carry the token over plain HTTP: use https://, "
            "or say allow_insecure=True if the network is yours"
        )


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


def _snake_keys(values: Mapping[str, Any]) -> dict[str, Any]:
    """`values` with the spec's camelCase field names as ours."""
    snake = {_camel(name): name for name in CHECKS}
    result: dict[str, Any] = {}
    for key, value in values.items():
        name = snake.get(key, str(key))
        if name in result:
            raise ConfigError(f"{name} is given twice, in two spellings: keep one")
        result[name] = value
    return result


def unknown_field(name: str) -> str:
    """What to say about a field that there is not."""
    close = get_close_matches(name.lower(), CHECKS, n=1, cutoff=0.6)
    hint = f"did you mean {close[0]!r}?" if close else f"the fields are {', '.join(CHECKS)}"
    return f"unknown field {name!r}: {hint}"

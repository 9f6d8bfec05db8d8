"""The configuration of a client: frozen, checked when it is made, secrets masked.

A mistake is a `ConfigError` that names the field and the remedy. No request is sent to find it.
"""

import inspect
import os
import ssl
import textwrap
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, Final, Self, TypedDict, Unpack
from urllib.parse import urlsplit

from holdfast import registry
from holdfast.config import checks
from holdfast.config.fields import FIELDS, read_environment, takes_secrets, unknown_field
from holdfast.config.limits import Retries, Timeouts
from holdfast.config.secret import Secret
from holdfast.errors import ConfigError
from holdfast.events import EventHook
from holdfast.hints import advise

MAX_JSON_BYTES: Final = 64 << 20
MAX_UNVERIFIED_BYTES: Final = 1 << 30


class ConfigFields(TypedDict, total=False):
    """The fields of `ClientConfig`, with the types that its keyword arguments accept."""

    provider: str
    provider_token: str | Secret | None
    gateway_url: str | tuple[str, ...] | list[str] | None
    gateway_token: str | Secret | None
    witness: str | tuple[str, ...] | list[str] | None
    pin_api_url: str | tuple[str, ...] | list[str] | None
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
    cache_bytes: int
    on_event: EventHook | None
    proxy: str | Secret | None
    trust_env: bool
    ssl_context: ssl.SSLContext | None
    allow_insecure: bool
    recipients: str | tuple[str, ...] | list[str] | None
    identities: str | Secret | tuple[str, ...] | list[str] | None
    provider_options: Mapping[str, Any]


@dataclass(frozen=True, init=False)
class ClientConfig:
    """What a client does and with what. All fields are keyword arguments.

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
    witness: tuple[str, ...] | None = None
    pin_api_url: str | tuple[str, ...] | None = None
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
    cache_bytes: int = 0
    on_event: EventHook | None = None
    proxy: Secret | None = None
    trust_env: bool = False
    ssl_context: ssl.SSLContext | None = None
    allow_insecure: bool = False
    recipients: tuple[str, ...] | None = None
    identities: Secret | None = None
    # Only the provider knows which of the values are secret, so none is shown.
    provider_options: Mapping[str, Any] = field(default_factory=dict, hash=False, repr=False)

    @takes_secrets
    def __init__(self, **values: Unpack[ConfigFields]) -> None:
        arguments: Mapping[str, Any] = values
        for name in arguments:
            if name not in FIELDS:
                raise ConfigError(unknown_field(name))
        for row in fields(self):
            if row.name in arguments:  # no variable for the value: a traceback would show it
                check = FIELDS[row.name].check
                object.__setattr__(self, row.name, check(row.name, arguments[row.name]))
            elif row.default_factory is not MISSING:
                object.__setattr__(self, row.name, row.default_factory())
        _check_together(self)

    @classmethod
    @takes_secrets
    def of(cls, config: "ClientConfig | Mapping[str, Any] | None", /, **changes: Any) -> Self:
        """Return `config` with `changes`.

        `config` is a configuration, None, or a mapping, whose keys may be in camelCase too.
        """
        if config is None:
            return cls(**changes)
        if isinstance(config, ClientConfig):
            return cls(**{**_own_gateways(config.to_dict(), config.provider), **changes})
        if not isinstance(config, Mapping):
            kind = type(config.reveal() if isinstance(config, Secret) else config).__name__
            raise ConfigError(
                f"config must be a ClientConfig or a mapping, not {kind}; "
                'give single fields as keywords: init(provider="pinata")'
            )
        values = _snake_keys(config)
        provider = values.get("provider", registry.DEFAULT)
        return cls(**{**_own_gateways(values, provider), **changes})

    @classmethod
    @takes_secrets
    def from_env(cls, **changes: Unpack[ConfigFields]) -> Self:
        """Return the configuration of the ``HOLDFAST_*`` variables with `changes`.

        A variable is ``HOLDFAST_`` and the field's name in capitals: ``HOLDFAST_PROVIDER_TOKEN``.
        An empty one counts as absent. Several gateways are separated by commas, and so are the
        parts of ``HOLDFAST_RETRIES="attempts=6, max_retry_after=30"`` and of ``HOLDFAST_TIMEOUTS``.
        The provider `local` reads through ``HOLDFAST_GATEWAY_URL`` only with
        ``HOLDFAST_PROVIDER=local``.
        """
        values = read_environment(FIELDS)
        return cls.of(None, **{**_own_gateways(values, values.get("provider")), **changes})

    @takes_secrets
    def with_options(self, **changes: Unpack[ConfigFields]) -> Self:
        """Return a copy with `changes`, checked again."""
        return self.of(self, **changes)

    @property
    def api_url(self) -> str:
        """The address of the provider's API: `pin_api_url`, or the provider's usual one.

        Example:
            >>> ClientConfig(provider="kubo").api_url
            'http://127.0.0.1:5001'
        """
        return self.api_urls[0]

    @property
    def api_urls(self) -> tuple[str, ...]:
        """All addresses of the provider's API; only `cluster` may have several.

        Example:
            >>> ClientConfig(provider="cluster").api_urls
            ('http://127.0.0.1:9094',)
        """
        urls = self.pin_api_url or registry.row_of(self.provider).usual_api_url
        return (urls,) if isinstance(urls, str) else urls

    @property
    def gateway_urls(self) -> tuple[str, ...]:
        """The gateways for reads: `gateway_url`, or the provider's usual ones.

        There are none for `local` and `kubo`, which read without gateways by default.

        Example:
            >>> ClientConfig(provider="cluster").gateway_urls
            ('http://127.0.0.1:8080/ipfs',)
        """
        return self.gateway_url or registry.row_of(self.provider).gateways

    @property
    def reads_through(self) -> bool:
        """Whether `local` reads what its store lacks through `gateway_url`.

        It does, unless `gateway_url` was set for another provider: then it is for links only.

        Example:
            >>> config = ClientConfig(provider="kubo", gateway_url="https://a.example")
            >>> config.with_options(provider="local").reads_through
            False
            >>> config.with_options(provider="local", gateway_url="https://a.example").reads_through
            True
        """
        is_for_links = isinstance(self.gateway_url, checks.LinkGateways)
        return self.gateway_url is not None and not is_for_links

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name, secrets still wrapped."""
        return {row.name: getattr(self, row.name) for row in fields(self)}


def _describe_fields() -> str:
    """Return the section of the docstring that explains the fields."""
    texts = (f"{name}: {row.help}" for name, row in FIELDS.items())
    wrapper = textwrap.TextWrapper(96, initial_indent=" " * 4, subsequent_indent=" " * 8)
    return "\n".join(("Attributes:", *map(wrapper.fill, texts)))


ClientConfig.__doc__ = f"{inspect.cleandoc(ClientConfig.__doc__ or '')}\n\n{_describe_fields()}\n"


def _check_together(config: ClientConfig) -> None:
    """Raise `ConfigError` for a mistake that only two fields together show."""
    row = registry.row_of(config.provider)
    if config.provider_token is not None and not row.takes_token:
        raise ConfigError(
            f"provider_token is given, but provider is {config.provider!r}, which "
            f"{_why_no_token(row)}: use provider={registry.SERVICE!r}, or leave the token out"
        )
    if config.profile is not None and checks.PROFILES[config.profile] != config.cid_version:
        raise ConfigError(
            f"profile {config.profile!r} makes CIDs of version {checks.PROFILES[config.profile]}: "
            f"set cid_version={checks.PROFILES[config.profile]} with it"
        )
    if config.gateway_token is not None and config.gateway_url is None:
        raise ConfigError("gateway_token is given without gateway_url: name the gateway it is for")
    if config.pin_api_url is None and registry.row_of(config.provider).needs_address:
        raise ConfigError(
            f"pin_api_url is missing: provider {config.provider!r} needs the address of the "
            "service, such as https://api.pinata.cloud/psa"
        )
    if config.path is None and row.reads_path:
        raise ConfigError(f"path is missing: provider {config.provider!r} reads a file")
    if len(config.api_urls) > 1 and not registry.row_of(config.provider).has_peers:
        raise ConfigError(f"pin_api_url: provider {config.provider!r} accepts only one address")
    if config.provider_token is not None or not registry.row_of(config.provider).may_lack_token:
        for url in config.api_urls:
            check_secure("pin_api_url", url, config)
    if config.gateway_token is not None and config.gateway_url is not None:
        check_secure("gateway_url", config.gateway_url[0], config)


def _why_no_token(row: registry.BuiltIn) -> str:
    """Return what a provider does that takes no token."""
    if row.over_others:
        return "uses other connections, which have tokens of their own"
    return "only reads, without an account" if row.reads_only else "writes to this machine's disk"


def check_secure(name: str, url: str, config: ClientConfig) -> None:
    """Raise `ConfigError` if a token would be sent to `url` over plain HTTP."""
    parts = urlsplit(url)
    if (
        parts.scheme == "http"
        and not checks.is_loopback(parts.hostname)
        and not config.allow_insecure
    ):
        raise ConfigError(
            f"{name} would carry the token over plain HTTP: use https://, "
            "or allow_insecure=True if you trust the network"
        )


def missing_token(config: ClientConfig) -> ConfigError:
    """Return the error for a provider that needs a token, with a hint where to get one."""
    error = ConfigError(
        f"provider_token is missing: provider {config.provider!r} needs the service's token"
    )
    source = token_source(config.api_url)
    note = f"{source}; without an account, use provider={registry.DEFAULT!r}"
    return advise(error, note, f"{source}; without an account, use --provider {registry.DEFAULT}")


def token_source(api_url: str) -> str:
    """Return where people get a token for the API at `api_url`."""
    host = urlsplit(api_url).hostname
    if host == urlsplit(registry.row_of(registry.SERVICE).usual_api_url).hostname:
        return "make an API key at https://app.pinata.cloud, and use its JWT"
    if checks.is_loopback(host):
        return "use the token that `holdfast node` shows when it starts, or the one you gave it"
    return f"use a token that the service at {host} has given you"


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


def _snake_keys(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return `values` with the spec's camelCase field names turned into ours."""
    snake = {_camel(name): name for name in FIELDS}
    result: dict[str, Any] = {}
    for key, value in values.items():
        name = snake.get(key, str(key))
        if name in result:
            raise ConfigError(f"{name} is given twice, in two spellings: keep one")
        result[name] = value
    return result


def _own_gateways(values: dict[str, Any], provider: Any) -> dict[str, Any]:
    """Return `values`, with gateways for links only if they were set for another provider."""
    return {name: checks.own_gateways(name, values[name], provider) for name in values}


def provider_options(config: ClientConfig, *names: str) -> Mapping[str, Any]:
    """Return the `provider_options`; raise ConfigError if one is not among `names`."""
    for name in config.provider_options:
        if name not in names:
            words = f"{config.provider} takes {', '.join(names)}, not {name!r}"
            raise ConfigError(f"provider_options: {words}")
    return config.provider_options

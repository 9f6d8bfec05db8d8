"""The providers by name: the built-in ones in one table, and those that other packages install.

A package adds a provider with entry points in the groups ``holdfast.providers`` and
``holdfast.async_providers``, each naming a class with ``from_config(config)``. A class is imported
only when a client asks for it.
"""

import importlib
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from holdfast.errors import ConfigError
from holdfast.hints import advise, did_you_mean

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

SYNC_GROUP: Final = "holdfast.providers"
ASYNC_GROUP: Final = "holdfast.async_providers"


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltIn:
    """A provider that comes with Holdfast.

    Attributes:
        class_name: The blocking class; the async one has ``Async`` in front. Both are in a module
            that has the name of the provider, in ``_sync/providers`` and ``_async/providers``.
        api_url: The address of its API where `pin_api_url` is None; None if it has no API.
        gateways: The gateways for reads where `gateway_url` is None; none if it reads without.
        needs_address: Whether its API has no usual address, so that `pin_api_url` must be given.
        has_peers: Whether several addresses may lead to the same API, for fail-over.
        needs_token: Whether it can do nothing without `provider_token`.
        on_this_machine: Whether it writes to this machine's disk.
        reads_only: Whether it only reads, through gateways or from a file. Then it has no API.
        reads_path: Whether `path` is the file that it reads.
        over_others: Whether it uses other connections, which its options name.
        has_options: Whether there are `provider_options` for it.
        stands_for: The provider that is used in its place, for a name without an implementation.
    """

    class_name: str
    api_url: str | None = None
    gateways: tuple[str, ...] = ()
    needs_address: bool = False
    has_peers: bool = False
    needs_token: bool = False
    on_this_machine: bool = False
    reads_only: bool = False
    reads_path: bool = False
    over_others: bool = False
    has_options: bool = True
    stands_for: str | None = None

    @property
    def usual_api_url(self) -> str:
        """The address of its API, or that of the service; empty if it must be given or has none."""
        has_none = self.needs_address or self.reads_only or self.over_others
        return "" if has_none else self.api_url or PINATA_API

    @property
    def takes_token(self) -> bool:
        """Whether `provider_token` can be for it."""
        return not (self.on_this_machine or self.reads_only or self.over_others)

    @property
    def uses_path(self) -> bool:
        """Whether `path` is for it, or it is not built in, so that nobody knows."""
        return self.on_this_machine or self.reads_path or self.over_others or not self.class_name

    @property
    def may_lack_token(self) -> bool:
        """Whether it has an API that may need no token, or uses other connections."""
        return self.over_others or (self.api_url is not None and not self.needs_token)


PINATA_API: Final = "https://api.pinata.cloud"
_PINATA_GATEWAYS: Final = ("https://gateway.pinata.cloud/ipfs", "https://ipfs.io/ipfs")
_PINATA: Final[dict[str, Any]] = {
    "api_url": PINATA_API,
    "gateways": _PINATA_GATEWAYS,
    "needs_token": True,
}
_PINNING: Final = {"class_name": "PinProvider", "has_options": False, **_PINATA}
BUILT_IN: Final[Mapping[str, BuiltIn]] = {
    "local": BuiltIn(class_name="LocalProvider", on_this_machine=True, has_options=False),
    "gateway": BuiltIn(
        class_name="GatewayProvider",
        gateways=("https://trustless-gateway.link/ipfs", "https://ipfs.io/ipfs"),
        reads_only=True,
        has_options=False,
    ),
    "car": BuiltIn(class_name="CarProvider", reads_only=True, reads_path=True, has_options=False),
    "pinning": BuiltIn(**_PINNING),
    "pinata": BuiltIn(class_name="PinataProvider", **_PINATA),
    "kubo": BuiltIn(class_name="KuboProvider", api_url="http://127.0.0.1:5001"),
    "cluster": BuiltIn(
        class_name="ClusterProvider",
        api_url="http://127.0.0.1:9094",
        gateways=("http://127.0.0.1:8080/ipfs",),
        has_peers=True,
    ),
    "psa": BuiltIn(
        class_name="PSAProvider",
        gateways=("https://ipfs.io/ipfs", "https://dweb.link/ipfs"),
        needs_address=True,
        needs_token=True,
    ),
    "copies": BuiltIn(class_name="CopiesProvider", over_others=True),
    "provider_b": BuiltIn(**_PINNING, stands_for="pinning"),
    "provider_c": BuiltIn(**_PINNING, stands_for="pinning"),
}
_INSTALLED: Final = BuiltIn(class_name="", gateways=_PINATA_GATEWAYS, has_peers=True)
DEFAULT: Final = "local"
ARCHIVE: Final = "car"  # for an archive that is named without a provider
SERVICE: Final = "pinning"  # for people who give a token and name no provider
_MEANT: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("ipfs", "goipfs", "node", "rpc"), ("kubo",)),
    **dict.fromkeys(("disk", "embedded", "file", "store"), ("local",)),
    "ipfscluster": ("cluster",),
    "pinningservice": ("pinning", "psa"),
}
"""Other words for providers, in lower case without hyphens."""


def build_provider(config: Any) -> Any:
    """Return the blocking provider that `config`, a `ClientConfig`, names, made from it."""
    return _find(config, SYNC_GROUP).from_config(config)


def build_async_provider(config: Any) -> Any:
    """Return the async provider that `config` names, made from it."""
    return _find(config, ASYNC_GROUP).from_config(config)


def row_of(name: str) -> BuiltIn:
    """Return the row of a provider; for one that is not built in, a row that assumes little."""
    return BUILT_IN.get(name, _INSTALLED)


def writing_providers() -> list[str]:
    """Return the names of the built-in providers that store or pin."""
    rows = BUILT_IN.items()
    return [name for name, row in rows if not row.reads_only and row.stands_for is None]


def providers_without_token() -> list[str]:
    """Return the names of the built-in providers that can be used without a token or options."""
    rows = BUILT_IN.items()
    return [
        name
        for name, row in rows
        if not (row.needs_token or row.over_others) and row.stands_for is None
    ]


def known_providers(group: str = SYNC_GROUP) -> list[str]:
    """Return the names of all providers, built in and installed, that have an implementation."""
    own = (name for name, row in BUILT_IN.items() if row.stands_for is None)
    return sorted({*own, *_installed(group)})


def check_provider(name: str, group: str = SYNC_GROUP) -> None:
    """Raise ConfigError unless there is a provider of this name, built in or installed."""
    if name not in BUILT_IN and name not in _installed(group):
        raise _unknown(name, group)


def check_options(name: str, options: Iterable[str]) -> None:
    """Raise ConfigError if there are `options`, and the provider of this name has none."""
    if not row_of(name).has_options and (wrong := next(iter(options), None)) is not None:
        words = f"remove {wrong!r}, because provider {name!r} has no options"
        raise ConfigError(f"provider_options: {words}")


def _unknown(name: str, group: str) -> ConfigError:
    names = known_providers(group)
    error = ConfigError(f"unknown provider {name!r}: use one of {', '.join(names)}")
    question = did_you_mean(name, names, _MEANT)
    return advise(error, question) if question else error


def _installed(group: str) -> "dict[str, EntryPoint]":
    # Imported here: most programs use a built-in provider.
    from importlib.metadata import entry_points  # noqa: PLC0415

    return {point.name: point for point in entry_points(group=group)}


def _find(config: Any, group: str) -> Any:
    name = config.provider
    check_options(name, config.provider_options)
    if name in BUILT_IN:
        return _load_built_in(name, group)
    if (point := _installed(group).get(name)) is None:
        raise _unknown(name, group)
    provider_class = point.load()
    if not hasattr(provider_class, "from_config"):
        raise ConfigError(f"provider {point.name!r} ({point.value}) has no from_config(config)")
    return provider_class


def _load_built_in(name: str, group: str) -> Any:
    row = BUILT_IN[name]
    if row.stands_for is not None:
        warnings.warn(
            f"provider {name!r} has no implementation of its own yet; {row.stands_for!r} is used",
            UserWarning,
            stacklevel=6,
        )
    package, prefix = ("_sync", "") if group == SYNC_GROUP else ("_async", "Async")
    module = importlib.import_module(f"holdfast.{package}.providers.{row.stands_for or name}")
    return getattr(module, prefix + row.class_name)

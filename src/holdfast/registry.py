"""From a provider's name to its class, imported only when it is asked for.

A package adds a provider with entry points in the groups ``holdfast.providers`` and
``holdfast.async_providers``, each naming a class with ``from_config(config)``.
"""

import importlib
import warnings
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, cast

from holdfast.config import ClientConfig
from holdfast.errors import ConfigError
from holdfast.provider import AsyncStorageProvider, StorageProvider

SYNC_GROUP: Final = "holdfast.providers"
ASYNC_GROUP: Final = "holdfast.async_providers"

_LOCAL: Final = "holdfast._sync.providers.local:LocalProvider"
_ASYNC_LOCAL: Final = "holdfast._async.providers.local:AsyncLocalProvider"
_PIN: Final = "holdfast._sync.providers.pinning:PinProvider"
_ASYNC_PIN: Final = "holdfast._async.providers.pinning:AsyncPinProvider"

BUILT_IN: Final[Mapping[str, Mapping[str, str]]] = {
    SYNC_GROUP: {"local": _LOCAL, "pinning": _PIN, "provider_b": _PIN, "provider_c": _PIN},
    ASYNC_GROUP: {
        "local": _ASYNC_LOCAL,
        "pinning": _ASYNC_PIN,
        "provider_b": _ASYNC_PIN,
        "provider_c": _ASYNC_PIN,
    },
}
PLANNED: Final = frozenset({"provider_b", "provider_c"})


def build_provider(config: ClientConfig) -> StorageProvider:
    """The provider that `config` names, made from it."""
    return cast("StorageProvider", _find(config.provider, SYNC_GROUP).from_config(config))


def build_async_provider(config: ClientConfig) -> AsyncStorageProvider:
    """The async provider that `config` names, made from it."""
    return cast("AsyncStorageProvider", _find(config.provider, ASYNC_GROUP).from_config(config))


def takes_token(name: str) -> bool:
    """Whether this is a built-in provider that can do nothing without a token."""
    return BUILT_IN[SYNC_GROUP].get(name) == _PIN


def known_providers() -> list[str]:
    """The names of all providers, built in and installed."""
    return sorted(
        {*BUILT_IN[SYNC_GROUP], *(point.name for point in entry_points(group=SYNC_GROUP))}
    )


def _find(name: str, group: str) -> Any:
    if name in PLANNED:
        warnings.warn(
            f"provider {name!r} has no implementation of its own yet; 'pinning' is used",
            UserWarning,
            stacklevel=5,
        )
    if name in BUILT_IN[group]:
        module, _, attribute = BUILT_IN[group][name].partition(":")
        return getattr(importlib.import_module(module), attribute)
    installed = {point.name: point for point in entry_points(group=group)}
    if name in installed:
        return _load(installed[name])
    known = ", ".join(sorted({*BUILT_IN[group], *installed}))
    raise ConfigError(f"unknown provider {name!r}: the field takes one of {known}")


def _load(point: EntryPoint) -> Any:
    provider_class = point.load()
    if not hasattr(provider_class, "from_config"):
        raise ConfigError(f"provider {point.name!r} ({point.value}) has no from_config(config)")
    return provider_class

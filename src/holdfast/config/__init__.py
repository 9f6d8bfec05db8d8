"""The configuration of a client: its fields, their checks, and where their values come from."""

from typing import TYPE_CHECKING, Any

from holdfast.config.limits import Retries, Timeouts

if TYPE_CHECKING:
    from holdfast.config.client_config import ClientConfig, ConfigFields

__all__ = ["ClientConfig", "ConfigFields", "Retries", "Timeouts"]


def __getattr__(name: str) -> Any:
    """Import `ClientConfig` when it is first used: the help of commands does without `ssl`."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from holdfast.config import client_config  # noqa: PLC0415

    return getattr(client_config, name)

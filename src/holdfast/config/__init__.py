"""The configuration of a client: its fields, their checks, and where their values come from."""

from typing import TYPE_CHECKING

from holdfast.lazy import lazy_names

if TYPE_CHECKING:
    from holdfast.config.client_config import ClientConfig as ClientConfig
    from holdfast.config.client_config import ConfigFields as ConfigFields
    from holdfast.config.limits import Retries as Retries
    from holdfast.config.limits import Timeouts as Timeouts

# The help of commands does without `ssl`, which `ClientConfig` needs.
if not TYPE_CHECKING:  # which knows the names from above
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {"config.client_config": "ClientConfig ConfigFields", "config.limits": "Retries Timeouts"},
    )

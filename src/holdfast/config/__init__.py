"""The configuration of a client: its fields, their checks, and where their values come from."""

from holdfast.config.client_config import ClientConfig, ConfigFields
from holdfast.config.limits import Retries, Timeouts

__all__ = ["ClientConfig", "ConfigFields", "Retries", "Timeouts"]

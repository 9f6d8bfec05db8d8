"""The options that only the provider for IPFS Cluster takes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from holdfast.errors import ConfigError

EVERYWHERE: Final = -1  # the number of copies that stands for all peers
NAMES: Final = ("replication_min", "replication_max", "wait")


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """How many copies the cluster keeps, and whether a write waits for them.

    Attributes:
        copies: How many peers must have new content; None for the cluster's own setting.
        most_copies: How many peers are to have it.
        wait: Whether a write returns only when enough peers have the content.
    """

    copies: int | None = None
    most_copies: int | None = None
    wait: bool = True


def read_options(options: Mapping[str, Any]) -> ClusterOptions:
    """Return `provider_options` for a cluster; raise ConfigError for a mistake.

    Example:
        >>> read_options({"replication_min": 2})
        ClusterOptions(copies=2, most_copies=2, wait=True)
    """
    for name in options:
        if name not in NAMES:
            raise ConfigError(f"provider_options: cluster takes {', '.join(NAMES)}, not {name!r}")
    wait = options.get("wait", True)
    if not isinstance(wait, bool):
        raise ConfigError("provider_options: wait must be True or False")
    least, most = (_copies(name, options.get(name)) for name in NAMES[:2])
    least, most = least or most, most or least
    if least is not None and most is not None:
        if (least == EVERYWHERE) != (most == EVERYWHERE):
            raise ConfigError(
                "provider_options: replication_min and replication_max must both be -1 (all "
                "peers), or neither"
            )
        if least > most:
            raise ConfigError(
                "provider_options: replication_min must not be larger than replication_max"
            )
    return ClusterOptions(least, most, wait)


def _copies(name: str, value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or (value < 1 and value != EVERYWHERE):
        raise ConfigError(
            f"provider_options: {name} must be a whole number of at least 1, or -1 for all peers"
        )
    return value

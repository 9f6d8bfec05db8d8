"""One client a file: `connect(settings)` returns it. `__main__` lets it work.

A client has the methods of the works that it can do: `store`, `retrieve`, `upload`,
`download`, `cid`.
Peers are used as their documentation says, with their defaults.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

TOKEN = "bench-token"  # noqa: S105 - no real token


@dataclass(frozen=True, slots=True)
class Settings:
    """Where a client finds the server, the folder in which it may write, whether it verifies."""

    url: str
    folder: Path
    verify: bool = True


def pin_request(document: object) -> dict[str, Any]:
    """Return the body of a request to pin JSON, as every client sends it."""
    return {
        "pinataContent": document,
        "pinataMetadata": {"name": "bench"},
        "pinataOptions": {"cidVersion": 1},
    }


HEADERS = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}

"""One client a file: `connect(settings)` returns it. `__main__` lets it work.

A client has the methods of the works that it can do: `store`, `retrieve`, `upload`, `download`.
Peers are used as their documentation says, with their defaults.
"""

from dataclasses import dataclass
from pathlib import Path

TOKEN = "bench-token"  # noqa: S105 - of nobody


@dataclass(frozen=True, slots=True)
class Settings:
    """Where a client finds the server, and the folder in which it may write."""

    url: str
    folder: Path


def pin_request(document: object) -> dict[str, object]:
    """Return the body of a request to pin JSON, as every client sends it."""
    return {
        "pinataContent": document,
        "pinataMetadata": {"name": "bench"},
        "pinataOptions": {"cidVersion": 1},
    }


HEADERS = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}

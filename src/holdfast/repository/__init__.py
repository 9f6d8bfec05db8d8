"""The embedded engine: blocks and pins on disk, safe for many threads and processes at once."""

from holdfast.repository.pins import Pin, PinQuery
from holdfast.repository.store import Repository

__all__ = ["Pin", "PinQuery", "Repository"]

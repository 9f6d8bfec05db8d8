"""The embedded engine: blocks and pins on disk, safe for many threads and processes at once."""

from holdfast.repository.garbage import Collected, Damage
from holdfast.repository.pins import PinQuery
from holdfast.repository.repair import Repaired, Root
from holdfast.repository.store import Repository

__all__ = ["Collected", "Damage", "PinQuery", "Repaired", "Repository", "Root"]

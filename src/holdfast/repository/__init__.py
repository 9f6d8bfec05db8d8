"""The embedded store: blocks and pins on disk, for many threads and processes at once."""

from holdfast.repository.pins import PinQuery
from holdfast.repository.store import Repository
from holdfast.repository.upkeep.checking import Damage
from holdfast.repository.upkeep.garbage import Collected
from holdfast.repository.upkeep.repair import Repaired, Root

__all__ = ["Collected", "Damage", "PinQuery", "Repaired", "Repository", "Root"]

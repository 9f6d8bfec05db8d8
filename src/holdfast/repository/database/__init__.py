"""The two SQLite databases of a store: open them, read and write them, and keep them in step."""

from holdfast.repository.database.database import Database

__all__ = ["Database"]

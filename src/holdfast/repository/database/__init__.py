"""The SQLite database of a store: open it, check it, read and write it."""

from holdfast.repository.database.database import Database

__all__ = ["Database"]

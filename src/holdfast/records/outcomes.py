"""The outcomes of work on many items."""

from dataclasses import dataclass
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(Generic[Item, Result]):
    """What became of one of many items.

    Attributes:
        index: The position of the item in the input, from 0.
        item: The item, as it was given.
        record: The result; None if there is an error.
        error: The error; None if there is a result.

    Example:
        >>> Outcome(index=0, item="a.txt", record="bafkqaaa").result()
        'bafkqaaa'
    """

    index: int
    item: Item
    record: Result | None = None
    error: Exception | None = None

    def result(self) -> Result:
        """Return the result, or raise the error."""
        if self.error is not None:
            raise self.error
        return self.record  # type: ignore[return-value]  # one of the two is there

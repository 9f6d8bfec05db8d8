"""Undocumented parts of an HTTP library: each transport lists those that it uses, and checks them.

A new version of a library may have them no more. Then a shortcut is not used, and a client whose
limits depend on such a part is not made.
"""

import warnings
from dataclasses import dataclass
from functools import cache
from types import CodeType, FunctionType


@dataclass(frozen=True, slots=True)
class LibraryPart:
    """An attribute that a library does not document.

    Attributes:
        owner: The class that has it, or whose methods set it.
        name: Its name.
        reason: What it is used for.
        seen: The versions in which it was seen.
        is_shortcut: Whether it only saves time: without it, a slower way is used.
    """

    owner: type
    name: str
    reason: str
    seen: str
    is_shortcut: bool = False

    def __str__(self) -> str:
        return f"{self.owner.__name__}.{self.name}"

    @property
    def is_missing(self) -> bool:
        """Whether the class has no such attribute, and no method of it uses one."""
        return not hasattr(self.owner, self.name) and not any(
            self.name in code.co_names for code in _code_of(self.owner)
        )


def _code_of(owner: type) -> list[CodeType]:
    members = [member for base in owner.__mro__ for member in vars(base).values()]
    functions = [member.fset if isinstance(member, property) else member for member in members]
    return [function.__code__ for function in functions if isinstance(function, FunctionType)]


@cache
def has_shortcuts(parts: tuple[LibraryPart, ...], library: str, version: str) -> bool:
    """Return whether `library` has all `parts`. If only shortcuts are missing, issue one warning.

    Raise ImportError if another part is missing: a limit of ours would not hold without it.
    """
    missing = [part for part in parts if part.is_missing]
    for part in missing:
        if not part.is_shortcut:
            raise ImportError(
                f"{library} {version} has no {part}, without which holdfast cannot keep a limit "
                f"({part.reason}): install a version from {part.seen}"
            )
    if missing:
        names = ", ".join(map(str, missing))
        warnings.warn(
            f"{library} {version} has no {names}: requests work, and take longer; "
            f"seen in {missing[0].seen}",
            RuntimeWarning,
            stacklevel=2,
        )
    return not missing

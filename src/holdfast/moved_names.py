"""Old places of public names: reading one from there warns, and works."""

import importlib
import warnings
from collections.abc import Callable, Mapping
from typing import Any


def moved_names(module: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of `module`: `names` maps old names to ``module:name``."""

    def find(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        home, _, new_name = names[name].partition(":")
        words = f"{module}.{name} is now {home}.{new_name}"
        warnings.warn(words, DeprecationWarning, stacklevel=2)
        return getattr(importlib.import_module(home), new_name)

    return find

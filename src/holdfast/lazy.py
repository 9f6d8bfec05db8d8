"""Names that a package imports when they are first used.

The command line, and the pytest plugin that every run of any tests loads, must not wait for what
they do not use.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(
    package: str, table: Mapping[str, str], *others: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of `package`.

    Args:
        package: The package.
        table: The modules below `holdfast`, and the names that each has, with spaces between them.
            A module of `_async` stands for its blocking twin too. The name of a module itself
            may be one of them.
        others: The public names that the package has already.
    """
    modules: dict[str, str] = {}
    for module, own in table.items():
        modules |= dict.fromkeys(own.split(), module)
        if "_async." in module:
            twin = module.replace("_async.", "_sync.")
            modules |= dict.fromkeys(own.replace("Async", "").split(), twin)
    names = sorted((*modules, *others))

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(f"holdfast.{modules[name]}")
        return module if modules[name] == name else getattr(module, name)

    return get, lambda: [*names], names

"""Names of a package whose modules are imported at their first use."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def at_first_use(
    package: str, modules: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The functions `__getattr__` and `__dir__` of a package.

    Parameters
    ----------
    package : str
        Its `__name__`.
    modules : mapping
        Names that it has, and the modules where they are defined.
    """

    def get(name):
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(modules[name]), name)

    def names():
        return sorted({*vars(sys.modules[package]), *modules})

    return get, names

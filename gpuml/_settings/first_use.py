"""Names of a package whose modules are imported at their first use."""

import sys
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any


def at_first_use(
    package: str,
    modules: Mapping[str, str] | None = None,
    *,
    packages: Collection[str] = (),
    mirrors: str | None = None,
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The functions `__getattr__` and `__dir__` of a package.

    Parameters
    ----------
    package : str
        Its `__name__`.
    modules : mapping, optional
        Names that it has, and the modules where they are defined.
    packages : collection of str
        Packages and modules inside that need no import of their own.
    mirrors : str, optional
        A module of scikit-learn whose public names it has, too: its own where it has one, else
        scikit-learn's. So that an import only has to change the name of the package.
    """
    modules = modules or {}

    def get(name):
        if name in modules:
            return getattr(import_module(modules[name]), name)
        if name in packages:
            return import_module(f"{package}.{name}")
        if mirrors is not None and not name.startswith("_"):
            theirs = import_module(mirrors)
            if name in _public(theirs):
                return getattr(theirs, name)
            if hasattr(theirs, "__getattr__"):
                # An ImportError says how to get what is experimental.
                with suppress(AttributeError):
                    return theirs.__getattr__(name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def names():
        own = getattr(sys.modules[package], "__all__", ())
        theirs = _public(import_module(mirrors)) if mirrors is not None else ()
        return sorted({*own, *modules, *packages, *theirs})

    return get, names


def _public(module: Any) -> Collection[str]:
    """Public names of a module of scikit-learn: what it lists, or else what it defines."""
    if hasattr(module, "__all__"):
        return module.__all__
    own = vars(module).items()
    return [
        name
        for name, value in own
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]

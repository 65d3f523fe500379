"""Which names of scikit-learn have a counterpart in gpuml: computed, so that none is forgotten."""

import importlib
import inspect
import pkgutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from gpuml._accelerate.callers import is_within

# gpuml's metrics are for arrays on a device. What scripts pass to scikit-learn's is in CPU memory,
# where those are as good, and objects made of them (scorers) are known by their functions.
LEFT_ALONE = ("sklearn.metrics",)
# Importing them takes seconds, so only where the process has done so, or is asked to.
OTHERS = {"umap": "gpuml.manifold"}


@dataclass(frozen=True)
class Replacement:
    """A public name of another package, what is there, and what user code gets for it."""

    module: ModuleType
    name: str
    theirs: Any
    ours: Any

    @property
    def path(self) -> str:
        return f"{self.module.__name__}.{self.name}"

    @property
    def is_defined_there(self) -> bool:
        """Whether pickles name the object by this module, which then must give the original."""
        return self.theirs.__module__ == self.module.__name__


def chosen(names: Sequence[str]) -> dict[str, Replacement]:
    """What the names stand for: modules, or names in them; all there is for no names.

    Raises
    ------
    ValueError
        If there is nothing to replace under one of the names.
    """
    at_hand = "sklearn", *(name for name in OTHERS if name in sys.modules)
    found = table(names or at_hand)
    unknown = [name for name in names if not any(is_within(path, [name]) for path in found)]
    if unknown:
        raise ValueError(
            f"gpuml has no counterpart of {', '.join(map(repr, unknown))}. It has these, and "
            f"takes the names of their modules too: {', '.join(table(at_hand))}."
        )
    return found


def table(wanted: Sequence[str]) -> dict[str, Replacement]:
    """Every replacement at or below the wanted names, by its path."""
    pairs = [(theirs, "gpuml" + theirs.removeprefix("sklearn")) for theirs in _shared("", wanted)]
    pairs += [
        (theirs, ours)
        for theirs, ours in OTHERS.items()
        if _overlaps(theirs, wanted) and find_spec(theirs) and find_spec(ours)
    ]
    replacements = (one for pair in pairs for one in _counterparts(*pair))
    return {one.path: one for one in replacements if is_within(one.path, wanted)}


def _shared(below: str, wanted: Sequence[str]) -> Iterator[str]:
    """Modules of scikit-learn that gpuml has under the same public path."""
    package = find_spec("gpuml" + below)
    assert package is not None
    for found in pkgutil.iter_modules(package.submodule_search_locations):
        path = f"{below}.{found.name}"
        theirs = "sklearn" + path
        if found.name.startswith("_") or theirs in LEFT_ALONE or not _overlaps(theirs, wanted):
            continue
        spec = find_spec(theirs)
        if spec is None:
            continue
        yield theirs
        if found.ispkg and spec.submodule_search_locations is not None:
            yield from _shared(path, wanted)


def _overlaps(module: str, wanted: Sequence[str]) -> bool:
    """Whether a module is below a wanted name, or the name below the module."""
    return is_within(module, wanted) or any(is_within(name, [module]) for name in wanted)


def _counterparts(theirs: str, ours: str) -> Iterator[Replacement]:
    """The names of a pair of modules that mean the same in both."""
    original, module = importlib.import_module(theirs), importlib.import_module(ours)
    means_the_same: Callable[[Any, Any], bool]
    means_the_same = _is_subclass if theirs.startswith("sklearn") else _are_classes
    for name in getattr(module, "__all__", ()):
        mine = getattr(module, name)  # first: scikit-learn has searches by halving from then on
        pair = vars(original).get(name), mine
        if pair[0] is not pair[1] and (means_the_same(*pair) or _same_signature(*pair)):
            yield Replacement(original, name, *pair)


def _is_subclass(theirs: Any, ours: Any) -> bool:
    return _are_classes(theirs, ours) and issubclass(ours, theirs)


def _are_classes(theirs: Any, ours: Any) -> bool:
    return isinstance(theirs, type) and isinstance(ours, type)


def _same_signature(theirs: Any, ours: Any) -> bool:
    return all(map(inspect.isfunction, (theirs, ours))) and _signature(theirs) == _signature(ours)


def _signature(function: Callable) -> list[tuple]:
    # By its text, as the default nan is not equal to itself.
    parameters = inspect.signature(function).parameters.values()
    return [(one.name, one.kind, repr(one.default)) for one in parameters]

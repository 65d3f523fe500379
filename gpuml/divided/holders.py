"""Holders with pieces in this process, and the shared parts of all holders."""

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpuml._arrays import HOST, Place, is_array, move
from gpuml._persistence.stored import mapped

__all__ = ["HOST", "InProcess", "Place", "moved", "tree"]


def tree(results: Iterable[Any], combine: Callable[[Any, Any], Any]) -> Any:
    """Neighbours combined two by two, level after level, until one is left.

    Results are taken as they come, and of n no more than about ``log2(n)`` are kept.
    """
    runs: list[tuple[int, Any]] = []  # the level that each has come to, and the result
    for result in results:
        level, total = 0, result
        while runs and runs[-1][0] == level:
            total = _quiet(combine, runs.pop()[1], total)
            level += 1
        runs.append((level, total))
    _, total = runs.pop()
    while runs:
        total = _quiet(combine, runs.pop()[1], total)
    return total


def _quiet(combine, a, b):
    # The caller of sums looks whether they are finite, and says more than NumPy would.
    with np.errstate(over="ignore", invalid="ignore"):
        return combine(a, b)


def moved(result: Any, place: Place) -> Any:
    """Arrays in a result, and in the containers and records it is made of, at a place.

    Strings, which array libraries do not have, stay on the host.
    """

    def there(x):
        stays = not is_array(x) or isinstance(x, np.generic)
        return x if stays or getattr(x.dtype, "kind", "f") in "OSTU" else move(x, place)

    return mapped(result, there)


@dataclass(frozen=True)
class InProcess:
    """Holders whose pieces are in this process; see `gpuml.data.Holders`."""

    pieces: Sequence[Any]
    place: Place = HOST

    def __len__(self) -> int:
        return len(self.pieces)

    def map(
        self, function: Callable[..., Any], *args: Any, each_with: Sequence[Any] | None = None
    ) -> "InProcess":
        """The results of a function for every piece."""
        if each_with is None:
            return replace(self, pieces=[function(piece, *args) for piece in self.pieces])
        pairs = zip(self.pieces, each_with, strict=True)
        return replace(self, pieces=[function(piece, *args, own) for piece, own in pairs])

    def each(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        """Results of a function of every piece."""
        return [moved(function(piece, *args), self.place) for piece in self.pieces]

    def total(
        self,
        function: Callable[..., Any],
        *args: Any,
        combine: Callable[[Any, Any], Any] = operator.add,
    ) -> Any:
        """Results of a function of every piece, combined."""
        return tree(self.each(function, *args), combine)

    def gathered(
        self, function: Callable[..., Any], build: Callable[[list[Any]], Any]
    ) -> "InProcess":
        """What is built of the results of a function of every piece, as the only piece."""
        return replace(self, pieces=[build(self.each(function))])

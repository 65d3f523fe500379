"""The status of a solution, with advice for users."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from enum import IntEnum
from typing import Any, TypeVar

import numpy as np

from gpuml._arrays import Array, Place, device_of, move, namespace


class Status(IntEnum):
    """Which route gave a solution, from the cheapest to the most careful."""

    MOMENTS = 0
    ROWS = 1
    MINIMUM_NORM = 2
    STOPPED = 3

    @property
    def advice(self) -> str:
        """One sentence: what happened, and what to do if it matters."""
        return _ADVICE[self]


_ADVICE = {
    Status.MOMENTS: "Solved from second moments, whose condition number allows the precision.",
    Status.ROWS: (
        "The second moments were too ill-conditioned for the required precision, so the rows "
        "themselves were factored, or read many times if sparse (slower). A larger alpha or "
        "scaled features avoid this."
    ),
    Status.MINIMUM_NORM: (
        "The features are linearly dependent and alpha does not make up for it: the solution of "
        "minimum norm was taken. Drop dependent features or raise alpha for a unique one."
    ),
    Status.STOPPED: (
        "Conjugate gradients stopped before they converged. Increase max_iter or alpha, or scale "
        "the features (MaxAbsScaler)."
    ),
}


@dataclass(frozen=True)
class LinearModels:
    """Linear models with leading axes (candidate, split), all float64 on the compute device.

    Attributes
    ----------
    coef : array (C, S, t, p)
    intercept : array (C, S, t)
    status : int ndarray (C, S), host
        Values of `Status`.
    n_iter : int ndarray (C, S, t), host, or None
        Of iterative solvers.
    """

    coef: Array
    intercept: Array
    status: np.ndarray
    n_iter: np.ndarray | None = None


# Records of arrays with leading axes (candidate, split); some fields may be None.
Models = TypeVar("Models", bound=Any)


def joined(parts: Sequence[Models], axis: int) -> Models:
    """Models of several parts along the axis of candidates (0) or of splits (1)."""
    if len(parts) == 1:
        return parts[0]

    def join(values):
        return None if values[0] is None else namespace(values[0]).concat(values, axis=axis)

    names = [field.name for field in fields(parts[0])]
    return replace(parts[0], **{n: join([getattr(part, n) for part in parts]) for n in names})


def moved(record: Models, place: Place) -> Models:
    """A record of arrays, moved to a place."""
    return replace(record, **{f.name: move(getattr(record, f.name), place) for f in fields(record)})


def taken(models: Models, order: np.ndarray, axis: int = 0) -> Models:
    """Candidates (axis 0) or splits (1) by their numbers."""

    def take(values):
        if values is None:
            return None
        index = namespace(values).asarray(np.ascontiguousarray(order), device=device_of(values))
        return namespace(values).take(values, index, axis=axis)

    names = [field.name for field in fields(models)]
    return replace(models, **{name: take(getattr(models, name)) for name in names})


def in_order(parts: Sequence[Models], places: Sequence[np.ndarray]) -> Models:
    """Models of all candidates, from parts that have the candidates at some positions."""
    models, numbers = joined(parts, axis=0), np.concatenate(places)
    is_ordered = bool((numbers[1:] > numbers[:-1]).all())
    return models if is_ordered else taken(models, np.argsort(numbers, kind="stable"))


def of_candidates(models: Models, candidates: slice) -> Models:
    """Models of some candidates."""

    def taken(values):
        return None if values is None else values[candidates, ...]

    names = [field.name for field in fields(models)]
    return replace(models, **{n: taken(getattr(models, n)) for n in names})


@dataclass(frozen=True)
class Path:
    """Coefficients v (C, p) and slopes ``g - H v`` (C, p) of all penalties, and iterations (C,).

    An iteration is a sweep over the working set, or a system on the signs of a model. `violation`
    (C,) is that of the optimality conditions, relative to the largest of g, both in units in which
    the diagonal of H is 1.
    """

    v: np.ndarray
    slopes: np.ndarray
    n_iter: np.ndarray
    violation: np.ndarray

    @classmethod
    def stacked(cls, paths: "list[Path]", shape: tuple[int, ...]) -> "Path":
        """Paths of several problems, which have axes `shape` behind that of the penalties."""

        def stack(name):
            values = np.stack([getattr(path, name) for path in paths], axis=1)
            return values.reshape(len(values), *shape, *values.shape[2:])

        return cls(*(stack(field.name) for field in fields(cls)))

"""How a solve went, in words a user can act on."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import TypeVar

import numpy as np

from gpuml._arrays import Array, device_of, namespace


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
        "The second moments were too ill-conditioned for the asked precision, so the rows "
        "themselves were factored, or read again and again if sparse (slower). A larger alpha or "
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


Models = TypeVar("Models", bound=LinearModels)


def joined(parts: Sequence[Models], axis: int) -> Models:
    """Models of several parts along the axis of candidates (0) or of splits (1)."""
    if len(parts) == 1:
        return parts[0]
    xp = namespace(parts[0].coef)

    def join(name):
        values = [getattr(part, name) for part in parts]
        if values[0] is None:
            return None
        is_host = isinstance(values[0], np.ndarray)
        return np.concatenate(values, axis=axis) if is_host else xp.concat(values, axis=axis)

    return type(parts[0])(**{field.name: join(field.name) for field in fields(parts[0])})


def taken(models: Models, order: np.ndarray) -> Models:
    """Candidates by their numbers."""
    xp = namespace(models.coef)
    index = xp.asarray(np.ascontiguousarray(order), device=device_of(models.coef))

    def take(name):
        values = getattr(models, name)
        if values is None or isinstance(values, np.ndarray):
            return None if values is None else values[order]
        return xp.take(values, index, axis=0)

    return type(models)(**{field.name: take(field.name) for field in fields(models)})


def in_order(parts: Sequence[Models], places: Sequence[np.ndarray]) -> Models:
    """Models of all candidates, of parts of which each has those of some numbers."""
    return taken(joined(parts, axis=0), np.argsort(np.concatenate(places), kind="stable"))

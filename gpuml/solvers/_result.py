"""How a solve went, in words a user can act on."""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from gpuml._arrays import Array


class Status(IntEnum):
    """Which route gave a solution, from the cheapest to the most careful."""

    MOMENTS = 0
    ROWS = 1
    MINIMUM_NORM = 2

    @property
    def advice(self) -> str:
        """One sentence: what happened, and what to do if it matters."""
        return _ADVICE[self]


_ADVICE = {
    Status.MOMENTS: "Solved from second moments, whose condition number allows the precision.",
    Status.ROWS: (
        "The second moments were too ill-conditioned for the asked precision, so the rows "
        "themselves were factored (slower). A larger alpha or scaled features avoid this."
    ),
    Status.MINIMUM_NORM: (
        "The features are linearly dependent and alpha does not make up for it: the solution of "
        "minimum norm was taken. Drop dependent features or raise alpha for a unique one."
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

"""H and g for a path of sparse models: given, or computed from rows on demand.

With more features than rows, most of H is never needed.
"""

from typing import Protocol

import numpy as np

# Moments of more features are not formed: their cost grows with the square.
MOST_COLUMNS = 4096


class Source(Protocol):
    """The access of a path to H and g; `scale` (p,) has the roots of the diagonal of H.

    No more than `rank` columns of H can be independent.
    """

    g: np.ndarray
    scale: np.ndarray
    rank: int

    def join(self, new: np.ndarray) -> np.ndarray:
        """Take coordinates into the working set; their rows of H, on all of the set, (m, k)."""

    def keep(self, kept: np.ndarray) -> None:
        """Keep only some of the working set, by their places in it."""

    def slopes(self, v: np.ndarray) -> np.ndarray:
        """``g - H v`` (p,) for coefficients (k,) of the working set."""

    def all_slopes(self, v: np.ndarray) -> np.ndarray:
        """The same (C, p) for coefficients (C, p) of models, whatever the working set."""

    def roots(self) -> tuple[np.ndarray, float] | None:
        """R (k, n) and W with ``H = R R' / W`` on the working set; None if they are not known."""


class OfMatrix:
    """H (p, p) and g (p,) as given."""

    def __init__(self, H: np.ndarray, g: np.ndarray):
        self.H, self.g = H, g
        diagonal = np.diagonal(H)
        self.scale = np.sqrt(np.where(diagonal > 0, diagonal, 0.0))
        self.rank = len(g)
        self._set = np.empty(0, dtype=int)

    def join(self, new: np.ndarray) -> np.ndarray:
        self._set = np.concatenate([self._set, new])
        return self.H[new].take(self._set, axis=1)

    def keep(self, kept: np.ndarray) -> None:
        self._set = self._set[kept]

    def roots(self) -> None:
        """Rows are not known."""

    def slopes(self, v: np.ndarray) -> np.ndarray:
        some = np.flatnonzero(v)
        if 2 * len(some) > len(self.g):
            all_of_them = np.zeros_like(self.g)
            all_of_them[self._set[some]] = v[some]
            return self.g - all_of_them @ self.H
        return self.g - v[some] @ self.H[self._set[some]]

    def all_slopes(self, v: np.ndarray) -> np.ndarray:
        """Those of many models of all coordinates, (C, p)."""
        return self.g - v @ self.H


class OfRows:
    """``H = X' X / W`` and ``g = X' y / W`` of centred rows X (n, p) and y (n,).

    Parameters
    ----------
    X, y : ndarrays (n, p) and (n,), float64
    W : float
    scale : ndarray (p,)
        Roots of the diagonal of H; zero where nothing but rounding is left of a column.
    rank : int, optional
        A bound on the rank of X; else there are n rows.
    """

    def __init__(
        self, X: np.ndarray, y: np.ndarray, W: float, scale: np.ndarray, rank: int | None = None
    ):
        self._X, self._y, self._W, self.scale = X, y, W, scale
        self.g = y @ X / W
        self.rank = len(y) if rank is None else rank
        self._taken, self._k = np.empty((0, len(y))), 0

    def join(self, new: np.ndarray) -> np.ndarray:
        before, self._k = self._k, self._k + len(new)
        if self._k > MOST_COLUMNS:
            raise too_many(MOST_COLUMNS, len(self.g))
        if self._k > len(self._taken):
            taken = np.empty((2 * self._k, len(self._y)))
            taken[:before] = self._taken[:before]
            self._taken = taken
        self._taken[before : self._k] = self._X[:, new].T
        return self._taken[before : self._k] @ self._taken[: self._k].T / self._W

    def keep(self, kept: np.ndarray) -> None:
        self._taken[: len(kept)] = self._taken[kept]
        self._k = len(kept)

    def roots(self) -> tuple[np.ndarray, float]:
        """Columns of X in the working set, as rows, and W."""
        return self._taken[: self._k], self._W

    def slopes(self, v: np.ndarray) -> np.ndarray:
        some = np.flatnonzero(v)
        return (self._y - v[some] @ self._taken[some]) @ self._X / self._W

    def all_slopes(self, v: np.ndarray) -> np.ndarray:
        """Those of many models of all coordinates, (C, p)."""
        return (self._y - v @ self._X.T) @ self._X / self._W


def too_many(most: int, p: int) -> MemoryError:
    """The error for a working set with more than `most` of p features."""
    return MemoryError(
        f"More than {most} of {p} features have coefficients. Raise alpha or l1_ratio, use Ridge "
        "if l1_ratio is near 0, or select features first."
    )

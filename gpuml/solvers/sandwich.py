"""Covariances of estimated coefficients, from second moments of rows and of their scores.

The rows ``x = (features, 1)`` of an unpenalised model have gradients ``u x`` of the log likelihood
by its coefficients, and expected curvatures ``c x x'``. With ``A = sum c x x'`` the covariance is
``A^-1`` (classical) or ``A^-1 M A^-1`` for the sum M of squared gradients: of single rows (HC0 to
HC3) [1]_ or of the sums of groups [2]_. Features are taken about their means, so that large ones
cost no digits; sparse rows stay as they are.

References
----------
.. [1] J. G. MacKinnon, H. White, "Some heteroskedasticity-consistent covariance matrix estimators
   with improved finite sample properties", Journal of Econometrics 29 (1985).
.. [2] K.-Y. Liang, S. L. Zeger, "Longitudinal data analysis using generalized linear models",
   Biometrika 73 (1986).
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gpuml._arrays import Array, move, to_host
from gpuml.designs import Coded, Columns, Dense, Design, Sparse

# Eigenvalues of correlations below which features are linear combinations of each other: sums of
# products have some 15 digits.
SMALLEST_EIGENVALUE = 1e-12


@dataclass(frozen=True)
class Information:
    """The information matrix of weighted rows, and what is needed to invert it.

    Attributes
    ----------
    design : Design
        Rows (n, p).
    intercept : bool
        Whether a constant comes after the features: q = p + 1 coefficients, else p.
    curvature : array (n,)
        ``c``, float64, at the place of the design; with weights.
    """

    design: Design
    intercept: bool
    curvature: Array

    @cached_property
    def mean(self) -> Array:
        """What is taken from the features (p,)."""
        place, n_features = self.design.place, self.design.shape[1]
        if not self.intercept or isinstance(self.design, Sparse):
            return place.xp.zeros(n_features, dtype=place.xp.float64, device=place.device)
        return self.design.column_sums() / self.design.shape[0]

    @cached_property
    def matrix(self) -> np.ndarray:
        """``A`` (q, q), in CPU memory."""
        return self.gram(self.curvature)

    @cached_property
    def size(self) -> np.ndarray:
        """Roots (q,) of the diagonal of `matrix`; 0 for features that are constant."""
        size = np.sqrt(np.maximum(np.diag(self.matrix), 0.0))
        mean = np.abs(to_host(self.mean))
        total = float(self.design.place.xp.sum(self.curvature))
        noise = 64 * np.finfo(float).eps * np.sqrt(total) * mean
        size[: len(mean)] = np.where(size[: len(mean)] <= noise, 0.0, size[: len(mean)])
        return size

    @cached_property
    def _eigen(self):
        scaled = self.matrix / np.outer(self.size, self.size)
        return np.linalg.eigh(scaled)

    def unidentified(self) -> np.ndarray:
        """Numbers of the coefficients that are not determined; none where all are."""
        if (self.size == 0).any():
            return np.flatnonzero(self.size == 0)
        values, vectors = self._eigen
        if values[0] > SMALLEST_EIGENVALUE:
            return np.zeros(0, dtype=int)
        return np.flatnonzero(np.abs(vectors[:, 0]) > 1e-3)

    @cached_property
    def root(self) -> np.ndarray:
        """``R`` (q, q) with ``R' R = A^-1``."""
        values, vectors = self._eigen
        return (vectors / np.sqrt(values)).T / self.size

    @cached_property
    def inverse(self) -> np.ndarray:
        """``A^-1`` (q, q)."""
        return self.root.T @ self.root

    # ------------------------------------------------------------ sums over rows

    def gram(self, weights: Array) -> np.ndarray:
        """``sum w x x'`` (q, q) for weights (n,), in CPU memory."""
        xp = self.design.place.xp
        if isinstance(self.design, Sparse):
            return to_host(self._columns.gram(weights[None, :])[0, ...])
        total: Any = 0.0
        for block in self.design.blocks(self.design.shape[1] + 1):
            X = block.dense() - self.mean
            if self.intercept:
                X = xp.concat([X, xp.ones_like(X[:, :1])], axis=1)
            total = total + (X * weights[block.rows, None]).T @ X
        return to_host((total + total.T) / 2)

    def leverages(self) -> Array:
        """``x' A^-1 x`` (n,) of the rows, at their place."""
        place, p = self.design.place, self.design.shape[1]
        root = move(self.root, place)
        coef, level = root[:, :p], -(root[:, :p] @ self.mean)
        if self.intercept:
            level = level + root[:, p]
        found = [
            place.xp.sum((block.in_float64().margins(coef) + level[:, None]) ** 2, axis=0)
            for block in self.design.blocks(len(self.root))
        ]
        return place.xp.concat(found)

    def sums(self, values: Array, codes: Array | None = None, n_groups: int = 1) -> np.ndarray:
        """``sum v x`` (n_groups, q) of values (n,) by group, in CPU memory."""
        place, p = self.design.place, self.design.shape[1]
        if codes is None:
            codes = place.xp.zeros(values.shape[0], dtype=place.xp.int64, device=place.device)
        groups = Coded((codes,), (n_groups,), self.design.dtype)
        total = to_host(groups.cross(self._columns, values[None, :])[0, ...])
        if self.intercept:
            total[:, :p] -= total[:, p:] * to_host(self.mean)
        return total

    def to_features(self, covariance: np.ndarray) -> np.ndarray:
        """A covariance of the coefficients of the original features."""
        p = self.design.shape[1]
        back = np.eye(len(covariance))
        if self.intercept:
            back[p, :p] = -to_host(self.mean)
        return back @ covariance @ back.T

    @property
    def _columns(self) -> Design:
        if not self.intercept:
            return self.design
        place, dtype = self.design.place, self.design.dtype
        ones = place.xp.ones((self.design.shape[0], 1), dtype=dtype, device=place.device)
        return Columns((self.design, Dense(ones, place)))


def margins(design: Design, coef: Any, intercept: float) -> Array:
    """``X w + b`` (n,), float64, of coefficients (p,)."""
    xp = design.place.xp
    w = xp.astype(move(coef, design.place), xp.float64)[None, :]
    found = [block.in_float64().margins(w)[0, :] for block in design.blocks(1)]
    return xp.concat(found) + intercept


def robust(
    known: Information, score: Array, weight: Array, kind: str, *, repeated: bool
) -> np.ndarray:
    """``A^-1 M A^-1`` (q, q) with the squared gradients of single rows.

    Parameters
    ----------
    known : Information
    score : array (n,)
        ``u`` of rows of weight 1.
    weight : array (n,)
    kind : {"HC0", "HC1", "HC2", "HC3"}
        HC2 divides squares by 1 - h, HC3 by its square, for leverages h; HC1 is HC0 here.
    repeated : bool
        Whether weights count equal rows; if not, they multiply the gradients.

    Raises
    ------
    ValueError
        If a row has a leverage of 1, where HC2 and HC3 are not defined.
    """
    xp = known.design.place.xp
    squares = weight * score**2 if repeated else (weight * score) ** 2
    if kind in ("HC2", "HC3"):
        own = known.curvature
        if repeated:
            own = xp.where(weight > 0, own / xp.where(weight > 0, weight, 1.0), 0.0)
        left = 1.0 - own * known.leverages()
        if float(xp.min(xp.where(weight > 0, left, 1.0))) < 1e-10:
            raise ValueError(
                f"covariance={kind!r} is not defined here: a row has a leverage of 1, so that the "
                'model goes through it whatever its target is. Use covariance="HC1".'
            )
        squares = squares / (left if kind == "HC2" else left**2)
    return known.inverse @ known.gram(squares) @ known.inverse


def clustered(
    known: Information, score: Array, weight: Array, codes: Array, n_groups: int
) -> np.ndarray:
    """``A^-1 M A^-1`` (q, q) with the squares of the sums of gradients of each group."""
    total = known.sums(weight * score, codes, n_groups) @ known.inverse
    return total.T @ total

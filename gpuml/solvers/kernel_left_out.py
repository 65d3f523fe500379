r"""Ridge regression with a kernel of splits that leave out one row each, from one inverse.

With G = (S K S + alpha I)^{-1} and z = G S y of all rows, the solution without row i is

    z - G[:, i] z_i / G_ii ,

which is 0 in row i [1]_. One step of iterative refinement, by the same formula, restores the digits
that the inverse has lost; residuals say of which splits and penalties that was enough.

References
----------
.. [1] G. H. Golub, M. Heath, G. Wahba, "Generalized cross-validation as a method for choosing a
   good ridge parameter", Technometrics 21 (1979).
"""

from dataclasses import dataclass

import numpy as np

from gpuml._arrays import Array, device_of, namespace, to_host
from gpuml._arrays.ops import solve_spd


@dataclass(frozen=True)
class LeftOut:
    """The data that all leave-one-out splits share.

    Attributes
    ----------
    base : array (n,)
        Roots of the weights of all rows.
    row : int array (S,)
        Which row a split leaves out.
    keeps : array (S, n)
        1 for the other rows, and 0.
    """

    base: Array
    row: Array
    keeps: Array

    @classmethod
    def of(cls, roots: Array) -> "LeftOut | None":
        """Of roots of weights (S, n); None where splits differ in anything else."""
        xp = namespace(roots)
        base = xp.max(roots, axis=0)
        gone = (roots != base) & (roots == 0)
        number = xp.sum(xp.astype(gone, xp.int64), axis=1)
        alike = xp.all((roots == base) | gone) & xp.all(number == 1)
        if not bool(alike):
            return None
        row = xp.argmax(xp.astype(gone, xp.int8), axis=1)
        return cls(base, row, xp.astype(~gone, xp.float64))

    def solutions(self, K: Array, y: Array, alphas: np.ndarray, enough: np.ndarray):
        """Dual coefficients (C, S, n, t), which are solved (C, S), and conditions of matrices.

        Parameters
        ----------
        K : array (n, n)
        y : array (n, t)
        alphas : ndarray (C, t)
        enough : ndarray (S, t, C)
            Bounds on the norms of residuals next to those of the right-hand sides.
        """
        xp, (S, n), t = namespace(K), self.keeps.shape, y.shape[1]
        A = self.base[:, None] * K * self.base
        dual = xp.zeros((len(alphas), S, n, t), dtype=xp.float64, device=device_of(K))
        solved = np.ones((len(alphas), S), dtype=bool)
        conditions = []
        for alpha in np.unique(alphas):
            G, condition = _inverse(A, float(alpha), xp)
            if np.isfinite(condition):
                conditions.append(condition)
            for j in np.flatnonzero((alphas == alpha).any(axis=0)).tolist():
                which = np.flatnonzero(alphas[:, j] == alpha)
                if not np.isfinite(condition):
                    solved[which, :] = False
                    continue
                z, error = self._solve(A, float(alpha), G, self.base * y[:, j], xp)
                for c in which.tolist():
                    dual[c, :, :, j] = z * self.base
                    solved[c, :] &= error <= enough[:, j, c]
        return dual, solved, np.asarray(conditions)

    def _solve(self, A, alpha, G, side, xp):
        """Solutions (S, n), and norms (S,) of their residuals next to those of the sides."""
        rows = xp.take(G, self.row, axis=0)
        pivots = xp.take(xp.linalg.diagonal(G), self.row, axis=0)
        sides = self.keeps * side

        def without_row(found):
            own = xp.take(found, self.row, axis=-1)
            own = xp.linalg.diagonal(own) if found.ndim == 2 else own
            return (found - (own / pivots)[:, None] * rows) * self.keeps

        def residual(z):
            return sides - self.keeps * (z @ A + alpha * z)

        z = without_row(G @ side)
        z = z + without_row(residual(z) @ G)
        length = xp.linalg.vector_norm(sides, axis=1)
        left = xp.linalg.vector_norm(residual(z), axis=1)
        return z, to_host(left / xp.where(length > 0, length, xp.ones_like(length)))


def _inverse(A, alpha, xp):
    """``(A + alpha I)^{-1}`` and its condition number, inf if it is not positive definite."""
    eye = xp.eye(A.shape[0], dtype=xp.float64, device=device_of(A))
    G, condition = solve_spd(A + alpha * eye, eye, xp)
    condition = float(condition)
    return G, condition if np.isfinite(condition) else np.inf

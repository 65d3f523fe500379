"""Linear systems on sets of coordinates that differ little from a factored set.

Along a path of sparse models a few coordinates at a time come and go. With ``M_BB`` factored, the
system on a set that has some more coordinates, or lacks some, is ``M_BB`` with a border [1]_: a
column of M for each one that came, and for each one that went a column of the identity, whose
multiplier holds it at zero. That costs two triangular solves for each, where a factorisation costs
as much as a hundred of them.

Of rows, M is of low rank but for its diagonal. Where a set has several times as many coordinates as
there are rows, a system of the order of their number is solved instead [2]_.

References
----------
.. [1] P. E. Gill, W. Murray, M. A. Saunders, M. H. Wright, "A Schur-complement method for sparse
   quadratic programming", in Reliable Numerical Computation (1990).
.. [2] W. W. Hager, "Updating the inverse of a matrix", SIAM Review 31 (1989).
"""

from collections.abc import Callable

import numpy as np
from scipy.linalg import lapack

from gpuml.solvers._patterns import SMALLEST_PIVOT

# A border with more columns than this, or than this share of the base, is refactored.
FEW_COLUMNS, SHARE_OF_COLUMNS = 16, 0.15
# From so many coordinates for each row rows are solved, up to a trace of Q of so many times l2: the
# relative error is that times eps, and its square after a refinement.
COORDINATES_PER_ROW, MOST_TRACE = 2, 1e7


class Bordered:
    """Systems ``(Q + l2)_AA u_A = rhs_A``, with u zero elsewhere, for one set A after another.

    Parameters
    ----------
    roots : callable () -> (ndarray (k, n), float) or None
        R and W with ``Q = R R' / W``, if they are known.
    """

    def __init__(self, roots: Callable[[], tuple[np.ndarray, float] | None] = lambda: None) -> None:
        self._roots = roots
        self._is_known = False

    def forget(self) -> None:
        """Coordinates are renumbered: drop the factors."""
        self._is_known = False

    def solve(
        self, Q: np.ndarray, l2: float, mask: np.ndarray, rhs: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """The solution (k,) on the coordinates of a mask (k,), or what the matrix does not see.

        Parameters
        ----------
        Q : ndarray (k, k), float64
            Symmetric positive semidefinite. From call to call it may get more rows and columns
            behind those that it has.
        l2 : float
        mask : bool ndarray (k,)
        rhs : ndarray (k,)

        Returns
        -------
        u : ndarray (k,), or ndarray (m, k)
            Where the matrix is singular, vectors for which it gives zero.
        which : None, or int ndarray (m,)
            Of each of these vectors, the coordinate that depends on others: there it is one.
        """
        by_rows = self._by_rows(l2, mask, rhs)
        if by_rows is not None:
            return by_rows, None
        border = self._border_of(Q, mask) if self._is_known and l2 == self._l2 else None
        if border is None:
            singular = self._factor(Q, l2, mask)
            if singular is not None:
                return singular
            border = np.empty(0, dtype=int)
        u = np.zeros(len(mask))
        inside = lapack.dpotrs(self._root, rhs[self._base])[0] if len(self._base) else rhs[:0]
        if len(border) == 0:
            u[self._base] = inside
            return u, None
        changed, image = self._changed[border], self._image[border]  # (m,), (m, |B|)
        came = mask[changed]
        wanted = np.where(came, rhs[changed], 0.0) - image @ rhs[self._base]
        try:
            outside = np.linalg.solve(self._schur[border[:, None], border], wanted)
        except np.linalg.LinAlgError:
            outside = np.full(len(border), np.nan)
        u[self._base] = inside - outside @ image
        u[changed] = np.where(came, outside, 0.0)
        if not u @ rhs > 0:
            # The new coordinates depend on the old ones, which only a new factorisation handles.
            self.forget()
            return self.solve(Q, l2, mask, rhs)
        return u, None

    def _by_rows(self, l2, mask, rhs):
        """The solution (k,) by a system of the order of the rows; None where that is no gain."""
        R, W = self._roots() or (np.empty((0, 0)), 1.0)
        least = COORDINATES_PER_ROW * R.shape[1]
        if not l2 > 0 or not 0 < least < np.count_nonzero(mask):
            return None
        R, rhs, diagonal = R[mask], rhs[mask], np.diag_indices(R.shape[1])
        inner = R.T @ R
        if not np.trace(inner) <= MOST_TRACE * W * l2:
            return None
        inner[diagonal] += W * l2
        root, info = lapack.dpotrf(inner, clean=0)
        if info != 0:
            return None

        def once(side):
            return (side - R @ lapack.dpotrs(root, R.T @ side)[0]) / l2

        own = once(rhs)
        own += once(rhs - R @ (own @ R) / W - l2 * own)
        u = np.zeros(len(mask))
        u[mask] = own
        return u

    def _factor(self, Q, l2, mask):
        """Factor the system on a mask; if it is singular, return what `solve` returns then."""
        base = np.flatnonzero(mask)
        matrix = Q[base].take(base, axis=1)
        diagonal = np.diag_indices(len(matrix))
        matrix[diagonal] += l2
        self._root, info = lapack.dpotrf(matrix.T, lower=0, clean=0)
        least = SMALLEST_PIVOT * np.sqrt(matrix[diagonal])
        self._is_known = info == 0 and bool((self._root[diagonal] > least).all())
        if not self._is_known:
            unit = 1 / np.sqrt(matrix[diagonal])
            return self._unseen(matrix * unit * unit[:, None], unit, base, len(mask))
        self._l2, self._base, self._mask = l2, base, mask.copy()
        self._changed = np.empty(0, dtype=int)
        self._side = self._image = np.empty((0, len(base)))
        self._schur = np.empty((0, 0))
        return None

    def _unseen(self, matrix, unit, base, k):
        """Vectors (m, k) for which a singular matrix of unit diagonal gives zero, and their ones.

        Each is a column that depends on others, one at its own coordinate.
        """
        root, order, rank, _ = lapack.dpstrf(matrix, tol=SMALLEST_PIVOT**2)
        order = order - 1
        others = order[rank:]
        depends, _ = lapack.dtrtrs(root[:rank, :rank], root[:rank, rank:])  # (rank, m)
        unseen = np.zeros((len(others), k))
        unseen[np.arange(len(others)), base[others]] = 1.0
        # Units of coordinates come back.
        found = -depends.T * unit[order[:rank]] / unit[others][:, None]
        unseen[:, base[order[:rank]]] = found
        return unseen, base[others]

    def _border_of(self, Q, mask):
        """Which columns of the border make a mask of the base; None if it has to be factored."""
        before = np.zeros(len(mask), dtype=bool)
        before[: len(self._mask)] = self._mask
        is_changed = before != mask
        is_missing = is_changed.copy()
        is_missing[self._changed] = False
        missing = np.flatnonzero(is_missing)
        room = max(FEW_COLUMNS, SHARE_OF_COLUMNS * len(self._base))
        if len(self._changed) + len(missing) > room:
            return None
        if len(missing):
            self._widen(Q, missing, before)
        return np.flatnonzero(is_changed[self._changed])

    def _widen(self, Q, missing, before):
        """Add columns to the border: coordinates that left the base, or joined it."""
        went = before[missing]
        rows = Q[missing]
        side = rows.take(self._base, axis=1)
        side[went] = self._base == missing[went][:, None]
        image = lapack.dpotrs(self._root, side.T)[0].T if len(self._base) else side
        m, k = len(self._changed), len(self._changed) + len(missing)
        self._changed = np.concatenate([self._changed, missing])
        self._side = np.concatenate([self._side, side])
        self._image = np.concatenate([self._image, image])
        schur = np.empty((k, k))
        schur[:m, :m] = self._schur
        schur[m:] = -image @ self._side.T
        schur[:m, m:] = schur[m:, :m].T
        came = np.flatnonzero(~before[self._changed])
        fresh, old = came[came >= m], came[came < m]
        block = rows[~went].take(self._changed[came], axis=1)
        block[self._changed[fresh][:, None] == self._changed[came]] += self._l2
        schur[fresh[:, None], came] += block
        schur[old[:, None], fresh] += block[:, : len(old)].T
        self._schur = schur

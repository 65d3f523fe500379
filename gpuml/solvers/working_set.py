"""Sparse models of more features than moments are kept for: a working set of columns.

On a CPU, and of few rows, `solvers.row_paths` solves the problem from the rows. Elsewhere, and
without an l1 part, it is solved from the moments of some columns. Features outside whose optimality
condition ``|x_j' r| / W <= l1`` the residuals r violate join them, the worst first, until there is
none: then the models are those of all features [1]_. Each round reads the rows twice: for the
slopes of all features, all models at once in one product, and for the moments of the columns.

References
----------
.. [1] T. B. Johnson, C. Guestrin, "Blitz: a principled meta-algorithm for scaling sparse
   optimization", ICML (2015).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from gpuml._arrays import device_of, namespace, to_host
from gpuml._arrays.ops import constant, zeros
from gpuml.data import Batch, Folds, Partition, count_rows
from gpuml.solvers._blocks import Blocks, sum_blocks
from gpuml.solvers._path_sources import MOST_COLUMNS, too_many
from gpuml.solvers.described import Described
from gpuml.solvers.lasso import (
    Penalties,
    SparseModels,
    at_place,
    describe_columns,
    solve_described,
)
from gpuml.solvers.row_paths import may_follow, near, solve_rows
from gpuml.solvers.shifts import atom_shifts, mean_shift

# With fewer rows than features, a working set costs less than all moments from here on, and from
# earlier on where models are followed on the rows.
FEW_COLUMNS = 1024
FEW_ON_CPU = 256
# The set grows by at least so many features per round, and otherwise doubles.
FIRST_COLUMNS = 256
# Share of the penalty by which a feature outside the working set may violate its condition.
SLACK = 1e-9


@dataclass(frozen=True)
class WideFit:
    """Models of all features, and the moments of the columns that they rest on, if there are any.

    `n_passes` says how often the rows were read.
    """

    models: SparseModels
    described: Described | None
    columns: np.ndarray | None
    n_passes: int


def is_wide(batch: Batch) -> bool:
    """Whether a working set of columns is to be used."""
    few = FEW_ON_CPU if may_follow(batch) else FEW_COLUMNS
    return batch.n_features > min(MOST_COLUMNS, max(batch.n_rows, few))


def solve_wide(
    folds: Folds,
    penalties: Penalties,
    max_iter: int,
    columns: np.ndarray | None = None,
    start: np.ndarray | None = None,
    *,
    check: Callable[[Described], None],
    block_bytes: int | None = None,
    advance: Callable[[int], None] | None = None,
) -> WideFit:
    """Models of all candidates on every split.

    Parameters
    ----------
    folds : Folds
    penalties : Penalties
    max_iter : int
    columns : int ndarray, optional
        A guess of the features that have coefficients, in order.
    start : ndarray (t, p), host, optional
        A guess of the coefficients.
    check : callable
        Called with the moments of the columns; raises where they are not finite.
    block_bytes, advance
        As for `moments.atom_moments`.

    Raises
    ------
    MemoryError
        If more than `MOST_COLUMNS` features have coefficients.
    """
    here = replace(folds, batch=near(folds.batch))
    if may_follow(here.batch):
        models = solve_rows(here, penalties, max_iter, start, advance=advance)
        if models is not None:
            return WideFit(at_place(models, folds.batch.work), None, None, folds.n_splits)
    rows = _Rows(folds, penalties, block_bytes, advance)
    p = folds.batch.n_features
    if columns is None and start is not None:
        columns = np.flatnonzero(start.any(axis=0))
    columns = np.arange(1) if columns is None or len(columns) == 0 else columns
    begin, n_passes = None, 0
    while True:
        described = describe_columns(folds, columns, block_bytes=block_bytes, advance=advance)
        check(described)
        inner = solve_described(described, penalties, max_iter, begin)
        excess = rows.excess(inner, columns)
        excess[columns] = 0.0
        n_passes += 2 * len(folds.partitions)
        missing = np.flatnonzero(~(excess <= SLACK))
        if len(missing) == 0:
            coef = _at_columns(inner.coef, columns, np.arange(p))
            return WideFit(replace(inner, coef=coef), described, columns, n_passes)
        room = max(len(columns), FIRST_COLUMNS)
        worst = missing[np.argsort(-excess[missing], kind="stable")[:room]]
        before, columns = columns, np.union1d(columns, worst)
        begin = _at_columns(inner.coef, before, columns)
        if len(columns) > MOST_COLUMNS:
            raise too_many(MOST_COLUMNS, p)


def _at_columns(coef, before, after):
    """Coefficients of some columns as those of others; new columns get zero."""
    xp = namespace(coef)
    position = np.full(max(before[-1], after[-1]) + 1, len(before))
    position[before] = np.arange(len(before))
    index = xp.asarray(position[after], device=device_of(coef))
    padded = xp.concat([coef, xp.zeros_like(coef[..., :1])], axis=-1)
    return xp.take(padded, index, axis=-1)


@dataclass(frozen=True)
class _Rows:
    """The rows, to be read for slopes of all features."""

    folds: Folds
    penalties: Penalties
    block_bytes: int | None
    advance: Callable[[int], None] | None

    def excess(self, models: SparseModels, columns: np.ndarray) -> np.ndarray:
        """By what share of its penalty each feature violates its condition, worst model (p,)."""
        xp = namespace(models.coef)
        l1 = constant(self.penalties.alpha * self.penalties.l1_ratio, like=models.coef, xp=xp)
        # Without an l1 part, every feature has a coefficient.
        least = xp.where(l1 > 0, l1, xp.full_like(l1, 1e-300))[:, None, None, None]
        worst = np.full(self.folds.batch.n_features, -np.inf)
        for part in self.folds.partitions:
            slopes = self._slopes(part, models, columns)  # (C, S, t, p)
            share = xp.max(xp.abs(slopes) / least, axis=(0, 1, 2)) - 1
            worst = np.maximum(worst, to_host(share))
        return worst

    def _slopes(self, part: Partition, models, columns):
        """``sum w x r / sum w`` (C, S, t, p) over the training rows of each split."""
        batch, xp = self.folds.batch, namespace(models.coef)
        p, stop = batch.n_features, part.first_split + part.n_splits
        coef = models.coef[:, part.first_split : stop, ...]
        C, S, t, k = coef.shape
        intercept = xp.reshape(models.intercept[:, part.first_split : stop, ...], (C * S, t))
        coef = xp.reshape(coef, (C * S * t, k))
        index = xp.asarray(columns, device=device_of(coef))
        blocks = Blocks(batch, p + C * S * t, self.block_bytes, self.advance)

        def start():
            return zeros((C * S * t + 1, p + 1), like=coef, xp=xp)

        def add(total, atom, X, y, weight):
            X, y = (xp.astype(a, xp.float64, copy=False) for a in (X, y))
            ones = xp.ones_like(X[:, :1])
            fitted = xp.reshape(xp.take(X, index, axis=1) @ coef.T, (X.shape[0], C * S, t))
            residual = y[:, None, :] - fitted - intercept
            left = xp.concat([xp.reshape(residual, (X.shape[0], C * S * t)), ones], axis=1)
            if weight is not None:
                left = left * xp.astype(weight, xp.float64)[:, None]
            return total + xp.concat([left.T @ (X - shift), left.T @ ones], axis=1)

        # Sums of an atom are about its shift, and count as often as it occurs in a training part.
        shifts = atom_shifts(batch, part.atoms)[:, :p]
        sizes = [count_rows(atom) for atom in part.atoms]
        centres = mean_shift(constant(part.train * sizes, like=coef, xp=xp), shifts, xp)  # (S, p)
        slopes = zeros((C, S, t, p), like=coef, xp=xp)
        residuals = zeros((C, S, t, 1), like=coef, xp=xp)
        weights = zeros((S,), like=coef, xp=xp)
        for a, atom in enumerate(part.atoms):
            shift = shifts[a, :]
            (total,) = sum_blocks(blocks, (atom,), start, add, lambda a, b: a + b)
            count = constant(part.train[:, a], like=coef, xp=xp)[:, None, None]  # (S, 1, 1)
            of_atom = xp.reshape(total[:-1, :], (C, S, t, p + 1))
            apart = count * (shift - centres)[:, None, :]
            slopes = slopes + count * of_atom[..., :-1] + of_atom[..., -1:] * apart
            residuals = residuals + count * of_atom[..., -1:]
            weights = weights + count[:, 0, 0] * total[-1, -1]
        # The residuals of a model with an intercept sum to zero, so that the centre drops out.
        plain = constant(~self.penalties.fit_intercept, like=coef, xp=xp)[:, None, None, None]
        return (slopes + plain * residuals * centres[:, None, :]) / weights[:, None, None]


def steepest_slope(folds: Folds, fit_intercept: bool, block_bytes: int | None = None) -> float:
    """The largest ``|x_j' (y - mean)| / W`` over features and targets: alpha_max of the lasso."""
    flag = np.asarray([fit_intercept])
    huge = Penalties(np.asarray([1e300]), np.ones(1), flag)
    unit = Penalties(np.ones(1), np.ones(1), flag)
    columns = np.arange(1)
    described = describe_columns(folds, columns, block_bytes=block_bytes)
    zero = solve_described(described, huge, max_iter=1)
    rows = _Rows(folds, unit, block_bytes, None)
    return float(rows.excess(zero, columns).max()) + 1.0

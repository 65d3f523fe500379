"""Means and covariances of the rows of each class, in one pass."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gpuml._arrays import Array, move, namespace, place_of
from gpuml._arrays.ops import column_sums
from gpuml.data import take
from gpuml.naive_bayes._sums import ClassRows, row_slices, work_place
from gpuml.resampling.split import rows_by_class
from gpuml.solvers.components import leading_eigh


@dataclass(frozen=True)
class Covariances:
    """Of each class: number of rows (k,), mean (k, p) and covariance (k, p, p), float64."""

    count: Array
    mean: Array
    matrix: Array

    @cached_property
    def eigen(self) -> tuple[Array, Array]:
        """Eigenvalues (k, p), from large to small, and eigenvectors (k, p, p) in columns."""
        xp = namespace(self.matrix)
        values, rows = leading_eigh(self.matrix, self.matrix.shape[-1], xp)
        return xp.where(values > 0, values, 0.0), xp.matrix_transpose(rows)


def joined(each: Sequence[Covariances], times: Any = None) -> Covariances:
    """Those of all rows, from groups that count `times` each (once, if None)."""
    xp = namespace(each[0].count)
    count, mean, matrix = (
        xp.stack([getattr(one, name) for one in each]) for name in ("count", "mean", "matrix")
    )
    if times is not None:
        times = move(np.asarray(times, dtype=np.float64), place_of(count))
        count = count * times[:, None]
    total = xp.sum(count, axis=0)
    share = count / xp.where(total > 0, total, 1.0)  # (a, k)
    whole = xp.sum(share[..., None] * mean, axis=0)
    step = mean - whole
    spread = matrix + step[..., :, None] * step[..., None, :]
    return Covariances(total, whole, xp.sum(share[..., None, None] * spread, axis=0))


def class_covariances(rows: ClassRows) -> Covariances:
    """Of the rows of each class; those of a class without rows are 0."""
    place = work_place(rows.X)
    index = rows_by_class(rows.codes, rows.n_classes)
    found = [_of_class(rows.X, of_class, place) for of_class in index]
    count, mean, matrix = zip(*found, strict=True)
    xp = place.xp
    counts = move(np.asarray(count, dtype=np.float64), place)
    return Covariances(counts, xp.stack(mean), xp.stack(matrix))


def _of_class(X, index, place):
    """Number, mean (p,) and covariance (p, p) of some rows."""
    xp, p, n_rows = place.xp, X.shape[1], index.shape[0]
    parts = []
    for some in row_slices(index[:, None], place, 3 * p):
        part = move(take(X, index[some], namespace(X)), place)
        n = part.shape[0]
        mean = column_sums(part, xp) / n
        Z = xp.astype(part, xp.float64, copy=False) - mean
        parts.append((n, mean, Z.T @ Z / n))
    if not parts:
        zero = xp.zeros((p, p), dtype=xp.float64, device=place.device)
        return 0, zero[0, :], zero
    if len(parts) == 1:
        return parts[0]
    each = [
        Covariances(*(a[None, ...] for a in (move(np.asarray(float(n)), place), mean, matrix)))
        for n, mean, matrix in parts
    ]
    whole = joined(each)
    return n_rows, whole.mean[0, :], whole.matrix[0, ...]

"""How components are found: of rows in one place, sparse on a GPU, or read block by block.

One set of rows is a batch of one part. Parts of rows have moments; see `from_parts`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from gpuml._arrays import Array, Place, is_numpy, namespace
from gpuml._arrays.ops import all_finite
from gpuml._settings.config import current_settings
from gpuml.data import Batch
from gpuml.decomposition._compressed import Decomposed, compressed_components
from gpuml.decomposition._input import refuse_what_is_not_finite
from gpuml.decomposition._principal import MANY_FEATURES, n_leading
from gpuml.decomposition._streamed import Streamed
from gpuml.solvers.components import (
    Components,
    about_origin,
    from_moments,
    from_products,
    from_rows,
    variances_along,
)
from gpuml.solvers.factors import Stacked, atom_factors
from gpuml.solvers.moments import Moments, atom_moments, normal_equations, squares_vanish
from gpuml.solvers.randomized import (
    DenseRows,
    SparseRows,
    dense_sums,
    randomized_svd,
    sparse_products,
    sparse_sums,
)

# X'X of so many features, in float64, is a small part of a GPU's memory.
MANY_SPARSE_FEATURES = 2 * MANY_FEATURES
# Float32 holds these mean squares, and sums of squares, and has digits left for smaller ones.
SINGLE_SQUARES = (1e-20, 1e35)


@dataclass(frozen=True)
class SparseBatch:
    """A sparse matrix (CSR) whose data is an array that gpuml works on."""

    X: Any
    home: Place

    @property
    def n_rows(self) -> int:
        return self.X.shape[0]

    @property
    def n_features(self) -> int:
        return self.X.shape[1]


AnyRows = Batch | Streamed | SparseBatch


def decomposed(
    estimator: Any, rows: AnyRows, solver: str, wanted: Any, *, centred: bool
) -> Decomposed:
    """Components of rows by a solver that is named as `PCA` names it.

    Rows that are read block by block, or divided, are for "compressed" only, and sparse ones for
    "covariance_eigh" and "randomized".
    """
    return _FITS[solver](estimator, rows, wanted, centred)


def from_parts(
    moments: Moments,
    count: int,
    n_rows: Sequence[int],
    stacked: Callable[[int], Stacked],
    *,
    centred: bool,
    exact: bool = False,
) -> Decomposed:
    """Components of parts with some moments, or of rows ``stacked(s)`` that describe part s.

    The latter where they have to be `exact`, or squares of the rows vanish.
    """
    if exact or squares_vanish(moments):
        parts = [stacked(s) for s in range(len(n_rows))]
        found = from_rows(parts, n_rows, count, centred=centred)
    else:
        found = from_moments(moments, count, centred=centred)
    if centred:
        return Decomposed(found)
    return _varying(found, normal_equations(moments, True).xx, moments.gram[..., -1, -1])


def _varying(found, products, weight):
    """How images about the origin vary follows from ``sum (x - m)(x - m)'`` (S, p, p)."""
    xp = namespace(products)
    covariance = products / weight[:, None, None]
    spread = xp.sum(xp.linalg.diagonal(covariance), axis=-1)
    return Decomposed(found, variances_along(covariance, found.vectors), spread)


def _by_moments(estimator, rows, wanted, centred):
    count = n_leading((wanted,), min(rows.n_rows, rows.n_features))
    if isinstance(rows, SparseBatch):
        return _by_sparse_products(rows, count, centred)
    block_bytes = current_settings().block_bytes
    moments = _moments(rows, block_bytes)
    _demand_finite(moments.gram, estimator, rows)

    def stacked(_):
        return atom_factors(rows, _all(rows), block_bytes=block_bytes).stack(np.ones(1))

    # With fewer rows than features all eigenvalues beyond the number of rows are zero.
    return from_parts(moments, count, (rows.n_rows,), stacked, centred=centred)


def _moments(rows, block_bytes):
    """Moments of all rows, from float32 products of float32 rows in CPU memory.

    Those are taken about a mean and summed in float64, so that components have the digits that the
    dtype of the rows has. Where squares have no place in float32, products are float64 too.
    """
    if is_numpy(rows.X) and rows.X.dtype == np.float32 and not rows.is_divided:
        found = atom_moments(rows, _all(rows), block_bytes=block_bytes, single=True)
        largest = np.diagonal(found.gram[0])[:-1].max(initial=0.0)
        if SINGLE_SQUARES[0] * rows.n_rows < largest < SINGLE_SQUARES[1]:
            return found
    return atom_moments(rows, _all(rows), block_bytes=block_bytes)


def _by_sparse_products(rows, count, centred):
    doubles = rows.X.astype(np.float64)
    mean = sparse_sums(doubles).mean[None, :]
    products = sparse_products(doubles, mean[0, :])[None, ...]
    if centred:
        return Decomposed(from_products(products, mean, count))
    xp = namespace(mean)
    weight = xp.full((1,), float(rows.n_rows), dtype=xp.float64, device=mean.device)
    return _varying(about_origin(products, mean, weight, count), products, weight)


def _by_factor(estimator, rows, wanted, centred):
    factors = atom_factors(rows, _all(rows), block_bytes=current_settings().block_bytes)
    stacked = factors.stack(np.ones(1))
    _demand_finite(stacked.rows, estimator, rows)
    count = n_leading((wanted,), min(rows.n_rows, rows.n_features))
    return Decomposed(from_rows([stacked], (rows.n_rows,), count, centred=centred))


def _by_random_block(estimator, rows, wanted, centred):
    n, p = rows.n_rows, rows.n_features
    if isinstance(rows, SparseBatch):
        doubles = rows.X.astype(np.float64)
        sums = sparse_sums(doubles)
        matrix: Any = SparseRows(doubles, sums.mean if centred else None, sums.mean)
    else:
        block_bytes = current_settings().block_bytes
        sums = dense_sums(rows, block_bytes)
        _demand_finite(sums.total, estimator, rows)
        matrix = DenseRows(rows, sums.mean if centred else None, sums.mean, block_bytes)
    how = estimator._iteration(int(wanted), n, p)
    random = check_random_state(how.random_state)
    singular, vectors, images = randomized_svd(
        matrix, int(wanted), how.n_oversamples, how.n_power_iter, random
    )
    xp = namespace(sums.total)
    total = xp.reshape(sums.total, (1,))
    mean = sums.mean if centred else xp.zeros_like(sums.mean)
    found = Components(vectors[None, ...], singular[None, :], total, mean[None, :])
    if centred:
        return Decomposed(found)
    return Decomposed(found, xp.var(images, axis=0)[None, :], total / n)


def _by_visits(estimator, rows, wanted, centred):
    how = estimator._iteration(int(wanted), rows.n_rows, rows.n_features)
    return compressed_components(estimator, rows, int(wanted), how, centred=centred)


_FITS: dict[str, Callable[..., Decomposed]] = {
    "covariance_eigh": _by_moments,
    "full": _by_factor,
    "randomized": _by_random_block,
    "compressed": _by_visits,
}


def _all(rows):
    return (slice(0, rows.n_rows),)


def _demand_finite(sums: Array, estimator: Any, rows: Any) -> None:
    if not all_finite(sums, namespace(sums)):
        refuse_what_is_not_finite(estimator, rows.X)

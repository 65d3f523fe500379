"""The numerics of PCA for one set of rows, dense or sparse on a GPU; a batch of one part."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from gpuml._arrays import Place, namespace, place_of
from gpuml._arrays.ops import all_finite
from gpuml._settings.config import current_settings
from gpuml.data import Batch
from gpuml.decomposition._compressed import Iteration, compressed_components
from gpuml.decomposition._input import refuse_what_is_not_finite
from gpuml.decomposition._principal import (
    MANY_FEATURES,
    Principal,
    check_n_components,
    choose_solver,
    kept_counts,
    n_leading,
)
from gpuml.decomposition._streamed import Streamed
from gpuml.solvers.components import Components, from_moments, from_products, from_rows
from gpuml.solvers.factors import atom_factors
from gpuml.solvers.moments import atom_moments, squares_vanish
from gpuml.solvers.randomized import (
    DenseRows,
    Rows,
    RowSums,
    SparseRows,
    dense_sums,
    n_power_iter,
    randomized_svd,
    sparse_products,
    sparse_sums,
)

# X'X of so many features, float64, is still a small part of a GPU's memory.
MANY_SPARSE_FEATURES = 2 * MANY_FEATURES


def fit_dense(estimator: Any, batch: Batch | Streamed) -> tuple[Principal, str]:
    """Components of the rows of a batch, and the name of the solver that found them.

    Rows that are read block by block are for "compressed" only.
    """
    n, p = batch.n_rows, batch.n_features
    solver = estimator.svd_solver
    if solver == "auto":
        solver = choose_solver(n, p, estimator.n_components)
    wanted = check_n_components(estimator.n_components, n, p, solver)
    found = _FITS[solver](estimator, batch, wanted)
    counts = kept_counts(found, (wanted,), (n,))
    return Principal(found, counts, (n,), estimator.whiten, batch), solver


def _from_covariance(estimator, batch, wanted):
    moments = atom_moments(batch, _all(batch), block_bytes=current_settings().block_bytes)
    _demand_finite(moments.gram, estimator, batch)
    if squares_vanish(moments):
        return _from_full_svd(estimator, batch, wanted)
    # With fewer rows than features all eigenvalues beyond the number of rows are zero.
    return from_moments(moments, n_leading((wanted,), min(batch.X.shape)), centred=True)


def _from_full_svd(estimator, batch, wanted):
    factors = atom_factors(batch, _all(batch), block_bytes=current_settings().block_bytes)
    stacked = factors.stack(np.ones(1))
    _demand_finite(stacked.rows, estimator, batch)
    return from_rows([stacked], (batch.n_rows,))


def _from_random_block(estimator, batch, wanted):
    block_bytes = current_settings().block_bytes
    sums = dense_sums(batch, block_bytes)
    _demand_finite(sums.total, estimator, batch)
    rows = DenseRows(batch, sums.mean, sums.mean, block_bytes)
    return randomized_components(estimator, rows, sums, wanted)


def randomized_components(estimator: Any, rows: Rows, sums: RowSums, wanted: Any) -> Components:
    """Components of one part by randomized iteration, about the mean of its rows."""
    xp = namespace(sums.total)
    singular, vectors, _ = randomized_svd(
        rows,
        int(wanted),
        estimator.n_oversamples,
        estimator.iterated_power,
        check_random_state(estimator.random_state),
    )
    total = xp.reshape(sums.total, (1,))
    return Components(vectors[None, ...], singular[None, :], total, sums.mean[None, :])


def _from_visits(estimator, batch, wanted):
    how = Iteration(
        estimator.n_oversamples,
        n_power_iter(estimator.iterated_power, int(wanted), batch.n_rows, batch.n_features),
        estimator.random_state,
    )
    return compressed_components(estimator, batch, int(wanted), how, centred=True).found


_FITS: dict[str, Callable[..., Components]] = {
    "covariance_eigh": _from_covariance,
    "full": _from_full_svd,
    "randomized": _from_random_block,
    "compressed": _from_visits,
}


def _all(batch):
    return (slice(0, batch.n_rows),)


def _demand_finite(sums, estimator, batch):
    if not all_finite(sums, namespace(sums)):
        refuse_what_is_not_finite(estimator, batch.X)


# ---------------------------------------------------------------- sparse rows on a GPU


@dataclass(frozen=True)
class SparseHome:
    """What results of sparse rows need to know of them."""

    X: Any
    home: Place


def fit_sparse(estimator: Any, X: Any) -> tuple[Principal, str]:
    """Components of a sparse matrix (CSR) whose data is an array that gpuml works on."""
    n, p = X.shape
    solver = estimator.svd_solver
    if solver == "auto":
        solver = "covariance_eigh" if p <= MANY_SPARSE_FEATURES else "randomized"
    if solver not in ("covariance_eigh", "randomized"):
        raise TypeError(
            "PCA supports sparse input on a GPU only with svd_solver='auto', 'covariance_eigh' or "
            f"'randomized', while {solver!r} was passed."
        )
    wanted = check_n_components(estimator.n_components, n, p, solver)
    doubles = X.astype(np.float64)
    sums = sparse_sums(doubles)
    if solver == "randomized":
        rows = SparseRows(doubles, sums.mean, sums.mean)
        found = randomized_components(estimator, rows, sums, wanted)
    else:
        products = sparse_products(doubles, sums.mean)
        found = from_products(
            products[None, ...], sums.mean[None, :], n_leading((wanted,), min(n, p))
        )
    counts = kept_counts(found, (wanted,), (n,))
    home = SparseHome(X, place_of(X.data))
    return Principal(found, counts, (n,), estimator.whiten, home), solver

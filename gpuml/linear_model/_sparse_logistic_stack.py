"""Logistic models of sparse rows, all candidates on all splits, as a search sees them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuml._arrays import Array, device_of, namespace
from gpuml.data import Folds, whole
from gpuml.linear_model._classifier import softmax, two_class_probability
from gpuml.linear_model._logistic_stack import (
    LogisticModels,
    Strength,
    _reported,
    class_counts,
    class_factors,
    penalties_of,
    row_weights,
    solve_grid,
)
from gpuml.linear_model._stack import at_home
from gpuml.losses import BINOMIAL, MULTINOMIAL
from gpuml.solvers._sparse_ops import spread_columns, times
from gpuml.solvers.lbfgs import Solved
from gpuml.solvers.logistic import Options
from gpuml.solvers.sparse_rows import (
    DenseBlocks,
    SparseLossRows,
    folds_without_rows,
    sparse_batch_of,
)


@dataclass(frozen=True)
class SparseLogisticStack(LogisticModels):
    """What `multifit` of LogisticRegression returns for sparse rows.

    Attributes
    ----------
    folds : Folds
        Of a `SparseBatch`.
    solved : Solved
        Models (C, S, k, u + 1) of the columns in use, on the compute device.
    strengths : sequence of C Strengths
    options : Options
        Of the solver, for the fit on all rows.
    class_weight : dict, "balanced" or None
    """

    def decision(self, X: Array, split: int, candidates: slice) -> Array:
        """Decision values (C, m), or (C, m, k), of some candidates for rows of numbers (m, 1)."""
        rows = sparse_batch_of(self.folds).rows(X)
        xp = namespace(rows.data)
        W = xp.astype(self.solved.W[candidates, split, ...], rows.data.dtype)
        n_candidates, k, q = W.shape
        A = xp.reshape(W, (n_candidates * k, q))
        values = times(rows, A[:, :-1].T) + A[:, -1]
        scores = xp.reshape(values.T, (n_candidates, k, rows.shape[0]))
        return scores[:, 0, :] if k == 1 else xp.matrix_transpose(scores)

    def probability(self, decision: Array) -> Array:
        """Probabilities (C, m, k) of decision values."""
        xp = namespace(decision)
        return two_class_probability(decision, xp) if decision.ndim == 2 else softmax(decision, xp)

    def pick(self, candidate: int, split: int | None) -> dict[str, Any]:
        """Fitted attributes of one model; split None means the model of all rows."""
        batch, solved = sparse_batch_of(self.folds), self.solved
        if split is None:
            # From the mean of the models of the splits it is not far.
            start = namespace(solved.W).mean(solved.W[candidate, ...], axis=0)[None, None, ...]
            solved = fit_sparse_logistic(
                whole(batch), [self.strengths[candidate]], self.options, self.class_weight, start
            )
            candidate = split = 0
        W = solved.W[candidate, split, ...]
        bare, xp = batch.without_rows(), batch.home.xp
        return {
            "classes_": batch.classes,
            "coef_": at_home(spread_columns(W[:, :-1], batch.columns, batch.n_columns), bare),
            "intercept_": at_home(W[:, -1], bare),
            "n_iter_": xp.asarray(
                np.asarray([_reported(solved, candidate, split, self.options)], dtype=np.int32),
                device=None if batch.home.kind == "numpy" else batch.home.device,
            ),
        }


def fit_sparse_logistic(
    folds: Folds,
    strengths: Sequence[Strength],
    options: Options,
    class_weight: Any,
    start: Array | None = None,
    advance: Callable[[int], None] | None = None,
) -> Solved:
    """Models of every candidate on the training part of every split, of the columns in use.

    Raises
    ------
    UnfittableSplits
        If the training part of a split lacks a class, or weighs nothing.
    """
    xp = folds.batch.work.xp
    bare = folds_without_rows(folds)
    counts = class_counts(bare, fewest=2)
    factors = class_factors(class_weight, bare)
    data = _loss_rows(folds, row_weights(bare, factors), options.block_bytes, advance)
    total = data.total_weights()
    penalties = penalties_of(strengths, total, data.n_features, class_weight)
    if start is None:
        shape = (len(strengths), folds.n_splits, data.n_vectors, data.n_features + 1)
        start = xp.zeros(shape, dtype=xp.float64, device=device_of(total))
    return solve_grid(data, penalties, start, options, strengths, int(counts.min()))


def _loss_rows(folds, weights, block_bytes, advance):
    batch = sparse_batch_of(folds)
    matrix = batch.all_rows()
    xp = batch.work.xp
    binary = batch.n_classes == 2
    return SparseLossRows(
        X=DenseBlocks(matrix),
        target=xp.astype(batch.codes, matrix.data.dtype if binary else xp.int64),
        weights=weights,
        loss=BINOMIAL if binary else MULTINOMIAL,
        n_vectors=1 if binary else batch.n_classes,
        place=batch.work,
        block_bytes=block_bytes,
        advance=advance,
    )

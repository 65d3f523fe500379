"""Logistic models of all candidates on all splits, as a search sees them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.utils.class_weight import compute_class_weight

from gpuml._arrays import Array, device_of, move, namespace, to_host
from gpuml._ops import constant
from gpuml.data import Folds, Frame, split_weights, whole
from gpuml.linear_model._classifier import softmax, two_class_probability
from gpuml.linear_model._stack import at_home
from gpuml.losses import BINOMIAL, MULTINOMIAL
from gpuml.solvers.affine import dual
from gpuml.solvers.described import frame_maps
from gpuml.solvers.lbfgs import Solved
from gpuml.solvers.logistic import Options, Penalties, solve
from gpuml.solvers.loss_rows import LossRows


@dataclass(frozen=True)
class Strength:
    """Penalties of one candidate, ``(l2 |W|^2 / 2 + l1 |W|_1) / sum of weights``."""

    l2: float
    l1: float
    fit_intercept: bool


@dataclass(frozen=True)
class LogisticStack:
    """What `multifit` of LogisticRegression returns.

    Attributes
    ----------
    folds : Folds
    solved : Solved
        Models (C, S, k, q) on the compute device.
    strengths : sequence of C Strengths
    options : Options
        Of the solver, for the fit on all rows.
    class_weight : dict, "balanced" or None
    """

    folds: Folds
    solved: Solved
    strengths: Sequence[Strength]
    options: Options
    class_weight: Any

    @property
    def n_candidates(self) -> int:
        return len(self.strengths)

    @property
    def n_passes(self) -> int:
        """Passes over the rows that the slowest model took."""
        return int(self.solved.n_iter.max()) + 1

    @cached_property
    def models_of_rows(self) -> Array:
        """The models (C, S, k, q) as functions of the rows, whatever frame they are in."""
        frame = _frame(self.folds)
        return self.solved.W if frame is None else self.solved.W @ frame

    def _start(self, candidate: int) -> Array | None:
        """Where the fit on all rows begins, (1, 1, k, q): at the mean of the models of the splits.

        It is a mean of models of the rows: in frames that differ, the same numbers are other
        models. None where it has no coordinates in the frame of all rows.
        """
        xp = namespace(self.solved.W)
        mean = xp.mean(self.models_of_rows[candidate, ...], axis=0)
        if self.folds.frame is None:
            return mean[None, None, ...]
        maps = self.folds.frame.of(None)
        if not maps.diagonal:
            return None
        coef = mean[:, :-1] / xp.linalg.diagonal(maps.matrix)[0, :]
        intercept = mean[:, -1:] - xp.sum(coef * maps.offset[0, :], axis=-1, keepdims=True)
        if not self.strengths[candidate].fit_intercept:
            intercept = xp.zeros_like(intercept)  # what is left is what frames differ by
        return xp.concat([coef, intercept], axis=-1)[None, None, ...]

    def decision(self, X: Array, split: int, candidates: slice) -> Array:
        """Decision values (C, m), or (C, m, k), of some candidates of one split for rows (m, p)."""
        xp = namespace(X)
        W = xp.astype(self.models_of_rows[candidates, split, ...], X.dtype)  # (C, k, q)
        n_candidates, k, q = W.shape
        W = xp.reshape(W, (n_candidates * k, q))
        scores = xp.reshape(W[:, :-1] @ X.T + W[:, -1:], (n_candidates, k, X.shape[0]))
        return scores[:, 0, :] if k == 1 else xp.matrix_transpose(scores)

    def probability(self, decision: Array) -> Array:
        """Probabilities (C, m, k) of decision values."""
        xp = namespace(decision)
        return two_class_probability(decision, xp) if decision.ndim == 2 else softmax(decision, xp)

    def pick(self, candidate: int, split: int | None) -> dict[str, Any]:
        """Fitted attributes of one model; split None means the model of all rows."""
        batch = self.folds.batch
        if split is None:
            everything = whole(batch)
            if self.folds.frame is not None:
                everything = replace(everything, frame=_OfAll(self.folds.frame))
            start = self._start(candidate)
            solved = fit_logistic(
                everything, [self.strengths[candidate]], self.options, self.class_weight, start
            )
            candidate = split = 0
        else:
            solved = self.solved
        W = solved.W[candidate, split, ...]
        xp = batch.home.xp
        return {
            "classes_": batch.classes,
            "coef_": at_home(W[:, :-1], batch),
            "intercept_": at_home(W[:, -1], batch),
            "n_iter_": xp.asarray(
                np.asarray([_reported(solved, candidate, split, self.options)], dtype=np.int32),
                device=None if batch.home.kind == "numpy" else batch.home.device,
            ),
        }


def _reported(solved, candidate, split, options):
    # A model that needed no step has been looked at once; scikit-learn counts that as one too.
    return min(max(1, int(solved.n_iter[candidate, split])), options.max_iter)


def fit_logistic(
    folds: Folds,
    strengths: Sequence[Strength],
    options: Options,
    class_weight: Any,
    start: Array | None = None,
    advance: Callable[[int], None] | None = None,
) -> Solved:
    """Models of every candidate on the training part of every split.

    Raises
    ------
    ValueError
        If the training part of a split lacks a class.
    """
    batch = folds.batch
    xp = batch.work.xp
    weights, counts = row_weights(folds, class_weight)
    n_classes = batch.n_classes
    binary = n_classes == 2
    dtype = getattr(xp, str(batch.X.dtype).rpartition(".")[2])
    data = LossRows(
        X=batch.X,
        target=xp.astype(batch.codes, dtype if binary else xp.int64),
        weights=weights,
        loss=BINOMIAL if binary else MULTINOMIAL,
        n_vectors=1 if binary else n_classes,
        place=batch.work,
        frame=_frame(folds),
        block_bytes=options.block_bytes,
        advance=advance,
    )
    total = data.total_weights()
    per_unit = 1.0 / total[None, :]
    l2, l1 = (
        constant([[getattr(s, name)] for s in strengths], like=total, xp=xp) * per_unit
        for name in ("l2", "l1")
    )
    intercept = constant([float(s.fit_intercept) for s in strengths], like=total, xp=xp)
    penalties = Penalties(l2, l1, intercept, folds.n_features)
    if start is None:
        shape = (len(strengths), folds.n_splits, data.n_vectors, folds.n_features + 1)
        start = xp.zeros(shape, dtype=xp.float64, device=device_of(total))
    has_l1 = any(s.l1 > 0 for s in strengths)
    return solve(data, penalties, start, options, has_l1=has_l1, rarest=int(counts.min()))


def _frame(folds: Folds) -> Array | None:
    """Matrices (S, p' + 1, p + 1) that make vectors of models in a frame vectors for the rows."""
    maps = frame_maps(folds)
    return None if maps is None else dual(maps)


@dataclass(frozen=True)
class _OfAll:
    """The frame of all rows, for folds that have them as their only part."""

    frame: Frame

    @property
    def n_features(self) -> int:
        return self.frame.of(None).matrix.shape[-1]

    def of(self, splits: slice | None) -> Any:
        return self.frame.of(None)


def row_weights(folds: Folds, class_weight: Any) -> tuple[Array | None, np.ndarray]:
    """Weights (S, n) of the rows in the training part of each split, and its rows per class (S, k).

    Weights are None where all are 1.
    """
    batch = folds.batch
    xp, k = batch.work.xp, batch.n_classes
    times = split_weights(folds)
    counts = _per_class(times, batch.codes, k, batch.n_rows, xp)
    host_counts = to_host(counts)
    if (host_counts == 0).any():
        split, missing = np.argwhere(host_counts == 0)[0]
        label = to_host(batch.classes)[missing]
        raise ValueError(
            f"The training part of split {split} has no row of class {label!r}. Use a stratified "
            "splitter, or fewer folds."
        )
    if batch.weight is None and class_weight is None:
        return times, host_counts
    dtype = getattr(xp, str(batch.X.dtype).rpartition(".")[2])
    weights = xp.ones((1, batch.n_rows), dtype=dtype, device=batch.work.device)
    if times is not None:
        weights = xp.astype(times, dtype)
    if batch.weight is not None:
        weights = weights * move(batch.weight, batch.work)
    if class_weight is not None:
        totals = _per_class(weights, batch.codes, k, batch.n_rows, xp)
        factors = _class_factors(class_weight, batch, totals, xp)
        for c in range(k):
            chosen = xp.where(batch.codes == c, xp.astype(factors[:, c : c + 1], dtype), 1)
            weights = weights * xp.astype(chosen, dtype, copy=False)
    return weights, host_counts


def _per_class(weights, codes, k, n_rows, xp):
    """Sums (S, k) of weights (S, n) over the rows of each class."""
    if weights is None:
        weights = xp.ones((1, n_rows), dtype=xp.uint8, device=device_of(codes))
    exact = xp.int64 if xp.isdtype(weights.dtype, "integral") else xp.float64
    zero = xp.zeros_like(weights[:1, :1])
    sums = [xp.sum(xp.where(codes == c, weights, zero), axis=-1, dtype=exact) for c in range(k)]
    return xp.stack(sums, axis=-1)


def _class_factors(class_weight, batch, totals, xp):
    """Weight (S, k) of each class in each split."""
    if isinstance(class_weight, str):
        k = totals.shape[-1]
        return xp.sum(totals, axis=-1, keepdims=True) / (k * totals)
    classes = to_host(batch.classes)
    factors = compute_class_weight(class_weight, classes=classes, y=classes)
    return constant(factors[None, :], like=totals, xp=xp) * xp.ones_like(totals)

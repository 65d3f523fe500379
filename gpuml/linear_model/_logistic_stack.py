"""Logistic models of all candidates on all splits, as a search sees them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from gpuml._arrays import Array, device_of, itemsize, move, namespace, to_host
from gpuml._ops import constant
from gpuml.data import Folds, Frame, split_weights, whole
from gpuml.linear_model._classifier import weights_of_classes
from gpuml.linear_model._responses import Logits
from gpuml.linear_model._stack import at_home
from gpuml.losses import BINOMIAL, MULTINOMIAL
from gpuml.resampling.stand_ins import no_weight, refuse
from gpuml.solvers._blocks import quiet
from gpuml.solvers.affine import dual
from gpuml.solvers.described import frame_maps
from gpuml.solvers.lbfgs import Solved
from gpuml.solvers.logistic import Options, Penalties, solve
from gpuml.solvers.loss_rows import AnyLossRows, DividedLossRows, LossRows
from gpuml.solvers.newton import check_squares

# Squares of larger values, summed over many rows, may overflow.
LARGEST_VALUE = 1e150


@dataclass(frozen=True)
class Strength:
    """Penalties of one candidate, ``(l2 |W|^2 / 2 + l1 |W|_1) / sum of weights``."""

    l2: float
    l1: float
    fit_intercept: bool


@dataclass(frozen=True)
class LogisticModels:
    """What stacks of dense and of sparse rows have in common; see `LogisticStack`."""

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


@dataclass(frozen=True)
class LogisticStack(LogisticModels):
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
        return self.responses.decision(X, split, candidates)

    def probability(self, decision: Array) -> Array:
        """Probabilities (C, m, k) of decision values."""
        return self.responses.probability(decision)

    @property
    def responses(self) -> Logits:
        """What the models say of rows, without any rows."""
        W = self.models_of_rows
        return Logits(W[..., :-1], W[..., -1])

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
    UnfittableSplits
        If the training part of a split lacks a class, or weighs nothing.
    """
    batch = folds.batch
    xp = batch.work.xp
    counts = class_counts(folds, fewest=2)
    factors = class_factors(class_weight, folds)
    data = _loss_rows(folds, factors, _frame(folds), options.block_bytes, advance)
    total = data.total_weights()
    penalties = penalties_of(strengths, total, folds.n_features, class_weight)
    if start is None:
        shape = (len(strengths), folds.n_splits, data.n_vectors, folds.n_features + 1)
        start = xp.zeros(shape, dtype=xp.float64, device=device_of(total))
    return solve_grid(data, penalties, start, options, strengths, int(counts.min()))


def solve_grid(
    data: AnyLossRows,
    penalties: Penalties,
    start: Array,
    options: Options,
    strengths: Sequence[Strength],
    rarest: int,
) -> Solved:
    """What `solve` gives for some candidates.

    Raises
    ------
    UnfittableSplits
        If squares of the values that splits train on overflow.
    """
    has_l1 = any(s.l1 > 0 for s in strengths)
    try:
        found = solve(data, penalties, start, options, has_l1=has_l1, rarest=rarest)
        with quiet():
            check_squares(found.violation**2, np)  # of models that took no step, too
        return found
    except OverflowError as error:
        largest = to_host(data.largest_values())
        unfit = np.flatnonzero(largest > LARGEST_VALUE).tolist()
        refuse(dict.fromkeys(unfit, str(error)), len(largest))
        raise ValueError(str(error)) from error


def _loss_rows(folds, factors, frame, block_bytes, advance):
    """The rows of folds as the solver reads them; `frame` is that of the models."""
    batch = folds.batch
    binary = batch.n_classes == 2
    loss, n_vectors = (BINOMIAL, 1) if binary else (MULTINOMIAL, batch.n_classes)
    xp = batch.work.xp
    dtype = getattr(xp, str(batch.X.dtype).rpartition(".")[2])
    if batch.holders is not None:
        return DividedLossRows(
            holders=batch.holders.map(_loss_rows_of_piece, factors, frame, block_bytes),
            n_rows=batch.n_rows,
            n_features=batch.n_features,
            n_splits=folds.n_splits,
            itemsize=itemsize(batch.X.dtype),
            dtype=dtype,
            loss=loss,
            n_vectors=n_vectors,
            place=batch.work,
            frame=frame,
        )
    return LossRows(
        X=batch.X,
        target=xp.astype(batch.codes, dtype if binary else xp.int64),
        weights=row_weights(folds, factors),
        loss=loss,
        n_vectors=n_vectors,
        place=batch.work,
        frame=frame,
        block_bytes=block_bytes,
        advance=advance,
        first=batch.first,
    )


def _loss_rows_of_piece(folds, factors, frame, block_bytes):
    factors, frame = (move(each, folds.batch.work) for each in (factors, frame))
    return _loss_rows(folds, factors, frame, block_bytes, None)


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


def class_counts(folds: Folds, fewest: int = 1) -> np.ndarray:
    """Rows of each class in the training part of each split, (S, k) on the host.

    Parameters
    ----------
    folds : Folds
    fewest : int, default=1
        Classes that a model needs by itself; together with others it needs all.

    Raises
    ------
    UnfittableSplits
        If the training part of a split lacks a class.
    """
    counts = to_host(_total(folds, _counts_of_classes))
    n_classes = (counts > 0).sum(axis=1)
    for least, together in ((min(fewest, counts.shape[1]), False), (counts.shape[1], True)):
        lacking = np.flatnonzero(n_classes < least).tolist()
        refuse({s: _lacks(counts[s], folds) for s in lacking}, len(counts), together=together)
    return counts


def _lacks(counts, folds):
    label = to_host(folds.batch.classes).tolist()[np.argmin(counts)]
    return f"it has no row of class {label!r}. Use a stratified splitter, or fewer folds."


def _total(folds, function):
    """A sum over all rows, divided or not."""
    holders = folds.batch.holders
    return function(folds) if holders is None else holders.total(function)


def _counts_of_classes(folds):
    return _per_class(split_weights(folds), folds.batch)


def _weights_of_classes(folds):
    return _per_class(row_weights(folds, None), folds.batch)


def row_weights(folds: Folds, factors: Array | None) -> Array | None:
    """Weights (S, n) of the rows in the training part of each split; None where all are 1.

    `factors` (S, k) are what rows of each class count times.
    """
    batch = folds.batch
    xp = batch.work.xp
    times = split_weights(folds)
    if batch.weight is None and factors is None:
        return times
    dtype = getattr(xp, str(batch.X.dtype).rpartition(".")[2])
    weights = xp.ones((1, batch.n_rows), dtype=dtype, device=batch.work.device)
    if times is not None:
        weights = xp.astype(times, dtype)
    if batch.weight is not None:
        weights = weights * move(batch.weight, batch.work)
    if factors is not None:
        for c in range(batch.n_classes):
            chosen = xp.where(batch.codes == c, xp.astype(factors[:, c : c + 1], dtype), 1)
            weights = weights * xp.astype(chosen, dtype, copy=False)
    return weights


def _per_class(weights, batch):
    """Sums (S, k) of weights (S, n) over the rows of each class."""
    xp, codes = batch.work.xp, batch.codes
    if weights is None:
        weights = xp.ones((1, batch.n_rows), dtype=xp.uint8, device=device_of(codes))
    exact = xp.int64 if xp.isdtype(weights.dtype, "integral") else xp.float64
    zero = xp.zeros_like(weights[:1, :1])
    sums = [
        xp.sum(xp.where(codes == c, weights, zero), axis=-1, dtype=exact)
        for c in range(batch.n_classes)
    ]
    return xp.stack(sums, axis=-1)


def class_factors(class_weight: Any, folds: Folds) -> Array | None:
    """Weight (S, k) of each class in each split, float64; None where classes have none.

    Raises
    ------
    ValueError
        If a weight is negative, nan or infinite.
    UnfittableSplits
        If balanced weights are wanted of a class that weighs nothing in a training part.
    """
    if class_weight is None:
        return None
    batch = folds.batch
    classes = to_host(batch.classes)
    labels = classes.tolist()
    if not isinstance(class_weight, str):
        factors = weights_of_classes(class_weight, classes)
        return move(np.tile(factors, (folds.n_splits, 1)), batch.work)
    xp = batch.work.xp
    totals = xp.astype(_total(folds, _weights_of_classes), xp.float64)
    weightless = {
        s: f"class_weight='balanced' has no weight for class {labels[c]!r}: those of its rows are "
        "all 0."
        for s, c in reversed(np.argwhere(to_host(totals) == 0).tolist())
    }
    refuse(weightless, folds.n_splits)
    return xp.sum(totals, axis=-1, keepdims=True) / (totals.shape[-1] * totals)


def penalties_of(
    strengths: Sequence[Strength], total: Array, n_features: int, class_weight: Any
) -> Penalties:
    """Penalties in units of the mean loss, for sums (S,) of the weights of training parts.

    Raises
    ------
    UnfittableSplits
        If rows weigh nothing, or so little that penalties overflow.
    """
    xp = namespace(total)
    intercept = constant([float(s.fit_intercept) for s in strengths], like=total, xp=xp)
    weighs = (total > 0) & xp.isfinite(total)
    with quiet():
        per_unit = 1.0 / xp.where(weighs, total, xp.ones_like(total))[None, :]
        l2, l1 = (
            constant([[getattr(s, name)] for s in strengths], like=total, xp=xp) * per_unit
            for name in ("l2", "l1")
        )
    fine = weighs & xp.all(xp.isfinite(l2 + l1), axis=0)
    unfit = np.flatnonzero(~to_host(fine)).tolist()
    refuse({s: _why_unfit(float(total[s]), class_weight) for s in unfit}, total.shape[0])
    return Penalties(l2, l1, intercept, n_features)


def _why_unfit(total, class_weight):
    if total == 0:
        return no_weight(class_weight)
    return (
        f"Sample weights sum to {total:.3g}, and the penalty 1/C over that sum is no number. "
        "Multiply them by a power of ten, or choose another C."
    )

"""Classes as targets of linear models: their counts, their weights, and models of them."""

from dataclasses import replace
from typing import Any

import numpy as np

from gpuml._arrays import Array, device_of, is_numpy, move, to_host
from gpuml.data import Folds, split_weights, whole, without_features
from gpuml.linear_model._classifier import weights_of_classes
from gpuml.linear_model._losses import Family, row_weights
from gpuml.linear_model._models import Models, at_home
from gpuml.losses import BINOMIAL, MULTINOMIAL, Loss
from gpuml.resampling.stand_ins import no_weight, refuse

# Indicators of classes of all rows, up to which one product has the sums of each class.
MOST_INDICATORS = 2**26
# Memory of targets and weights of binary models that are fitted side by side.
COLUMN_BYTES = 2**28
BYTES_OF_TARGET = 16


def class_family(class_weight: Any, folds: Folds) -> Family:
    """The loss and weights of the classes of some rows, for logistic models.

    Raises
    ------
    UnfittableSplits
        If the training part of a split lacks a class, or a balanced one weighs nothing.
    """
    counts = class_counts(folds, fewest=2)
    factors = class_factors(class_weight, folds)
    n_classes = folds.batch.n_classes
    return Family(*class_loss(n_classes), int(counts.min()), no_weight(class_weight), factors)


def class_loss(n_classes: int) -> tuple[Loss, int]:
    """The loss for so many classes, and the number of vectors per model."""
    return (BINOMIAL, 1) if n_classes <= 2 else (MULTINOMIAL, n_classes)


def columns_together(
    estimator: Any, X: Any, Y: np.ndarray, sample_weight: Any
) -> list[dict[str, Any]]:
    """Fitted attributes of a binary model of each column of codes Y (n, t), 0 and 1.

    To the solver they are candidates that have targets of their own: as many at once as memory
    allows.

    Raises
    ------
    UnfittableSplits
        With numbers of columns of one code.
    """
    n_rows, n_columns = Y.shape
    batch = estimator.multifit_batch(X, np.arange(n_rows) % 2, sample_weight)
    size = max(1, COLUMN_BYTES // (BYTES_OF_TARGET * n_rows))
    found = []
    for first in range(0, n_columns, size):
        some = np.ascontiguousarray(Y[:, first : first + size].T)
        codes = batch.work.xp.astype(move(some, batch.work), batch.codes.dtype, copy=False)
        own = replace(batch, codes=codes)
        models = estimator.multifit(whole(own), [{}] * len(some))
        found += [models.pick(c, 0) for c in range(len(some))]
    return found


def class_attributes(models: Models, candidate: int, split: int) -> dict[str, Any]:
    """Fitted attributes of a logistic model, in the library and on the device of the user's X."""
    batch = models.folds.batch
    home = batch.home
    n_iter = np.asarray([models.iterations_of(candidate, split)], dtype=np.int32)
    return {
        "intercept_": at_home(models.intercept[candidate, split, ...], batch),
        "n_iter_": home.xp.asarray(n_iter, device=None if home.kind == "numpy" else home.device),
    }


def class_counts(folds: Folds, fewest: int = 1) -> np.ndarray:
    """Rows of each class in the training part of each split, (S, k), NumPy.

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
    # The machine of each class asks; what is known may be of other codes of the same rows.
    of, counts = folds.known.get("class counts", (None, None))
    if of is not folds.batch:
        counts = to_host(folds.total(_counts_of_classes))
        folds.known["class counts"] = folds.batch, counts
    n_classes = (counts > 0).sum(axis=1)
    for least, together in ((min(fewest, counts.shape[1]), False), (counts.shape[1], True)):
        lacking = np.flatnonzero(n_classes < least).tolist()
        refuse({s: _lacks(counts[s], folds) for s in lacking}, len(counts), together=together)
    return counts


def _lacks(counts, folds):
    label = to_host(folds.batch.classes).tolist()[np.argmin(counts)]
    return f"it has no row of class {label!r}. Use a stratified splitter, or fewer folds."


@without_features
def _counts_of_classes(folds):
    return _per_class(split_weights(folds), folds.batch)


@without_features
def _weights_of_classes(folds):
    return _per_class(row_weights(folds, None), folds.batch)


def _per_class(weights, batch):
    """Sums (S, k) of weights (S, n) over the rows of each class."""
    xp, codes = batch.work.xp, batch.codes
    if weights is None:
        weights = xp.ones((1, batch.n_rows), dtype=xp.uint8, device=device_of(codes))
    exact = xp.int64 if xp.isdtype(weights.dtype, "integral") else xp.float64
    few = codes.ndim == 1 and batch.n_rows * batch.n_classes <= MOST_INDICATORS
    if few and not is_numpy(codes):
        every = xp.arange(batch.n_classes, dtype=codes.dtype, device=device_of(codes))
        own = xp.astype(codes[:, None] == every[None, :], xp.float64)
        return xp.astype(xp.astype(weights, xp.float64) @ own, exact, copy=False)
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
    totals = xp.astype(folds.total(_weights_of_classes), xp.float64)
    weightless = {
        s: f"class_weight='balanced' has no weight for class {labels[c]!r}: those of its rows are "
        "all 0."
        for s, c in reversed(np.argwhere(to_host(totals) == 0).tolist())
    }
    refuse(weightless, folds.n_splits)
    return xp.sum(totals, axis=-1, keepdims=True) / (totals.shape[-1] * totals)

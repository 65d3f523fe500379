"""Splits and scores for estimators that choose their penalty by cross-validation."""

from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from numbers import Real
from typing import Any

import numpy as np
from sklearn.model_selection import check_cv
from sklearn.utils import check_scalar

from gpuml._arrays import Array, as_array, is_array, move, namespace, place_of, to_host
from gpuml._inputs.host_rows import naming_columns
from gpuml._inputs.validation import is_foreign
from gpuml.data import Batch, Folds, count_rows, cut, take
from gpuml.metrics.scorer import BatchScorer, batch_scorer
from gpuml.resampling.split import make_folds, split_rows

# Workspace of a block of predictions.
PREDICT_BYTES = 2**27


def folds_of(cv: Any, batch: Batch, X: Any, y: Any) -> Folds:
    """The splits that a `cv` parameter asks for."""
    return checked_folds(make_folds(batch, split_rows(check_cv(cv), X, y, batch.n_rows)))


def checked_folds(folds: Folds) -> Folds:
    """The same folds, if there are any and each has rows to train on and rows to score.

    Raises
    ------
    ValueError
    """
    if folds.n_splits == 0:
        raise ValueError("No fits were performed, since the splitter of cv gave no splits.")
    for index, split in enumerate(folds.splits):
        for part, size in (("training", split.n_train), ("held-out", split.n_test)):
            if size == 0:
                raise ValueError(
                    f"Found array with 0 sample(s), the {part} part of split {index} of cv, while "
                    "a minimum of 1 is required."
                )
    return folds


def numbers_in(
    values: Any,
    name: str,
    *,
    bounds: str = "left",
    largest: float | None = None,
    name_of_one: str | None = None,
) -> np.ndarray:
    """The numbers (n,), float64 on the host, of a parameter that is a number or holds several.

    Looked at one by one, since NumPy takes a list with one string for strings.

    Parameters
    ----------
    values : number or iterable
    name : str
        Of the parameter, for messages.
    bounds : {"left", "neither"}, default="left"
        Whether 0, below which none may be, is allowed.
    largest : float, optional
        None may be above.
    name_of_one : str, optional
        The name where there is one number; its index is told if not given.

    Raises
    ------
    TypeError
        If there is something else than numbers.
    ValueError
        If there is nothing, nan, or a number out of bounds.
    """
    if is_array(values):
        values = np.atleast_1d(to_host(values))
    several = isinstance(values, Iterable) and not isinstance(values, Set | Mapping)
    items = list(values) if several else [values]
    if not items:
        raise ValueError(f"{name} must hold at least one number, got {values!r}.")
    for index, item in enumerate(items):
        label = name_of_one if name_of_one and len(items) == 1 else f"{name}[{index}]"
        item = item.item() if isinstance(item, np.generic) else item
        check_scalar(item, label, target_type=Real, min_val=0.0, include_boundaries=bounds)
        if np.isnan(item) or (largest is not None and item > largest):
            top = "" if largest is None else f" and <= {largest:g}"
            raise ValueError(f"{label} == {item}, must be >= 0{top}.")
    return np.asarray(items, dtype=np.float64)


def regression_scorer(scorer: Any) -> BatchScorer | None:
    """The batched form of a scorer of regressors, or None where it has none."""
    batched = batch_scorer(scorer)
    return batched if isinstance(batched, BatchScorer) else None


def held_out_scores(stack: Any, folds: Folds, scorer: Any) -> np.ndarray:
    """Scores (C, S), host, of all models on their held-out rows, weighted as the fits are.

    From sums of residuals where those will do and have their digits, else from predictions.
    """
    batched = regression_scorer(scorer)
    if batched is None:
        raise TypeError(f"{scorer!r} has no batched form.")
    scores = np.full((stack.n_candidates, folds.n_splits), np.nan)
    sums = stack.residual_moments("test") if batched.uses_moments else None
    if sums is not None:
        moments, reliable = sums
        found = batched.from_moments(moments)
        xp = namespace(found)
        scores = np.array(to_host(xp.where(reliable, found, xp.full_like(found, np.nan))))
    for split in np.flatnonzero(np.isnan(scores).any(axis=0)):
        lost = np.isnan(scores[:, split])
        scores[lost, split] = _from_predictions(stack, folds, int(split), batched)[lost]
    return scores


def _from_predictions(stack, folds, split, scorer):
    batch, rows = folds.batch, folds.splits[split].test
    xp = namespace(batch.X)
    y, weight = (
        None if a is None else move(take(a, rows, xp), batch.work) for a in (batch.y, batch.weight)
    )
    step = max(1, PREDICT_BYTES // (8 * count_rows(rows) * batch.y.shape[1]))
    parts = []
    for first in range(0, stack.n_candidates, step):
        candidates = slice(first, min(first + step, stack.n_candidates))
        predicted = _predict(stack, batch, rows, split, candidates)
        parts.append(to_host(scorer.from_predictions(y, predicted, weight)))
    return np.concatenate(parts)


def _predict(stack, batch: Batch, rows, split: int, candidates: slice) -> Array:
    xp = namespace(batch.X)
    size = max(1, PREDICT_BYTES // (8 * batch.n_features))
    blocks = [
        stack.predict(move(take(batch.X, piece, xp), batch.work), split, candidates)
        for piece in cut(rows, size)
    ]
    return blocks[0] if len(blocks) == 1 else batch.work.xp.concat(blocks, axis=1)


@contextmanager
def host_targets(
    estimator: Any, reason: str, X: Any, y: Any, sample_weight: Any
) -> Iterator[tuple[Any, Any]]:
    """`y` and `sample_weight` on the host, where X must be already, for a fit by scikit-learn."""
    if is_foreign(X):
        raise ValueError(
            f"{type(estimator).__name__} with {reason} runs scikit-learn's solver, which needs "
            f"host data, and got X in {place_of(X)}. Pass NumPy arrays (cupy.asnumpy(X), "
            "X.cpu().numpy()), or other parameters."
        )
    y, sample_weight = as_array(y), as_array(sample_weight)
    with naming_columns(estimator, X):
        y, sample_weight = (to_host(a) if is_foreign(a) else a for a in (y, sample_weight))
        yield y, sample_weight

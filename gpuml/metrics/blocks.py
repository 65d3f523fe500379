"""Scores from records of blocks of rows: sums where these are enough, else what models say of rows.

R2, D2 and accuracy are sums. For each block of a regression, that is how many rows it has, their
weight, and per output the weighted mean of the targets, their sum of squares about it and that of
the residuals. Two such records make one (Chan, Golub and LeVeque 1983), so that nothing cancels
where targets are large. Deviances take the place of squares for generalised linear models: they
add up the same way, being Bregman divergences. Scores of densities and of centres, which take no
targets, are sums over rows. Others are metrics of `scoring`. Means over rows are sums too. Metrics
of labels are of pairs of a true and a predicted label, each with its weight. All others are of the
targets and what the model says of each row, which come to one place; the rows themselves do not.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce, wraps
from inspect import signature
from typing import Any, NamedTuple

import array_api_compat
import numpy as np
from sklearn.base import is_classifier, is_clusterer, is_outlier_detector, is_regressor
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import accuracy_score
from sklearn.utils import check_array
from sklearn.utils.multiclass import type_of_target

from gpuml._arrays.ops import all_finite
from gpuml._sklearn import _check_response_method, _PassthroughScorer, _Scorer
from gpuml.metrics._batch_scorers import BatchScorer, ClassBatchScorer
from gpuml.metrics._classes import CLASS_METRICS, LABELS
from gpuml.metrics.regression import mean_tweedie_deviance
from gpuml.metrics.scorer import batch_scorer

OURS_AND_CUML = ("gpuml", "gpuml_dask", "cuml")


class MisalignedError(ValueError):
    """Blocks of rows, of targets or of weights do not belong together one by one."""


class Sums(NamedTuple):
    """Sums over some rows, the last three with one entry per output."""

    rows: int
    weight: float
    mean: Any
    squares: Any
    residuals: Any  # of a classification: the weight of the rows with the right label


class Answers(NamedTuple):
    """What a model says of some rows, their targets, and their weights (None: all of them 1)."""

    said: Any
    y: Any
    weight: Any


@dataclass(frozen=True)
class BlockScore:
    """What ``model.score`` gives for all rows at once, from records of blocks of them.

    Attributes
    ----------
    sums : callable
        ``sums(said, y, weight=None)`` is the record of a block.
    together : callable
        The record of several blocks, from a sequence of theirs, in their order.
    finish : callable
        The score, from the record of all rows.
    method : str, default="predict"
        The method of the model that says of a block what `sums` takes.
    takes_y, takes_weight : bool, default=True
        Whether the score is of targets, and whether rows may have weights.
    """

    sums: Callable[..., Any]
    together: Callable[[Sequence[Any]], Any]
    finish: Callable[[Any], float]
    method: str = "predict"
    takes_y: bool = True
    takes_weight: bool = True

    def check(self, y: Any, weight: Any) -> None:
        """Refuse what ``model.score`` refuses, before anything is read."""
        if self.takes_y and y is None:
            raise ValueError("score requires y to be passed, but the target y is None.")
        if weight is not None and not self.takes_weight:
            raise TypeError(
                "This score takes no sample_weight, as all rows count alike: leave it out."
            )


def block_score(model: Any) -> BlockScore:
    """The score of a fitted model, a pipeline or a search.

    Raises
    ------
    ValueError
        If it needs the rows: it is none of R2, D2, accuracy, a density's and that of centres, nor a
        metric of `scoring` that takes targets and predictions.
    """
    found = _known_score(_scored_by(model))
    if found is None:
        raise ValueError(
            f"The score of {type(_scored_by(model)).__name__} cannot be computed block by block. "
            "R2, accuracy, D2 of gpuml's models, and a metric of targets and predictions as "
            "scoring= can. Compute other scores from predict(model, X), or call model.score with "
            "rows in memory."
        )
    return found


def scores_blocks(model: Any) -> bool:
    """Whether `block_score` knows the score of a fitted model."""
    return _known_score(_scored_by(model)) is not None


def _scored_by(model):
    while _metric_of(model) is None and _inner(model) is not None:
        model = _inner(model)
    return model


def _metric_of(model):
    """The scorer of `scoring` where ``model.score`` uses it; else None, for R2 and the like."""
    searched = hasattr(model, "best_estimator_") and getattr(model, "scoring", None) is not None
    scorer = model.scorer_ if searched else None
    if isinstance(scorer, dict):
        return scorer.get(model.refit, scorer)
    # Others, such as RidgeCV, have `scoring` for their own choices, and another `score`.
    if hasattr(model, "_get_scorer") and batch_scorer(_PassthroughScorer(model)) is None:
        scorer = model._get_scorer()
    return None if isinstance(scorer, _PassthroughScorer) else scorer


def _known_score(scored):
    scorer = _metric_of(scored)
    if scorer is not None:
        return _by_scorer(scorer, getattr(scored, "best_estimator_", scored))
    own = batch_scorer(_PassthroughScorer(scored))
    ours = type(scored).__module__.split(".")[0] in OURS_AND_CUML
    if (of_rows := _of_rows(scored)) is not None:
        return of_rows
    if not (ours or isinstance(own, BatchScorer | ClassBatchScorer)):
        return None
    if is_classifier(scored):
        return _of_moments(_hits_of_block, _squares, _accuracy)
    if getattr(scored, "multifit_score", None) == "d2_tweedie":
        divergence = partial(_deviances, power=float(scored.power))
        sums = partial(_sums_of_block, divergence=divergence)
        return _of_moments(sums, divergence, _explained)
    if is_regressor(scored):
        return _of_moments(partial(_sums_of_block, divergence=_squares), _squares, _r2)
    return None


def _of_rows(scored):
    """The score of a density or of centres; None for others, and for a subclass with its own."""
    if is_classifier(scored) or is_regressor(scored) or is_outlier_detector(scored):
        return None
    nearest = is_clusterer(scored) and hasattr(scored, "cluster_centers_")
    method, kind = "transform" if nearest else "score_samples", type(scored)
    parts = [getattr(kind, name, None) for name in ("score", method)]
    known = (*OURS_AND_CUML, "sklearn")
    if not all(getattr(part, "__module__", "").split(".")[0] in known for part in parts):
        return None
    summed = nearest or any(base.__name__ == "KernelDensity" for base in kind.__mro__)
    return BlockScore(
        partial(_value_of_block, nearest=nearest),
        partial(np.sum, axis=0),
        _sum if summed else _mean_of_rows,
        method,
        takes_y=False,
        takes_weight="sample_weight" in signature(kind.score).parameters,
    )


def _of_moments(sums, divergence, finish):
    return BlockScore(sums, partial(reduce, partial(_both, divergence=divergence)), finish)


def _by_scorer(scorer, model):
    """The score of a model by the metric of a scorer; None where that reads the rows."""
    # Another subclass may do something else with the rows.
    ours = type(scorer).__module__ in (_Scorer.__module__, batch_scorer.__module__)
    if not (isinstance(scorer, _Scorer) and ours):
        return None
    method = _check_response_method(model, scorer._response_method).__name__
    if method != "predict" and isinstance(getattr(model, "classes_", None), list):
        return None  # a list of arrays, one for each output
    batched = batch_scorer(scorer)
    if isinstance(batched, BatchScorer):
        if batched.metric == "r2_score" and not batched.options:
            return _of_moments(partial(_sums_of_block, divergence=_squares), _squares, _r2)
        if batched.is_mean:
            return BlockScore(partial(_mean_of_block, scorer), partial(np.sum, axis=0), _mean)
    is_table = (
        isinstance(batched, ClassBatchScorer)
        and batched.response == LABELS
        and CLASS_METRICS[batched.metric].takes_weight
    )
    finish = partial(_scored, scorer, model, method)
    sums, together = (partial(each, is_table=is_table) for each in (_answers, _joined))
    return BlockScore(sums, together, finish, method)


def _inner(model):
    """The model that scores for a search or a pipeline; None for any other."""
    if hasattr(model, "best_estimator_"):
        return model.best_estimator_
    return model.steps[-1][1] if hasattr(model, "steps") else None


# ---------------------------------------------------------------- sums of a block


def _of_library(x, like):
    """`x`, a block of an array or a DataFrame, in the library of `like`."""
    if hasattr(x, "to_cupy") or hasattr(x, "to_numpy"):
        x = x.to_cupy() if hasattr(x, "to_cupy") else x.to_numpy()
    if array_api_compat.is_numpy_array(like):
        return x.get() if hasattr(x, "get") else np.asarray(x)
    return array_api_compat.array_namespace(like).asarray(x)


def _numbers(x, name):
    """An array of finite numbers; ValueError as scikit-learn's for anything else."""
    if array_api_compat.is_numpy_array(x):
        return check_array(x, ensure_2d=False, allow_nd=True, ensure_min_samples=0, input_name=name)
    xp = array_api_compat.array_namespace(x)
    if xp.isdtype(x.dtype, "real floating") and not all_finite(x, xp):
        raise ValueError(f"Input {name} contains NaN or infinity.")
    return x


def _weights(x):
    x = _numbers(x, "sample_weight")
    if x.ndim != 1:
        raise ValueError(f"Sample weights must be 1D array, got {x.ndim}D array.")
    return x


def _prepared(predicted, y, weight):
    """Predictions, targets and weights of a block, of one library and one shape."""
    predicted, y, weight = _aligned(predicted, y, weight)
    if y.shape != predicted.shape:
        raise ValueError(f"y has {y.shape[1:]} outputs, the model predicts {predicted.shape[1:]}.")
    return predicted, y, weight


def _aligned(said, y, weight):
    """What a model says of a block, targets and weights, of one library and one length."""
    y = _of_library(y, said)
    if y.ndim == 0:
        raise ValueError("y must have one value for each row, got a single value.")
    if y.ndim == 2 and said.ndim == 1 and y.shape[1] == 1:
        y = y[:, 0]
    weight = None if weight is None else _weights(_of_library(weight, said))
    lengths = [x.shape[0] for x in (said, y, weight) if x is not None]
    if len(set(lengths)) > 1:
        raise MisalignedError(
            f"Blocks that belong together have different numbers of rows: {lengths} of X, y and "
            "sample_weight."
        )
    return said, y, weight


def _hits_of_block(predicted, y, weight=None):
    predicted, y, weight = _prepared(predicted, y, weight)
    if array_api_compat.is_numpy_array(y) and y.shape[0]:
        accuracy_score(y, predicted)  # refuses values that are no labels, or of another kind
    elif y.shape[0]:
        y = _numbers(y, "y_true")
    hits = predicted == y
    hits = hits if hits.ndim == 1 else hits.all(axis=1)
    total = float(y.shape[0] if weight is None else weight.astype(np.float64).sum())
    right = float((hits if weight is None else weight.astype(np.float64) * hits).sum())
    # Kept as a sum, not as a mean: whole numbers add up without rounding.
    nothing = np.zeros(1)
    return Sums(y.shape[0], total, nothing, nothing, right)


def _sums_of_block(predicted, y, weight=None, *, divergence):
    predicted, y, weight = _prepared(predicted, y, weight)
    y = _numbers(y, "y_true")
    y, predicted = ((x if x.ndim == 2 else x[:, None]).astype(np.float64) for x in (y, predicted))
    xp = array_api_compat.array_namespace(y)
    weight = xp.ones(y.shape[0]) if weight is None else weight.astype(np.float64)
    zero, total = np.zeros(y.shape[1]), float(weight.sum())
    if total == 0:
        return Sums(y.shape[0], 0.0, zero, zero, zero)
    mean = (weight[:, None] * y).sum(axis=0) / total
    found = mean, divergence(y, mean + 0.0 * y, weight), divergence(y, predicted, weight)
    return Sums(y.shape[0], total, *(_of_library(x, zero) for x in found))


def _squares(y, other, weight):
    """Weighted sums of squared differences, for each output."""
    return (weight[:, None] * (y - other) ** 2).sum(axis=0)


def _deviances(y, other, weight, *, power):
    """Weighted sum of deviances of one output; of zeros from zeros it is 0."""
    if not (bool(y.any()) or bool(other.any())):
        return y[0] * 0.0
    mean = mean_tweedie_deviance(y[:, 0], other[:, 0], sample_weight=weight, power=power)
    return weight.sum() * mean + y[0] * 0.0


def _both(a, b, divergence):
    """The sums of two records: their means differ from the mean of all, which adds to `squares`."""
    if not (a.weight and b.weight):
        return (a if a.weight else b)._replace(rows=a.rows + b.rows)
    weight = a.weight + b.weight
    mean = a.mean + (b.mean - a.mean) * (b.weight / weight)
    means, weights = np.stack([a.mean, b.mean]), np.asarray([a.weight, b.weight])
    between = divergence(means, np.stack([mean, mean]), weights)
    squares = a.squares + b.squares + between
    return Sums(a.rows + b.rows, weight, mean, squares, a.residuals + b.residuals)


# ---------------------------------------------------------------- answers of a block


def _answers(said, y, weight=None, *, is_table):
    like = np.zeros(0)
    record = Answers(*_aligned(_of_library(said, like), y, weight))
    return _counted(record) if is_table else record


def _counted(record):
    """Each pair of a true and a predicted label once, with the weight of its rows.

    What is no label is left as it is, and the metric says what is wrong.
    """
    said, y, weight = record
    weight = np.ones(len(y)) if weight is None else weight.astype(np.float64)
    names = {"y_true": y, "y_pred": said}
    kinds = {type_of_target(x, input_name=name) for name, x in names.items() if len(y)}
    if not kinds or not kinds <= {"binary", "multiclass"}:
        return Answers(said, y, weight)
    (truths, i), (labels, j) = (np.unique(x, return_inverse=True) for x in (y, said))
    pairs, own = np.unique(i * len(labels) + j, return_inverse=True)
    rows, columns = np.divmod(pairs, len(labels))
    return Answers(labels[columns], truths[rows], np.bincount(own, weight, len(pairs)))


def _joined(records, *, is_table):
    # Blocks without rows may be of another dtype.
    some = [record for record in records if len(record.y)] or records[:1]
    joined = Answers(
        *(None if each[0] is None else np.concatenate(each) for each in zip(*some, strict=True))
    )
    return _counted(joined) if is_table else joined


def _mean_of_block(scorer, said, y, weight=None):
    """Score x weight of a block, and the weight."""
    said, y, weight = _prepared(said, y, weight)
    total = float(y.shape[0] if weight is None else weight.astype(np.float64).sum())
    if not total:
        return np.zeros(2)
    options = {} if weight is None else {"sample_weight": weight}
    score = scorer._sign * scorer._score_func(y, said, **options, **scorer._kwargs)
    return np.asarray([float(score) * total, total])


def _value_of_block(said, y, weight=None, *, nearest):
    """The sum over rows, and how many there are; of distances to centres, minus their squares."""
    each = -(said.min(axis=1).astype(np.float64) ** 2) if nearest else said
    each = _of_library(each, np.zeros(0)).astype(np.float64)
    if weight is not None:
        each, _, weight = _aligned(each, each, weight)
        each = each * weight
    return np.asarray([each.sum(), each.shape[0]])


class _Said:
    """A fitted model that says of all rows what is known."""

    def __init__(self, model: Any, method: str, said: Any):
        self._model, self._method, self._said = model, method, said

    def __getattr__(self, name):
        if name.startswith("__") and name != "__sklearn_tags__":
            raise AttributeError(name)
        value = getattr(self._model, name)
        return wraps(value)(lambda X: self._said) if name == self._method else value


def _scored(scorer, model, method, record):
    said, y, weight = record
    options = {} if weight is None else {"sample_weight": weight}
    return scorer(_Said(model, method, said), said, y, **options)


def _mean(total):
    value, weight = total
    if not weight:
        raise ValueError("Sample weights must contain at least one non-zero number.")
    return float(value / weight)


# ---------------------------------------------------------------- scores


def _sum(total):
    value, n_rows = total
    if not n_rows:
        raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")
    return float(value)


def _mean_of_rows(total):
    return _sum(total) / float(total[1])


def _check_weight_of_all(total):
    if total.rows and not total.weight:
        raise ValueError("Sample weights must contain at least one non-zero number.")


def _accuracy(total):
    _check_weight_of_all(total)
    return total.residuals / total.weight if total.weight else float("nan")


def _r2(total):
    """R2, averaged over outputs; scikit-learn's values where the targets do not vary."""
    if total.rows < 2:
        warnings.warn(
            "R^2 score is not well-defined with less than two samples.",
            UndefinedMetricWarning,
            stacklevel=4,
        )
        return float("nan")
    _check_weight_of_all(total)
    varies = total.squares > 0
    ratio = total.residuals / np.where(varies, total.squares, 1.0)
    constant = np.where(total.residuals > 0, 0.0, 1.0)
    return float(np.mean(np.where(varies, 1.0 - ratio, constant)))


def _explained(total):
    """The share of the deviance that is explained; -inf or nan where the targets do not vary."""
    _check_weight_of_all(total)
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(1.0 - np.divide(total.residuals[0], total.squares[0]))

"""R2, D2 and accuracy from sums over blocks of rows.

For each block of a regression, that is how many rows it has, their weight, and per output the
weighted mean of the targets, their sum of squares about it and that of the residuals. Two such
records make one (Chan, Golub and LeVeque 1983), so that nothing cancels where targets are large.
Deviances take the place of squares for generalised linear models: they add up the same way, being
Bregman divergences.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import array_api_compat
import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin, is_classifier, is_regressor
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import accuracy_score
from sklearn.utils import check_array

from gpuml.metrics.regression import mean_tweedie_deviance

OURS_AND_CUML = ("gpuml", "gpuml_dask", "cuml")


class Sums(NamedTuple):
    """Sums over some rows, the last three with one entry per output."""

    rows: int
    weight: float
    mean: Any
    squares: Any
    residuals: Any  # of a classification: the weight of the rows with the right label


@dataclass(frozen=True)
class BlockScore:
    """What ``model.score`` gives for all rows at once, from sums over blocks of them.

    Attributes
    ----------
    sums : callable
        ``sums(predicted, y, weight=None)`` of a block.
    divergence : callable
        What the targets vary by.
    finish : callable
        The score, from the sums of all rows.
    """

    sums: Callable[..., Sums]
    divergence: Callable[..., Any]
    finish: Callable[[Sums], float]

    def together(self, records: Sequence[Sums]) -> Sums:
        """The sums of several blocks, in their order."""
        total = records[0]
        for record in records[1:]:
            total = _both(total, record, self.divergence)
        return total


def block_score(model: Any) -> BlockScore:
    """The score of a fitted model, a pipeline or a search.

    Raises
    ------
    ValueError
        If it is none of R2, D2 and accuracy.
    """
    scored = model
    while getattr(scored, "scoring", None) is None and _inner(scored) is not None:
        scored = _inner(scored)
    usual = getattr(type(scored), "score", None) in (ClassifierMixin.score, RegressorMixin.score)
    known = usual or type(scored).__module__.split(".")[0] in OURS_AND_CUML
    if known and getattr(scored, "scoring", None) is None:
        if is_classifier(scored):
            return BlockScore(_hits_of_block, _squares, _accuracy)
        if getattr(scored, "multifit_score", None) == "d2_tweedie":
            divergence = partial(_deviances, power=float(scored.power))
            sums = partial(_sums_of_block, divergence=divergence)
            return BlockScore(sums, divergence, _explained)
        if is_regressor(scored):
            return BlockScore(partial(_sums_of_block, divergence=_squares), _squares, _r2)
    raise ValueError(
        f"The score of {type(scored).__name__} is neither plain R2 nor accuracy, nor D2 of a model "
        "of gpuml, the only ones that are made of sums over blocks here. Compute another from "
        "predict(model, X), or score local rows with model.score."
    )


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
    if xp.isdtype(x.dtype, "real floating") and not bool(xp.all(xp.isfinite(x))):
        raise ValueError(f"Input {name} contains NaN or infinity.")
    return x


def _weights(x):
    x = _numbers(x, "sample_weight")
    if x.ndim != 1:
        raise ValueError(f"Sample weights must be 1D array, got {x.ndim}D array.")
    return x


def _prepared(predicted, y, weight):
    """Predictions, targets and weights of a block, of one library and one length."""
    y = _of_library(y, predicted)
    if y.ndim == 0:
        raise ValueError("y must have one value for each row, got a single value.")
    if y.ndim == 2 and predicted.ndim == 1 and y.shape[1] == 1:
        y = y[:, 0]
    weight = None if weight is None else _weights(_of_library(weight, predicted))
    lengths = [x.shape[0] for x in (predicted, y, weight) if x is not None]
    if len(set(lengths)) > 1:
        raise ValueError(
            f"Blocks that belong together have different numbers of rows: {lengths} of X, y and "
            "sample_weight."
        )
    if y.shape != predicted.shape:
        raise ValueError(f"y has {y.shape[1:]} outputs, the model predicts {predicted.shape[1:]}.")
    return predicted, y, weight


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
    y, predicted = (x.reshape(x.shape[0], -1).astype(np.float64) for x in (y, predicted))
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


# ---------------------------------------------------------------- scores


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
    """The share of the deviance that is explained."""
    _check_weight_of_all(total)
    if not total.squares[0]:
        raise ZeroDivisionError("D^2 is not defined where y_true is constant.")
    return float(1.0 - total.residuals[0] / total.squares[0])

"""One classification metric of one model, from whatever the user has.

Predictions in CPU memory are scikit-learn's to judge. Those of another library or device are
reduced where they are: predicted labels to the weights of the pairs (true, predicted), which
scikit-learn's function then takes for rows; scores to one number by the kernels. Several labels
per row, labels that no array on a device holds, and what the kernels refuse go to CPU memory.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import sklearn.metrics as sk

from gpuml._arrays import (
    Array,
    Place,
    as_array,
    is_array,
    itemsize,
    move,
    namespace,
    place_of,
    to_host,
)
from gpuml._arrays.ops import all_finite, all_true
from gpuml._sklearn import validate_parameter_constraints
from gpuml.metrics._classes import evaluate_classes
from gpuml.metrics._confusion import confusion_matrices
from gpuml.metrics._host import is_unreadable, on_host
from gpuml.metrics._problem import Problem, host_labels

# Labels in so small a range are used as codes; others are sorted.
DENSE_LABELS = 1024
# More classes than this are counted by scikit-learn: pairs of them would not fit.
MOST_LABELS = 4096


def score_labels(
    name: str, y_true: Any, y_pred: Any, sample_weight: Any = None, **options: Any
) -> Any:
    """A metric of predicted labels by the name of scikit-learn's function."""
    function = getattr(sk, name)
    pairs = _pairs(y_true, y_pred, sample_weight)
    if pairs is None:
        return _by_scikit_learn(name, y_true, y_pred, sample_weight, options)
    options = {key: on_host(value) for key, value in options.items()}
    result = function(pairs.true, pairs.pred, sample_weight=pairs.weight, **options)
    if isinstance(result, np.ndarray):
        place = place_of(as_array(y_pred))
        return place.xp.asarray(result, device=place.device)
    return result


def n_equal(y_true: Any, y_pred: Any) -> tuple[int, int] | None:
    """Rows whose labels are equal, and all rows; None for what are no whole numbers on a device.

    The pairs of labels, and what scikit-learn makes of them, take as long as many a prediction.
    """
    labels = _labels(y_true, y_pred)
    if labels is None:
        return None
    xp = namespace(*labels)
    if any(x.dtype == xp.uint64 or not xp.isdtype(x.dtype, ("bool", "integral")) for x in labels):
        return None
    true, pred = (xp.astype(x, xp.int64, copy=False) for x in labels)
    return int(xp.sum(xp.astype(true == pred, xp.int64))), true.shape[0]


def score_scores(
    name: str, y_true: Any, y_score: Any = None, sample_weight: Any = None, **options: Any
) -> float:
    """A metric of probabilities or decision values by the name of scikit-learn's function."""
    if "y_pred" in options:  # the former name of probabilities
        return _by_scikit_learn(name, y_true, y_score, sample_weight, options)
    check_options(name, {**options, "sample_weight": sample_weight})
    problem = _problem(y_true, y_score, sample_weight, options.get("labels"))
    if problem is not None:
        try:
            score = float(evaluate_classes(name, problem, options)[0])
        except ValueError:
            score = math.nan  # scikit-learn has the best words for what is wrong
        if math.isfinite(score):
            return score
    return _by_scikit_learn(name, y_true, y_score, sample_weight, options)


def check_options(name: str, options: Mapping[str, Any]) -> None:
    """Raise scikit-learn's InvalidParameterError for an option of the wrong type or range."""
    constraints = getattr(getattr(sk, name, None), "_skl_parameter_constraints", {})
    known = {key: value for key, value in options.items() if key in constraints}
    validate_parameter_constraints(constraints, known, caller_name=name)


def _by_scikit_learn(name, y_true, y_pred, sample_weight, options):
    options = {key: on_host(value) for key, value in options.items()}
    if sample_weight is not None:
        options["sample_weight"] = on_host(sample_weight)
    return getattr(sk, name)(on_host(y_true), on_host(y_pred), **options)


# ---------------------------------------------------------------- predicted labels


class _Pairs(NamedTuple):
    """Pairs of labels that occur, in CPU memory, and what the rows of each weigh together."""

    true: np.ndarray
    pred: np.ndarray
    weight: np.ndarray


def _labels(y_true, y_pred):
    """True and predicted labels where the latter are; None if scikit-learn is to read them."""
    if not is_unreadable(y_pred):
        return None
    y_true, y_pred = _vector(y_true), _vector(y_pred)
    if y_true is None or y_pred is None or y_true.shape != y_pred.shape:
        return None
    return [move(y_true, place_of(y_pred)), y_pred]


def _pairs(y_true, y_pred, sample_weight):
    labels = _labels(y_true, y_pred)
    if labels is None:
        return None
    place = place_of(labels[1])
    weight, is_usable = _weight(sample_weight, labels[1].shape[0], place)
    encoded = _encoded(labels, place.xp)
    if encoded is None or not is_usable:
        return None
    (true, pred), labels = encoded
    return _sums_of_pairs(true, pred, weight, labels, place.xp)


def _sums_of_pairs(true, pred, weight, labels, xp):
    k = len(labels)
    # Rows of weight 0 say which labels there are.
    counts = xp.reshape(confusion_matrices(true, pred[None, :], None, k, xp), (-1,))
    occur = xp.nonzero(counts > 0)[0]
    sums, is_whole = counts, True
    if weight is not None:
        is_whole = not xp.isdtype(weight.dtype, "real floating")
        weight = xp.astype(weight, xp.float64)
        sums = xp.reshape(confusion_matrices(true, pred[None, :], weight, k, xp), (-1,))
    sums, occur = to_host(xp.take(sums, occur)), to_host(occur)
    sums = sums.astype(np.int64) if is_whole else sums
    return _Pairs(labels[occur // k], labels[occur % k], sums)


# ---------------------------------------------------------------- scores


def _problem(y_true, y_score, sample_weight, labels):
    """The problem where the scores are; None for what is scikit-learn's."""
    if not is_unreadable(y_score):
        return None
    y_true, scores = _vector(y_true), as_array(y_score)
    is_one = scores.ndim == 1 or (scores.ndim == 2 and scores.shape[1] != 1)
    if y_true is None or not is_one or scores.shape[0] != y_true.shape[0]:
        return None
    place = place_of(scores)
    if not _is_real(scores, place.xp):
        return None
    weight, is_usable = _weight(sample_weight, y_true.shape[0], place)
    encoded = _encoded([move(y_true, place)], place.xp)
    if encoded is None or not is_usable:
        return None
    (codes,), classes = encoded
    codes, classes = _without_gaps(codes, classes, place.xp)
    if labels is not None:
        codes, classes = _among(labels, codes, classes, place)
    if codes is None:
        return None
    if weight is not None:
        weight = place.xp.astype(weight, place.xp.float64)
    return Problem(codes, scores[None, ...], weight, classes)


def _is_real(scores, xp):
    """Whether scores are of a type that keeps their digits."""
    if xp.isdtype(scores.dtype, "real floating"):
        return itemsize(scores.dtype) >= 4
    return xp.isdtype(scores.dtype, "integral")


def _without_gaps(codes, labels, xp):
    """Codes and labels without the labels that do not occur."""
    found = to_host(xp.unique_values(codes))
    if len(found) == len(labels):
        return codes, labels
    present = move(found, place_of(codes))
    return xp.searchsorted(present, codes), labels[found]


def _among(labels, codes, classes, place):
    """Codes of the labels that a user lists; (None, None) if they are scikit-learn's to sort."""
    wanted = host_labels(labels)
    at = {label: i for i, label in enumerate(wanted)}
    are_numbers = all(isinstance(label, int | float) for label in wanted)
    if not are_numbers or sorted(at) != wanted or any(c not in at for c in classes.tolist()):
        return None, None
    table = np.asarray([at[c] for c in classes.tolist()], dtype=np.int64)
    return place.xp.take(move(table, place), codes), np.asarray(wanted)


# ---------------------------------------------------------------- arrays and codes


def _vector(x):
    """Numbers (n,) of any library; None for what is none, or of several labels per row."""
    if hasattr(x, "to_cupy") and getattr(x.dtype, "kind", "O") not in "biuf":
        return None
    x = as_array(x)
    if not is_array(x) or not hasattr(x, "ndim"):
        x = np.asarray(x)
    if getattr(x.dtype, "kind", "f") not in "biuf":
        return None
    if x.ndim == 2 and x.shape[1] == 1:
        x = x[:, 0]
    return x if x.ndim == 1 and x.shape[0] > 0 else None


def _weight(weight, n_rows, place: Place) -> tuple[Array | None, bool]:
    """Weights (n,) in a place, and whether they are what the kernels can use."""
    if weight is None:
        return None, True
    weight = _vector(weight)
    if weight is None or weight.shape[0] != n_rows:
        return None, False
    weight, xp = move(weight, place), place.xp
    if xp.isdtype(weight.dtype, "bool"):
        weight = xp.astype(weight, xp.int64)
    wide = xp.astype(weight, xp.float64, copy=False)
    return weight, all_finite(wide, xp) and float(xp.sum(wide)) != 0


def _encoded(arrays, xp):
    """Codes (n,) of arrays, and their labels in CPU memory, sorted; None if they are no labels."""
    arrays = _of_one_type(arrays, xp)
    if arrays is None:
        return None
    ends = to_host(xp.stack([f(x) for f in (xp.min, xp.max) for x in arrays]))
    low, high = ends.min(), ends.max()
    if high - low < DENSE_LABELS:
        labels = np.arange(low, high + 1)
        return [xp.astype(x - low.item(), xp.int64) for x in arrays], labels
    found = xp.unique_values(xp.concat(arrays))
    if found.shape[0] > MOST_LABELS:
        return None
    return [xp.searchsorted(found, x) for x in arrays], to_host(found)


def _of_one_type(arrays, xp):
    """Arrays of whole numbers, all int64 or all float64; None if there is another number."""
    if any(xp.isdtype(x.dtype, ("complex floating", xp.uint64)) for x in arrays):
        return None
    if not any(xp.isdtype(x.dtype, "real floating") for x in arrays):
        return [xp.astype(x, xp.int64, copy=False) for x in arrays]
    arrays = [xp.astype(x, xp.float64, copy=False) for x in arrays]
    # nan and infinity are no labels either.
    are_whole = [all_true(xp.isfinite(x) & (xp.floor(x) == x), xp) for x in arrays]
    return arrays if all(are_whole) else None

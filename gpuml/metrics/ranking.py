"""Metrics of how scores rank the rows, with scikit-learn's names.

Scores in CPU memory are given to scikit-learn. Those of another library or device, and of many
models at once, are sorted where they are, ties taken together. A row of weight 0 adds nothing to
any sum, so it changes no score wherever it stands.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import sklearn.metrics as sk
from sklearn.exceptions import UndefinedMetricWarning

from gpuml._arrays import Array, device_of
from gpuml._arrays.ops import any_true
from gpuml.metrics._class_single import score_scores
from gpuml.metrics._classes import DECISION, PROBABILITY, add_row
from gpuml.metrics._functions import PARAMETERS, public


@dataclass(frozen=True)
class Ranking:
    """Rows of C models by falling score; rows of equal score are a tie.

    Attributes
    ----------
    order : int array (C, n)
        The row at each rank.
    first, last : int arrays (C, n)
        First and last rank of the tie that a rank is part of, in the flattened (C n,).
    """

    order: Array
    first: Array
    last: Array

    @classmethod
    def of(cls, scores: Array, xp: Any) -> "Ranking":
        """Rank finite scores (C, n)."""
        n_rows = scores.shape[1]
        order = xp.argsort(-scores, axis=-1)
        ranked = xp.take_along_axis(scores, order, axis=-1)
        changes = ranked[:, 1:] != ranked[:, :-1]
        end = xp.ones((scores.shape[0], 1), dtype=xp.bool, device=device_of(scores))
        is_last = xp.reshape(xp.concat([changes, end], axis=1), (-1,))
        # Ties are numbered continuously over all models.
        number = xp.cumulative_sum(xp.astype(is_last, xp.int64)) - xp.astype(is_last, xp.int64)
        ends = xp.nonzero(is_last)[0]
        before = xp.full((1,), -1, dtype=ends.dtype, device=device_of(ends))
        starts = xp.concat([before, ends[:-1]]) + 1
        shape = (scores.shape[0], n_rows)
        first, last = (xp.reshape(xp.take(a, number), shape) for a in (starts, ends))
        return cls(order, first, last)

    def ranked(self, values: Array, xp: Any) -> Array:
        """Values (n,) of rows in the order of each model: (C, n)."""
        return xp.reshape(xp.take(values, xp.reshape(self.order, (-1,))), self.order.shape)

    def unranked(self, values: Array, xp: Any) -> Array:
        """Values (C, n) of ranks in the order of the rows."""
        return xp.take_along_axis(values, xp.argsort(self.order, axis=-1), axis=-1)

    def cumulated(self, weights: Array, xp: Any) -> tuple[Array, Array]:
        """Sums of weights (C, n) of ranks: over the ties before, and up to the own tie's end."""
        sums = xp.cumulative_sum(weights, axis=-1)
        before = sums - weights
        return tuple(
            xp.reshape(xp.take(xp.reshape(a, (-1,)), xp.reshape(at, (-1,))), sums.shape)
            for a, at in ((before, self.first), (sums, self.last))
        )


def auc(scores: Array, positive: Array, negative: Array, xp: Any) -> Array:
    """Areas (C,) under ROC curves of scores (C, n), given weights (n,) of rows as either class.

    .. code-block:: text

        sum_i negative_i (positives above i + half of those tied with i) / (sum p sum n)
    """
    ranking = Ranking.of(scores, xp)
    above, up_to = ranking.cumulated(ranking.ranked(positive, xp), xp)
    area = xp.sum(ranking.ranked(negative, xp) * (above + up_to), axis=-1) / 2
    return area / (xp.sum(positive) * xp.sum(negative))


def precision_area(scores: Array, positive: Array, negative: Array, xp: Any) -> Array:
    """Average precisions (C,): the mean, over positives, of the precision at their score."""
    ranking = Ranking.of(scores, xp)
    ranked = ranking.ranked(positive, xp)
    _, right = ranking.cumulated(ranked, xp)
    _, wrong = ranking.cumulated(ranking.ranked(negative, xp), xp)
    chosen = right + wrong
    precision = right / xp.where(chosen == 0, xp.ones_like(chosen), chosen)
    return xp.sum(ranked * precision, axis=-1) / xp.sum(positive)


# ---------------------------------------------------------------- two classes and more

Area = Callable[[Array, Array, Array, Any], Array]


def _roc_auc(problem, options):
    if options["max_fpr"] not in (None, 1):
        raise ValueError("Partial areas are not computed for several models at once.")
    scores = problem.scores()
    if problem.is_binary and scores.ndim == 2:
        return _binary(auc, scores, problem, 1)
    _check_multiclass(problem, options, scores)
    if options["multi_class"] == "ovo":
        return _one_against_one(scores, problem, options["average"])
    return _one_against_rest(auc, scores, problem, options["average"])


def _average_precision(problem, options):
    scores = problem.scores()
    if problem.is_binary and scores.ndim == 2:
        return _binary(precision_area, scores, problem, problem.code_of(options["pos_label"]))
    if problem.is_binary or scores.ndim != 3 or scores.shape[-1] != problem.n_classes:
        raise ValueError("There must be one score per row and class.")
    if options["pos_label"] != 1:
        raise ValueError("pos_label is for two classes.")
    return _one_against_rest(precision_area, scores, problem, options["average"])


def _check_multiclass(problem, options, scores):
    if problem.is_binary or scores.ndim != 3 or scores.shape[-1] != problem.n_classes:
        raise ValueError("There must be one score per row and class.")
    if options["multi_class"] not in ("ovr", "ovo"):
        raise ValueError("multi_class must be 'ovr' or 'ovo' for several classes.")
    problem.check_labels(options["labels"])
    xp = problem.xp
    off = xp.abs(xp.sum(scores, axis=-1, dtype=xp.float64) - 1)
    if any_true(off > 1e-5 + 1e-8, xp):
        raise ValueError("Scores must be probabilities that sum to 1 over the classes.")


def _binary(area: Area, scores, problem, code):
    is_positive = problem.indicator(code)
    return _weighted_area(area, scores, is_positive, problem.weight, problem.xp)


def _weighted_area(area, scores, is_positive, weight, xp):
    is_negative = 1 - is_positive
    if weight is not None:
        is_positive, is_negative = is_positive * weight, is_negative * weight
    return area(scores, is_positive, is_negative, xp)


def _one_against_rest(area: Area, scores, problem, average):
    xp, k, weight = problem.xp, problem.n_classes, problem.weight
    if average == "micro":
        return _micro(area, scores, problem)
    if average not in ("macro", "weighted"):
        raise ValueError(f"average={average!r} is not for several classes.")
    areas = xp.stack([_binary(area, scores[:, :, c], problem, c) for c in range(k)], axis=-1)
    if average == "macro":
        return xp.mean(areas, axis=-1)
    share = xp.sum(_weighted(problem.one_hot(), weight), axis=0)
    return areas @ share / xp.sum(share)


def _micro(area, scores, problem):
    """Every pair of a row and a class is a row, positive if the row is of the class."""
    xp, weight = problem.xp, problem.weight
    is_positive = problem.one_hot()
    if weight is not None:
        weight = xp.reshape(xp.broadcast_to(weight[:, None], is_positive.shape), (-1,))
    scores = xp.reshape(scores, (scores.shape[0], -1))
    return _weighted_area(area, scores, xp.reshape(is_positive, (-1,)), weight, xp)


def _weighted(values, weight):
    return values if weight is None else values * weight[:, None]


def _one_against_one(scores, problem, average):
    xp, k = problem.xp, problem.n_classes
    if problem.weight is not None:
        raise ValueError("multi_class='ovo' takes no weights.")
    if average not in ("macro", "weighted"):
        raise ValueError(f"average={average!r} is not for multi_class='ovo'.")
    truth = problem.one_hot()
    # By class and model, the areas (k, C, k) against each other class.
    areas = xp.stack([_against_each(scores[:, :, c], truth, c, xp) for c in range(k)])
    both = (areas + xp.permute_dims(areas, (2, 1, 0))) / 2
    weight = _pair_weights(xp.sum(truth, axis=0), average, xp)  # (k, k)
    return xp.sum(both * weight[:, None, :], axis=(0, 2)) / xp.sum(weight)


def _against_each(scores, truth, code, xp):
    """Areas (C, k) of ranking rows of one class above those of each."""
    ranking = Ranking.of(scores, xp)
    above, up_to = ranking.cumulated(ranking.ranked(truth[:, code], xp), xp)
    sizes = xp.sum(truth, axis=0)
    return ranking.unranked(above + up_to, xp) @ truth / (2 * sizes[code] * sizes)


def _pair_weights(sizes, average, xp):
    k = sizes.shape[0]
    codes = xp.arange(k, device=device_of(sizes))
    is_pair = xp.astype(codes[:, None] < codes[None, :], xp.float64)
    return is_pair * (sizes[:, None] + sizes[None, :]) if average == "weighted" else is_pair


# ---------------------------------------------------------------- top k


def _top_k_accuracy(problem, options):
    k, scores = options["k"], problem.scores()
    if not (isinstance(k, int | np.integer) and k >= 1):
        raise ValueError(f"k must be a positive integer, got {k!r}.")
    problem.check_labels(options["labels"])
    if k >= problem.n_classes:
        text = f"k={k} is no less than the number of classes, so every score is perfect."
        problem.notes.add((UndefinedMetricWarning, text))
    if problem.is_binary and scores.ndim == 2:
        hits = _binary_hits(scores, problem, k)
    elif scores.ndim == 3 and scores.shape[-1] == problem.n_classes and not problem.is_binary:
        hits = _hits(scores, problem, k)
    else:
        raise ValueError("There must be one score per row and class.")
    hits = problem.xp.astype(hits, problem.xp.float64)
    return problem.average(hits, normalize=options["normalize"])


def _binary_hits(scores, problem, k):
    xp = problem.xp
    if k > 1:
        return xp.ones_like(scores, dtype=xp.bool)
    smallest, largest = (f(scores, axis=-1, keepdims=True) for f in (xp.min, xp.max))
    # Scores of a model that are all in [0, 1] are taken for probabilities.
    is_probability = xp.astype(xp.logical_and(smallest >= 0, largest <= 1), scores.dtype)
    return (scores > 0.5 * is_probability) == (problem.y == 1)


def _hits(scores, problem, k):
    xp = problem.xp
    own = xp.take_along_axis(scores, problem.codes_along(scores), axis=-1)
    codes = xp.arange(problem.n_classes, device=device_of(scores))
    later = codes > problem.y[:, None]
    ahead = xp.logical_or(scores > own, xp.logical_and(scores == own, later))
    return xp.sum(xp.astype(ahead, xp.int64), axis=-1) < k


# ---------------------------------------------------------------- the table

_TRUE = """y_true : array-like of shape (n_samples,)
    Correct labels. Indicators of several labels per row, (n_samples, n_labels), are scored in
    CPU memory."""
_AVERAGE = """average : {"macro", "micro", "weighted", "samples"} or None, default="macro"
    How to combine the scores of several classes. "macro": the mean over the classes. "micro":
    one score over all pairs of a row and a class. "weighted": the mean weighted by the rows of
    each class. "samples": for several labels per row, the mean over rows. None: one score per
    class. With None or several labels per row, scikit-learn computes in CPU memory."""


def _metric(
    theirs: Callable[..., Any],
    kernel: Callable[..., Any],
    summary: str,
    formula: str,
    **words: str,
) -> Callable[..., Any]:
    function = public(__name__, score_scores, theirs, summary, formula, **words)
    add_row(function, kernel, (DECISION, PROBABILITY))
    return function


roc_auc_score = _metric(
    sk.roc_auc_score,
    _roc_auc,
    "Area under the ROC curve: share of pairs (positive, negative) that are ranked correctly.",
    "sum_ij w_i w_j ([f_i > f_j] + [f_i = f_j] / 2) / sum_ij w_i w_j,    i positive, j negative",
    returns="auc : float, or array of shape (n_classes,) if `average` is None",
    example="roc_auc_score([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])",
    value="0.75",
    raises="""ValueError
    If there are several classes without `multi_class`, probabilities do not sum to 1, "ovo" gets
    weights, lengths differ, or values are nan.""",
    warns="sklearn.exceptions.UndefinedMetricWarning\n    If there is one class; the value is nan.",
    y_true=_TRUE,
    y_score="""y_score : array-like of shape (n_samples,) or (n_samples, n_classes)
    Scores of the larger of two labels, or probabilities of all classes, in any array library.""",
    average=_AVERAGE,
    max_fpr="""max_fpr : float in (0, 1], default=None
    Largest false positive rate: the (standardised) area is that up to this rate. None is the
    whole curve. Values below 1 are computed in CPU memory.""",
    multi_class="""multi_class : {"raise", "ovr", "ovo"}, default="raise"
    What to do with several classes: raise an error, compare each class with all others ("ovr"),
    or each pair of classes ("ovo").""",
    labels="""labels : array-like of shape (n_classes,), default=None
    All labels, sorted, if there are several classes. None is the labels that occur in y_true.""",
)

average_precision_score = _metric(
    sk.average_precision_score,
    _average_precision,
    "Average precision: mean precision over thresholds at the scores of the positive rows.",
    "sum_t (R_t - R_before t) P_t,    recall R and precision P at each distinct score t",
    returns="score : float, or array of shape (n_classes,) if `average` is None",
    example="average_precision_score([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8]).__round__(4)",
    value="0.8333",
    raises="ValueError\n    If `pos_label` does not occur, lengths differ, or values are nan.",
    warns="UserWarning\n    If there is no positive row.",
    y_true=_TRUE,
    y_score="""y_score : array-like of shape (n_samples,) or (n_samples, n_classes)
    Scores of the positive of two classes, or of all classes, in any array library.""",
    average=_AVERAGE,
    pos_label="""pos_label : int, float, bool or str, default=1
    The positive one of two classes.""",
    sample_weight=PARAMETERS["sample_weight"].replace("Weights w", "Weights"),
)

top_k_accuracy_score = _metric(
    sk.top_k_accuracy_score,
    _top_k_accuracy,
    "Share of rows whose true class is among the k classes with the largest scores.",
    "sum w [y is among the k classes of largest score] / sum w",
    further="Of classes with equal scores, the later ones come first. With two classes, the larger "
    "label is\npredicted if its score is above 0 (above 0.5, if all scores are between 0 and 1).",
    returns="score : float",
    example="scores = [[0.5, 0.2, 0.3], [0.3, 0.4, 0.2], [0.2, 0.4, 0.3], [0.7, 0.2, 0.1]]\n"
    ">>> top_k_accuracy_score([0, 1, 2, 2], scores)",
    value="0.75",
    raises="ValueError\n    If there are not as many scores as classes, lengths differ, or values "
    "are nan.",
    warns="sklearn.exceptions.UndefinedMetricWarning\n"
    "    If k is no less than the number of classes.",
    y_score="""y_score : array-like of shape (n_samples,) or (n_samples, n_classes)
    Scores of the larger of two labels, or of all classes, in any array library.""",
    k="""k : int, default=2
    How many classes with the largest scores count as predicted.""",
)

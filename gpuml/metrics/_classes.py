"""Classification metrics of many models at once, each a row of `CLASS_METRICS`."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gpuml._arrays import Array, namespace
from gpuml.metrics import _confusion, _probability, _ranking
from gpuml.metrics._confusion import from_confusion
from gpuml.metrics._problem import Problem

# Workspace of the models that are looked at together.
WORK_BYTES = 2**27
# Arrays as large as the response, in float64, that a kernel holds at a time.
COPIES = 12

LABELS, PROBABILITY, DECISION = "labels", "probability", "decision"


@dataclass(frozen=True)
class ClassMetric:
    """One metric.

    Attributes
    ----------
    kernel : callable ``(problem, options) -> (C,)``
        Raises ValueError where the metric is not defined, or not covered.
    responses : tuple of {"labels", "probability", "decision"}
        What it may be given.
    options : dict
        Names and defaults of what the public function takes beside targets and weights.
    takes_weight : bool
        Whether rows may have weights; if not, they are passed over.
    uses_confusion : bool
        Whether sums of weights by true and predicted class are all that the metric needs.
    is_mean : bool
        Whether it is a weighted mean over rows, so that means of parts make up the whole.
    """

    kernel: Callable[[Problem, Mapping[str, Any]], Array]
    responses: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    takes_weight: bool = True
    uses_confusion: bool = False
    is_mean: bool = False


def evaluate_classes(name: str, problem: Problem, options: Mapping[str, Any]) -> Array:
    """A metric of C models: float64 (C,), where the response is.

    Parameters
    ----------
    name : str
        A key of `CLASS_METRICS`.
    problem : Problem
        Its response as scikit-learn's function takes it, behind an axis of models.
    options : dict
        As the keyword arguments of the public function.

    Raises
    ------
    ValueError
        The metric is not defined for such a problem or such options.

    Warns
    -----
    UndefinedMetricWarning, UserWarning
        Once each, where scikit-learn's function warns for some of the models.
    """
    metric = CLASS_METRICS[name]
    options = {**metric.options, **options}
    if problem.n_classes < 2:
        raise ValueError("There must be two classes or more.")
    if not metric.takes_weight:
        problem = replace(problem, weight=None)
    scores = [metric.kernel(part, options) for part in _parts(problem)]
    for category, text in sorted(problem.notes, key=str):
        warnings.warn(text, category, stacklevel=3)
    xp = namespace(*scores)
    return xp.astype(xp.concat(scores), xp.float64, copy=False)


def evaluate_confusion(
    name: str, matrices: Array, classes: np.ndarray, options: Mapping[str, Any]
) -> Array:
    """A metric that `uses_confusion`, of confusion matrices (C, k, k) of C models: (C,)."""
    metric = CLASS_METRICS[name]
    problem = Problem(matrices[0, 0, :0], matrices, None, classes, confusion=matrices)
    scores = metric.kernel(problem, {**metric.options, **options})
    for category, text in sorted(problem.notes, key=str):
        warnings.warn(text, category, stacklevel=3)
    return scores


def _parts(problem):
    """The problem with as many models at a time as the workspace holds."""
    response = problem.response
    per_model = int(np.prod(response.shape[1:])) + problem.n_classes**2
    step = max(1, WORK_BYTES // (8 * COPIES * per_model))
    n_models = response.shape[0]
    for start in range(0, n_models, step):
        models = slice(start, min(start + step, n_models))
        yield replace(problem, response=response[models, ...])


# ---------------------------------------------------------------- the table

_PER_CLASS = {"labels": None, "pos_label": 1, "average": "binary", "zero_division": "warn"}
_SCORES = (DECISION, PROBABILITY)


def _of_confusion(kernel, **options):
    return ClassMetric(from_confusion(kernel), (LABELS,), options, uses_confusion=True)


def _likelihood_ratio(which):
    kernel = from_confusion(_confusion.likelihood_ratio(which))
    return ClassMetric(kernel, (LABELS,), takes_weight=False)


CLASS_METRICS: dict[str, ClassMetric] = {
    "accuracy_score": ClassMetric(
        _confusion.accuracy, (LABELS,), {"normalize": True}, is_mean=True
    ),
    "balanced_accuracy_score": _of_confusion(_confusion.balanced_accuracy, adjusted=False),
    "precision_score": _of_confusion(_confusion.precision, **_PER_CLASS),
    "recall_score": _of_confusion(_confusion.recall, **_PER_CLASS),
    "f1_score": _of_confusion(_confusion.f1, **_PER_CLASS),
    "jaccard_score": _of_confusion(_confusion.jaccard, **_PER_CLASS),
    "matthews_corrcoef": _of_confusion(_confusion.matthews),
    "cohen_kappa_score": _of_confusion(
        _confusion.kappa, labels=None, weights=None, replace_undefined_by=float("nan")
    ),
    "positive_likelihood_ratio": _likelihood_ratio("LR+"),
    "negative_likelihood_ratio": _likelihood_ratio("LR-"),
    "log_loss": ClassMetric(
        _probability.log_loss, (PROBABILITY,), {"normalize": True, "labels": None}, is_mean=True
    ),
    "brier_score_loss": ClassMetric(
        _probability.brier,
        (PROBABILITY,),
        {"pos_label": None, "labels": None, "scale_by_half": "auto"},
        is_mean=True,
    ),
    "d2_log_loss_score": ClassMetric(_probability.d2_log_loss, (PROBABILITY,), {"labels": None}),
    "d2_brier_score": ClassMetric(
        _probability.d2_brier, (PROBABILITY,), {"pos_label": None, "labels": None}
    ),
    "top_k_accuracy_score": ClassMetric(
        _ranking.top_k_accuracy, _SCORES, {"k": 2, "normalize": True, "labels": None}
    ),
    "roc_auc_score": ClassMetric(
        _ranking.roc_auc,
        _SCORES,
        {"average": "macro", "max_fpr": None, "multi_class": "raise", "labels": None},
    ),
    "average_precision_score": ClassMetric(
        _ranking.average_precision, _SCORES, {"average": "macro", "pos_label": 1}
    ),
}

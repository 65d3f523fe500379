"""Scorers of many models at once, and which scorers have such a form."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuml._arrays import Array, namespace
from gpuml._sklearn import InvalidParameterError
from gpuml.metrics._batched import METRICS, evaluate, evaluate_moments
from gpuml.metrics._class_single import check_options
from gpuml.metrics._classes import (
    CLASS_METRICS,
    DECISION,
    LABELS,
    PROBABILITY,
    evaluate_classes,
    evaluate_confusion,
)
from gpuml.metrics._input import check_parameters
from gpuml.metrics._outputs import is_raw
from gpuml.metrics._problem import Problem
from gpuml.metrics.residuals import ResidualMoments

# The response that a scorer uses, by scikit-learn's method name.
RESPONSES = {"predict": LABELS, "predict_proba": PROBABILITY, "decision_function": DECISION}


@dataclass(frozen=True)
class BatchScorer:
    """A scorer that takes the predictions of many models at once, or sums of their residuals."""

    metric: str
    sign: float
    options: Mapping[str, Any]

    @property
    def is_mean(self) -> bool:
        """Whether it is a weighted mean over rows, so that means of parts make up the whole."""
        metric = METRICS[self.metric]
        return metric.is_mean and metric.finish is None

    @property
    def uses_moments(self) -> bool:
        """Whether sums of residuals are all that it needs."""
        return METRICS[self.metric].uses_moments

    def from_moments(self, moments: ResidualMoments) -> Array:
        """Scores (...) from sums with leading axes (...); only if it `uses_moments`."""
        return self.sign * evaluate_moments(self.metric, moments, self.options)

    def from_predictions(self, y_true: Array, y_pred: Array, weight: Array | None) -> Array:
        """Scores (C,) of y_true (n,) or (n, t) and predictions (C, n) or (C, n, t).

        Raises ValueError if the metric is not defined for some of the values.
        """
        return self.sign * evaluate(self.metric, y_true, y_pred, weight, self.options)


@dataclass(frozen=True)
class LikelihoodScorer:
    """The `score` of models of densities, which know it of all rows of a part at once."""


@dataclass(frozen=True)
class InertiaScorer:
    """The `score` of models of clusters, which know it of all rows of a part at once."""


@dataclass(frozen=True)
class ClassBatchScorer:
    """A scorer for the predictions of many classifiers for the same rows.

    Attributes
    ----------
    metric : str
        A key of `CLASS_METRICS`.
    sign : float
        -1 for what is better if less.
    options : dict
        Keyword arguments of the metric.
    response : {"labels", "probability", "decision"}
        What it takes.
    """

    metric: str
    sign: float
    options: Mapping[str, Any]
    response: str

    def from_responses(
        self, y: Array, response: Array, weight: Array | None, classes: np.ndarray
    ) -> Array:
        """Scores (C,) in float64 from responses named by `response`, at their place.

        `y` are codes (m,) of the sorted `classes`, each of which has a row that weighs anything.
        Raises ValueError where the metric is not defined for such a problem, or for what some model
        says; warns once where scikit-learn's metric warns of some of the models.
        """
        xp = namespace(response)
        response = self._of_positive_class(response, np.asarray(classes))
        y = xp.astype(y, xp.int64, copy=False)
        if self.response == LABELS:
            response = xp.astype(response, xp.int64, copy=False)
        if weight is not None:
            weight = xp.astype(weight, xp.float64, copy=False)
        problem = Problem(y, response, weight, np.asarray(classes))
        return self.sign * evaluate_classes(self.metric, problem, self.options)

    @property
    def is_mean(self) -> bool:
        """Whether it is a weighted mean over rows, so that means of parts make up the whole."""
        normalize = self.options.get("normalize", True)
        return CLASS_METRICS[self.metric].is_mean and bool(normalize)

    @property
    def uses_confusion(self) -> bool:
        """Whether sums of weights by true and predicted class are all that it needs."""
        return CLASS_METRICS[self.metric].uses_confusion and self.response == LABELS

    def from_confusion(self, matrices: Array, classes: np.ndarray) -> Array:
        """Scores (C,) from confusion matrices (C, k, k); only if it `uses_confusion`."""
        return self.sign * evaluate_confusion(
            self.metric, matrices, np.asarray(classes), self.options
        )

    def _of_positive_class(self, response, classes):
        """Scores (C, m) of the positive class if there are two; else the input."""
        if len(classes) != 2:
            return response
        options = {**CLASS_METRICS[self.metric].options, **self.options}
        pos_label = options.get("pos_label")
        if pos_label is not None and pos_label not in classes.tolist():
            raise ValueError(f"pos_label={pos_label} is not one of the classes {classes.tolist()}.")
        is_first = pos_label is not None and pos_label == classes.tolist()[0]
        if self.response == PROBABILITY:
            return response[:, :, 0 if is_first else 1]
        if self.response == DECISION and is_first:
            return -1 * response
        return response


def regression_batch(
    name: str, sign: float, options: Mapping[str, Any], response: Any
) -> BatchScorer | None:
    """The batched form of a scorer for a metric of `METRICS`; None if it has none."""
    known = METRICS[name].options
    if response != "predict" or not set(options) <= set(known) or is_raw(options):
        return None
    usable = _accepts(check_parameters, name, {**known, **options})
    return BatchScorer(name, sign, options) if usable else None


def class_batch(
    name: str, sign: float, options: Mapping[str, Any], response: Any
) -> ClassBatchScorer | None:
    """The batched form of a scorer for a metric of `CLASS_METRICS`; None if it has none."""
    metric = CLASS_METRICS[name]
    first = response if isinstance(response, str) else next(iter(response), "")
    kind = RESPONSES.get(first)
    if kind not in metric.responses or not set(options) <= set(metric.options):
        return None
    # One value per class or per row is no score of a model, or is of several labels per row.
    if "average" in options and options["average"] in (None, "samples"):
        return None
    usable = _accepts(check_options, name, options)
    return ClassBatchScorer(name, sign, options, kind) if usable else None


def _accepts(check, name, options):
    """Whether options are right; if not, the metric says what is wrong, called for one model."""
    try:
        check(name, options)
    except InvalidParameterError:
        return False
    return True

"""Classification metrics of many models at once, each a row of `CLASS_METRICS`.

The rows are beside the public functions: in `classification`, `probabilities` and `ranking`.
"""

import inspect
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gpuml._arrays import Array, namespace
from gpuml.metrics._functions import options_of
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


CLASS_METRICS: dict[str, ClassMetric] = {}


def add_row(
    function: Callable[..., Any],
    kernel: Callable[..., Array],
    responses: tuple[str, ...],
    *,
    uses_confusion: bool = False,
    is_mean: bool = False,
) -> None:
    """Let searches know a metric, by the name of its public function, whose options it has."""
    options, takes_weight = options_of(function)
    CLASS_METRICS[function.__name__] = ClassMetric(
        kernel, responses, options, takes_weight, uses_confusion, is_mean
    )


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
    options = _all_options(metric, options)
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
    scores = metric.kernel(problem, _all_options(metric, options))
    for category, text in sorted(problem.notes, key=str):
        warnings.warn(text, category, stacklevel=3)
    return scores


def _all_options(metric, given):
    options = {**metric.options, **given}
    missing = [name for name, value in options.items() if value is inspect.Parameter.empty]
    if missing:
        raise ValueError(f"The metric needs a value for {', '.join(missing)}.")
    return options


def _parts(problem):
    """The problem with as many models at a time as the workspace holds."""
    response = problem.response
    per_model = int(np.prod(response.shape[1:])) + problem.n_classes**2
    step = max(1, WORK_BYTES // (8 * COPIES * per_model))
    n_models = response.shape[0]
    for start in range(0, n_models, step):
        models = slice(start, min(start + step, n_models))
        yield replace(problem, response=response[models, ...])

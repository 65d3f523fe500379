"""What fits all candidates of an estimator at once, and whether it may."""

from collections.abc import Mapping
from typing import Any

from sklearn.base import clone
from sklearn.utils.metadata_routing import process_routing

from gpuml._sklearn import (
    _MultimetricScorer,
    _PassthroughScorer,
    _routing_enabled,
    validate_parameter_constraints,
)
from gpuml.extending import MultifitEstimator
from gpuml.model_selection.one_by_one import Task
from gpuml.pipeline import Pipeline
from gpuml.pipeline._affine import AffinePipeline, affine_pipeline
from gpuml.pipeline._alone import AffineAlone, affine_alone
from gpuml.resampling.multifit import offers_multifit


def at_once(estimator: Any, task: Task) -> MultifitEstimator | None:
    """What fits all candidates of an estimator at once; None where nothing does."""
    made = affine_pipeline(estimator, task.fit_params) or affine_alone(estimator, task.fit_params)
    found: Any = made or estimator
    if made is None and not offers_multifit(found):
        return None
    if made is None and task.fit_params.keys() - {"sample_weight"}:
        return None
    alike = _scored_alike(task, fit_weight(found, task)) and _last_step_scores(estimator, task)
    return found if alike else None


def fit_weight(estimator: Any, task: Task) -> Any:
    """The sample weights of the fits."""
    if isinstance(estimator, AffinePipeline | AffineAlone):
        return estimator.weight
    return task.fit_params.get("sample_weight")


def _scored_alike(task: Task, fit_weight: Any) -> bool:
    """Whether scores have the weights of the fits, or none, and nothing else goes with the rows."""
    score = dict(task.score_params)
    weight = score.pop("sample_weight", None)
    several = isinstance(task.scorer, _MultimetricScorer)
    if several and weight is not None and _routing_enabled():
        return False
    return not score and (weight is None or weight is fit_weight)


def _last_step_scores(estimator: Any, task: Task) -> bool:
    """Whether the `score` of a pipeline gives what it is given to that of its last step alone.

    What routing does not let it give to anybody is an error of each model, found one by one.
    """
    own = isinstance(task.scorer, _PassthroughScorer) and isinstance(estimator, Pipeline)
    if not (own and _routing_enabled()):
        return True
    try:
        # As `Pipeline.score` asks: for weights, even where there are none.
        routed = process_routing(estimator, "score", **{"sample_weight": None, **task.score_params})
    except (TypeError, ValueError):
        return False
    last = estimator.steps[-1][0]
    given = {
        (step, method)
        for step, calls in routed.items()
        for method, params in calls.items()
        if any(value is not None for value in params.values())
    }
    return given <= {(last, "score")}


def kind_of(estimator: Any) -> type:
    """Of estimators of one kind, what one has looked at serves all."""
    # Classifiers and regressors look at y in different ways.
    return type(getattr(estimator, "last", estimator))


def with_params(estimator: Any, params: Mapping[str, Any]) -> Any:
    """An estimator with other parameters; those that it does not take are an error."""
    out = clone(estimator).set_params(**clone(params, safe=False))
    if hasattr(out, "_parameter_constraints"):
        out._validate_params()
    return out


def check_values(estimator: Any, params: Mapping[str, Any]) -> None:
    """Check values of parameters against an estimator's constraints, if it has any."""
    if isinstance(estimator, AffinePipeline | AffineAlone):
        estimator.check(params)
        return
    constraints = getattr(estimator, "_parameter_constraints", {})
    known = {name: constraints[name] for name in params if name in constraints}
    validate_parameter_constraints(known, {n: params[n] for n in known}, type(estimator).__name__)

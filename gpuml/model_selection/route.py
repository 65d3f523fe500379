"""The route of each candidate of a search, and the reason: together, shared steps, or one by one.

`route` decides for one device and for clusters alike, from the estimator, the candidates, the kind
of X and what is scored. It fits nothing and changes nothing.
"""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Number
from typing import Any

from sklearn.base import clone
from sklearn.utils.metadata_routing import process_routing
from sklearn.utils.validation import has_fit_parameter

from gpuml._sklearn import (
    _MultimetricScorer,
    _PassthroughScorer,
    _routing_enabled,
    make_constraint,
    validate_parameter_constraints,
)
from gpuml.exceptions import level_of_user
from gpuml.extending import MultifitEstimator
from gpuml.model_selection.behind import Behind, search_in
from gpuml.model_selection.candidates import (
    ALONE,
    COMMON,
    TOGETHER,
    check_names,
    groups_together,
    number,
    raised_words,
)
from gpuml.model_selection.fold_fits import shared_fits
from gpuml.model_selection.one_by_one import Task
from gpuml.model_selection.prefixes import have_common_steps, shares_prefixes
from gpuml.model_selection.residence import all_estimators, configured
from gpuml.pipeline import Pipeline
from gpuml.pipeline._affine import AffinePipeline, affine_pipeline, pipeline_obstacle
from gpuml.pipeline._alone import AffineAlone, affine_alone
from gpuml.pipeline._fronted import fronted_pipeline
from gpuml.protocol import Group, group_candidates
from gpuml.resampling.multifit import data_obstacle, meant, model_words

# scikit-learn's searches that gpuml has too.
SEARCHES = {
    name: f"from gpuml.model_selection import {name}"
    for name in ("GridSearchCV", "RandomizedSearchCV")
}


@dataclass(frozen=True)
class Route:
    """The route of some candidates.

    Attributes
    ----------
    positions : list of int
        Where each stands among all candidates.
    reason : str
        Why they go this way; of those that are not fitted at once, what is in the way, in words
        that say what to change.
    """

    positions: list[int]
    reason: str


@dataclass(frozen=True)
class AtOnce(Route):
    """`fits` fits all candidates on all splits in the same passes."""

    group: Group
    fits: MultifitEstimator

    way = TOGETHER


@dataclass(frozen=True)
class Nested(Route):
    """Each candidate is a search, whose own candidates are fitted together on all inner splits.

    `inside` has the search of each position, with the routes of its candidates.
    """

    inside: Mapping[int, Behind]

    way = TOGETHER


@dataclass(frozen=True)
class SharedSteps(Route):
    """Fits share work: first steps of pipelines, trees of ensembles, neighbours."""

    way: str = COMMON


@dataclass(frozen=True)
class OneByOne(Route):
    """Each candidate is fitted by itself on each split."""

    way = ALONE


AnyRoute = AtOnce | Nested | SharedSteps | OneByOne


def route(
    estimator: Any,
    candidates: Sequence[Mapping[str, Any]],
    X: Any,
    task: Task,
    *,
    nests: bool = False,
) -> list[AnyRoute]:
    """Decide the route of each candidate of a search.

    Parameters
    ----------
    estimator : estimator
        Unfitted; it stays as it is.
    candidates : sequence of dict
    X : array-like or None
        Rows, or a stand-in with their shape and dtype. None where nobody knows them yet: then only
        what is in the way of all data is found.
    task : Task
        What is scored, and what fits are given besides rows.
    nests : bool, default=False
        Whether one evaluator may fit the candidates of searches that are candidates here.

    Returns
    -------
    routes : list
        Candidates that are fitted at once first, in groups; others by what is in their way.

    Raises
    ------
    ValueError
        If a candidate has a parameter that the estimator lacks.
    TypeError
        For a class that derives from one of `gpuml.extending` and lacks what it has to define.
    """
    check_names(estimator, candidates)
    if nests and search_in(estimator) is not None:
        return _nested(estimator, candidates, X, task)
    groups, reasons = grouped(estimator, candidates, task)
    together: list[AtOnce] = []
    for group in groups:
        try:
            fits, why = fits_group(estimator, group, X, task)
        except Exception as error:
            fits, why = None, raised_words(error)  # its single fits raise the error
        if fits is None:
            reasons.update(dict.fromkeys(group.positions, why))
        else:
            names = " and ".join(sorted({n for each in group.varying for n in each}))
            why = f"they differ in {names} only" if names else "there is one candidate"
            together.append(AtOnce(group.positions, why, group, fits))
    return [*together, *_left(estimator, candidates, reasons)]


def _left(estimator, candidates, reasons: Mapping[int, str]) -> list[AnyRoute]:
    """Routes of candidates that are not fitted together, grouped by their reasons."""
    found: dict[str, list[int]] = {}
    for position in sorted(reasons):
        found.setdefault(reasons[position], []).append(position)
    shared = _work_in_common(estimator, [candidates[position] for position in sorted(reasons)])
    return [
        OneByOne(positions, why) if shared is None else SharedSteps(positions, why, shared)
        for why, positions in found.items()
    ]


def _nested(estimator, candidates, X, task):
    """Routes of candidates that are searches, or pipelines that end in one."""
    found = {c: _search_inside(estimator, params, X, task) for c, params in enumerate(candidates)}
    inside = {c: each for c, each in found.items() if isinstance(each, Behind)}
    left = {c: why for c, why in found.items() if c not in inside}
    why = "the inner searches share passes"
    nested = [Nested(list(inside), why, inside)] if inside else []
    return [*nested, *_left(estimator, candidates, left)]


def _search_inside(estimator, params, X, task):
    """The search of a candidate with its routes, or why its own candidates go by themselves."""
    try:
        whole = configured(estimator, params)
        search = search_in(whole)
        if search is None:
            return f"the last step is {type(whole.steps[-1][1]).__name__}, and others are searches"
        why = SEARCHES.get(type(search).__name__)
        if why is not None and type(search).__module__.partition(".")[0] == "sklearn":
            return f"{type(search).__name__} is scikit-learn's; write {why}"
        if not hasattr(search, "_one_round_obstacle"):
            return f"{type(search).__name__} is not a search of gpuml"
        why = search._one_round_obstacle()
        if why is not None:
            return why
        behind = Behind(whole)
        search = behind.whole
        # Where steps come first, parameters of fits are an obstacle.
        given = {} if behind.n_steps else task.fit_params
        inner = search._task(search._get_scorers()[0], search._routed(given))
        why = behind.obstacle(task, inner)
        if why is not None:
            return why
        inside = behind.candidates()
        routes = route(search.estimator, inside, X, inner)
        behind.routed = inside, routes
    except Exception as error:
        return raised_words(error)  # its single fits raise the error
    if not routes:
        return f"{type(search).__name__} has no candidates"
    found = (
        behind.fits_obstacle(each.fits) if isinstance(each, AtOnce) else each.reason
        for each in routes
    )
    return next(filter(None, found), behind)


def words_of(routes: Iterable[AnyRoute], n_splits: int) -> str:
    """The plan in one line, and the reasons why candidates are not fitted together."""
    routes = list(routes)
    at_once = [each for each in routes if isinstance(each, AtOnce)]
    ways: dict[str, int] = {}
    for each in routes:
        many = isinstance(each, AtOnce) and len(at_once) > 1
        way = groups_together(len(at_once)) if many else each.way
        ways[way] = ways.get(way, 0) + len(each.positions) * n_splits
    line = "; ".join(f"{number(n_fits, 'fit')} ({way})" for way, n_fits in ways.items())
    batched = AtOnce | Nested
    why = [f"not batched: {each.reason}" for each in routes if not isinstance(each, batched)]
    return "\n".join([f"plan: {line}", *why])


def warn_of_unused(estimator: Any, candidates: Sequence[Mapping[str, Any]]) -> None:
    """Warn about classes that define members of a base class and do not derive from it."""
    values = [v for each in candidates for v in each.values() if hasattr(v, "fit")]
    parts = (part for each in [estimator, *values] for part in all_estimators(each))
    for words in dict.fromkeys(filter(None, map(meant, parts))):
        warnings.warn(
            f"{words}. Until you do, its candidates are fitted one by one.",
            RuntimeWarning,
            stacklevel=level_of_user(),
        )


def _work_in_common(estimator, params):
    """The work that fits of candidates share if they are not fitted together; None for none."""
    if shares_prefixes(estimator, params) and have_common_steps(estimator, params):
        return COMMON
    return shared_fits(estimator, params)


# ---------------------------------------------------------------- groups


def grouped(
    estimator: Any, candidates: Sequence[Mapping[str, Any]], task: Task
) -> tuple[list[Group], dict[int, str]]:
    """Groups of candidates that may be fitted together, and reasons by position for the others."""
    known: dict[Any, tuple[MultifitEstimator | None, str]] = {}

    def of(candidate):
        # Whole steps may be candidates too, and steps decide which parameters may vary.
        whole = {name: step for name, step in candidate.items() if "__" not in name}
        whole = whole if isinstance(estimator, Pipeline) else {}
        key = tuple((name, id(step)) for name, step in whole.items())
        if key not in known:
            changed = clone(estimator).set_params(**whole) if whole else estimator
            known[key] = together(changed, task)
        return known[key]

    def may_vary(candidate):
        fits = of(candidate)[0]
        return () if fits is None else fits.multifit_params

    groups: list[Group] = []
    reasons: dict[int, str] = {}
    for group in group_candidates(candidates, may_vary):
        fits, why = of(group.shared)
        if fits is None:
            reasons.update(dict.fromkeys(group.positions, why))
        else:
            groups.append(group)
    return groups, reasons


def fits_group(
    estimator: Any, group: Group, X: Any, task: Task
) -> tuple[MultifitEstimator | None, str]:
    """The estimator that fits a group together, or None and the reason. Raises parameter errors."""
    fits, why = together(with_params(estimator, group.shared), task)
    if fits is None:
        return None, why
    check_values(fits, group.varying)
    obstacle = None if X is None else data_obstacle(fits, X)
    return (fits, "") if obstacle is None else (None, obstacle)


def at_once(estimator: Any, task: Task) -> MultifitEstimator | None:
    """The estimator that fits all candidates together; None if there is none."""
    return together(estimator, task)[0]


def together(estimator: Any, task: Task) -> tuple[MultifitEstimator | None, str]:
    """The estimator that fits all candidates together, or None and the reason."""
    params = task.fit_params
    fits: Any = affine_pipeline(estimator, params) or affine_alone(estimator, params)
    fits = fits or fronted_pipeline(estimator, params)
    if fits is None:
        why = _obstacle(estimator, params)
        if why is not None:
            return None, why
        fits = estimator
    only_fits = getattr(fits, "only_fits", None)
    if only_fits and task.return_train_score:
        return None, (
            f"{only_fits} encodes training rows differently in fits and in scores; set "
            "return_train_score=False"
        )
    if not _scored_alike(task, fit_weight(fits, task)):
        return None, "scores use other weights or metadata than fits"
    if not _last_step_scores(estimator, task):
        return None, "metadata routing passes scoring parameters to other steps than the last"
    return fits, ""


def _obstacle(estimator, fit_params):
    if isinstance(estimator, Pipeline):
        return pipeline_obstacle(estimator, fit_params) or model_words(estimator)
    why = model_words(estimator)
    weighs = "sample_weight" in fit_params and has_fit_parameter(estimator, "sample_weight")
    others = sorted(fit_params.keys() - ({"sample_weight"} if weighs else set()))
    return f"fit is given {', '.join(others)}" if why is None and others else why


def fit_weight(estimator: Any, task: Task) -> Any:
    """The sample weights of the fits."""
    if isinstance(estimator, AffinePipeline | AffineAlone):
        return estimator.weight
    return task.fit_params.get("sample_weight")


def _scored_alike(task: Task, fit_weight: Any) -> bool:
    """Whether scores use the weights of the fits or none, and no other metadata."""
    score = dict(task.score_params)
    weight = score.pop("sample_weight", None)
    several = isinstance(task.scorer, _MultimetricScorer)
    if several and weight is not None and _routing_enabled():
        return False
    # Of a number, workers have two copies.
    are_numbers = isinstance(weight, Number) and isinstance(fit_weight, Number)
    alike = weight == fit_weight if are_numbers else weight is fit_weight
    return not score and (weight is None or alike)


def _last_step_scores(estimator: Any, task: Task) -> bool:
    """Whether `score` of a pipeline passes its parameters to the last step only.

    Parameters that no step requests are an error, which each single fit raises.
    """
    scorer = task.scorer
    scorers = scorer._scorers.values() if isinstance(scorer, _MultimetricScorer) else [scorer]
    own = any(isinstance(each, _PassthroughScorer) for each in scorers)
    if not (own and isinstance(estimator, Pipeline) and _routing_enabled()):
        return True
    try:
        # `Pipeline.score` requests weights even if there are none.
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


def kind_of(estimator: Any) -> Any:
    """A key: estimators with the same key can share what one of them found in the rows."""
    # Classifiers and regressors read y in different ways.
    return getattr(estimator, "batch_kind", None) or type(getattr(estimator, "last", estimator))


def with_params(estimator: Any, params: Mapping[str, Any]) -> Any:
    """A clone with other parameters; unknown or invalid ones are an error."""
    out = clone(estimator).set_params(**clone(params, safe=False))
    if hasattr(out, "_parameter_constraints"):
        out._validate_params()
    return out


def check_values(estimator: Any, candidates: Sequence[Mapping[str, Any]]) -> None:
    """Check values of parameters against the constraints of an estimator, if it has any."""
    if isinstance(estimator, AffinePipeline | AffineAlone):
        for params in candidates:
            estimator.check(params)
        return
    constraints = getattr(estimator, "_parameter_constraints", {})
    names = {n for params in candidates for n in params if n in constraints}
    names = {n for n in names if constraints[n] != "no_validation"}
    known = {n: [make_constraint(c) for c in constraints[n]] for n in names}
    for params in candidates:
        for name in names & params.keys():
            if not any(c.is_satisfied_by(params[name]) for c in known[name]):
                own = {name: constraints[name]}
                validate_parameter_constraints(own, params, type(estimator).__name__)

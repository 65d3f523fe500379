"""Cross-validation of one estimator: a search over a single candidate."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.utils import Bunch, indexable
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing

from gpuml._arrays import as_array
from gpuml._sklearn import (
    HasMethods,
    StrOptions,
    _check_groups_routing_disabled,
    _insert_error_scores,
    _MultimetricScorer,
    _normalize_score_results,
    _num_samples,
    _routing_enabled,
    _warn_or_raise_about_fit_failures,
    validate_params,
)
from gpuml.data import row_indices
from gpuml.metrics.scorer import check_scoring
from gpuml.model_selection.divided import evaluator_of, stored
from gpuml.model_selection.evaluate import Job
from gpuml.model_selection.one_by_one import Task, check_workers
from gpuml.resampling.split import check_splitter, split_rows

# Joined with `|`: Sphinx can parse no `**` in a decorator, and would show no source.
_CONSTRAINTS: dict = {
    "estimator": [HasMethods("fit")],
    "groups": ["array-like", None],
    "scoring": [str, callable, list, tuple, set, dict, None],
    "cv": ["cv_object"],
    "n_jobs": [Integral, None],
    "verbose": ["verbose"],
    "params": [dict, None],
    "pre_dispatch": [Integral, str],
    "error_score": [StrOptions({"raise"}), Real],
}


@validate_params(
    _CONSTRAINTS
    | {
        "return_train_score": ["boolean"],
        "return_estimator": ["boolean"],
        "return_indices": ["boolean"],
    },
    prefer_skip_nested_validation=False,
)
def cross_validate(
    estimator,
    X,
    y=None,
    *,
    groups=None,
    scoring=None,
    cv=None,
    n_jobs=None,
    verbose=0,
    params=None,
    pre_dispatch: Any = "2*n_jobs",
    return_train_score=False,
    return_estimator=False,
    return_indices=False,
    error_score: Any = np.nan,
):
    """Evaluate metrics by cross-validation; all splits are fitted together if possible.

    Parameters
    ----------
    estimator : estimator
    X : array-like of shape (n_samples, n_features)
        In any array library; device data stays on its device.
    y : array-like of shape (n_samples,) or (n_samples, n_outputs), default=None
    groups : array-like of shape (n_samples,), default=None
        Labels for splitters that keep groups together.
    scoring : str, callable, list, tuple, set, dict or None, default=None
        Metrics; None is the estimator's `score`.
    cv : int, splitter or iterable of index pairs, default=None
        None is 5 folds.
    n_jobs : int or None, default=None
        Number of workers for estimators that are fitted one by one.
    verbose : int, default=0
        How much to print.
    params : dict, default=None
        Passed to `fit` (or routed, with scikit-learn's metadata routing).
    pre_dispatch : int or str, default="2*n_jobs"
        Number of tasks that are dispatched to workers in advance.
    return_train_score, return_estimator, return_indices : bool, default=False
        Whether to return scores on the training rows, the fitted models, and the splits.
    error_score : "raise" or number, default=nan
        Score of a fit that fails.

    Returns
    -------
    scores : dict of ndarrays of shape (n_splits,), in CPU memory
        Keys are scikit-learn's: "fit_time", "score_time", "test_score" or "test_<name>", ...

    Raises
    ------
    ValueError
        If all fits fail, or scikit-learn's function would raise it.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from gpuml.linear_model import Ridge
    >>> from gpuml.model_selection import cross_validate
    >>> X, y = load_diabetes(return_X_y=True)
    >>> sorted(cross_validate(Ridge(), X, y))
    ['fit_time', 'score_time', 'test_score']
    """
    scorers = check_scoring(estimator, scoring, raise_exc=error_score == "raise")
    results, splits = _results(
        estimator,
        X,
        y,
        scorers,
        groups=groups,
        cv=cv,
        params=params,
        n_jobs=n_jobs,
        pre_dispatch=pre_dispatch,
        return_train_score=return_train_score,
        error_score=error_score,
        verbose=verbose,
        return_estimator=return_estimator,
        lazily=not return_indices,
    )
    if callable(scoring):
        _insert_error_scores(results, error_score)
    return _collect(results, splits, return_indices)


@validate_params(
    _CONSTRAINTS | {"scoring": [str, callable, None]},
    prefer_skip_nested_validation=False,
)
def cross_val_score(
    estimator,
    X,
    y=None,
    *,
    groups=None,
    scoring=None,
    cv=None,
    n_jobs=None,
    verbose=0,
    params=None,
    pre_dispatch: Any = "2*n_jobs",
    error_score: Any = np.nan,
):
    """Evaluate a score by cross-validation; all splits are fitted together if possible.

    Parameters
    ----------
    estimator, X, y, groups, cv, n_jobs, verbose, params, pre_dispatch, error_score
        As for `cross_validate`.
    scoring : str, callable or None, default=None
        One metric; None is the estimator's `score`.

    Returns
    -------
    scores : ndarray of shape (n_splits,), in CPU memory

    Raises
    ------
    ValueError
        If all fits fail, or scikit-learn's function would raise it.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from gpuml.linear_model import Ridge
    >>> from gpuml.model_selection import cross_val_score
    >>> X, y = load_diabetes(return_X_y=True)
    >>> cross_val_score(Ridge(), X, y, cv=3).round(2)
    array([0.37, 0.42, 0.44])
    """
    # As one of several scorers, whose errors are failed scores.
    own = {"score": check_scoring(estimator, scoring)}
    results, splits = _results(
        estimator,
        X,
        y,
        _MultimetricScorer(scorers=own, raise_exc=error_score == "raise"),
        groups=groups,
        cv=cv,
        params=params,
        n_jobs=n_jobs,
        pre_dispatch=pre_dispatch,
        return_train_score=False,
        error_score=error_score,
        verbose=verbose,
        lazily=True,
    )
    return _collect(results, splits, return_indices=False)["test_score"]


def _results(estimator, X, y, scorers, **options):
    """Results of all splits, and the splits."""
    job = job_of(estimator, X, y, scorers, "cross_validate", **options)
    results = evaluate(job, [{}])
    _warn_or_raise_about_fit_failures(results, options["error_score"])
    return results, job.splits


def evaluate(job: Job, candidates: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Results by candidate and split, of the estimators that the splits have if they have any."""
    if not job.estimators:
        return evaluator_of(job).evaluate(candidates)
    of_splits = [
        evaluator_of(replace(job, estimator=own, splits=[split])).evaluate(candidates)
        for own, split in zip(job.estimators, job.splits, strict=True)
    ]
    return [result for of_candidate in zip(*of_splits, strict=True) for result in of_candidate]


def check_one_score(results: Sequence[Mapping[str, Any]]) -> None:
    """Raise scikit-learn's error for a scorer that returns a dict where one score is needed."""
    for result in results:
        score = result["test_scores"]
        if isinstance(score, dict):
            raise ValueError(
                f"scoring must return a number, got {score} ({type(score)}) instead. "
                "cross_validate takes several scores."
            )


def job_of(
    estimator: Any,
    X: Any,
    y: Any,
    scorers: Any,
    owner: str,
    *,
    groups: Any,
    cv: Any,
    params: Any,
    n_jobs: int | None = None,
    pre_dispatch: Any = "2*n_jobs",
    method: str = "fit",
    lazily: bool = False,
    **task: Any,
) -> Job:
    """The job of the function `owner`; see `Task` for the task.

    Models are given `params` by `method`. `lazily` says that scikit-learn's function copies the
    estimator for one split before it makes the next.

    Raises
    ------
    ValueError
        For what scikit-learn's function rejects before it fits.
    """
    _check_groups_routing_disabled(groups)
    check_workers(n_jobs, pre_dispatch)
    given = params or {}  # `groups` may belong to an inner search
    own = {} if groups is None else {"groups": groups}
    X, y, columns = stored(X, y, {**given, **own})
    groups = columns["groups"] if own else None
    params = {name: columns[name] for name in given}
    X, y, groups = as_array(X), as_array(y), as_array(groups)
    X, y = indexable(X, y)
    params = {name: as_array(value) for name, value in params.items()}
    cv = check_splitter(cv, y, classifier=is_classifier(estimator))
    routed = _route(estimator, cv, scorers, params, groups, owner, method)
    noting = _Noting(cv, estimator)
    source = noting if lazily and _share_generator(estimator, cv) else cv
    splits = split_rows(source, X, y, _num_samples(X), **routed.splitter.split)
    if not splits:
        raise ValueError(f"cv={cv!r} gives no splits.")
    made = Task(
        scorer=scorers,
        fit_params={n: v for n, v in routed.estimator[method].items() if v is not None},
        score_params=dict(routed.scorer.score),
        **{"numbered": False, **task},
    )
    copies = tuple(noting.clones)
    return Job(clone(estimator), X, y, splits, made, n_jobs, pre_dispatch, estimators=copies)


def _share_generator(estimator, cv):
    """Whether a splitter that draws changes the state with which the estimator is copied."""
    random = getattr(cv, "random_state", None)
    is_generator = isinstance(random, np.random.RandomState) and hasattr(estimator, "get_params")
    return is_generator and any(value is random for value in estimator.get_params().values())


class _Noting:
    """A splitter that copies an estimator after each split."""

    def __init__(self, cv, estimator):
        self.cv, self.estimator, self.clones = cv, estimator, []

    def split(self, X, y=None, **params):
        for pair in self.cv.split(X, y, **params):
            self.clones.append(clone(self.estimator))
            yield pair


def _route(
    estimator: Any, cv: Any, scorers: Any, params: dict, groups: Any, owner: str, method: str
):
    """The parameters, routed to their consumers."""
    if not _routing_enabled():
        return Bunch(
            splitter=Bunch(split={"groups": groups}),
            estimator=Bunch(**{method: params}),
            scorer=Bunch(score={}),
        )
    router = (
        MetadataRouter(owner=owner)
        .add(splitter=cv, method_mapping=MethodMapping().add(caller="fit", callee="split"))
        .add(estimator=estimator, method_mapping=MethodMapping().add(caller="fit", callee=method))
    )
    scores = hasattr(scorers, "get_metadata_routing")
    if scores:
        router.add(scorer=scorers, method_mapping=MethodMapping().add(caller="fit", callee="score"))
    try:
        routed = process_routing(router, "fit", **params)
    except UnsetMetadataPassedError as error:
        raise UnsetMetadataPassedError(
            message=str(error).replace(f"{owner}.fit", owner),
            unrequested_params=error.unrequested_params,
            routed_params=error.routed_params,
        ) from error
    scorer = routed.scorer if scores else Bunch(score={})
    return Bunch(splitter=routed.splitter, estimator=routed.estimator, scorer=scorer)


def _collect(results, splits, return_indices):
    out: dict[str, Any] = {
        key: np.asarray([result[key] for result in results]) for key in ("fit_time", "score_time")
    }
    if "estimator" in results[0]:
        out["estimator"] = [result["estimator"] for result in results]
    if return_indices:
        out["indices"] = {
            part: tuple(row_indices(getattr(split, part)) for split in splits)
            for part in ("train", "test")
        }
    tables = {
        part: _normalize_score_results([result[f"{part}_scores"] for result in results])
        for part in ("test", "train")
        if f"{part}_scores" in results[0]
    }
    for name in tables["test"]:
        for part, table in tables.items():
            out[f"{part}_{name}"] = np.asarray(table[name])
    return out

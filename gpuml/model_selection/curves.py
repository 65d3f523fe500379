"""Scores over values of a parameter, or over training set sizes, from one pass over the rows."""

import time
import warnings
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn import model_selection as sk
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning
from sklearn.utils import check_random_state

from gpuml._arrays import is_foreign
from gpuml._sklearn import (
    HasMethods,
    StrOptions,
    _num_samples,
    _translate_train_sizes,
    _warn_or_raise_about_fit_failures,
    validate_params,
)
from gpuml.data import Split, row_indices
from gpuml.exceptions import level_of_user
from gpuml.metrics.scorer import check_scoring
from gpuml.model_selection.evaluate import Evaluator, Job
from gpuml.model_selection.inside import rows_within
from gpuml.model_selection.one_by_one import Part, params_of, score_model
from gpuml.model_selection.trainers import with_classes
from gpuml.model_selection.validation import check_one_score, evaluate, job_of

# Shares of a training set; scikit-learn's default.
SHARES = np.linspace(0.1, 1.0, 5)

# Joined with `|`: Sphinx can parse no `**` in a decorator, and would show no source.
_CONSTRAINTS: dict = {
    "estimator": [HasMethods(["fit"])],
    "X": "no_validation",
    "y": "no_validation",
    "groups": ["array-like", None],
    "cv": ["cv_object"],
    "scoring": [str, callable, None],
    "n_jobs": [Integral, None],
    "pre_dispatch": [Integral, str],
    "verbose": ["verbose"],
    "error_score": [StrOptions({"raise"}), Real],
    "params": [dict, None],
}


@validate_params(
    _CONSTRAINTS | {"param_name": [str], "param_range": ["array-like"]},
    prefer_skip_nested_validation=False,
)
def validation_curve(
    estimator,
    X,
    y,
    *,
    param_name,
    param_range,
    groups=None,
    cv=None,
    scoring=None,
    n_jobs=None,
    pre_dispatch="all",
    verbose=0,
    error_score: Any = np.nan,
    params=None,
):
    """Scores on training and held-out rows for values of a parameter, all fitted together.

    The values are candidates, fitted and scored as by `GridSearchCV`.

    Parameters
    ----------
    estimator : estimator
    X : array-like of shape (n_samples, n_features)
        In any array library; device data stays on its device.
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
    param_name : str
        The parameter to vary; nested names as ``step__alpha``.
    param_range : array-like of shape (n_values,)
    groups, cv, scoring, n_jobs, pre_dispatch, verbose, error_score, params
        As for `cross_val_score`.

    Returns
    -------
    train_scores, test_scores : ndarrays of shape (n_values, n_splits), in CPU memory
        `error_score` where a fit fails, which a FitFailedWarning says, even if all fail.

    Raises
    ------
    ValueError
        If scikit-learn's function would raise it.

    See Also
    --------
    learning_curve : Scores over the number of training rows.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from gpuml.linear_model import Ridge
    >>> from gpuml.model_selection import validation_curve
    >>> X, y = load_diabetes(return_X_y=True)
    >>> train, test = validation_curve(Ridge(), X, y, param_name="alpha", param_range=[0.01, 1.0])
    >>> test.mean(axis=1).round(2)
    array([0.48, 0.41])
    """
    job = job_of(
        estimator,
        X,
        y,
        check_scoring(estimator, scoring),
        "validation_curve",
        groups=groups,
        cv=cv,
        params=params,
        n_jobs=n_jobs,
        pre_dispatch=pre_dispatch,
        return_train_score=True,
        error_score=error_score,
        verbose=verbose,
        lazily=True,
    )
    results = evaluate(job, [{param_name: value} for value in param_range])
    try:
        _warn_or_raise_about_fit_failures(results, error_score)
    except ValueError as error:  # all fail, and the curve is one of `error_score`
        warnings.warn(str(error), FitFailedWarning, stacklevel=level_of_user())
    found = _tables(results)
    shape = (len(param_range), len(job.splits))
    return found["train_scores"].reshape(shape), found["test_scores"].reshape(shape)


@validate_params(
    _CONSTRAINTS
    | {
        "train_sizes": ["array-like"],
        "exploit_incremental_learning": ["boolean"],
        "shuffle": ["boolean"],
        "random_state": ["random_state"],
        "return_times": ["boolean"],
    },
    prefer_skip_nested_validation=False,
)
def learning_curve(
    estimator,
    X,
    y,
    *,
    groups=None,
    train_sizes=SHARES,
    cv=None,
    scoring=None,
    exploit_incremental_learning=False,
    n_jobs=None,
    pre_dispatch="all",
    verbose=0,
    shuffle=False,
    random_state=None,
    error_score: Any = np.nan,
    return_times=False,
    params=None,
):
    """Scores on training and held-out rows for growing training sets, all fitted together.

    A training size selects the first rows of a training set, so each pair of size and training set
    is a split: sums over rows that several splits share are computed once.

    Parameters
    ----------
    estimator : estimator
    X : array-like of shape (n_samples, n_features)
        In any array library; device data stays on its device.
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
    groups : array-like of shape (n_samples,), default=None
    train_sizes : array-like of shape (n_sizes,), default=np.linspace(0.1, 1.0, 5)
        Numbers of training rows; floats are shares of the first training set.
    cv, scoring, n_jobs, pre_dispatch, verbose, error_score, params
        As for `cross_val_score`.
    exploit_incremental_learning : bool, default=False
        Whether to train one model per split on more and more rows, by `partial_fit`. For NumPy
        arrays and DataFrames, scikit-learn's function does this, and `n_jobs` divides the splits;
        other arrays stay on their device, one split after the other.
    shuffle : bool, default=False
        Whether to shuffle the rows of a training set before the first ones are selected.
    random_state : int, RandomState or None, default=None
        Seed of `shuffle`.
    return_times : bool, default=False
        Whether to return seconds too; the time of a batch is divided evenly among its fits.

    Returns
    -------
    train_sizes_abs : int ndarray of shape (n_unique_sizes,)
    train_scores, test_scores : ndarrays of shape (n_unique_sizes, n_splits), in CPU memory
    fit_times, score_times : ndarrays of shape (n_unique_sizes, n_splits)
        With `return_times`.

    Raises
    ------
    ValueError
        If all fits fail, or scikit-learn's function would raise it.

    See Also
    --------
    validation_curve : Scores over the values of a parameter.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from gpuml.linear_model import Ridge
    >>> from gpuml.model_selection import learning_curve
    >>> X, y = load_diabetes(return_X_y=True)
    >>> sizes, train, test = learning_curve(Ridge(), X, y, train_sizes=[0.2, 1.0])
    >>> sizes, test.mean(axis=1).round(2)
    (array([ 70, 353]), array([0.14, 0.41]))
    """
    if exploit_incremental_learning and not is_foreign(X):
        given = {name: value for name, value in locals().items() if name not in ("X", "y")}
        return sk.learning_curve(X=X, y=y, **given)
    grows = exploit_incremental_learning
    if grows and not hasattr(estimator, "partial_fit"):
        raise ValueError(
            "exploit_incremental_learning=True needs an estimator with partial_fit, which "
            f"{type(estimator).__name__} does not have."
        )
    job = job_of(
        estimator,
        X,
        y,
        check_scoring(estimator, scoring),
        "learning_curve",
        groups=groups,
        cv=cv,
        params=params,
        n_jobs=n_jobs,
        pre_dispatch=pre_dispatch,
        return_train_score=True,
        error_score=error_score,
        verbose=verbose,
        method="partial_fit" if grows else "fit",
    )
    sizes = _translate_train_sizes(train_sizes, job.splits[0].n_train)
    if verbose > 0:
        print(f"[learning_curve] Training set sizes: {sizes}")
    parts: list[Any] = [split.train for split in job.splits]
    if shuffle:
        random = check_random_state(random_state)
        parts = [random.permutation(row_indices(part)) for part in parts]
        job = replace(job, estimator=clone(estimator))  # which may hold this generator
    n_rows = _num_samples(job.X)
    # A training set with fewer rows than the first one gives all its rows for larger sizes.
    splits = [
        Split(rows_within(part, slice(0, min(size, split.n_train)), n_rows), split.test)
        for part, split in zip(parts, job.splits, strict=True)
        for size in map(int, sizes)
    ]
    job = replace(job, splits=splits)
    if grows:
        found = _grown(job, len(sizes))
    else:
        results = Evaluator(job).evaluate([{}])
        _warn_or_raise_about_fit_failures(results, error_score)
        found = _tables(results)
    names = ["train_scores", "test_scores"]
    names += ["fit_time", "score_time"] if return_times else []
    return sizes, *(found[name].reshape(len(parts), len(sizes)).T for name in names)


def _tables(results: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    """Scores and seconds of every candidate on every split, split after split of a candidate."""
    check_one_score(results)
    names = ("train_scores", "test_scores", "fit_time", "score_time")
    return {name: np.asarray([result[name] for result in results]) for name in names}


def _grown(job: Job, n_sizes: int) -> dict[str, np.ndarray]:
    """The same for models that learn more and more rows by `partial_fit`."""
    task, results = with_classes(job.estimator, job.y, job.task), []
    for number, split in enumerate(job.splits):
        if number % n_sizes == 0:
            model, n_seen = clone(job.estimator), 0
        started = time.perf_counter()
        new = Part(rows_within(split.train, slice(n_seen, split.n_train), _num_samples(job.X)))
        y = () if job.y is None else (new.of(job.y),)
        model.partial_fit(new.of(job.X), *y, **params_of(job.X, task.fit_params, new))
        n_seen, fitted = split.n_train, time.perf_counter()
        result: dict[str, Any] = {"fit_time": fitted - started}
        for name in ("test", "train"):
            part = Part(getattr(split, name))
            params = params_of(job.X, task.score_params, part)
            rows = part.of(job.X), None if job.y is None else part.of(job.y)
            result[f"{name}_scores"] = score_model(model, *rows, params, task)
        results.append(result | {"score_time": time.perf_counter() - fitted})
    return _tables(results)

"""Predictions for held-out rows."""

from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np

from gpuml._arrays import as_array, is_foreign, move, place_of, to_host
from gpuml._sklearn import (
    HasMethods,
    StrOptions,
    _MultimetricScorer,
    _num_samples,
    validate_params,
)
from gpuml.model_selection.evaluate import Evaluator
from gpuml.model_selection.kept import BY_CLASS, RESPONSES, Kept, by_row, check_partition, is_flat
from gpuml.model_selection.validation import job_of


@validate_params(
    {
        "estimator": [HasMethods(["fit", "predict"])],
        "X": "no_validation",
        "y": "no_validation",
        "groups": ["array-like", None],
        "cv": ["cv_object"],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
        "params": [dict, None],
        "pre_dispatch": [Integral, str, None],
        "method": [StrOptions(set(RESPONSES))],
    },
    prefer_skip_nested_validation=False,
)
def cross_val_predict(
    estimator,
    X,
    y=None,
    *,
    groups=None,
    cv=None,
    n_jobs=None,
    verbose=0,
    params=None,
    pre_dispatch: Any = "2*n_jobs",
    method="predict",
):
    """Predict each row by a model fitted without it; folds are fitted together if possible.

    Parameters
    ----------
    estimator : estimator
    X : array-like of shape (n_samples, n_features)
        In any array library; device data stays on its device.
    y : array-like of shape (n_samples,) or (n_samples, n_outputs), default=None
    groups : array-like of shape (n_samples,), default=None
    cv : int, splitter or iterable of index pairs, default=None
        Each row must be held out exactly once; None is 5 folds.
    n_jobs, verbose, params, pre_dispatch
        As for `cross_validate`.
    method : {"predict", "predict_proba", "predict_log_proba", "decision_function"}, \
default="predict"
        The method of the models that predicts.

    Returns
    -------
    predictions : array of shape (n_samples,) or (n_samples, n_classes), or a list of those
        Predictions in the order of the rows, on the device of X. A class that is missing in a
        training set gets probability 0; for other methods, the smallest finite number.

    Raises
    ------
    ValueError
        If the splits do not hold out each row exactly once, or scikit-learn's function would raise
        it. Errors of fits are raised, too.

    See Also
    --------
    cross_val_score : Scores of these predictions, split by split.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from gpuml.linear_model import Ridge
    >>> from gpuml.model_selection import cross_val_predict
    >>> X, y = load_diabetes(return_X_y=True)
    >>> cross_val_predict(Ridge(), X, y)[:3].round(1)
    array([181.8,  92.8, 166.3])
    """
    job = job_of(
        estimator,
        X,
        y,
        # No scorer: only predictions are needed.
        _MultimetricScorer(scorers={}),
        "cross_val_predict",
        groups=groups,
        cv=cv,
        params=params,
        n_jobs=n_jobs,
        pre_dispatch=pre_dispatch,
        return_train_score=False,
        error_score="raise",
        verbose=verbose,
    )
    codes, classes = job.y, None
    if method in BY_CLASS and job.y is not None:
        codes, classes = _encoded(job.y)  # splits are of the labels
    kept = Kept(method, classes, is_flat(job.y))
    job = replace(job, y=codes, task=replace(job.task, kept=kept))
    held_out = check_partition(job.splits, _num_samples(job.X), "cross_val_predict")
    results = Evaluator(job).evaluate([{}])
    return by_row([result["predictions"] for result in results], np.argsort(held_out), job.X)


def _encoded(y: Any) -> tuple[Any, Any]:
    """Labels as codes from 0 on, and all labels, for each output."""
    known = as_array(y)
    labels = np.asarray(to_host(known) if is_foreign(known) else known)
    if labels.ndim == 1:
        names, codes = np.unique(labels, return_inverse=True)
        classes: Any = np.arange(len(names))
    else:
        found = [np.unique(column, return_inverse=True) for column in labels.T]
        codes = np.stack([own for _, own in found], axis=1)
        classes = [np.arange(len(names)) for names, _ in found]
    return (move(codes, place_of(known)) if is_foreign(known) else codes), classes

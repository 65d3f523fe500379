"""What models say of rows that they were not fitted to."""

from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse

from gpuml._arrays import as_array, is_foreign, move, namespace, place_of, to_host
from gpuml._sklearn import (
    HasMethods,
    StrOptions,
    _check_is_permutation,
    _enforce_prediction_order,
    _MultimetricScorer,
    _num_samples,
    validate_params,
)
from gpuml.data import row_indices
from gpuml.model_selection.evaluate import Evaluator
from gpuml.model_selection.one_by_one import rows_of
from gpuml.model_selection.validation import job_of

# Methods that give a column for each class.
BY_CLASS = ("decision_function", "predict_proba", "predict_log_proba")


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
        "method": [StrOptions({"predict", *BY_CLASS})],
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
    pre_dispatch="2*n_jobs",
    method="predict",
):
    """What models say of each row that were fitted without it; all models fitted together.

    Parameters
    ----------
    estimator : estimator
    X : array-like of shape (n_samples, n_features)
        Of any array library; device data stays on its device.
    y : array-like of shape (n_samples,) or (n_samples, n_outputs), default=None
    groups : array-like of shape (n_samples,), default=None
    cv : int, splitter or iterable of index pairs, default=None
        Each row is in one held-out part; None is 5 folds.
    n_jobs, verbose, params, pre_dispatch
        As for `cross_validate`.
    method : {"predict", "predict_proba", "predict_log_proba", "decision_function"}, \
default="predict"
        What the models are asked for.

    Returns
    -------
    predictions : array of shape (n_samples,) or (n_samples, n_classes), or a list of those
        As what `method` returns: of rows on a device there, else in CPU memory. A class that a
        training part lacks has probability 0, and the least finite number otherwise.

    Raises
    ------
    ValueError
        If held-out parts are no partition, or for what scikit-learn's function rejects. What a fit
        raises is raised.

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
    encoded, n_classes = y, None
    if method in BY_CLASS and y is not None:
        encoded, n_classes = _encoded(y)
    job = job_of(
        estimator,
        X,
        encoded,
        # No scorer at all: models are asked for something else.
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
        return_estimator=True,
    )
    held_out = np.concatenate([row_indices(split.test) for split in job.splits])
    if not _check_is_permutation(held_out, _num_samples(job.X)):
        raise ValueError("cross_val_predict only works for partitions")
    results = Evaluator(job).evaluate([{}])
    found = []
    for split, result in zip(job.splits, results, strict=True):
        model = result["estimator"]
        said = getattr(model, method)(rows_of(job.X, split.test))
        found.append(said if n_classes is None else _in_order(model, said, n_classes, method))
    order = np.argsort(held_out)
    if isinstance(found[0], list):
        return [_joined(each, order) for each in zip(*found, strict=True)]
    return _joined(found, order)


def _encoded(y: Any) -> tuple[Any, Any]:
    """Labels as numbers from 0 on, and how many there are, for each output."""
    known = as_array(y)
    labels = np.asarray(to_host(known) if is_foreign(known) else known)
    if labels.ndim == 1:
        classes, codes = np.unique(labels, return_inverse=True)
        n_classes: Any = len(classes)
    else:
        found = [np.unique(column, return_inverse=True) for column in labels.T]
        codes = np.stack([own for _, own in found], axis=1)
        n_classes = [len(classes) for classes, _ in found]
    return (move(codes, place_of(known)) if is_foreign(known) else codes), n_classes


def _in_order(model, said, n_classes, method):
    """Columns of all classes, of those too that the model has not seen."""
    if isinstance(said, list):
        return [
            _all_classes(model.classes_[k], own, n_classes[k], method) for k, own in enumerate(said)
        ]
    # Labels of several outputs are an indicator matrix here.
    n_columns = n_classes if isinstance(n_classes, int) else len(n_classes)
    return _all_classes(model.classes_, said, n_columns, method)


def _all_classes(classes, said, n_classes, method):
    if n_classes == classes.shape[0]:
        return said
    place = place_of(said) if is_foreign(said) else None
    host = to_host(said) if place else said
    whole = _enforce_prediction_order(to_host(classes), host, n_classes, method)
    return move(whole, place) if place else whole


def _joined(parts, order):
    """Rows of all parts in the order of the rows of X."""
    if sparse.issparse(parts[0]):
        return sparse.vstack(parts, format=parts[0].format)[order]
    if not is_foreign(parts[0]):
        return np.concatenate(parts)[order]
    xp = namespace(*parts)
    return xp.take(xp.concat(list(parts)), move(order, place_of(parts[0])), axis=0)

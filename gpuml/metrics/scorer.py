"""Scorers: scikit-learn's objects and names, whose work is done where the data is.

A scorer for a metric of `gpuml.metrics` calls ours. Every other one calls scikit-learn's metric, in
CPU memory: labels and scores of the held-out rows are brought there in one copy each, so that it
works for arrays of any library and device.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from typing import Any

import sklearn.metrics as sk
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.pipeline import Pipeline

from gpuml._settings.suggestions import did_you_mean
from gpuml._sklearn import _check_response_method, _PassthroughScorer, _Scorer
from gpuml.metrics import classification, probabilities, ranking, regression
from gpuml.metrics._batch_scorers import (
    BatchScorer,
    ClassBatchScorer,
    InertiaScorer,
    LikelihoodScorer,
    class_batch,
    regression_batch,
)
from gpuml.metrics._batched import METRICS, OF_MODELS
from gpuml.metrics._classes import CLASS_METRICS
from gpuml.metrics._host import is_unreadable, on_host

__all__ = [
    "BatchScorer",
    "ClassBatchScorer",
    "InertiaScorer",
    "LikelihoodScorer",
    "batch_scorer",
    "check_scoring",
    "get_scorer",
    "get_scorer_names",
]

# scikit-learn's error for an unknown string.
WRONG_VALUE = re.compile(r"a str among \{(?P<known>.*?)\}.* Got '(?P<given>\w+)' instead\.", re.S)
WRONG_SCORER = re.compile(r"'(?P<given>\w+)' is not a valid scoring value")
# Our functions by the names of their metrics.
FUNCTIONS: dict[str, Callable] = {
    name: function
    for module in (regression, classification, probabilities, ranking)
    for name, function in vars(module).items()
    if name in METRICS or name in CLASS_METRICS
}


@contextmanager
def suggesting() -> Iterator[None]:
    """Add what was meant to scikit-learn's errors for unknown scorers and values of parameters."""
    try:
        yield
    except ValueError as error:
        if found := WRONG_VALUE.search(str(error)):
            known = re.findall(r"'(\w+)'", found["known"])
        elif found := WRONG_SCORER.match(str(error)):
            known = sk.get_scorer_names()
        else:
            raise
        raise type(error)(f"{error}{did_you_mean(found['given'], known)}") from None


def get_scorer_names() -> list[str]:
    """Names that `get_scorer` accepts; they are scikit-learn's.

    Returns
    -------
    names : list of str

    Examples
    --------
    >>> from gpuml.metrics import get_scorer_names
    >>> "r2" in get_scorer_names()
    True
    """
    return sk.get_scorer_names()


def get_scorer(scoring: str | Callable | None) -> Callable | None:
    """Get a scorer by its scikit-learn name.

    Parameters
    ----------
    scoring : str, callable or None
        A name gives a new scorer object. A callable, and None, are returned as they are.

    Returns
    -------
    scorer : callable ``(estimator, X, y, *, sample_weight=None) -> float``
        A scorer object of scikit-learn: its tools for cloning, pickling and metadata routing
        work. Greater is better. X and y may be of any array library and device. Regression and
        classification are scored where the predictions are; for other metrics (of clusterings)
        the target and the predictions, not X, are copied to CPU memory.

    Raises
    ------
    ValueError
        If there is no scorer of that name.

    Examples
    --------
    >>> import numpy as np
    >>> from gpuml.linear_model import Ridge
    >>> from gpuml.metrics import get_scorer
    >>> X, y = np.arange(4.0)[:, None], np.arange(4.0)
    >>> get_scorer("r2")(Ridge(alpha=0).fit(X, y), X, y)
    1.0
    """
    with suggesting():
        theirs = sk.get_scorer(scoring)
    if not isinstance(scoring, str):
        return theirs
    metric, sign, options = theirs._score_func, theirs._sign, theirs._kwargs
    name, response = metric.__name__, theirs._response_method
    if name in CLASS_METRICS:
        return _DeviceScorer(FUNCTIONS[name], sign, options, response)
    if name in METRICS:
        return sk.make_scorer(FUNCTIONS[name], greater_is_better=sign > 0, **options)
    return _HostScorer(metric, sign, options, response)


def check_scoring(
    estimator: Any = None, scoring: Any = None, *, allow_none: bool = False, raise_exc: bool = True
) -> Any:
    """scikit-learn's `check_scoring`, with names looked up here.

    Parameters
    ----------
    estimator : estimator or None, default=None
        Scored by its own `score` where `scoring` is None.
    scoring : str, callable, list, tuple, set, dict or None, default=None
        A name or a scorer; several names; or a dict of names or scorers by a name of your own.
    allow_none : bool, default=False
        Whether an estimator without `score` and without `scoring` gives None, not an error.
    raise_exc : bool, default=True
        Whether one failing metric of several raises. If not, its score is the text of the error.

    Returns
    -------
    scorer : callable or None
        ``(estimator, X, y) -> float``, or a dict of floats for several metrics.

    Raises
    ------
    ValueError
        An unknown name, duplicates, nothing in a list or dict, or a metric in place of a scorer.
    TypeError
        Neither `scoring` nor a method `score`.

    Examples
    --------
    >>> import numpy as np
    >>> from gpuml.linear_model import Ridge
    >>> from gpuml.metrics import check_scoring
    >>> X, y = np.arange(4.0)[:, None], np.arange(4.0)
    >>> model = Ridge(alpha=0).fit(X, y)
    >>> check_scoring(model, ["r2", "neg_max_error"])(model, X, y)["r2"]
    1.0
    """
    if scoring is None and hasattr(estimator, "fit") and hasattr(estimator, "score"):
        return _PassthroughScorer(estimator)  # as scikit-learn's, whose check of arguments is slow
    if isinstance(scoring, dict):
        scoring = {name: _scorer_for(value) for name, value in scoring.items()}
    elif isinstance(scoring, list | tuple | set):
        scoring = _named_scorers(scoring)
    else:
        scoring = _scorer_for(scoring)
    with suggesting():
        return sk.check_scoring(estimator, scoring, allow_none=allow_none, raise_exc=raise_exc)


def _named_scorers(names):
    """Scorers by name; what is wrong with the names is left for scikit-learn to say."""
    known = get_scorer_names()
    right = all(isinstance(name, str) and name in known for name in names)
    if not right or len(set(names)) != len(names) or not names:
        return names
    return {name: get_scorer(name) for name in names}


def _scorer_for(scoring):
    if any(scoring is function for function in FUNCTIONS.values()):
        raise ValueError(
            f"scoring value {scoring!r} looks like it is a metric function rather than a scorer. A "
            "scorer takes an estimator first; make one with gpuml.metrics.make_scorer."
        )
    is_known = isinstance(scoring, str) and scoring in get_scorer_names()
    return get_scorer(scoring) if is_known else scoring


# ---------------------------------------------------------------- many models at once


def batch_scorer(
    scorer: Any, *, has_decisions: bool = True
) -> BatchScorer | ClassBatchScorer | InertiaScorer | LikelihoodScorer | None:
    """The batched form of a scorer; None if it must be called for each model.

    `has_decisions` says whether its models have a `decision_function`.
    """
    if isinstance(scorer, _PassthroughScorer):
        return _own_score(scorer._estimator)
    # Another subclass may do something else with the predictions.
    if type(scorer) not in (_Scorer, _DeviceScorer):
        return None
    name, sign = _metric_of(scorer._score_func), float(scorer._sign)
    options, response = dict(scorer._kwargs), scorer._response_method
    if not has_decisions and not isinstance(response, str):
        response = [each for each in response if each != "decision_function"]
    if name in METRICS:
        return regression_batch(name, sign, options, response)
    if name in CLASS_METRICS:
        return class_batch(name, sign, options, response)
    return None


def _explained(estimator):
    # GammaRegressor has another power of the mean than PoissonRegressor.
    return BatchScorer("d2_tweedie_score", 1.0, {"power": estimator.power, **OF_MODELS})


# By what estimators call it, from the estimator.
_OWN_SCORES: dict[
    str, Callable[[Any], BatchScorer | ClassBatchScorer | InertiaScorer | LikelihoodScorer]
] = {
    "r2": lambda estimator: BatchScorer("r2_score", 1.0, {}),
    "accuracy": lambda estimator: ClassBatchScorer("accuracy_score", 1.0, {}, "labels"),
    "d2_tweedie": _explained,
    "inertia": lambda estimator: InertiaScorer(),
    "log_likelihood": lambda estimator: LikelihoodScorer(),
}


def _metric_of(function):
    """The name of a metric of gpuml or scikit-learn; None for other functions."""
    name = getattr(function, "__name__", "")
    ours = FUNCTIONS.get(name)
    theirs = [vars(module).get(name) for module in (sk, sk._scorer)]
    return name if ours is not None and any(function is f for f in (ours, *theirs)) else None


def _own_score(estimator):
    """The batched form of an estimator's `score`, if it is known; else None.

    It is scikit-learn's, or the estimator says so beside it.
    """
    if type(estimator) is Pipeline:
        return _own_score(estimator.steps[-1][1])  # which is what the pipeline's calls
    kind = type(estimator)
    score = _owner(kind, "score")
    # A subclass with its own `score` does not inherit the declaration of its parent.
    if score is not None and _owner(kind, "multifit_score") is score:
        name = kind.multifit_score
    else:
        name = {RegressorMixin: "r2", ClassifierMixin: "accuracy"}.get(score)
    return _OWN_SCORES[name](estimator) if name in _OWN_SCORES else None


def _owner(kind, name):
    """The class that defines a member, other than for rows on the workers of gpuml_dask."""
    here = (base for base in kind.__mro__ if not base.__module__.startswith("gpuml_dask."))
    return next((base for base in here if name in vars(base)), None)


# ---------------------------------------------------------------- estimators on devices


class _DeviceScorer(_Scorer):
    """scikit-learn's scorer for metrics that take predictions on any device."""

    def _score(self, method_caller, estimator, X, y_true, **kwargs):
        _check_response_method(estimator, self._response_method)
        if is_unreadable(getattr(estimator, "classes_", None)):
            estimator = _HostView(estimator, ("classes_",))
        return super()._score(method_caller, estimator, X, y_true, **kwargs)


class _HostScorer(_Scorer):
    """scikit-learn's scorer that also takes data and predictions NumPy cannot read."""

    def _score(self, method_caller, estimator, X, y_true, **kwargs):
        # Check here, so that an error names the estimator and not the view.
        _check_response_method(estimator, self._response_method)
        if is_unreadable(X) or is_unreadable(getattr(estimator, "classes_", None)):
            estimator = _HostView(estimator, ("classes_", *_RESPONSES))
        kwargs = {name: on_host(value) for name, value in kwargs.items()}
        # Predictions may come from a cache that other scorers filled on a device.
        caller = partial(_call_to_host, method_caller)
        return super()._score(caller, estimator, X, on_host(y_true), **kwargs)


_RESPONSES = ("predict", "predict_proba", "predict_log_proba", "decision_function")


class _HostView:
    """A fitted estimator some of whose predictions and attributes come as NumPy arrays."""

    def __init__(self, estimator, names):
        self._estimator = estimator
        self._names = names

    def __getattr__(self, name):
        if name.startswith("__") and name != "__sklearn_tags__":
            raise AttributeError(name)
        value = getattr(self._estimator, name)
        if name not in self._names:
            return value
        if name in _RESPONSES:
            return wraps(value)(partial(_call_to_host, value))
        return on_host(value)


def _call_to_host(function, *args, **kwargs):
    return on_host(function(*args, **kwargs))

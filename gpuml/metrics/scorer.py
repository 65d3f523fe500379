"""Scorers: scikit-learn's objects and names, whose work is done where the data is.

A scorer for a regression metric calls ours. Every other one calls scikit-learn's metric, on the
host: labels and scores of the held-out rows are brought there in one copy each, so that it works
for arrays of any library and device.
"""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import sklearn.metrics as sk
from sklearn.base import RegressorMixin
from sklearn.metrics._scorer import (
    _check_multimetric_scoring,
    _MultimetricScorer,
    _PassthroughScorer,
    _Scorer,
)

from gpuml._arrays import Array, is_array, is_numpy, to_host
from gpuml.metrics import regression
from gpuml.metrics._batched import METRICS, evaluate, evaluate_moments
from gpuml.metrics.residuals import ResidualMoments


def get_scorer_names() -> list[str]:
    """Names that `get_scorer` takes: scikit-learn's.

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


def get_scorer(scoring: str | Callable) -> Callable:
    """A scorer by its scikit-learn name; a callable is returned as it is.

    Parameters
    ----------
    scoring : str or callable

    Returns
    -------
    scorer : callable ``(estimator, X, y, *, sample_weight=None) -> float``
        Greater is better. X and y may be of any array library and device.

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
    if not isinstance(scoring, str):
        return sk.get_scorer(scoring)
    theirs = sk.get_scorer(scoring)
    name = theirs._score_func.__name__
    if name in METRICS:
        ours = getattr(regression, name)
        return sk.make_scorer(ours, greater_is_better=theirs._sign > 0, **theirs._kwargs)
    response = theirs._response_method
    return _HostScorer(theirs._score_func, theirs._sign, theirs._kwargs, response)


def check_scoring(
    estimator: Any = None, scoring: Any = None, *, allow_none: bool = False, raise_exc: bool = True
) -> Any:
    """scikit-learn's `check_scoring`, with names looked up here.

    Parameters
    ----------
    estimator : estimator
    scoring : str, callable, list, tuple, set, dict or None
    allow_none : bool, default=False
        Whether an estimator without `score` and without `scoring` gives None, not an error.
    raise_exc : bool, default=True
        Whether one failing metric of several raises.

    Returns
    -------
    scorer : callable
        ``(estimator, X, y) -> float``, or a dict of floats for several metrics.
    """
    if isinstance(scoring, list | tuple | set | dict):
        names = _check_multimetric_scoring(estimator, scoring)
        chosen = scoring if isinstance(scoring, dict) else {name: name for name in scoring}
        scorers = {
            key: get_scorer(chosen[key]) if isinstance(chosen[key], str) else scorer
            for key, scorer in names.items()
        }
        return _MultimetricScorer(scorers=scorers, raise_exc=raise_exc)
    if isinstance(scoring, str):
        return get_scorer(scoring)
    return sk.check_scoring(estimator, scoring, allow_none=allow_none, raise_exc=raise_exc)


@dataclass(frozen=True)
class BatchScorer:
    """A scorer that takes the predictions of many models at once, or sums of their residuals."""

    metric: str
    sign: float
    options: Mapping[str, Any]

    @property
    def uses_moments(self) -> bool:
        """Whether sums of residuals are all that it needs."""
        return METRICS[self.metric].uses_moments

    def from_moments(self, moments: ResidualMoments) -> Array:
        """Scores (...) of sums with leading axes (...)."""
        return self.sign * evaluate_moments(self.metric, moments, self.options)

    def from_predictions(self, y_true: Array, y_pred: Array, weight: Array | None) -> Array:
        """Scores (C,) of y_true (n, t) and predictions (C, n, t)."""
        return self.sign * evaluate(self.metric, y_true, y_pred, weight, self.options)


def batch_scorer(scorer: Any) -> BatchScorer | None:
    """The batched form of a scorer, or None where it has to be called model by model."""
    if isinstance(scorer, _PassthroughScorer):
        estimator = scorer._estimator
        plain = type(estimator).score is RegressorMixin.score
        if plain or getattr(estimator, "multifit_score", None) == "r2":
            return BatchScorer("r2_score", 1.0, {})
        return None
    # A subclass may do something else with the predictions.
    if type(scorer) is not _Scorer or scorer._response_method != "predict":
        return None
    function = scorer._score_func
    name = getattr(function, "__name__", None)
    if name not in METRICS or function not in (getattr(regression, name), getattr(sk, name)):
        return None
    options = scorer._kwargs
    if not set(options) <= set(METRICS[name].options):
        return None
    if isinstance(options.get("multioutput"), str) and options["multioutput"] == "raw_values":
        return None
    return BatchScorer(name, float(scorer._sign), dict(options))


class _HostScorer(_Scorer):
    """scikit-learn's scorer that also takes data and predictions NumPy cannot read."""

    def _score(self, method_caller, estimator, X, y_true, **kwargs):
        if _is_foreign(X) or _is_foreign(y_true):
            estimator = _HostView(estimator)
            y_true = _on_host(y_true)
            kwargs = {name: _on_host(value) for name, value in kwargs.items()}
        return super()._score(method_caller, estimator, X, y_true, **kwargs)


class _HostView:
    """A fitted estimator whose predictions and classes come as NumPy arrays."""

    def __init__(self, estimator):
        self._estimator = estimator

    def __getattr__(self, name):
        if name.startswith("__") and name != "__sklearn_tags__":
            raise AttributeError(name)
        value = getattr(self._estimator, name)
        if name in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
            return functools.wraps(value)(lambda X: _on_host(value(X)))
        return _on_host(value)


def _is_foreign(x):
    return is_array(x) and not is_numpy(x)


def _on_host(x):
    if isinstance(x, list):
        return [_on_host(item) for item in x]
    return to_host(x) if is_array(x) else x

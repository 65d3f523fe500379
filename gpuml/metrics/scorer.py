"""Scorers: scikit-learn's objects and names, whose work is done where the data is.

A scorer for a regression metric calls ours. Every other one calls scikit-learn's metric, on the
host: labels and scores of the held-out rows are brought there in one copy each, so that it works
for arrays of any library and device.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any

import sklearn.metrics as sk
from sklearn.base import RegressorMixin
from sklearn.metrics._scorer import _PassthroughScorer, _Scorer
from sklearn.utils._param_validation import InvalidParameterError
from sklearn.utils.validation import _check_response_method

from gpuml._arrays import Array, as_array, is_array, is_numpy, to_host
from gpuml.metrics import regression
from gpuml.metrics._batched import METRICS, evaluate, evaluate_moments
from gpuml.metrics._input import check_parameters
from gpuml.metrics._outputs import is_raw
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


def get_scorer(scoring: str | Callable | None) -> Callable | None:
    """A scorer by its scikit-learn name.

    Parameters
    ----------
    scoring : str, callable or None
        A name gives a new scorer object. A callable, and None, are returned as they are.

    Returns
    -------
    scorer : callable ``(estimator, X, y, *, sample_weight=None) -> float``
        A scorer object of scikit-learn: its tools for cloning, pickling and metadata routing
        work. Greater is better. X and y may be of any array library and device. Regression is
        scored where the predictions are; for other metrics the target and the predictions, not
        X, are copied to the host.

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
    theirs = sk.get_scorer(scoring)
    if not isinstance(scoring, str):
        return theirs
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
    if isinstance(scoring, dict):
        scoring = {name: _scorer_for(value) for name, value in scoring.items()}
    elif isinstance(scoring, list | tuple | set):
        scoring = _named_scorers(scoring)
    else:
        scoring = _scorer_for(scoring)
    return sk.check_scoring(estimator, scoring, allow_none=allow_none, raise_exc=raise_exc)


def _named_scorers(names):
    """Scorers by name; what is wrong with the names is left for scikit-learn to say."""
    known = get_scorer_names()
    right = all(isinstance(name, str) and name in known for name in names)
    if not right or len(set(names)) != len(names) or not names:
        return names
    return {name: get_scorer(name) for name in names}


def _scorer_for(scoring):
    if any(scoring is getattr(regression, name) for name in METRICS):
        raise ValueError(
            f"scoring value {scoring!r} looks like it is a metric function rather than a scorer. A "
            "scorer takes an estimator first; make one with gpuml.metrics.make_scorer."
        )
    is_known = isinstance(scoring, str) and scoring in get_scorer_names()
    return get_scorer(scoring) if is_known else scoring


# ---------------------------------------------------------------- many models at once


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
        """Scores (...) of sums with leading axes (...); only where it `uses_moments`."""
        return self.sign * evaluate_moments(self.metric, moments, self.options)

    def from_predictions(self, y_true: Array, y_pred: Array, weight: Array | None) -> Array:
        """Scores (C,) of y_true (n,) or (n, t) and predictions (C, n) or (C, n, t).

        Raises ValueError if the metric is not defined for some of the values.
        """
        return self.sign * evaluate(self.metric, y_true, y_pred, weight, self.options)


def batch_scorer(scorer: Any) -> BatchScorer | None:
    """The batched form of a scorer, or None where it has to be called model by model."""
    if isinstance(scorer, _PassthroughScorer):
        return BatchScorer("r2_score", 1.0, {}) if _scores_r2(scorer._estimator) else None
    # A subclass may do something else with the predictions.
    if type(scorer) is not _Scorer or scorer._response_method != "predict":
        return None
    name = getattr(scorer._score_func, "__name__", None)
    if name not in METRICS:
        return None
    if scorer._score_func not in (getattr(regression, name), getattr(sk, name)):
        return None
    options = dict(scorer._kwargs)
    if not set(options) <= set(METRICS[name].options) or is_raw(options):
        return None
    try:
        check_parameters(name, {**METRICS[name].options, **options})
    except InvalidParameterError:
        return None  # called for one model, the metric says what is wrong
    return BatchScorer(name, float(scorer._sign), options)


def _scores_r2(estimator):
    """Whether `score` of an estimator is r2 for certain: scikit-learn's, or said so beside it."""
    kind = type(estimator)
    score = _owner(kind, "score")
    # A subclass that has a `score` of its own does not inherit what its parent said of the old one.
    said = getattr(kind, "multifit_score", None) == "r2" and _owner(kind, "multifit_score") is score
    return score is not None and (score is RegressorMixin or said)


def _owner(kind, name):
    return next((base for base in kind.__mro__ if name in vars(base)), None)


# ---------------------------------------------------------------- metrics of scikit-learn


class _HostScorer(_Scorer):
    """scikit-learn's scorer that also takes data and predictions NumPy cannot read."""

    def _score(self, method_caller, estimator, X, y_true, **kwargs):
        # Asked here already, so that an error names the estimator and not the view of it.
        _check_response_method(estimator, self._response_method)
        if _is_foreign(X) or _is_foreign(getattr(estimator, "classes_", None)):
            estimator = _HostView(estimator)
        kwargs = {name: _on_host(value) for name, value in kwargs.items()}
        # Predictions may come from a cache that other scorers filled on a device.
        caller = partial(_call_to_host, method_caller)
        return super()._score(caller, estimator, X, _on_host(y_true), **kwargs)


class _HostView:
    """A fitted estimator whose predictions and classes come as NumPy arrays."""

    def __init__(self, estimator):
        self._estimator = estimator

    def __getattr__(self, name):
        if name.startswith("__") and name != "__sklearn_tags__":
            raise AttributeError(name)
        value = getattr(self._estimator, name)
        if name in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
            return wraps(value)(partial(_call_to_host, value))
        return _on_host(value) if name == "classes_" else value


def _call_to_host(function, *args, **kwargs):
    return _on_host(function(*args, **kwargs))


def _is_foreign(x):
    items = x if isinstance(x, list) and x else [x]
    x = items[0]  # classes of several targets are a list of arrays
    return hasattr(x, "__cuda_array_interface__") or (is_array(x) and not is_numpy(x))


def _on_host(x):
    if isinstance(x, list) and x and _is_foreign(x[0]):
        return [_on_host(item) for item in x]
    if hasattr(x, "to_cupy"):
        return x.to_pandas()  # cuDF: labels may be strings, which no array on a device holds
    return to_host(as_array(x)) if _is_foreign(x) else x

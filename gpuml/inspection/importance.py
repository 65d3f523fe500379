"""What features are worth to a fitted model: its scores once their values are permuted."""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral, Real
from typing import Any

import numpy as np
import sklearn.linear_model as sk_linear
from sklearn import decomposition, inspection, preprocessing
from sklearn.base import is_regressor
from sklearn.utils import Bunch, check_random_state
from sklearn.utils.random import sample_without_replacement

from gpuml._arrays import (
    Array,
    as_array,
    device_of,
    is_array,
    is_foreign,
    move,
    namespace,
    place_of,
    to_host,
)
from gpuml._arrays.labels import encode, is_labels
from gpuml._sklearn import HasMethods, Interval, _MultimetricScorer, validate_params
from gpuml.data import cut
from gpuml.extending import AffineStep, TableStep
from gpuml.linear_model._base import LinearPredictor
from gpuml.linear_model._classifier import (
    LinearClassifier,
    ProbabilityClassifier,
    softmax,
    two_class_probability,
)
from gpuml.metrics.residuals import ResidualMoments, sum_rows, target_sums
from gpuml.metrics.scorer import BatchScorer, ClassBatchScorer, batch_scorer, check_scoring
from gpuml.resampling.responses import Answer

# Workspace of rows that are permuted, or of responses of many models.
BLOCK_BYTES = 2**25
# scikit-learn's transformers whose images are linear, whatever their parameters but `clip`.
LINEAR_STEPS = (
    *(preprocessing.StandardScaler, preprocessing.MaxAbsScaler, preprocessing.RobustScaler),
    *(preprocessing.MinMaxScaler, decomposition.PCA, decomposition.TruncatedSVD),
)
# Responses that are linear in the rows, by method.
LINEAR = {
    "predict": (
        *(LinearPredictor.predict, sk_linear.LinearRegression.predict),
        *(sk_linear.Ridge.predict, sk_linear.ElasticNet.predict),
    ),
    "decision_function": (
        LinearClassifier.decision_function,
        sk_linear.LogisticRegression.decision_function,
    ),
}


@validate_params(
    {
        "estimator": [HasMethods(["fit"])],
        "scoring": [str, callable, list, tuple, set, dict, None],
        "n_repeats": [Interval(Integral, 1, None, closed="left")],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "max_samples": [
            Interval(Integral, 1, None, closed="left"),
            Interval(Real, 0, 1, closed="right"),
        ],
    },
    prefer_skip_nested_validation=False,
)
def permutation_importance(
    estimator,
    X,
    y,
    *,
    scoring=None,
    n_repeats=5,
    n_jobs=None,
    random_state=None,
    sample_weight=None,
    max_samples=1.0,
):
    r"""Permutation importance of features: the drop of a score if a feature is permuted.

    In a linear model, a permutation :math:`\pi` of feature j changes the response of row i by
    :math:`w_j (x_{\pi(i) j} - x_{ij})`, so one call of `predict` serves all features and
    permutations. Scores from sums of residuals (`r2`, mean squared errors) follow, for all
    features, from three sums of those differences over the rows; gpuml evaluates its other batched
    scores for many features at once. This is how it treats gpuml's and scikit-learn's linear
    models, also behind scalers and PCA. For all other models, and for scores that sums do not give,
    such as those of rows that lack a class, scikit-learn does the work for data in CPU memory; rows
    on a device are permuted and scored there, one feature after the other.

    Parameters
    ----------
    estimator : estimator
        A fitted estimator.
    X : array-like of shape (n_samples, n_features)
        An array of any library, or a DataFrame; device data stays on its device.
    y : array-like of shape (n_samples,) or (n_samples, n_outputs), default=None
    scoring : str, callable, list, tuple, dict or None, default=None
        The score or scores; None is the estimator's `score`.
    n_repeats : int, default=5
        Number of permutations of each feature.
    n_jobs : int or None, default=None
        Number of parallel jobs, if scikit-learn does the work.
    random_state : int, RandomState instance or None, default=None
        Seed of the permutations. They are the same as in scikit-learn; all features share them.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows in scores.
    max_samples : int or float, default=1.0
        Number, or share, of the rows that each permutation draws.

    Returns
    -------
    result : Bunch, or dict of Bunch for several metrics
        With `importances_mean`, `importances_std` (n_features,) and `importances`
        (n_features, n_repeats), in CPU memory.

    Raises
    ------
    ValueError
        For input that scikit-learn's function rejects.

    References
    ----------
    L. Breiman, "Random forests", Machine Learning 45 (2001).

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from gpuml.inspection import permutation_importance
    >>> from gpuml.linear_model import Ridge
    >>> X, y = load_diabetes(return_X_y=True)
    >>> found = permutation_importance(Ridge().fit(X, y), X, y, random_state=0)
    >>> found.importances_mean.round(2)[:4]
    array([0.  , 0.01, 0.14, 0.06])
    """
    X, y, weight = as_array(X), as_array(y), as_array(sample_weight)
    whole = _question(estimator, X, y, weight, scoring)
    theirs = partial(
        inspection.permutation_importance,
        estimator,
        X,
        y,
        scoring=scoring,
        n_repeats=n_repeats,
        n_jobs=n_jobs,
        sample_weight=weight,
        max_samples=max_samples,
    )
    if whole is None and not is_foreign(X):
        return theirs(random_state=random_state)
    drawn = deepcopy(random_state)
    rows, orders = _orders(X.shape[0], n_repeats, random_state, max_samples)
    scorer = check_scoring(estimator, scoring)
    base = _scored(scorer, estimator, X, y, weight)
    tables = None if whole is None else whole.tables(rows, orders)
    if tables is None and not is_foreign(X):
        return theirs(random_state=drawn)
    if tables is None:
        some = _some((X, y, weight), rows)
        tables = _one_by_one(partial(_scored, scorer, estimator), some, orders)
    found = {
        name: _bunch(base if not isinstance(base, dict) else base[name], table)
        for name, table in tables.items()
    }
    return found if isinstance(base, dict) else found["score"]


def _orders(n, n_repeats, random_state, max_samples):
    """Rows to permute, None for all, and their orders, as scikit-learn draws them."""
    seed = check_random_state(random_state).randint(np.iinfo(np.int32).max + 1)
    random = np.random.RandomState(seed)
    if not isinstance(max_samples, Integral):
        share, max_samples = max_samples, int(max_samples * n)
        if max_samples == 0:
            raise ValueError(f"max_samples={share} of {n} rows is no row: raise max_samples.")
    elif max_samples > n:
        raise ValueError("max_samples must be <= n_samples")
    rows = None
    if max_samples < n:
        rows = sample_without_replacement(n, max_samples, random_state=random)
    # A column is permuted again and again, by a permutation that is.
    shuffled = np.arange(max_samples)
    order, orders = shuffled.copy(), []
    for _ in range(n_repeats):
        random.shuffle(shuffled)
        order = order[shuffled]
        orders.append(order)
    return rows, orders


def _scored(scorer, estimator, X, y, weight):
    weighted = {} if weight is None else {"sample_weight": weight}
    return scorer(estimator, X, *(() if y is None else (y,)), **weighted)


def _bunch(base, scores):
    importances = base - scores
    return Bunch(
        importances_mean=np.mean(importances, axis=1),
        importances_std=np.std(importances, axis=1),
        importances=importances,
    )


def _some(arrays, rows):
    if rows is None:
        return arrays
    return [
        None if a is None else namespace(a).take(a, move(rows, place_of(a)), axis=0) for a in arrays
    ]


def _one_by_one(score_of, arrays, orders):
    """Scores (p, r) by name, from rows whose columns are permuted one after the other."""
    X, y, weight = arrays
    xp, p = namespace(X), X.shape[1]
    permuted = xp.asarray(X, copy=True)
    tables: dict[str, np.ndarray] = {}
    for r, order in enumerate(orders):
        order = move(order, place_of(X))
        for j in range(p):
            permuted[:, j] = xp.take(X[:, j], order, axis=0)
            score = score_of(permuted, y, weight)
            for name, value in (score if isinstance(score, dict) else {"score": score}).items():
                tables.setdefault(name, np.empty((p, len(orders))))[j, r] = value
            permuted[:, j] = X[:, j]
    return tables


# ---------------------------------------------------------------- linear models


@dataclass(frozen=True)
class _Question:
    """Rows (n, p) of a linear model, its responses (n, k), slopes (p, k), targets and weights.

    Targets are codes of `classes`, if there are any.
    """

    X: Array
    responses: Array
    slopes: Array
    y: Array
    weight: Array | None
    classes: np.ndarray | None
    scorers: Mapping[str, Any]

    def tables(self, rows: np.ndarray | None, orders: list[np.ndarray]) -> dict | None:
        """Scores (p, r) by name, of some rows or all; None where the batched form has none."""
        question = self if rows is None else self.of(rows)
        try:
            return {name: question.scores(each, orders) for name, each in self.scorers.items()}
        except (ValueError, ZeroDivisionError):  # a class that no row weighs for, for example
            return None

    def of(self, rows: np.ndarray) -> "_Question":
        """The same of some rows."""
        arrays = _some((self.X, self.responses, self.y, self.weight), rows)
        X, responses, y, weight = arrays
        return replace(self, X=X, responses=responses, y=y, weight=weight)

    def scores(self, scorer: Any, orders: list[np.ndarray]) -> np.ndarray:
        """Scores (p, r) with each feature in each order, in CPU memory."""
        orders = [move(order, place_of(self.X)) for order in orders]
        if isinstance(scorer, BatchScorer) and scorer.uses_moments:
            columns = self._from_sums(scorer, orders)
        else:
            columns = [self._from_responses(scorer, order) for order in orders]
        return np.stack([to_host(column) for column in columns], axis=1)

    def _from_sums(self, scorer, orders):
        """With d = x_pi - x of a feature, residuals r become r - w d."""
        xp = namespace(self.X)
        y = self.y if self.y.ndim == 2 else self.y[:, None]
        y = xp.astype(y, xp.float64, copy=False)
        residual = y - self.responses  # (n, t)
        total, target = target_sums(y, self.weight, xp)
        first = sum_rows(residual, self.weight, xp)
        square = sum_rows(residual**2, self.weight, xp)
        w, found = self.slopes, []
        for order in orders:
            d: Any = 0.0
            rd: Any = 0.0
            dd: Any = 0.0
            for rows, away in self._moved(order, slice(None)):
                v = None if self.weight is None else self.weight[rows]
                d = d + sum_rows(away, v, xp)
                dd = dd + sum_rows(away**2, v, xp)
                r = residual[rows, :] if v is None else residual[rows, :] * v[:, None]
                rd = rd + xp.matrix_transpose(away) @ r  # (p, t)
            squared = square - 2 * w * rd + w**2 * dd[:, None]
            sums = ResidualMoments(
                weight=total,
                residual=first - w * d[:, None],
                squared=xp.where(squared > 0, squared, xp.zeros_like(squared)),
                target=target,
                n_rows=y.shape[0],
            )
            found.append(scorer.from_moments(sums))
        return found

    def _from_responses(self, scorer, order):
        xp, (n, k) = namespace(self.X), self.responses.shape
        step = max(1, BLOCK_BYTES // (8 * n * k))
        found = []
        for first in range(0, self.X.shape[1], step):
            some = slice(first, min(first + step, self.X.shape[1]))
            parts = []
            for rows, away in self._moved(order, some):
                change = xp.matrix_transpose(away)[:, :, None] * self.slopes[some, None, :]
                parts.append(self.responses[rows, :] + change)  # (C, m, k)
            values = xp.concat(parts, axis=1)
            if self.classes is not None and k == 1:
                values = values[:, :, 0]
            y = self.y if self.classes is not None or self.y.ndim == 2 else self.y[:, None]
            answer = Answer(y, values, self.weight, _Probabilities, self.classes)
            answer.check_classes(scorer)
            found.append(answer.scores(scorer))
        return xp.concat(found)

    def _moved(self, order: Array, columns: slice) -> Iterator[tuple[slice, Array]]:
        """Rows in blocks, and what an order adds to each of their values."""
        xp, n = namespace(self.X), self.X.shape[0]
        for rows in cut(slice(0, n), max(1, BLOCK_BYTES // (8 * self.X.shape[1]))):
            before = self.X[rows, columns]
            after = xp.take(self.X, order[rows], axis=0)[:, columns]
            yield rows, xp.astype(after, xp.float64) - xp.astype(before, xp.float64)


def _question(estimator, X, y, weight, scoring) -> _Question | None:
    """The response of a linear model that scores use; None if it is not linear, or not batched."""
    *before, last = [step for _, step in getattr(estimator, "steps", [("", estimator)])]
    method = "predict" if is_regressor(last) else "decision_function"
    if getattr(type(last), method, None) not in LINEAR[method] or not all(map(_is_linear, before)):
        return None
    values = _numbers(X)
    found = None if values is None else _targets(y, last)
    scorers = _batched(check_scoring(estimator, scoring), last)
    if values is None or found is None or scorers is None:
        return None
    responses, slopes = _linear(getattr(estimator, method), X, values)
    if weight is not None:
        weight = move(weight if is_array(weight) else np.asarray(weight), place_of(values))
        weight = namespace(values).astype(weight, namespace(values).float64)
    return _Question(values, responses, slopes, found[0], weight, found[1], scorers)


def _batched(scorer, last) -> dict[str, Any] | None:
    """Scorers by name in their batched form; None if one has none for a model."""
    several = isinstance(scorer, _MultimetricScorer)
    found = {
        name: batch_scorer(each)
        for name, each in (scorer._scorers if several else {"score": scorer}).items()
    }
    kind = BatchScorer if is_regressor(last) else ClassBatchScorer
    own = getattr(type(last), "predict_proba", None) is ProbabilityClassifier.predict_proba
    right = all(
        isinstance(each, kind) and (own or getattr(each, "response", None) != "probability")
        for each in found.values()
    )
    return found if right else None


def _targets(y, last) -> tuple[Array, np.ndarray | None] | None:
    """Numbers, or codes of the classes of a model and these; None where y is neither."""
    y = y.to_numpy() if hasattr(y, "to_numpy") else y
    if not is_array(y):
        return None
    if is_regressor(last):
        return y, None
    known = encode(y) if y.ndim == 1 and is_labels(y) else None
    classes = np.asarray(to_host(as_array(last.classes_)))
    if known is None or not np.array_equal(known.host_classes, classes):
        return None
    return known.codes, classes


class _Probabilities:
    """Of decision values of logistic models."""

    @staticmethod
    def probability(decision: Array) -> Array:
        """Probabilities (C, m, k)."""
        xp = namespace(decision)
        return two_class_probability(decision, xp) if decision.ndim == 2 else softmax(decision, xp)


def _is_linear(step):
    if step is None or isinstance(step, str) or getattr(step, "clip", False):
        return not getattr(step, "clip", False)
    if isinstance(step, AffineStep):
        return not isinstance(step, TableStep)
    return type(step) in LINEAR_STEPS


def _numbers(X):
    """X as an array of numbers; None if it has others."""
    if hasattr(X, "iloc"):
        if not all(getattr(dtype, "kind", "O") in "fiu" for dtype in X.dtypes):
            return None
        X = X.to_numpy()
    if not is_array(X) or X.ndim != 2:
        return None
    return X if namespace(X).isdtype(X.dtype, ("real floating", "integral")) else None


def _linear(ask, X, values) -> tuple[Array, Array]:
    """Responses (n, k) to all rows, and slopes (p, k)."""
    xp, p = namespace(values), values.shape[1]

    def said(rows):
        if hasattr(X, "iloc"):
            rows = type(X)(rows, columns=X.columns)
        out = xp.astype(ask(rows), xp.float64)
        return out if out.ndim == 2 else out[:, None]

    numbers = xp.astype(values, xp.float64)
    mean = xp.mean(numbers, axis=0)
    # As far as rows go, so that slopes have the digits that responses have.
    far = xp.max(xp.abs(numbers - mean), axis=0)
    far = xp.where(far > 0, far, xp.ones_like(far))
    eye, at_mean = xp.eye(p, dtype=xp.float64, device=device_of(mean)), said(mean[None, :])
    steps = [
        said(mean + eye[rows, :] * far) - at_mean
        for rows in cut(slice(0, p), max(1, BLOCK_BYTES // (8 * p)))
    ]
    return said(X if hasattr(X, "iloc") else values), xp.concat(steps) / far[:, None]

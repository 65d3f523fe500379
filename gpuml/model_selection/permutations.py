"""Permutation tests: whether a score is better than chance."""

from dataclasses import replace
from itertools import chain
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.utils import check_random_state, get_tags

from gpuml._arrays import (
    HOST,
    Array,
    Place,
    as_array,
    is_array,
    itemsize,
    move,
    namespace,
    place_of,
    to_host,
)
from gpuml._sklearn import (
    HasMethods,
    Interval,
    _num_samples,
    _warn_or_raise_about_fit_failures,
    validate_params,
)
from gpuml.extending import RegressionStack
from gpuml.metrics.residuals import ResidualMoments
from gpuml.metrics.scorer import BatchScorer, batch_scorer, check_scoring
from gpuml.model_selection.evaluate import Evaluator, Job
from gpuml.model_selection.one_by_one import rows_of
from gpuml.model_selection.parts import host_target
from gpuml.model_selection.validation import check_one_score, job_of
from gpuml.resampling.split import check_splitter, looks_at_labels
from gpuml.solvers.resampled import ORDERS_AT_ONCE, permuted_rows

# Memory for permuted targets that are fitted together.
TARGET_BYTES = {"cpu": 2**28, "gpu": 2**30}
NAME = "permutation_test_score"


@validate_params(
    {
        "estimator": [HasMethods(["fit"])],
        "X": "no_validation",
        "y": "no_validation",
        "groups": ["array-like", None],
        "cv": ["cv_object"],
        "n_permutations": [Interval(Integral, 1, None, closed="left")],
        "n_jobs": [Integral, None],
        "random_state": ["random_state", np.random.Generator],
        "verbose": ["verbose"],
        "scoring": [str, callable, None],
        "params": [dict, None],
    },
    prefer_skip_nested_validation=False,
)
def permutation_test_score(
    estimator,
    X,
    y,
    *,
    groups=None,
    cv=None,
    n_permutations=100,
    n_jobs=None,
    random_state=0,
    verbose=0,
    scoring=None,
    params=None,
):
    r"""Compare a cross-validated score with those of models whose targets are permuted.

    The p-value is :math:`(c + 1) / (m + 1)`, where c of m permutations score at least as high as
    the original targets [1]_. If model and score are computed from sums over the rows, as for
    `Ridge`, permuted targets are columns of one target, and rows are read once for many
    permutations. Other models are fitted to one permutation after the other, on all splits
    together.

    Parameters
    ----------
    estimator : estimator
    X : array-like of shape (n_samples, n_features)
        In any array library; device data stays on its device.
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
    groups : array-like of shape (n_samples,), default=None
        Targets are permuted within groups, and splitters may keep groups together.
    cv, n_jobs, verbose, scoring, params
        As for `cross_val_score`.
    n_permutations : int, default=100
    random_state : int, RandomState, Generator or None, default=0
        The same permutations as scikit-learn's, which NumPy draws one after the other in CPU
        memory. If you pass a NumPy `Generator`, such as ``numpy.random.default_rng(0)``,
        permutations are drawn on the device of the rows, which is faster on a GPU. They are the
        same for every array library.

    Returns
    -------
    score : float
        Mean score over the splits, for the original targets.
    permutation_scores : ndarray of shape (n_permutations,), in CPU memory
    pvalue : float

    Raises
    ------
    ValueError
        If scikit-learn's function would raise it.

    References
    ----------
    .. [1] M. Ojala, G. C. Garriga, "Permutation tests for studying classifier performance",
       Journal of Machine Learning Research 11 (2010).

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from gpuml.linear_model import Ridge
    >>> from gpuml.model_selection import permutation_test_score
    >>> X, y = load_diabetes(return_X_y=True)
    >>> score, permuted, pvalue = permutation_test_score(Ridge(), X, y)
    >>> print(round(score, 2), permuted.max().round(2), round(pvalue, 2))
    0.41 0.02 0.01
    """
    y = as_array(y)
    cv = check_splitter(cv, y, classifier=is_classifier(estimator))
    options = {
        "groups": groups,
        "cv": cv,
        "params": params,
        "n_jobs": n_jobs,
        "return_train_score": False,
        "error_score": "raise",
        "verbose": verbose,
    }
    scorer = check_scoring(estimator, scoring)
    job = job_of(clone(estimator), X, y, scorer, NAME, **options)
    stays = _stays_the_same(cv)
    orders = _orders(job, groups, random_state)
    scores = _together(job, orders, n_permutations) if stays else None
    if scores is None:
        orders.begin()
        jobs = (
            replace(job, estimator=model, y=y_in_order)
            if stays
            else job_of(model, X, y_in_order, scorer, NAME, **options)
            for number in range(1, n_permutations + 1)
            # In this order, because both may draw from one generator.
            for model in [clone(estimator)]
            for y_in_order in [rows_of(job.y, orders.of(number))]
        )
        scores = [_score(each) for each in chain([job], jobs)]
    score, permuted = np.float64(scores[0]), np.asarray(scores[1:])
    return score, permuted, (np.sum(permuted >= score) + 1.0) / (n_permutations + 1)


class _Drawn:
    """Permutations as scikit-learn draws them: one after the other, whatever their numbers."""

    def __init__(self, n_rows: int, groups: np.ndarray | None, random: np.random.RandomState):
        self.n_rows, self.groups, self.random = n_rows, groups, random
        self._first = random.get_state()

    def begin(self) -> None:
        """Draw the first one again next time."""
        self.random.set_state(self._first)

    def of(self, _: int) -> np.ndarray:
        """Rows in another order, within their groups."""
        if self.groups is None:
            return self.random.permutation(self.n_rows)
        order = np.arange(self.n_rows)
        for group in np.unique(self.groups):
            own = np.flatnonzero(self.groups == group)
            order[own] = self.random.permutation(own)
        return order

    def targets(self, y: Array, numbers: range) -> Array:
        """Targets (m, n) in the orders of some permutations; number 0 leaves them as they are."""
        host = np.asarray(to_host(y))
        found = np.empty((len(numbers), len(host)), host.dtype)
        for number, own in zip(numbers, found, strict=True):
            own[:] = host if number == 0 or self.groups is None else host[self.of(number)]
            if number > 0 and self.groups is None:
                self.random.shuffle(own)  # as `permutation` shuffles row numbers
        return found


class _Hashed:
    """Permutations that follow from a seed and their numbers, made at a place."""

    def __init__(self, n_rows: int, groups: np.ndarray | None, seed: int, place: Place):
        codes = None if groups is None else np.unique(groups, return_inverse=True)[1]
        self.groups = None if codes is None else move(codes.astype(np.int64), place)
        self.n_rows, self.seed, self.place = n_rows, seed, place

    def begin(self) -> None:
        """Orders follow from their numbers."""

    def of(self, number: int) -> Array:
        """Rows in another order, within their groups."""
        return self._of_each(range(number, number + 1))[0, :]

    def _of_each(self, numbers: range) -> Array:
        return permuted_rows(self.n_rows, numbers, self.seed, self.place, self.groups)

    def targets(self, y: Array, numbers: range) -> Array:
        """Targets (m, n) in the orders of some permutations; number 0 leaves them as they are."""
        xp, y = self.place.xp, move(y, self.place)
        found = [y[None, :]] if 0 in numbers else []
        for first in range(max(1, numbers.start), numbers.stop, ORDERS_AT_ONCE):
            orders = self._of_each(range(first, min(first + ORDERS_AT_ONCE, numbers.stop)))
            found.append(xp.reshape(xp.take(y, xp.reshape(orders, (-1,))), orders.shape))
        return xp.concat(found)


def _orders(job: Job, groups: Any, random_state: Any) -> _Drawn | _Hashed:
    n_rows = _num_samples(job.X)
    labels = None if groups is None else np.asarray(host_target(groups))
    if not isinstance(random_state, np.random.Generator):
        return _Drawn(n_rows, labels, check_random_state(random_state))
    place = place_of(job.X) if is_array(job.X) else HOST
    return _Hashed(n_rows, labels, int(random_state.integers(2**63 - 1)), place)


def _stays_the_same(cv: Any) -> bool:
    """Whether a splitter returns the same splits in every call, for any targets."""
    draws = getattr(cv, "shuffle", True) and hasattr(cv, "random_state")
    is_fixed = isinstance(getattr(cv, "random_state", None), Integral)
    return not looks_at_labels(cv) and (is_fixed or not draws)


def _score(job: Job) -> float:
    """The mean score over the splits."""
    results = _drawing(job) if _draws(job.estimator) else Evaluator(job).evaluate([{}])
    _warn_or_raise_about_fit_failures(results, "raise")
    check_one_score(results)
    return np.mean([result["test_scores"] for result in results])


def _draws(estimator: Any) -> bool:
    """Whether each fit of an estimator draws on from where the last one stopped."""
    return any(isinstance(v, np.random.RandomState) for v in estimator.get_params().values())


def _drawing(job: Job) -> list[dict[str, Any]]:
    """Results of one model that is fitted to split after split, as scikit-learn's function does."""
    results: list[dict[str, Any]] = []
    task = replace(job.task, return_estimator=True)
    for split in job.splits:
        results += Evaluator(replace(job, splits=[split], task=task)).evaluate([{}])
        job = replace(job, estimator=results[-1]["estimator"])
    return results


def _together(job: Job, orders: _Drawn | _Hashed, n_permutations: int) -> list[float] | None:
    """Mean scores of the targets and of permuted ones, which are columns of one target.

    Only for models whose scores follow from sums of residuals with enough digits; else None.
    """
    y, scorer = job.y, batch_scorer(job.task.scorer, has_decisions=False)
    is_flat = is_array(y) and y.ndim == 1
    if not is_flat or not isinstance(scorer, BatchScorer) or not scorer.uses_moments:
        return None
    tags = get_tags(job.estimator)
    both = tags.target_tags.single_output and tags.target_tags.multi_output
    if not (is_regressor(job.estimator) and both):
        return None
    place = place_of(y)
    found: list[np.ndarray] = []
    at_once = TARGET_BYTES["cpu" if place.is_host else "gpu"]
    step = max(1, at_once // (itemsize(y.dtype) * y.shape[0]))
    for first in range(0, n_permutations + 1, step):
        numbers = range(first, min(first + step, n_permutations + 1))
        targets = place.xp.matrix_transpose(move(orders.targets(y, numbers), place))
        stack = Evaluator(replace(job, y=targets)).targets_stack()
        sums = stack.residual_moments("test") if isinstance(stack, RegressionStack) else None
        if sums is None or not bool(to_host(sums[1]).all()):
            return None
        found.append(to_host(scorer.from_moments(_of_columns(sums[0]))).mean(axis=1))
    return np.concatenate(found).tolist()


def _of_columns(sums: ResidualMoments) -> ResidualMoments:
    """Sums (1, S, t) of t targets, as sums of t models (t, S, 1)."""
    xp = namespace(sums.residual)

    def turned(a):
        whole = xp.broadcast_to(a, sums.residual.shape)
        return xp.permute_dims(whole, (2, 1, 0))

    return replace(
        sums,
        residual=turned(sums.residual),
        squared=turned(sums.squared),
        target=turned(sums.target),
    )

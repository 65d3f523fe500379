"""Permutation tests: whether a score is better than chance."""

from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import is_classifier, is_regressor
from sklearn.utils import check_random_state, get_tags

from gpuml._arrays import as_array, is_array, move, namespace, place_of, to_host
from gpuml._sklearn import (
    HasMethods,
    _num_samples,
    _warn_or_raise_about_fit_failures,
    validate_params,
)
from gpuml.extending import RegressionStack
from gpuml.metrics.residuals import ResidualMoments
from gpuml.metrics.scorer import BatchScorer, batch_scorer, check_scoring
from gpuml.model_selection.evaluate import Evaluator, Job
from gpuml.model_selection.one_by_one import rows_of
from gpuml.model_selection.validation import job_of
from gpuml.resampling.split import check_splitter, looks_at_labels

# Memory for permuted targets that are fitted together.
TARGET_BYTES = 2**28
NAME = "permutation_test_score"


@validate_params(
    {
        "estimator": [HasMethods(["fit"])],
        "X": "no_validation",
        "y": "no_validation",
        "groups": ["array-like", None],
        "cv": ["cv_object"],
        "n_permutations": [Integral],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
        "scoring": [str, callable, None],
        "params": [dict, None],
    },
    prefer_skip_nested_validation=True,
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

    The p-value is :math:`(c + 1) / (m + 1)`, with c the number of the m permutations that score at
    least as high [1]_. For models from sums over the rows, such as `Ridge`, whose scores are too,
    permuted targets are columns of one target: rows are read once for many permutations. Other
    models are fitted to one permutation after the other, and to all splits together.

    Parameters
    ----------
    estimator : estimator
    X : array-like of shape (n_samples, n_features)
        Of any array library; device data stays on its device.
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
    groups : array-like of shape (n_samples,), default=None
        Targets are permuted within groups, and splitters may keep groups together.
    cv, n_jobs, verbose, scoring, params
        As for `cross_val_score`.
    n_permutations : int, default=100
    random_state : int, RandomState or None, default=0
        The same permutations as scikit-learn's.

    Returns
    -------
    score : float
        Of the targets as they are: the mean over the splits.
    permutation_scores : ndarray of shape (n_permutations,), in CPU memory
    pvalue : float

    Raises
    ------
    ValueError
        For what scikit-learn's function rejects.

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
    cv = check_splitter(cv, as_array(y), classifier=is_classifier(estimator))
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
    job = job_of(estimator, X, y, scorer, NAME, **options)
    random = check_random_state(random_state)
    rows = np.arange(_num_samples(job.X))
    labels = None if groups is None else np.asarray(to_host(as_array(groups)))
    stays = _stays_the_same(cv)
    before = random.get_state()
    scores = _together(job, labels, random, n_permutations) if stays else None
    if scores is None:
        random.set_state(before)
        orders = [rows, *(_shuffled(len(rows), labels, random) for _ in range(n_permutations))]
        jobs = (
            replace(job, y=rows_of(job.y, order))
            if stays or order is rows
            else job_of(estimator, X, rows_of(job.y, order), scorer, NAME, **options)
            for order in orders
        )
        scores = [_score(each) for each in jobs]
    score, permuted = float(scores[0]), np.asarray(scores[1:])
    return score, permuted, float((np.sum(permuted >= score) + 1.0) / (n_permutations + 1))


def _shuffled(n_rows: int, groups: np.ndarray | None, random: np.random.RandomState) -> np.ndarray:
    """Rows in another order within their groups, drawn as scikit-learn does."""
    if groups is None:
        return random.permutation(n_rows)
    order = np.arange(n_rows)
    for group in np.unique(groups):
        own = np.flatnonzero(groups == group)
        order[own] = random.permutation(own)
    return order


def _stays_the_same(cv: Any) -> bool:
    """Whether a splitter returns the same splits in every call, for any targets."""
    draws = getattr(cv, "shuffle", True) and hasattr(cv, "random_state")
    is_fixed = isinstance(getattr(cv, "random_state", None), Integral)
    return not looks_at_labels(cv) and (is_fixed or not draws)


def _score(job: Job) -> float:
    """The mean score over the splits."""
    results = Evaluator(job).evaluate([{}])
    _warn_or_raise_about_fit_failures(results, "raise")
    return np.mean([result["test_scores"] for result in results])


def _together(
    job: Job, groups: np.ndarray | None, random: np.random.RandomState, n_permutations: int
) -> list[float] | None:
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
    place, host = place_of(y), np.asarray(to_host(y))
    found: list[np.ndarray] = []
    step = max(1, TARGET_BYTES // (8 * len(host)))
    for first in range(0, n_permutations + 1, step):
        columns = np.empty((min(step, n_permutations + 1 - first), len(host)), host.dtype)
        for i, column in enumerate(columns, first):
            column[:] = host
            if i > 0 and groups is None:
                random.shuffle(column)  # as `permutation` shuffles row numbers
            elif i > 0:
                column[:] = host[_shuffled(len(host), groups, random)]
        targets = place.xp.matrix_transpose(move(columns, place))
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

"""The best of all subsets of the features, by cross-validation."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.metrics import check_scoring

from gpuml._arrays import HOST, Array, Place, move, namespace, to_host
from gpuml._inputs.validation import check_rows
from gpuml.feature_selection._comparison import cross_validated
from gpuml.feature_selection._from_sums import Sums
from gpuml.linear_model.ridge import Ridge
from gpuml.metrics.residuals import ResidualMoments
from gpuml.metrics.scorer import BatchScorer
from gpuml.resampling.split import check_splits, check_splitter, split_rows
from gpuml.solvers.moments import to_origin
from gpuml.solvers.subsets import WORD, Subsets, number_of_subsets, visit_subsets

# Subsets that are compared: some minutes of a CPU, seconds of a GPU.
MOST_SUBSETS = 2**30
# Numbers that are worked on together: what a CPU's cache holds, or what keeps a GPU busy.
NUMBERS_HERE, NUMBERS_ON_DEVICES = 2**20, 2**27


@dataclass(frozen=True)
class BestSubsets:
    """Result of `best_subset`; arrays are in CPU memory.

    Attributes
    ----------
    support : bool ndarray of shape (n_features,)
        The subset with the best mean score; if there are several, the smallest.
    score : float
        Mean score of this subset.
    n_features : int ndarray of shape (n_sizes,)
        1, 2, ... up to `max_features`.
    supports : bool ndarray of shape (n_sizes, n_features)
        The best subset of each size.
    scores : ndarray of shape (n_sizes, n_splits)
        Scores of the best subset of each size on the held-out rows of every split.
    n_subsets : int
        Number of subsets.
    n_left_out : int
        Number of subsets without a score, because a feature is nearly a linear combination of the
        other features of the subset.
    """

    support: np.ndarray
    score: float
    n_features: np.ndarray
    supports: np.ndarray
    scores: np.ndarray
    n_subsets: int
    n_left_out: int


def best_subset(
    X: Any,
    y: Any,
    *,
    max_features: int | None = None,
    cv: Any = None,
    scoring: Any = None,
    alpha: float = 0.0,
    fit_intercept: bool = True,
) -> BestSubsets:
    r"""Exhaustive feature selection: score the models of all subsets of features on held-out rows.

    For every subset F of at most `max_features` features, the coefficients

    .. math:: \arg\min_{w, b} \sum_i (y_i - b - \sum_{j \in F} w_j x_{ij})^2
              + \alpha \sum_{j \in F} w_j^2

    are computed on the training set of each split, and scored on its held-out rows. Rows are read
    once. A subset costs a few dozen operations per split and no fit. All subsets are compared,
    unlike in forward or backward selection, and their scores are exact.

    Branch and bound cannot skip subsets here. It works with errors on training rows, which grow
    when features are removed. A score on held-out rows may rise or fall, so it gives no bound for
    other subsets. This is why the number of subsets is limited.

    The score of the best of many subsets is too optimistic as an estimate for new rows. Keep rows
    that `best_subset` does not see for such an estimate.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        NumPy arrays and DataFrames, or arrays on a device, where subsets are then compared.
    y : array-like of shape (n_samples,) or (n_samples, n_targets)
    max_features : int, default=None
        Number of features of the largest subsets; None is all features. There are
        :math:`\sum_{k \le \mathrm{max\_features}} {n\_features \choose k}` subsets, at most 2^30.
    cv : int, splitter or iterable, default=None
        Number of folds, or the splits; None is 5 folds.
    scoring : str or scorer, default=None
        A score that follows from sums and squares of residuals: "r2" (None),
        "neg_mean_squared_error", "neg_root_mean_squared_error", "explained_variance".
    alpha : float >= 0, default=0.0
        Strength of the penalty, as in `Ridge`.
    fit_intercept : bool, default=True
        Whether to fit the intercept b; otherwise it is 0.

    Returns
    -------
    found : BestSubsets
        The best subset, and the best one of each size.

    Raises
    ------
    ValueError
        For too many subsets, sparse X, scores that do not follow from residuals, and input that
        `Ridge` rejects.

    See Also
    --------
    SequentialFeatureSelector : Adds or removes one feature per step; for any number of features.

    References
    ----------
    G. M. Furnival, R. W. Wilson, "Regressions by leaps and bounds", Technometrics 16 (1974).

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from gpuml.feature_selection import best_subset
    >>> X, y = load_diabetes(return_X_y=True)
    >>> found = best_subset(X, y)
    >>> found.n_subsets, found.support.nonzero()[0], round(found.score, 3)
    (1023, array([1, 2, 3, 4, 5, 7, 8]), 0.491)
    >>> found.supports[2].nonzero()[0]
    array([2, 3, 8])
    """
    estimator = Ridge(alpha, fit_intercept=fit_intercept)
    estimator._validate_params()
    X = check_rows(estimator, X, reset=True)
    most = _checked_size(max_features, int(X.shape[1]))
    splits = split_rows(check_splitter(cv, y, classifier=False), X, y, X.shape[0])
    check_splits(splits)
    scorer = check_scoring(estimator, scoring)
    sums = Sums.of(estimator, X, y, splits, scorer)
    if isinstance(sums, str):
        raise ValueError(
            f"best_subset computes scores from sums over the rows, but {sums}. Pass dense X and "
            'scoring="r2", "neg_mean_squared_error", "neg_root_mean_squared_error" or '
            '"explained_variance", or use SequentialFeatureSelector.'
        )
    return _compared(sums, estimator, X, y, scorer, most)


def _checked_size(max_features, n_features):
    most = n_features if max_features is None else max_features
    if isinstance(most, bool) or not isinstance(most, int | np.integer) or not most >= 1:
        raise ValueError(f"max_features must be None or an int of at least 1, got {most!r}.")
    most = min(int(most), n_features)
    count = number_of_subsets(n_features, most)
    if count > MOST_SUBSETS:
        fits = max(k for k in range(n_features) if number_of_subsets(n_features, k) <= MOST_SUBSETS)
        raise ValueError(
            f"{n_features} features have {count:,} subsets of at most {most}, and best_subset "
            f"compares {MOST_SUBSETS:,} at most. Use max_features={fits}, fewer columns, or "
            "SequentialFeatureSelector."
        )
    return most


def _compared(sums: Sums, estimator: Any, X: Any, y: Any, scorer: Any, most: int) -> BestSubsets:
    place = sums.folds.batch.work
    place, numbers = (HOST, NUMBERS_HERE) if place.is_host else (place, NUMBERS_ON_DEVICES)
    begin, best = _begin(sums, place), _Best.of(sums, place, most)
    visit_subsets(begin, most, best.visit, numbers)
    supports = best.supports(begin.n_undecided)
    scores = _scores(sums, supports)
    for k, s in np.argwhere(np.isnan(scores) & _there(supports)).tolist():
        split = sums.folds.splits[s : s + 1]
        alone = cross_validated(estimator, X, y, supports[k], split, scoring=scorer)
        scores[k, s] = alone[0]
    mean = scores.mean(axis=1)
    first = int(np.nanargmax(mean))
    return BestSubsets(
        support=supports[first],
        score=float(mean[first]),
        n_features=np.arange(1, most + 1),
        supports=supports,
        scores=scores,
        n_subsets=number_of_subsets(begin.n_undecided, most) - 1,
        n_left_out=int(best.n_left_out),
    )


def _begin(sums: Sums, place: Place) -> Subsets:
    """No features yet: moments about the means of training parts, of scaled features."""
    models = sums.swept()
    p = models.scale.shape[1]
    mean = np.concatenate([models.x_mean, models.y_mean], axis=1)
    scale = np.concatenate([models.scale, np.ones_like(models.y_mean)], axis=1)
    held_out = np.concatenate(
        [to_origin(replace(m, shift=m.shift - mean[some])) for m, some in sums.held_out()]
    )
    test = held_out[:, :-1, :-1] * scale[:, :, None] * scale[:, None, :]
    residual = held_out[:, :-1, -1] * scale
    words = np.zeros((-(-p // WORD), 1), dtype=np.int64)
    found = (models.matrix[:, :, :p].transpose(1, 2, 0), test.transpose(1, 2, 0), residual.T)
    train, test, residual = (move(np.ascontiguousarray(a)[..., None], place) for a in found)
    return Subsets(train, test, residual, move(words, place))


def _scores(sums: Sums, supports: np.ndarray) -> np.ndarray:
    """Scores (K, S) of models with some features (K, p); nan where sums lost their digits."""
    models, found = sums.swept(), []
    for support in supports:
        used = models.used[0].copy()
        # Out first: what is between is part of one of the two.
        for some in (used & ~support, support & ~used):
            for j in np.flatnonzero(some):
                models.flip(np.full(len(models.used), j))
        found.append(models.models())
    coef, intercept = map(np.stack, zip(*found, strict=True))
    return np.where(_there(supports), sums.scores(coef, intercept), np.nan)


def _there(supports):
    return np.any(supports, axis=1)[:, None]


@dataclass
class _Best:
    """The best subset of every size so far, where subsets are compared."""

    sums: ResidualMoments
    scorer: BatchScorer
    score: list[Array]
    words: list[Array]
    n_left_out: Any = 0

    @classmethod
    def of(cls, sums: Sums, place: Place, most: int) -> "_Best":
        """Before the first subset."""
        known = sums.of_targets()
        known = replace(
            known,
            weight=move(known.weight[:, None], place),
            target=move(known.target[:, None, :], place),
            n_rows=known.n_rows[:, None],
        )
        assert sums.scorer is not None
        return cls(known, sums.scorer, [-np.inf] * most, [None] * most)

    def visit(self, size: int, found: tuple[Array, Array, Array]) -> None:
        """Compare subsets of one size."""
        squared, residual, words = found
        xp = namespace(squared)
        squared = xp.where(squared < 0, 0.0, squared)
        moments = replace(
            self.sums,
            squared=xp.permute_dims(squared, (1, 2, 0)),
            residual=xp.permute_dims(residual, (1, 2, 0)),
        )
        score = xp.mean(self.scorer.from_moments(moments), axis=0)
        lost = xp.isnan(score)
        self.n_left_out = self.n_left_out + xp.sum(xp.astype(lost, xp.int64))
        score = xp.where(lost, -xp.inf, score)
        first = xp.reshape(xp.argmax(score), (1,))
        score, words = xp.take(score, first, axis=0), xp.take(words, first, axis=1)[:, 0]
        if self.words[size - 1] is not None:
            better = score > self.score[size - 1]
            score = xp.where(better, score, self.score[size - 1])
            words = xp.where(better, words, self.words[size - 1])
        self.score[size - 1], self.words[size - 1] = score, words

    def supports(self, n_features: int) -> np.ndarray:
        """Which features (K, p) the best ones hold; none of a size without a score."""
        words = np.stack([to_host(w) for w in self.words])
        there = np.isfinite([float(score[0]) for score in self.score])
        j = np.arange(n_features)
        return (words[:, j // WORD] >> j % WORD & 1).astype(bool) & there[:, None]

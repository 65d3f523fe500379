"""Models on subsets of the features, and their scores, from second moments of the rows."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from gpuml._arrays import HOST, to_host
from gpuml.data import Folds, whole
from gpuml.feature_selection._selector import columns
from gpuml.linear_model._base import describe_rows
from gpuml.linear_model._models import sums_of_residuals
from gpuml.linear_model.least_squares import LinearRegression
from gpuml.linear_model.ridge import Ridge
from gpuml.metrics.residuals import ResidualMoments
from gpuml.metrics.scorer import BatchScorer, batch_scorer
from gpuml.model_selection.candidates import ALONE, Plan, Step
from gpuml.resampling.atoms import make_folds, refuse_no_splits
from gpuml.solvers.described import Described, all_rows, training_parts
from gpuml.solvers.moments import Moments
from gpuml.solvers.swept import Swept

FROM_SUMS = "all subsets from the same sums"
NEARLY_DEPENDENT = "features are nearly linear combinations of others"
LOST = "sums of residuals lost their digits"
# Numbers of the models that are scored at once.
MODELS_AT_ONCE = 2**22
# Share of the features below which those that were eliminated are left out of the matrices.
NARROWED_BELOW = 0.8


@dataclass(frozen=True)
class Sums:
    """Sufficient statistics of least squares, in CPU memory.

    Attributes
    ----------
    folds : Folds
    described : Described
    alpha : float
    fit_intercept : bool
    scorer : BatchScorer or None
        Of what is made of residuals; None where nothing is scored.
    """

    folds: Folds
    described: Described
    alpha: float
    fit_intercept: bool
    scorer: BatchScorer | None

    @classmethod
    def of(cls, estimator: Any, X: Any, y: Any, splits: Any, scorer: Any) -> "Sums | str":
        """Sums over the rows, read once; or why models are not made from them.

        `splits` are pairs of training and held-out rows, or None for all rows.
        """
        name = type(estimator).__name__
        if type(estimator) not in (Ridge, LinearRegression):
            return f"{name} is not Ridge or LinearRegression of gpuml.linear_model"
        if np.ndim(getattr(estimator, "alpha", 0.0)):
            return f"{name} has a penalty for each target"
        if getattr(estimator, "solver", "auto") == "svd":
            return f"{name} has solver='svd'"
        why = estimator.multifit_obstacle(X)
        if why is not None:
            return f"{name} has {why}"
        batched: BatchScorer | None = None
        if scorer is not None:
            found = batch_scorer(scorer)
            if not (isinstance(found, BatchScorer) and found.uses_moments):
                return "the score is not made from sums of residuals"
            batched = found
        batch = estimator.multifit_batch(X, y)
        if hasattr(batch, "columns"):
            return "X is sparse"
        folds = whole(batch) if splits is None else make_folds(batch, splits)
        refuse_no_splits(folds)
        described = describe_rows(estimator, folds, by_features=True)
        moments = tuple(each.to(HOST) for each in described.moments or ())
        alpha = float(getattr(estimator, "alpha", 0.0))
        described = replace(described, moments=moments)
        return cls(folds, described, alpha, bool(estimator.fit_intercept), batched)

    def swept(self, of_all_rows: bool = False) -> Swept:
        """Models without features on the training part of every split, or on all rows."""
        parts = [all_rows(self.folds)] if of_all_rows else training_parts(self.folds)
        each = [
            Swept.of(self.described.combined(part), self.alpha, fit_intercept=self.fit_intercept)
            for part in parts
        ]
        return each[0] if len(each) == 1 else Swept.joined(each)

    def refit(self, estimator: Any, X: Any, y: Any, features: np.ndarray) -> Any:
        """A clone of the estimator fitted to some features (k,) of all rows.

        From the sums, unless these have lost their digits: then the rows are read again.
        """
        model = clone(estimator)
        model._validate_params()
        folds = whole(model.multifit_batch(columns(X, features), y))
        moments = self.described.combined(all_rows(self.folds)).of_features(features)
        folds.known.update(moments=(moments,), factors={})
        vars(model).update(model.multifit(folds, [{}]).pick(0, 0))
        return model

    def held_out(self) -> Iterator[tuple[Moments, slice]]:
        """Moments of the held-out parts of some splits, and which splits these are."""
        each = zip(self.folds.partitions, self.described.moments or (), strict=True)
        for part, moments in each:
            splits = slice(part.first_split, part.first_split + part.n_splits)
            yield moments.combine(part.test), splits

    def of_targets(self) -> ResidualMoments:
        """Sums over held-out parts that are the same for all models: weights, and of targets."""
        n_targets = self.folds.batch.y.shape[1]
        coef = np.zeros((1, len(self.folds.splits), n_targets, self.folds.batch.n_features))
        return sums_of_residuals(self.described, coef, coef[..., 0], "test")[0]

    def scores(self, coef: np.ndarray, intercept: np.ndarray) -> np.ndarray:
        """Scores (C, S) of models (C, S, t, p) and (C, S, t); nan where sums lost their digits."""
        assert self.scorer is not None
        size = max(1, MODELS_AT_ONCE // coef[0].size)
        found = []
        for first in range(0, len(coef), size):
            some = slice(first, first + size)
            of_some = coef[some], intercept[some]
            moments, reliable = sums_of_residuals(self.described, *of_some, "test")
            scores = to_host(self.scorer.from_moments(moments))
            found.append(np.where(to_host(reliable), scores, np.nan))
        return np.concatenate(found)

    def plan(self, n_models: int, n_alone: int = 0, why: str = "") -> Plan:
        """The plan: models from sums, and models that were fitted one by one."""
        place, n_passes = str(self.folds.batch.work), self.described.n_passes
        steps = [Step(n_models, n_passes, place, FROM_SUMS)]
        if n_alone:
            steps.append(Step(n_alone, n_alone, place, ALONE, (why or LOST,)))
        return Plan(tuple(steps))


@dataclass(frozen=True)
class Eliminated:
    """Steps of an elimination on S training parts, from all features to the fewest.

    Attributes
    ----------
    sizes : list of K ints
        Features of each step.
    support, ranking : ndarrays (K, S, p)
    coef, intercept : ndarrays (K, S, t, p) and (K, S, t)
    """

    sizes: list[int]
    support: np.ndarray
    ranking: np.ndarray
    coef: np.ndarray
    intercept: np.ndarray


def eliminate(swept: Swept, n_left: int, step: int, verbose: int = 0) -> Eliminated:
    """Take features out of models of all of them, those of least coefficients first."""
    n_parts, p = swept.used.shape
    ranking = np.ones((n_parts, p), dtype=int)
    features = np.tile(np.arange(p), (n_parts, 1))  # (S, m) that `swept` has
    parts = np.arange(n_parts)[:, None]
    sizes, found = [], []
    while True:
        n_features = int(swept.used[0].sum())
        own, intercept = swept.models()
        used, coef = np.zeros((n_parts, p), dtype=bool), np.zeros((*own.shape[:2], p))
        used[parts, features] = swept.used
        coef[parts, :, features] = np.swapaxes(own, 1, 2)
        sizes.append(n_features)
        found.append((used, ranking.copy(), coef, intercept))
        if n_features <= n_left:
            return Eliminated(sizes, *map(np.stack, zip(*found, strict=True)))
        if verbose > 0:
            print(f"Fitting estimator with {n_features} features.")  # noqa: T201
        if n_features < NARROWED_BELOW * features.shape[1]:
            left = np.nonzero(swept.used)[1].reshape(n_parts, n_features)
            swept, features = swept.narrowed(left), features[parts, left]
            own = np.take_along_axis(own, left[:, None, :], axis=-1)
        importance = np.where(swept.used, np.sum(own**2, axis=1), np.inf)
        least = np.argsort(importance, axis=1, kind="stable")
        for k in range(min(step, n_features - n_left)):
            swept.flip(least[:, k])
        ranking += 1
        ranking[parts, features] -= swept.used

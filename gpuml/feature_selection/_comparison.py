"""Scores of models with one feature more or less: from sums over the rows, or fit by fit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from gpuml._arrays import is_sparse, place_of
from gpuml.data import AnySplit, row_indices
from gpuml.feature_selection._from_sums import NEARLY_DEPENDENT, Sums
from gpuml.feature_selection._selector import columns
from gpuml.model_selection.candidates import ALONE, Plan, Step
from gpuml.model_selection.validation import cross_val_score
from gpuml.solvers.swept import LEAST_PIVOT, Swept


def cross_validated(
    estimator: Any, X: Any, y: Any, used: np.ndarray, splits: Sequence[AnySplit], **options: Any
) -> np.ndarray:
    """Scores (S,) of an estimator on some features, `used` (p,), fitted split by split."""
    pairs = [(row_indices(split.train), row_indices(split.test)) for split in splits]
    return cross_val_score(estimator, columns(X, np.flatnonzero(used)), y, cv=pairs, **options)


@dataclass
class Comparison:
    """Models on subsets of the features of the same rows and splits.

    Attributes
    ----------
    estimator : estimator
    X, y : array-like
    splits : sequence of splits
    scorer : callable
    options : dict
        Of `cross_val_score`.
    sums : Sums or None
        None where models are fitted one by one, and `why`.
    swept : Swept or None
        Models of the features that are `used`.
    used : bool ndarray (p,)
    """

    estimator: Any
    X: Any
    y: Any
    splits: Sequence[AnySplit]
    scorer: Any
    options: Mapping[str, Any]
    used: np.ndarray
    sums: Sums | None = None
    swept: Swept | None = None
    why: str = ""
    n_from_sums: int = 0
    n_alone: int = 0

    @classmethod
    def of(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        splits: Sequence[AnySplit],
        scorer: Any,
        options: Mapping[str, Any],
        *,
        backward: bool,
    ) -> "Comparison":
        """Before the first step: with all features, or with none."""
        used = np.full(X.shape[1], backward)
        found = cls(clone(estimator), X, y, splits, scorer, options, used)
        if options.get("params"):
            sums: Sums | str = "fit, split or score take parameters"
        else:
            sums = Sums.of(found.estimator, X, y, splits, scorer)
        if isinstance(sums, str):
            found.why = sums
            return found
        found.sums, found.swept = sums, sums.swept()
        if backward and not found.swept.use_all():
            found.why, found.swept = NEARLY_DEPENDENT, None
        return found

    def scores(self, features: np.ndarray) -> np.ndarray:
        """Mean scores (c,) of models with each of some features more, or less."""
        found = np.full(len(features), np.nan)
        if self.swept is not None and self.sums is not None:
            table = self.sums.scores(*self.swept.flipped(features))
            unsure = (self.swept.pivots[:, features] < LEAST_PIVOT).any(axis=0)
            if unsure.any():
                self.why = NEARLY_DEPENDENT
            found = np.where(unsure, np.nan, table.mean(axis=1))
            self.n_from_sums += int(np.isfinite(found).sum()) * len(self.splits)
        for i in np.flatnonzero(np.isnan(found)):
            found[i] = self._alone(features[i])
        return found

    def take(self, feature: int) -> None:
        """Continue with one feature more, or less."""
        self.used[feature] = not self.used[feature]
        if self.swept is None:
            return
        if (self.swept.pivots[:, feature] < LEAST_PIVOT).any():
            self.why, self.swept = NEARLY_DEPENDENT, None
        else:
            self.swept.flip(np.full(len(self.splits), feature))

    def plan(self) -> Plan:
        """What was done."""
        if self.sums is not None:
            return self.sums.plan(self.n_from_sums, self.n_alone, self.why)
        place = "numpy:cpu" if is_sparse(self.X) else str(place_of(self.X))
        return Plan((Step(self.n_alone, self.n_alone, place, ALONE, (self.why,)),))

    def _alone(self, feature):
        used = self.used.copy()
        used[feature] = not used[feature]
        self.n_alone += len(self.splits)
        options = {"scoring": self.scorer, **self.options}
        return cross_validated(self.estimator, self.X, self.y, used, self.splits, **options).mean()

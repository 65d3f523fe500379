"""Out-of-bag scores instead of folds: trees that did not draw a row predict it."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from gpuml._arrays import is_foreign
from gpuml._sklearn import _num_samples
from gpuml.model_selection.candidates import number
from gpuml.model_selection.cut_trees import OneForest, Sums, is_forest, predicting, predictions
from gpuml.model_selection.one_fit import of_sklearn, shallow

# The value of `cv` that selects them.
OUT_OF_BAG = "oob"


class OutOfBag:
    """One split: all rows train the forest, and their out-of-bag predictions are scored."""

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """One."""
        return 1

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[Any, Any]]:
        """All rows, twice."""
        rows = np.arange(_num_samples(X))
        yield rows, rows


def check_search(search: Any, X: Any, candidates: Sequence[Mapping[str, Any]]) -> None:
    """Raise ValueError for searches whose models have no out-of-bag predictions."""
    kind = type(search).__name__
    if not search._works_here():
        raise ValueError(f"cv='oob' is for searches on one machine; {kind} needs folds: set cv=5.")
    if not is_forest(search.estimator):
        raise ValueError(
            "cv='oob' needs a random forest by itself (RandomForest* and ExtraTrees* with "
            f"bootstrap=True), got {type(search.estimator).__name__}. Set cv=5."
        )
    if is_foreign(X):
        raise ValueError("cv='oob' needs rows in CPU memory, where scikit-learn grows the trees.")
    if not any("bootstrap" in each for each in candidates):
        check_model(search.estimator)


def check_model(forest: Any) -> None:
    """Raise ValueError for a forest whose trees use all rows."""
    if not forest.bootstrap:
        raise ValueError(
            f"{type(forest).__name__} with bootstrap=False has no rows out of the bag, which "
            "cv='oob' needs. Set bootstrap=True, or cv=5."
        )


class OutOfBagSums(Sums):
    """Sums of tree predictions for rows that the trees did not draw."""

    def __init__(self, X: Any, cut: Any = None):
        super().__init__(X, cut)
        self._counts = np.zeros(X.shape[0], np.int64)

    def add(self, trees: Sequence[Any], forest: Any) -> None:
        """Add the predictions of more trees."""
        n_rows = self.X.shape[0]
        some = shallow(forest)
        some.estimators_ = trees
        in_bag = some._get_estimators_indices()
        rows = [np.flatnonzero(np.bincount(own, minlength=n_rows) == 0) for own in in_bag]
        parts = (self.X[own] for own in rows)
        for own, predicted in zip(rows, predictions(trees, parts, forest), strict=True):
            each = predicted if isinstance(predicted, list) else [predicted]
            if not self._sums:
                self._sums = [np.zeros((n_rows, *values.shape[1:])) for values in each]
            for total, values in zip(self._sums, each, strict=True):
                total[own] += values
            self._counts[own] += 1
            self.n_trees += 1

    def mean(self) -> Any:
        """Out-of-bag predictions; 0 for rows that all trees have drawn, as in scikit-learn."""
        counts, n_seen = np.maximum(self._counts, 1), int((self._counts == 0).sum())
        if n_seen:
            warnings.warn(
                f"Each of {self.n_trees} trees has drawn {number(n_seen, 'row')}, whose "
                "out-of-bag prediction is 0, or the first class. Grow more trees.",
                UserWarning,
                stacklevel=2,
            )
        means = [(total.T / counts).T for total in self._sums]
        return means[0] if len(means) == 1 else means


class OneForestOutOfBag(OneForest):
    """Forests that are read off one, with out-of-bag predictions for the first part."""

    def new_sums(self, part: int, X: Any, cut: Any) -> Sums:
        """An accumulator of predictions for one part."""
        return OutOfBagSums(X, cut) if part == 0 else super().new_sums(part, X, cut)


def answering_out_of_bag(fitted: Any, X: Any) -> Any:
    """A fitted forest that predicts its own training rows out of the bag."""
    if "estimators_" not in vars(fitted):
        raise ValueError(
            "cv='oob' needs trees that scikit-learn grows; set gpuml.config_context(device='cpu')."
        )
    one = OneForest(fitted, X, None, [X])

    def mean(part):
        sums = OutOfBagSums(of_sklearn(fitted)._validate_X_predict(X))
        sums.add(fitted.estimators_, fitted)
        return sums.mean()

    return predicting(fitted, one, mean)

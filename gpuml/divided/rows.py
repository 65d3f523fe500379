"""Divided rows as a search or a fit is given them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpuml.data import Batch, Folds, Holders
from gpuml.divided.batch import Facts, divided_batch
from gpuml.divided.folds import divided_folds


@dataclass(frozen=True)
class DividedRows:
    """Divided rows as a search is given them in place of X.

    Attributes
    ----------
    shares : Holders
        Of `Share`s, in the order of the rows.
    sizes : tuple of ints
        Rows of each.
    n_features : int
    settings : dict
        gpuml's, to hold where the shares are.
    names : sequence of str or None
        Of the features, where X had names.
    """

    shares: Holders
    sizes: tuple[int, ...]
    n_features: int
    settings: Mapping[str, Any]
    names: Sequence[str] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        return int(sum(self.sizes)), self.n_features

    @property
    def ndim(self) -> int:
        return 2

    def folds(self, estimator: Any, splits: Sequence[Any], *, weighted: bool) -> Folds:
        """The rows with their splits, as an estimator is fitted to them."""
        return divided_folds(self.batch(estimator, weighted=weighted), self.sizes, splits)

    def batch(self, estimator: Any, *, weighted: bool) -> Batch:
        """The rows as one batch; number and names of features are set on the estimator."""
        rows = self if weighted else self.without_weights()
        known = rows._facts(estimator)
        batch = divided_batch(estimator, rows.shares, self.sizes, self.settings, known)
        if self.names is not None:
            estimator.feature_names_in_ = np.asarray(self.names, dtype=object)
        return batch

    def _facts(self, estimator: Any) -> Sequence[Facts] | None:
        """Known facts about the rows; None if their holders must be asked."""
        return None

    def without_weights(self) -> "DividedRows":
        """The same rows, without weights."""
        return replace(self, shares=self.shares.map(without_weight))


def without_weight(share: Any) -> Any:
    """The same share, without weights."""
    return share._replace(weight=None)

"""Divided rows as a search or a fit is given them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from gpuml.data import Batch, Folds, Holders, NeedsAllRows
from gpuml.divided.batch import Facts, divided_batch
from gpuml.divided.folds import divided_folds
from gpuml.divided.frames import survey_of_frames
from gpuml.divided.tables import KnownTable, known_table
from gpuml.extending import TableStep

# Why steps that read tables need the rows in one place.
WHERE_LEVELS_ARE = (
    "categories and missing values of a table are found where all its rows are, unless CPU workers "
    "keep them as arrays of NumPy or DataFrames of pandas"
)


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
    header : DataFrame, array or None
        X without rows, as steps before a model see it, if those of shares are tables to them.
    tables : dict
        What was found of the columns that steps read as tables, in a reading each.
    """

    shares: Holders
    sizes: tuple[int, ...]
    n_features: int
    settings: Mapping[str, Any]
    names: Sequence[str] | None = None
    header: Any = None
    tables: dict[Any, KnownTable] = field(default_factory=dict)

    @property
    def shape(self) -> tuple[int, int]:
        return int(sum(self.sizes)), self.n_features

    @property
    def ndim(self) -> int:
        return 2

    def folds(self, estimator: Any, splits: Sequence[Any], *, weighted: bool) -> Folds:
        """The rows with their splits, as an estimator is fitted to them.

        They are those of a table if a first step reads one.
        """
        step = getattr(estimator, "table", None)
        if step is None:
            return divided_folds(self.batch(estimator, weighted=weighted), self.sizes, splits)
        found, estimator.knows_levels = self._table_for(step), True
        shares, known = found.shares, self._facts(estimator)
        if known is not None:  # steps know number and names of features by themselves
            known = [each._replace(seen={}) for each in known]
        if not weighted:
            shares = shares.map(without_weight)
            known = known and [each._replace(total_weight=None) for each in known]
        batch = divided_batch(estimator, shares, self.sizes, self.settings, known)
        folds = divided_folds(batch, self.sizes, splits)
        return replace(folds, batch=found.batch(folds.batch))

    def frame_for(self, step: TableStep) -> Any:
        """A DataFrame of few rows that stand for all to a step; the rows are read for it once."""
        return self._table_for(step).frame

    def _table_for(self, step):
        if self.header is None:
            raise NeedsAllRows(WHERE_LEVELS_ARE)
        survey = partial(survey_of_frames, self.shares)
        return known_table(self.header, step, survey, self.tables)

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

"""Shared parts of encoders: categories are found, and looked up, on the device of the rows."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gpuml._arrays import Array, move, namespace, place_of, to_host
from gpuml._inputs.validation import check_rows
from gpuml.preprocessing._transformer import Transformer


class Encoder(Transformer):
    """An encoder, before scikit-learn's class, whose fit is shown each category once.

    So it finds and checks categories, and says what is wrong. How often each occurs it is told.
    """

    _needs_numbers = False

    categories_: list[np.ndarray]

    def _fit_there(self, X, y=None):
        X = check_rows(self, X, reset=True, allow_nan=True, keep_dtype=True)
        self._fit_counted(
            one_of_each(X), X.shape[0], lambda j, categories: _counts(X[:, j], categories)
        )

    def _fit_counted(self, rows: Any, n_rows: int, count: Callable[[int, np.ndarray], np.ndarray]):
        """Fit to host rows with the categories of all rows.

        ``count(j, categories)`` says in how many of all `n_rows` feature j has each category.
        """
        self._counted = n_rows, count
        try:
            self._fit_few(self._read(rows))
        finally:
            del self._counted

    def _fit_infrequent_category_mapping(self, n_samples, category_counts, missing_indices):
        if "_counted" in vars(self):
            n_samples, count = self._counted
            category_counts = [count(j, known) for j, known in enumerate(self.categories_)]
        super()._fit_infrequent_category_mapping(n_samples, category_counts, missing_indices)

    def _positions(self, X: Array) -> Iterator[tuple[Array, Array]]:
        """For each feature, positions of categories (n,), and which rows have one of those."""
        xp = namespace(X)
        for j, categories in enumerate(self.categories_):
            # Read several times: neighbours in memory.
            yield positions(xp.asarray(X[:, j], copy=True), categories)

    def _is_rare(self, j: int) -> np.ndarray:
        """Which categories of feature j share a number."""
        rare = np.zeros(len(self.categories_[j]), dtype=bool)
        if self._infrequent_enabled and self._infrequent_indices[j] is not None:
            rare[self._infrequent_indices[j]] = True
        return rare

    def _grouped(self, j: int) -> np.ndarray:
        """The number of each category of feature j where rare ones share one."""
        numbers = np.arange(len(self.categories_[j]))
        mapping = self._default_to_infrequent_mappings[j] if self._infrequent_enabled else None
        if mapping is not None:  # of missing values some encoders have none
            numbers[: len(mapping)] = mapping
        return numbers

    def _refuse_rare(self):
        """Raise ValueError if a column shared by several categories would have to be inverted."""
        if any(self._is_rare(j).any() for j in range(len(self.categories_))):
            raise ValueError(
                "A column or code that several rare categories share has no inverse among numbers. "
                "Convert X to NumPy, where it is 'infrequent_sklearn'."
            )


def one_of_each(X: Array) -> np.ndarray:
    """Host rows with the same categories in each column as X: (most categories, p)."""
    found = [distinct(X[:, j]) for j in range(X.shape[1])]
    length = max(len(values) for values in found)
    return np.stack([np.resize(values, length) for values in found], axis=1)


def distinct(column: Array) -> np.ndarray:
    """The values of a column (n,), sorted, in CPU memory."""
    xp = namespace(column)
    if xp.isdtype(column.dtype, "bool"):
        return to_host(xp.unique_values(xp.astype(column, xp.int8))).astype(bool)
    values = to_host(xp.unique_values(column))
    # Libraries may count each nan as another value.
    return np.unique(values, equal_nan=True)


def positions(column: Array, categories: np.ndarray) -> tuple[Array, Array]:
    """Positions of values (n,) among sorted categories, nan last, and whether each is there."""
    xp, place = namespace(column), place_of(column)
    last = len(categories) - 1
    has_nan = categories.dtype.kind == "f" and bool(np.isnan(categories[-1]))
    if xp.isdtype(column.dtype, "bool"):
        column, categories = xp.astype(column, xp.int8), categories.astype(np.int8)
    # No value is inf, and searching among nan is not defined.
    categories = move(np.nan_to_num(categories, nan=np.inf) if has_nan else categories, place)
    if column.dtype != categories.dtype:
        column, categories = (xp.astype(x, xp.float64) for x in (column, categories))
    found = xp.searchsorted(categories, column)
    found = xp.where(found > last, xp.full_like(found, last), found)
    is_known = xp.take(categories, found, axis=0) == column
    if has_nan:
        is_nan = xp.isnan(column)
        found = xp.where(is_nan, xp.full_like(found, last), found)
        is_known = is_known | is_nan
    return found, is_known


def _counts(column: Array, categories: np.ndarray) -> np.ndarray:
    """How many rows of a column (n,) have each category."""
    xp = namespace(column)
    if xp.isdtype(column.dtype, "bool"):
        column = xp.astype(column, xp.int8)
    values, counts = (to_host(x) for x in xp.unique_counts(column))
    is_nan = np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), dtype=bool)
    # Libraries may count each nan as another value.
    total = dict(zip(values[~is_nan].tolist(), counts[~is_nan].tolist(), strict=True))
    n_missing = int(counts[is_nan].sum())
    found = [total.get(value, n_missing if value != value else 0) for value in categories.tolist()]
    return np.asarray(found, dtype=np.int64)

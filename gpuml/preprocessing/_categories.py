"""What the encoders share: categories are found, and looked up, on the device of the rows."""

from typing import Any

import numpy as np

from gpuml._arrays import Array, move, namespace, place_of, to_host
from gpuml._inputs.validation import check_rows
from gpuml.preprocessing._transformer import Transformer


class Encoder(Transformer):
    """An encoder, before scikit-learn's class, whose fit is shown each category once."""

    _needs_numbers = False

    min_frequency: Any = None
    max_categories: Any = None

    def _fit_there(self, X, y=None):
        self._refuse_infrequent()
        X = check_rows(self, X, reset=True, allow_nan=True, keep_dtype=True)
        # scikit-learn's fit sees one row or more of each category, and checks parameters.
        self._fit_few(one_of_each(X))

    def _refuse_infrequent(self):
        if self.min_frequency is not None or self.max_categories is not None:
            raise ValueError(
                "min_frequency and max_categories need data in CPU memory: convert X to NumPy, or "
                "leave both at None."
            )


def one_of_each(X: Array) -> np.ndarray:
    """Host rows with the same categories in each column as X: (most categories, p)."""
    xp = namespace(X)
    distinct = [_distinct(X[:, j], xp) for j in range(X.shape[1])]
    length = max(len(values) for values in distinct)
    return np.stack([np.resize(values, length) for values in distinct], axis=1)


def _distinct(column, xp):
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

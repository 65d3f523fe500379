"""Fits of transformers of whose results nobody wants more than the shape."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder

from gpuml._arrays import is_foreign
from gpuml._sklearn import _num_samples, _safe_indexing
from gpuml.solvers.table_rows import Table


class CountedRows(sparse.csr_array):
    """Sparse rows of a shape, and a number of entries that they do not hold."""

    n_entries = 0

    def __init__(self, shape: tuple[int, int], n_entries: int):
        super().__init__(shape)
        self.n_entries = n_entries

    @property
    def nnz(self) -> int:
        """What it is said to be."""
        return self.n_entries


def is_known(transformer: Any) -> bool:
    """Whether `fit` and `transform` of a transformer do what `fit_transform` does."""
    if isinstance(transformer, Pipeline):
        steps = [step for _, step in transformer.steps if not isinstance(step, str | None)]
        return type(transformer) is Pipeline and all(is_known(step) for step in steps)
    package = type(transformer).__module__.partition(".")[0]
    return package in ("gpuml", "sklearn") and not isinstance(transformer, FunctionTransformer)


def learns_levels_alone(transformer: Any) -> bool:
    """Whether an encoder learns the same of one row for each level as of all rows."""
    if not is_known(transformer) or not isinstance(transformer, OneHotEncoder | OrdinalEncoder):
        return False
    return transformer.min_frequency is None and transformer.max_categories is None


def fit_alone(transformer: Any, X: Any, y: Any, rows: np.ndarray | None = None) -> Any:
    """Fit a known transformer; what has the shape and the number of entries of its results.

    Parameters
    ----------
    transformer : transformer
        Is fitted.
    X : array or DataFrame
    y : array or None
    rows : int array, optional
        Rows that say all that it learns, if it `learns_levels_alone`.
    """
    if rows is None:
        transformer.fit(X, y)
    else:
        transformer.fit(_safe_indexing(X, rows))
    first = X[:1, ...] if is_foreign(X) else _safe_indexing(X, [0])
    result = transformer.transform(first)
    n_rows, width = _num_samples(X), result.shape[1]
    if not sparse.issparse(result):
        return np.broadcast_to(np.zeros(()), (n_rows, width))
    last = transformer.steps[-1][1] if isinstance(transformer, Pipeline) else transformer
    every = isinstance(last, OneHotEncoder) and last.drop is None
    if every and isinstance(last.categories, str):
        return CountedRows((n_rows, width), n_rows * last.n_features_in_)
    return transformer.transform(X)


def rows_of_levels(
    entries: Sequence[tuple[str, Any, list[int], float]],
    coded: Sequence[int],
    table: Table,
    taken: np.ndarray,
) -> dict[str, np.ndarray]:
    """One of some rows for each level, by the names of entries that learn no more than those.

    Parameters
    ----------
    entries : sequence of (name, transformer, columns of X, weight)
    coded : sequence of int
        The columns of X that have codes in the table.
    table : Table
    taken : int array
        Numbers of the rows.
    """
    found = {}
    for name, transformer, columns, _ in entries:
        if not learns_levels_alone(transformer) or not set(columns) <= set(coded):
            continue
        each = []
        for number in (coded.index(j) for j in columns):
            last = np.full(len(table.levels[number]), -1)
            last[table.codes[number][taken]] = np.arange(len(taken))
            each.append(last[last >= 0])
        found[name] = np.unique(np.concatenate(each))
    return found


def fit_where(transformer: Any, X: Any, y: Any, enough: Mapping[str, np.ndarray]) -> None:
    """Fit columns side by side, some of them to the rows that are enough."""
    own = getattr(transformer, "fit_where", None)
    if own is None:
        transformer.fit(X, y)
    else:
        own(X, y, enough)

"""Fits of transformers of which only the shape of the results is needed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

from gpuml._arrays import Array, is_array, is_foreign, move, namespace, place_of, to_host
from gpuml._arrays.frames import header_of
from gpuml._sklearn import (
    _check_feature_names,
    _check_n_features,
    _num_samples,
    _safe_indexing,
)
from gpuml.compose._coding import is_nan
from gpuml.compose._layout import chain_of
from gpuml.data import take
from gpuml.resampling.multifit import KNOWN

# Rows that are looked at first for one of each level, and how many times as many then.
FEW_ROWS, FEW_ROWS_MORE = 2**16, 8


class CountedRows(sparse.csr_array):
    """Sparse rows of a shape, and a number of entries that they do not hold."""

    n_entries: float = 0

    def __init__(self, shape: tuple[int, int], n_entries: float):
        super().__init__(shape)
        self.n_entries = n_entries

    @property
    def nnz(self) -> float:
        """The declared number of entries."""
        return self.n_entries


def is_known(transformer: Any) -> bool:
    """Whether `fit` and `transform` of a transformer do what `fit_transform` does."""
    if isinstance(transformer, Pipeline):
        steps = [step for _, step in transformer.steps if not isinstance(step, str | None)]
        return type(transformer) is Pipeline and all(is_known(step) for step in steps)
    package = type(transformer).__module__.partition(".")[0]
    return package in KNOWN and not isinstance(transformer, FunctionTransformer)


@dataclass(frozen=True)
class Learned:
    """What the pass knows of the steps of an entry, one after the other.

    Attributes
    ----------
    rows : int array
        Numbers of rows of the training part that say all else.
    attributes : tuple of (bool, dict)
        Of each step what it has learnt; whether it is fitted to these rows before it gets that.
    y : array, optional
        Targets of these rows, for an encoder by targets.
    target_type : str, optional
        What the targets of all rows are to it.
    counted : (int, list of int arrays), optional
        How many rows an encoder learns from, and how many of them have each category of a column.
    n_entries : float, optional
        Entries of a row of sparse results on average, if the rows do not tell.
    """

    rows: np.ndarray
    attributes: tuple[tuple[bool, dict[str, Any]], ...]
    y: np.ndarray | None = None
    target_type: str | None = None
    counted: tuple[int, list[np.ndarray]] | None = None
    n_entries: float | None = None


def fit_alone(transformer: Any, X: Any, y: Any, learned: Learned | None = None) -> Any:
    """Fit a known transformer; what has the shape and the number of entries of its results.

    Parameters
    ----------
    transformer : transformer
        Is fitted.
    X : array or DataFrame
    y : array or None
    learned : Learned, optional
        What is known of its steps.
    """
    if learned is None:
        transformer.fit(X, y)
    else:
        _fit_learned(chain_of(transformer), _some_rows(X, learned.rows), learned)
    result = transformer.transform(_some_rows(X, np.zeros(1, dtype=np.int64)))
    n_rows, width = _num_samples(X), result.shape[1]
    if not sparse.issparse(result):
        return np.broadcast_to(np.zeros(()), (n_rows, width))
    if learned is not None and learned.n_entries is not None:
        return CountedRows((n_rows, width), n_rows * learned.n_entries)
    last = transformer.steps[-1][1] if isinstance(transformer, Pipeline) else transformer
    every = isinstance(last, OneHotEncoder) and last.drop is None
    if every and isinstance(last.categories, str):
        return CountedRows((n_rows, width), n_rows * last.n_features_in_)
    return transformer.transform(X)


def _some_rows(X, rows):
    return take(X, rows, namespace(X)) if is_foreign(X) else _safe_indexing(X, rows)


def _fit_learned(steps, X, learned):
    """Steps one after the other, fitted to few rows or to none."""
    for step, (fits, found) in zip(steps, learned.attributes, strict=True):
        if fits and learned.y is not None:
            given = step.target_type
            step.set_params(target_type=learned.target_type).fit(X, learned.y)
            step.set_params(target_type=given)
            vars(step).update(found)
        elif fits and learned.counted is not None and isinstance(step, OneHotEncoder):
            n_rows, counts = learned.counted
            step._fit_counted(X, n_rows, partial(_counts_of, counts))
        elif fits:
            step.fit(X)
            vars(step).update({n: _beside(getattr(step, n), value) for n, value in found.items()})
        else:
            _check_feature_names(step, header_of(X), reset=True)
            _check_n_features(step, X, reset=True)
            vars(step).update(found)
        if step is not steps[-1]:
            X = step.transform(X)


def _counts_of(counts, j, categories):
    """How many rows have each category of a column."""
    return counts[j]


def _beside(before, value):
    """Statistics of all rows in the form that a few rows gave, which stay where either is nan."""
    place = place_of(before) if is_array(before) else None
    if place is None or before.dtype == object:
        each = [old if is_nan(new) else new for old, new in zip(before, value, strict=True)]
        return np.asarray(each, dtype=object)
    value = place.xp.astype(move(np.asarray(value, dtype=np.float64), place), before.dtype)
    empty = (before != before) | (value != value)  # columns of holes alone
    return place.xp.where(empty, before, value)


def rows_of_levels(codes: Sequence[Array], n_levels: Sequence[int]) -> np.ndarray:
    """Numbers of rows among which is one for each level of some columns of codes (n,)."""
    found = [_one_of_each(own, n) for own, n in zip(codes, n_levels, strict=True)]
    return np.unique(np.concatenate(found))


def _one_of_each(codes, n_levels):
    size = FEW_ROWS
    while True:
        some = to_host(codes[: min(size, codes.shape[0])])
        last = np.full(n_levels, -1)
        last[some] = np.arange(len(some))
        if (last >= 0).all() or size >= codes.shape[0]:
            return last[last >= 0]
        size *= FEW_ROWS_MORE


def rows_with_holes(holes: Sequence[Array]) -> np.ndarray:
    """Numbers of rows among which is one with a hole and one without, of columns of bools (n,)."""
    found = [0]
    for hole in holes:
        xp = namespace(hole)
        flags = xp.astype(hole, xp.uint8)
        found += [int(xp.argmax(flags)), int(xp.argmin(flags))]
    return np.unique(found)


def fit_where(transformer: Any, X: Any, y: Any, enough: Mapping[str, Learned]) -> None:
    """Fit branches side by side, some of them from known statistics."""
    own = getattr(transformer, "fit_where", None)
    if own is None:
        transformer.fit(X, y)
    else:
        own(X, y, enough)

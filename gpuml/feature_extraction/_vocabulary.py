"""Which terms a vocabulary keeps, as scikit-learn decides; on the device of the counts."""

from numbers import Integral
from typing import Any

import numpy as np

from gpuml._arrays import Array, move, namespace, place_of, to_host


def pruned(model: Any, terms: list[str], X: Any) -> tuple[list[str], Any]:
    """Sorted terms that the parameters of a `CountVectorizer` keep, and their counts.

    Parameters
    ----------
    model : CountVectorizer
        With max_df, min_df, max_features and dtype.
    terms : list of p str
        Sorted.
    X : CSR matrix (n, p)

    Raises
    ------
    ValueError
        If no terms are left.
    """
    if not terms:
        raise ValueError("empty vocabulary; perhaps the documents only contain stop words")
    n = X.shape[0]
    high = model.max_df if isinstance(model.max_df, Integral) else model.max_df * n
    low = model.min_df if isinstance(model.min_df, Integral) else model.min_df * n
    if high < low:
        raise ValueError("max_df corresponds to < documents than min_df")
    xp = namespace(X.data)
    frequency = to_host(xp.bincount(X.indices, minlength=len(terms)))
    kept = (frequency <= high) & (frequency >= low)
    if model.max_features is not None and kept.sum() > model.max_features:
        kept = _most_frequent(kept, _totals(X, model.dtype), model.max_features)
    if not kept.any():
        raise ValueError("After pruning, no terms remain. Try a lower min_df or a higher max_df.")
    if kept.all():
        return terms, X
    return [term for term, keep in zip(terms, kept, strict=True) if keep], columns_of(X, kept)


def _totals(X, dtype):
    """Counts of all texts together, in the dtype in which scikit-learn adds them."""
    xp = namespace(X.data)
    sums = xp.bincount(X.indices, weights=xp.astype(X.data, xp.float64), minlength=X.shape[1])
    return to_host(sums).astype(np.zeros(1, dtype=dtype).sum().dtype)


def _most_frequent(kept, totals, limit):
    # The same sort of the same numbers as in scikit-learn: the same of equal terms are kept.
    chosen = np.flatnonzero(kept)[(-totals[kept]).argsort()[:limit]]
    out = np.zeros_like(kept)
    out[chosen] = True
    return out


def columns_of(X: Any, kept: np.ndarray) -> Any:
    """A CSR matrix without the columns that are not kept (p,)."""
    place = place_of(X.data)
    xp = place.xp
    column = move((np.cumsum(kept) - 1).astype(X.indices.dtype), place)
    stays: Array = move(kept, place)[X.indices]
    ends = xp.concat(
        [xp.zeros(1, dtype=xp.int64), xp.cumulative_sum(xp.astype(stays, xp.int64))], axis=0
    )
    indptr = xp.astype(ends[X.indptr], X.indptr.dtype)
    parts = X.data[stays], column[X.indices[stays]], indptr
    return type(X)(parts, shape=(X.shape[0], int(kept.sum())))

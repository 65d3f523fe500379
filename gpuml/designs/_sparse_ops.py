"""The differences between sparse matrices of SciPy and CuPy, hidden from solvers.

A matrix is CSR, in CPU memory (`scipy.sparse`) or on a GPU (`cupyx.scipy.sparse`). Its arrays are
NumPy's or CuPy's, and show where it is. Products are with dense matrices and give dense ones.
Nothing here writes to the arrays of a matrix.
"""

from typing import Any

import numpy as np
from scipy import sparse

from gpuml._arrays import (
    Array,
    Place,
    device_of,
    is_cupyx_sparse,
    itemsize,
    move,
    namespace,
    place_of,
)


def matrix_nbytes(X: Any) -> int:
    """Bytes of a CSR matrix."""
    return sum(a.shape[0] * itemsize(a.dtype) for a in (X.data, X.indices, X.indptr))


def csr(data: Array, indices: Array, indptr: Array, shape: tuple[int, int]) -> Any:
    """A CSR matrix that shares the given arrays.

    Both libraries choose 32-bit indices if those suffice. cuSPARSE sums duplicates and sorts
    indices before a product, in new arrays: a separate matrix object keeps the user's unchanged.
    """
    if isinstance(data, np.ndarray):
        return sparse.csr_array((data, indices, indptr), shape=shape)
    from cupyx.scipy.sparse import csr_matrix

    return csr_matrix((data, indices, indptr), shape=shape)


def without_duplicates(X: Any) -> Any:
    """A CSR matrix with sorted indices and no duplicates; X does not change."""
    X = csr(X.data, X.indices, X.indptr, X.shape)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def moved(X: Any, place: Place) -> Any:
    """A CSR matrix at a place."""
    if place_of(X.data) == place:
        return X
    data, indices, indptr = (move(a, place) for a in (X.data, X.indices, X.indptr))
    return csr(data, indices, indptr, X.shape)


def with_data(X: Any, data: Array) -> Any:
    """A matrix with the same pattern and other entries."""
    return csr(data, X.indices, X.indptr, X.shape)


def run_of_rows(X: Any, start: int, stop: int) -> Any:
    """Consecutive rows: a view in CPU memory, an aligned copy for cuSPARSE on a GPU."""
    if start == 0 and stop == X.shape[0]:
        return X
    first, last = int(X.indptr[start]), int(X.indptr[stop])
    indptr = X.indptr[start : stop + 1] - X.indptr[start]
    data, indices = X.data[first:last], X.indices[first:last]
    if is_cupyx_sparse(X):
        data, indices = data.copy(), indices.copy()
    return csr(data, indices, indptr, (stop - start, X.shape[1]))


def take_rows(X: Any, rows: Array) -> Any:
    """The rows of an index array, as a copy at the place of X."""
    return X[rows]


def transposed(X: Any) -> Any:
    """X' for products.

    On a GPU this is a second CSR matrix: for a transposed one cuSPARSE has a slower algorithm,
    which sums in no fixed order. SciPy reads the same arrays by columns.
    """
    return X.T.tocsr() if is_cupyx_sparse(X) else X.T


def times(X: Any, B: Array) -> Array:
    """``X B`` (n, M) for dense B (p, M); by rows in SciPy, by columns (Fortran order) on a GPU."""
    if is_cupyx_sparse(X) and X.nnz == 0:
        # Some versions of cuSPARSE refuse empty matrices.
        return namespace(B).zeros((X.shape[0], B.shape[1]), dtype=B.dtype)
    return X @ B


def as_dense(X: Any) -> Array:
    """A dense copy of few rows."""
    return X.toarray()


def used_columns(X: Any) -> tuple[Any, Array | None]:
    """X without empty columns, and the numbers of the others; None if no column is empty.

    Most columns of hashed features are empty, and would take memory in every vector of a solver.
    """
    xp = namespace(X.data)
    p = X.shape[1]
    seen = xp.zeros((p,), dtype=xp.bool, device=device_of(X.data))
    seen[X.indices] = True
    columns = xp.nonzero(seen)[0]
    n_used = int(columns.shape[0])
    if n_used in (0, p):
        return X, None
    lookup = xp.astype(xp.cumulative_sum(xp.astype(seen, xp.int64)) - 1, xp.int32)
    indices = xp.take(lookup, X.indices, axis=0)
    return csr(X.data, indices, X.indptr, (X.shape[0], n_used)), columns


def spread_columns(values: Array, columns: Array | None, n_columns: int) -> Array:
    """Values (..., u) of the used columns as values (..., p) of all columns, 0 elsewhere."""
    if columns is None:
        return values
    xp = namespace(values)
    shape = (*values.shape[:-1], n_columns)
    out = xp.zeros(shape, dtype=values.dtype, device=device_of(values))
    out[..., columns] = values
    return out

"""All that differs between sparse matrices of SciPy and of CuPy; solvers know neither.

A matrix is CSR, on the host (`scipy.sparse`) or a GPU (`cupyx.scipy.sparse`). The arrays that make
it up are NumPy's or CuPy's, and say where it is. Products are with dense matrices and give dense
ones. Nothing here writes to the arrays of a matrix.
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
    """A CSR matrix of arrays that are shared with it.

    Both libraries choose 32-bit indices where those suffice. cuSPARSE sums duplicates and sorts the
    indices of a matrix before a product, in new arrays: ours is a matrix of its own, so that the
    user's stays as it was.
    """
    if isinstance(data, np.ndarray):
        return sparse.csr_array((data, indices, indptr), shape=shape)
    from cupyx.scipy.sparse import csr_matrix

    return csr_matrix((data, indices, indptr), shape=shape)


def without_duplicates(X: Any) -> Any:
    """A CSR matrix with sorted indices and one entry for each; X stays as it was."""
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
    """A matrix with entries in the same places."""
    return csr(data, X.indices, X.indptr, X.shape)


def run_of_rows(X: Any, start: int, stop: int) -> Any:
    """Neighbouring rows: on the host of the same memory, on a GPU aligned as cuSPARSE wants it."""
    if start == 0 and stop == X.shape[0]:
        return X
    first, last = int(X.indptr[start]), int(X.indptr[stop])
    indptr = X.indptr[start : stop + 1] - X.indptr[start]
    data, indices = X.data[first:last], X.indices[first:last]
    if is_cupyx_sparse(X):
        data, indices = data.copy(), indices.copy()
    return csr(data, indices, indptr, (stop - start, X.shape[1]))


def take_rows(X: Any, rows: Array) -> Any:
    """The rows of an index array where X is: a copy."""
    return X[rows]


def transposed(X: Any) -> Any:
    """X' for products.

    On a GPU in CSR format, once more in memory: cuSPARSE takes another way through a transposed
    matrix, slower and with sums in no fixed order. SciPy reads the same arrays by columns.
    """
    return X.T.tocsr() if is_cupyx_sparse(X) else X.T


def times(X: Any, B: Array) -> Array:
    """``X B`` (n, M) for dense B (p, M); by rows in SciPy, by columns (Fortran order) on a GPU."""
    if is_cupyx_sparse(X) and X.nnz == 0:
        # cuSPARSE refuses empty matrices in some versions.
        return namespace(B).zeros((X.shape[0], B.shape[1]), dtype=B.dtype)
    return X @ B


def as_dense(X: Any) -> Array:
    """A dense copy of few rows."""
    return X.toarray()


def used_columns(X: Any) -> tuple[Any, Array | None]:
    """X without the columns that have no entries, and which are left; None for all.

    Of hashed features most have none, and would only take memory in every vector of a solver.
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
    """Values (..., u) of the columns in use as values (..., p) of all, 0 elsewhere."""
    if columns is None:
        return values
    xp = namespace(values)
    shape = (*values.shape[:-1], n_columns)
    out = xp.zeros(shape, dtype=values.dtype, device=device_of(values))
    out[..., columns] = values
    return out

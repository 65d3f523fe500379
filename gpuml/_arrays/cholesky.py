"""Many symmetric positive definite systems on a GPU, by Cholesky factors, with their condition.

The condition number is Hager's and Higham's estimate [1]_, as LAPACK has it: a lower bound that is
seldom too small by more than a factor of three, from three solves with the factor that is there.
What CuPy says of a factorisation that broke down would make the GPU wait for each matrix; here a
system whose solution is known says so.

References
----------
.. [1] N. J. Higham, "FORTRAN codes for estimating the one-norm of a real or complex matrix",
   ACM Transactions on Mathematical Software 14 (1988).
"""

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from gpuml._arrays.places import Array, is_singular, namespace

# Up to this order the inverses of all matrices, in one call, are there sooner.
SMALL_ORDER = 128
# From this order on cuSOLVER's call for one matrix is faster than that for many.
LARGE_ORDER = 2500
STREAMS = 4
# Matrices that are factored in one call, with a copy or two of each.
CHUNK_BYTES = 2**30
# A known solution that is further off, at norm 2, is that of no factor of the matrix.
LARGEST_ERROR = 1e-2


def cholesky_or_none(A: Array) -> Array | None:
    """Lower factors (..., p, p) of matrices of any library; None if one of them has none.

    A look at the device: CuPy, which else does not wait for it, says nothing of a failure.
    """
    xp = namespace(A)
    try:
        with _errors_of(A):
            found = xp.linalg.cholesky(A)
    except Exception as error:
        if not is_singular(error):
            raise
        return None
    # Factors are roots of what is finite: their sum does not overflow.
    return found if math.isfinite(float(xp.sum(found))) else None


def _errors_of(A: Array) -> AbstractContextManager:
    """A context in which CuPy too raises errors of factorisations."""
    if not type(A).__module__.startswith("cupy"):
        return nullcontext()
    import cupyx

    return cupyx.errstate(linalg="raise")


def solve_by_cholesky(A: Array, B: Array, with_condition: bool) -> tuple[Array, Array]:
    """Solutions (n, p, t) of ``A X = B`` and 1-norm condition numbers (n,) of A (n, p, p).

    inf or nan where the factorisation broke down; 1 elsewhere if nobody asks for the condition.
    """
    import cupy
    import cupyx

    n, p = A.shape[:2]
    step = 1 if p >= LARGE_ORDER else max(1, CHUNK_BYTES // (8 * p * p))
    chunks = [slice(i, min(i + step, n)) for i in range(0, n, step)]

    def solve(chunk):
        return _solve(A[chunk], B[chunk], with_condition)

    with cupyx.errstate(linalg="ignore"):
        if p < LARGE_ORDER or len(chunks) == 1:
            found = [solve(chunk) for chunk in chunks]
        else:
            found = _side_by_side(solve, chunks)
    X, condition = zip(*found, strict=True)
    return cupy.concatenate(X), cupy.concatenate(condition)


def _side_by_side(solve, chunks):
    """Results of a function of each chunk, whose kernels run on several streams."""
    import cupy

    ready = cupy.cuda.get_current_stream().record()
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(min(STREAMS, len(chunks)))]
    found = []
    for stream in streams:
        stream.wait_event(ready)
    for i, chunk in enumerate(chunks):
        with streams[i % len(streams)]:
            found.append(solve(chunk))
    for stream in streams:
        stream.synchronize()
    return found


def _solve(A, B, with_condition):
    import cupy

    xp, p, t = namespace(A), A.shape[-1], B.shape[-1]
    solve = _solver(A)
    known = cupy.ones((p, 1))
    known[1::2] = -1.0
    sides = [B, A @ known]
    X = solve(cupy.concatenate([*sides, first_sides(xp, A)] if with_condition else sides, axis=-1))
    wrong = cupy.abs(X[..., t : t + 1] - known).max(axis=(-2, -1))
    condition = cupy.ones(len(A))
    if with_condition:
        norm = cupy.abs(A).sum(axis=-2).max(axis=-1)
        condition = norm * norm1_of_inverse(solve, X[..., t + 1 :], xp)
    return X[..., :t], cupy.where(wrong <= LARGEST_ERROR, condition, cupy.inf)


def _solver(A):
    """``V -> A^-1 V``, from Cholesky factors."""
    import cupy
    from cupyx.lapack import potrs
    from cupyx.scipy.linalg import solve_triangular

    if len(A) == 1:
        # A single large matrix has a faster routine.
        only = cupy.linalg.cholesky(A[0])
        return lambda V: potrs(only, V[0], True)[None]
    L = cupy.linalg.cholesky(A)

    def solve(V):
        V = solve_triangular(L, V, lower=True, check_finite=False)
        return solve_triangular(L, V, lower=True, trans="T", check_finite=False)

    return solve


def first_sides(xp: Any, A: Array) -> Array:
    """Two right-hand sides (n, p, 2) whose solutions an estimate of the norm begins with."""
    p = A.shape[-1]
    uniform = xp.full((p,), 1.0 / p)
    # For matrices with which the estimate fails: signs in turn, of growing size.
    slope = np.arange(p) / max(p - 1, 1)
    turns = xp.asarray((1.0 + slope) * np.where(np.arange(p) % 2, -1.0, 1.0))
    return xp.broadcast_to(xp.stack([uniform, turns], axis=-1), (*A.shape[:-1], 2))


def norm1_of_inverse(solve: Callable[[Array], Array], first: Array, xp: Any) -> Array:
    """Lower bounds (n,) of the 1-norms of the inverses of symmetric matrices.

    Parameters
    ----------
    solve : callable
        ``V -> A^-1 V`` for V (n, p, k).
    first : array (n, p, 2)
        What it gives of `first_sides`.
    """
    y, turns = first[..., :1], first[..., 1:]
    p = y.shape[-2]
    z = solve(xp.where(y < 0, -1.0, 1.0))
    largest = xp.argmax(xp.abs(z), axis=-2)  # (n, 1)
    unit = xp.astype(xp.arange(p)[None, :, None] == largest[:, None, :], y.dtype)
    columns = xp.sum(xp.abs(solve(unit)), axis=(-2, -1))
    return xp.maximum(
        xp.maximum(columns, xp.max(xp.abs(z), axis=(-2, -1))),
        xp.maximum(
            xp.sum(xp.abs(y), axis=(-2, -1)), 2 / (3 * p) * xp.sum(xp.abs(turns), axis=(-2, -1))
        ),
    )

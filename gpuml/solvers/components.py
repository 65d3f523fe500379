"""Principal components of the rows of S parts, from second moments or from the rows themselves.

For rows x with mean m, the components are the orthonormal v_1, v_2, ... that maximise

    s_j^2 = sum_i (v_j' (x_i - m))^2 ,

in that order: eigenvectors of ``sum (x - m)(x - m)'`` and right singular vectors of the centred
rows. Eigenvectors cost one pass over the rows and small matrices, but leave singular values an
absolute error of about ``sqrt(eps) s_1``; an SVD of a triangular factor of the rows leaves
``eps s_1`` [1]_.

References
----------
.. [1] G. H. Golub, C. F. Van Loan, "Matrix computations", 4th ed. (2013), section 8.6.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg

from gpuml._arrays import Array, is_numpy, namespace, to_host
from gpuml._arrays.ops import constant, triangular_factor, zeros
from gpuml._arrays.threads import blas_threads, may_limit_blas, ordered_map, threads_for_order
from gpuml.solvers._subspace import eigh_descending, leading_by_iteration
from gpuml.solvers.factors import Stacked, enlarging, without_rounding
from gpuml.solvers.moments import Moments, normal_equations

# LAPACK finds some eigenpairs faster than all if they are at most this share: 0.1 of one matrix,
# less of several, which NumPy takes side by side, and SciPy, which finds some, does not.
SOME_OF_ALL = 0.06
# Singular values come from inner products of rows if they are at most this share.
FEW_OF_ALL = 0.25
# The same for iterations on a device, where small matrices are a matter of launches.
ITERATE_FROM_ORDER = 1000
ITERATE_UP_TO_SHARE = 0.05
# Up to this order a CPU core is as fast as a device, and has more than one.
ON_HOST_UP_TO_ORDER = 256
# Orders at which matrices are worth a thread each, and BLAS would not do better with its own.
SIDE_BY_SIDE = (48, 512)
# Eigenvalues below this share of the largest have lost digits that a large mean has taken, unless
# the rows about their mean are themselves more than the other share of it.
SMALL_SHARE = 1e-6
MOST_OF_SPREAD = 1e-2
# Eigenvalues above this share of the largest are right to some 1e-12.
CLEAR_SHARE = 1e-4


@dataclass(frozen=True)
class Components:
    """The first r components of S parts, float64.

    Attributes
    ----------
    vectors : array (S, r, p)
        Orthonormal rows; the entry of largest absolute value in each is positive.
    singular : array (S, r)
        Singular values, in descending order.
    total : array (S,)
        Sum of the squares of all singular values, those left out too.
    mean : array (S, p)
        The mean that was removed; zeros where none was.
    widths : tuple of S ints, or None
        How many features each part has; what is beyond is 0. None for all features.
    """

    vectors: Array
    singular: Array
    total: Array
    mean: Array
    widths: tuple[int, ...] | None = None

    def width(self, s: int) -> int:
        """How many features a part has."""
        return self.mean.shape[-1] if self.widths is None else self.widths[s]


def from_moments(moments: Moments, n_components: int, *, centred: bool) -> Components:
    """Components of parts with moments gram (S, q, q).

    Parameters
    ----------
    moments : Moments
    n_components : int
        How many are wanted, r <= p.
    centred : bool
        Whether the mean is removed; without, components of second moments about the origin.
    """
    normal = normal_equations(moments, True)
    if centred:
        return from_products(normal.xx, normal.x_mean, n_components)
    return about_origin(normal.xx, normal.x_mean, moments.gram[..., -1, -1], n_components)


def about_origin(centred: Array, mean: Array, weight: Array, n_components: int) -> Components:
    """Components of uncentred rows, from the decomposition of centred ones.

    Parameters
    ----------
    centred : array (S, p, p)
        C, ``sum (x - m)(x - m)'``.
    mean : array (S, p)
        The means m.
    weight : array (S,)
        Numbers of rows n.
    n_components : int
        How many are wanted, r <= p.
    """
    xp = namespace(centred)
    # Both terms are positive semi-definite: nothing cancels in this sum.
    products = centred + weight[:, None, None] * (mean[:, :, None] * mean[:, None, :])
    found = from_products(products, xp.zeros_like(mean), n_components)
    poor = _drowned(found, centred, xp)
    if not poor.any():
        return found
    better = [
        _of_stacked(centred[s : s + 1, ...], mean[s, :], weight[s], n_components, xp)
        if poor[s]
        else (found.singular[s, :], found.vectors[s, ...])
        for s in range(len(poor))
    ]
    return replace(
        found,
        singular=xp.stack([values for values, _ in better]),
        vectors=with_signs(xp.stack([vectors for _, vectors in better]), xp),
    )


def _drowned(found, centred, xp):
    """Parts, as bools in CPU memory, whose large mean hides the centred rows.

    An eigenvalue is right to eps times the largest one, which is the mean's.
    """
    squares = found.singular**2
    if squares.shape[-1] == 0:
        return np.zeros(squares.shape[0], dtype=bool)
    spread = xp.sum(xp.linalg.diagonal(centred), axis=-1)
    small = squares[:, -1] < SMALL_SHARE * squares[:, 0]
    # Where the rows themselves make the difference, taking their mean apart is of no use.
    return to_host(small & (spread < MOST_OF_SPREAD * squares[:, 0]))


def _of_stacked(centred, mean, weight, count, xp):
    """Singular values and right vectors of ``[F; sqrt(n) m']``, where F'F is `centred` (1, p, p).

    Eigenvectors give F. No square of the mean is added to anything.
    """
    squares, vectors = leading_eigh(centred, centred.shape[-1], xp)
    lengths = xp.sqrt(xp.where(squares > 0, squares, xp.zeros_like(squares)))
    factor = lengths[0, :, None] * vectors[0, ...]
    rows = xp.concat([factor, (xp.sqrt(weight) * mean)[None, :]], axis=0)
    if rows.shape[1] <= ON_HOST_UP_TO_ORDER and type(rows).__module__.startswith("cupy"):
        found = _svd(to_host(rows), count, np)
        return tuple(constant(each, like=rows, xp=xp) for each in found)
    return _svd(rows, count, xp)


def from_products(products: Array, mean: Array, n_components: int) -> Components:
    """Components from ``sum (x - m)(x - m)'`` (S, p, p) and the means m (S, p)."""
    xp = namespace(products)
    squares, vectors = leading_eigh(products, n_components, xp)
    # Rounding may leave eigenvalues just below zero.
    squares = xp.where(squares > 0, squares, xp.zeros_like(squares))
    total = xp.sum(xp.linalg.diagonal(products), axis=-1)
    return Components(with_signs(vectors, xp), xp.sqrt(squares), total, mean)


def from_rows(
    stacked: Sequence[Stacked], n_rows: Sequence[int], n_components: int, *, centred: bool = True
) -> Components:
    """Components from rows that describe each part, as if without squaring anything.

    Parameters
    ----------
    stacked : sequence of S Stacked
        Rows Z of ``[x - c, y - d, 1]`` or anything else with the same ``Z' Z``.
    n_rows : sequence of S ints
        How many rows the parts have; a part has min(n_rows, p) components. Where the parts
        differ, zeros take the place of those that are missing.
    n_components : int
        How many are wanted, at least 1 where there are any.
    centred : bool, default=True
        Whether the mean is removed.
    """
    xp = namespace(stacked[0].rows)
    p = stacked[0].n_features
    most = min(max(n_rows), p, n_components)
    vectors, singular, totals, means = [], [], [], []
    for of_part, n in zip(stacked, n_rows, strict=True):
        rows, count = of_part.rows, min(n, most)
        about = _centred if centred else _about_origin
        kept, mean = about(rows[:, :p], rows[:, -1], of_part.shift[:p], xp)
        values, right = _svd(kept, count, xp)
        vectors.append(xp.concat([right, zeros((most - count, p), like=right, xp=xp)]))
        singular.append(xp.concat([values, zeros((most - count,), like=right, xp=xp)]))
        totals.append(xp.sum(kept**2))
        means.append(mean)
    return Components(
        vectors=with_signs(xp.stack(vectors), xp),
        singular=xp.stack(singular),
        total=xp.stack(totals),
        mean=xp.stack(means),
    )


def _centred(values, ones, shift, xp):
    """Rows less their mean, and the mean; `ones` is the column that was 1 in the rows."""
    offset = (ones @ values) / (ones @ ones)
    values = values - ones[:, None] * offset
    mean = offset + shift
    return without_rounding(values, mean, xp.sqrt(ones @ ones), xp), mean


def _about_origin(values, ones, shift, xp):
    """Rows with the shift put back, and the mean that was removed: none."""
    return values + ones[:, None] * shift, xp.zeros_like(shift)


def _svd(rows, count, xp):
    """The first `count` singular values (count,) and right vectors (count, p) of rows (m, p)."""
    m, p = rows.shape
    if m > p:
        rows = triangular_factor(rows, xp)
    elif m < count:
        # Rows that a splitter repeats are described once: what they lack is nothing.
        rows = xp.concat([rows, zeros((count - m, p), like=rows, xp=xp)])
    # LAPACK scales small values itself; GPU routines stop too early on them.
    factor = enlarging(rows)
    rows = rows * factor
    found = _leading_svd(rows, count, xp)
    if found is None:
        _, *found = xp.linalg.svd(rows, full_matrices=False)
    values, right = found
    return values[:count] / factor, right[:count, :]


def _leading_svd(rows, count, xp):
    """A few singular values and right vectors from inner products of rows; None if they blur them.

    An eigenvalue is right to eps times the largest, so that those which are no small part of it are
    as good as squares of singular values.
    """
    m, p = rows.shape
    if not (0 < count <= FEW_OF_ALL * m and m <= p):
        return None
    squares, left = leading_eigh((rows @ rows.T)[None, ...], count, xp)
    if not float(squares[0, -1]) > CLEAR_SHARE * float(squares[0, 0]):
        return None
    values = xp.sqrt(squares[0, :])
    return values, left[0, ...] @ rows / values[:, None]


def leading_eigh(A: Array, n_leading: int, xp) -> tuple[Array, Array]:
    """The largest eigenvalues of symmetric positive semi-definite matrices, with eigenvectors.

    All of them are computed where that costs no more: the one place where this is decided.

    Parameters
    ----------
    A : array (S, p, p), float64
    n_leading : int
        How many are wanted, r <= p.

    Returns
    -------
    values : array (S, r), descending
    vectors : array (S, r, p)
    """
    p = A.shape[-1]
    if is_numpy(A):
        return _lapack_eigh(A, n_leading)
    if p >= ITERATE_FROM_ORDER and 0 < n_leading <= ITERATE_UP_TO_SHARE * p:
        found = leading_by_iteration(A, n_leading, xp)
        if found is not None:
            return found
    if p <= ON_HOST_UP_TO_ORDER and type(A).__module__.startswith("cupy"):
        found = _lapack_eigh(to_host(A), n_leading)
        return tuple(constant(each, like=A, xp=xp) for each in found)
    values, vectors = eigh_descending(A, xp)
    return values[:, :n_leading], xp.matrix_transpose(vectors[:, :, :n_leading])


def _lapack_eigh(A, n_leading):
    p = A.shape[-1]
    some = 0 < n_leading <= SOME_OF_ALL * p

    def solve(matrix):
        # NumPy's routine releases the GIL, SciPy's does not.
        if not some:
            return np.linalg.eigh(matrix)
        wanted = [p - n_leading, p - 1]
        return linalg.eigh(matrix, check_finite=False, subset_by_index=wanted)

    # Matrices side by side: threads within such small ones would wait for each other.
    side_by_side = SIDE_BY_SIDE[0] <= p <= SIDE_BY_SIDE[1] and may_limit_blas()
    threads = min(len(A), blas_threads()) if side_by_side else 1
    with threads_for_order(p):
        found = list(ordered_map(solve, A, threads)) if threads > 1 else [solve(a) for a in A]
    values = np.stack([values[::-1][:n_leading] for values, _ in found])
    return values, np.stack([vectors[:, ::-1][:, :n_leading].T for _, vectors in found])


def with_signs(vectors: Array, xp) -> Array:
    """Vectors (..., p) with the sign that makes the entry of largest absolute value positive.

    Of several such entries the first counts.
    """
    if vectors.shape[-2] == 0:
        return vectors
    first = xp.argmax(xp.abs(vectors), axis=-1)[..., None]
    negative = xp.take_along_axis(vectors, first, axis=-1) < 0
    return xp.where(negative, -vectors, vectors)


def variances_along(products: Array, vectors: Array) -> Array:
    """``v' A v`` for vectors (..., k, p) of matrices A (..., p, p): (..., k)."""
    xp = namespace(products)
    return xp.sum((vectors @ products) * vectors, axis=-1)

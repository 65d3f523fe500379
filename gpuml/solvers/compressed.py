r"""Leading singular vectors by subspace iteration that visits the rows once for each step.

With orthonormal Q (p, l) a visit of the rows of A (n, p) sums

.. math:: Z = A' (A Q), \qquad G = (A Q)' (A Q)

A power step is :math:`Q \leftarrow \mathrm{orth}(Z E)` with the eigenvectors E of G, leading ones
first, so that orthonormalising (by QR, in float64) takes nothing from them. The last visit is also
the projection: with :math:`R'R = G`, the rows of :math:`B = R'^{-1} Z'` are those of A seen by the
orthonormal columns :math:`A Q R^{-1}`, and its singular value decomposition
:math:`B = U_B S V` gives that of A [1]_. So q power steps take q + 1 visits; multiplying by A and
by its transposed in turn takes 2 q + 2.

Of the error, with :math:`\sigma_{k+1}` the first singular value that is left out and s more vectors
than components [1]_ (Corollary 10.10; a step here is one of its q),

.. math:: E |A - U S V| \le
    \left[\left(1 + \sqrt{\tfrac{k}{s - 1}}\right) \sigma_{k+1}^{2q+1}
    + \tfrac{e \sqrt{k + s}}{s} \Big(\sum_{j > k} \sigma_j^{2(2q+1)}\Big)^{1/2}
    \right]^{1/(2q+1)}

A visit squares the spectrum: what is smaller than the root of the rounding error, relative to the
largest singular value, comes out of another visit only. So where the smallest singular value that
is wanted is that small, visits are added.

References
----------
.. [1] N. Halko, P. G. Martinsson, J. A. Tropp, "Finding structure with randomness: probabilistic
   algorithms for constructing approximate matrix decompositions", SIAM Review 53 (2011).
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gpuml._arrays import HOST, Array, Place, is_numpy, move, namespace, place_of, to_host
from gpuml._arrays.ops import EPS, all_finite
from gpuml._arrays.threads import one_blas_thread
from gpuml.solvers._blocks import quiet
from gpuml.solvers._subspace import eigh_descending
from gpuml.solvers.row_products import Visit

# Thinner products take no less time; Dask has the same.
MIN_WIDTH = 20
THREADED_FROM_PRODUCTS = 2e9
# Matrices up to this order are factorised in CPU memory.
SMALL_ORDER = 256
# Matrices with at least so many rows per column are orthonormalised by products.
TALL = 8
# Of a Gram matrix with a unit diagonal, its least eigenvalue for that: a condition number of some
# 1e4 leaves columns orthonormal to 1e-8 at first, and to rounding then.
LEAST_INDEPENDENT = 1e-8
# Visits that may be added for small singular values.
MOST_ADDED = 2
# A visit resolves a singular value that is this many times the root of the rounding error.
RESOLVED = 10.0
# Below this many rounding errors, a value may be rounding only.
NOISE = 1e3
ROUNDING = {"float32": float(np.finfo(np.float32).eps), "float64": EPS}


NOT_FINITE = (
    "The rows contain NaN, infinity, or values whose squares are too large for float64 (or for "
    "float32, if products are computed in it). Impute missing values, or pack small codes with "
    "gpuml.encodings.pack, which accepts nan as missing."
)


# If no number is larger, sums of products of this dtype lose digits.
LEAST_PRODUCT = {"float32": 1e-31, "float64": 1e-292}


class TooSmall(ValueError):
    """Values that are not zero, and whose squares are, or nearly so."""

    def __init__(self, dtype: str):
        wider = " with dtype='float64', or" if dtype == "float32" else ""
        super().__init__(
            f"The rows contain values whose squares are too small for {dtype}. Try again{wider} "
            "after scaling them up (multiply by a power of ten)."
        )


class Triplets(NamedTuple):
    """Leading singular triplets.

    Attributes
    ----------
    singular : array (k,), float64
    right : array (k, p), float64
        Orthonormal rows.
    map : array (p, k), float64
        Left singular vectors are ``A map``.
    turn : array (l, k), float64
        And of the images ``Y = A Q`` of the last visit, they are ``Y turn``.
    """

    singular: Array
    right: Array
    map: Array
    turn: Array


def start(n_columns: int, width: int, random: Any, place: Place = HOST) -> Array:
    """Orthonormal columns (p, l) of a random subspace, at a place: the same for the same seed."""
    drawn = move(random.normal(size=(n_columns, width)), place)
    return _qr(drawn, place.xp)[0]


def turned(Q: Array, total: Visit) -> Array:
    """The next orthonormal block, (p, l): A' A Q, leading directions first."""
    xp = namespace(Q)
    _, vectors = _eigh(_small(total.G))
    return _qr(total.Z @ _beside(vectors, Q), xp)[0]


def triplets(Q: Array, total: Visit, count: int, dtype: str = "float64") -> Triplets:
    """The first `count` singular triplets that a visit gives, or fewer if A has a smaller rank.

    Raises
    ------
    TooSmall
        If products, which were of `dtype`, lost what they should have summed.
    """
    xp = namespace(Q)
    _demand_squares(Q, total, dtype)
    whitening = _whitening(_small(total.G))  # (l, r), R^-1
    if whitening.shape[1] == 0:  # A is zero
        nothing = total.Z[:, :0]
        return Triplets(nothing[0, :], nothing.T, nothing, Q[: Q.shape[1], :0])
    basis, small = _qr(total.Z @ _beside(whitening, Q), xp)  # B' = basis small
    small = _small(small)
    left, singular, right = namespace(small).linalg.svd(small, full_matrices=False)
    turn = _beside(whitening @ right.T[:, :count], Q)
    left, singular = _beside(left[:, :count], Q), _beside(singular[:count], Q)
    return Triplets(singular, (basis @ left).T, Q @ turn, turn)


def _demand_squares(Q, total, dtype):
    """Both sums have the same trace, ``tr G = tr Q'Z``, unless small numbers vanished from one."""
    xp = namespace(Q)
    if bool(xp.max(xp.abs(total.Z)) > LEAST_PRODUCT[dtype]):
        return
    trace = float(xp.linalg.trace(total.G))
    if abs(float(xp.sum(Q * total.Z)) - trace) > 32 * ROUNDING[dtype] * trace:
        raise TooSmall(dtype)


def _small(G):
    """A matrix of the order of the block, in CPU memory: a GPU takes longer to start than this."""
    return to_host(G) if max(G.shape) <= SMALL_ORDER else G


def _beside(a, like):
    """The same where another array is."""
    return move(np.ascontiguousarray(a) if is_numpy(a) else a, place_of(like))


def _eigh(G):
    xp = namespace(G)
    values, vectors = eigh_descending(G[None, ...], xp)
    return values[0, :], vectors[0, ...]


def _qr(Z, xp, rounds=2):
    """QR of a thin float64 matrix, with R in CPU memory if it is small."""
    n, width = Z.shape
    is_tall = TALL * width <= n and width <= SMALL_ORDER
    # Threads of BLAS would wait for each other longer than it takes.
    with one_blas_thread() if n * width**2 < THREADED_FROM_PRODUCTS else nullcontext():
        return (_cholesky_qr(Z, rounds) if is_tall else None) or xp.linalg.qr(Z)


def orthonormal(Z: Array) -> Array:
    """Orthonormal columns with the span of the first, the first two, ... columns of Z, float64."""
    return _qr(Z, namespace(Z))[0]


def independent(Z: Array) -> Array:
    """Columns with the spans of those of `orthonormal`, orthonormal to 1e-7 at least."""
    return _qr(Z, namespace(Z), rounds=1)[0]


def _cholesky_qr(Z, rounds=2):
    """The same from Z'Z, twice: products only. None where columns of Z are nearly dependent.

    The first time loses digits as the square of the condition number, which is bounded here; the
    second time starts from orthonormal but for those (CholeskyQR2; Yamamoto, Nakatsukasa,
    Yanagisawa and Fukaya, 2015).
    """
    Q, R = Z, np.eye(Z.shape[1])
    for _ in range(rounds):
        with quiet():  # squares may be too large
            G = to_host(Q.T @ Q)
        lengths = np.sqrt(np.diagonal(G))
        if not (np.isfinite(lengths).all() and lengths.all()):
            return None
        G = G / lengths / lengths[:, None]
        if not np.linalg.eigvalsh(G)[0] > LEAST_INDEPENDENT:
            return None
        upper = np.linalg.cholesky(G).T
        Q = Q @ _beside(np.linalg.inv(upper) / lengths[:, None], Z)
        R = upper * lengths @ R
    return Q, R


def _whitening(G):
    """T (l, r) with ``T' G T = I``; directions in which G vanishes are left out.

    A unit diagonal first: lengths of images may differ by many orders, and each of them is
    accurate relative to itself.
    """
    xp = namespace(G)
    lengths = xp.sqrt(xp.linalg.diagonal(G))
    positive = lengths > 0
    scale = xp.where(positive, 1.0 / xp.where(positive, lengths, 1.0), 0.0)
    values, vectors = _eigh(G * scale[:, None] * scale[None, :])
    kept = to_host(values) > G.shape[0] * EPS * max(float(values[0]), 0.0)
    rank = int(np.count_nonzero(kept))
    return scale[:, None] * vectors[:, :rank] / xp.sqrt(values[:rank])


@dataclass(frozen=True)
class Plan:
    """The request: components, additional random vectors, power steps; dtype of products."""

    n_components: int
    n_oversamples: int
    n_power_iter: int
    dtype: str = "float64"

    def width(self, shape: tuple[int, int]) -> int:
        """Columns of the block, l."""
        return min(max(self.n_components + self.n_oversamples, MIN_WIDTH), *shape)

    def is_resolved(self, found: Triplets, n_added: int = 0) -> bool:
        """Whether visits saw all components that are wanted, or there are no more.

        What looks like rounding, and still does when it is seen again, is rounding.
        """
        values = to_host(found.singular)
        if len(values) == 0 or values[0] == 0:
            return True
        rounding, least = ROUNDING[self.dtype], values[-1] / values[0]
        if n_added > 0 and least < NOISE * rounding:
            return True
        return len(values) == self.n_components and least > RESOLVED * rounding**0.5


def iterate(Q: Array, visit: Callable[[Array], Visit], plan: Plan) -> tuple[Array, Triplets]:
    """Q of the last visit, and the result of that visit.

    Parameters
    ----------
    Q : array (p, l), float64
        Orthonormal, where results of visits come to.
    visit : callable
        Sums over all rows for a Q. The last call is for the Q that is returned.
    plan : Plan

    Raises
    ------
    ValueError
        If the rows have nan or infinite values.
    """
    total = checked(visit(Q))
    for _ in range(plan.n_power_iter):
        Q = turned(Q, total)
        total = checked(visit(Q))
    found = triplets(Q, total, plan.n_components, plan.dtype)
    for n_added in range(MOST_ADDED):
        if plan.is_resolved(found, n_added):
            break
        Q = turned(Q, total)
        total = checked(visit(Q))
        found = triplets(Q, total, plan.n_components, plan.dtype)
    return Q, found


def checked(total: Any) -> Any:
    """The same sums (with a G and a Z), if they are finite.

    Raises
    ------
    ValueError
        If they are not.
    """
    xp = namespace(total.G)
    if not (all_finite(total.G, xp) and all_finite(total.Z, xp)):
        raise ValueError(NOT_FINITE)
    return total


def more_columns(U: Array, count: int, random: Any) -> Array:
    """Orthonormal columns (n, r + count) from (n, r), float64, for a matrix of lower rank."""
    if count == 0:
        return U
    xp, place = namespace(U), place_of(U)
    U = xp.astype(U, xp.float64, copy=False)
    new = move(random.normal(size=(U.shape[0], count)), place)
    # Twice: what the first time leaves of old columns is rounding, relative to a small rest.
    for _ in range(2):
        new = _qr(new - U @ (U.T @ new), xp)[0]
    return xp.concat([U, new], axis=1)


def more_values(values: Array, count: int) -> Array:
    """Numbers (r,), and `count` zeros."""
    xp = namespace(values)
    return xp.concat([values, xp.zeros(count, dtype=values.dtype, device=values.device)])


# ---------------------------------------------------------------- how good it is


class ErrorEstimate(NamedTuple):
    """Estimated error of an approximation ``U S V`` of A; see `error_estimate`.

    Attributes
    ----------
    singular_values : ndarray (k,)
        For each singular value, the distance within which A has one.
    norm : float
        Bound of ``|A - U S V|``, the largest singular value of what is left out. It is right with
        a probability of 1 - 10^-10, and about 8 times the Frobenius norm where many singular values
        are left out.
    frobenius : float
        Estimate, to some ten percent, of the Frobenius norm of what is left out: the root of the
        sum of squares of the other singular values.
    """

    singular_values: np.ndarray
    norm: float
    frobenius: float


N_PROBES = 10
# Rounding of a singular value, relative to the largest one, in units of the rounding error.
ROUNDED = 4.0


def probes(found: Triplets, random: Any) -> Array:
    """What A is multiplied with for an estimate, (p, k + 10): then images are what is missed.

    With right vectors and random ones P it is ``P - T S V P``, where U = A T.
    """
    xp = namespace(found.right)
    drawn = move(random.normal(size=(found.right.shape[1], N_PROBES)), place_of(found.right))
    P = xp.concat([found.right.T, drawn], axis=1)
    return P - found.map @ (found.singular[:, None] * (found.right @ P))


def error_estimate(found: Triplets, squares: np.ndarray, dtype: str) -> ErrorEstimate:
    r"""Errors, from the squared lengths of the images of `probes`.

    Those of right vectors are the residuals :math:`A v - s u`; as :math:`A' U = V' S` by
    construction, a singular value lies within :math:`1 / \sqrt 2` of one. Those of random vectors w
    are :math:`(A - U S V) w`: the mean of their squares is that of a Frobenius norm, and
    :math:`|A - U S V|` is below :math:`10 \sqrt{2 / \pi}` of the longest of r but for a probability
    of :math:`10^{-r}` [1]_.

    Parameters
    ----------
    found : Triplets
    squares : ndarray (k + 10,)
    dtype : {"float32", "float64"}
        Of the products.

    References
    ----------
    .. [1] N. Halko, P. G. Martinsson, J. A. Tropp, "Finding structure with randomness", SIAM Review
       53 (2011), equation (4.3).
    """
    singular = to_host(found.singular)
    k = len(singular)
    rounding = ROUNDED * ROUNDING[dtype] * (singular[0] if k else 0.0)
    missed = squares[k:]
    return ErrorEstimate(
        np.sqrt(squares[:k] / 2) + rounding,
        float(10 * np.sqrt(2 / np.pi * missed.max())),
        float(np.sqrt(missed.mean())),
    )

r"""Products of blocks of rows with thin matrices: numbers, or codes that are never widened.

What is decomposed is not X but A: missing values replaced by the mean of their feature, then
features centred and scaled. With the mean :math:`\mu_j` of the values that are present, the centre
:math:`c_j` (:math:`\mu_j` or 0) and the factor :math:`d_j` (one over the scale),

.. math:: A_{ij} = (\tilde X_{ij} - c_j) d_j, \qquad \tilde X = X_0 + M \mathrm{diag}(\mu)

where :math:`X_0` has zeros in place of missing values and M marks them. Of codes, A is not formed,
not even block by block:

.. math:: A W = \tilde X D W - 1 c' D W, \qquad A' Y = D (\tilde X' Y - c 1'Y)

Here features are the columns of blocks; `feature_rows` is for blocks whose rows are features.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from gpuml._arrays import Array, namespace, place_of
from gpuml._arrays.ops import column_sums
from gpuml._arrays.threads import blas_threads, may_limit_blas, one_blas_thread, ordered_map
from gpuml.encodings import products
from gpuml.encodings.packed import Packed
from gpuml.solvers.standard import Standard, Sums

Block = Any  # an array (n_b, p), or Packed

# Of dense rows: a block stays in the cache of one core; on a GPU its copy is no burden, and float32
# sums over its rows are short enough.
CPU_BLOCK_BYTES = 2**22
GPU_BLOCK_BYTES = 2**28
MIN_ROWS, MOST_ROWS = 64, 2**16
THREADED_FROM_PRODUCTS = 2e7


class Visit(NamedTuple):
    """Sums over rows, float64.

    They are ``Z = A' A Q`` (p, l), ``G = Q' A' A Q`` (l, l), and `ones`, ``1' A Q`` (l,).
    """

    Z: Array
    G: Array
    ones: Array

    @classmethod
    def of(cls, Z: Array, Y: Array) -> "Visit":
        """Of the images ``Y = A Q`` of some rows, and ``Z = A' Y``."""
        xp = namespace(Y)
        Y = xp.astype(Y, xp.float64, copy=False)
        return cls(xp.astype(Z, xp.float64, copy=False), Y.T @ Y, xp.sum(Y, axis=0))

    def plus(self, other: "Visit") -> "Visit":
        """Both, of the rows of either."""
        return Visit(self.Z + other.Z, self.G + other.G, self.ones + other.ones)


# ---------------------------------------------------------------- columns are features


def sums_of(block: Block, shift: Array) -> Sums:
    """Sums over the rows of a block; squares are of values less `shift` (p,)."""
    if isinstance(block, Packed):
        count, total, squares = products.counts(block)
        xp = namespace(total)
        count, total, squares = (xp.astype(a, xp.float64) for a in (count, total, squares))
        return Sums(count, total, squares - 2 * shift * total + count * shift**2)
    xp = namespace(block)

    def sums(rows, _part):
        rows = xp.astype(rows, xp.float64)
        ones = xp.ones_like(shift) * rows.shape[0]
        return Sums(ones, column_sums(rows, xp), column_sums((rows - shift) ** 2, xp))

    return over_rows(block, sums, Sums.plus, 1)


def visit(block: Block, Q: Array, standard: Standard) -> tuple[Visit, Array]:
    """What a block adds to a visit, and its rows of ``Y = A Q`` (n_b, l)."""
    if isinstance(block, Packed):
        return _visit_packed(block, Q, standard)
    work = getattr(namespace(Q), standard.dtype)
    return visit_dense(block, Q, work, lambda rows, _: standardised(rows, standard, work))


def image(block: Block, W: Array, standard: Standard) -> Array:
    """``A W`` (n_b, l) of a block."""
    if isinstance(block, Packed):
        return _image_packed(block, W, standard)
    work = getattr(namespace(W), standard.dtype)
    return image_dense(block, W, work, lambda rows, _: standardised(rows, standard, work))


def visit_dense(
    block: Array, Q: Array, work: Any, standardise: Callable[[Array, slice], Array]
) -> tuple[Visit, Array]:
    """A visit of dense rows, which are standardised a run at a time, with products of a dtype."""
    xp = namespace(Q)
    small = xp.astype(Q, work, copy=False)

    def both(rows, part):
        A = standardise(rows, part)
        Y = A @ small
        return Visit.of(A.T @ Y, Y), [Y]

    def joined(a, b):
        return a[0].plus(b[0]), a[1] + b[1]

    sums, images = over_rows(block, both, joined, Q.shape[1])
    return sums, xp.concat(images)


def image_dense(
    block: Array, W: Array, work: Any, standardise: Callable[[Array, slice], Array]
) -> Array:
    """The image of dense rows, likewise."""
    xp = namespace(W)
    small = xp.astype(W, work, copy=False)

    def times(rows, part):
        return [standardise(rows, part) @ small]

    return xp.concat(over_rows(block, times, lambda a, b: a + b, W.shape[1]))


def standardised(rows: Array, standard: Standard, work: Any) -> Array:
    """A of some dense rows, of a dtype; themselves where nothing is to be done."""
    xp = namespace(rows)
    rows = xp.astype(rows, work, copy=False)
    if standard.centre is not None:
        rows = rows - xp.astype(standard.centre, work)
    if standard.factor is not None:
        rows = rows * xp.astype(standard.factor, work)
    return rows


def over_rows(
    block: Array,
    function: Callable[[Array, slice], Any],
    join: Callable[[Any, Any], Any],
    width: int,
) -> Any:
    """A function of runs of rows of a dense block and their positions; results joined in order.

    Where the runs are cut follows from the shape of the block alone. Threads share them on a CPU.

    Parameters
    ----------
    block : array (n_b, p)
    function : callable
        Of rows and their slice.
    join : callable
    width : int
        Columns that the rows are multiplied with.
    """
    n_rows, n_columns = block.shape
    place = place_of(block)
    size = CPU_BLOCK_BYTES if place.is_host else GPU_BLOCK_BYTES
    step = min(MOST_ROWS, max(MIN_ROWS, size // max(8 * n_columns, 1)))
    parts = [slice(i, min(i + step, n_rows)) for i in range(0, max(n_rows, 1), step)]

    def of_part(part):
        return function(block[part, ...], part)

    threads = _threads(place, n_rows * n_columns * width)
    if threads == 1:
        return _fold(map(of_part, parts), join)
    with one_blas_thread():
        return _fold(ordered_map(of_part, parts, threads), join)


def _fold(parts, join):
    total = None
    for part in parts:
        total = part if total is None else join(total, part)
    return total


def _threads(place, n_products):
    if place.kind != "numpy" or not may_limit_blas() or n_products < THREADED_FROM_PRODUCTS:
        return 1
    return blas_threads()


def _scaled(W, standard):
    """``D W``, and ``c' D W`` or None."""
    W = W if standard.factor is None else standard.factor[:, None] * W
    return W, None if standard.centre is None else standard.centre @ W


def _with_fill(W, standard, xp, work):
    """What codes and what marks of missing values are multiplied with."""
    fill = None if standard.fill is None else xp.astype(standard.fill[:, None] * W, work)
    return xp.astype(W, work, copy=False), fill


def _image_packed(block, W, standard):
    xp = namespace(W)
    work = getattr(xp, standard.dtype)
    W, offset = _scaled(W, standard)
    Y = products.forward(block, *_with_fill(W, standard, xp, work))
    return Y if offset is None else xp.astype(Y - offset, work, copy=False)


def _visit_packed(block, Q, standard):
    xp = namespace(Q)
    work = getattr(xp, standard.dtype)
    W, offset = _scaled(Q, standard)
    codes, fill = _with_fill(W, standard, xp, work)
    Y, Z, marked = products.both(block, codes, fill, offset)
    return Visit.of(with_terms(Z, marked, Y, standard), Y), Y


def with_terms(Z: Array, marked: Array | None, Y: Array, standard: Standard) -> Array:
    """``A' Y`` (p, l), float64, from ``X0' Y`` and ``M' Y`` of codes."""
    xp = namespace(Y)
    if marked is not None:
        assert standard.fill is not None
        Z = Z + standard.fill[:, None] * marked
    if standard.centre is not None:
        Z = Z - standard.centre[:, None] * xp.sum(xp.astype(Y, xp.float64, copy=False), axis=0)
    return Z if standard.factor is None else standard.factor[:, None] * Z

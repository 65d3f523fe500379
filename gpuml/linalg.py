"""Singular value decompositions of matrices that are large, encoded, or in files."""

from contextlib import contextmanager
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from gpuml._arrays import (
    Array,
    is_out_of_memory,
    move,
    namespace,
    to_host,
)
from gpuml._settings.config import current_settings
from gpuml._settings.progress import progress_bar
from gpuml.reading.sources import Source, source_of
from gpuml.reading.streams import parts_of
from gpuml.reading.visits import Visits
from gpuml.solvers.compressed import (
    ErrorEstimate,
    Plan,
    Triplets,
    error_estimate,
    iterate,
    more_columns,
    more_values,
    probes,
    start,
)
from gpuml.solvers.standard import Rule

__all__ = ["SVD", "ErrorEstimate", "svd_compressed"]

SCALES = (None, "std", "patterson")
DTYPES = (None, "float32", "float64")
# Types of data whose products are computed in float32, unless the caller chooses a dtype.
SINGLE = ("float32", "float16", "bfloat16")


class SVD(NamedTuple):
    """Truncated decomposition, ``a`` is about ``u @ diag(s) @ v``; unpacks like Dask's tuple.

    Attributes
    ----------
    u : array (n, k)
        Orthonormal columns.
    s : array (k,)
        Singular values in descending order.
    v : array (k, p)
        Orthonormal rows.
    """

    u: Array
    s: Array
    v: Array


def svd_compressed(
    a: Any,
    k: int,
    n_power_iter: int = 2,
    n_oversamples: int = 10,
    *,
    random_state: Any = None,
    center: Any = False,
    scale: Any = None,
    coerce_signs: bool = True,
    return_error: bool = False,
    dtype: str | None = None,
) -> Any:
    r"""Leading singular values and vectors of a matrix, by randomised subspace iteration.

    .. math:: A \approx U \mathrm{diag}(s) V

    where A is `a`, with its columns centred and scaled according to `center` and `scale`. A is read
    ``n_power_iter + 1`` times, in blocks of rows, or of columns if an array has more columns than
    rows or a file stores them together. Each block is decoded and standardised when it is read.
    There are further passes:

    - one before, if blocks are of rows, and `center` or `scale` must be computed from the data or
      values may be missing;
    - one after, with `return_error`;
    - up to two, if the last singular value is smaller than the root of the rounding error of the
      largest one.

    Parameters
    ----------
    a : array-like of shape (n, p)
        A NumPy, CuPy, torch or other array, or a DataFrame; `gpuml.encodings.Packed` codes, whose
        missing values become the mean of their column; `gpuml.encodings.BedFile`; a memory map,
        ``zarr.Array``, ``h5py.Dataset`` or any object with ``shape``, ``dtype`` and rows
        ``a[i:j]``, which may be larger than memory. For data in CPU memory or in files,
        ``gpuml.set_config(device=...)`` chooses the device; blocks go to a GPU one at a time.
    k : int
        Number of singular values to compute, at most min(n, p).
    n_power_iter : int, default=2
        Number q of power iterations. The error of the j-th value decreases like
        :math:`(\sigma_{k+1} / \sigma_j)^{2 q}`; use more if singular values decrease slowly.
    n_oversamples : int, default=10
        Number of random vectors beyond k. More are cheap as long as reading takes most of the time.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the random vectors. The same seed gives the same result on any device and for any
        size of blocks, up to rounding.
    center : bool or array-like of shape (p,), default=False
        What to subtract from the columns; True is their mean.
    scale : {None, "std", "patterson"} or array-like of shape (p,), default=None
        What to divide the columns by: "std" is their standard deviation, "patterson" that of
        genotypes coded 0, 1, 2 under drift, :math:`\sqrt{q (1 - q)}` with :math:`q` half the mean.
        Columns that do not vary are not scaled.
    coerce_signs : bool, default=True
        Whether to choose signs so that no row of v has a negative sum, as Dask does.
    return_error : bool, default=False
        Whether to return an `ErrorEstimate` too.
    dtype : {None, "float32", "float64"}, default=None
        dtype of products within a block, and of the results. Sums over blocks, and operations on
        thin matrices, are float64. None is float32 for float32 data, packed codes and integers of
        8 bits, and float64 otherwise.

    Returns
    -------
    result : SVD
        (u, s, v), in the library and on the device of `a`; NumPy arrays for data in files.
    error : ErrorEstimate
        Estimated accuracy; only with `return_error`.

    Raises
    ------
    TypeError
        If `a` is not a matrix of real numbers, or is a dask array (use `gpuml_dask.linalg`).
    ValueError
        If a parameter is out of range, or if `a` contains nan, infinite values, or values whose
        squares are too large or too small for `dtype`.
    MemoryError
        If blocks and results do not fit into memory; lower ``gpuml.set_config(block_bytes=...)``.

    See Also
    --------
    gpuml.decomposition.PCA : An estimator that uses this iteration, for the same kinds of matrices,
        with ``svd_solver="compressed"``.
    gpuml_dask.linalg.svd_compressed : For dask arrays.

    References
    ----------
    N. Halko, P. G. Martinsson, J. A. Tropp, "Finding structure with randomness: probabilistic
    algorithms for constructing approximate matrix decompositions", SIAM Review 53 (2011).

    Examples
    --------
    >>> import numpy as np
    >>> from gpuml.linalg import svd_compressed
    >>> a = np.outer([3.0, 0.0, 4.0], [0.6, 0.8])
    >>> u, s, v = svd_compressed(a, 1, random_state=0)
    >>> s.round(6), v.round(6)
    (array([5.]), array([[0.6, 0.8]]))
    """
    source = source_of(a)
    plan = checked_plan(source, k, n_power_iter, n_oversamples, dtype)
    rule = checked_rule(source.shape[1], center, scale, plan.dtype)
    random = checked_random(random_state)
    settings = current_settings()
    place = source.work_place(plan.n_power_iter + 1, settings.device)
    is_summed = not source.by_columns and (rule.needs_sums or source.may_miss)
    n_visits = plan.n_power_iter + 1 + int(return_error) + int(is_summed)
    parts = parts_of(source, place, settings.block_bytes)
    with (
        _told_of_memory(place, parts[0]),
        progress_bar(len(parts) * n_visits, "svd_compressed", enabled=settings.progress) as bar,
    ):
        rows = Visits(source, parts, place, rule, bar)
        Q = start(source.width, plan.width(source.shape), random, place)
        _, found = iterate(Q, rows.visit, plan)
        left = rows.left(found.turn)
        error = _estimated(rows, found, random, plan) if return_error else None
        result = _completed(_ordered(found, left, source.by_columns), plan.n_components, random)
        if coerce_signs:
            result = _signed(result)
        result = SVD(*(move(_cast(x, plan.dtype), source.home) for x in result))
    return (result, error) if return_error else result


@contextmanager
def _told_of_memory(place, part):
    """Turn the out-of-memory error of any library into a MemoryError that says what to do."""
    try:
        yield
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        raise MemoryError(
            f"Not enough memory on {place} for blocks of {part.stop - part.start} rows, and for "
            "vectors in float64. Free memory there, set a smaller "
            "gpuml.set_config(block_bytes=...), or use gpuml.set_config(device='cpu')."
        ) from error


def _estimated(rows, found, random, plan):
    """Accuracy estimates for singular triplets, from one more pass over the rows."""
    squares = rows.squared_lengths(probes(found, random))
    return _padded(error_estimate(found, squares, plan.dtype), plan.n_components)


# ---------------------------------------------------------------- parameters


def checked_plan(
    source: Source, k: int, n_power_iter: int, n_oversamples: int, dtype: str | None
) -> Plan:
    """The parameters of a call, checked against the shape of the matrix."""
    most = min(source.shape)
    _check_integer("k", k, 1, most, f" (min(n, p) of shape {source.shape})")
    _check_integer("n_power_iter", n_power_iter, 0)
    _check_integer("n_oversamples", n_oversamples, 0)
    if dtype not in DTYPES:
        raise ValueError(f"dtype must be one of {DTYPES}, got {dtype!r}.")
    if dtype is None:
        is_single = str(getattr(source.of, "dtype", "")).rpartition(".")[2] in SINGLE
        dtype = "float32" if source.codes or is_single else "float64"
    return Plan(int(k), int(n_oversamples), int(n_power_iter), dtype)


def _check_integer(name, value, least, most=None, of=""):
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an integer, got {value!r}.")
    if value < least or (most is not None and value > most):
        upper = "" if most is None else f" and at most {most}{of}"
        raise ValueError(f"{name} must be at least {least}{upper}, got {value}.")


def checked_rule(n_features: int, center: Any, scale: Any, dtype: str) -> Rule:
    """How to standardise features; checks `center` and `scale` against their number."""
    if not isinstance(center, bool | np.bool_):
        center = _numbers("center", center, n_features)
    else:
        center = bool(center)
    if isinstance(scale, str | None):
        if scale not in SCALES:
            raise ValueError(
                f"scale must be None, 'std', 'patterson' or an array of shape ({n_features},), "
                f"got {scale!r}."
            )
    else:
        scale = _numbers("scale", scale, n_features)
        if not (scale != 0).all():
            raise ValueError("scale must not have zeros: columns are divided by it.")
    return Rule(center, scale, dtype)


def _numbers(name, values, n_features):
    values = values if not hasattr(values, "__cuda_array_interface__") else to_host(values)
    try:
        found = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} must be a bool or {n_features} numbers, one for each column, got {values!r}."
            if name == "center"
            else f"{name} must have {n_features} numbers, one for each column, got {values!r}."
        ) from error
    if found.shape != (n_features,):
        raise ValueError(
            f"{name} must have one number for each of the {n_features} columns, got shape "
            f"{found.shape}."
        )
    if not np.isfinite(found).all():
        raise ValueError(f"{name} contains NaN or infinity.")
    return found


def checked_random(random_state: Any) -> Any:
    """A source of random numbers."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    return check_random_state(random_state)


# ---------------------------------------------------------------- results


def _cast(x, dtype):
    xp = namespace(x)
    return xp.astype(x, getattr(xp, dtype), copy=False)


def _ordered(found: Triplets, left: Array, by_columns: bool) -> SVD:
    """Triplets of the user's matrix; left and right are swapped if it was read transposed."""
    if by_columns:
        return SVD(found.right.T, found.singular, left.T)
    return SVD(left, found.singular, found.right)


def _completed(result: SVD, k: int, random: Any) -> SVD:
    """If the rank is below k, append zeros and vectors orthonormal to the others."""
    missing = k - result.s.shape[0]
    return SVD(
        more_columns(result.u, missing, random),
        more_values(result.s, missing),
        more_columns(result.v.T, missing, random).T,
    )


def _signed(result: SVD) -> SVD:
    xp = namespace(result.s)
    sums = xp.sum(xp.astype(result.v, xp.float64, copy=False), axis=1)
    signs = xp.where(sums >= 0, xp.ones_like(sums), -xp.ones_like(sums))
    return SVD(
        result.u * xp.astype(signs, result.u.dtype),
        result.s,
        result.v * xp.astype(signs, result.v.dtype)[:, None],
    )


def _padded(error: ErrorEstimate, k: int) -> ErrorEstimate:
    """The errors of k values; beyond the rank, repeat the smallest, which is rounding."""
    values = error.singular_values
    rest = np.full(k - len(values), values.min(initial=np.inf) if len(values) else 0.0)
    return error._replace(singular_values=np.concatenate([values, rest]))

"""`svd_compressed` of dask arrays."""

from typing import Any

from distributed import Client

from gpuml import get_config
from gpuml.linalg import checked_rule
from gpuml_dask.linalg.compute import computed, lazily
from gpuml_dask.linalg.matrix import check_iterator, checked_matrix, seed_of
from gpuml_dask.linalg.stages import Job

__all__ = ["svd_compressed"]


def svd_compressed(
    a: Any,
    k: int,
    iterator: str = "power",
    n_power_iter: int = 2,
    n_oversamples: int = 10,
    seed: Any = None,
    compute: bool = False,
    coerce_signs: bool = True,
    *,
    random_state: Any = None,
    center: Any = False,
    scale: Any = None,
    dtype: str | None = None,
    return_error: bool = False,
    client: Client | None = None,
) -> Any:
    r"""Find leading singular values and vectors of a dask array, with one pass per power iteration.

    .. math:: A \approx U \mathrm{diag}(s) V

    where A is `a`, with centred and scaled columns if you choose `center` and `scale`. Parameters,
    their order and results are those of `dask.array.linalg.svd_compressed`. Dask multiplies by A
    and by its transpose in turn, and so reads A ``2 n_power_iter + 2`` times. This function does
    both in one visit of each chunk, and reads A ``n_power_iter + 1`` times. It reads A once more to
    find means or scales, or if values may be missing; once more for u (for v, if there are more
    columns than rows); and once more with `return_error`. Blocks are standardised and decoded in
    the cache.

    Parameters
    ----------
    a : dask array of shape (n, p)
        Chunks of NumPy or CuPy arrays, or of `gpuml.encodings.Packed` codes, whose missing values
        become the mean of their column. Both dimensions may be chunked, in any way. A task works on
        all chunks of some rows, or of some columns if there are more columns than rows. So chunks
        that span the shorter side are best.
    k : int
        Number of singular values to find, at most min(n, p).
    iterator : {"power", "QR"}, default="power"
        Has no effect: the block is always orthonormalised after every visit, as "QR" does, in
        float64. This costs next to nothing.
    n_power_iter : int, default=2
        Number q of power iterations: the error falls like :math:`(\sigma_{k+1} / \sigma_j)^{2 q}`.
        Each costs one visit of A (in Dask two). Dask's default is 0.
    n_oversamples : int, default=10
        Number of random vectors beyond k.
    seed : int, RandomState, Generator or None, default=None
        Seed of the random vectors. An integer gives the same result, up to rounding, for any chunks
        and workers. From a generator of NumPy or dask.array, one integer is drawn as the seed.
    compute : bool, default=False
        False returns lazy arrays, which any scheduler can compute; all chunks of `a` then stay in
        memory until the last visit. True computes everything now, visit by visit, on the cluster if
        there is a client, and returns computed arrays. If the rows fit into the memory of the
        workers, they are read once and stay there during the call; otherwise they are read again
        for each visit, as by ``compute=True`` in Dask. On GPU workers, all visits are one task per
        worker, and sums go from GPU to GPU.
    coerce_signs : bool, default=True
        Whether to choose signs so that no row of v has a negative sum.
    random_state : int, RandomState, Generator or None, default=None
        scikit-learn's name for `seed`.
    center : bool or array-like of shape (p,), default=False
        What to subtract from the columns; True is their mean.
    scale : {None, "std", "patterson"} or array-like of shape (p,), default=None
        What to divide the columns by; see `gpuml.linalg.svd_compressed`.
    dtype : {None, "float32", "float64"}, default=None
        Precision of the products within a block, and of the results; sums are float64. None is
        float32 for float32 data, packed codes and 8-bit integers, and float64 otherwise.
    return_error : bool, default=False
        Whether to return a `gpuml.linalg.ErrorEstimate` too.
    client : distributed.Client, default=None
        The client for ``compute=True``. None is the current client; if there is none, Dask's
        scheduler in this process.

    Returns
    -------
    u : dask array (n, k)
        Orthonormal columns, chunked like the rows of `a`.
    s : dask array (k,)
        Singular values in descending order, one chunk.
    v : dask array (k, p)
        Orthonormal rows, chunked like the columns of `a`.
    error : Delayed, or ErrorEstimate with ``compute=True``
        Only with `return_error`.

    Raises
    ------
    TypeError
        If `a` is not a dask array of real numbers, or a parameter has a wrong type.
    ValueError
        If a parameter is out of range, if you pass both `seed` and `random_state`, or if chunk
        sizes are unknown (call ``a.compute_chunk_sizes()``). When the result is computed, if there
        are nan or infinite values.
    gpuml_dask.errors.ClusterError
        With ``compute=True``, if the cluster has no workers, or lost rows that no task can compute
        again.

    See Also
    --------
    gpuml.linalg.svd_compressed : The same on one device.

    Notes
    -----
    A visit works with squares: it resolves singular values down to the square root of the rounding
    error, relative to the largest one that is not resolved yet. If the last of the k singular
    values is below that, ``compute=True`` adds up to two visits. A lazy result cannot do this:
    choose more power iterations for such matrices.

    If the rank of `a` is below k, the last singular values are 0, and so are their columns of u (or
    their rows of v, if there are more columns than rows).

    If some rows (or columns) have several chunks, of more than 2 GiB together, tasks work on single
    chunks, so that no chunk moves between workers; products of the rows move instead.

    gpuml's setting ``device`` decides whether chunks in CPU memory go to the GPU of a worker.

    References
    ----------
    N. Halko, P. G. Martinsson, J. A. Tropp, "Finding structure with randomness: probabilistic
    algorithms for constructing approximate matrix decompositions", SIAM Review 53 (2011).

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from gpuml_dask.linalg import svd_compressed
    >>> a = da.from_array(np.outer([3.0, 0.0, 4.0], [0.6, 0.8]), chunks=(2, 2))
    >>> u, s, v = svd_compressed(a, 1, seed=0)
    >>> s.compute(scheduler="threads").round(6), v.compute(scheduler="threads").round(6)
    (array([5.]), array([[0.6, 0.8]]))
    """
    check_iterator(iterator)
    matrix = checked_matrix(a)
    plan = matrix.plan(k, n_power_iter, n_oversamples, dtype)
    rule = checked_rule(matrix.array.shape[1], center, scale, plan.dtype)
    settings, seed = get_config(), seed_of(seed, random_state)
    job = Job(plan, rule, seed, bool(coerce_signs), settings["device"], settings["block_bytes"])
    if compute:
        return computed(matrix, job, client, return_error)
    return lazily(matrix, job, return_error)

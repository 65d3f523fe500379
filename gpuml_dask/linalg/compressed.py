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
    r"""Leading singular values and vectors of a dask array, with one reading for each power step.

    .. math:: A \approx U \mathrm{diag}(s) V

    where A is `a`, its columns centred and scaled if asked for. Parameters, their order and the
    results are those of `dask.array.linalg.svd_compressed`, which multiplies by A and by its
    transposed in turn. Here both are done in one visit of each chunk, so that A is read
    ``n_power_iter + 1`` times, where Dask reads it ``2 n_power_iter + 2`` times. Once more before
    that where means or scales are to be found or values may be missing, once more for u (for v of a
    matrix with more columns than rows), and once more with `return_error`. What is standardised, or
    decoded, is so in blocks that stay in cache.

    Parameters
    ----------
    a : dask array of shape (n, p)
        Chunks of NumPy or CuPy arrays, or of `gpuml.encodings.Packed` codes, whose missing values
        become the mean of their column. Both dimensions may be chunked, in any way. A task works on
        all chunks of some rows, or of some columns where there are more of these than rows; so
        chunks that have all of the shorter side are best.
    k : int
        Singular values that are wanted, at most min(n, p).
    iterator : {"power", "QR"}, default="power"
        Kept for Dask's sake: the block is orthonormalised in float64 after every visit, which is
        "QR", and costs next to nothing.
    n_power_iter : int, default=2
        Power iterations. The error falls with them like :math:`(\sigma_{k+1} / \sigma_j)^{2 q}`.
        Dask's default is 0; a step costs one visit here and two there.
    n_oversamples : int, default=10
        Random vectors beyond k.
    seed : int, RandomState, Generator or None, default=None
        Of the first vectors. An integer gives the same result for any chunks, on any workers, but
        for rounding. From the generators of NumPy and of dask.array one integer is drawn, which
        takes the place of the seed.
    compute : bool, default=False
        False returns a graph, which any scheduler can run; it keeps all chunks of `a` in memory
        until the last visit, unless they are on the workers anyway. True computes everything now,
        visit by visit, on the cluster if there is a client, and returns results that are computed.
        Rows that fit into the memory of the workers are read once and kept there meanwhile; others
        are read again for each visit, which is what ``compute=True`` means in Dask. On GPU workers
        all visits are one task for each worker, and sums go from GPU to GPU.
    coerce_signs : bool, default=True
        Whether signs are chosen so that no row of v has a negative sum.
    random_state : int, RandomState, Generator or None, default=None
        The same as `seed`, as scikit-learn calls it.
    center : bool or array-like of shape (p,), default=False
        Subtracted from the columns: True is their mean.
    scale : {None, "std", "patterson"} or array-like of shape (p,), default=None
        What columns are divided by; see `gpuml.linalg.svd_compressed`.
    dtype : {None, "float32", "float64"}, default=None
        Of the products within a block, and of the results; sums are float64. None is float32 for
        float32 data, packed codes and integers of 8 bits, else float64.
    return_error : bool, default=False
        Whether an `gpuml.linalg.ErrorEstimate` is returned too.
    client : distributed.Client, default=None
        For ``compute=True``. None is the current client, or without one Dask's scheduler in this
        process.

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
        If `a` is no dask array of real numbers, or a parameter is of another type.
    ValueError
        If a parameter is out of range, both `seed` and `random_state` are given, or chunk sizes are
        unknown (call ``a.compute_chunk_sizes()``). When visits are computed, if there are nan or
        infinite values.
    gpuml_dask.errors.ClusterError
        With ``compute=True``, if the cluster has no workers, or lost rows that nobody can make
        again. What can be made again is.

    See Also
    --------
    gpuml.linalg.svd_compressed : The same on one device.

    Notes
    -----
    A visit squares the spectrum: each one resolves singular values down to the root of the rounding
    error, relative to the largest of those not resolved yet. With ``compute=True`` up to two visits
    are added where the last singular value is that triplets. A graph cannot decide that; take more
    power iterations for such matrices.

    Where the rank of `a` is below k, the last singular values are 0, and the columns of u (the rows
    of v of a matrix with more columns than rows) that go with them are 0 too.

    Where the chunks of some rows (columns) are several, and more than 2 GiB together, tasks work on
    single chunks, so that none has to move; images of all rows move instead.

    gpuml's setting ``device`` holds for host chunks on workers with a GPU.

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

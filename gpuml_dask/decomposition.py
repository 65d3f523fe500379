"""Decompositions of rows that are divided over the workers of a cluster."""

from gpuml import decomposition as one_device
from gpuml_dask import predict as blockwise
from gpuml_dask.fitting import FitsRows, Transforms
from gpuml_dask.rows import blocks
from gpuml_dask.rows.lazy import lives_on_workers


class PCA(Transforms, FitsRows, one_device.PCA):
    r"""Principal component analysis.

    .. math:: \max_{V V' = I} \sum_i |V (x_i - \bar x)|^2

    Given NumPy, CuPy or other data of this process, it is `gpuml.decomposition.PCA`. Given rows on
    a cluster (a dask array, a dask or dask-cudf DataFrame, futures, handles of `gpuml_dask.place`)
    it fits them where they are: one pass sums second moments of all chunks, and the components are
    their eigenvectors. Where solvers ask for the rows themselves, these are gathered on one worker.

    Parameters are those of `gpuml.decomposition.PCA`, and so are the fitted attributes: NumPy
    arrays in this process, whatever the rows were. They do not depend on how rows are divided, but
    for rounding.

    See Also
    --------
    gpuml.decomposition.PCA : The same on one device.

    References
    ----------
    I. T. Jolliffe, *Principal component analysis*, 2nd ed., Springer (2002).

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from gpuml_dask.decomposition import PCA
    >>> X = da.random.default_rng(0).random((300, 3), chunks=(100, 3))
    >>> with Client(processes=False, dashboard_address=":0") as client:
    ...     step = PCA(2).fit(X)
    ...     step.transform(X).compute().shape
    (300, 2)
    """

    def score_samples(self, X):
        """Log-likelihood of each row; of rows on workers lazily, block by block."""
        if lives_on_workers(X):
            return blockwise.score_samples(self, X)
        return super().score_samples(X)

    def score(self, X, y=None):
        """Mean log-likelihood of the rows; of rows on workers, only that comes here."""
        if lives_on_workers(X):
            return float(self.score_samples(X).map_blocks(blocks.host_copy).mean().compute())
        return super().score(X, y)


class TruncatedSVD(Transforms, FitsRows, one_device.TruncatedSVD):
    r"""Truncated singular value decomposition, without centring.

    .. math:: \max_{V V' = I} \sum_i |V x_i|^2

    Given NumPy, CuPy or other data of this process, it is `gpuml.decomposition.TruncatedSVD`. Given
    rows on a cluster (a dask array, a dask or dask-cudf DataFrame, futures, handles of
    `gpuml_dask.place`) it fits them where they are: one pass sums second moments of all chunks, and
    the components are their eigenvectors. Where solvers ask for the rows themselves, these are
    gathered on one worker.

    Parameters are those of `gpuml.decomposition.TruncatedSVD`, and so are the fitted attributes:
    NumPy arrays in this process, whatever the rows were. They do not depend on how rows are
    divided, but for rounding.

    See Also
    --------
    gpuml.decomposition.TruncatedSVD : The same on one device.

    References
    ----------
    G. H. Golub, C. F. Van Loan, *Matrix computations*, 4th ed., Johns Hopkins (2013).

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from gpuml_dask.decomposition import TruncatedSVD
    >>> X = da.random.default_rng(0).random((300, 3), chunks=(100, 3))
    >>> with Client(processes=False, dashboard_address=":0") as client:
    ...     step = TruncatedSVD(2).fit(X)
    ...     step.transform(X).compute().shape
    (300, 2)
    """

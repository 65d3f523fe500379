"""Preprocessing of rows that are divided over the workers of a cluster."""

from typing import Self

from gpuml import preprocessing as one_device
from gpuml_dask.fitting import FitsOnWorkers, Transforms, lives_on_workers


class StandardScaler(Transforms, FitsOnWorkers, one_device.StandardScaler):
    r"""Features less their mean, divided by their standard deviation.

    .. math:: z = (x - \bar x) / s

    Given NumPy, CuPy or other data of this process, it is `gpuml.preprocessing.StandardScaler`.
    Given rows on a cluster (a dask array, a dask or dask-cudf DataFrame, futures, handles of
    `gpuml_dask.place`) it fits them where they are: one pass sums moments of all chunks.

    Parameters are those of `gpuml.preprocessing.StandardScaler`, and so are the fitted attributes:
    NumPy arrays in this process, whatever the rows were. They do not depend on how rows are
    divided, but for rounding.

    See Also
    --------
    gpuml.preprocessing.StandardScaler : The same on one device.

    References
    ----------
    T. F. Chan, G. H. Golub, R. J. LeVeque, "Algorithms for computing the sample variance", The
    American Statistician 37 (1983).

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from gpuml_dask.preprocessing import StandardScaler
    >>> X = da.random.default_rng(0).random((300, 3), chunks=(100, 3))
    >>> with Client(processes=False, dashboard_address=":0") as client:
    ...     step = StandardScaler().fit(X)
    ...     step.transform(X).compute().shape
    (300, 3)
    """

    def fit(self, X, y=None, sample_weight=None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), here or on workers
            Chunk sizes may be unknown, and columns may be in several chunks.
        y : None
            Without effect.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights.

        Returns
        -------
        self : StandardScaler

        Raises
        ------
        ValueError
            For what gpuml's class refuses. A failed fit leaves the estimator as it was.
        TypeError
            For columns of dates or times.
        gpuml_dask.errors.ClusterError
            If there is no client, the cluster has no workers, or rows were lost that nobody can
            make again.
        """
        if lives_on_workers(X) or lives_on_workers(sample_weight):
            return self._fit_on_workers(X, None, sample_weight)
        return super().fit(X, y, sample_weight)

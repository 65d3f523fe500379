"""Clusters in rows that are divided over the workers of a cluster.

The module is not called `cluster`: `gpuml_dask.cluster` starts clusters of workers.
"""

from gpuml import cluster as one_device
from gpuml_dask.fitting import OnWorkers, documented, lives_on_workers
from gpuml_dask.rows import blocks

FROM_SUMS = (
    "each step of Lloyd's algorithm is one pass over all chunks, which sums the rows nearest to "
    "each centre. The first centres are drawn with scikit-learn's random numbers (`init`, "
    "`n_init`, `random_state`); k-means++ takes two passes per centre. Weights and `labels_` are "
    "copied to this process, in 8 and 4 bytes per row"
)


@documented(
    FROM_SUMS,
    """\
>>> with Client(processes=False, dashboard_address=":0") as client:
...     model = KMeans(2, random_state=0).fit(X)
...     model.predict(X).compute().shape
(300,)
""",
)
class KMeans(OnWorkers, one_device.KMeans):
    """k-means, of rows here or on workers."""

    def score(self, X, y=None, sample_weight=None):
        """Return minus the weighted sum of squared distances of rows to their nearest centres.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), here or on workers
        y : ignored
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        score : float
        """
        if not any(map(lives_on_workers, (X, sample_weight))):
            return super().score(X, y, sample_weight)
        squares = self.transform(X).map_blocks(blocks.host_copy).min(axis=1) ** 2
        if sample_weight is not None:
            squares = squares * getattr(sample_weight, "values", sample_weight)
        return -float(squares.sum().compute())

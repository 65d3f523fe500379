"""Clusters in rows that are divided over the workers of a cluster.

The module is not called `cluster`: `gpuml_dask.cluster` starts clusters of workers.
"""

from gpuml import cluster as one_device
from gpuml_dask.fitting import APPLIED, OnWorkers, documented

FROM_SUMS = (
    "each step of Lloyd's algorithm is one pass over all chunks, which sums the rows nearest to "
    "each centre. The first centres are drawn with scikit-learn's random numbers (`init`, "
    "`n_init`, `random_state`); k-means++ takes two passes per centre. Weights and `labels_` are "
    "copied to this process, in 8 and 4 bytes per row"
)


@documented(FROM_SUMS, APPLIED.format("KMeans(2, random_state=0)", "predict", "(300,)"))
class KMeans(OnWorkers, one_device.KMeans):
    """k-means, of rows here or on workers."""

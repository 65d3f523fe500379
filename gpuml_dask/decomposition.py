"""Decompositions of rows that are divided over the workers of a cluster."""

from gpuml import decomposition as one_device
from gpuml_dask import predict as blockwise
from gpuml_dask.fitting import TRANSFORMED, FitsRows, Transforms, documented
from gpuml_dask.rows import blocks
from gpuml_dask.rows.lazy import lives_on_workers

FROM_MOMENTS = (
    "one pass sums second moments of all chunks, and the components are their eigenvectors (where "
    "solvers ask for the rows themselves, these are gathered on one worker)"
)


@documented(FROM_MOMENTS, TRANSFORMED.format("PCA(2)", 2))
class PCA(Transforms, FitsRows, one_device.PCA):
    """Principal component analysis, of rows here or on workers."""

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


@documented(FROM_MOMENTS, TRANSFORMED.format("TruncatedSVD(2)", 2))
class TruncatedSVD(Transforms, FitsRows, one_device.TruncatedSVD):
    """Truncated singular value decomposition, without centring, of rows here or on workers."""

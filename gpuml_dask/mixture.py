"""Gaussian mixtures of rows that are divided over the workers of a cluster."""

from gpuml import mixture as one_device
from gpuml_dask.fitting import APPLIED, OnWorkers, documented

FROM_SUMS = (
    "each EM step is one pass over all chunks, which sums responsibilities, and rows and their "
    "products weighted by them. The first components are drawn with scikit-learn's random numbers "
    "(`init_params`, `n_init`, `random_state`); k-means++ takes two passes per component. Labels "
    'of k-means (4 bytes per row), or responsibilities of "random" (8 bytes per row and '
    "component), are copied to this process. ``warm_start=True`` raises a ValueError for rows on "
    "workers: set `weights_init`, `means_init` and `precisions_init` instead"
)


@documented(FROM_SUMS, APPLIED.format("GaussianMixture(2)", "predict_proba", "(300, 2)"))
class GaussianMixture(OnWorkers, one_device.GaussianMixture):
    """A Gaussian mixture, of rows here or on workers."""

    def _fit_on_workers(self, X, y=None, sample_weight=None):
        if self.warm_start:
            raise ValueError(
                "warm_start=True goes on from the last fit to rows of this process only. For rows "
                "on workers set warm_start=False, and weights_init=model.weights_, "
                "means_init=model.means_ and precisions_init=model.precisions_."
            )
        return super()._fit_on_workers(X, y, sample_weight)

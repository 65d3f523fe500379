"""Imputation of rows that are divided over the workers of a cluster."""

from gpuml import impute as one_device
from gpuml_dask.fitting import TRANSFORMED, OnWorkers, documented
from gpuml_dask.sums.columns import imputed

FROM_COLUMNS = (
    "means from sums in one pass; most frequent values from counts of the distinct values, which "
    "are copied to this process; exact medians from counts in eight passes over sorted columns, "
    "which workers keep during the fit, in 8 bytes per value (if the strategy is a function, or "
    "the rows are sparse, the rows are gathered on one worker)"
)


@documented(FROM_COLUMNS, TRANSFORMED.format('SimpleImputer(strategy="median")', 3))
class SimpleImputer(OnWorkers, one_device.SimpleImputer):
    """Missing values filled with a statistic of their column, of rows here or on workers."""

    of_columns = staticmethod(imputed)

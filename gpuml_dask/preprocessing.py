"""Preprocessing of rows that are divided over the workers of a cluster."""

from gpuml import preprocessing as one_device
from gpuml_dask.fitting import TRANSFORMED, OnWorkers, documented
from gpuml_dask.sums.columns import encoded, scaled

FROM_EXTREMA = "one pass finds the smallest and largest values over all chunks"
FROM_COUNTS = (
    "one pass counts the values of each column, including text and categories of DataFrames, and "
    "the distinct values are copied to this process"
)
ENCODED = ">>> X = (3 * X).astype(int)\n" + TRANSFORMED


@documented("one pass sums moments over all chunks", TRANSFORMED.format("StandardScaler()", 3))
class StandardScaler(OnWorkers, one_device.StandardScaler):
    """Features less their mean, divided by their standard deviation; rows here or on workers."""


@documented(FROM_EXTREMA, TRANSFORMED.format("MinMaxScaler()", 3))
class MinMaxScaler(OnWorkers, one_device.MinMaxScaler):
    """Features scaled to a range by their extrema, of rows here or on workers."""


@documented(FROM_EXTREMA, TRANSFORMED.format("MaxAbsScaler()", 3))
class MaxAbsScaler(OnWorkers, one_device.MaxAbsScaler):
    """Features divided by their largest absolute value, of rows here or on workers."""


@documented(
    "quantiles are exact: workers sort the columns, keep the sorted copies during the fit, in 8 "
    "bytes per value, and count values in eight passes over them",
    TRANSFORMED.format("RobustScaler()", 3),
)
class RobustScaler(OnWorkers, one_device.RobustScaler):
    """Features less their median, divided by a distance of quantiles; rows here or on workers."""

    of_columns = staticmethod(scaled)


@documented(FROM_COUNTS, ENCODED.format("OneHotEncoder()", 9))
class OneHotEncoder(OnWorkers, one_device.OneHotEncoder):
    """A column for each category, of rows here or on workers."""

    of_columns = staticmethod(encoded)


@documented(FROM_COUNTS, ENCODED.format("OrdinalEncoder()", 3))
class OrdinalEncoder(OnWorkers, one_device.OrdinalEncoder):
    """A number for each category, of rows here or on workers."""

    of_columns = staticmethod(encoded)

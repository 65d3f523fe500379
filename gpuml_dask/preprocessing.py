"""Preprocessing of rows that are divided over the workers of a cluster."""

from gpuml import preprocessing as one_device
from gpuml_dask.fitting import TRANSFORMED, OnWorkers, documented

FROM_EXTREMA = "one pass finds the smallest and largest values of all chunks"


@documented("one pass sums moments of all chunks", TRANSFORMED.format("StandardScaler()", 3))
class StandardScaler(OnWorkers, one_device.StandardScaler):
    """Features less their mean, divided by their standard deviation; rows here or on workers."""


@documented(FROM_EXTREMA, TRANSFORMED.format("MinMaxScaler()", 3))
class MinMaxScaler(OnWorkers, one_device.MinMaxScaler):
    """Features scaled to a range by their extrema, of rows here or on workers."""


@documented(FROM_EXTREMA, TRANSFORMED.format("MaxAbsScaler()", 3))
class MaxAbsScaler(OnWorkers, one_device.MaxAbsScaler):
    """Features divided by their largest absolute value, of rows here or on workers."""

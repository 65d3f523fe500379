"""Singular value decompositions of dask arrays that are large, or encoded."""

from gpuml.linalg import ErrorEstimate
from gpuml_dask.linalg.compressed import svd_compressed

__all__ = ["ErrorEstimate", "svd_compressed"]

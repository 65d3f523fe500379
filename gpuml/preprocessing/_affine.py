"""What the scalers share as steps of a search: diagonal maps, and which rows moments describe."""

from typing import Any

from scipy import sparse

from gpuml._arrays import Array, is_array, namespace
from gpuml.preprocessing._places import host_dtype
from gpuml.solvers.affine import Affine, Parts


def is_dense(X: Any) -> bool:
    """Whether rows are dense, so that moments and extrema of them are what a scaler would find."""
    return is_array(X) or not (sparse.issparse(X) or hasattr(X, "indptr"))


def diagonal_map(factor: Array, offset: Array) -> Affine:
    """Maps ``factor x + offset``, both (S, p)."""
    xp = namespace(factor)
    factor, offset = (xp.astype(a, xp.float64) for a in (factor, offset))
    eye = xp.eye(factor.shape[-1], dtype=xp.float64, device=factor.device)
    return Affine(factor[:, :, None] * eye, offset, diagonal=True)


def part_extrema(parts: Parts) -> tuple[Array, Array]:
    """Smallest and largest values (S, p) of the features, of the dtype of X as a fit has them."""
    if parts.extrema is None:
        raise ValueError("Extrema of features are not known after a step that mixes features.")
    low, high = parts.extrema()
    xp = namespace(low)
    dtype = getattr(xp, host_dtype(parts.batch.X).name)
    return xp.astype(low, dtype), xp.astype(high, dtype)

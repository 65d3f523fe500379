"""Smallest and largest values of columns, nan left out, and the scales that follow from them."""

from typing import Any

from gpuml._arrays import Array, device_of, namespace
from gpuml._arrays.ops import all_finite
from gpuml._inputs.validation import check_finite
from gpuml.preprocessing._places import row_blocks


def range_map(low: Array, high: Array, feature_range: tuple[float, float]) -> tuple[Array, Array]:
    """Scale and offset that take extrema (..., p) to the ends of a range."""
    a, b = map(float, feature_range)
    if a >= b:
        raise ValueError(
            f"Minimum of desired feature range must be smaller than maximum. Got {feature_range}."
        )
    scale = (b - a) / not_zero(high - low)
    return scale, a - low * scale


def max_abs(low: Array, high: Array) -> Array:
    """Largest absolute values from extrema (..., p)."""
    return namespace(low).maximum(-low, high)


def column_extrema(estimator: Any, X: Array) -> tuple[Array, Array]:
    """Smallest and largest value of each column (p,) without nan; nan if all values are missing."""
    xp = namespace(X)
    low, high = xp.min(X, axis=0), xp.max(X, axis=0)  # nan if any value is
    if all_finite(xp.stack([low, high]), xp):
        return low, high
    check_finite(X, "X", estimator, allow_nan=True)
    inf = xp.full((X.shape[1],), float("inf"), dtype=X.dtype, device=device_of(X))
    low, high = inf, -inf
    for rows in row_blocks(X, 2 * 8 * X.shape[1]):
        block = X[rows, ...]
        hole = xp.isnan(block)
        low = xp.minimum(low, xp.min(xp.where(hole, inf, block), axis=0))
        high = xp.maximum(high, xp.max(xp.where(hole, -inf, block), axis=0))
    nothing = low > high
    nan = xp.full_like(low, float("nan"))
    return xp.where(nothing, nan, low), xp.where(nothing, nan, high)


def of_both(old, new, *, smallest):
    """Extrema of both parts; nan is of a part without values."""
    xp = namespace(new)
    old = xp.astype(old, new.dtype)
    better = old < new if smallest else old > new
    return xp.where(better | xp.isnan(new), old, new)


def not_zero(scale):
    """Scales, with 1 for those within rounding of 0, by scikit-learn's bound."""
    xp = namespace(scale)
    tiny = scale < 10 * float(xp.finfo(scale.dtype).eps)
    return xp.where(tiny, xp.ones_like(scale), scale)

"""From values per target (..., t) to scores (...): fractions explained, and averages of targets."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gpuml._arrays import Array, as_array, is_array, namespace, to_host
from gpuml._arrays.ops import constant

# A variance below this share of the mean square it was subtracted from is rounding.
ROUNDING = 16 * float(np.finfo(np.float64).eps)


def spread(squared: Array, total: Array, weight: Array, xp: Any) -> Array:
    """``sum w (r - mean(r))^2`` of sums w r^2, w r and w; 0 where only rounding is left."""
    left = squared - total**2 / weight[..., None]
    # If all weights are negative, which metrics accept, so are both.
    sign = xp.where(squared < 0, -1.0 * xp.ones_like(squared), xp.ones_like(squared))
    return xp.where(sign * left > ROUNDING * sign * squared, left, 0.0 * squared)


def fraction_explained(numerator: Array, denominator: Array, *, force_finite: bool) -> Array:
    """``1 - numerator / denominator``, both (..., t) after broadcasting.

    With `force_finite` a zero denominator gives 1 if the numerator is 0 as well, else 0; without
    it nan and -inf. A numerator that is not finite gives a score that is not finite either.
    """
    xp = namespace(numerator)
    # NumPy would warn about the result of force_finite=False.
    with np.errstate(divide="ignore", invalid="ignore"):
        if not force_finite:
            return 1.0 - numerator / denominator
        safe = xp.where(denominator == 0, xp.ones_like(denominator), denominator)
        of_constant = xp.where(numerator == 0, xp.ones_like(numerator), 0.0 * numerator)
        return xp.where(denominator == 0, of_constant, 1.0 - numerator / safe)


def average_targets(values: Array, multioutput: Any, variance: Array | None = None) -> Array:
    """Values (..., t) averaged over targets by `multioutput`: (...), or unchanged.

    Parameters
    ----------
    values : array (..., t)
    multioutput : {"raw_values", "uniform_average", "variance_weighted"}, array-like (t,) or None
        None is the uniform average.
    variance : array, broadcasts to (..., t)
        Weights of the targets for "variance_weighted"; where all are 0 they weigh the same.

    Raises
    ------
    ValueError, ZeroDivisionError
        Custom weights that do not fit the number of targets, or sum to 0.
    """
    xp = namespace(values)
    if multioutput is None or _is(multioutput, "uniform_average"):
        return xp.mean(values, axis=-1)
    if _is(multioutput, "raw_values"):
        return values
    if _is(multioutput, "variance_weighted"):
        constant_y = xp.all(variance == 0, axis=-1, keepdims=True)
        weights = xp.where(constant_y, xp.ones_like(variance), variance)
    else:
        weights = constant(_custom_weights(multioutput, values.shape[-1]), like=values, xp=xp)
    return xp.sum(values * weights, axis=-1) / xp.sum(weights, axis=-1)


def is_raw(options: Mapping[str, Any]) -> bool:
    """Whether options select one value per target."""
    return _is(options.get("multioutput"), "raw_values")


def _is(multioutput, name):
    return isinstance(multioutput, str) and multioutput == name


def _custom_weights(multioutput, n_targets):
    weights = as_array(multioutput)
    weights = np.asarray(to_host(weights) if is_array(weights) else weights, dtype=np.float64)
    if n_targets == 1:
        raise ValueError(
            "Custom weights are useful only in multi-output cases: multioutput holds weights, but "
            "there is one target."
        )
    if weights.shape != (n_targets,):
        raise ValueError(
            f"There must be equally many custom weights ({weights.size}) as outputs ({n_targets}): "
            f"multioutput has shape {weights.shape}."
        )
    if not np.isfinite(weights).all():
        raise ValueError("Input multioutput contains NaN or infinity.")
    if weights.sum() == 0:
        raise ZeroDivisionError("The weights in multioutput sum to zero, can't be normalized.")
    return weights

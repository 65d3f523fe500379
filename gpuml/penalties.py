r"""The elastic-net penalty ``sum_j l1_j |v_j| + l2_j v_j^2 / 2`` as functions of arrays.

All take coefficients v (..., p) and weights l1, l2 that broadcast against them; a weight of zero
leaves its coordinate unpenalised, as an intercept wants to be. All take the namespace `xp`.

References
----------
H. Zou, T. Hastie, "Regularization and variable selection via the elastic net", J. R. Stat. Soc. B
67 (2005). N. Parikh, S. Boyd, "Proximal algorithms", Foundations and Trends in Optimization 1
(2014).
"""

from typing import Any

from gpuml._arrays import Array


def value(v: Array, l1: Any, l2: Any, xp: Any) -> Array:
    """The penalty (...) of coefficients (..., p)."""
    return xp.sum(l1 * xp.abs(v) + 0.5 * l2 * v**2, axis=-1)


def soft_threshold(z: Array, l1: Any, xp: Any) -> Array:
    """The v that minimises ``(v - z)^2 / 2 + l1 |v|``."""
    left = xp.abs(z) - l1
    return xp.where(left > 0, xp.sign(z) * left, xp.zeros_like(z))


def prox(z: Array, step: Any, l1: Any, l2: Any, xp: Any) -> Array:
    """The v that minimises ``(v - z)^2 / (2 step) + l1 |v| + l2 v^2 / 2``."""
    return soft_threshold(z, step * l1, xp) / (1 + step * l2)


def violation(v: Array, slope: Array, l1: Any, xp: Any) -> Array:
    """How far ``-slope`` is from the subdifferential of ``l1 |v|``, per coordinate.

    `slope` (..., p) is the gradient of all that is smooth, the l2 part included. Zero everywhere
    means that v is optimal.
    """
    inside = xp.abs(slope) - l1
    at_zero = xp.where(inside > 0, inside, xp.zeros_like(inside))
    return xp.where(v == 0, at_zero, xp.abs(slope + xp.sign(v) * l1))

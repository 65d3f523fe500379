r"""Penalties of coefficients: value, proximal map and optimality conditions.

References
----------
H. Zou, T. Hastie, "Regularization and variable selection via the elastic net", J. R. Stat. Soc. B
67 (2005). N. Parikh, S. Boyd, "Proximal algorithms", Foundations and Trends in Optimization 1
(2014).
"""

from dataclasses import dataclass, fields, replace
from typing import Any

from gpuml._arrays import Array


@dataclass(frozen=True)
class Penalty:
    """The elastic net ``sum_j l1_j |v_j| + l2_j v_j^2 / 2`` of coefficients v (..., p).

    Attributes
    ----------
    l1, l2 : arrays or numbers
        They broadcast against v; 0 leaves a coordinate unpenalised, as an intercept wants to be.
    used : array or number
        0 for coordinates that stay 0, as an intercept that is not fitted; else 1.
    """

    l1: Any
    l2: Any
    used: Any = 1.0

    def value(self, v: Array, xp: Any) -> Array:
        """The penalty (...) of coefficients (..., p)."""
        return xp.sum(self.l1 * xp.abs(v) + 0.5 * self.l2 * v**2, axis=-1)

    def prox(self, z: Array, step: Any, xp: Any) -> Array:
        """The v that minimises ``(v - z)^2 / (2 step)`` plus the penalty."""
        left = xp.abs(z) - step * self.l1
        kept = xp.where(left > 0, xp.sign(z) * left, xp.zeros_like(z))
        return kept / (1 + step * self.l2) * self.used

    def violation(self, v: Array, slope: Array, xp: Any) -> Array:
        """How far ``-slope`` is from the subdifferential of the l1 part, per coordinate.

        `slope` (..., p) is the gradient of all that is smooth, the l2 part included. Zero
        everywhere means that v is optimal.
        """
        inside = xp.abs(slope) - self.l1
        at_zero = xp.where(inside > 0, inside, 0.0)
        return xp.where(v == 0, at_zero, xp.abs(slope + xp.sign(v) * self.l1))

    def along(self, v: Array, direction: Array, xp: Any, *, behind: bool = False) -> Array:
        """Derivatives (..., p) of the l1 part along a direction: ahead of v, or behind it.

        They differ where coefficients are zero, as many are right at the end of a step.
        """
        size = -xp.abs(direction) if behind else xp.abs(direction)
        return self.l1 * xp.where(v == 0, size, xp.sign(v) * direction)

    def select(self, index: Array, xp: Any) -> "Penalty":
        """Those of some candidates, where all three have a leading axis of these."""
        values = {f.name: xp.take(getattr(self, f.name), index, axis=0) for f in fields(self)}
        return replace(self, **values)

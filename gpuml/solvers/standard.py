r"""Centres and scales of features, from sums over the values that are present.

With the mean m and the variance v of a feature over its n values, a feature is centred at m, and
divided by :math:`\sqrt v`, or as genotypes are [1]_: with a mean count m = 2 q of one of two
alleles, by the deviation :math:`\sqrt{q (1 - q)}` that drift gives it.

References
----------
.. [1] N. Patterson, A. L. Price, D. Reich, "Population structure and eigenanalysis", PLoS Genetics
   2 (2006).
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

from gpuml._arrays import Array, move, namespace, place_of
from gpuml._arrays.ops import EPS, any_true

PLOIDY = 2


class Sums(NamedTuple):
    """Of each feature, float64 (p,): values that are present, their sum and sum of squares.

    Squares are of values less a shift, which is the same for all rows that are summed.
    """

    count: Array
    total: Array
    squares: Array

    def plus(self, other: "Sums") -> "Sums":
        """Both, of the rows of either."""
        return Sums(*(a + b for a, b in zip(self, other, strict=True)))


@dataclass(frozen=True)
class Rule:
    """How features are to be standardised, as the user says.

    Attributes
    ----------
    center : bool, or array (p,) float64 in CPU memory
    scale : None, "std", "patterson", or array (p,) float64 in CPU memory
    dtype : {"float32", "float64"}
        Of the arithmetic within a block.
    """

    center: Any = False
    scale: Any = None
    dtype: str = "float64"

    @property
    def needs_sums(self) -> bool:
        """Whether features have to be summed for it, even if no value is missing."""
        return self.center is True or isinstance(self.scale, str)

    def part(self, features: slice) -> "Rule":
        """The rule of some of the features."""
        center = self.center if isinstance(self.center, bool) else self.center[features]
        scale = self.scale if self.scale is None or isinstance(self.scale, str) else None
        if self.scale is not None and scale is None:
            scale = self.scale[features]
        return Rule(center, scale, self.dtype)


@dataclass(frozen=True)
class Standard:
    """How features are standardised; arrays of one number for each of them, float64, or None.

    Attributes
    ----------
    centre : array (p,) or None
        Subtracted.
    factor : array (p,) or None
        Multiplied with what is left.
    fill : array (p,) or None
        In place of missing values; None where nothing is missing.
    dtype : {"float32", "float64"}
        Of the arithmetic within a block.
    """

    centre: Array | None = None
    factor: Array | None = None
    fill: Array | None = None
    dtype: str = "float64"

    def part(self, features: slice) -> "Standard":
        """Of some of the features."""
        centre, factor, fill = (
            None if a is None else a[features] for a in (self.centre, self.factor, self.fill)
        )
        return Standard(centre, factor, fill, self.dtype)

    def beside(self, like: Array) -> "Standard":
        """The same with its arrays where another one is."""
        place = place_of(like)
        return Standard(
            move(self.centre, place), move(self.factor, place), move(self.fill, place), self.dtype
        )


def standard_of(rule: Rule, sums: Sums | None, shift: Array, n_rows: int) -> Standard:
    """What a rule comes to, with arrays where `shift` is.

    Parameters
    ----------
    rule : Rule
    sums : Sums or None
        None only if the rule needs none and nothing is missing.
    shift : array (p,)
        What was subtracted before squaring.
    n_rows : int

    Raises
    ------
    ValueError
        For "patterson" where a mean is no count of alleles.
    """
    xp, place = namespace(shift), place_of(shift)
    mean = fill = None
    if sums is not None:
        mean = sums.total / xp.where(sums.count > 0, sums.count, xp.ones_like(shift))
        fill = mean if any_true(sums.count < n_rows, xp) else None
    centre = rule.center
    if isinstance(centre, bool):
        centre = mean if centre else None
    return Standard(
        centre if centre is None else move(centre, place),
        _factor(rule.scale, sums, mean, shift, xp),
        fill,
        rule.dtype,
    )


def _factor(scale, sums, mean, shift, xp):
    """The inverse of the scale; features that do not vary are not scaled."""
    if scale is None:
        return None
    if not isinstance(scale, str):
        return 1.0 / move(scale, place_of(shift))
    variance = _of_drift(mean, xp) if scale == "patterson" else _variance(sums, mean, shift, xp)
    varies = variance > 0
    ones = xp.ones_like(variance)
    return xp.where(varies, 1.0 / xp.sqrt(xp.where(varies, variance, ones)), ones)


def _variance(sums, mean, shift, xp):
    count = xp.where(sums.count > 0, sums.count, xp.ones_like(mean))
    variance = sums.squares / count - (mean - shift) ** 2
    # What rounding leaves of a constant; as scikit-learn's StandardScaler has it.
    noise = count * EPS * variance + (count * mean * EPS) ** 2
    return xp.where(variance > noise, variance, xp.zeros_like(variance))


def _of_drift(mean, xp):
    share = mean / PLOIDY
    outside = (share < 0) | (share > 1)
    if any_true(outside, xp):
        worst = int(xp.argmax(xp.astype(outside, xp.int64)))
        raise ValueError(
            "scale='patterson' is for counts of alleles 0, 1 and 2, and feature "
            f"{worst} has the mean {float(mean[worst]):.6g}. Use scale='std'."
        )
    return share * (1 - share)

"""Distributions of targets: scores, information and likelihoods."""

from dataclasses import dataclass
from math import log, pi
from typing import Any

from gpuml._arrays import Array
from gpuml.losses import BINOMIAL, Loss, tweedie

# Coefficients of Stirling's series, whose error is below 1e-16 for arguments from 8 on.
STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)
LEAST_ARGUMENT = 8
LOG_ROOT_2_PI = 0.5 * log(2 * pi)


@dataclass(frozen=True)
class Likelihood:
    """An exponential family with the mean of a link.

    Attributes
    ----------
    loss : Loss
        Its inverse link.
    power : float or None
        The power of the mean that variances grow with; None for mu (1 - mu).
    by_log : bool
        Whether means are ``exp(z)``.
    """

    loss: Loss
    power: float | None
    by_log: bool = False

    @property
    def has_scale(self) -> bool:
        """Whether the scale of the variance is estimated; it is 1 for counts and classes."""
        return self.power not in (None, 1.0)

    @property
    def is_least_squares(self) -> bool:
        return self.power == 0 and not self.by_log

    def mean(self, z: Array, xp: Any) -> Array:
        """Means (n,) of margins (n,)."""
        found = self.loss.mean(z[None, :], xp)
        return found[1, :] if self.power is None else found[0, :]

    def variance(self, mean: Array) -> Array:
        """Variances, up to the scale."""
        return mean * (1.0 - mean) if self.power is None else mean**self.power

    def score(self, y: Array, z: Array, xp: Any) -> tuple[Array, Array]:
        """Slopes (n,) of the log likelihood by margins, and expected curvatures, at the scale 1."""
        mean = self.mean(z, xp)
        if self.power is None:
            return y - mean, BINOMIAL.curvature(z[None, :], y, xp)[0, :]
        slope = mean if self.by_log else xp.ones_like(mean)
        return (y - mean) * slope / self.variance(mean), slope**2 / self.variance(mean)

    def log_likelihood(self, y: Array, z: Array, scale: Array | float, xp: Any) -> Array | None:
        """Log-likelihoods of rows (n,) at this scale; None without a closed form."""
        if self.power is None:
            return -BINOMIAL.value(z[None, :], y, xp)
        mean = self.mean(z, xp)
        scale = scale * xp.ones_like(mean)
        if self.power == 0:
            return -0.5 * (xp.log(2 * pi * scale) + (y - mean) ** 2 / scale)
        if self.power == 1:
            return _times_log(y, mean, xp) - mean - log_gamma(y + 1.0, xp)
        if self.power == 2:
            k = 1.0 / scale
            ratio = k * y / mean
            return k * xp.log(ratio) - ratio - xp.log(y) - log_gamma(k, xp)
        if self.power == 3:
            squares = (y - mean) ** 2 / (scale * y * mean**2)
            return -0.5 * (squares + xp.log(2 * pi * scale * y**3))
        return None


def likelihood_of(power: float, link: str) -> Likelihood:
    """Of a generalised linear model."""
    return Likelihood(tweedie(float(power), link), float(power), link == "log")


LEAST_SQUARES = likelihood_of(0.0, "identity")
LOGISTIC = Likelihood(BINOMIAL, None)


def _times_log(y, mean, xp):
    return xp.where(y > 0, y * xp.log(xp.where(mean > 0, mean, xp.ones_like(mean))), 0.0)


def log_gamma(x: Array, xp: Any) -> Array:
    """``log Gamma(x)`` of x > 0, for any array library."""
    # Gamma(x) = Gamma(x + 8) / (x (x + 1) ... (x + 7)), and Stirling's series of the former.
    below = sum(xp.log(x + j) for j in range(LEAST_ARGUMENT))
    x = x + LEAST_ARGUMENT
    series = sum(c / x ** (2 * j + 1) for j, c in enumerate(STIRLING))
    return (x - 0.5) * xp.log(x) - x + LOG_ROOT_2_PI + series - below

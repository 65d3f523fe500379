"""Losses of models that are linear in the features: value, slope and curvature.

Each is a function of the margins ``z`` (k, ..., b) of many models at b rows. Rows come last so that
those of a block are neighbours in memory; k is the number of vectors of a model. A solver asks a
loss for what it needs and knows none by name: a new loss is an entry in this file.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from gpuml._arrays import Array, device_of, is_numpy, itemsize
from gpuml._arrays.ops import clipped

# Larger exponents are clipped, so that no float32 or float64 sum overflows.
LARGEST_EXPONENT = {4: 60.0, 8: 600.0}  # by bytes of a number: NumPy takes long to name a dtype
# What losses, and their slopes downwards, are of margins that are no means: no step ends there, and
# rows of weight 0 stay out of sums, as those of infinite slopes would not.
BARRIER = 1e30
# Of targets that are all 0, whose models have no minimum.
SMALLEST_RATE = 1e-10


@dataclass(frozen=True)
class Loss:
    """One loss, as functions ``(z, target, xp)``.

    Attributes
    ----------
    name : str
    value : callable -> (..., b)
        Loss of each row.
    slope : callable -> (k, ..., b)
        Its derivatives by z. May use the memory of z.
    curvature : callable -> (k, ..., b)
        Its Hessian c by z; where vectors are `coupled`, it is ``diag(c) - c c'``. May
        use the memory of z.
    mean : callable ``(z, xp) -> (K, ..., b)``
        The inverse link: probabilities of K >= 2 classes, else expected targets (K = 1).
    typical : callable ``(k, mean) -> curvature``
        Of one margin, in a model without features; ``mean()`` is the mean of the targets.
    link : callable ``(mean, xp) -> z`` or None
        The margin of a model without features, of targets of this mean; None begins at 0.
    bound : float or None
        The largest curvature along any direction, over the square of its length; None for
        losses without a bound.
    coupled : bool
        Whether a change of all margins alike changes nothing, so that vectors share their rows.
    expected : bool
        Whether the curvature is what it is expected to be at the mean: of a loss that is not convex
        everywhere. It is no derivative then, and leads to the minimum as a preconditioner only.
    jumps : bool
        Whether the curvature jumps, so that what it promises of a step has to be looked at.
    cuda : str or None
        The slope in CUDA, as an expression of ``z`` and ``y`` of type T, where vectors are not
        coupled; None takes plain operations of arrays.
    """

    name: str
    value: Callable[..., Array]
    slope: Callable[..., Array]
    curvature: Callable[..., Array]
    mean: Callable[..., Array]
    typical: Callable[[int, Callable[[], Any]], Any]
    bound: float | None
    link: Callable[..., Array] | None = None
    coupled: bool = False
    expected: bool = False
    jumps: bool = False
    cuda: str | None = None


def sigmoid(z: Array, xp: Any) -> Array:
    """``1 / (1 + exp(-z))`` without overflow, in place if that saves memory."""
    # By way of tanh: one call, bounded for any z, and vectorised by every library.
    if is_numpy(z):
        z *= 0.5
        np.tanh(z, out=z)
        z *= 0.5
        z += 0.5
        return z
    return 0.5 * xp.tanh(0.5 * z) + 0.5


def one_hot(target: Array, z: Array, xp: Any) -> Array:
    """Indicators (k, 1, ..., b) of the classes of b rows, for margins z (k, ..., b)."""
    k = z.shape[0]
    classes = xp.arange(k, dtype=target.dtype, device=device_of(z))
    shape = (k,) + (1,) * (z.ndim - 2) + (z.shape[-1],)
    return xp.reshape(xp.astype(classes[:, None] == target[None, :], z.dtype), shape)


# ---------------------------------------------------------------- two classes: codes as floats


def _binomial_value(z, target, xp):
    z = z[0, ...]
    return xp.log1p(xp.exp(-xp.abs(z))) + xp.where(z > 0, z, xp.zeros_like(z)) - target * z


def _binomial_slope(z, target, xp):
    slope = sigmoid(z, xp)
    if is_numpy(slope):
        slope -= target
        return slope
    return slope - target


def _binomial_curvature(z, target, xp):
    # p (1 - p), from the one exponential that neither overflows nor loses digits.
    e = xp.exp(-xp.abs(z))
    return e / (1.0 + e) ** 2


def _binomial_mean(z, xp):
    z = z[0, ...]
    # Both from their own exponential: 1 - p would lose the digits of a small probability.
    return xp.stack([sigmoid(-z, xp), sigmoid(xp.asarray(z, copy=True), xp)])


def _quarter(k, mean):
    return 0.25


# ---------------------------------------------------------------- more classes: codes as integers


def _softmax(z, xp):
    if is_numpy(z):
        z -= z.max(axis=0, keepdims=True)
        np.exp(z, out=z)
        z /= z.sum(axis=0, keepdims=True)
        return z
    z = xp.exp(z - xp.max(z, axis=0, keepdims=True))
    return z / xp.sum(z, axis=0, keepdims=True)


def _multinomial_value(z, target, xp):
    top = xp.max(z, axis=0)
    total = xp.log(xp.sum(xp.exp(z - top[None, ...]), axis=0)) + top
    return total - xp.sum(z * one_hot(target, z, xp), axis=0)


def _multinomial_slope(z, target, xp):
    p = _softmax(z, xp)
    if is_numpy(p):
        rows = np.arange(p.shape[-1])
        p[target, ..., rows] -= 1.0
        return p
    return p - one_hot(target, p, xp)


def _multinomial_curvature(z, target, xp):
    return _softmax(z, xp)


def _multinomial_mean(z, xp):
    return _softmax(xp.asarray(z, copy=True), xp)


def _equal_shares(k, mean):
    return 1.0 / k


# ---------------------------------------------------------------- half deviances of Tweedie


def _exp(z, xp):
    """``exp(z)``, which stays finite: what no model of the minimum comes near is cut off."""
    return xp.exp(clipped(z, high=LARGEST_EXPONENT[itemsize(z.dtype)]))


def _log(mean, xp):
    return xp.log(clipped(mean, SMALLEST_RATE))


def _cut(power, c):
    """The share of the largest exponent at which ``c z`` is cut off, c being 2 or 1 - power.

    Both are cut off at the same z, as the slope of a loss would change its sign there.
    """
    others = [other for other in (2.0 - power, 1.0 - power) if other * c > 0]
    return abs(c) / max(map(abs, others))


def _largest(power, c, z):
    """Where ``c z`` is cut off."""
    return _cut(power, c) * LARGEST_EXPONENT[itemsize(z.dtype)]


def _at_least(values, least):
    """NumPy's values, none smaller; to look takes a third of the time of `maximum`."""
    return values if not values.size or values.min() >= least else np.maximum(values, least)


def _exponential(power, c, z, xp):
    if c == 0:
        return xp.ones_like(z)
    largest = _largest(power, c, z)
    if is_numpy(z):  # one array: more would leave the caches
        out = None
        if c != 1:
            z = out = np.multiply(z, c)
        # To look takes a third of the time of `minimum`.
        if z.size and not z.max() <= largest:
            z = out = np.minimum(z, largest, out=out)
        return np.exp(z, out=out)
    return xp.exp(clipped(z if c == 1 else c * z, high=largest))


def _log_value(power, z, target, xp):
    first, second = (
        z if c == 0 else _exponential(power, c, z, xp) / c for c in (2.0 - power, 1.0 - power)
    )
    return (first - target * second)[0, ...]


def _log_slope(power, z, target, xp):
    if not is_numpy(z):
        first = _exponential(power, 2.0 - power, z, xp)
        return first - (target if power == 1 else target * _exponential(power, 1.0 - power, z, xp))
    first = _exponential(power, 2.0 - power, z, xp)
    if power == 1:
        second = target
    elif power == 1.5:  # reciprocals of each other: a division takes half as long
        second = target / _at_least(first, np.exp(-_largest(power, 0.5, z)))
    else:
        second = _exponential(power, 1.0 - power, z, xp)
        second *= target
    first -= second
    return first


def _log_curvature(power, z, target, xp):
    first = _exponential(power, 2.0 - power, z, xp)
    if power == 1 or not 1 <= power <= 2:
        return first
    second = (power - 1.0) * target * _exponential(power, 1.0 - power, z, xp)
    return second if power == 2 else (2.0 - power) * first + second


def _means(power, z, xp):
    """Means z, and 1 in place of those that no distribution has."""
    return z if power == 0 else xp.where(z > 0, z, xp.ones_like(z))


def _or_barrier(power, found, z, xp, outside):
    if power == 0:
        return found
    return xp.where(z > 0, found, xp.full_like(found, outside))


def _identity_value(power, z, target, xp):
    m = _means(power, z, xp)
    first, second = (xp.log(m) if c == 0 else m**c / c for c in (2.0 - power, 1.0 - power))
    return _or_barrier(power, first - target * second, z, xp, BARRIER)[0, ...]


def _identity_slope(power, z, target, xp):
    m = _means(power, z, xp)
    found = z - target if power == 0 else (m - target) * m**-power
    return _or_barrier(power, found, z, xp, -BARRIER)


def _identity_curvature(power, z, target, xp):
    m = _means(power, z, xp)
    if 0 < power <= 1:
        return ((1.0 - power) * m + power * target) * m ** (-power - 1)
    return xp.ones_like(m) if power == 0 else m**-power


def _identity(z, xp):
    return z


def _typical(exponent, k, mean):
    return mean() ** exponent


@cache
def tweedie(power: float, link: str) -> Loss:
    """Half the Tweedie deviance of a power, without the terms of y alone.

    Means are ``exp(z)`` (link "log") or z itself ("identity": unless the power is 0, the loss has a
    barrier where z is not above 0). It is convex for powers of 1 to 2 with logarithms, and of 0 to
    1 without. Elsewhere the curvature is the one that is expected at the mean, which is never
    negative.
    """
    by_log = link == "log"
    value, slope, curvature = (
        partial(function, power)
        for function in (
            (_log_value, _log_slope, _log_curvature)
            if by_log
            else (_identity_value, _identity_slope, _identity_curvature)
        )
    )
    convex = 1 <= power <= 2 if by_log else 0 <= power <= 1
    word = f"{float(power):g}".replace(".", "_").replace("-", "minus_").replace("+", "")
    return Loss(
        "poisson" if by_log and power == 1 else f"tweedie_{word}_{link}",
        value,
        slope,
        curvature,
        mean=_exp if by_log else _identity,
        # Variances are mean ** power, and by logarithms the mean has the slope mean.
        typical=partial(_typical, 2.0 - power if by_log else -power),
        bound=1.0 if power == 0 and not by_log else None,
        link=_log if by_log else _identity,
        expected=not convex,
        cuda=_cuda_log(power) if by_log else _cuda_identity(power),
    )


def _cuda_log(power):
    def exponential(c):
        largest = [_cut(power, c) * LARGEST_EXPONENT[each] for each in (4, 8)]
        return "exp(min(T({}) * z, sizeof(T) == 4 ? T({}) : T({})))".format(c, *largest)

    first, second = ("T(1)" if c == 0 else exponential(c) for c in (2.0 - power, 1.0 - power))
    return f"{first} - y * {second}"


def _cuda_identity(power):
    if power == 0:
        return "z - y"
    return f"z > T(0) ? (z - y) * pow(z, T({-float(power)})) : T({-BARRIER})"


# ---------------------------------------------------------------- squares beyond a margin


def _squared_hinge_value(z, target, xp):
    return clipped(1.0 - (2.0 * target - 1.0) * z[0, ...], 0.0) ** 2


def _squared_hinge_slope(z, target, xp):
    sign = 2.0 * target - 1.0
    if is_numpy(z):
        z *= sign
        z -= 1.0
        np.minimum(z, 0.0, out=z)
        z *= 2.0 * sign
        return z
    return 2.0 * sign * clipped(sign * z - 1.0, high=0.0)


def _squared_hinge_curvature(z, target, xp):
    return 2.0 * xp.astype((2.0 * target - 1.0) * z < 1.0, z.dtype)


def _two(k, mean):
    return 2.0


@cache
def squared_beyond(epsilon: float) -> Loss:
    """``max(0, |y - z| - epsilon)^2``: squares of what errors are larger than they may be."""
    return Loss(
        f"squared_beyond_{epsilon:g}".translate(str.maketrans("-.+", "m_p")),
        partial(_beyond_value, epsilon),
        partial(_beyond_slope, epsilon),
        partial(_beyond_curvature, epsilon),
        mean=_identity,
        typical=_two,
        bound=2.0,
        link=_identity,
        jumps=True,
        cuda=f"T(2) * (z - y - max(T({-epsilon!r}), min(T({epsilon!r}), z - y)))",
    )


def _beyond_value(epsilon, z, target, xp):
    return clipped(xp.abs(z[0, ...] - target) - epsilon, 0.0) ** 2


def _beyond_slope(epsilon, z, target, xp):
    if is_numpy(z):
        z -= target
        z -= np.clip(z, -epsilon, epsilon)
        z *= 2.0
        return z
    error = z - target
    return 2.0 * (error - clipped(error, -epsilon, epsilon))


def _beyond_curvature(epsilon, z, target, xp):
    return 2.0 * xp.astype(xp.abs(z - target) > epsilon, z.dtype)


BINOMIAL = Loss(
    "binomial",
    _binomial_value,
    _binomial_slope,
    _binomial_curvature,
    _binomial_mean,
    typical=_quarter,
    bound=0.25,
    cuda="T(1) / (T(1) + exp(-z)) - y",
)
MULTINOMIAL = Loss(
    "multinomial",
    _multinomial_value,
    _multinomial_slope,
    _multinomial_curvature,
    _multinomial_mean,
    typical=_equal_shares,
    bound=0.5,
    coupled=True,
)
# ``max(0, 1 - (2 y - 1) z)^2`` of y = 0, 1: a row counts where its margin is below 1.
SQUARED_HINGE = Loss(
    "squared_hinge",
    _squared_hinge_value,
    _squared_hinge_slope,
    _squared_hinge_curvature,
    mean=_identity,
    typical=_two,
    bound=2.0,
    jumps=True,
    cuda="(T(4) * y - T(2)) * min(T(0), (T(2) * y - T(1)) * z - T(1))",
)

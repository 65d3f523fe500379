"""Losses of classifiers that are linear in the features: value, slope and curvature.

Each is a function of the margins ``z`` (k, ..., b) of many models at b rows. Rows come last so that
those of a block are neighbours in memory; k is 1 for two classes, else the number of classes.
`target` (b,) holds codes of classes, as floats for two classes and as integers for more.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuml._arrays import Array, device_of, is_numpy


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
    flattest : callable ``k -> float``
        Second derivative by one margin where all classes are equally likely.
    probability : callable ``(z, xp) -> (K, ..., b)``
        Probabilities of the K >= 2 classes.
    """

    name: str
    value: Callable[..., Array]
    slope: Callable[..., Array]
    flattest: Callable[[int], float]
    probability: Callable[..., Array]


def sigmoid(z: Array, xp: Any) -> Array:
    """``1 / (1 + exp(-z))`` in place where that saves memory; never overflows."""
    # By way of tanh: one call, bounded for any z, and vectorised by every library.
    if is_numpy(z):
        z *= 0.5
        np.tanh(z, out=z)
        z *= 0.5
        z += 0.5
        return z
    return 0.5 * xp.tanh(0.5 * z) + 0.5


def _binomial_value(z, target, xp):
    z = z[0, ...]
    return xp.log1p(xp.exp(-xp.abs(z))) + xp.where(z > 0, z, xp.zeros_like(z)) - target * z


def _binomial_slope(z, target, xp):
    slope = sigmoid(z, xp)
    if is_numpy(slope):
        slope -= target
        return slope
    return slope - target


def _binomial_probability(z, xp):
    z = z[0, ...]
    # Both from their own exponential: 1 - p would lose the digits of a small probability.
    return xp.stack([sigmoid(-z, xp), sigmoid(xp.asarray(z, copy=True), xp)])


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


def _multinomial_probability(z, xp):
    return _softmax(xp.asarray(z, copy=True), xp)


def one_hot(target: Array, z: Array, xp: Any) -> Array:
    """Indicators (k, 1, ..., b) of the classes of b rows, for margins z (k, ..., b)."""
    k = z.shape[0]
    classes = xp.arange(k, dtype=target.dtype, device=device_of(z))
    shape = (k,) + (1,) * (z.ndim - 2) + (z.shape[-1],)
    return xp.reshape(xp.astype(classes[:, None] == target[None, :], z.dtype), shape)


BINOMIAL = Loss("binomial", _binomial_value, _binomial_slope, lambda k: 0.25, _binomial_probability)
MULTINOMIAL = Loss(
    "multinomial",
    _multinomial_value,
    _multinomial_slope,
    lambda k: 1.0 / k,
    _multinomial_probability,
)

"""The curvature information of L-BFGS steps: vectors on the device, their products in CPU memory.

Each problem of a grid (C, S) has a preconditioner P, which is symmetric. The recursion of two loops
runs on the host, on inner products [1]_.

References
----------
.. [1] W. Chen, Z. Wang, J. Zhou, "Large-scale L-BFGS using MapReduce", NIPS (2014).
"""

from dataclasses import dataclass

import numpy as np

from gpuml._arrays import Array, device_of, to_host
from gpuml._arrays.ops import constant
from gpuml.solvers._blocks import quiet

MEMORY = 8
EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Look:
    """What a pass sees at trial steps: vectors (C, S, n) on the device, numbers (C, S) here.

    Attributes
    ----------
    gradient, image : array
        At the trials, and times P.
    change, gradient_change, image_change : array
        What the trials change of W, of the gradient and of its image.
    step : ndarray
        The trials are so far along their directions.
    along : ndarray (C, S, 1 + 2 m)
        Products of the basis with the gradient.
    size, slope, largest : ndarray
        Products of the gradient with its image and with the direction; its largest component.
    curved, turned : ndarray
        Products of the change of the gradient with that of W, and with that of the image.
    """

    gradient: Array
    image: Array
    change: Array
    gradient_change: Array
    image_change: Array
    step: np.ndarray
    along: np.ndarray
    size: np.ndarray
    slope: np.ndarray
    largest: np.ndarray
    curved: np.ndarray
    turned: np.ndarray


class Secants:
    """Changes of W and of the gradient by the last steps, for the next directions.

    `basis` (C, S, 1 + 2 m, n) holds the image P g of the gradient g, then changes s_i of W, each
    with P y_i, where y_i is the change of the gradient. `products` (C, S, 1 + 2 m, 1 + m) are those
    of the basis with g and all y_i, `ahead` (C, S, 1 + m) those of the direction. What is not
    filled yet comes last, and is not read.

    Vectors are read for the products of the basis with each new gradient alone. The others follow,
    since P is symmetric and directions are sums of the basis.
    """

    def __init__(self, gradient, xp):
        self.xp, self.gradient = xp, gradient
        (*grid, n) = gradient.shape
        shape = (*grid, 2 * MEMORY + 1, n)
        self.basis = xp.zeros(shape, dtype=xp.float64, device=device_of(gradient))
        self.products = np.zeros((*grid, 2 * MEMORY + 1, MEMORY + 1))
        self.ahead = np.zeros((*grid, MEMORY + 1))
        self.order: list[int] = []

    @property
    def size(self):
        """Squares (C, S) of the lengths of gradients, as P measures them."""
        return self.products[..., 0, 0]

    def restart(self, image):
        """Forget all but the gradient, which has another image."""
        self.order = []
        self.basis[:, :, 0, :] = image
        self.products[..., 0, 0] = to_host(self.xp.vecdot(self.gradient, image))

    def select(self, index, chosen):
        """Continue with some of the candidates only; `chosen` is the index on the device."""
        for name in ("gradient", "basis"):
            setattr(self, name, self.xp.take(getattr(self, name), chosen, axis=0))
        self.products, self.ahead = self.products[index], self.ahead[index]

    def look(self, gradient, image, change, direction, step):
        """A look at trials; its numbers come from the device together."""
        xp = self.xp
        with quiet():  # a trial may be too far for numbers
            gradient_change, image_change = gradient - self.gradient, image - self.basis[:, :, 0, :]
            along = (self._filled() @ gradient[..., None])[..., 0]
            own = [
                xp.vecdot(gradient, image),
                xp.vecdot(gradient, direction),
                xp.max(xp.abs(gradient), axis=-1),
                xp.vecdot(gradient_change, change),
                xp.vecdot(gradient_change, image_change),
            ]
            numbers = to_host(xp.concat([xp.stack(own, axis=-1), along], axis=-1))
        five = np.moveaxis(numbers[..., :5], -1, 0)
        vectors = (gradient, image, change, gradient_change, image_change)
        return Look(*vectors, step, numbers[..., 5:], *five)

    def keep(self, kept, look):
        """Move to the trials that are kept, and remember what they changed."""
        xp = self.xp
        slot = self.order.pop(0) if len(self.order) == MEMORY else len(self.order)
        self.order.append(slot)
        with quiet():
            self._follow(kept, look, slot)
        gradient, image = look.gradient, look.image
        changes = [look.change, look.image_change]
        if not kept.all():
            chosen = xp.asarray(kept, device=device_of(gradient))[..., None]
            nothing = xp.zeros_like(gradient)
            changes = [xp.where(chosen, change, nothing) for change in changes]
            gradient = xp.where(chosen, gradient, self.gradient)
            image = xp.where(chosen, image, self.basis[:, :, 0, :])
        self.basis[:, :, 1 + 2 * slot, :], self.basis[:, :, 2 + 2 * slot, :] = changes
        self.basis[:, :, 0, :], self.gradient = image, gradient

    def _follow(self, kept, look, slot):
        """Products after `keep`; problems that did not move get zeros for the changes."""
        n, products = look.along.shape[-1], self.products
        table = products[..., :n, :]
        moved = look.along - table[..., 0]  # of the basis with the change of the gradient
        turned = look.size - look.along[..., 0]  # of the gradient with the change of the image
        pairs, new = slice(1, 1 + n // 2), 1 + slot
        # Rows of the table: of the image, the change of W and the change of the image.
        rows = np.zeros((3, *self.ahead.shape))
        rows[0, ..., 0], rows[0, ..., pairs] = look.size, look.along[..., 2::2]
        rows[1] = look.step[..., None] * self.ahead
        rows[1, ..., 0] = look.step * look.slope
        rows[2, ..., 0], rows[2, ..., pairs] = turned, moved[..., 2::2]
        rows[:, ..., new] = turned, look.curved, look.turned
        chosen = kept[..., None]
        table[..., 0] = np.where(chosen, look.along, table[..., 0])
        table[..., new] = np.where(chosen, moved, 0.0)
        products[..., 0, :] = np.where(chosen, rows[0], products[..., 0, :])
        products[..., 2 * slot + 1, :] = np.where(chosen, rows[1], 0.0)
        products[..., 2 * slot + 2, :] = np.where(chosen, rows[2], 0.0)
        self.ahead[..., new] = 0.0  # of those that stay: others get another direction

    def weights(self):
        """Weights (C, S, 1 + 2 m) of the basis in new directions, and the slopes (C, S) there."""
        m = len(self.order)
        products = self.products[..., : 1 + 2 * m, : 1 + m]
        weights = _two_loops(products, self.order)
        return weights, np.sum(weights * products[..., 0], axis=-1)

    def aim(self, weights, fresh):
        """Directions (C, S, n) of some weights; those that are `fresh` are going to be taken."""
        ahead = (weights[..., None, :] @ self.products[..., : weights.shape[-1], :])[..., 0, :]
        self.ahead = np.where(fresh[..., None], ahead, self.ahead)
        weights = constant(weights, like=self.gradient, xp=self.xp)
        return (weights[..., None, :] @ self._filled())[:, :, 0, :]

    def _filled(self):
        return self.basis[:, :, : 1 + 2 * len(self.order), :]


def _sum(values):
    return np.add.reduce(values, axis=-1)


def _two_loops(products, order):
    """Weights (C, S, 1 + 2 m) of the basis that make up the quasi-Newton direction.

    `products` (C, S, 1 + 2 m, 1 + m) are those of basis and images; `order` names the m slots of
    remembered changes from the oldest to the latest. Problems that took no step in some pass have
    zeros there, which add nothing.
    """
    m = len(order)
    gradient = products[..., 1::2, 0]
    sy = products[..., 1::2, 1:]
    yy = products[..., 2::2, 1:]
    curved = np.einsum("...ii->...i", sy)
    sizes = np.einsum("...ii->...i", yy)
    good = (curved > EPS * sizes) & (sizes > 0)
    inverse = np.where(good, 1.0 / np.where(good, curved, 1.0), 0.0)
    first = np.zeros((*products.shape[:2], m))
    for i in reversed(order):
        left = gradient[..., i] - _sum(first * sy[..., i, :])
        first[..., i] = inverse[..., i] * left
    scale = np.ones(products.shape[:2])
    for i in order:
        fitting = curved[..., i] / np.where(good[..., i], sizes[..., i], 1.0)
        scale = np.where(good[..., i], fitting, scale)
    second = np.zeros_like(first)
    for i in order:
        middle = products[..., 0, 1 + i] - _sum(first * yy[..., :, i])
        along = scale * middle + _sum(second * sy[..., :, i])
        second[..., i] = first[..., i] - inverse[..., i] * along
    weights = np.empty(products.shape[:-1])
    weights[..., 0] = -scale
    weights[..., 1::2], weights[..., 2::2] = -second, scale[..., None] * first
    return weights

r"""Covariance types of mixtures: their features of the rows, sums of these, and back.

The logarithm of a component's density is linear in features of a row: the row, 1, and, unless all
components have one covariance, its squares ("diag") or products of pairs ("full"). So all
components of all mixtures read rows by one product, and the sums that new weights, means and
covariances follow from are another one, with their shares in the rows.

Squares lose digits where a mean is far from the origin next to its standard deviation. Rows are
centred, and for products of pairs turned and scaled to the covariance of all rows; components that
are small next to that are told apart, and are worked on by differences to their means.
"""

from math import log, pi

import numpy as np

from gpuml._arrays import Array, Place, device_of, move, namespace, place_of, to_host
from gpuml._arrays.ops import EPS, all_true, any_true
from gpuml.solvers._mixture_space import Components, Space, Told
from gpuml.solvers.gaussians import (
    ILL_DEFINED,
    log_determinants,
    precision_factors,
    roots,
    upper_factors,
)

# Products of pairs of more features take longer than differences to each mean; in CPU memory also
# where there are fewer components than this many for each feature.
WIDEST, HOST_WIDEST = 256, 64
HOST_COMPONENTS = 0.5
# Products must not exceed the result by more: squares next to variances, and products of means and
# precisions next to densities.
MOST_LOST = 1e6
# The same of variances along any direction: with those, products of any kind lose digits.
FLATTEST = 1e9
# Next to the squares that it is a difference of, a variance that is rounding.
ROUNDING = 4 * EPS


def scattered(Z: Array, shares: Array) -> Array:
    """Sums (p, p) of products of rows Z (p, m), by shares (m,)."""
    half = namespace(Z).sqrt(shares) * Z
    return half @ half.T  # which NumPy makes one half of


class Kind:
    """A type of covariances; mixtures are in the coordinates of a `Space`."""

    turned = False

    def of_components(self, n_components: int, place: Place) -> "Kind":
        """The same type for another number of components, at a place."""
        return self

    def n_features(self, p: int) -> int:
        """How many features a row of p numbers has."""
        raise NotImplementedError

    def features(self, Z: Array) -> Array:
        """Features (q, m) of rows Z (p, m)."""
        raise NotImplementedError

    def sums(self, features: Array, shares: Array, Z: Array) -> Array:
        """Sums (K, .) over rows of features by shares (K, m)."""
        return shares @ features.T

    def update(self, space: Space, sums: Array, told: Told) -> Components:
        """Components from sums; rows are read again where sums lost digits.

        Raises
        ------
        ValueError
            If a covariance is not positive definite.
        """
        raise NotImplementedError

    def coefficients(self, found: Components, space: Space) -> Array:
        """Of the features (K, q), which give ``log w_k + log N_k``."""
        xp = namespace(found.means)
        squares, linear = self._quadratic(found)
        lengths = xp.sum(linear * found.means, axis=1)
        rest = self.constants(found, space) - 0.5 * lengths
        return xp.concat([*squares, linear, rest[:, None]], axis=1)

    def constants(self, found: Components, space: Space) -> Array:
        """``log w_k + log N_k`` (K,) of a row in the mean."""
        xp, p = namespace(found.means), space.n_features
        with np.errstate(divide="ignore"):  # a weight may be 0
            logs = xp.log(found.weights)
        return logs + self._log_dets(found) + space.log_det - 0.5 * p * log(2 * pi)

    def _quadratic(self, found: Components) -> tuple[list[Array], Array]:
        """Coefficients of squares, if rows have them in their features, and of rows."""
        raise NotImplementedError

    def _log_dets(self, found: Components) -> Array:
        """``log |U|`` (K,) of the components."""
        raise NotImplementedError

    def apart(self, found: Components) -> np.ndarray:
        """Components that products lose too many digits of."""
        return np.empty(0, dtype=np.intp)

    def factors(self, covariances: Array) -> Array | None:
        """U of the precisions, of matrices (., p, p)."""
        return None

    def left_out(self, found: Components, space: Space) -> Array | float:
        """What coefficients leave out of the mean log density (R,), as all rows have it alike."""
        return 0.0

    def taken(self, found: Components, mixtures: np.ndarray) -> Components:
        """Some of the mixtures."""
        xp, place = namespace(found.means), place_of(found.means)
        index = move(np.flatnonzero(np.isin(found.owners, mixtures)), place)
        own = move(mixtures, place) if isinstance(self, Tied) else index
        factors = None if found.factors is None else xp.take(found.factors, own, axis=0)
        return Components(
            found.sizes[mixtures],
            xp.take(found.weights, index, axis=0),
            xp.take(found.means, index, axis=0),
            xp.take(found.covariances, own, axis=0),
            factors,
        )

    def inward(self, space: Space, covariances: Array) -> Array:
        """Covariances of one mixture from the user's."""
        raise NotImplementedError

    def outward(self, space: Space, covariances: Array) -> Array:
        """The user's from covariances of one mixture."""
        raise NotImplementedError


def _means(space: Space, sums: Array, told: Told) -> tuple[Array, Array]:
    """Sums of shares (K,), never 0, and means (K, p)."""
    p = space.n_features
    counts = sums[:, -1] + told.least
    # The least share is of a row in the origin of the user's coordinates.
    first = sums[:, -1 - p : -1] - told.least * space.zero
    return counts, first / counts[:, None]


def _weights(counts: Array, told: Told, space: Space) -> Array:
    xp = namespace(counts)
    if not told.complete:
        return counts / space.n_rows
    total = _by_mixture(counts, told.sizes)
    return counts / xp.take(total, move(_owners(told.sizes), place_of(counts)), axis=0)


def _owners(sizes: np.ndarray) -> np.ndarray:
    return np.repeat(np.arange(len(sizes)), sizes)


def _by_mixture(values: Array, sizes: np.ndarray) -> Array:
    """Sums (R, ...) over the components of each mixture."""
    xp = namespace(values)
    ends = np.cumsum(sizes)
    return xp.stack(
        [xp.sum(values[end - k : end, ...], axis=0) for end, k in zip(ends, sizes, strict=True)]
    )


class Diagonal(Kind):
    """Variances of each feature, or one of all of them ("spherical")."""

    def __init__(self, *, spherical: bool):
        self.spherical = spherical

    def n_features(self, p):
        return 2 * p + 1

    def features(self, Z):
        xp = namespace(Z)
        return xp.concat([Z * Z, Z, xp.ones_like(Z[:1, :])])

    def update(self, space, sums, told):
        xp, p = namespace(sums), space.n_features
        counts, means = _means(space, sums, told)
        squares, first = sums[:, :p], sums[:, p:-1]
        variances = squares + means * (sums[:, -1:] * means - 2.0 * first)
        variances = xp.where(variances > ROUNDING * squares, variances, 0.0) / counts[:, None]
        if self.spherical:
            variances = xp.mean(variances, axis=1, keepdims=True) * xp.ones_like(variances)
        variances = variances + told.reg[:, None]
        if not all_true(variances > 0, xp):
            raise ValueError(ILL_DEFINED)
        return Components(told.sizes, _weights(counts, told, space), means, variances)

    def _quadratic(self, found):
        precisions = 1.0 / found.covariances
        return [-0.5 * precisions], found.means * precisions

    def _log_dets(self, found):
        xp = namespace(found.means)
        return -0.5 * xp.sum(xp.log(found.covariances), axis=1)

    def inward(self, space, covariances):
        columns = covariances[:, None] if self.spherical else covariances
        return columns * namespace(columns).ones_like(space.origin)

    def outward(self, space, covariances):
        return covariances[:, 0] if self.spherical else covariances


class Turned(Kind):
    """Matrices, of rows that are turned to the covariance of all of them."""

    turned = True

    def factors(self, covariances):
        return precision_factors(covariances, "full")


class Tied(Turned):
    """One matrix of all components."""

    def n_features(self, p):
        return p + 1

    def features(self, Z):
        xp = namespace(Z)
        return xp.concat([Z, xp.ones_like(Z[:1, :])])

    def update(self, space, sums, told):
        xp = namespace(sums)
        counts, means = _means(space, sums, told)
        ends = np.cumsum(told.sizes)
        found = []
        for end, k in zip(ends, told.sizes, strict=True):
            own = slice(end - k, end)
            weighted = counts[own, None] * means[own, :]
            scatter = space.total - weighted.T @ means[own, :]
            total = xp.sum(counts[own])
            if not told.complete:
                # Differences are from the origin of the user's coordinates, as scikit-learn has it.
                sum_of_means = xp.sum(weighted, axis=0)
                cross = sum_of_means[:, None] * space.zero
                scatter = scatter - cross - cross.T
                outer = space.zero[:, None] * space.zero
                scatter = scatter + (space.n_rows - total) * outer
            found.append(scatter / total)
        reg = xp.stack([told.reg[end - 1] for end in ends])
        covariances = xp.stack(found) + _diagonal(reg[:, None] * space.ridge)
        lower, good = roots(covariances)
        if not good.all():
            raise ValueError(ILL_DEFINED)
        weights = _weights(counts, told, space)
        return Components(told.sizes, weights, means, covariances, upper_factors(lower))

    def _quadratic(self, found):
        xp = namespace(found.means)
        precisions = found.factors @ xp.matrix_transpose(found.factors)
        ends = np.cumsum(found.sizes)
        linear = [
            found.means[end - k : end, :] @ precisions[r, ...]
            for r, (end, k) in enumerate(zip(ends, found.sizes, strict=True))
        ]
        return [], xp.concat(linear)

    def _log_dets(self, found):
        owners = move(found.owners, place_of(found.means))
        p = found.means.shape[1]
        return namespace(found.means).take(log_determinants(found.factors, "tied", p), owners)

    def left_out(self, found, space):
        xp = namespace(found.means)
        precisions = found.factors @ xp.matrix_transpose(found.factors)
        return -0.5 * xp.sum(precisions * space.total, axis=(1, 2)) / space.n_rows

    def inward(self, space, covariances):
        return (space.turn.T @ covariances @ space.turn)[None, ...]

    def outward(self, space, covariances):
        return space.back.T @ covariances[0, ...] @ space.back


class Full(Turned):
    """A matrix of each component."""

    def __init__(self, n_features: int, *, wide: bool = False):
        self._p, self.wide = n_features, wide
        self._pairs = np.triu_indices(n_features)

    def of_components(self, n_components, place):
        widest = HOST_WIDEST if place.is_host else WIDEST
        few = place.is_host and n_components < HOST_COMPONENTS * self._p
        wide = self._p > widest or few
        return self if wide == self.wide else Full(self._p, wide=wide)

    def n_features(self, p):
        return p + 1 if self.wide else len(self._pairs[0]) + p + 1

    def features(self, Z):
        xp = namespace(Z)
        linear = [Z, xp.ones_like(Z[:1, :])]
        if self.wide:
            return xp.concat(linear)
        first, second = (move(index, place_of(Z)) for index in self._pairs)
        return xp.concat([xp.take(Z, first, axis=0) * xp.take(Z, second, axis=0), *linear])

    def sums(self, features, shares, Z):
        found = shares @ features.T
        if not self.wide:
            return found
        xp, p = namespace(Z), Z.shape[0]
        squares = [xp.reshape(scattered(Z, shares[k, :]), (p * p,)) for k in range(shares.shape[0])]
        return xp.concat([xp.stack(squares), found], axis=1)

    def update(self, space, sums, told):
        xp, p = namespace(sums), space.n_features
        counts, means = _means(space, sums, told)
        squares, first = self._matrices(sums[:, : -1 - p], p), sums[:, -1 - p : -1]
        cross = means[:, :, None] * first[:, None, :]
        own = means[:, :, None] * means[:, None, :] * sums[:, -1][:, None, None]
        covariances = (squares - cross - xp.matrix_transpose(cross) + own) / counts[:, None, None]
        ridge = _diagonal(told.reg[:, None] * space.ridge)
        lower, good = roots(covariances + ridge)
        sizes = xp.linalg.diagonal(squares) / counts[:, None]
        own = xp.linalg.diagonal(covariances)
        lost = xp.sum(sizes, axis=1) > MOST_LOST * xp.sum(own, axis=1)
        flat = xp.min(xp.linalg.diagonal(lower), axis=1) ** 2
        lost |= xp.max(sizes, axis=1) > FLATTEST * flat
        which = np.flatnonzero(~good | to_host(lost))
        if len(which):
            covariances, lower = self._again(covariances, lower, ridge, which, means, counts, told)
        weights = _weights(counts, told, space)
        return Components(told.sizes, weights, means, covariances + ridge, upper_factors(lower))

    def _again(self, covariances, lower, ridge, which, means, counts, told):
        """Covariances of some components, from differences to their means."""
        xp, place = namespace(means), place_of(means)
        index = move(which, place)
        centres, own = (xp.take(a, index, axis=0) for a in (means, counts))
        better = told.scatter(which, centres) / own[:, None, None]
        factors, good = roots(better + xp.take(ridge, index, axis=0))
        least = xp.min(xp.linalg.diagonal(factors), axis=1)
        # Differences are rounded as the rows are.
        far = (ROUNDING**2) * (1.0 + xp.sum(centres**2, axis=1))
        if not good.all() or any_true(least**2 <= far, xp):
            raise ValueError(ILL_DEFINED)
        covariances, lower = (xp.asarray(a, copy=True) for a in (covariances, lower))
        for j, k in enumerate(which):
            covariances[int(k), ...], lower[int(k), ...] = better[j, ...], factors[j, ...]
        return covariances, lower

    def _matrices(self, flat, p):
        """Symmetric matrices (K, p, p) from sums of products of pairs."""
        xp = namespace(flat)
        if not self.wide:
            where = np.empty((p, p), dtype=np.int64)
            first, second = self._pairs
            where[first, second] = where[second, first] = np.arange(len(first))
            flat = xp.take(flat, move(where.reshape(-1), place_of(flat)), axis=1)
        return xp.reshape(flat, (-1, p, p))

    def _quadratic(self, found):
        xp, p = namespace(found.means), found.means.shape[1]
        precisions = found.factors @ xp.matrix_transpose(found.factors)
        linear = (precisions @ found.means[:, :, None])[:, :, 0]
        if self.wide:
            return [], linear
        first, second = self._pairs
        often, where = (
            move(a, place_of(precisions))
            for a in (np.where(first == second, -0.5, -1.0), first * p + second)
        )
        flat = xp.reshape(precisions, (-1, p * p))
        return [xp.take(flat, where, axis=1) * often], linear

    def _log_dets(self, found):
        return log_determinants(found.factors, "full", found.means.shape[1])

    def apart(self, found):
        if self.wide:
            return np.arange(found.means.shape[0])
        xp = namespace(found.means)
        size = xp.sum(found.factors**2, axis=(1, 2)) * (1.0 + xp.sum(found.means**2, axis=1))
        return np.flatnonzero(to_host(size) > MOST_LOST)

    def inward(self, space, covariances):
        return space.turn.T @ covariances @ space.turn

    def outward(self, space, covariances):
        return space.back.T @ covariances @ space.back


def _diagonal(values: Array) -> Array:
    """Diagonal matrices (K, p, p)."""
    xp = namespace(values)
    return values[:, :, None] * xp.eye(
        values.shape[1], dtype=values.dtype, device=device_of(values)
    )


def kind_of(name: str, n_features: int) -> Kind:
    """The type of covariances of a name."""
    if name == "full":
        return Full(n_features)
    return Tied() if name == "tied" else Diagonal(spherical=name == "spherical")

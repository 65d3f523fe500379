"""Newton's method for a grid of smooth models of few rows: all of them in the same few products.

Gradients of all models are one product of slopes with the rows. Hessians are one of curvatures
with products ``z_a z_b`` of the columns of the rows, which are formed once; or, of few models, one
of the rows with copies that curvatures weight. So a pass takes some forty calls for any number of
models. Half a dozen exact steps lead to the minimum: where rows are few, calls are what a fit
takes, and nothing is gained by steps that cost less.

Steps are judged by slopes along them, as those of `solvers.lbfgs`.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpuml._arrays import (
    HOST,
    Array,
    Place,
    device_of,
    is_singular,
    move,
    namespace,
    place_of,
    to_host,
)
from gpuml._arrays.ops import any_true, zeros
from gpuml.designs import Dense, Divided, Mapped
from gpuml.penalties import Penalty
from gpuml.solvers._blocks import quiet
from gpuml.solvers._step_rules import (
    ENOUGH,
    FORESEEN,
    GAIN,
    PATIENCE,
    SURE_OVERSHOOT,
    is_noise,
    shortened,
)
from gpuml.solvers.lbfgs import Solved
from gpuml.solvers.loss_rows import LossRows
from gpuml.solvers.newton import are_far, check_squares, grams, unit_diagonal

# Limits for column products and curvatures in bytes, and for a pass in multiplications: about the
# cost of the calls.
PRODUCT_BYTES = {"cpu": 2**22, "gpu": 2**28}
MOST_PRODUCTS = {"cpu": 2**22, "gpu": 2**30}
# Steps of all models that take so few multiplications are taken in CPU memory.
MOST_STEPS_HERE = 2**21


def are_few(data: LossRows, shape: tuple[int, ...], n_features: int | None = None) -> bool:
    """Whether Hessians of models (C, S, k, q) at every pass cost no more than its calls.

    Of rows with so many features, if they had others than they have.
    """
    if data.loss.expected:  # steps would not be Newton's
        return False
    n_candidates, n_splits, k, _ = shape
    q = (data.n_features if n_features is None else n_features) + 1
    return cost_little(data.n_rows, q, k, n_candidates * n_splits, data.place)


def cost_little(n_rows: int, q: int, k: int, n_models: int, place: Place) -> bool:
    """Whether Hessians of models of k vectors (q,) cost no more than the calls for them."""
    n_matrices = n_models * k**2
    device = "cpu" if place.is_host else "gpu"
    fit = 8 * n_rows * max(n_matrices, q * min(q, n_matrices)) <= PRODUCT_BYTES[device]
    return fit and n_matrices * (n_rows * q**2 + k * q**3) <= MOST_PRODUCTS[device]


def minimise(
    data: LossRows,
    total: Array,
    penalty: Penalty,
    start: Array,
    tol: float,
    max_iter: int,
    precision: float,
) -> Solved:
    """Minimise until gradients are at most `tol`, and little is left to be gained.

    Parameters are those of `lbfgs.minimise`, but for the rows, and the sums `total` (S,) of their
    weights in each split.
    """
    # Small steps run in CPU memory, without launches.
    n_candidates, n_splits, k, q = start.shape
    small = n_candidates * n_splits * (k * q) ** 3 <= MOST_STEPS_HERE
    place = HOST if small else data.place
    start = move(start, place)
    xp = namespace(start)
    with quiet():
        models = _Models.of(data, total, penalty, start)
        W, (G, step_to) = start, models.newton(start, first=True)
        slope, violation = to_host(xp.stack([_dot(G, step_to, xp), _largest(G, xp)]))
        grid = start.shape[:2]
        step, n_iter = np.ones(grid), np.zeros(grid, dtype=np.int32)
        stalled, foreseen = np.zeros(grid, dtype=bool), np.zeros(grid, dtype=bool)
        best, waited = violation, np.zeros(grid, dtype=int)
        done = _is_done(violation, slope, tol)
        for _ in range(max_iter):
            going = ~(done | stalled)
            if not going.any():
                break
            n_iter[going] += 1
            trial = W + _table(np.where(going, step, 0.0), W) * step_to
            G, after = models.newton(trial)
            behind, ahead, size = to_host(
                xp.stack([_dot(G, step_to, xp), _dot(G, after, xp), _largest(G, xp)])
            )
            first = np.abs(slope)
            kept = going & (behind <= SURE_OVERSHOOT * first)
            whole = (step == 1) & (np.abs(behind) <= FORESEEN * first)
            foreseen = np.where(going, kept & whole, foreseen)
            refused = going & ~kept
            if refused.any():
                shorter = step * shortened(slope, behind)
                stalled |= refused & is_noise(shorter, slope, behind, precision)
                step = np.where(refused, shorter, 1.0)
                chosen = xp.asarray(~refused, device=device_of(W))[..., None, None]
                W, step_to = xp.where(chosen, trial, W), xp.where(chosen, after, step_to)
                slope = np.where(refused, slope, ahead)
                violation = np.where(refused, violation, size)
            else:  # finished models do not move
                W, step_to, slope, violation, step = trial, after, ahead, size, np.ones(grid)
            better = violation < GAIN * best
            best, waited = np.where(better, violation, best), np.where(better, 0, waited + 1)
            stalled |= going & (waited >= PATIENCE) & (np.abs(slope) <= precision)
            done |= kept & _is_done(violation, slope, tol)
        last = done & foreseen
        if last.any() and not data.loss.jumps:
            W = W + _table(last, W) * step_to
    return Solved(move(W, data.place), violation, n_iter, stalled)


def _is_done(violation, slope, tol):
    return (violation <= tol) & ~(np.abs(slope) > 2 * ENOUGH * tol**2)


def _table(values, like):
    xp = namespace(like)
    return xp.asarray(values.astype(np.float64), device=device_of(like))[..., None, None]


def _dot(A, B, xp):
    return xp.sum(A * B, axis=(-2, -1))


def _largest(G, xp):
    return xp.max(xp.abs(G), axis=(-2, -1))


@dataclass(frozen=True)
class _Rows:
    """Rows [x, 1] (n, q), products of columns (n, q q), weights (S or 1, n) that sum to 1.

    There are no products where models have fewer matrices than there are columns.
    """

    data: LossRows
    Z: Array
    products: Array | None
    weights: Array

    @classmethod
    def of(cls, data: LossRows, total: Array, shape: tuple[int, ...]) -> "_Rows":
        """The data that passes of models (C, S, k, q) need."""
        xp, n_rows = data.place.xp, data.n_rows
        X = data.design.stored.block(slice(0, n_rows)).dense()
        weights = xp.ones_like(X[:, 0])[None, :] if data.weights is None else data.weights
        weights = xp.astype(weights, xp.float64, copy=False) / total[:, None]
        if isinstance(data.design, Mapped):
            means = weights @ X
            far = xp.all(are_far(means, weights @ X**2), axis=0)
            if any_true(far, xp):
                shift = xp.where(far, means[0, :], xp.zeros_like(means[0, :]))
                rows, maps = Dense(X - shift, data.place), data.design.maps_about(shift)
                data, X = replace(data, design=Mapped(rows, maps)), rows.X
        Z = xp.concat([X, xp.ones((n_rows, 1), dtype=xp.float64, device=device_of(X))], axis=1)
        q, products = Z.shape[1], None
        if shape[0] * shape[1] * shape[2] ** 2 >= q:
            products = xp.reshape(Z[:, :, None] * Z[:, None, :], (n_rows, q * q))
        return cls(data, Z, products, weights)

    def sums(self, W: Array) -> tuple[Array, Array]:
        """Gradients (C, S, k, q) and Hessians (C, S, k q, k q) of the mean loss at models W."""
        data, xp = self.data, self.data.place.xp
        A = data.design.to_stored(W)
        n_candidates, n_splits, k, q = A.shape
        grid, n_models = (k, n_candidates, n_splits), k * n_candidates * n_splits
        A = xp.reshape(xp.permute_dims(A, (2, 0, 1, 3)), (n_models, q))
        z = xp.reshape(A @ self.Z.T, (*grid, data.n_rows))
        c = data.loss.curvature(xp.asarray(z, copy=True), data.target, xp)
        slope = data.loss.slope(z, data.target, xp) * self.weights
        G = xp.reshape(xp.reshape(slope, (n_models, data.n_rows)) @ self.Z, (*grid, q))
        if data.advance is not None:
            data.advance(data.n_rows)
        G = data.design.from_stored(xp.permute_dims(G, (1, 2, 0, 3)))
        return G, data.design.hessians_from_stored(self._hessians(c, xp))

    def _hessians(self, c, xp):
        """Means of Hessians (C, S, k q, k q) of the loss, of curvatures c (k, C, S, n)."""
        k, n_candidates, n_splits, n_rows = c.shape
        q = self.Z.shape[1]
        if self.data.loss.coupled:
            own = xp.eye(k, dtype=c.dtype, device=device_of(c))[:, :, None, None, None]
            c = own * c[None, ...] - c[:, None, ...] * c[None, ...]
        n_sides = k if self.data.loss.coupled else 1
        c = xp.reshape(c * self.weights, (k * n_sides * n_candidates * n_splits, n_rows))
        H = grams(c, self.Z, xp) if self.products is None else c @ self.products
        H = xp.reshape(H, (k, n_sides, n_candidates, n_splits, q, q))
        shape = (n_candidates, n_splits, k * q, n_sides * q)
        return xp.reshape(xp.permute_dims(H, (2, 3, 0, 4, 1, 5)), shape)


@dataclass(frozen=True)
class _Models:
    """What is minimised over the rows, which may be divided.

    `here` has the rows themselves where they and the steps are in one place. The penalty and the
    unit matrix `eye` are where steps are taken.
    """

    data: LossRows
    total: Array
    penalty: Penalty
    here: _Rows | None
    eye: Array

    @classmethod
    def of(cls, data: LossRows, total: Array, penalty: Penalty, start: Array) -> "_Models":
        """Of models (C, S, k, q), whose steps are taken where `start` is."""
        place, order = place_of(start), start.shape[2] * start.shape[3]
        divided = isinstance(data.design.stored, Divided)
        here = None if divided else _Rows.of(data, total, start.shape)
        eye = place.xp.eye(order, dtype=place.xp.float64, device=place.device)
        own = Penalty(0.0, move(penalty.l2, place), move(penalty.used, place))
        return cls(data, total, own, here, eye)

    def sums(self, W: Array) -> tuple[Array, Array]:
        """As of `_Rows`."""
        xp, (*grid, k, q) = namespace(W), W.shape
        there = self.data.place
        if self.here is None:
            both = self.data.total(_sums, W, self.total)
        elif there == place_of(W):
            return self.here.sums(W)
        else:
            both = _side_by_side(self.here, move(W, there))
        both = move(both, place_of(W))
        G, H = both[..., : k * q], both[..., k * q :]
        return xp.reshape(G, W.shape), xp.reshape(H, (*grid, k * q, k * q))

    def newton(self, W: Array, *, first: bool = False) -> tuple[Array, Array]:
        """Gradients of the objective and Newton steps, both (C, S, k, q), at models W.

        The `first` ones tell whether the squares of the rows are finite.
        """
        G, H = self.sums(W)
        if first:
            check_squares(H, namespace(H))
        G = (G + self.penalty.l2 * W) * self.penalty.used
        return G, self._step(H, G, namespace(W))

    def _step(self, H, G, xp):
        """Newton steps (C, S, k, q) for Hessians of the loss (C, S, k q, k q) and gradients."""
        coupled = self.data.loss.coupled
        H, scale = unit_diagonal(H, self.penalty, G.shape[-2:], self.eye, coupled=coupled)
        side = (xp.reshape(G, scale.shape) * scale)[..., None]
        step = -xp.reshape(_solved(H, side, self.eye, xp)[..., 0] * scale, G.shape)
        # Of coupled vectors steps sum to 0, which no loss notices.
        return step - xp.mean(step, axis=2, keepdims=True) if coupled else step


def _sums(rows, W, total):
    """The share of a shard in gradients and Hessians (C, S, k q + (k q)^2) of the mean loss."""
    W, total = move(W, rows.place), move(total, rows.place)
    *grid, k, q = W.shape
    if rows.n_rows == 0:
        return zeros((*grid, k * q * (1 + k * q)), like=W, xp=namespace(W))
    with quiet():
        return _side_by_side(_Rows.of(rows, total, W.shape), W)


def _side_by_side(rows, W):
    xp, grid = namespace(W), W.shape[:2]
    G, H = rows.sums(W)
    return xp.concat([xp.reshape(a, (*grid, -1)) for a in (G, H)], axis=-1)


def _solved(H: Array, side: Array, eye: Array, xp: Any) -> Array:
    """Solutions of systems of unit diagonal, which grows where rounding has made one singular."""
    jitter = 0.0
    while True:
        try:
            return xp.linalg.solve(H + jitter * eye if jitter else H, side)
        except Exception as error:
            if not is_singular(error) or jitter > 1:
                raise
            jitter = max(10 * jitter, 1e-8)

"""Gaussian mixtures of all candidates on all splits, fitted in shared passes over the rows."""

import warnings
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from gpuml._arrays import Array, as_array, is_array, move, namespace, place_of, to_host
from gpuml._arrays.ops import constant
from gpuml._arrays.threads import blas_threads, may_limit_blas, one_blas_thread, ordered_map
from gpuml._sklearn import _check_means, _check_precisions, _check_weights
from gpuml.data import Folds, take, whole, without_features
from gpuml.decomposition._projection import all_at_home
from gpuml.exceptions import level_of_user
from gpuml.extending import DensityStack
from gpuml.mixture._starts import Start, starts_of
from gpuml.solvers._mixture_kinds import Kind, kind_of
from gpuml.solvers._mixture_space import Components, Matrix, Space, Spread, matrix
from gpuml.solvers.gaussians import (
    factors_of_precisions,
    log_densities,
    log_joints,
    precision_factors,
    precisions_of,
)
from gpuml.solvers.mixtures import End, Run, begun, expectation_maximisation

# Largest relative difference of the mean log densities of runs that found the same mixture.
SAME = 1e-12
STARTS = ("weights_init", "means_init", "precisions_init")


@dataclass(frozen=True)
class Mixture:
    """A fitted mixture, in float64, on the compute device of its rows.

    Attributes
    ----------
    kind : str
        The type of the covariances.
    weights, means, covariances, factors : arrays
        Factors are those of the precisions; see `gpuml.solvers.gaussians`.
    converged : bool
    bounds : list of float
        The mean log density at each step.
    """

    kind: str
    weights: Array
    means: Array
    covariances: Array
    converged: bool
    bounds: list[float]

    @cached_property
    def factors(self) -> Array:
        return precision_factors(self.covariances, self.kind)

    def joints(self, X: Array) -> Array:
        """``log w_k + log N_k(x)`` (n, k) of rows, in float64, on the device of the rows."""
        numbers = self.weights, self.means, self.factors
        weights, means, factors = (move(a, place_of(X)) for a in numbers)
        return log_joints(X, weights, means, factors, self.kind)

    def attributes(self) -> dict[str, Any]:
        """Fitted attributes, whose arrays are float64."""
        return {
            "weights_": self.weights,
            "means_": self.means,
            "covariances_": self.covariances,
            "precisions_": precisions_of(self.factors, self.kind),
            "precisions_cholesky_": self.factors,
            "converged_": self.converged,
            "n_iter_": len(self.bounds),
            "lower_bound_": max(self.bounds[-1:], default=-float("inf")),
            "lower_bounds_": self.bounds,
        }


@dataclass(frozen=True)
class MixtureStack(DensityStack):
    """Mixtures of all candidates on all splits."""

    folds: Folds
    params: list[dict[str, Any]]
    fits: list[list[Mixture]]
    known: dict[int, Mixture] = field(default_factory=dict)

    @property
    def n_candidates(self) -> int:
        return len(self.params)

    @property
    def n_passes(self) -> int:
        """Steps of the longest run, and one more pass for its start."""
        return 1 + max(len(each.bounds) for fits in self.fits for each in fits)

    def log_likelihood(self, part: str) -> Array:
        """Scores (C, S) of the "train" or "test" rows of all splits; see `DensityStack`."""
        place = self.folds.batch.work
        columns = []
        for s, fits in enumerate(self.fits):
            rows = rows_of(self.folds, s, part)
            found = _each(lambda fit, rows=rows: _mean_density(fit, rows), fits, rows)
            columns.append(place.xp.stack(list(found)))
        return place.xp.stack(columns, axis=1)

    def pick(self, candidate: int, split: int | None) -> dict[str, Any]:
        """Fitted attributes of one model; split None means the model of all rows."""
        batch = self.folds.batch
        if split is not None:
            found = self.fits[split][candidate]
        else:
            if candidate not in self.known:
                rows = rows_of(whole(batch), 0, "train")
                [self.known[candidate]] = fitted(rows, [self.params[candidate]])
            found = self.known[candidate]
        return all_at_home(found.attributes(), batch)


def rows_of(folds: Folds, split: int, part: str) -> Matrix:
    """The "train" or "test" rows of a split, on the compute device."""
    batch = folds.batch
    if batch.holders is None:
        return matrix(_rows_here(folds, split, part))
    pieces = batch.holders.map(_rows_here, split, part)
    xp = batch.work.xp
    dtype = getattr(xp, str(batch.dtype).rpartition(".")[2])
    like = xp.zeros((0, batch.n_features), dtype=dtype, device=batch.work.device)
    return Matrix(Spread(None, pieces), np.asarray(pieces.each(_length)), batch.n_features, like)


def _rows_here(folds, split, part):
    batch, rows = folds.batch, getattr(folds.splits[split], part)
    return move(take(batch.X, rows, namespace(batch.X)), batch.work)


@without_features
def _length(X):
    return X.shape[0]


def _mean_density(fit, rows):
    if rows.is_divided:
        return rows.spread.total(_log_density, fit) / rows.n_rows
    found = log_densities(fit.joints(rows.spread.here))
    return namespace(found).mean(found)


def _log_density(X, fit):
    found = log_densities(fit.joints(X))
    return namespace(found).sum(found)


def _each(function, items, rows):
    """A function of each item, in several threads if rows are in CPU memory."""
    if rows.is_divided or not place_of(rows.like).is_host or not may_limit_blas():
        return map(function, items)
    threads = blas_threads()
    with one_blas_thread():
        return list(ordered_map(function, items, threads))


# ---------------------------------------------------------------- fits


class Silent:
    """A listener to the fit of one mixture that prints nothing."""

    def begins(self, run: int) -> None:
        """Called when a run begins."""

    def steps(self, n_iter: int, bound: float, change: float) -> None:
        """Called after a step."""

    def ends(self, bound: float, converged: bool) -> None:
        """Called when the run ends."""


def fitted(
    rows: Matrix,
    params: Sequence[Mapping[str, Any]],
    *,
    randoms: Sequence[Any] | None = None,
    last: Mixture | None = None,
    told: Silent | None = None,
) -> list[Mixture]:
    """The best run of each candidate on some rows.

    Parameters
    ----------
    params : list of dict
        All parameters of each candidate.
    randoms : list of RandomState, optional
        Random numbers that draw the starts; by default those of copies of `random_state`.
    last : Mixture, optional
        The mixture that a single candidate starts from, instead of drawing a start.
    told : Silent, optional
        A listener to the runs of a single candidate, which then run one after the other.

    Raises
    ------
    ValueError
        For starts that scikit-learn rejects, or if a covariance is not positive definite.
    """
    if randoms is None:
        # Each fit of a search fits a clone, which has a copy of the random state.
        randoms = [check_random_state(deepcopy(each["random_state"])) for each in params]
    given = [_given(each, rows) for each in params]
    drawn = [c for c, each in enumerate(given) if len(each) < len(STARTS) and last is None]
    of_drawn = [params[c] for c in drawn], [randoms[c] for c in drawn]
    starts = dict(zip(drawn, starts_of(rows, *of_drawn), strict=True)) if drawn else {}
    found: dict[int, Mixture] = {}
    alone = rows.is_divided or not place_of(rows.like).is_host or not may_limit_blas()
    threads = 1 if alone else blas_threads()
    with one_blas_thread():
        for name in dict.fromkeys(each["covariance_type"] for each in params):
            some = [c for c, each in enumerate(params) if each["covariance_type"] == name]
            found |= _Group(rows, name, params, given, starts, some, threads).fitted(last, told)
    for c in range(len(params)):
        _warn_of(found[c], params[c])
    return [found[c] for c in range(len(params))]


def _warn_of(mixture, params):
    if not mixture.converged and params["max_iter"] > 0:
        warnings.warn(
            "Best performing initialization did not converge. Try different init parameters, or "
            "increase max_iter, tol, or check for degenerate data.",
            ConvergenceWarning,
            stacklevel=level_of_user(),
        )


def _given(params, rows):
    """The initial values that the user passed, checked, on the compute device."""
    k, p, found = params["n_components"], rows.n_features, {}
    for name in STARTS:
        value = params[name]
        if value is None:
            continue
        value = as_array(value)
        value = to_host(value) if is_array(value) else np.asarray(value)
        if name == "weights_init":
            value = _check_weights(value, k, xp=np)
        elif name == "means_init":
            value = _check_means(value, k, p, xp=np)
        else:
            value = _check_precisions(value, params["covariance_type"], k, p, xp=np)
        found[name] = constant(value, like=rows.like, xp=namespace(rows.like))
    return found


@dataclass(frozen=True)
class _Group:
    """Candidates with one type of covariances."""

    rows: Matrix
    name: str
    params: Sequence[Mapping[str, Any]]
    given: Sequence[Mapping[str, Array]]
    starts: Mapping[int, Sequence[Start]]
    candidates: Sequence[int]
    threads: int

    def fitted(self, last: Mixture | None, told: Silent | None) -> dict[int, Mixture]:
        """The best run of each candidate."""
        owners, runs = self._runs(last)
        if told is None:
            ends = expectation_maximisation(self._kind, self._space, runs, self._precision)
        else:
            ends = [self._alone(r, run, told) for r, run in enumerate(runs)]
        best: dict[int, End] = {}
        for c, end in zip(owners, ends, strict=True):
            if c not in best or _is_better(end.bounds, best[c].bounds):
                best[c] = end
        return {c: self._mixture(end) for c, end in best.items()}

    def _alone(self, number, run, told):
        told.begins(number)
        options = self._kind, self._space, [run], self._precision
        [end] = expectation_maximisation(*options, told.steps)
        told.ends(max(end.bounds[-1:], default=run.bound), end.converged)
        return end

    @cached_property
    def _kind(self) -> Kind:
        return kind_of(self.name, self.rows.n_features)

    @cached_property
    def _space(self) -> Space:
        least = min(self.params[c]["reg_covar"] for c in self.candidates)
        turned, threads = self._kind.turned, self.threads
        return Space.of(self.rows, turned=turned, least_reg=float(least), threads=threads)

    @property
    def _precision(self) -> float:
        like = self.rows.like
        return float(namespace(like).finfo(like.dtype).eps)

    def _runs(self, last):
        """The candidate of each run, and the runs."""
        if last is not None:
            return [0], [self._run(0, self._inward(last), max(last.bounds[-1:], default=-np.inf))]
        owners = [c for c in self.candidates for _ in self.starts.get(c, [None])]
        wanted = [one for c in self.candidates for one in self.starts.get(c, [None])]
        parts: dict[int, Any] = {}
        for complete in (True, False):
            some = [r for r, one in enumerate(wanted) if one and one.complete == complete]
            parts |= self._begun(some, owners, wanted, complete)
        return owners, [self._run(c, parts.get(r)) for r, c in enumerate(owners)]

    def _begun(self, some, owners, wanted, complete):
        if not some:
            return {}
        some = sorted(some, key=lambda r: wanted[r].size)
        regs = [float(self.params[owners[r]]["reg_covar"]) for r in some]
        own = [wanted[r] for r in some]
        found = begun(self._kind, self._space, own, regs, self._precision, complete=complete)
        return {r: self._kind.taken(found, np.asarray([at])) for at, r in enumerate(some)}

    def _run(self, c: int, found: Components | None, bound: float = -np.inf) -> Run:
        """A run from its first components; values that the user passed replace them."""
        given, params = self.given[c], self.params[c]
        weights, means, covariances = (
            (None,) * 3 if found is None else (found.weights, found.means, found.covariances)
        )
        weights = given.get("weights_init", weights)
        if "means_init" in given:
            means = self._space.means_inward(given["means_init"])
        if "precisions_init" in given:
            own = _inverse(given["precisions_init"], self.name)
            covariances = self._kind.inward(self._space, own)
        reg, tol = float(params["reg_covar"]), float(params["tol"])
        return Run(weights, means, covariances, reg, tol, params["max_iter"], bound)

    def _inward(self, last):
        means = self._space.means_inward(last.means)
        covariances = self._kind.inward(self._space, last.covariances)
        return Components(np.asarray([len(means)]), last.weights, means, covariances)

    def _mixture(self, end: End) -> Mixture:
        means = self._space.means_outward(end.means)
        covariances = self._kind.outward(self._space, end.covariances)
        found = Mixture(self.name, end.weights, means, covariances, end.converged, end.bounds)
        _ = found.factors  # raises its error here, where a failing candidate is noticed
        return found


def _is_better(bounds: list[float], others: list[float]) -> bool:
    """Whether a run ended with a higher bound than an earlier one, by more than rounding."""
    if not bounds:
        return True  # if runs take no step, scikit-learn keeps the last
    return bounds[-1] - others[-1] > SAME * max(1.0, abs(others[-1]))


def _inverse(precisions: Array, kind: str) -> Array:
    """Covariances from precisions."""
    if kind in ("diag", "spherical"):
        return 1.0 / precisions
    factors = factors_of_precisions(precisions, kind)
    xp = namespace(factors)
    inverse = xp.linalg.inv(factors)
    return xp.matrix_transpose(inverse) @ inverse

"""Models of kernel ridge regression: all penalties on all splits, for each kernel."""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scipy.linalg import LinAlgWarning
from sklearn.metrics.pairwise import pairwise_kernels

from gpuml._arrays import Array, Place, fits, move, namespace
from gpuml._arrays.transfers import format_bytes
from gpuml.data import Folds, split_weights, take, whole
from gpuml.exceptions import level_of_user
from gpuml.extending import RegressionStack
from gpuml.solvers.kernel_systems import EPS, Systems, solve_penalties
from gpuml.solvers.pair_kernels import PairKernel, pair_base

# Number of (n, n) matrices that are in memory together: a base and a kernel, and a matrix that is
# factored with its workspace.
MATRICES = 5
# Workspace for the kernels of rows to predict.
BLOCK_BYTES = 2**27


@dataclass(frozen=True, eq=False)
class Callback:
    """A kernel that is a function of two rows in CPU memory, with its keyword arguments."""

    function: Callable[..., float]
    params: Mapping[str, Any]

    base = "callable"

    def rank(self, n_features: int) -> None:
        """No bound on the rank of its matrix is known."""


Kernel = PairKernel | Callback


def doubles(values: Array) -> Array:
    """Values in float64."""
    xp = namespace(values)
    return xp.astype(values, xp.float64, copy=False)


def kernels(
    wanted: Sequence[Kernel], X: Array, Y: Array | None = None
) -> "list[tuple[Kernel, Callable[[], Array]]]":
    """Different kernels of rows, each with a function that computes its matrix (n, m).

    X (n, p) and Y (m, p) are in float64; None means X. Kernels with the same base (distances or
    inner products) are next to each other, and the last of them overwrites the base.
    """
    by_base: dict[str, list[Kernel]] = {}
    for kernel in dict.fromkeys(wanted):
        by_base.setdefault(kernel.base, []).append(kernel)
    found = []
    for kind, alike in by_base.items():
        base: list[Array] = []
        found += [(each, _maker(each, kind, base, each is alike[-1], X, Y)) for each in alike]
    return found


def _maker(kernel, kind, base, is_last, X, Y):
    if isinstance(kernel, Callback):
        return lambda: pairwise_kernels(X, Y, metric=kernel.function, **kernel.params)

    def make():
        known = base.pop() if base else pair_base(kind, X, Y)
        if not is_last:
            base.append(known)
        return kernel.of_base(known, X.shape[1], in_place=is_last)

    return make


def check_memory(n_rows: int, place: Place, n_columns: int = 0) -> None:
    """Raise MemoryError if the (n, n) matrices and the dual coefficients do not fit.

    `n_columns` is the number of vectors of dual coefficients.
    """
    needed = 8 * (MATRICES * n_rows + n_columns) * n_rows
    if not fits(needed, place):
        raise MemoryError(
            f"Kernels of {n_rows:,} rows and the models of all candidates and splits take "
            f"{format_bytes(needed)} on {place}, more than is free. Use "
            "gpuml.config_context(device='cpu') with rows in CPU memory, or fewer rows, "
            "candidates or splits, or a Nystroem step before Ridge."
        )


@dataclass(frozen=True)
class KernelModels(RegressionStack):
    """Models of candidates on splits.

    Attributes
    ----------
    folds : Folds
    kernels : list of C kernels
    alphas : ndarray (C, 1) or (C, t)
    dual : array (C, S, n, t)
        Dual coefficients of all rows; 0 for rows that a split does not train on.
    """

    folds: Folds
    kernels: Sequence[Kernel]
    alphas: Any
    dual: Array
    n_steps: int
    n_factors: int

    @property
    def n_candidates(self) -> int:
        """Number of candidates."""
        return len(self.kernels)

    @property
    def n_passes(self) -> int:
        """Passes over the rows: one for each kernel."""
        return len(set(self.kernels))

    @property
    def words(self) -> str:
        """How the systems of equations were solved."""
        found = []
        if self.n_steps:
            found.append(f"{self.n_steps} conjugate-gradient steps")
        if self.n_factors:
            found.append(f"{self.n_factors} factored matri{'x' if self.n_factors == 1 else 'ces'}")
        return " and ".join(found)

    def predict(self, X: Array, split: int, candidates: slice) -> Array:
        """Predictions (C, m, t) of some candidates of one split for rows X (m, p)."""
        some = range(*candidates.indices(self.n_candidates))
        rows, found = doubles(self.folds.batch.X), {}
        of_some = {self.kernels[c] for c in some}
        for kernel, make in kernels([k for k in self.kernels if k in of_some], doubles(X), rows):
            K = make()
            for c in some:
                if self.kernels[c] == kernel:
                    found[c] = K @ self.dual[c, split, ...]
        return namespace(X).stack([found[c] for c in some])

    def pick(self, candidate: int, split: int | None) -> dict[str, Any]:
        """Fitted attributes of one model; split None means the model of all rows."""
        batch = self.folds.batch
        if split is None:
            alphas = self.alphas[candidate : candidate + 1]
            return fitted_models(whole(batch), [self.kernels[candidate]], alphas).pick(0, 0)
        train = self.folds.splits[split].train
        dual = take(self.dual[candidate, split, ...], train, namespace(self.dual))
        counts = split_weights(self.folds)
        if counts is not None:
            often = take(counts[split, :], train, namespace(counts))
            dual = dual / namespace(dual).astype(often, dual.dtype)[:, None]
        X = take(batch.X, train, namespace(batch.X))
        return {
            "dual_coef_": move(dual[:, 0] if batch.y_is_flat else dual, batch.home),
            "X_fit_": move(X, batch.home),
        }


def fitted_models(
    folds: Folds, wanted: Sequence[Kernel], alphas: Any, advance: Any = None
) -> KernelModels:
    """Models of candidates, with kernels and penalties (C, 1) or (C, t), on all training parts."""
    batch = folds.batch
    xp, place = batch.work.xp, batch.work
    check_memory(batch.n_rows, place, len(wanted) * folds.n_splits * batch.y.shape[1])
    X, y = (doubles(move(a, place)) for a in (batch.X, batch.y))
    counts = split_weights(folds)
    weight = xp.ones_like(X[:1, :1]) if counts is None else doubles(counts)
    weight = weight * xp.ones_like(X[:, 0])[None, :]
    if batch.weight is not None:
        weight = weight * doubles(move(batch.weight, place))
    roots = xp.sqrt(weight)
    dual: list[Any] = [None] * len(wanted)
    n_steps, conditions = 0, []
    for kernel, make in kernels(wanted, X):
        some = [c for c, each in enumerate(wanted) if each == kernel]
        systems = Systems(make(), roots, y, kernel.rank(X.shape[1]))
        solved = solve_penalties(systems, alphas[some])
        n_steps += solved.n_steps
        conditions += solved.conditions.tolist()
        for i, c in enumerate(some):
            dual[c] = solved.dual[i, ...]
        if advance is not None:
            advance(batch.n_rows)
    _warn_of(conditions)
    return KernelModels(folds, wanted, alphas, xp.stack(dual), n_steps, len(conditions))


def _warn_of(conditions):
    """Warn, with scikit-learn's text, if a matrix is singular or ill-conditioned."""
    level = level_of_user()
    if math.inf in conditions:
        words = "Singular matrix in solving dual problem. Using least-squares solution instead."
        warnings.warn(words, stacklevel=level)
    worst = max((each for each in conditions if each != math.inf), default=0.0)
    if worst > 1 / EPS:
        words = f"Ill-conditioned matrix (rcond={1 / worst:.6}): result may not be accurate."
        warnings.warn(words, LinAlgWarning, stacklevel=level)

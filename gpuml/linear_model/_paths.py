"""Paths of models from moments, and candidates that are read off the same path."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn import linear_model as sk
from sklearn.exceptions import ConvergenceWarning

from gpuml.linear_model._from_sums import Sums

# How near to the end of a path scikit-learn takes a step for the last one.
SAME_ALPHA = float(np.finfo(np.float32).eps)
# Shares of the first sum of squared residuals by which rounding may make the next one larger.
ROUNDING = 1e-9


@dataclass(frozen=True)
class LarsPath:
    """What `lars_path_gram` returns: K steps, with coefficients (p, K)."""

    alphas: np.ndarray
    active: list[int]
    coef: np.ndarray
    n_iter: int

    def after(self, n_steps: int) -> np.ndarray:
        """Coefficients (p,) after so many steps."""
        return self.coef[:, min(n_steps, self.coef.shape[1] - 1)]

    def at(self, alpha: float) -> np.ndarray:
        """Coefficients (p,) of a path that ends at an alpha, which this one passes."""
        passed = np.flatnonzero(self.alphas <= alpha + SAME_ALPHA)
        if len(passed) == 0:  # `max_iter` came before
            return self.coef[:, -1]
        k = int(passed[0])
        if k == 0 or abs(self.alphas[k] - alpha) <= SAME_ALPHA:
            return self.coef[:, k]
        share = (self.alphas[k - 1] - alpha) / (self.alphas[k - 1] - self.alphas[k])
        return self.coef[:, k - 1] + share * (self.coef[:, k] - self.coef[:, k - 1])


def lars_path_of(
    sums: Sums,
    target: int,
    *,
    method: str,
    max_iter: float,
    alpha_min: float = 0.0,
    eps: float,
    positive: bool = False,
    verbose: int = 0,
) -> LarsPath:
    """The steps of least angle regression, or of the lasso, of one target."""
    weight = float(sums.weight)
    alphas, active, coef, n_iter = sk.lars_path_gram(
        sums.g[target] * weight,
        sums.H * weight,
        n_samples=round(weight),
        max_iter=max_iter,
        alpha_min=alpha_min,
        method=method,
        copy_Gram=False,  # which is new
        eps=eps,
        verbose=verbose,
        return_n_iter=True,
        positive=positive,
    )
    path = LarsPath(alphas, active, coef, n_iter)
    return path if len(sums.H) < weight else _before_rounding(path, sums, target)


def _before_rounding(path, sums, target):
    """The steps after which residuals grow left out: moments of few rows have lost their rank."""
    left = squared_residuals(sums, target, path.coef)
    grows = ~(left[1:] <= left[:-1] + ROUNDING * left[0])
    if not grows.any():
        return path
    last = int(np.argmax(grows))
    warnings.warn(
        f"The path ends after {last} of {path.n_iter} steps: rounding decides about the next one, "
        "as there are no more rows than features. Take fewer steps (n_nonzero_coefs), or a larger "
        "alpha.",
        ConvergenceWarning,
        stacklevel=2,
    )
    coef = path.coef[:, : last + 1]
    active = [j for j in path.active if coef[j, -1] != 0.0]
    return LarsPath(path.alphas[: last + 1], active, coef, last)


def pursuit_of(
    sums: Sums, target: int, *, n_nonzero_coefs: int | None, tol: float | None = None
) -> np.ndarray:
    """Coefficients (p, K + 1) of one target after 0 to K steps of orthogonal matching pursuit."""
    weight = float(sums.weight)
    coef = sk.orthogonal_mp_gram(
        sums.H * weight,
        sums.g[target][:, None] * weight,
        n_nonzero_coefs=n_nonzero_coefs,
        tol=tol,
        norms_squared=sums.y_square[[target]] * weight,
        copy_Gram=False,
        return_path=True,
    )
    coef = coef.reshape(len(sums.H), -1)
    return np.concatenate([np.zeros_like(sums.H[:, :1]), coef], axis=1)


def squared_residuals(sums: Sums, target: int, coef: np.ndarray) -> np.ndarray:
    """Sums (K,) of the squares of the residuals of models (p, K) over the rows of the sums."""
    g = sums.g[target]
    mean = sums.y_square[target] + np.sum(coef * (sums.H @ coef - 2.0 * g[:, None]), axis=0)
    return np.maximum(mean, 0.0) * float(sums.weight)


def on_one_path(candidates: Sequence[Mapping[str, Any]], name: str) -> list[list[int]]:
    """Numbers of candidates that differ in one parameter only, in groups."""
    groups: dict[tuple, list[int]] = {}
    for i, each in enumerate(candidates):
        others = tuple(sorted((n, value) for n, value in each.items() if n != name))
        groups.setdefault(others, []).append(i)
    return list(groups.values())

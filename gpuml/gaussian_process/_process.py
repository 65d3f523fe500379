"""One Gaussian process: its fit to targets, and its predictions."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.gaussian_process import kernels as sk
from sklearn.utils import check_random_state

from gpuml._arrays import Array, move, namespace
from gpuml.gaussian_process._kernels import evaluate, gradient, kernel_of
from gpuml.gaussian_process._pairs import Own, Pairs
from gpuml.gaussian_process._theta import choose_theta
from gpuml.solvers.posteriors import Factor, as_doubles, likelihood_slope, log_likelihood


@dataclass(frozen=True)
class Process:
    """A fitted process, on its compute device, in float64.

    Attributes
    ----------
    kernel : kernel of scikit-learn
    y : array (n, t)
        Centred and scaled targets.
    mean, scale : arrays (t,)
        What was subtracted from the targets, and then divided by.
    dual : array (n, t)
        Coefficients of the training rows.
    factor : Factor
        Cholesky factor of the kernel matrix with the noise.
    value : float
        The log marginal likelihood.
    random : RandomState
        Its state after the draws of the fit.
    """

    kernel: sk.Kernel
    y: Array
    mean: Array
    scale: Array
    dual: Array
    factor: Factor
    value: float
    random: np.random.RandomState


def first_kernel(estimator: Any) -> sk.Kernel:
    """The kernel with which the fit of a regressor starts."""
    if estimator.kernel is None:
        return sk.ConstantKernel() * sk.RBF()
    return clone(estimator.kernel)


def fit_process(estimator: Any, pairs: Pairs, y: Array, *, flat: bool) -> Process:
    """Fit a process with an estimator's parameters to pairs of rows (n, p) and targets (n, t).

    `flat` says that y was passed as an array of shape (n,).

    Raises
    ------
    LinAlgError
        If the kernel with its noise is not positive definite.
    ValueError
        If `alpha` is an array with another length than the targets.
    """
    kernel, random = first_kernel(estimator), check_random_state(estimator.random_state)
    mean, scale = centre_and_scale(y, normalize=estimator.normalize_y, flat=flat)
    y, alpha = (y - mean) / scale, noise_of(estimator.alpha, y)

    def likelihood(kernel, eval_gradient):
        return process_likelihood(kernel, pairs, alpha, y, eval_gradient)

    value = choose_theta(estimator, kernel, likelihood, random.uniform)
    factor = Factor.of(kernel_of(kernel, pairs), alpha)
    if factor is None:
        raise np.linalg.LinAlgError(
            f"The kernel, {kernel}, is not returning a positive definite matrix. Try gradually "
            "increasing the 'alpha' parameter of your GaussianProcessRegressor estimator."
        )
    return Process(kernel, y, mean, scale, factor.solve(y), factor, value, random)


def process_likelihood(
    kernel: sk.Kernel, pairs: Pairs, alpha: Any, y: Array, eval_gradient: bool
) -> tuple[float, np.ndarray]:
    """The log marginal likelihood of targets (n, t), and its gradient by theta (or zeros)."""
    found = evaluate(kernel, pairs)
    factor = Factor.of(found.values, alpha)
    if factor is None:
        return -math.inf, np.zeros(kernel.n_dims)
    value, dual = log_likelihood(factor, y)
    if not eval_gradient:
        return value, np.zeros(kernel.n_dims)
    return value, gradient(found, likelihood_slope(factor, dual))


def centre_and_scale(y: Array, *, normalize: bool, flat: bool) -> tuple[Array, Array]:
    """Means and standard deviations (t,) of targets (n, t), or zeros and ones."""
    xp = namespace(y)
    if not normalize:
        return xp.zeros_like(y[0, :]), xp.ones_like(y[0, :])
    scale = xp.std(y, axis=0)
    # As in scikit-learn: a constant target among several is not divided by its rounding error.
    small = scale <= (0.0 if flat else 10 * float(np.finfo(np.float64).eps))
    return xp.mean(y, axis=0), xp.where(small, xp.ones_like(scale), scale)


def noise_of(alpha: Any, y: Array) -> Any:
    """What is added to the diagonal: a number, or an array (n,) on the device of y (n, t)."""
    if np.ndim(alpha) == 0:
        return float(alpha)
    alpha = np.asarray(alpha, dtype=float)
    if len(alpha) == 1:
        return float(alpha[0])
    if len(alpha) != y.shape[0]:
        raise ValueError(
            "alpha must be a scalar or an array with same number of entries as y. "
            f"({len(alpha)} != {y.shape[0]})"
        )
    return as_doubles(alpha, y)


@dataclass(frozen=True)
class Answer:
    """Predictions: means (m, t), and variances (m,), covariances (m, m) or None."""

    mean: Array
    spread: Array | None


def process_answer(
    kernel: sk.Kernel, X: Array, rows: Array, dual: Array, L: Array | None, want: str
) -> Answer:
    """Predictions for X (m, p) of the centred and scaled targets.

    Parameters
    ----------
    kernel : kernel
    X, rows : arrays (m, p), (n, p)
        Rows to predict, and training rows, in float64 on one device.
    dual : array (n, t)
    L : array (n, n) or None
        The Cholesky factor; None if only means are needed.
    want : {"mean", "variance", "covariance"}
    """
    K = kernel_of(kernel, Pairs(X, rows))
    mean = K @ dual
    if want == "mean" or L is None:
        return Answer(mean, None)
    xp = namespace(K)
    v = Factor(L).half(xp.matrix_transpose(K))  # (n, m)
    if want == "covariance":
        return Answer(mean, kernel_of(kernel, Pairs(X)) - xp.matrix_transpose(v) @ v)
    return Answer(mean, kernel_of(kernel, Own(X)) - xp.sum(v * v, axis=0))


def process_attributes(process: Process, X: Array, home: Any, y_is_flat: bool) -> dict[str, Any]:
    """Fitted attributes, with arrays moved to `home`."""
    kept = {name: move(getattr(process, name), home) for name in ("dual", "mean", "scale", "y")}
    flat = {n: v[:, 0] if y_is_flat else v for n, v in kept.items() if n in ("dual", "y")}
    return {
        "kernel_": process.kernel,
        "X_train_": move(X, home),
        "y_train_": flat["y"],
        "alpha_": flat["dual"],
        "L_": move(process.factor.L, home),
        "log_marginal_likelihood_value_": np.float64(process.value),
        "_y_train_mean": kept["mean"],
        "_y_train_std": kept["scale"],
        "_rng": process.random,
    }

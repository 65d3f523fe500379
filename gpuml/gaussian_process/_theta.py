"""Choice of the hyperparameters that maximise the marginal likelihood, for both estimators."""

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.gaussian_process import kernels as sk

# A function of a kernel, and whether to compute its gradient by theta.
Likelihood = Callable[[sk.Kernel, bool], tuple[float, np.ndarray]]


def is_optimised(estimator: Any, kernel: sk.Kernel) -> bool:
    """Whether a fit changes the hyperparameters of its kernel."""
    return estimator.optimizer is not None and kernel.n_dims > 0


def choose_theta(
    estimator: Any,
    kernel: sk.Kernel,
    likelihood: Likelihood,
    draw: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> float:
    """Set the theta of a kernel to the best of all optimiser runs, and return its likelihood.

    The runs start from the current theta and from `n_restarts_optimizer` drawn ones.

    Parameters
    ----------
    estimator : estimator of scikit-learn's class
        Its `optimizer` and `n_restarts_optimizer` are used.
    kernel : kernel
    likelihood : callable
    draw : callable
        Draws a theta between bounds.

    Raises
    ------
    ValueError
        If there are restarts and some bounds are not finite.
    """
    if not is_optimised(estimator, kernel):
        return likelihood(kernel, False)[0]

    def objective(theta, eval_gradient=True):
        kernel.theta = theta
        value, slope = likelihood(kernel, eval_gradient)
        return (-value, -slope) if eval_gradient else -value

    bounds, first = kernel.bounds, kernel.theta
    optima = [estimator._constrained_optimization(objective, first, bounds)]
    if estimator.n_restarts_optimizer > 0:
        if not np.isfinite(bounds).all():
            raise ValueError(
                "Multiple optimizer restarts (n_restarts_optimizer>0) requires that all bounds "
                "are finite."
            )
        for _ in range(estimator.n_restarts_optimizer):
            start = draw(bounds[:, 0], bounds[:, 1])
            optima.append(estimator._constrained_optimization(objective, start, bounds))
    lost = [value for _, value in optima]
    kernel.theta = optima[int(np.argmin(lost))][0]
    kernel._check_bounds_params()
    return -np.min(lost)


def at_theta(
    estimator: Any, theta: Any, eval_gradient: bool, clone_kernel: bool, likelihood: Likelihood
) -> Any:
    """What `log_marginal_likelihood` of a fitted estimator returns."""
    if theta is None:
        if eval_gradient:
            raise ValueError("Gradient can only be evaluated for theta!=None")
        return estimator.log_marginal_likelihood_value_
    kernel = clone(estimator.kernel_) if clone_kernel else estimator.kernel_
    kernel.theta = theta
    value, slope = likelihood(kernel, eval_gradient)
    value = np.float64(value)  # as in scikit-learn; it divides by 0 without an error
    return (value, slope) if eval_gradient else value

"""Gaussian process classification of two labels, by Laplace's approximation."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel
from sklearn.utils import check_random_state

from gpuml._arrays import Array, as_array, move, namespace, place_of
from gpuml._persistence.travel import Travels
from gpuml._sklearn import _BinaryGaussianProcessClassifierLaplace
from gpuml.gaussian_process._kernels import evaluate, gradient, kernel_of
from gpuml.gaussian_process._pairs import Own, Pairs
from gpuml.gaussian_process._theta import at_theta, choose_theta, is_optimised
from gpuml.kernel_ridge._models import doubles
from gpuml.naive_bayes._input import labels_at
from gpuml.solvers.posteriors import (
    Factor,
    Mode,
    latent_variance,
    mean_logistic,
    mode_slope,
    posterior_mode,
)


class BinaryGaussianProcess(Travels, _BinaryGaussianProcessClassifierLaplace):
    """A classifier of two labels, which `GaussianProcessClassifier` fits and queries.

    It has the attributes of the class that scikit-learn uses for this, on the device of the rows.
    """

    def adopt(self, found: "BinaryFit", y: Array, X: Array, classes: Any) -> Self:
        """Set the fitted attributes: results for rows X (n, p) and labels y (n,) of 0.0 and 1.0."""
        home, xp, mode = place_of(X), namespace(y), found.mode
        self.kernel_, self.rng, self.classes_ = found.kernel, found.random, classes
        self.log_marginal_likelihood_value_ = np.float64(found.value)
        self.X_train_, self.y_train_ = X, move(xp.astype(y, xp.int64), home)
        self.pi_, self.W_sr_ = move(mode.share, home), move(mode.root, home)
        self.L_, self.f_cached = move(mode.factor.L, home), move(mode.f, home)
        return self

    def latent(self, pairs: Pairs) -> tuple[Array, Array]:
        """Means and variances (m,) of f, from pairs (n, m) of training rows with other rows."""
        K, work = kernel_of(self.kernel_, pairs), place_of(pairs.X)
        root, L = (doubles(move(as_array(a), work)) for a in (self.W_sr_, self.L_))
        prior = kernel_of(self.kernel_, Own(pairs.Y))
        return self._residual(work) @ K, latent_variance(Factor(L), root, K, prior)

    def latent_mean(self, pairs: Pairs) -> tuple[Array]:
        """The means of `latent` without the variances."""
        return (self._residual(place_of(pairs.X)) @ kernel_of(self.kernel_, pairs),)

    def _residual(self, work):
        y, share = (doubles(move(as_array(a), work)) for a in (self.y_train_, self.pi_))
        return y - share

    def _pairs(self, X):
        X = doubles(as_array(X))
        return Pairs(doubles(move(as_array(self.X_train_), place_of(X))), X)

    def predict(self, X):
        """The more likely label of each row (n_samples,)."""
        (mean,) = self.latent_mean(self._pairs(X))
        xp = namespace(mean)
        return labels_at(self.classes_, xp.astype(mean > 0, xp.int64))

    def predict_proba(self, X):
        """Probabilities (n_samples, 2) of the labels."""
        share = mean_logistic(*self.latent(self._pairs(X)))
        return namespace(share).stack([1.0 - share, share], axis=-1)

    def latent_mean_and_variance(self, X):
        """Means and variances (n_samples,) of f at the rows of X."""
        return self.latent(self._pairs(X))

    def log_marginal_likelihood(self, theta=None, eval_gradient=False, clone_kernel=True):
        """The approximate log marginal likelihood of a theta, with its gradient on request."""
        return at_theta(self, theta, eval_gradient, clone_kernel, self._likelihood)

    def _likelihood(self, kernel, eval_gradient):
        X, y, f = (doubles(as_array(a)) for a in (self.X_train_, self.y_train_, self.f_cached))
        start = f if self.warm_start else None
        mode, slope = _mode(self, kernel, Pairs(X), y, start, eval_gradient)
        return mode.value, slope


@dataclass(frozen=True)
class BinaryFit:
    """The results of a fit to rows with two labels, on the compute device."""

    kernel: Kernel
    mode: Mode
    value: float
    random: np.random.RandomState


def fit_binary(
    problem: BinaryGaussianProcess, pairs: Pairs, y: Array, known: Array | None
) -> BinaryFit:
    """Choose the hyperparameters of an unfitted process, and find the mode of its posterior.

    Parameters
    ----------
    problem : BinaryGaussianProcess
        The unfitted process, with its parameters.
    pairs : Pairs
        Pairs of the training rows, in float64.
    y : array (n,)
        Labels 0.0 and 1.0.
    known : array (n, n) or None
        The kernel matrix of the pairs, if all hyperparameters are fixed.
    """
    kernel, random = binary_kernel(problem.kernel), check_random_state(problem.random_state)
    value, start = None, None
    if is_optimised(problem, kernel):
        value, start = _chosen(problem, kernel, random, pairs, y)
    K = kernel_of(kernel, pairs) if known is None else known
    mode = posterior_mode(K, y, start, problem.max_iter_predict)
    return BinaryFit(kernel, mode, mode.value if value is None else value, random)


def _chosen(problem, kernel, random, pairs, y):
    """Set the theta of the kernel; return its likelihood, and a start for Newton's method."""
    start: list[Any] = [None]

    def likelihood(kernel, eval_gradient):
        mode, slope = _mode(problem, kernel, pairs, y, start[0], eval_gradient)
        start[0] = mode.f if problem.warm_start else None
        return mode.value, slope

    def draw(low, high):
        return np.exp(random.uniform(low, high))  # as scikit-learn draws them

    return choose_theta(problem, kernel, likelihood, draw), start[0]


def _mode(problem, kernel, pairs, y, f, eval_gradient):
    found = evaluate(kernel, pairs)
    mode = posterior_mode(found.values, y, f, problem.max_iter_predict)
    if not eval_gradient:
        return mode, np.zeros(kernel.n_dims)
    return mode, gradient(found, mode_slope(found.values, y, mode))


def binary_kernel(kernel: Kernel | None) -> Kernel:
    """The kernel with which a fit starts."""
    if kernel is None:
        return ConstantKernel(1.0, "fixed") * RBF(1.0, "fixed")
    return clone(kernel)

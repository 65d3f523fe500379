"""Gaussian process regression on the device of the data."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from sklearn import gaussian_process as sk
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.utils import check_random_state

from gpuml._arrays import (
    Array,
    as_array,
    compute_place,
    is_array,
    move,
    namespace,
    place_of,
    to_host,
)
from gpuml._arrays.ops import any_true
from gpuml._arrays.small_arrays import small_arrays
from gpuml._arrays.threads import threads_for_order
from gpuml._inputs.validation import check_fit, check_predict, unchanged_on_error
from gpuml._sklearn import _fit_context, check_same_namespace
from gpuml.data import Batch, Folds, cut, resident, whole
from gpuml.exceptions import level_of_user
from gpuml.gaussian_process._kernels import kernel_of
from gpuml.gaussian_process._models import ProcessStack, fitted_processes, shared_pairs
from gpuml.gaussian_process._of_kernel import OfKernel, device_for
from gpuml.gaussian_process._pairs import Own, Pairs
from gpuml.gaussian_process._process import (
    Answer,
    first_kernel,
    fit_process,
    noise_of,
    process_answer,
    process_attributes,
    process_likelihood,
)
from gpuml.gaussian_process._theta import at_theta
from gpuml.kernel_ridge._models import BLOCK_BYTES, doubles
from gpuml.metrics.own_scores import ScoredByR2
from gpuml.naive_bayes._input import result_dtype

PARAMS = (
    *("alpha", "copy_X_train", "kernel", "n_restarts_optimizer", "n_targets", "normalize_y"),
    *("optimizer", "random_state"),
)


class GaussianProcessRegressor(ScoredByR2, OfKernel, sk.GaussianProcessRegressor):
    r"""Gaussian process regression.

    The model is :math:`y_i = f(x_i) + \varepsilon_i`, where f is a Gaussian process with mean 0 and
    covariance k(x, x'), and the noise has the variance :math:`\alpha`. With the kernel matrix K of
    the training rows and :math:`K' = K + \alpha I`, the prediction for a new row x has the mean and
    the variance

    .. math:: k(x, X) K'^{-1} y , \qquad k(x, x) - k(x, X) K'^{-1} k(X, x) .

    The hyperparameters of the kernel maximise the log marginal likelihood

    .. math:: -\tfrac{1}{2} y' K'^{-1} y - \tfrac{1}{2} \log |K'| - \tfrac{n}{2} \log 2 \pi .

    The setting ``gpuml.set_config(device=...)`` chooses the device for NumPy, pandas, polars and
    lists; CuPy, torch and other device arrays stay on theirs. All computations are in float64. The
    kernels are scikit-learn's (`gpuml.gaussian_process.kernels`); gpuml evaluates them from one
    matrix of squared distances and one of inner products, which all steps of the optimiser share.
    The gradient does not need a matrix for each hyperparameter.

    In a `gpuml.model_selection` search, these matrices are computed once, from all rows, for all
    candidates and splits. Candidates without an optimiser and with a number for `alpha` are fitted
    together: each kernel is evaluated once, and all values of `alpha` and `normalize_y` on all
    splits are solved from its matrix, as in `gpuml.kernel_ridge.KernelRidge`. Candidates with an
    optimiser are fitted one after another, from the shared matrices.

    Parameters
    ----------
    kernel : kernel of `gpuml.gaussian_process.kernels`, default=None
        Covariance function of f. None means ``ConstantKernel() * RBF()``. gpuml calls your own
        kernels, and a `PairwiseKernel` with a function, with rows in CPU memory.
    alpha : float or ndarray of shape (n_samples,), default=1e-10
        Variance of the noise (of each training row), which is added to the diagonal of K.
    optimizer : "fmin_l_bfgs_b", callable or None, default="fmin_l_bfgs_b"
        How to choose the hyperparameters that are not fixed: by SciPy's L-BFGS-B, or by your
        function of (objective, theta, bounds), which returns the best theta and the objective
        there. None keeps the hyperparameters of `kernel`.
    n_restarts_optimizer : int, default=0
        Number of further starts of the optimiser, drawn between the bounds with `random_state`.
    normalize_y : bool, default=False
        Whether the fit centres and scales the targets to mean 0 and standard deviation 1.
        Predictions are scaled back.
    copy_X_train : bool, default=True
        Whether `X_train_` is a copy. gpuml never writes to it.
    n_targets : int, default=None
        Number of targets that `predict` returns before `fit` (None means 1). If you set it, `fit`
        raises an error when y has another number of targets.
    random_state : int, RandomState instance or None, default=None
        Seed of the further starts, which are drawn as in scikit-learn.

    Attributes
    ----------
    X_train_ : array of shape (n_samples, n_features)
        This and the arrays below are in the library and on the device of X.
    y_train_ : array of shape (n_samples,) or (n_samples, n_targets)
        The targets; with `normalize_y`, centred and scaled.
    kernel_ : kernel
        The kernel with the chosen hyperparameters.
    L_ : array of shape (n_samples, n_samples)
        The lower Cholesky factor of K'.
    alpha_ : array of shape (n_samples,) or (n_samples, n_targets)
        Dual coefficients ``K'^{-1} y``, one for each training row.
    log_marginal_likelihood_value_ : float
        Log marginal likelihood of the chosen hyperparameters.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    gpuml.kernel_ridge.KernelRidge : Predicts the same means; a search chooses the penalty.

    Notes
    -----
    Matrices of n_samples^2 numbers must fit into memory. scikit-learn does the work for kernels of
    objects other than vectors of numbers, such as strings.

    References
    ----------
    C. E. Rasmussen, C. K. I. Williams, "Gaussian processes for machine learning", MIT Press (2006),
    algorithm 2.1.

    Examples
    --------
    >>> import numpy as np
    >>> from gpuml.gaussian_process import GaussianProcessRegressor
    >>> from gpuml.gaussian_process.kernels import RBF
    >>> X = np.linspace(0, 6, 40)[:, None]
    >>> model = GaussianProcessRegressor(RBF(), alpha=1e-3).fit(X, np.sin(X[:, 0]))
    >>> mean, deviation = model.predict([[1.5]], return_std=True)
    >>> mean.round(3), deviation.round(2)
    (array([0.997]), array([0.01]))
    """

    own_params = PARAMS

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y) -> Self:
        """Choose the hyperparameters and factor the kernel matrix.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Or a list of objects that the kernel takes.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)

        Returns
        -------
        self : estimator

        Raises
        ------
        ValueError
            For input that scikit-learn's class rejects. A failed fit leaves the estimator as it
            was.
        numpy.linalg.LinAlgError
            If the kernel matrix is not positive definite. Set a larger `alpha`.
        MemoryError
            If matrices of n_samples^2 numbers do not fit into memory.

        Warns
        -----
        ConvergenceWarning
            If the optimiser stopped early, or a hyperparameter is at one of its bounds.
        """
        with unchanged_on_error(self), small_arrays():
            if not self._takes_vectors:
                return sk.GaussianProcessRegressor.fit(self, as_array(X), as_array(y))
            batch = self.multifit_batch(X, y)
            self._check_targets(batch)
            y = doubles(move(batch.y, batch.work))
            with threads_for_order(batch.n_rows):
                found = fit_process(self, shared_pairs(whole(batch)), y, flat=batch.y_is_flat)
            X = batch.X
            if self.copy_X_train and batch.work == batch.home:
                X = place_of(X).xp.asarray(X, copy=True)
            self.__dict__.update(process_attributes(found, X, batch.home, batch.y_is_flat))
        return self

    def _first_kernel(self):
        return first_kernel(self)

    def _check_targets(self, batch):
        n_targets = batch.y.shape[1]
        if self.n_targets is not None and n_targets != self.n_targets:
            raise ValueError(
                "The number of targets seen in `y` is different from the parameter `n_targets`. "
                f"Got {n_targets} != {self.n_targets}."
            )

    # ------------------------------------------------------------ searches

    def multifit_batch(self, X: Any, y: Any, sample_weight: Any = None) -> Batch:
        """Check the rows of a fit or a search and move them to their compute device."""
        X, y, _ = check_fit(self, X, y)
        return resident(X, y, None, device_for(first_kernel(self)), 8 * X.shape[0] ** 2)

    def multifit(
        self,
        folds: Folds,
        candidates: Sequence[Mapping[str, Any]],
        advance: Callable[[int], None] | None = None,
    ) -> ProcessStack:
        """Fit every candidate on the training part of every split; see `MultifitEstimator`."""
        models = [clone(self).set_params(**each) for each in candidates]
        for model in models:
            model._validate_params()
            model._check_targets(folds.batch)
        return fitted_processes(folds, models, advance)

    # ------------------------------------------------------------ predictions

    def predict(self, X, return_std=False, return_cov=False):
        """Predict means of the targets, with standard deviations or covariances on request.

        Before `fit`, these are the means, deviations and covariances of the prior.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        return_std : bool, default=False
            Whether to return standard deviations too.
        return_cov : bool, default=False
            Whether to return covariances too. Set at most one of `return_std` and `return_cov`.

        Returns
        -------
        y_mean : array of shape (n_samples,) or (n_samples, n_targets)
            All results are in the library and on the device of X, float32 for float32 X, else
            float64.
        y_std : array of the same shape
            Only with `return_std`.
        y_cov : array of shape (n_samples, n_samples) or (n_samples, n_samples, n_targets)
            Only with `return_cov`.

        Raises
        ------
        RuntimeError
            If both `return_std` and `return_cov` are true.
        ValueError
            If X has other features than in `fit`, or contains NaN or infinity.

        Warns
        -----
        UserWarning
            If rounding makes variances negative; they are set to 0.
        """
        if return_std and return_cov:
            raise RuntimeError("At most one of return_std or return_cov can be requested.")
        if not self._takes_vectors:
            return sk.GaussianProcessRegressor.predict(self, X, return_std, return_cov)
        want = "variance" if return_std else "covariance" if return_cov else "mean"
        X = as_array(X)
        if is_array(X):
            check_same_namespace(X, self, attribute="alpha_", method="predict")
        X = check_predict(self, X)
        mean, spread = self._answer(X, want)
        dtype, home = result_dtype(X), place_of(X)
        found = [move(home.xp.astype(mean, dtype, copy=False), home)]
        if spread is not None:
            found.append(move(home.xp.astype(spread, dtype, copy=False), home))
        return found[0] if len(found) == 1 else tuple(found)

    def _answer(self, X: Array, want: str) -> tuple[Array, Array | None]:
        """Means, and deviations or covariances, for checked rows, in float64 on their device."""
        if not hasattr(self, "X_train_"):
            return self._prior(doubles(X), want)
        home, n = place_of(X), self.X_train_.shape[0]
        work = compute_place(X, 8 * X.shape[0] * n, device_for(self.kernel_))
        attributes = (self.X_train_, self.alpha_, self._y_train_mean, self._y_train_std)
        rows, dual, centre, scale = (doubles(move(as_array(a), work)) for a in attributes)
        dual = dual[:, None] if dual.ndim == 1 else dual
        L = None if want == "mean" else doubles(move(as_array(self.L_), work))
        step = X.shape[0] if want == "covariance" else max(1, BLOCK_BYTES // (8 * n))
        with threads_for_order(n):
            answers = [
                process_answer(self.kernel_, doubles(move(X[some, :], work)), rows, dual, L, want)
                for some in cut(slice(0, X.shape[0]), step)
            ]
        mean = work.xp.concat([each.mean for each in answers]) * scale + centre
        spread = _spread(answers, scale, want)
        found = [None if a is None else move(_flat(a), home) for a in (mean, spread)]
        return found[0], found[1]

    def _prior(self, X, want):
        kernel = self.kernel
        if kernel is None:
            kernel = ConstantKernel(1.0, "fixed") * RBF(1.0, "fixed")
        xp, n_targets = namespace(X), self.n_targets or 1
        mean = xp.zeros((X.shape[0], n_targets), dtype=X.dtype, device=place_of(X).device)
        if want == "mean":
            return _flat(mean), None
        found = kernel_of(kernel, Pairs(X) if want == "covariance" else Own(X))
        found = found if want == "covariance" else xp.sqrt(found)
        return _flat(mean), _flat(xp.stack([found] * n_targets, axis=-1))

    def sample_y(self, X, n_samples=1, random_state=0):
        """Draw functions from the process, in CPU memory, and return their values at rows.

        Parameters
        ----------
        X : array-like of shape (n_samples_X, n_features)
        n_samples : int, default=1
            Number of functions to draw.
        random_state : int, RandomState instance or None, default=0
            Seed of the draws.

        Returns
        -------
        y_samples : array of shape (n_samples_X, n_samples) or (n_samples_X, n_targets, n_samples)
            In the library and on the device of X.
        """
        if not self._takes_vectors:
            return sk.GaussianProcessRegressor.sample_y(self, X, n_samples, random_state)
        random = check_random_state(random_state)
        X = check_predict(self, X)
        mean, covariance = (to_host(a) for a in self._answer(X, "covariance"))
        if mean.ndim == 1:
            found = random.multivariate_normal(mean, covariance, n_samples).T
        else:
            columns = zip(mean.T, np.moveaxis(covariance, -1, 0), strict=True)
            drawn = [random.multivariate_normal(*each, n_samples).T for each in columns]
            found = np.stack(drawn, axis=1)
        home = place_of(X)
        found = move(np.ascontiguousarray(found), home)
        return home.xp.astype(found, result_dtype(X), copy=False)

    def log_marginal_likelihood(self, theta=None, eval_gradient=False, clone_kernel=True):
        """The log marginal likelihood of hyperparameters.

        Parameters
        ----------
        theta : array-like of shape (n_kernel_params,), default=None
            Logarithms of the hyperparameters that are not fixed; None means those of `kernel_`.
        eval_gradient : bool, default=False
            Whether to return the gradient with respect to theta too; needs `theta`.
        clone_kernel : bool, default=True
            Whether `kernel_` stays as it is; otherwise it has this theta afterwards.

        Returns
        -------
        log_likelihood : float
        log_likelihood_gradient : ndarray of shape (n_kernel_params,)
            Only with `eval_gradient`.

        Raises
        ------
        ValueError
            With `eval_gradient` but without `theta`.
        """
        if not self._takes_vectors:
            return sk.GaussianProcessRegressor.log_marginal_likelihood(
                self, theta, eval_gradient, clone_kernel
            )
        return at_theta(self, theta, eval_gradient, clone_kernel, self._likelihood)

    def _likelihood(self, kernel, eval_gradient):
        X, y = as_array(self.X_train_), as_array(self.y_train_)
        work = compute_place(X, 8 * X.shape[0] ** 2, device_for(kernel))
        X, y = (doubles(move(a, work)) for a in (X, y))
        y = y[:, None] if y.ndim == 1 else y
        alpha = noise_of(self.alpha, y)
        with threads_for_order(X.shape[0]):
            return process_likelihood(kernel, Pairs(X), alpha, y, eval_gradient)


def _flat(values):
    return values[..., 0] if values.shape[-1] == 1 and values.ndim > 1 else values


def _spread(answers: Sequence[Answer], scale: Array, want: str) -> Array | None:
    """Standard deviations (m, t) or covariances (m, m, t), in the scale of the targets."""
    if want == "mean":
        return None
    xp = namespace(scale)
    if want == "covariance":
        return answers[0].spread[..., None] * scale**2  # type: ignore[index]
    variance = xp.concat([each.spread for each in answers])
    negative = variance < 0
    if any_true(negative, xp):
        warnings.warn(
            "Predicted variances smaller than 0. Setting those variances to 0.",
            stacklevel=level_of_user(),
        )
        variance = xp.where(negative, xp.zeros_like(variance), variance)
    return xp.sqrt(variance)[:, None] * scale

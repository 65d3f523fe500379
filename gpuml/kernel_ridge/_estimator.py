"""Kernel ridge regression on the device of its data."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from sklearn import kernel_ridge as sk
from sklearn.utils.validation import check_is_fitted

from gpuml._arrays import (
    Array,
    as_array,
    compute_place,
    is_array,
    is_foreign,
    is_sparse,
    move,
    place_of,
    to_host,
)
from gpuml._inputs.host_rows import naming_columns
from gpuml._inputs.validation import check_fit, check_predict
from gpuml._settings.config import current_settings
from gpuml._sklearn import check_same_namespace
from gpuml.data import Batch, Folds, cut, resident
from gpuml.kernel_ridge._models import (
    BLOCK_BYTES,
    Callback,
    Kernel,
    doubles,
    fitted_models,
    kernels,
)
from gpuml.linear_model._base import LinearEstimator
from gpuml.linear_model.ridge import penalties_of
from gpuml.metrics.own_scores import ScoredByR2
from gpuml.solvers.pair_kernels import PairKernel


class KernelRidge(ScoredByR2, LinearEstimator, sk.KernelRidge):
    r"""Kernel ridge regression: least squares with a kernel and an l2 penalty.

    Minimises, over c of shape (n_samples, n_targets), with the kernel matrix K of the rows,

    .. math:: \sum_i w_i \, |y_i - (K c)_i|^2 + \sum_k \alpha_k \, c_k' K c_k

    with weights w (1 if not given); predictions are :math:`k(x, X) \, c`. There is no intercept:
    centre y if its mean is far from 0.

    The setting ``gpuml.set_config(device=...)`` chooses the device for NumPy, pandas, polars and
    lists; CuPy, torch and other device arrays stay on theirs. Kernels and models are computed in
    float64.

    In a `gpuml.model_selection` search, all values of `alpha`, `gamma`, `degree` and `coef0` are
    fitted on all splits together. The kernel matrix of all rows is computed once per kernel;
    kernels of the same distances or inner products share one matrix of these. Conjugate gradients
    then solve for all penalties on all splits in the same passes over the kernel matrix, to 1e-10
    of the predictions. For penalties so small that this would take longer, a matrix is factored for
    each penalty and split instead. With ``cv=LeaveOneOut()``, one inverse for each kernel and
    penalty gives the models of all splits.

    Parameters
    ----------
    alpha : float >= 0 or array-like of shape (n_targets,), default=1
        Strength of the penalty, or one strength per target.
    kernel : str or callable, default="linear"
        The name of a kernel of `sklearn.metrics.pairwise.pairwise_kernels`: "linear", "poly" (or
        "polynomial"), "sigmoid", "rbf", "laplacian", "cosine", "additive_chi2" or "chi2";
        "precomputed" if X is a kernel matrix; or, for X in CPU memory, a function of two rows that
        returns a number.
    gamma : float, default=None
        Kernel coefficient of "rbf", "laplacian", "poly", "sigmoid" and "chi2". None means
        ``1 / n_features``, or 1 for "chi2".
    degree : float, default=3
        Degree of "poly".
    coef0 : float, default=1
        Constant term of "poly" and "sigmoid".
    kernel_params : dict, default=None
        Keyword arguments of a callable kernel.

    Attributes
    ----------
    dual_coef_ : array of shape (n_samples,) or (n_samples, n_targets)
        c, in float64, in the library and on the device of X.
    X_fit_ : array of shape (n_samples, n_features)
        The X of `fit`: rows, or the kernel matrix with ``kernel="precomputed"``.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    gpuml.linear_model.Ridge : For many rows, after a step that approximates a kernel.

    Notes
    -----
    Matrices of n_samples^2 numbers have to fit into memory. For sparse X, scikit-learn does the
    work, in CPU memory.

    References
    ----------
    K. P. Murphy, "Machine Learning: A Probabilistic Perspective", MIT Press (2012), 14.4.3.

    A. Frommer, P. Maass, "Fast CG-based methods for Tikhonov-Phillips regularization", SIAM Journal
    on Scientific Computing 20 (1999).

    Examples
    --------
    >>> import numpy as np
    >>> from gpuml.kernel_ridge import KernelRidge
    >>> X = np.linspace(0, 3, 50)[:, None]
    >>> model = KernelRidge(alpha=1e-3, kernel="rbf", gamma=1.0).fit(X, np.sin(X[:, 0]))
    >>> model.predict([[1.5]]).round(3)
    array([0.998])
    """

    multifit_params = ("alpha", "gamma", "degree", "coef0")
    multifit_in_frames = False
    multifit_divided = False
    _multiplies_pairs = True
    _instead: ClassVar[str] = "a dense X and the name of a kernel"

    def _needs_sklearn(self, X: Any, y: Any = None) -> str | None:
        if is_sparse(X):
            return "sparse X"
        return "a callable kernel" if callable(self.kernel) and is_foreign(X) else None

    def multifit_obstacle(self, X: Any) -> str | None:
        """Why candidates are fitted one by one; None if they can be fitted together."""
        if isinstance(self.kernel, str) and self.kernel == "precomputed":
            return "a precomputed kernel, whose columns are rows as well,"
        return self._needs_sklearn(X)

    def multifit_batch(self, X: Any, y: Any, sample_weight: Any = None) -> Batch:
        """Check the rows of a fit or a search and move them to their compute device."""
        X, y, weight = check_fit(self, X, y, sample_weight)
        if isinstance(self.kernel, str) and self.kernel == "precomputed":
            _check_square(X, X.shape[0])
        setting = "cpu" if callable(self.kernel) else current_settings().device
        return resident(X, y, weight, setting, 8 * X.shape[0] ** 2)

    def multifit_rows(self, folds: Folds) -> int | None:
        """None, because the number of kernels depends on the candidates."""
        return None

    def multifit(self, folds, candidates, advance=None, start=None):
        """Fit every candidate on the training part of every split; see `LinearEstimator`."""
        # Equal penalties of all targets become a single penalty.
        values = [_one_of_equal(alpha) for alpha in self._values(candidates, "alpha")]
        alphas = penalties_of(values, folds.batch.y.shape[1])
        if callable(self.kernel):
            wanted = [self._kernel({})] * len(candidates)
        else:
            wanted = [self._kernel(each) for each in candidates]
        return fitted_models(folds, wanted, alphas, advance)

    def _kernel(self, params: Mapping[str, Any]) -> Kernel:
        if callable(self.kernel):
            return Callback(self.kernel, self.kernel_params or {})
        names = ("gamma", "coef0", "degree")
        given = {name: params.get(name, getattr(self, name)) for name in names}
        return PairKernel.of(self.kernel, **given)

    def predict(self, X):
        """Predict targets.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            With ``kernel="precomputed"``, the kernels between these rows and the rows of `fit`, of
            shape (n_samples, n_samples_fit).

        Returns
        -------
        y : array of shape (n_samples,) or (n_samples, n_targets)
            In the library, on the device and of the dtype of X.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            Before `fit`.
        ValueError
            If X has other features than in `fit`, or contains NaN or infinity.
        """
        check_is_fitted(self)
        X = as_array(X)
        if is_sparse(X) or is_sparse(self.X_fit_):
            with naming_columns(self, X):
                return sk.KernelRidge.predict(self, X)
        check_same_namespace(X, self, attribute="dual_coef_", method="predict")
        X = check_predict(self, X)
        home, n = place_of(X), self.dual_coef_.shape[0]
        work = home
        if not callable(self.kernel):
            work = compute_place(X, 8 * X.shape[0] * n, current_settings().device)
        fitted = doubles(move(as_array(self.X_fit_), work))
        dual = doubles(move(as_array(self.dual_coef_), work))
        size = max(1, BLOCK_BYTES // (8 * n))
        blocks = (move(X[some, :], work) for some in cut(slice(0, X.shape[0]), size))
        found = work.xp.concat([self._rows_kernel(doubles(some), fitted) @ dual for some in blocks])
        return home.xp.astype(move(found, home), X.dtype, copy=False)

    def _rows_kernel(self, X: Array, fitted: Array) -> Array:
        [(_, make)] = kernels([self._kernel({})], X, fitted)
        return make()


def _one_of_equal(alpha):
    alpha = np.atleast_1d(to_host(alpha) if is_array(alpha) else np.asarray(alpha, dtype=float))
    return alpha[:1] if (alpha == alpha[0]).all() else alpha


def _check_square(K, n_rows):
    if K.shape[1] != n_rows:
        raise ValueError(
            "Precomputed metric requires shape (n_queries, n_indexed). Got "
            f"{tuple(K.shape)} for {n_rows} indexed."
        )

"""Gaussian process classification on the device of the data."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from joblib import effective_n_jobs
from sklearn import gaussian_process as sk
from sklearn.base import clone
from sklearn.gaussian_process.kernels import CompoundKernel
from sklearn.utils.validation import check_is_fitted

from gpuml._arrays import (
    Array,
    as_array,
    compute_place,
    is_array,
    move,
    namespace,
    place_of,
)
from gpuml._arrays.small_arrays import small_arrays
from gpuml._arrays.threads import threads_for_order
from gpuml._inputs.validation import check_classify, check_predict, unchanged_on_error
from gpuml._sklearn import _fit_context, check_same_namespace
from gpuml.data import Batch, Folds, cut, resident_classes, whole
from gpuml.gaussian_process._binary import BinaryGaussianProcess, binary_kernel
from gpuml.gaussian_process._class_models import (
    LabelStack,
    class_attributes,
    fitted_labels,
    fitted_problems,
    summing_to_one,
    votes_of,
)
from gpuml.gaussian_process._models import shared_pairs
from gpuml.gaussian_process._of_kernel import OfKernel, device_for
from gpuml.gaussian_process._pairs import Pairs
from gpuml.kernel_ridge._models import BLOCK_BYTES, doubles
from gpuml.metrics.own_scores import ScoredByAccuracy
from gpuml.naive_bayes._input import labels_at, result_dtype
from gpuml.solvers.posteriors import mean_logistic

PARAMS = (
    *("copy_X_train", "kernel", "max_iter_predict", "multi_class", "n_jobs"),
    *("n_restarts_optimizer", "optimizer", "random_state", "warm_start"),
)


class GaussianProcessClassifier(ScoredByAccuracy, OfKernel, sk.GaussianProcessClassifier):
    r"""Gaussian process classification, by Laplace's approximation.

    Of two classes, the second has the probability :math:`1 / (1 + e^{-f(x)})`, where f is a
    Gaussian process with mean 0 and covariance k(x, x'). Newton's method finds the mode of the
    posterior of f at the training rows,

    .. math:: \max_f \; \sum_i \log p(y_i \mid f_i) - \tfrac{1}{2} f' K^{-1} f ,

    and Laplace's approximation takes the posterior to be normal around it. The hyperparameters of
    the kernel maximise the approximate marginal likelihood. With more than two classes, there is
    one such problem for each class against the rest, or for each pair of classes.

    The setting ``gpuml.set_config(device=...)`` chooses the device for NumPy, pandas, polars and
    lists; CuPy, torch and other device arrays stay on theirs. All computations are in float64. The
    kernels are scikit-learn's (`gpuml.gaussian_process.kernels`); gpuml evaluates them from one
    matrix of squared distances and one of inner products of all rows. All classes and all steps of
    the optimiser share these matrices, and in a `gpuml.model_selection` search all candidates and
    splits do too.

    Parameters
    ----------
    kernel : kernel of `gpuml.gaussian_process.kernels`, default=None
        Covariance function of f. None means ``ConstantKernel(1.0, "fixed") * RBF(1.0, "fixed")``.
        gpuml calls your own kernels, and a `PairwiseKernel` with a function, with rows in CPU
        memory.
    optimizer : "fmin_l_bfgs_b", callable or None, default="fmin_l_bfgs_b"
        How to choose the hyperparameters that are not fixed: by SciPy's L-BFGS-B, or by your
        function of (objective, theta, bounds), which returns the best theta and the objective
        there. None keeps the hyperparameters of `kernel`.
    n_restarts_optimizer : int, default=0
        Number of further starts of the optimiser, drawn with `random_state`.
    max_iter_predict : int, default=100
        The most steps of Newton's method.
    warm_start : bool, default=False
        Whether Newton's method for one theta starts from the result for the theta before it.
    copy_X_train : bool, default=True
        Whether `X_train_` of the problems is a copy. gpuml never writes to it.
    random_state : int, RandomState instance or None, default=None
        Seed of the further starts, which are drawn as in scikit-learn.
    multi_class : {"one_vs_rest", "one_vs_one"}, default="one_vs_rest"
        Which problems to fit for more than two classes. With "one_vs_one", there are no
        probabilities.
    n_jobs : int or None, default=None
        Has no effect: all problems are fitted from the same distances.

    Attributes
    ----------
    base_estimator_ : estimator
        With two classes, the fitted process with `X_train_`, `y_train_` (codes), `pi_`
        (probabilities of the second class), `W_sr_`, `L_` and `kernel_`. With more classes,
        scikit-learn's `OneVsRestClassifier` or `OneVsOneClassifier` of such processes.
    kernel_ : kernel
        The kernel with the chosen hyperparameters; with more than two classes, a `CompoundKernel`.
    log_marginal_likelihood_value_ : float
        Approximate log marginal likelihood of the chosen hyperparameters, averaged over the
        problems.
    classes_ : array of shape (n_classes,)
        Sorted labels, of the dtype of y.
    n_classes_ : int
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    GaussianProcessRegressor : Gaussian processes for targets that are numbers.

    Notes
    -----
    Matrices of n_samples^2 numbers must fit into memory, one for each problem. scikit-learn does
    the work for kernels of objects other than vectors of numbers, such as strings.

    References
    ----------
    C. E. Rasmussen, C. K. I. Williams, "Gaussian processes for machine learning", MIT Press (2006),
    algorithms 3.1, 3.2 and 5.1.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpuml.gaussian_process import GaussianProcessClassifier
    >>> from gpuml.gaussian_process.kernels import RBF
    >>> X, y = load_iris(return_X_y=True)
    >>> model = GaussianProcessClassifier(1.0 * RBF(1.0)).fit(X, y)
    >>> model.predict_proba(X[:1]).round(2)
    array([[0.84, 0.03, 0.13]])
    """

    own_params = PARAMS

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y) -> Self:
        """Choose the hyperparameters and approximate the posteriors.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Or a list of objects that the kernel takes.
        y : array-like of shape (n_samples,)
            Labels.

        Returns
        -------
        self : estimator

        Raises
        ------
        ValueError
            For input that scikit-learn's class rejects. A failed fit leaves the estimator as it
            was.
        MemoryError
            If matrices of n_samples^2 numbers do not fit into memory.

        Warns
        -----
        ConvergenceWarning
            If the optimiser stopped early, or a hyperparameter is at one of its bounds.
        """
        with unchanged_on_error(self), small_arrays():
            self._check_kernel()
            effective_n_jobs(self.n_jobs)  # 0 is an error
            if not self._takes_vectors:
                return sk.GaussianProcessClassifier.fit(self, as_array(X), as_array(y))
            batch = self.multifit_batch(X, y)
            self._check_classes(batch.labels)
            X = batch.X
            if self.copy_X_train and batch.work == batch.home:
                X = place_of(X).xp.asarray(X, copy=True)
            pairs = shared_pairs(whole(batch))
            models = fitted_problems(self, pairs, batch.codes, X, batch.classes)
            self.__dict__.update(class_attributes(self, models, batch.classes))
        return self

    def _first_kernel(self):
        return binary_kernel(self.kernel)

    def _check_kernel(self):
        if isinstance(self.kernel, CompoundKernel):
            raise ValueError("kernel cannot be a CompoundKernel")

    def _check_classes(self, classes: Any) -> None:
        if len(classes) == 1:
            raise ValueError(
                "GaussianProcessClassifier requires 2 or more distinct classes; got 1 class (only "
                f"class {classes[0]} is present)"
            )

    # ------------------------------------------------------------ searches

    def multifit_batch(self, X: Any, y: Any, sample_weight: Any = None) -> Batch:
        """Check the rows of a fit or a search and move them to their compute device."""
        X, labels, _ = check_classify(self, X, y)
        work = compute_place(X, 8 * X.shape[0] ** 2, device_for(self._first_kernel()))
        return resident_classes(X, labels, None, "cpu" if work == place_of(X) else "cuda")

    def multifit(
        self,
        folds: Folds,
        candidates: Sequence[Mapping[str, Any]],
        advance: Callable[[int], None] | None = None,
    ) -> LabelStack:
        """Fit every candidate on the training part of every split; see `MultifitEstimator`."""
        models = [clone(self).set_params(**each) for each in candidates]
        for model in models:
            model._validate_params()
            model._check_kernel()
        return fitted_labels(folds, models, advance)

    # ------------------------------------------------------------ predictions

    def predict(self, X):
        """Predict the most likely class of each row; with "one_vs_one", that with the most votes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        labels : array of shape (n_samples,)
            In the library and on the device of X; strings come in NumPy arrays.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            Before `fit`.
        ValueError
            If X has other features than in `fit`, or contains NaN or infinity.
        """
        check_is_fitted(self)
        if not self._takes_vectors:
            return sk.GaussianProcessClassifier.predict(self, X)
        X = self._checked(X, "predict")
        if self.n_classes_ == 2:
            [(mean,)] = self._asked(X, "latent_mean")
            codes = namespace(mean).astype(mean > 0, namespace(mean).int64)
        elif self.multi_class == "one_vs_rest":
            codes = namespace(X).argmax(self._shares(X), axis=1)
        else:
            codes = self._voted(X)
        return labels_at(self.classes_, codes)

    def _voted(self, X):
        answers = self._asked(X, "latent")
        xp = namespace(X)
        means = xp.stack([mean for mean, _ in answers], axis=1)
        shares = xp.stack([mean_logistic(*each) for each in answers], axis=1)
        return xp.argmax(votes_of(means, shares, self.n_classes_), axis=1)

    def predict_proba(self, X):
        """Predict the probabilities of the classes, in the order of `classes_`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        probability : array of shape (n_samples, n_classes)
            In the library and on the device of X, float32 for float32 X, else float64; rows sum
            to 1.

        Raises
        ------
        ValueError
            With ``multi_class="one_vs_one"`` and more than two classes.
        """
        check_is_fitted(self)
        if self.n_classes_ > 2 and self.multi_class == "one_vs_one":
            raise ValueError(
                "one_vs_one multi-class mode does not support predicting probability estimates. "
                "Use one_vs_rest mode instead."
            )
        if not self._takes_vectors:
            return sk.GaussianProcessClassifier.predict_proba(self, X)
        X = self._checked(X, "predict_proba")
        shares, xp = self._shares(X), namespace(X)
        if self.n_classes_ == 2:
            shares = xp.concat([1.0 - shares, shares], axis=1)
        else:
            shares = summing_to_one(shares)
        return xp.astype(shares, result_dtype(X), copy=False)

    def latent_mean_and_variance(self, X):
        """Means and variances of f at the rows of X, for two classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        latent_mean : array of shape (n_samples,)
            This and `latent_var` are in the library and on the device of X.
        latent_var : array of shape (n_samples,)

        Raises
        ------
        ValueError
            With more than two classes.
        """
        check_is_fitted(self)
        if self.n_classes_ > 2 or not self._takes_vectors:
            return sk.GaussianProcessClassifier.latent_mean_and_variance(self, X)
        X = self._checked(X, "latent_mean_and_variance")
        [answer] = self._asked(X, "latent")
        xp = namespace(X)
        return tuple(xp.astype(a, result_dtype(X), copy=False) for a in answer)

    def _checked(self, X, method):
        X = as_array(X)
        if is_array(X):
            check_same_namespace(X, self, attribute="_located_by", method=method)
        return check_predict(self, X)

    @property
    def _located_by(self):
        return self._models()[0].pi_

    def _models(self) -> Sequence[BinaryGaussianProcess]:
        base = self.base_estimator_
        return [base] if self.n_classes_ == 2 else base.estimators_

    def _asked(self, X: Array, method: str) -> list[tuple[Array, ...]]:
        """The results of a method of each problem's model, on the device of the rows."""
        home, models = place_of(X), self._models()
        widest = max(model.X_train_.shape[0] for model in models)
        setting = device_for(*(model.kernel_ for model in models))
        work = compute_place(X, 8 * X.shape[0] * widest, setting)
        step = max(1, BLOCK_BYTES // (8 * widest))
        with threads_for_order(widest):
            blocks = [
                _said(models, doubles(move(X[some, :], work)), method, home)
                for some in cut(slice(0, X.shape[0]), step)
            ]
        return [
            tuple(home.xp.concat(parts) for parts in zip(*said, strict=True))
            for said in zip(*blocks, strict=True)
        ]

    def _shares(self, X):
        """Probabilities (n, problems) of label 1 of each problem."""
        return namespace(X).stack(
            [mean_logistic(*each) for each in self._asked(X, "latent")], axis=1
        )

    def log_marginal_likelihood(self, theta=None, eval_gradient=False, clone_kernel=True):
        """The approximate log marginal likelihood of hyperparameters.

        Parameters
        ----------
        theta : array-like of shape (n_kernel_params,), default=None
            Logarithms of the hyperparameters that are not fixed, either of one kernel for all
            problems or of the `CompoundKernel`; None means those of `kernel_`.
        eval_gradient : bool, default=False
            Whether to return the gradient with respect to theta too; only for two classes.
        clone_kernel : bool, default=True
            Whether `kernel_` stays as it is; otherwise it may have this theta afterwards.

        Returns
        -------
        log_likelihood : float
            Averaged over the problems.
        log_likelihood_gradient : ndarray of shape (n_kernel_params,)
            Only with `eval_gradient`.

        Raises
        ------
        ValueError
            With `eval_gradient` but without `theta`, or if theta has the wrong length.
        NotImplementedError
            With `eval_gradient` and more than two classes.
        """
        return sk.GaussianProcessClassifier.log_marginal_likelihood(
            self, theta, eval_gradient, clone_kernel
        )


def _said(models, X, method, home):
    """The results of a method of each model, from pairs of training rows with rows X."""
    known: dict[int, Pairs] = {}
    found = []
    for model in models:
        key = id(model.X_train_)
        if key not in known:
            known[key] = Pairs(doubles(move(as_array(model.X_train_), place_of(X))), X)
        found.append(tuple(move(a, home) for a in getattr(model, method)(known[key])))
    return found

"""Linear discriminant analysis: all candidates from moments of the rows and their classes."""

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn import discriminant_analysis as sk
from sklearn.utils.validation import check_is_fitted

from gpuml._arrays import as_array, is_array, is_foreign, move, namespace, place_of, to_host
from gpuml._inputs.output import as_asked
from gpuml._inputs.validation import check_predict
from gpuml._sklearn import _fit_context, check_same_namespace
from gpuml.data import Batch, Folds
from gpuml.discriminant_analysis._analyses import Analyses
from gpuml.exceptions import level_of_user
from gpuml.linear_model._base import OnePass, describe_rows
from gpuml.linear_model._class_models import class_counts
from gpuml.linear_model._classifier import ProbabilityClassifier
from gpuml.linear_model._input import class_batch
from gpuml.linear_model._models import ClassModels
from gpuml.resampling.stand_ins import refuse


class LinearDiscriminantAnalysis(ProbabilityClassifier, OnePass, sk.LinearDiscriminantAnalysis):
    r"""Linear discriminant analysis: normal classes that share one covariance.

    With means :math:`\mu_c` and priors :math:`\pi_c` of the classes and the covariance
    :math:`\Sigma` within them, the class of a row x is the one of largest

    .. math:: \log \pi_c + x^\top \Sigma^{-1} \mu_c
              - \tfrac{1}{2} \mu_c^\top \Sigma^{-1} \mu_c .

    A share s of shrinkage replaces :math:`\Sigma` by
    :math:`(1 - s) \Sigma + s \, \mathrm{tr}(\Sigma) I / p`.

    NumPy, pandas, polars and lists go to the device of ``gpuml.set_config(device=...)``;
    CuPy, torch and other device arrays stay on theirs. Means and scatter come from second moments
    of the rows, summed once in float64. In a `gpuml.model_selection` search, all candidates are
    made from these on all splits.

    Parameters
    ----------
    solver : {"svd", "lsqr", "eigen"}, default="svd"
        - "svd": whitens the features, leaving out directions without variance; no shrinkage.
        - "lsqr": solves for the coefficients alone; no `transform`.
        - "eigen": the directions that spread the classes most.
    shrinkage : "auto", float in [0, 1] or None, default=None
        For "lsqr" and "eigen"; "auto" is the share of Ledoit and Wolf, for which the rows of every
        training part are read again.
    priors : array-like of shape (n_classes,), default=None
        Probabilities of the classes; None takes their shares of the rows.
    n_components : int, default=None
        Components of `transform`, at most ``min(n_classes - 1, n_features)``, which is None.
    store_covariance : bool, default=False
        Whether "svd" sets `covariance_`; the other solvers always do.
    tol : float, default=1e-4
        For "svd": directions with a smaller singular value, of standardised features, are left out.
    covariance_estimator : estimator, default=None
        With `fit` and `covariance_`; scikit-learn does the work, with data in CPU memory.

    Attributes
    ----------
    coef_ : array of shape (n_classes, n_features), or (1, n_features) for two classes
        This and the arrays below are in the library, on the device and of the dtype of X.
    intercept_ : array of shape (n_classes,) or (1,)
    covariance_ : array of shape (n_features, n_features)
        Within the classes.
    explained_variance_ratio_ : array of shape (n_components,)
        Of "svd" and "eigen".
    means_ : array of shape (n_classes, n_features)
    priors_ : array of shape (n_classes,)
    scalings_ : array of shape (n_features, rank)
        Of "svd" and "eigen".
    xbar_ : array of shape (n_features,)
        Mean of the means by the priors; of "svd".
    classes_ : array of shape (n_classes,)
        Sorted labels, in the library of y.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    LogisticRegression : Without an assumption on the densities.

    References
    ----------
    T. Hastie, R. Tibshirani, J. Friedman, "The elements of statistical learning", section 4.3.
    O. Ledoit, M. Wolf, "Honey, I shrunk the sample covariance matrix", The Journal of Portfolio
    Management 30 (2004).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpuml.discriminant_analysis import LinearDiscriminantAnalysis
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LinearDiscriminantAnalysis().fit(X, y)
    >>> round(model.score(X, y), 2)
    0.98
    >>> model.transform(X[:1]).round(1)
    array([[-8.1,  0.3]])
    """

    multifit_params = (
        *("solver", "shrinkage", "priors", "n_components", "store_covariance", "tol"),
    )
    _instead = "covariance_estimator=None with shrinkage"
    _kind = ClassModels
    _classes_as_text = True
    _of_sklearn = ("covariance_", "explained_variance_ratio_", "scalings_", "xbar_")

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y) -> Self:  # type: ignore[override]
        """Fit the model.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
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
        NotImplementedError
            For shrinkage with ``solver="svd"``.
        """
        return super().fit(X, y)

    def predict_log_proba(self, X):
        """Logarithms of `predict_proba`; of probabilities of 0 that of the smallest normal number.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        log_probability : array of shape (n_samples, n_classes)
        """
        check_is_fitted(self)
        X = as_array(X)
        check_same_namespace(X, self, attribute="coef_", method="predict_log_proba")
        found = self.predict_proba(X)
        xp = namespace(found)
        least = float(xp.finfo(found.dtype).smallest_normal)
        return xp.log(xp.where(found == 0, least, found))

    def transform(self, X):
        """Project rows to the directions that spread the classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        X_new : array of shape (n_samples, n_components)
            In the library and on the device of X.

        Raises
        ------
        NotImplementedError
            For ``solver="lsqr"``, which finds no directions.
        ValueError
            If X has other features than in `fit`, or contains NaN or infinity.
        """
        if self.solver == "lsqr":
            raise NotImplementedError(
                "transform not implemented for 'lsqr' solver (use 'svd' or 'eigen')."
            )
        check_is_fitted(self)
        X = as_array(X)
        check_same_namespace(X, self, attribute="coef_", method="transform")
        foreign = is_foreign(X)
        X = check_predict(self, X)
        place = place_of(X)
        scalings = place.xp.astype(move(as_array(self.scalings_), place), X.dtype, copy=False)
        if self.solver == "svd":
            X = X - place.xp.astype(move(as_array(self.xbar_), place), X.dtype, copy=False)
        X = X @ scalings[:, : self._max_components]
        return as_asked(self, X) if foreign else X

    def _needs_sklearn(self, X: Any, y: Any = None) -> str | None:
        if self.covariance_estimator is not None:
            return "covariance_estimator"
        return super()._needs_sklearn(X, y)

    def multifit_batch(self, X: Any, y: Any, sample_weight: Any = None) -> Batch:
        """Check the rows of a fit or a search and move them to their compute device."""
        return self.multifit_joined(self.multifit_piece(X, y, sample_weight))

    def multifit_piece(self, X: Any, y: Any, sample_weight: Any = None) -> Batch:
        """As `multifit_batch`, of some of the rows, with the classes that they have."""
        return class_batch(self, X, y, sample_weight)

    def multifit_joined(self, batch: Batch) -> Batch:
        """A piece whose classes are those of all rows; its targets are their indicators."""
        xp = namespace(batch.X)
        codes = xp.astype(batch.y, xp.int64, copy=False)
        numbers = xp.arange(batch.n_classes, dtype=xp.int64, device=batch.X.device)
        own = xp.astype(codes == numbers[None, :], batch.X.dtype)
        return replace(batch, y=own, y_is_flat=False)

    def multifit(self, folds, candidates, advance=None, start=None):
        """Fit every candidate on the training part of every split; see `LinearEstimator`."""
        counts = class_counts(folds)
        alone = np.flatnonzero(counts.sum(axis=1) == counts.shape[1]).tolist()
        why = (
            "The number of samples must be more than the number of classes. "
            f"Got n_samples = {counts.shape[1]}, each of a class of its own."
        )
        refuse(dict.fromkeys(alone, why), folds.n_splits)
        if counts.shape[1] < 2:
            raise ValueError("The number of classes has to be greater than one; got 1 class.")
        described = describe_rows(self, folds, advance, by_features=True)
        each = [
            {name: c.get(name, getattr(self, name)) for name in self.multifit_params}
            for c in candidates
        ]
        found = Analyses(folds, described, [_checked(params, folds) for params in each])
        return found.models(range(len(each)))


def _checked(params: Mapping[str, Any], folds: Folds) -> dict[str, Any]:
    """Parameters of a candidate, by scikit-learn's rules; priors in CPU memory."""
    k = folds.batch.n_classes
    if params["solver"] == "svd" and params["shrinkage"] is not None:
        raise NotImplementedError("shrinkage not supported with 'svd' solver.")
    most = min(k - 1, folds.n_features)
    n_components = most if params["n_components"] is None else params["n_components"]
    if n_components > most:
        raise ValueError("n_components cannot be larger than min(n_features, n_classes - 1).")
    priors = params["priors"]
    if priors is not None:
        priors = np.asarray(to_host(priors) if is_array(priors) else priors, dtype=np.float64)
        if priors.shape != (k,):
            raise ValueError(f"priors must have one value for each of {k} classes, got {priors}.")
        if (priors < 0).any():
            raise ValueError("priors must be non-negative")
        if abs(priors.sum() - 1.0) > 1e-5:
            warnings.warn(
                "The priors do not sum to 1. Renormalizing", UserWarning, stacklevel=level_of_user()
            )
            priors = priors / priors.sum()
    return {**params, "priors": priors, "n_components": n_components}

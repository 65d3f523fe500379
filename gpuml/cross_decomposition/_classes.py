"""Partial least squares and canonical correlations, with scikit-learn's names."""

from typing import Self

import numpy as np
from scipy import linalg
from sklearn import cross_decomposition as sk

from gpuml._arrays import as_array, is_sparse
from gpuml._arrays.small_arrays import small_arrays
from gpuml._arrays.threads import one_thread_for_few
from gpuml._inputs.validation import unchanged_on_error
from gpuml._sklearn import _fit_context
from gpuml.cross_decomposition._base import (
    LatentStructure,
    Projections,
    checked_batch,
    described_rows,
)
from gpuml.cross_decomposition._parts import Part, check_number
from gpuml.data import whole
from gpuml.linear_model._models import at_home
from gpuml.solvers.described import all_rows


class PLSRegression(LatentStructure, sk.PLSRegression):
    r"""Partial least squares regression: predict targets from directions of largest covariance.

    The model finds pairs of directions w, c of centred and scaled features X and targets Y, one
    after the other:

    .. math:: \max_{|w| = |c| = 1} w^\top X^\top Y c .

    After each pair, it deflates X and Y: it subtracts the part that the score :math:`t = X w`
    explains.

    NumPy, pandas, polars and lists go to the device of ``gpuml.set_config(device=...)``;
    CuPy, torch and other device arrays stay on theirs. Rows are read once, for second moments. If
    these have too few digits for a direction, or if there are fewer rows than features, the rows
    are read once more, and factored. The steps are computed in CPU memory. In a
    `gpuml.model_selection` search, one fit per split, with the most components, serves all values
    of `n_components`.

    Parameters
    ----------
    n_components : int, default=2
        Number of pairs of directions, at most min(n_samples, n_features).
    scale : bool, default=True
        Whether to divide features and targets by their standard deviations.
    max_iter : int, default=500
        The most steps of the power method that finds a pair.
    tol : float, default=1e-6
        The steps end when the squared norm of the change of w is less.
    copy : bool, default=True
        Has no effect: X and y are never written to.

    Attributes
    ----------
    x_weights_, y_weights_ : arrays of shape (n_features, n_components), (n_targets, n_components)
        w and c. All arrays are in the library, on the device and of the dtype of X.
    x_loadings_, y_loadings_ : arrays of shape (n_features, n_components), (n_targets, n_components)
        Loadings: regression coefficients of X and Y on each score, for the deflation.
    x_scores_, y_scores_ : arrays of shape (n_samples, n_components)
        Scores of the rows of `fit`; not set if these are divided over workers.
    x_rotations_, y_rotations_ : arrays of the shapes of `x_weights_`, `y_weights_`
        Matrices by which `transform` multiplies centred and scaled X and Y.
    coef_ : array of shape (n_targets, n_features)
        Coefficients of the centred features.
    intercept_ : array of shape (n_targets,)
        Means of the targets.
    n_iter_ : list of int
        Number of steps for each pair.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    PLSCanonical : Treats features and targets symmetrically.

    References
    ----------
    J. A. Wegelin, "A survey of partial least squares (PLS) methods, with emphasis on the two-block
    case", University of Washington (2000).

    Examples
    --------
    >>> from sklearn.datasets import load_linnerud
    >>> from gpuml.cross_decomposition import PLSRegression
    >>> X, y = load_linnerud(return_X_y=True)
    >>> PLSRegression(n_components=1).fit(X, y).predict(X[:1]).round(1)
    array([[181.6,  35.9,  55.7]])
    """

    multifit_params = ("max_iter", "n_components", "scale", "tol")
    _keeps_scores = True


class PLSCanonical(LatentStructure, sk.PLSCanonical):
    r"""Canonical partial least squares: directions of largest covariance of two sets of columns.

    The pairs of directions are those of `PLSRegression`, but Y is deflated by its own score
    :math:`u = Y c`. For the device and how rows are read, see `PLSRegression`.

    Parameters
    ----------
    n_components : int, default=2
        Number of pairs of directions, at most min(n_samples, n_features, n_targets).
    scale : bool, default=True
        Whether to divide features and targets by their standard deviations.
    algorithm : {"nipals", "svd"}, default="nipals"
        The method that finds a pair: the power method, or an SVD.
    max_iter : int, default=500
        The most steps of the power method.
    tol : float, default=1e-6
        The steps end when the squared norm of the change of w is less.
    copy : bool, default=True
        Has no effect: X and y are never written to.

    Attributes
    ----------
    x_weights_, y_weights_ : arrays of shape (n_features, n_components), (n_targets, n_components)
        w and c. All arrays are in the library, on the device and of the dtype of X.
    x_loadings_, y_loadings_ : arrays of shape (n_features, n_components), (n_targets, n_components)
        Loadings: regression coefficients of X and Y on each score, for the deflation.
    x_rotations_, y_rotations_ : arrays of the shapes of `x_weights_`, `y_weights_`
        Matrices by which `transform` multiplies centred and scaled X and Y.
    coef_ : array of shape (n_targets, n_features)
        Coefficients of the centred features.
    intercept_ : array of shape (n_targets,)
        Means of the targets.
    n_iter_ : list of int
        Number of steps for each pair; empty with "svd".
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    CCA : Finds directions of largest correlation.

    References
    ----------
    J. A. Wegelin, "A survey of partial least squares (PLS) methods, with emphasis on the two-block
    case", University of Washington (2000).

    Examples
    --------
    >>> from sklearn.datasets import load_linnerud
    >>> from gpuml.cross_decomposition import PLSCanonical
    >>> X, y = load_linnerud(return_X_y=True)
    >>> PLSCanonical().fit(X, y).transform(X).shape
    (20, 2)
    """

    multifit_params = ("algorithm", "max_iter", "n_components", "scale", "tol")


class CCA(LatentStructure, sk.CCA):
    r"""Canonical correlation analysis: directions in which two sets of columns correlate most.

    The power method finds pairs w, c of directions of centred features X and targets Y, one after
    the other:

    .. math:: \max_{w, c} \frac{w^\top X^\top Y c}{|X w| \, |Y c|} .

    After each pair, X and Y are deflated: the parts that the scores :math:`X w` and :math:`Y c`
    explain are subtracted. For the device and how rows are read, see `PLSRegression`.

    Parameters
    ----------
    n_components : int, default=2
        Number of pairs of directions, at most min(n_samples, n_features, n_targets).
    scale : bool, default=True
        Whether to divide features and targets by their standard deviations.
    max_iter : int, default=500
        The most steps of the power method.
    tol : float, default=1e-6
        The steps end when the squared norm of the change of w is less.
    copy : bool, default=True
        Has no effect: X and y are never written to.

    Attributes
    ----------
    x_weights_, y_weights_ : arrays of shape (n_features, n_components), (n_targets, n_components)
        w and c, of norm 1. All arrays are in the library, on the device and of the dtype of X.
    x_loadings_, y_loadings_ : arrays of shape (n_features, n_components), (n_targets, n_components)
        Loadings: regression coefficients of X and Y on each score, for the deflation.
    x_rotations_, y_rotations_ : arrays of the shapes of `x_weights_`, `y_weights_`
        Matrices by which `transform` multiplies centred and scaled X and Y.
    coef_ : array of shape (n_targets, n_features)
        Coefficients of the centred features.
    intercept_ : array of shape (n_targets,)
        Means of the targets.
    n_iter_ : list of int
        Number of steps for each pair.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    PLSCanonical : Finds directions of largest covariance.

    References
    ----------
    J. A. Wegelin, "A survey of partial least squares (PLS) methods, with emphasis on the two-block
    case", University of Washington (2000).

    Examples
    --------
    >>> from sklearn.datasets import load_linnerud
    >>> from gpuml.cross_decomposition import CCA
    >>> X, y = load_linnerud(return_X_y=True)
    >>> CCA(n_components=1).fit(X, y).transform(X).shape
    (20, 1)
    """

    multifit_params = ("max_iter", "n_components", "scale", "tol")


class PLSSVD(Projections, sk.PLSSVD):
    r"""Partial least squares by one SVD: directions of largest covariance of two sets of columns.

    The directions are the leading singular vectors of :math:`X^\top Y`, for centred and scaled
    features X and targets Y. Rows are read once; for the device, see `PLSRegression`.

    Parameters
    ----------
    n_components : int, default=2
        Number of pairs of directions, at most min(n_samples, n_features, n_targets).
    scale : bool, default=True
        Whether to divide features and targets by their standard deviations.
    copy : bool, default=True
        Has no effect: X and y are never written to.

    Attributes
    ----------
    x_weights_, y_weights_ : arrays of shape (n_features, n_components), (n_targets, n_components)
        Singular vectors, in the library, on the device and of the dtype of X.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    PLSCanonical : Finds one pair after the other, and deflates.

    References
    ----------
    J. A. Wegelin, "A survey of partial least squares (PLS) methods, with emphasis on the two-block
    case", University of Washington (2000).

    Examples
    --------
    >>> from sklearn.datasets import load_linnerud
    >>> from gpuml.cross_decomposition import PLSSVD
    >>> X, y = load_linnerud(return_X_y=True)
    >>> PLSSVD().fit(X, y).transform(X).shape
    (20, 2)
    """

    _turns = ("x_weights_", "y_weights_")

    @_fit_context(prefer_skip_nested_validation=True)
    @one_thread_for_few
    def fit(self, X, y) -> Self:
        """Find the directions.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets.

        Returns
        -------
        self : estimator

        Raises
        ------
        ValueError
            For input that scikit-learn's class rejects. A failed fit leaves the estimator as it
            was.
        """
        with unchanged_on_error(self), small_arrays():
            X = as_array(X)
            if is_sparse(X):
                raise TypeError(
                    "Sparse data was passed for X, but dense data is required. Use X.toarray()."
                )
            batch = checked_batch(self, X, y)
            folds = whole(batch)
            part = Part(described_rows(self, folds), all_rows(folds))
            params = {"canonical": True, "n_components": self.n_components}
            check_number(params, part.n_rows, batch.n_features, batch.y.shape[1])
            self.__dict__.update(self._directions(part.centred, batch))
        return self

    def transform(self, X, y=None):
        """Compute scores of rows, and of targets if given.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets), default=None

        Returns
        -------
        x_scores : array of shape (n_samples, n_components)
            In the library and on the device of X.
        y_scores : array of shape (n_samples, n_components)
            Only with y.
        """
        return self._projected(X, y)

    def _directions(self, rows, batch):
        x_std, y_std = rows.scales(self.scale)
        cross = (rows.X / x_std).T @ (rows.Y / y_std)
        left, _, right = linalg.svd(cross, full_matrices=False)
        left, right = left[:, : self.n_components], right[: self.n_components].T
        largest = np.argmax(np.abs(left), axis=0)
        sign = np.sign(left[largest, np.arange(left.shape[1])])
        arrays = {
            "x_weights_": sign * left,
            "y_weights_": sign * right,
            "_x_mean": rows.x_mean,
            "_y_mean": rows.y_mean,
            "_x_std": x_std,
            "_y_std": y_std,
        }
        found = {name: at_home(a, batch) for name, a in arrays.items()}
        return {**found, "_n_features_out": self.n_components}

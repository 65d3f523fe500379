"""Partial least squares and canonical correlations, with scikit-learn's names."""

from typing import Self

import numpy as np
from scipy import linalg
from sklearn import cross_decomposition as sk

from gpuml._arrays import as_array, is_sparse
from gpuml._arrays.small_arrays import small_arrays
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
    r"""Partial least squares regression, on directions in which features and targets vary together.

    Pairs of directions w, c of centred and scaled features X and targets Y are found one after the
    other:

    .. math:: \max_{|w| = |c| = 1} w^\top X^\top Y c .

    What the score :math:`t = X w` explains is then taken out of X and out of Y.

    NumPy, pandas, polars and lists go to the device of ``gpuml.set_config(device=...)``;
    CuPy, torch and other device arrays stay on theirs. Rows are read once, for second moments;
    directions that leave these too few digits are found from factors of the rows, which are read
    once more, and so are those of fewer rows than features. The steps take place in CPU memory. In
    a `gpuml.model_selection` search, the largest number of components on a split gives all.

    Parameters
    ----------
    n_components : int, default=2
        Pairs of directions, at most min(n_samples, n_features).
    scale : bool, default=True
        Whether features and targets are divided by their standard deviations.
    max_iter : int, default=500
        Bound on the steps of the power method that finds a pair.
    tol : float, default=1e-6
        The steps end when the square of the change of w is less.
    copy : bool, default=True
        Without effect: X and y are never written to.

    Attributes
    ----------
    x_weights_, y_weights_ : arrays of shape (n_features, n_components), (n_targets, n_components)
        w and c. All arrays are in the library, on the device and of the dtype of X.
    x_loadings_, y_loadings_ : arrays of shape (n_features, n_components), (n_targets, n_components)
        What is taken out of X and Y, for each score.
    x_scores_, y_scores_ : arrays of shape (n_samples, n_components)
        Of the rows of `fit`; not there where these are divided over workers.
    x_rotations_, y_rotations_ : arrays of the shapes of `x_weights_`, `y_weights_`
        What centred and scaled X and Y are multiplied by in `transform`.
    coef_ : array of shape (n_targets, n_features)
        Of centred features.
    intercept_ : array of shape (n_targets,)
        Means of the targets.
    n_iter_ : list of int
        Steps for each pair.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    PLSCanonical : Both sides alike.

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
    r"""Canonical partial least squares: directions in which two sets of columns vary together.

    As `PLSRegression`, but that what the score :math:`u = Y c` explains is taken out of Y.
    Rows are read as there.

    Parameters
    ----------
    n_components : int, default=2
        Pairs of directions, at most min(n_samples, n_features, n_targets).
    scale : bool, default=True
        Whether features and targets are divided by their standard deviations.
    algorithm : {"nipals", "svd"}, default="nipals"
        How a pair is found: by the power method, or an SVD.
    max_iter : int, default=500
        Bound on the steps of the power method.
    tol : float, default=1e-6
        The steps end when the square of the change of w is less.
    copy : bool, default=True
        Without effect: X and y are never written to.

    Attributes
    ----------
    x_weights_, y_weights_ : arrays of shape (n_features, n_components), (n_targets, n_components)
        w and c. All arrays are in the library, on the device and of the dtype of X.
    x_loadings_, y_loadings_ : arrays of shape (n_features, n_components), (n_targets, n_components)
        What is taken out of X and Y, for each score.
    x_rotations_, y_rotations_ : arrays of the shapes of `x_weights_`, `y_weights_`
        What centred and scaled X and Y are multiplied by in `transform`.
    coef_ : array of shape (n_targets, n_features)
        Of centred features.
    intercept_ : array of shape (n_targets,)
        Means of the targets.
    n_iter_ : list of int
        Steps for each pair; empty with "svd".
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    CCA : Directions of largest correlation.

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

    Pairs w, c of centred features X and targets Y are found one after the other, by the power
    method:

    .. math:: \max_{w, c} \frac{w^\top X^\top Y c}{|X w| \, |Y c|} .

    What the scores :math:`X w` and :math:`Y c` explain is then taken out of X and Y. Rows are read
    as by `PLSRegression`.

    Parameters
    ----------
    n_components : int, default=2
        Pairs of directions, at most min(n_samples, n_features, n_targets).
    scale : bool, default=True
        Whether features and targets are divided by their standard deviations.
    max_iter : int, default=500
        Bound on the steps of the power method.
    tol : float, default=1e-6
        The steps end when the square of the change of w is less.
    copy : bool, default=True
        Without effect: X and y are never written to.

    Attributes
    ----------
    x_weights_, y_weights_ : arrays of shape (n_features, n_components), (n_targets, n_components)
        w and c, of norm 1. All arrays are in the library, on the device and of the dtype of X.
    x_loadings_, y_loadings_ : arrays of shape (n_features, n_components), (n_targets, n_components)
        What is taken out of X and Y, for each score.
    x_rotations_, y_rotations_ : arrays of the shapes of `x_weights_`, `y_weights_`
        What centred and scaled X and Y are multiplied by in `transform`.
    coef_ : array of shape (n_targets, n_features)
        Of centred features.
    intercept_ : array of shape (n_targets,)
        Means of the targets.
    n_iter_ : list of int
        Steps for each pair.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    PLSCanonical : Directions of largest covariance.

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
    r"""Partial least squares by one SVD: directions in which two sets of columns vary together.

    Singular vectors of :math:`X^\top Y`, of centred and scaled features X and targets Y. Rows are
    read once, as by `PLSRegression`.

    Parameters
    ----------
    n_components : int, default=2
        Pairs of directions, at most min(n_samples, n_features, n_targets).
    scale : bool, default=True
        Whether features and targets are divided by their standard deviations.
    copy : bool, default=True
        Without effect: X and y are never written to.

    Attributes
    ----------
    x_weights_, y_weights_ : arrays of shape (n_features, n_components), (n_targets, n_components)
        Singular vectors, in the library, on the device and of the dtype of X.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    PLSCanonical : One pair after the other.

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

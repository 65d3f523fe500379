"""Selection of features by scores of each of them, on the device of the rows."""

from typing import Any

import numpy as np
from sklearn import feature_selection as sk

from gpuml._arrays import is_array, to_host
from gpuml._inputs.validation import check_rows, finite_target
from gpuml.feature_selection._selector import Selector
from gpuml.feature_selection.scores import OURS, f_classif


class _ByScore(Selector):
    """Fits by a function of rows and targets, which get both on their device."""

    score_func: Any
    _check_params: Any

    def _fit_there(self, X, y=None):
        X = check_rows(self, X, reset=True)
        y = finite_target(self, y)
        self._check_params(X, y)
        found = OURS.get(self.score_func, self.score_func)(X, y)
        scores, p_values = found if isinstance(found, list | tuple) else (found, None)
        self.scores_ = _on_host(scores)
        self.pvalues_ = None if p_values is None else _on_host(p_values)


def _on_host(values: Any) -> np.ndarray:
    return to_host(values) if is_array(values) else np.asarray(values)


class SelectKBest(_ByScore, sk.SelectKBest):
    r"""Select the k features with the highest scores.

    The score of a feature is a function of this feature and the target alone.

    CuPy, torch and other arrays are scored on their device, by `f_classif`, `f_regression`,
    `r_regression` and `chi2` (gpuml's or scikit-learn's), or by your own function, if it accepts
    them. scikit-learn does the work for data in CPU memory, including sparse matrices.

    Parameters
    ----------
    score_func : callable, default=f_classif
        A function of X and y that returns scores, or scores and p-values.
    k : int or "all", default=10
        Number of features to keep.

    Attributes
    ----------
    scores_ : ndarray of shape (n_features,)
        Score of each feature, in CPU memory.
    pvalues_ : ndarray of shape (n_features,) or None
        P-value of each feature, in CPU memory; None if `score_func` returns only scores.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    SelectFromModel : Select by the importances of a model of all features.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpuml.feature_selection import SelectKBest
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> SelectKBest(k=2).fit(X, y).get_feature_names_out()
    array(['petal length (cm)', 'petal width (cm)'], dtype=object)
    """

    def __init__(self, score_func=f_classif, *, k=10):
        super().__init__(score_func, k=k)


class SelectPercentile(_ByScore, sk.SelectPercentile):
    r"""Select a percentage of the features, those with the highest scores.

    The score of a feature is a function of this feature and the target alone.

    CuPy, torch and other arrays are scored on their device, by `f_classif`, `f_regression`,
    `r_regression` and `chi2` (gpuml's or scikit-learn's), or by your own function, if it accepts
    them. scikit-learn does the work for data in CPU memory, including sparse matrices.

    Parameters
    ----------
    score_func : callable, default=f_classif
        A function of X and y that returns scores, or scores and p-values.
    percentile : int, default=10
        Percentage of features to keep.

    Attributes
    ----------
    scores_ : ndarray of shape (n_features,)
        Score of each feature, in CPU memory.
    pvalues_ : ndarray of shape (n_features,) or None
        P-value of each feature, in CPU memory; None if `score_func` returns only scores.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    SelectFromModel : Select by the importances of a model of all features.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpuml.feature_selection import SelectPercentile
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> SelectPercentile(percentile=50).fit(X, y).get_feature_names_out()
    array(['petal length (cm)', 'petal width (cm)'], dtype=object)
    """

    def __init__(self, score_func=f_classif, *, percentile=10):
        super().__init__(score_func, percentile=percentile)


class SelectFpr(_ByScore, sk.SelectFpr):
    r"""Select features with a p-value below alpha, :math:`p_j < \alpha`.

    This bounds the false positive rate: of the features that are independent of the target, an
    expected share of alpha is kept.

    CuPy, torch and other arrays are scored on their device, by `f_classif`, `f_regression`,
    `r_regression` and `chi2` (gpuml's or scikit-learn's), or by your own function, if it accepts
    them. scikit-learn does the work for data in CPU memory, including sparse matrices.

    Parameters
    ----------
    score_func : callable, default=f_classif
        A function of X and y that returns scores, or scores and p-values.
    alpha : float, default=0.05

    Attributes
    ----------
    scores_ : ndarray of shape (n_features,)
        Score of each feature, in CPU memory.
    pvalues_ : ndarray of shape (n_features,) or None
        P-value of each feature, in CPU memory; None if `score_func` returns only scores.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    SelectFromModel : Select by the importances of a model of all features.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpuml.feature_selection import SelectFpr
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> SelectFpr(alpha=1e-60).fit(X, y).get_feature_names_out()
    array(['petal length (cm)', 'petal width (cm)'], dtype=object)
    """

    def __init__(self, score_func=f_classif, *, alpha=5e-2):
        super().__init__(score_func, alpha=alpha)


class SelectFdr(_ByScore, sk.SelectFdr):
    r"""Select features with a false discovery rate of at most alpha.

    These are the features with :math:`p_j \le \max \{p_{(k)} : p_{(k)} \le \alpha k / d\}`, of d
    features (the Benjamini-Hochberg procedure).

    CuPy, torch and other arrays are scored on their device, by `f_classif`, `f_regression`,
    `r_regression` and `chi2` (gpuml's or scikit-learn's), or by your own function, if it accepts
    them. scikit-learn does the work for data in CPU memory, including sparse matrices.

    Parameters
    ----------
    score_func : callable, default=f_classif
        A function of X and y that returns scores, or scores and p-values.
    alpha : float, default=0.05

    Attributes
    ----------
    scores_ : ndarray of shape (n_features,)
        Score of each feature, in CPU memory.
    pvalues_ : ndarray of shape (n_features,) or None
        P-value of each feature, in CPU memory; None if `score_func` returns only scores.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    SelectFromModel : Select by the importances of a model of all features.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpuml.feature_selection import SelectFdr
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> SelectFdr(alpha=1e-60).fit(X, y).get_feature_names_out()
    array(['petal length (cm)', 'petal width (cm)'], dtype=object)
    """

    def __init__(self, score_func=f_classif, *, alpha=5e-2):
        super().__init__(score_func, alpha=alpha)


class SelectFwe(_ByScore, sk.SelectFwe):
    r"""Select features with a p-value below alpha / d, for d features: :math:`p_j < \alpha / d`.

    This bounds the family-wise error rate: the probability to keep any feature that is independent
    of the target is at most alpha.

    CuPy, torch and other arrays are scored on their device, by `f_classif`, `f_regression`,
    `r_regression` and `chi2` (gpuml's or scikit-learn's), or by your own function, if it accepts
    them. scikit-learn does the work for data in CPU memory, including sparse matrices.

    Parameters
    ----------
    score_func : callable, default=f_classif
        A function of X and y that returns scores, or scores and p-values.
    alpha : float, default=0.05

    Attributes
    ----------
    scores_ : ndarray of shape (n_features,)
        Score of each feature, in CPU memory.
    pvalues_ : ndarray of shape (n_features,) or None
        P-value of each feature, in CPU memory; None if `score_func` returns only scores.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    SelectFromModel : Select by the importances of a model of all features.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpuml.feature_selection import SelectFwe
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> SelectFwe(alpha=1e-60).fit(X, y).get_feature_names_out()
    array(['petal length (cm)', 'petal width (cm)'], dtype=object)
    """

    def __init__(self, score_func=f_classif, *, alpha=5e-2):
        super().__init__(score_func, alpha=alpha)


class GenericUnivariateSelect(_ByScore, sk.GenericUnivariateSelect):
    r"""Univariate feature selection by any of the other selectors, chosen by name.

    The name is a parameter, so a search can choose the selector.

    CuPy, torch and other arrays are scored on their device, by `f_classif`, `f_regression`,
    `r_regression` and `chi2` (gpuml's or scikit-learn's), or by your own function, if it accepts
    them. scikit-learn does the work for data in CPU memory, including sparse matrices.

    Parameters
    ----------
    score_func : callable, default=f_classif
        A function of X and y that returns scores, or scores and p-values.
    mode : {"percentile", "k_best", "fpr", "fdr", "fwe"}, default="percentile"
        The selector: `SelectPercentile`, `SelectKBest`, `SelectFpr`, `SelectFdr` or `SelectFwe`.
    param : "all", float or int, default=1e-5
        The parameter of the selector: its percentile, k or alpha.

    Attributes
    ----------
    scores_ : ndarray of shape (n_features,)
        Score of each feature, in CPU memory.
    pvalues_ : ndarray of shape (n_features,) or None
        P-value of each feature, in CPU memory; None if `score_func` returns only scores.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    SelectFromModel : Select by the importances of a model of all features.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpuml.feature_selection import GenericUnivariateSelect
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> GenericUnivariateSelect(mode="k_best", param=2).fit(X, y).get_feature_names_out()
    array(['petal length (cm)', 'petal width (cm)'], dtype=object)
    """

    def __init__(self, score_func=f_classif, *, mode="percentile", param=1e-5):
        super().__init__(score_func, mode=mode, param=param)

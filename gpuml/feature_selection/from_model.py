"""Features that a fitted model finds important."""

from copy import copy
from functools import partial
from typing import Any, Self

from sklearn import feature_selection as sk

from gpuml._arrays import is_foreign, to_host
from gpuml._inputs.validation import unchanged_on_error
from gpuml._sklearn import _fit_context, _get_feature_importances
from gpuml.feature_selection._selector import Selector
from gpuml.preprocessing._transformer import Transformer


class SelectFromModel(Selector, sk.SelectFromModel):
    r"""Select the features that are important in a model.

    A feature j is kept if its importance reaches a threshold. Its importance is that of the model's
    `feature_importances_`, or the norm :math:`\|w_{\cdot j}\|` of its `coef_` over the outputs.
    Importances are copied to CPU memory; the estimator is fitted, and rows are transformed, on the
    device of the rows.

    Parameters
    ----------
    estimator : estimator
        An estimator with `coef_` or `feature_importances_` after `fit`; it is cloned, unless
        `prefit` is True.
    threshold : str or float, default=None
        The least importance: a number, "mean", "median" or a multiple such as "1.25*mean". None is
        1e-5 for models with an l1 penalty and "mean" for others.
    prefit : bool, default=False
        Whether the estimator is already fitted.
    norm_order : non-zero int, inf or -inf, default=1
        Order of the norm over the outputs.
    max_features : int or callable, default=None
        The most features to keep: a number, or a function of X. To select by this number alone, set
        ``threshold=-np.inf``.
    importance_getter : str or callable, default="auto"
        An attribute that holds the importances, which may be that of a step
        (``"named_steps.ridge.coef_"``), or a function of the fitted estimator that returns them.

    Attributes
    ----------
    estimator_ : estimator
        The fitted estimator.
    n_features_in_ : int
    max_features_ : int
        Only if you set `max_features`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.
    threshold_ : float
        The threshold as a number.

    See Also
    --------
    RFE : Fits the estimator again after every elimination.
    SequentialFeatureSelector : Selects features by their scores on held-out rows.

    References
    ----------
    R. Tibshirani, "Regression shrinkage and selection via the lasso", Journal of the Royal
    Statistical Society B 58 (1996), for importances from an l1 penalty.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from gpuml.feature_selection import SelectFromModel
    >>> from gpuml.linear_model import Lasso
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> SelectFromModel(Lasso(0.8)).fit(X, y).get_feature_names_out()
    array(['bmi', 'bp', 's5'], dtype=object)
    """

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y=None, **fit_params) -> Self:
        """Fit the estimator.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets), default=None
        **fit_params
            Passed to `fit` of the estimator.

        Returns
        -------
        self : estimator

        Raises
        ------
        ValueError
            For input that the estimator rejects. A failed fit leaves the selector as it was.
        """
        with unchanged_on_error(self):
            theirs: Any = super(Transformer, self)
            theirs.fit(X, y, **fit_params)
        return self

    @property
    def threshold_(self):
        """The threshold as a number."""
        return self._at_host().threshold_

    def _get_support_mask(self):
        return self._at_host()._get_support_mask()

    def _at_host(self):
        """scikit-learn's selector of the same model, whose importances it gets in CPU memory."""
        twin = copy(self)
        twin.importance_getter = partial(importances, getter=self.importance_getter)
        return super(SelectFromModel, twin)


def importances(estimator: Any, getter: Any) -> Any:
    """Importances of the features of a fitted model, in CPU memory."""
    found = _get_feature_importances(estimator, getter)
    return to_host(found) if is_foreign(found) else found

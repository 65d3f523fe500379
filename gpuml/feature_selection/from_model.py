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
    r"""Select the features that are important to a model.

    Features j are kept whose importance reaches a threshold. The importance is that of the model's
    `feature_importances_`, or :math:`\|w_{\cdot j}\|` over the outputs of its `coef_`. Importances
    come to CPU memory; rows are fitted and transformed where they are.

    Parameters
    ----------
    estimator : estimator
        With `coef_` or `feature_importances_`; it is cloned, unless `prefit`.
    threshold : str or float, default=None
        A number, "mean", "median" or a multiple such as "1.25*mean". None is 1e-5 for models with
        an l1 penalty and "mean" for others.
    prefit : bool, default=False
        Whether the estimator is fitted already.
    norm_order : non-zero int, inf or -inf, default=1
        Order of the norm over the outputs.
    max_features : int or callable, default=None
        How many features to keep at most: a number, or a function of X. With ``threshold=-np.inf``
        it alone decides.
    importance_getter : str or callable, default="auto"
        Where importances are: an attribute, also of a step as in
        ``"named_steps.ridge.coef_"``, or a function of the fitted estimator.

    Attributes
    ----------
    estimator_ : estimator
        The fitted one.
    n_features_in_ : int
    max_features_ : int
        Only if `max_features` is given.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.
    threshold_ : float

    See Also
    --------
    RFE : Fits again after every elimination.
    SequentialFeatureSelector : Compares scores of held-out rows.

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
            For the estimator's `fit`.

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

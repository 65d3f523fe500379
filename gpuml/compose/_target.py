"""Regression of a transformed target, on the device of the rows."""

import warnings
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn import compose as sk
from sklearn.base import clone
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.metadata_routing import process_routing
from sklearn.utils.validation import check_is_fitted

from gpuml._arrays import (
    Array,
    as_array,
    is_array,
    is_foreign,
    move,
    namespace,
    place_of,
    to_host,
)
from gpuml._arrays.ops import all_true
from gpuml._inputs.foreign_rows import foreign_target
from gpuml._inputs.validation import check_finite, unchanged_on_error
from gpuml._persistence.travel import Travels
from gpuml._sklearn import _fit_context, _routing_enabled
from gpuml.exceptions import level_of_user
from gpuml.linear_model import LinearRegression
from gpuml.metrics.own_scores import ScoredByR2

# Of numpy.allclose, by which scikit-learn's class judges an inverse.
RTOL, ATOL = 1e-5, 1e-8


class TransformedTargetRegressor(ScoredByR2, Travels, sk.TransformedTargetRegressor):
    r"""Regression on a transformed target: :math:`g^{-1}(f(X))` with f fitted to X and g(y).

    Parameters, attributes and results are those of scikit-learn's class of this name, which does
    the work for data in CPU memory. Where X is an array of CuPy, torch or another library, y is
    brought to its device, and transformed there; predictions come back there.

    Parameters
    ----------
    regressor : regressor, default=None
        Is cloned. None is `gpuml.linear_model.LinearRegression`.
    transformer : transformer, default=None
        Of y as a matrix, such as `gpuml.preprocessing.StandardScaler`. Not with `func`.
    func, inverse_func : callable, default=None
        g and its inverse, of arrays of the library of X; a search may have brought those of NumPy
        to a GPU (see `gpuml.set_config`). NumPy's own functions (`numpy.log1p`) take CuPy arrays
        too, and leave them on the device. None for both is the identity.
    check_inverse : bool, default=True
        Whether `fit` warns if ``inverse_func(func(y))`` is not y.

    Attributes
    ----------
    regressor_ : regressor
        f.
    transformer_ : transformer
        g.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    Examples
    --------
    >>> import numpy as np
    >>> from gpuml.compose import TransformedTargetRegressor
    >>> from gpuml.linear_model import Ridge
    >>> X = np.arange(4.0).reshape(-1, 1)
    >>> model = TransformedTargetRegressor(Ridge(alpha=0), func=np.log, inverse_func=np.exp)
    >>> model.fit(X, np.exp(2 * X[:, 0])).predict([[0.5]]).round(3)
    array([2.718])
    """

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y, **fit_params) -> Self:
        """Fit the transformer to y, and the regressor to X and the transformed y.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
        **fit_params : dict
            For `fit` of the regressor.

        Returns
        -------
        self : TransformedTargetRegressor

        Raises
        ------
        ValueError
            For what scikit-learn's class and the regressor reject. A failed fit leaves the
            estimator as it was.
        """
        X, y = as_array(X), as_array(y)
        with unchanged_on_error(self):
            if is_foreign(X):
                return self._fit_there(X, y, fit_params)
            return super().fit(X, to_host(y) if is_foreign(y) else y, **fit_params)

    def _fit_there(self, X, y, fit_params) -> Self:
        y = _check_target(self, y, place_of(X))
        self._training_dim = y.ndim
        y = y if y.ndim == 2 else y[:, None]
        self._fit_transformer(y)
        y = self._flat(self.transformer_.transform(y))
        if _routing_enabled():
            fit_params = process_routing(self, "fit", **fit_params).regressor.fit
        self.regressor_ = self._get_regressor(get_clone=True).fit(X, y, **fit_params)
        return self

    def _fit_transformer(self, y):
        if not is_foreign(y):
            super()._fit_transformer(y)
            return
        self.transformer_ = self._new_transformer().fit(y)
        if self.check_inverse:
            some = y[:: max(1, y.shape[0] // 10), :]
            again = self.transformer_.inverse_transform(self.transformer_.transform(some))
            if not _all_close(some, move(again, place_of(y))):
                warnings.warn(
                    "The provided functions or transformer are not strictly inverse of each other. "
                    "If you are sure you want to proceed regardless, set 'check_inverse=False'",
                    UserWarning,
                    stacklevel=level_of_user(),
                )

    def _new_transformer(self):
        func, inverse = self.func, self.inverse_func
        if self.transformer is not None:
            if func is not None or inverse is not None:
                raise ValueError(
                    "'transformer' and functions 'func'/'inverse_func' cannot both be set."
                )
            return clone(self.transformer)
        if (func is None) != (inverse is None):
            lacking, given = ("func", "inverse_func")[:: 1 if func is None else -1]
            raise ValueError(
                f"When '{given}' is provided, '{lacking}' must also be provided. If {lacking} is "
                "supposed to be the default, you need to explicitly pass it the identity function."
            )
        # The target is no DataFrame, whatever the global setting of outputs is.
        return FunctionTransformer(func, inverse, check_inverse=False).set_output(
            transform="default"
        )

    def predict(self, X, **predict_params):
        """Predict with the regressor, and transform back.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        **predict_params : dict
            For `predict` of the regressor.

        Returns
        -------
        y_hat : array of shape (n_samples,) or (n_samples, n_targets)
            In the library and on the device of X.
        """
        check_is_fitted(self)
        X = as_array(X)
        if not is_foreign(X):
            return super().predict(X, **predict_params)
        if _routing_enabled():
            predict_params = process_routing(self, "predict", **predict_params).regressor.predict
        y = self.regressor_.predict(X, **predict_params)
        y = y if y.ndim == 2 else y[:, None]
        return self._flat(move(self.transformer_.inverse_transform(y), place_of(X)))

    def _flat(self, y: Array) -> Array:
        return y[:, 0] if self._training_dim == 1 and y.ndim == 2 and y.shape[1] == 1 else y

    def _get_regressor(self, get_clone=False):
        if self.regressor is not None:
            return super()._get_regressor(get_clone)
        model = LinearRegression()
        return model.set_fit_request(sample_weight=True) if _routing_enabled() else model


def _check_target(estimator: Any, y: Any, place: Any) -> Array:
    """Target as floats (n,) or (n, t) at a place, or scikit-learn's error."""
    if y is None:
        raise ValueError(
            f"This {type(estimator).__name__} estimator requires y to be passed, but the target y "
            "is None."
        )
    if sparse.issparse(y):
        raise TypeError("Sparse y was passed, but dense data is required. Use y.toarray().")
    y = y if is_array(y) else np.asarray(y)
    if y.ndim == 0:
        raise TypeError("y is a single number, expected one for each row.")
    if 0 in y.shape:
        raise ValueError(f"y must hold one row or more of targets, got shape {tuple(y.shape)}.")
    y = foreign_target(y, place)
    check_finite(y, "y", estimator)
    return y


def _all_close(a: Array, b: Array) -> bool:
    xp = namespace(a, b)
    return all_true(xp.abs(a - b) <= ATOL + RTOL * xp.abs(b), xp)

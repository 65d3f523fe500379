"""scikit-learn's displays of predictions, also for models and data on devices."""

from functools import wraps
from typing import Any

import numpy as np
import sklearn.calibration as sk_calibration
import sklearn.metrics as sk
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from gpuml._arrays import as_array, namespace
from gpuml.data import take
from gpuml.metrics._host import is_unreadable, on_host

RESPONSES = ("predict", "predict_proba", "predict_log_proba", "decision_function")


class _Model:
    """A fitted model whose answers and classes come as NumPy arrays.

    With `X`, methods take numbers of its rows in place of rows.
    """

    def __init__(self, model, X=None):
        self._model = model
        self._X = X

    @property  # type: ignore[misc]  # of `object`, where it can be set as well
    def __class__(self):
        # scikit-learn writes the name of the class into legends and errors.
        return type(self._model)

    def __getattr__(self, name):
        value = getattr(self._model, name)
        if name == "classes_":
            return on_host(value)
        if name not in RESPONSES:
            return value

        @wraps(value)
        def response(rows):
            if self._X is not None:
                rows = take(self._X, rows, namespace(self._X))
            return on_host(value(rows))

        return response

    def __sklearn_tags__(self):
        return get_tags(self._model)

    def __sklearn_is_fitted__(self):
        check_is_fitted(self._model)
        return True


class _FromDevice:
    """Of a display that brings labels, weights and answers to CPU memory, and X never."""

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any, **options: Any) -> Any:
        """Draw the predictions of a fitted model for X, on its device; see scikit-learn's class.

        Parameters
        ----------
        estimator : fitted estimator
            Of any library that has scikit-learn's methods.
        X : array-like of shape (n_samples, n_features)
            What the model takes; it stays where it is.
        y : array-like of shape (n_samples,)
            The truth, of any array library and device.
        **options : dict
            As for scikit-learn's class of this name; arrays such as `sample_weight` may be on a
            device.

        Returns
        -------
        display : object
            scikit-learn's display, which has drawn.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        ValueError, TypeError, sklearn.exceptions.NotFittedError
            As of scikit-learn's class.
        """
        brought = _on_host(options)
        return super().from_estimator(_Model(estimator), X, on_host(y), **brought)  # type: ignore[misc]

    @classmethod
    def from_predictions(cls, y_true: Any, *predictions: Any, **options: Any) -> Any:
        """Draw answers that a model gave; see scikit-learn's class.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            The truth, of any array library and device.
        *predictions : array-like of shape (n_samples,)
            What was predicted, or how strongly: one array, of any array library and device.
        **options : dict
            As for scikit-learn's class of this name, which may name the predictions, too.

        Returns
        -------
        display : object
            scikit-learn's display, which has drawn.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        ValueError, TypeError
            As of scikit-learn's class.
        """
        brought = [on_host(each) for each in (y_true, *predictions)]
        return super().from_predictions(*brought, **_on_host(options))  # type: ignore[misc]


class _FromFolds(_FromDevice):
    """Of a display that draws a curve for each fold, too."""

    @classmethod
    def from_cv_results(cls, cv_results: Any, X: Any, y: Any, **options: Any) -> Any:
        """Draw the predictions of each fold's model for its held-out rows.

        Parameters
        ----------
        cv_results : dict
            What `gpuml.model_selection.cross_validate` gives with ``return_estimator=True`` and
            ``return_indices=True``.
        X : array-like of shape (n_samples, n_features)
            All rows; they stay where they are.
        y : array-like of shape (n_samples,)
            The truth, of any array library and device.
        **options : dict
            As for scikit-learn's class of this name.

        Returns
        -------
        display : object
            scikit-learn's display, which has drawn.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        ValueError
            As of scikit-learn's class.
        """
        y, options = on_host(y), _on_host(options)
        if is_unreadable(X) and "estimator" in cv_results:
            # scikit-learn cannot cut these; their numbers it can.
            X = as_array(X)
            models = [_Model(model, X) for model in cv_results["estimator"]]
            cv_results, X = {**cv_results, "estimator": models}, np.arange(X.shape[0])
        return super().from_cv_results(cv_results, X, y, **options)  # type: ignore[misc]


def _on_host(options):
    return {name: on_host(value) for name, value in options.items()}


class RocCurveDisplay(_FromFolds, sk.RocCurveDisplay):
    """scikit-learn's ROC curves, also for models and data on a GPU.

    See `sklearn.metrics.RocCurveDisplay`: parameters, attributes and pictures are the same.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from gpuml.inspection import RocCurveDisplay
    >>> from gpuml.linear_model import LogisticRegression
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = LogisticRegression().fit(X, y)
    >>> round(RocCurveDisplay.from_estimator(model, X, y).roc_auc, 3)
    0.995
    """


class PrecisionRecallDisplay(_FromFolds, sk.PrecisionRecallDisplay):
    """scikit-learn's precision-recall curves, also for models and data on a GPU.

    See `sklearn.metrics.PrecisionRecallDisplay`: parameters, attributes and pictures are the same.

    Examples
    --------
    >>> from gpuml.inspection import PrecisionRecallDisplay
    >>> display = PrecisionRecallDisplay.from_predictions([0, 1, 1, 0], [0.1, 0.8, 0.6, 0.7])
    >>> round(float(display.average_precision), 3)
    0.833
    """


class DetCurveDisplay(_FromDevice, sk.DetCurveDisplay):
    """scikit-learn's detection error tradeoff (DET) curves, also for models and data on a GPU.

    See `sklearn.metrics.DetCurveDisplay`: parameters, attributes and pictures are the same.

    Examples
    --------
    >>> from gpuml.inspection import DetCurveDisplay
    >>> DetCurveDisplay.from_predictions([0, 1, 1, 0], [0.1, 0.8, 0.6, 0.7]).fnr.round(3)
    array([0. , 0.5, 0.5])
    """


class CalibrationDisplay(_FromDevice, sk_calibration.CalibrationDisplay):
    """scikit-learn's reliability diagrams, also for models and data on a GPU.

    See `sklearn.calibration.CalibrationDisplay`: parameters, attributes and pictures are the same.
    For held-out rows, draw the result of `cross_val_predict` with ``method="predict_proba"``.

    Examples
    --------
    >>> from gpuml.inspection import CalibrationDisplay
    >>> CalibrationDisplay.from_predictions([0, 1, 1, 0], [0.1, 0.8, 0.6, 0.7], n_bins=2).prob_true
    array([0.        , 0.66666667])
    """


class ConfusionMatrixDisplay(_FromDevice, sk.ConfusionMatrixDisplay):
    """scikit-learn's confusion matrices, also for models and data on a GPU.

    See `sklearn.metrics.ConfusionMatrixDisplay`: parameters, attributes and pictures are the same.

    Examples
    --------
    >>> from gpuml.inspection import ConfusionMatrixDisplay
    >>> ConfusionMatrixDisplay.from_predictions([0, 1, 1, 0], [0, 1, 0, 0]).confusion_matrix
    array([[2, 0],
           [1, 1]])
    """


class PredictionErrorDisplay(_FromDevice, sk.PredictionErrorDisplay):
    """scikit-learn's plots of predictions and residuals, also for models and data on a GPU.

    See `sklearn.metrics.PredictionErrorDisplay`: parameters, attributes and pictures are the same.

    Examples
    --------
    >>> import numpy as np
    >>> from gpuml.inspection import PredictionErrorDisplay
    >>> y, predicted = np.array([1.0, 2.0]), np.array([1.5, 2.0])
    >>> PredictionErrorDisplay.from_predictions(y, predicted).ax_.get_xlabel()
    'Predicted values'
    """

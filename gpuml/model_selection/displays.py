"""scikit-learn's displays of curves, whose models are fitted together."""

from typing import Any, Self

import numpy as np
from sklearn import model_selection as sk

from gpuml._sklearn import _validate_score_name, check_matplotlib_support
from gpuml.model_selection.curves import learning_curve, validation_curve

# Options of the picture; all others belong to the fits.
OF_THE_PICTURE = (
    *("ax", "errorbar_kw", "fill_between_kw", "line_kw", "negate_score", "score_type"),
    "std_display_style",
)


class _Batched:
    """Base of displays of training and held-out scores."""

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any, **options: Any) -> Self:
        """Fit models to parts of the rows, all together, and draw their scores.

        Parameters
        ----------
        estimator : estimator
            As all that follows, for gpuml's function that makes the curve.
        X : array-like of shape (n_samples, n_features)
            In any array library; device data stays on its device.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        **options : dict
            As for `from_estimator` of scikit-learn's class of this name, with the same defaults.

        Returns
        -------
        display : object
            After `plot`.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        ValueError
            For what gpuml's function rejects.
        """
        check_matplotlib_support(f"{cls.__name__}.from_estimator")
        picture = {name: options.pop(name) for name in OF_THE_PICTURE if name in options}
        score_name = _validate_score_name(
            options.pop("score_name", None),
            options.get("scoring"),
            picture.get("negate_score", False),
        )
        options["params"] = options.pop("fit_params", None)
        curve = cls._curve(estimator, X, y, options) | {"score_name": score_name}
        made: Any = cls(**curve)
        return made.plot(**picture)

    @staticmethod
    def _curve(estimator: Any, X: Any, y: Any, options: dict[str, Any]) -> dict[str, Any]:
        """The data of the display."""
        raise NotImplementedError


class LearningCurveDisplay(_Batched, sk.LearningCurveDisplay):
    """Plot a learning curve, as scikit-learn does; all training sizes are fitted together.

    See `sklearn.model_selection.LearningCurveDisplay`: parameters, attributes and pictures are the
    same. `from_estimator` calls gpuml's `learning_curve`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from gpuml.linear_model import Ridge
    >>> from gpuml.model_selection import LearningCurveDisplay
    >>> X, y = load_diabetes(return_X_y=True)
    >>> LearningCurveDisplay.from_estimator(Ridge(), X, y, train_sizes=[0.5, 1.0]).train_sizes
    array([176, 353])
    """

    @staticmethod
    def _curve(estimator, X, y, options):
        sizes, train, test = learning_curve(estimator, X, y, **options)
        return {"train_sizes": sizes, "train_scores": train, "test_scores": test}


class ValidationCurveDisplay(_Batched, sk.ValidationCurveDisplay):
    """Plot a validation curve, as scikit-learn does; all values are fitted together.

    See `sklearn.model_selection.ValidationCurveDisplay`: parameters, attributes and pictures are
    the same. `from_estimator` calls gpuml's `validation_curve`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from gpuml.linear_model import Ridge
    >>> from gpuml.model_selection import ValidationCurveDisplay
    >>> X, y = load_diabetes(return_X_y=True)
    >>> alphas = {"param_name": "alpha", "param_range": [0.1, 1.0, 10.0]}
    >>> ValidationCurveDisplay.from_estimator(Ridge(), X, y, **alphas).ax_.get_xscale()
    'log'
    """

    @staticmethod
    def _curve(estimator, X, y, options):
        train, test = validation_curve(estimator, X, y, **options)
        return {
            "param_name": options["param_name"],
            "param_range": np.asarray(options["param_range"]),
            "train_scores": train,
            "test_scores": test,
        }

"""What `score` of models is, evaluated where their predictions are."""

from typing import Any

from gpuml.metrics.classification import accuracy_score
from gpuml.metrics.regression import r2_score


class ScoredByAccuracy:
    """A mixin before scikit-learn's class: `score` of a classifier."""

    predict: Any
    # What `score` returns, so that a search can score all models at once.
    multifit_score: str | None = "accuracy"

    def score(self, X, y, sample_weight=None):
        """Share of rows, by weight, whose predicted label is right.

        Of several labels per row, all have to be right.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        score : float
        """
        return accuracy_score(y, self.predict(X), sample_weight=sample_weight)


class ScoredByR2:
    """A mixin before scikit-learn's class: `score` of a regressor."""

    predict: Any
    multifit_score: str | None = "r2"

    def score(self, X, y, sample_weight=None):
        """Coefficient of determination ``R^2 = 1 - sum w (y - f(X))^2 / sum w (y - mean)^2``.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        score : float
            At most 1; 0 for a model that always predicts the mean of y. Evaluated on the device of
            X; only this number comes to CPU memory.
        """
        return r2_score(y, self.predict(X), sample_weight=sample_weight)

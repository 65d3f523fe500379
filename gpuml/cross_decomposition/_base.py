"""What the classes share: rows that become moments, and projections of rows."""

from typing import Any, ClassVar, Self

from sklearn.base import TransformerMixin
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from gpuml._arrays import Array, as_array, is_foreign, move, namespace, place_of
from gpuml._inputs.output import as_asked
from gpuml._inputs.validation import FLOATS, check_images, check_predict, check_rows_finite
from gpuml._persistence.travel import Travels
from gpuml._settings.config import current_settings
from gpuml._sklearn import check_same_namespace
from gpuml.cross_decomposition._models import fitted_models
from gpuml.data import Batch, Folds
from gpuml.linear_model._base import LinearPredictor, OnePass, describe_rows
from gpuml.linear_model._input import multifit_batch
from gpuml.solvers.described import Described


class Projections(Travels, TransformerMixin):
    """Scores of rows, and of targets."""

    _numeric_strings = "everywhere"

    # Of these products are made.
    _turns: ClassVar[tuple[str, str]] = ("x_rotations_", "y_rotations_")

    def _projected(self, X, y):
        check_is_fitted(self)
        X = as_array(X)
        check_same_namespace(X, self, attribute="x_weights_", method="transform")
        foreign = is_foreign(X)
        X = check_predict(self, X)
        x_turn, y_turn = (getattr(self, name) for name in self._turns)
        x_scores = _scores(X, self._x_mean, self._x_std, x_turn)
        x_scores = as_asked(self, x_scores) if foreign else x_scores
        if y is None:
            return x_scores
        y = as_array(y)
        if not is_foreign(y):
            y = check_array(y, input_name="y", ensure_2d=False, dtype=FLOATS)
        y, xp = move(y, place_of(X)), namespace(X)
        y = xp.astype(y[:, None] if y.ndim == 1 else y, X.dtype)
        return x_scores, _scores(y, self._y_mean, self._y_std, y_turn)


def beside(values: Array, like: Array) -> Array:
    """Fitted arrays where rows are, of their dtype."""
    place = place_of(like)
    return place.xp.astype(move(as_array(values), place), like.dtype, copy=False)


def _scores(rows, mean, std, turn):
    return ((rows - beside(mean, rows)) / beside(std, rows)) @ beside(turn, rows)


def described_rows(estimator: Any, folds: Folds, advance: Any = None) -> Described:
    """Moments of the rows, or, of fewer rows than features, what reads the rows themselves."""
    if folds.batch.n_features <= folds.batch.n_rows or folds.frame is not None:
        return describe_rows(estimator, folds, advance, by_features=True)
    factors = folds.known.setdefault("factors", {})
    block_bytes = current_settings().block_bytes
    return Described(folds, None, None, block_bytes, True, n_passes=0, factors=factors)


class LatentStructure(Projections, LinearPredictor, OnePass):
    """A regression on pairs of directions; before scikit-learn's class, with its parameters."""

    _keeps_scores: ClassVar[bool] = False

    def fit(self, X, y) -> Self:  # type: ignore[override]
        """Fit the model.

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
            For input that scikit-learn's class rejects, such as too many components. A failed fit
            leaves the estimator as it was.

        Warns
        -----
        ConvergenceWarning
            If `max_iter` was too small for `tol`.
        """
        return super().fit(X, y)

    def transform(self, X, y=None, copy=True):
        """Compute scores of rows, and of targets if given.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets), default=None
        copy : bool, default=True
            Has no effect: X and y are never written to.

        Returns
        -------
        x_scores : array of shape (n_samples, n_components)
            In the library and on the device of X.
        y_scores : array of shape (n_samples, n_components)
            Only with y.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            Before `fit`.
        ValueError
            If X has other features than in `fit`, or contains NaN or infinity.
        """
        return self._projected(X, y)

    def predict(self, X, copy=True):
        """Predict targets.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        copy : bool, default=True
            Has no effect: X is never written to.

        Returns
        -------
        y : array of shape (n_samples,) or (n_samples, n_targets)
            In the library and on the device of X.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            Before `fit`.
        ValueError
            If X has other features than in `fit`, or contains NaN or infinity.
        """
        check_is_fitted(self)
        X = as_array(X)
        check_same_namespace(X, self, attribute="coef_", method="predict")
        X = check_predict(self, X)
        found = (X - beside(self._x_mean, X)) @ beside(self.coef_, X).T
        found = found + beside(self.intercept_, X)
        return found[:, 0] if self._predict_1d else found

    def inverse_transform(self, X, y=None):
        """Map scores back to rows, and to targets if given.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
        y : array-like of shape (n_samples, n_components), default=None
            Scores of targets.

        Returns
        -------
        X_original : array of shape (n_samples, n_features)
            In the library and on the device of X.
        y_original : array of shape (n_samples, n_targets)
            Only with y.
        """
        check_is_fitted(self)
        found = self._rows_of(X, self.x_loadings_, self._x_std, self._x_mean)
        if y is None:
            return found
        return found, self._rows_of(y, self.y_loadings_, self._y_std, self._y_mean)

    def _rows_of(self, scores, loadings, std, mean):
        scores = as_array(scores)
        if not is_foreign(scores):
            scores = check_array(scores, input_name="X", dtype=FLOATS)
        scores = check_images(self, scores, loadings.shape[1])
        return scores @ beside(loadings, scores).T * beside(std, scores) + beside(mean, scores)

    def multifit_batch(self, X: Any, y: Any, sample_weight: Any = None) -> Batch:
        """Check the rows of a fit or a search and move them to their compute device."""
        return checked_batch(self, X, y)

    def multifit(self, folds, candidates, advance=None, start=None):
        """Fit every candidate on the training part of every split; see `LinearEstimator`."""
        fixed = {
            "canonical": self.deflation_mode == "canonical",
            "whitened": self.mode == "B",
            "algorithm": self.algorithm,
        }
        params = [
            fixed | {name: each.get(name, getattr(self, name)) for name in self.multifit_params}
            for each in candidates
        ]
        described = described_rows(self, folds, advance)
        return fitted_models(described, params, keeps_scores=self._keeps_scores)


def checked_batch(estimator: Any, X: Any, y: Any) -> Batch:
    """Rows with targets; what reads no sums of them checks whether they are finite."""
    batch = multifit_batch(estimator, X, y, None)
    if batch.n_features > batch.n_rows:
        check_rows_finite(batch, estimator)
    return batch

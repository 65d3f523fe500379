"""Ridge regression that chooses its penalty by cross-validation."""

import warnings
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn import linear_model as sk
from sklearn.metrics import check_scoring

from gpuml._arrays import Array, as_array, move, namespace, to_host
from gpuml._inputs.validation import unchanged_on_error
from gpuml._sklearn import _fit_context, _raise_for_params, _routing_enabled
from gpuml.data import Batch, whole
from gpuml.linear_model._base import LinearPredictor, describe_rows, multifit_batch
from gpuml.linear_model._cross_validation import (
    folds_of,
    held_out_scores,
    host_targets,
    numbers_in,
    regression_scorer,
)
from gpuml.linear_model._models import at_home
from gpuml.linear_model.ridge import Ridge
from gpuml.solvers.leave_one_out import leave_one_out


class RidgeCV(LinearPredictor, sk.RidgeCV):
    r"""Ridge regression with `alpha` chosen by cross-validation.

    Without `cv`, every row is held out once: the residual of a row that is left out follows from
    the fit of all rows, so that two passes over the rows give the leave-one-out errors of all
    alphas. With `cv`, all alphas are fitted on all splits in one pass, as
    ``GridSearchCV(Ridge(), {"alpha": alphas})`` does.

    Parameters
    ----------
    alphas : array-like of shape (n_alphas,), default=(0.1, 1.0, 10.0)
        Positive without `cv`, not negative with it.
    fit_intercept : bool, default=True
    scoring : str or callable, default=None
        None is the negative mean squared error without `cv`, R^2 with it. A callable of your own
        makes scikit-learn do the work, with host data.
    cv : int, splitter or iterable of index pairs, default=None
        None is leave-one-out.
    gcv_mode : {"auto", "svd", "eigen"}, default=None
        None, "auto" and "eigen" are the same; "svd" makes scikit-learn do the work, with host data.
    store_cv_results : bool, default=False
        Whether to keep the results of every row, only without `cv`.
    alpha_per_target : bool, default=False
        Whether every target chooses for itself, only without `cv`.

    Attributes
    ----------
    alpha_ : float or array of shape (n_targets,)
    best_score_ : float or array of shape (n_targets,)
        Score with `alpha_`.
    cv_results_ : array of shape (n_samples, n_alphas) or (n_samples, n_targets, n_alphas)
        Only with `store_cv_results`: weighted squared errors or, with `scoring`, predictions.
    coef_ : array of shape (n_features,) or (n_targets, n_features)
        This and the arrays above are in the library, on the device and of the dtype of X.
    intercept_ : float or array of shape () or (n_targets,)
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only where the columns of X have string names.

    See Also
    --------
    Ridge : With one alpha.

    References
    ----------
    D. M. Allen, "The relationship between variable selection and data augmentation and a method for
    prediction", Technometrics 16 (1974).

    Examples
    --------
    >>> import numpy as np
    >>> from gpuml.linear_model import RidgeCV
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> float(RidgeCV().fit(X, X @ [1.0, 2.0, 0.0]).alpha_)
    0.1
    """

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None, **params) -> Self:
        """Choose alpha and fit.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
        sample_weight : float or array-like of shape (n_samples,), default=None
            Weights of fits and of scores.
        **params : dict
            For scikit-learn's metadata routing; where it is enabled, scikit-learn does the work.

        Returns
        -------
        self : RidgeCV

        Raises
        ------
        ValueError
            For input that scikit-learn's RidgeCV rejects, and for device data with parameters that
            need host data. A failed fit leaves the estimator as it was.

        Warns
        -----
        UserWarning
            If some score is nan, such as that of a held-out part without weight; such an alpha is
            chosen only if all are.
        """
        with unchanged_on_error(self):
            _raise_for_params(params, self, "fit")
            X = as_array(X)
            reason = self._needs_host(X)
            if reason is not None:
                with host_targets(self, reason, X, y, sample_weight) as (y, weight):
                    super().fit(X, y, sample_weight=weight, **params)
                return self
            alphas = self._checked_alphas()
            batch = multifit_batch(self, X, y, sample_weight, numeric_strings=True)
            choose = self._by_leaving_one_out if self.cv is None else self._by_splits
            self.__dict__.update(choose(batch, alphas, X, y))
        return self

    def _needs_host(self, X):
        if sparse.issparse(X):
            return "sparse X"
        if self.gcv_mode == "svd" and self.cv is None:
            return "gcv_mode='svd'"
        if _routing_enabled():
            return "metadata routing"
        if self.scoring is not None and regression_scorer(self._scorer()) is None:
            return "this scoring"
        return None

    def _scorer(self):
        """The scorer that was asked for; by itself, R^2."""
        return check_scoring(estimator=self, scoring=self.scoring, allow_none=True)

    def _checked_alphas(self):
        if self.cv is not None:
            for name in ("store_cv_results", "alpha_per_target"):
                if getattr(self, name):
                    raise ValueError(f"cv!=None and {name}=True are incompatible")
        bounds = "neither" if self.cv is None else "left"
        return numbers_in(self.alphas, "alphas", bounds=bounds, name_of_one="alphas")

    def _by_splits(self, batch, alphas, X, y):
        folds = folds_of(self.cv, batch, X, y)
        model = Ridge(fit_intercept=self.fit_intercept)
        stack = model.multifit(folds, [{"alpha": alpha} for alpha in alphas])
        scores = held_out_scores(stack, folds, self._scorer())
        mean = scores.mean(axis=1)
        if np.isnan(mean).any():
            # As a search does: such a model is worse than every other.
            warnings.warn(
                f"One or more of the test scores are non-finite: {mean}", UserWarning, stacklevel=4
            )
        best = int(np.argmax(np.where(np.isnan(mean), -np.inf, mean)))
        return {
            **_model_only(stack.pick(best, None)),
            "alpha_": float(alphas[best]),
            "best_score_": mean[best],
        }

    def _by_leaving_one_out(self, batch, alphas, X, y):
        folds = whole(batch)
        left_out = _LeftOutTables(self, describe_rows(self, folds), alphas)
        scores = left_out.scores()  # (A,) or (A, t)
        best = np.argmax(scores, axis=0)
        per_target = scores.ndim == 2
        alpha = alphas[best]
        model = Ridge(alpha=alpha, fit_intercept=self.fit_intercept)
        fitted = _model_only(model.multifit(folds, [{}]).pick(0, 0))
        top = scores.max(axis=0)
        if per_target:
            fitted.update(alpha_=_to_home(alpha, batch), best_score_=_to_home(top, batch))
        else:
            fitted.update(alpha_=float(alpha), best_score_=float(top))
        if self.store_cv_results:
            fitted["cv_results_"] = left_out.results()
        return fitted


class _LeftOutTables:
    """What leave-one-out residuals say about every alpha."""

    def __init__(self, estimator: RidgeCV, described: Any, alphas: np.ndarray):
        self.estimator = estimator
        self.batch: Batch = described.folds.batch
        self.squares: list[Array] = []
        self.predictions: list[Array] = []
        xp = described.place.xp
        by_score = estimator.scoring is not None
        total = None
        for block in leave_one_out(described, alphas, bool(estimator.fit_intercept)):
            if by_score:
                self.predictions.append(block.y[None, ...] - block.residual)
                continue
            squares = block.residual**2
            if block.weight is not None:
                squares = squares * xp.astype(block.weight, xp.float64)[:, None]
            if estimator.store_cv_results:
                self.squares.append(squares)
            part = xp.sum(squares, axis=1)
            total = part if total is None else total + part
        self.total = total

    def scores(self) -> np.ndarray:
        """Scores (A,), or (A, t) where each target chooses for itself; on the host."""
        batch = self.batch
        each = self.estimator.alpha_per_target and batch.y.shape[1] > 1
        if self.total is not None:
            mean = -to_host(self.total) / batch.n_rows  # (A, t)
            return mean if each else mean.mean(axis=1)
        scorer = regression_scorer(self.estimator._scorer())
        assert scorer is not None
        predicted = self._joined(self.predictions)
        y, weight = move(batch.y, batch.work), move(batch.weight, batch.work)
        if not each:
            return to_host(scorer.from_predictions(y, predicted, weight))
        columns = [
            to_host(scorer.from_predictions(y[:, k : k + 1], predicted[..., k : k + 1], weight))
            for k in range(y.shape[1])
        ]
        return np.stack(columns, axis=1)

    def results(self) -> Array:
        """`cv_results_`: (n, A) or (n, t, A), at home."""
        table = self._joined(self.squares or self.predictions)  # (A, n, t)
        xp = namespace(table)
        table = xp.permute_dims(table, (1, 2, 0))
        return at_home(table[:, 0, :] if self.batch.y_is_flat else table, self.batch)

    @staticmethod
    def _joined(blocks):
        return blocks[0] if len(blocks) == 1 else namespace(blocks[0]).concat(blocks, axis=1)


def _model_only(attributes: dict[str, Any]) -> dict[str, Any]:
    return {name: attributes[name] for name in ("coef_", "intercept_")}


def _to_home(values: np.ndarray, batch: Batch) -> Array:
    """A few host numbers, float64, in the library and on the device of the user's X."""
    return move(np.ascontiguousarray(values), batch.home)

"""What generalised linear models share: a fit as a batch of one, prediction, D^2."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Self

from sklearn.utils.validation import check_is_fitted

from gpuml._arrays import Array, as_array, device_of, free_bytes, is_sparse, move, namespace
from gpuml._arrays.small_arrays import small_arrays
from gpuml._inputs.validation import check_fit, flat_target, unchanged_on_error
from gpuml._settings.config import current_settings
from gpuml._sklearn import _fit_context, check_same_namespace
from gpuml.data import Batch, Folds, resident, split_weights, whole
from gpuml.extending import MultifitEstimator
from gpuml.linear_model._base import LinearPredictor, linear_response, work_of_steps
from gpuml.linear_model._logistic_parameters import warn_if_stopped
from gpuml.linear_model._losses import Family, Problem, Strength
from gpuml.linear_model._models import Models, RegressionModels
from gpuml.linear_model._sparse_input import sparse_fit_batch, sparse_response
from gpuml.losses import Loss
from gpuml.metrics.regression import d2_tweedie_score
from gpuml.resampling.stand_ins import no_weight
from gpuml.solvers.loss_models import Options
from gpuml.solvers.sparse_rows import SparseBatch


def _nonzero(folds):
    """Rows (S,) of each training part whose target is not 0."""
    batch = folds.batch
    xp = batch.work.xp
    there = xp.astype(move(batch.y[:, 0], batch.work) != 0, xp.int64)
    times = split_weights(folds)
    return xp.sum(there)[None] if times is None else xp.sum(there * times, axis=-1)


class GeneralizedLinear(LinearPredictor, MultifitEstimator):
    """`fit`, `predict` and `score` of a model whose mean is a function of ``X w + b``.

    A subclass says its `loss`, the `power` and the `least_target`, and takes its parameters from
    scikit-learn's class of the same name.
    """

    loss: ClassVar[Loss]
    # Of the variance as a function of the mean, as deviances of Tweedie count them.
    power: ClassVar[float]
    least_target: ClassVar[float]

    # What `score` returns, so that a search can score all models at once.
    multifit_score = "d2_tweedie"
    # Hyper-parameters that may differ between candidates of the same passes over the rows.
    multifit_params = ("alpha", "fit_intercept")
    multifit_in_frames = True
    multifit_divided = True

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights.

        Returns
        -------
        self : estimator

        Raises
        ------
        ValueError
            For input that scikit-learn's class rejects. A failed fit leaves the estimator as it
            was.

        Warns
        -----
        ConvergenceWarning
            If `max_iter` passes were not enough.
        """
        with unchanged_on_error(self), small_arrays():
            folds = whole(self.multifit_batch(X, y, sample_weight))
            start = self._start(folds.batch) if self.warm_start else None
            self.__dict__.update(self._models(folds, [self._strength({})], start).pick(0, 0))
        return self

    def predict(self, X):
        """Predict the means of targets.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

        Returns
        -------
        y : array of shape (n_samples,)
            In the library and on the device of X.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            Before `fit`.
        ValueError
            If X has other features than the X of `fit`, or holds nan or inf.
        """
        check_is_fitted(self)
        X = as_array(X)
        check_same_namespace(X, self, attribute="coef_", method="predict")
        if is_sparse(X):
            margins = sparse_response(self, X, self.coef_, self.intercept_)
        else:
            margins = linear_response(self, X)
        return self.loss.mean(margins[None, :], namespace(margins))[0, :]

    def score(self, X, y, sample_weight=None):
        """Share of the deviance that is explained, ``D^2 = 1 - dev(y, f(X)) / dev(y, mean(y))``.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        score : float
            At most 1; 0 for a model that always predicts the mean of y. Evaluated on the device of
            X; only this number comes to the host.

        Raises
        ------
        ZeroDivisionError
            If y is constant.
        """
        power = self.power
        return d2_tweedie_score(y, self.predict(X), sample_weight=sample_weight, power=power)

    def multifit_obstacle(self, X: Any) -> str | None:
        """Why models are fitted one by one; None where a search can fit all at once."""
        return "warm_start=True" if self.warm_start else None

    def multifit_batch(self, X: Any, y: Any, sample_weight: Any = None) -> Batch:
        """Check the rows of a search and bring them to where they are worked on."""
        if is_sparse(X):
            batch: Batch = sparse_fit_batch(self, X, y, sample_weight)
        else:
            data = check_fit(self, X, y, sample_weight)
            batch = resident(*data, current_settings().device)
        if not batch.y_is_flat:
            y = flat_target(batch.y)
            if y.ndim > 1:
                raise ValueError(
                    f"y should be a 1d array, got an array of shape {tuple(y.shape)} instead."
                )
            batch = replace(batch, y_is_flat=True)
        self._check_range(batch.y)
        return batch

    def multifit_work(
        self, n_rows: int, n_features: int, n_targets: int, n_models: int
    ) -> tuple[int | None, float]:
        """Margins and gradients of all models in every step, of which some ten are needed."""
        return work_of_steps(n_rows, n_features, n_models)

    def multifit(
        self,
        folds: Folds,
        candidates: Sequence[Mapping[str, Any]],
        advance: Callable[[int], None] | None = None,
    ) -> Models:
        """Fit every candidate on the training part of every split, in the same passes.

        Parameters
        ----------
        folds : Folds
        candidates : sequence of dicts
            Values of `multifit_params`; what one leaves out is as on this estimator.
        advance : callable, optional
            Called with the number of rows read since the last call.

        Returns
        -------
        RegressionModels
        """
        return self._models(folds, [self._strength(each) for each in candidates], None, advance)

    def _models(self, folds, strengths, start, advance=None):
        """All models, with a warning of those that stopped early."""
        settings = current_settings()
        options = Options(
            tol=self.tol,
            max_iter=self.max_iter,
            newton=self.solver == "newton-cholesky",
            memory=settings.solver_bytes or free_bytes(folds.batch.work) // 4,
            block_bytes=settings.block_bytes,
        )
        problem = Problem(self._family, options, RegressionModels, self._attributes, flat_coef=True)
        return problem.models(folds, strengths, start, advance, partial(warn_if_stopped, self))

    def _family(self, folds: Folds) -> Family:
        """The loss, whose penalties are added to its mean."""
        counts = folds.total(_nonzero)
        rarest = int(namespace(counts).min(counts))
        return Family(self.loss, 1, rarest, no_weight(None), of_mean=True)

    def _attributes(self, models: Models, candidate: int, split: int) -> dict[str, Any]:
        """`n_iter_`, and scikit-learn's loss, which methods of its class ask."""
        return {
            "n_iter_": int(models.iterations_of(candidate, split)),
            "_base_loss": self._get_loss(),
        }

    def _strength(self, candidate: Mapping[str, Any]) -> Strength:
        alpha = float(candidate.get("alpha", self.alpha))
        return Strength(alpha, 0.0, bool(candidate.get("fit_intercept", self.fit_intercept)))

    def _check_range(self, y: Array) -> None:
        """Raise scikit-learn's ValueError for targets that the model cannot have."""
        least = self.least_target
        if y.shape[0] and bool(namespace(y).any(y < least)):
            raise ValueError(
                f"Some value(s) of y are out of the valid range of the loss {self.loss.name!r}: "
                f"they must be at least {least:g}."
            )

    def _start(self, batch: Batch) -> Any:
        """Coefficients (1, 1, 1, q) of the last fit, or None."""
        if getattr(self, "coef_", None) is None:
            return None
        coef = move(as_array(self.coef_), batch.work)
        n_features = batch.n_columns if isinstance(batch, SparseBatch) else batch.n_features
        if tuple(coef.shape) != (n_features,):
            raise ValueError(
                f"warm_start=True starts from coef_ of shape {tuple(coef.shape)}, but X has "
                f"{n_features} features. Use warm_start=False, or a clone of the estimator."
            )
        xp = batch.work.xp
        if isinstance(batch, SparseBatch) and batch.columns is not None:
            coef = xp.take(coef, batch.columns, axis=0)
        coef = xp.astype(coef, xp.float64)
        intercept = xp.full((1,), float(self.intercept_), dtype=xp.float64, device=device_of(coef))
        return xp.concat([coef, intercept])[None, None, None, :]

"""Base classes of models that minimise a loss step by step, and of generalised linear models."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from numbers import Real
from typing import Any, ClassVar

from sklearn import linear_model as sk
from sklearn.exceptions import ConvergenceWarning

from gpuml._arrays import (
    Array,
    Place,
    as_array,
    compute_place,
    free_bytes,
    is_array,
    move,
    namespace,
    nbytes,
)
from gpuml._settings.config import current_settings
from gpuml._sklearn import Interval, StrOptions
from gpuml.data import Batch, Folds, split_weights, without_features
from gpuml.exceptions import level_of_user
from gpuml.linear_model._base import LinearEstimator, LinearPredictor
from gpuml.linear_model._input import flat_batch
from gpuml.linear_model._losses import Family, Problem, Strength, fit_loss, words_before
from gpuml.linear_model._models import Models, RegressionModels
from gpuml.losses import Loss, tweedie
from gpuml.metrics.regression import deviance_explained
from gpuml.resampling.stand_ins import no_weight
from gpuml.solvers.lbfgs import Solved
from gpuml.solvers.loss_models import Options
from gpuml.solvers.sparse_rows import SparseBatch

# The number of steps of iterative solvers that `explain` assumes.
USUAL_STEPS = 10
# Texts of scikit-learn's warnings, which your filters and tests may match.
STOPPED = {
    "lbfgs": "lbfgs failed to converge after {n_iter} iteration(s)",
    "newton-cholesky": "Newton solver did not converge after {n_iter} iterations",
    "liblinear": "Liblinear failed to converge, increase the number of iterations",
    "saga": "The max_iter was reached which means the coef_ did not converge",
}


class LossEstimator(LinearEstimator):
    """An estimator that minimises a loss and a penalty, step by step.

    A subclass defines the loss of its targets (`_family`), the penalties of candidates
    (`_strengths`), and its fitted attributes besides `coef_` and `intercept_` (`_attributes`). It
    has the parameters `tol`, `max_iter` and `fit_intercept`, and may have `solver` and
    `warm_start`.
    """

    _takes_sparse = True
    _kind: ClassVar[type[Models]] = RegressionModels
    # See `Problem`.
    _fit_losses: ClassVar[Callable[..., Any]] = staticmethod(fit_loss)

    def _family(self, folds: Folds) -> Family:
        """The loss of these rows, and what else solvers need to know of the targets."""
        raise NotImplementedError

    def _strengths(self, candidates: Sequence[Mapping[str, Any]]) -> list[Strength]:
        """The penalties of candidates."""
        raise NotImplementedError

    def _attributes(self, models: Models, candidate: int, split: int) -> dict[str, Any]:
        """Fitted attributes besides `coef_` and `intercept_`; see `Models`."""
        raise NotImplementedError

    def multifit_levels(self, n_columns: int, X: Any) -> str | None:
        """The reason why categories with `n_columns` columns need dense columns, if any."""
        newton = getattr(self, "solver", None) == "newton-cholesky"
        return "newton-cholesky takes Hessians; leave solver at the default" if newton else None

    def multifit_work(
        self, n_rows: int, n_features: int, n_targets: int, n_models: int
    ) -> tuple[int | None, float]:
        """Work for margins and gradients of all models in every step, for about ten steps.

        With few rows, the solver steps in the space of the rows if that costs less, including the
        change to that space and back.
        """
        steps = USUAL_STEPS * 4.0 * n_rows * n_models
        there_and_back = float(n_rows) * n_features * (n_rows + 2.0 * n_models)
        return None, min(steps * n_features, there_and_back + steps * n_rows)

    def multifit_words(
        self, X: Any, y: Any, candidates: Sequence[Mapping[str, Any]], n_splits: int
    ) -> str:
        """A phrase for the plan if the solver will step in the space of the rows."""
        if not is_array(X) or X.shape[0] >= X.shape[1]:
            return ""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the fits warn about parameters
            strengths = self._strengths(candidates)
        place = compute_place(X, nbytes(X), current_settings().device)
        return words_before(X, place, *self._loss_of(y), strengths, n_splits, self._options(place))

    def _loss_of(self, y: Any) -> tuple[Loss, int]:
        """The loss for unchecked targets, and the number of vectors per model."""
        raise NotImplementedError

    def _options(self, place: Place) -> Options:
        """Options of the solver for rows at a place."""
        settings = current_settings()
        return Options(
            tol=self.tol,
            max_iter=self.max_iter,
            newton=getattr(self, "solver", None) == "newton-cholesky",
            memory=settings.solver_bytes or free_bytes(place) // 4,
            block_bytes=settings.block_bytes,
        )

    def multifit(self, folds, candidates, advance=None, start=None):
        """Fit every candidate on the training part of every split; see `LinearEstimator`."""
        options = self._options(folds.batch.work)
        # Regressors have one target, so their coefficients have one axis.
        flat = issubclass(self._kind, RegressionModels)
        rest = self._attributes, flat, self._fit_losses
        problem = Problem(self._family, options, self._kind, *rest)
        return problem.models(
            folds, self._strengths(candidates), start, advance, partial(warn_if_stopped, self)
        )

    def _start(self, batch: Batch) -> Any:
        """Coefficients (1, 1, k, q) of the last fit, or None."""
        if getattr(self, "coef_", None) is None:
            return None
        xp = batch.work.xp
        coef = move(as_array(self.coef_), batch.work)
        k = batch.n_classes if batch.n_classes > 2 else 1
        n_features = batch.n_columns if isinstance(batch, SparseBatch) else batch.n_features
        expected = (k, n_features) if batch.n_classes else (n_features,)
        if tuple(coef.shape) != expected:
            raise ValueError(
                f"Initialization coef is of shape {tuple(coef.shape)}, expected shape {expected}: "
                "warm_start=True starts from coef_, so X and y need the features and classes of "
                "the last fit. Use warm_start=False, or a clone of the estimator."
            )
        coef = xp.astype(xp.reshape(coef, (k, n_features)), xp.float64)
        if isinstance(batch, SparseBatch) and batch.columns is not None:
            coef = xp.take(coef, batch.columns, axis=1)
        level = self.intercept_ if self.fit_intercept else 0.0  # of the last fit, or none
        level = (
            move(as_array(level), batch.work)
            if is_array(level)
            else level * xp.ones_like(coef[:, 0])
        )
        W = xp.concat([coef, xp.astype(xp.reshape(level, (k, 1)), xp.float64)], axis=1)
        return W[None, None, ...]


class GeneralizedLinear(LinearPredictor, LossEstimator):
    """`predict` and `score` of a model whose mean is a function of ``X w + b``.

    A subclass sets `power`: the variance of targets grows with this power of their mean.
    """

    _numeric_strings = "everywhere"

    # The power of a Tweedie distribution.
    power: float

    @property
    def loss(self) -> Loss:
        """The loss of each row."""
        return tweedie(float(self.power), "log")

    _parameter_constraints: ClassVar[dict] = {
        **sk.PoissonRegressor._parameter_constraints,
        "l1_ratio": [Interval(Real, 0, 1, closed="both")],
        # scikit-learn also takes a class of its own solvers, for its tests.
        "solver": [StrOptions({"lbfgs", "newton-cholesky"})],
    }

    def __init__(
        self,
        *,
        alpha=1.0,
        fit_intercept=True,
        solver="lbfgs",
        max_iter=100,
        tol=1e-4,
        warm_start=False,
        verbose=0,
        l1_ratio=0.0,
    ):
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start
        self.verbose = verbose

    # The metric of `score`: a search scores all models with it at once.
    multifit_score = "d2_tweedie"
    # Parameters that may differ between candidates that share passes over the rows.
    multifit_params = ("alpha", "l1_ratio", "fit_intercept")

    def predict(self, X):
        """Predict the means of the targets.

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
            If X has other features than in `fit`, or contains NaN or infinity.
        """
        margins = super().predict(X)
        return self.loss.mean(margins[None, :], namespace(margins))[0, :]

    def score(self, X, y, sample_weight=None):
        """Fraction of deviance explained, ``D^2 = 1 - dev(y, f(X)) / dev(y, mean(y))``.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,) or float, default=None

        Returns
        -------
        score : float
            At most 1; 0 for a model that always predicts the mean of y. If y is constant, the score
            is nan for a perfect prediction and -inf otherwise. gpuml computes it on the device of
            X, and copies only this number to CPU memory.
        """
        return deviance_explained(y, self.predict(X), sample_weight, power=self.power)

    def multifit_batch(self, X: Any, y: Any, sample_weight: Any = None) -> Batch:
        """Check the rows of a fit or a search and move them to their compute device."""
        batch = flat_batch(self, X, y, sample_weight)
        self._check_range(batch.y)
        return batch

    def _loss_of(self, y: Any) -> tuple[Loss, int]:
        return self.loss, 1

    def _family(self, folds: Folds) -> Family:
        """The loss; penalties are added to its mean over the rows."""
        counts = folds.total(_nonzero)
        rarest = int(namespace(counts).min(counts))
        return Family(self.loss, 1, rarest, no_weight(None), of_mean=True)

    def _attributes(self, models: Models, candidate: int, split: int) -> dict[str, Any]:
        """`n_iter_`, and scikit-learn's loss, which methods of scikit-learn's class use."""
        return {
            "n_iter_": int(models.iterations_of(candidate, split)),
            "_base_loss": self._get_loss(),
        }

    def _strengths(self, candidates: Sequence[Mapping[str, Any]]) -> list[Strength]:
        values = (self._values(candidates, name) for name in self.multifit_params)
        return [
            Strength(float(alpha) * (1.0 - ratio), float(alpha) * ratio, bool(flag))
            for alpha, ratio, flag in zip(*values, strict=True)
        ]

    def _check_range(self, y: Array) -> None:
        """Raise scikit-learn's ValueError for targets outside the range of the loss."""
        if self.power <= 0 or not y.shape[0]:
            return
        positive = self.power >= 2
        if bool(namespace(y).any(y <= 0 if positive else y < 0)):
            least = "above 0" if positive else "at least 0"
            raise ValueError(
                f"Some value(s) of y are out of the valid range of the loss {self.loss.name!r}: "
                f"they must be {least}."
            )


@without_features
def _nonzero(folds):
    """How many rows of each training part have a target other than 0, (S,)."""
    batch = folds.batch
    xp = batch.work.xp
    there = xp.astype(move(batch.y[:, 0], batch.work) != 0, xp.int64)
    times = split_weights(folds)
    return xp.sum(there)[None] if times is None else xp.sum(there * times, axis=-1)


def warn_if_stopped(estimator: Any, solved: Solved) -> None:
    """Warn about models that did not converge in `max_iter` passes."""
    late = (solved.violation > estimator.tol) & ~solved.stalled
    if not late.any():
        return
    models = f" for {late.sum()} of {late.size} models" if late.size > 1 else ""
    solver = getattr(estimator, "solver", "liblinear")
    said = STOPPED.get(solver, STOPPED["lbfgs"]).format(n_iter=solved.n_iter[late].max())
    warnings.warn(
        f"{said}{models}: the largest component of a gradient is "
        f"{solved.violation[late].max():.2g}, above tol={estimator.tol:g}. Increase max_iter, "
        "scale the features (StandardScaler), or use a larger tol.",
        ConvergenceWarning,
        stacklevel=level_of_user(),
    )

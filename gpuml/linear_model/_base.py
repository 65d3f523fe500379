"""What linear estimators share: one way to fit, and the predictions of regressors."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self

from sklearn.utils.validation import check_is_fitted

from gpuml._arrays import (
    Array,
    as_array,
    is_cupyx_sparse,
    is_foreign,
    is_sparse,
    namespace,
    place_of,
    to_host,
)
from gpuml._arrays.ops import all_finite
from gpuml._arrays.small_arrays import small_arrays
from gpuml._arrays.threads import one_thread_for_few
from gpuml._inputs.host_rows import naming_columns
from gpuml._inputs.validation import check_rows_finite, unchanged_on_error
from gpuml._persistence.travel import Travels
from gpuml._settings.config import current_settings
from gpuml._sklearn import _fit_context, check_same_namespace
from gpuml.data import Batch, Folds, whole
from gpuml.divided.stored import StoredRows
from gpuml.extending import MultifitEstimator
from gpuml.linear_model._input import linear_response, multifit_batch
from gpuml.linear_model._models import Models
from gpuml.metrics.own_scores import ScoredByR2
from gpuml.solvers.described import Described, describe

# Fitted attributes that have a value for each target.
BY_TARGET = ("intercept_", "n_iter_", "dual_gap_")
Advance = Callable[[int], None]


class LinearEstimator(Travels, MultifitEstimator):
    """One way to fit: the rows become a batch, and one candidate is fitted to all of them.

    A subclass has scikit-learn's class of the same name behind it, whose parameters and
    fits in CPU memory it takes over. It defines `multifit`, and `multifit_batch` if it is no
    regressor.
    """

    # Values of `solver` that are ours, and scikit-learn's; others are cuML's. Empty: no choice.
    _own_solvers: ClassVar[tuple[str, ...]] = ()
    _sklearn_solvers: ClassVar[tuple[str, ...]] = ()
    _takes_sparse: ClassVar[bool] = False
    # The hint of errors: what to use if scikit-learn would have to fit rows on a device.
    _instead: ClassVar[str] = "other parameters"
    # Attributes that only fits of scikit-learn's have.
    _of_sklearn: ClassVar[tuple[str, ...]] = ()

    # `multifit` fits models to the output of affine steps.
    multifit_in_frames = True
    multifit_divided = True

    @_fit_context(prefer_skip_nested_validation=True)
    @one_thread_for_few
    def fit(self, X, y, sample_weight=None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or StoredRows
            Rows in files (`gpuml.read_parquet`) are read pass by pass; y and `sample_weight` may
            then be names of columns.
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets. Of classifiers labels: integers, strings, bools, or floats without a fraction.
        sample_weight : float or array-like of shape (n_samples,), default=None
            Non-negative weights.

        Returns
        -------
        self : estimator

        Raises
        ------
        ValueError
            For input that scikit-learn's class rejects, and for device data with parameters or
            targets that need data in CPU memory. A failed fit leaves the estimator as it was.
        MemoryError
            If a device has no room for even small blocks of rows.

        Warns
        -----
        ConvergenceWarning
            If `max_iter` was too small for `tol`.
        """
        if isinstance(X, StoredRows):
            return X.fit_model(self, y, sample_weight)
        with unchanged_on_error(self), small_arrays():
            X = as_array(X)
            reason = self._needs_sklearn(X, y)
            if reason is not None:
                self._fit_by_sklearn(reason, X, y, sample_weight)
                return self
            if self._is_ours:
                batch = self.multifit_batch(X, y, sample_weight)
                known = {"start": self._begin(batch)} if getattr(self, "warm_start", False) else {}
                fitted = self.multifit(whole(batch), [{}], **known).pick(0, 0)
            else:
                fitted = self._fitted_by_cuml(X, y, sample_weight)
            for name in self._of_sklearn:
                self.__dict__.pop(name, None)
            self.__dict__.update(fitted)
        return self

    def _begin(self, batch):
        """Where a fit with ``warm_start=True`` begins; no step of it would make nan a number."""
        start = self._start(batch)
        if start is not None and not all_finite(start, namespace(start)):
            raise ValueError(
                "warm_start=True starts from coef_ and intercept_, which hold nan or infinite "
                "values. Use warm_start=False, or a clone of the estimator."
            )
        return start

    def _start(self, batch: Batch) -> Array | None:
        """The last fit, as an array that `multifit` begins at; None if there was none."""
        raise NotImplementedError

    def _fitted_by_cuml(self, X: Any, y: Any, sample_weight: Any) -> dict[str, Any]:
        """Fitted attributes, with a solver of cuML."""
        raise NotImplementedError

    @property
    def _is_ours(self):
        return not self._own_solvers or self.solver in self._own_solvers

    def _needs_sklearn(self, X: Any, y: Any = None) -> str | None:
        """Why scikit-learn's own solver has to do this fit, or None where ours or cuML's can."""
        if not self._takes_sparse and is_sparse(X):
            return "sparse X"
        if getattr(self, "positive", False):
            return "positive=True"
        solver = getattr(self, "solver", None)
        return f"solver={solver!r}" if solver in self._sklearn_solvers else None

    def _fit_by_sklearn(self, reason, X, y, sample_weight, **others):
        if is_foreign(X) or is_cupyx_sparse(X):
            where, instead, there = "a GPU", "X.toarray()", "X.get()"
            if is_foreign(X):
                where, instead = str(place_of(X)), self._instead
                there = "NumPy arrays (cupy.asnumpy(X), X.cpu().numpy())"
            raise ValueError(
                f"{type(self).__name__} with {reason} runs scikit-learn's solver, which needs data "
                f"in CPU memory, and got X in {where}. Use {instead}, or pass {there}."
            )
        theirs: Any = next(c for c in type(self).__mro__ if c.__module__.startswith("sklearn."))
        y, weight = (
            to_host(a) if is_foreign(a) else a for a in (as_array(y), as_array(sample_weight))
        )
        weighted = {} if weight is None else {"sample_weight": weight}
        with naming_columns(self, X):
            theirs.fit(self, X, y, **weighted, **others)
        if getattr(self, "n_iter_", 0) is None:
            self.n_iter_ = 1
        self.__dict__.pop("status_", None)  # of a fit by us

    def multifit_obstacle(self, X: Any) -> str | None:
        """Why our own solver does not do the work; then models are fitted one by one."""
        if getattr(self, "warm_start", False):
            return "warm_start=True"
        return self._needs_sklearn(X) if self._is_ours else f"solver={self.solver!r}"

    def multifit_batch(self, X: Any, y: Any, sample_weight: Any = None) -> Batch:
        """Check the rows of a fit or a search and move them to their compute device."""
        return multifit_batch(self, X, y, sample_weight)

    def multifit(
        self,
        folds: Folds,
        candidates: Sequence[Mapping[str, Any]],
        advance: Advance | None = None,
        start: Any = None,
    ) -> Models:
        """Fit every candidate on the training part of every split, in the same passes.

        Parameters
        ----------
        folds : Folds
        candidates : sequence of dicts
            Values of `multifit_params`; what one leaves out is as on this estimator.
        advance : callable, optional
            Called with the number of rows read since the last call.
        start : optional
            Where to begin, from a fit with ``warm_start=True``.

        Returns
        -------
        RegressionModels or ClassModels

        Raises
        ------
        UnfittableSplits
            If some training parts cannot be fitted, such as those that lack a class.
        """
        raise NotImplementedError

    def multifit_columns(self, X: Any, Y: Any, sample_weight: Any = None) -> list[dict[str, Any]]:
        """Fitted attributes of a model for each column of Y (n, t), from one pass over the rows."""
        return self._of_columns(self.multifit_batch(X, Y, sample_weight))

    def _of_columns(self, batch: Batch) -> list[dict[str, Any]]:
        """Fitted attributes of a model of each column of a batch's targets."""
        found = self.multifit(whole(batch), [{}]).pick(0, 0)
        return [
            {name: _of_column(name, value, column) for name, value in found.items()}
            for column in range(batch.y.shape[1])
        ]

    def _values(self, candidates, name):
        """A parameter of each candidate."""
        return [candidate.get(name, getattr(self, name)) for candidate in candidates]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.array_api_support = self._is_ours and self._needs_sklearn(None) is None
        return tags


def _of_column(name, value, column):
    """The entry of a fitted attribute for one target; some attributes are shared."""
    each = isinstance(value, list) or getattr(value, "ndim", 0) > 0
    return (
        value[column, ...]
        if name == "coef_"
        else (value[column] if name in BY_TARGET and each else value)
    )


class OnePass(LinearEstimator):
    """An estimator that is fitted from moments, with estimates of its passes."""

    def multifit_rows(self, folds: Folds) -> int | None:
        """Rows that `multifit` reads: all of them once for each partition of the splits."""
        return len(folds.partitions) * folds.batch.n_rows

    def multifit_work(
        self, n_rows: int, n_features: int, n_targets: int, n_models: int
    ) -> tuple[int | None, float]:
        """One pass for the moments, and a small system for each model."""
        size = n_features + n_targets + 1
        return 1, 2.0 * n_rows * size**2 + n_models * size**3


class LinearPredictor(ScoredByR2, Travels):
    """`predict` and `score` of a model with `coef_` and `intercept_`."""

    def predict(self, X):
        """Predict targets.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)

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
        # Only with scikit-learn's array-API dispatch on, and then by its rule: no mixing.
        check_same_namespace(X, self, attribute="coef_", method="predict")
        return linear_response(self, X)


def describe_rows(
    estimator: Any,
    folds: Folds,
    advance: Advance | None = None,
    *,
    careful: bool = False,
    by_features: bool = False,
) -> Described:
    """Describe rows whose finiteness was not looked at: sums over them tell for free.

    `careful` asks for solutions from factors of the rows whatever the condition number,
    `by_features` for moments even where there are more features than rows.
    """
    block_bytes = current_settings().block_bytes
    described = describe(
        folds, block_bytes=block_bytes, advance=advance, careful=careful, by_features=by_features
    )
    check_sums(described, folds.batch, estimator)
    return described


def check_sums(described: Described, batch: Batch, estimator: Any) -> None:
    """Raise a ValueError if sums over rows are not finite, which names the columns at fault."""
    if described.is_finite:
        return
    check_rows_finite(batch, estimator)
    raise ValueError(
        "Squares of the values of X or y overflow float64. Scale the features and targets "
        "(StandardScaler, or divide by a power of ten)."
    )

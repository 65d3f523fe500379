"""The multifit protocol: what an estimator offers so that a search fits all models at once."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from sklearn.base import clone

from gpuml._arrays import Array
from gpuml.data import Batch, Folds
from gpuml.metrics.residuals import ResidualMoments


class Stack(Protocol):
    """All models of a group, on the compute device, and the passes over the rows they took."""

    n_candidates: int
    n_passes: int

    def pick(self, candidate: int, split: int | None) -> dict[str, Any]:
        """Fitted attributes of one model; split None means the model of all rows."""


@runtime_checkable
class RegressionStack(Stack, Protocol):
    """A stack of models that predict numbers."""

    def predict(self, X: Array, split: int, candidates: slice) -> Array:
        """Predictions (C, m) or (C, m, t) of some candidates of one split for rows X (m, p)."""

    def residual_moments(self, part: str) -> tuple[ResidualMoments, Array] | None:
        """Sums of residuals (C, S) over "train" or "test" rows, and a mask of those to be trusted.

        None where they are not to be had without predictions.
        """


@runtime_checkable
class ClassStack(Stack, Protocol):
    """A stack of classifiers of the classes of its batch."""

    def decision(self, X: Array, split: int, candidates: slice) -> Array:
        """Decision values for rows X (m, p): (C, m) for two classes, (C, m, k) for more."""

    def probability(self, decision: Array) -> Array | None:
        """Probabilities (C, m, k) of such decision values; None for models that have none."""


@runtime_checkable
class MultifitEstimator(Protocol):
    """An estimator that fits many candidates on many splits in one call.

    A law holds for every one: `multifit` and one fit at a time agree.
    """

    multifit_params: Sequence[str]

    def multifit_ready(self, X: Any) -> bool:
        """Whether these parameters and this kind of data can be fitted at once."""

    def multifit_batch(self, X: Any, y: Any, sample_weight: Any = None) -> Batch:
        """Check rows and bring them to where they are worked on.

        The batch serves estimators with other parameters too.
        """

    def multifit_rows(self, folds: Folds) -> int | None:
        """Rows that `multifit` is going to read, all passes counted; None where nobody knows."""

    def multifit(
        self,
        folds: Folds,
        candidates: Sequence[Mapping[str, Any]],
        advance: Callable[[int], None] | None = None,
    ) -> Stack:
        """Fit every candidate on the training part of every split."""


# What a subclass may do in its own way; then it is not what its parent fits at once.
FITS_AND_PREDICTIONS = (
    *("fit", "predict", "decision_function", "predict_proba", "predict_log_proba"),
    *("fit_transform", "transform", "partial_fit"),
)


def offers(estimator: Any, protocol: type, method: str) -> bool:
    """Whether an estimator offers a protocol, and has not redefined what its `method` stands for.

    A user's subclass with a `fit` or `predict` of its own inherits `multifit`, which knows nothing
    of it.
    """
    if not isinstance(estimator, protocol):
        return False
    for kind in type(estimator).__mro__:
        if method in vars(kind):
            return True
        own = kind.__module__.partition(".")[0] == __name__.partition(".")[0]
        if not own and any(name in vars(kind) for name in FITS_AND_PREDICTIONS):
            return False
    return True


def offers_multifit(estimator: Any) -> bool:
    """Whether `multifit` fits what an estimator's `fit` fits."""
    return offers(estimator, MultifitEstimator, "multifit")


def materialise(estimator: Any, params: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
    """A fitted copy of an estimator from attributes that `Stack.pick` gave.

    `estimator` is the one whose `multifit_batch` looked at the rows: number and names of features
    are its. One of several steps puts them together itself, with ``multifit_model(params,
    attributes)``.
    """
    if hasattr(estimator, "multifit_model"):
        return estimator.multifit_model(params, attributes)
    model = clone(estimator).set_params(**params)
    seen = {
        n: v for n, v in vars(estimator).items() if n in ("n_features_in_", "feature_names_in_")
    }
    vars(model).update({**seen, **attributes})
    return model

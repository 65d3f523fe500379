"""What linear models say of rows, without any of the rows that they were fitted to."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol, TypeVar

from gpuml._arrays import Array, Place, is_sparse, move, namespace
from gpuml.data import Folds
from gpuml.designs._sparse_ops import times
from gpuml.designs.sparse import float64_matrix
from gpuml.linear_model._classifier import softmax, two_class_probability
from gpuml.losses import POISSON, Loss
from gpuml.metrics.residuals import ResidualMoments
from gpuml.solvers.sparse_rows import SparseBatch

Kind = TypeVar("Kind", bound="Responses")


@dataclass(frozen=True)
class Responses:
    """Models of C candidates on S splits.

    Attributes
    ----------
    coef : array (C, S, t, p)
    intercept : array (C, S, t)
    """

    coef: Array
    intercept: Array

    @property
    def n_candidates(self) -> int:
        return self.coef.shape[0]

    def to(self: Kind, place: Place) -> Kind:
        """The same models at a place."""
        return replace(self, coef=move(self.coef, place), intercept=move(self.intercept, place))

    def joined(self: Kind, others: Sequence[Kind], order: Array) -> Kind:
        """These candidates and those of others, in an order."""
        parts = [self, *others]
        names = [f.name for f in fields(self) if f.name in ("coef", "intercept")]
        xp = namespace(self.coef)
        return replace(
            self,
            **{n: xp.take(xp.concat([getattr(p, n) for p in parts]), order, axis=0) for n in names},
        )


def _margins(X, coef, intercept):
    """Margins (C, k, m) of models (C, k, p) and (C, k) for rows (m, p), dense or sparse."""
    xp = namespace(coef)
    n_candidates, k, p = coef.shape
    A = xp.reshape(coef, (n_candidates * k, p))
    values = times(X, A.T).T if is_sparse(X) else A @ X.T
    return xp.reshape(values + xp.reshape(intercept, (-1, 1)), (n_candidates, k, X.shape[0]))


def _margins64(models, X, split, candidates):
    """Margins (C, k, m) of some candidates of one split, float64."""
    xp = namespace(models.coef)
    X = float64_matrix(X) if is_sparse(X) else xp.astype(X, xp.float64, copy=False)
    return _margins(X, *(a[candidates, split, ...] for a in (models.coef, models.intercept)))


@dataclass(frozen=True)
class Predictions(Responses):
    """Models that predict numbers: (C, m) where y was `flat`, else (C, m, t)."""

    flat: bool = True

    def predict(self, X: Array, split: int, candidates: slice) -> Array:
        """Predictions of some candidates of one split for rows X (m, p), float64."""
        out = _margins64(self, X, split, candidates)
        return out[:, 0, :] if self.flat else namespace(out).matrix_transpose(out)


@dataclass(frozen=True)
class Indications(Predictions):
    """Models that predict indicators of classes."""

    flat: bool = False

    def decision(self, X: Array, split: int, candidates: slice) -> Array:
        """Decision values (C, m), or (C, m, k), of some candidates of one split."""
        values = self.predict(X, split, candidates)
        return values[..., 0] if values.shape[-1] == 1 else values

    def probability(self, decision: Array) -> None:
        """Least squares knows no probabilities."""
        return


@dataclass(frozen=True)
class Logits(Responses):
    """Logistic models, of one vector (two classes) or one for each class."""

    def decision(self, X: Array, split: int, candidates: slice) -> Array:
        """Decision values (C, m), or (C, m, k), of some candidates of one split for rows (m, p)."""
        xp = namespace(self.coef)
        coef = xp.astype(self.coef[candidates, split, ...], X.dtype)  # (C, k, p)
        scores = _margins(X, coef, xp.astype(self.intercept[candidates, split, ...], X.dtype))
        return scores[:, 0, :] if scores.shape[1] == 1 else xp.matrix_transpose(scores)

    def probability(self, decision: Array) -> Array:
        """Probabilities (C, m, k) of decision values."""
        xp = namespace(decision)
        return two_class_probability(decision, xp) if decision.ndim == 2 else softmax(decision, xp)


@dataclass(frozen=True)
class Means(Responses):
    """Models that predict the mean of a target, by the inverse link of their loss."""

    loss: Loss = POISSON

    def predict(self, X: Array, split: int, candidates: slice) -> Array:
        """Predictions (C, m) of some candidates of one split for rows X (m, p), float64."""
        margins = _margins64(self, X, split, candidates)
        return self.loss.mean(margins, namespace(margins))[:, 0, :]


# ---------------------------------------------------------------- what a search asks


class _Models(Protocol):
    """Models of all candidates on all splits, as a search has them."""

    @property
    def folds(self) -> Folds:
        """The rows that they were fitted to."""

    @property
    def responses(self) -> Any:
        """What they say of rows."""


def _rows(models, X):
    """Rows as they are, or by their numbers (m, 1) where they are sparse."""
    batch = models.folds.batch
    return batch.rows(X) if isinstance(batch, SparseBatch) else X


class Predicting:
    """Models of numbers; a mixin for records with `folds` and `responses`."""

    def predict(self: _Models, X: Array, split: int, candidates: slice) -> Array:
        """Predictions (C, m, t), or (C, m), of some candidates of one split for rows (m, p)."""
        return self.responses.predict(_rows(self, X), split, candidates)

    def residual_moments(self, part: str) -> tuple[ResidualMoments, Array] | None:
        """Sums of residuals over "train" or "test" rows, where the models' own sums tell them."""
        return None


class Classifying:
    """Models of classes; a mixin for records with `folds` and `responses`."""

    def decision(self: _Models, X: Array, split: int, candidates: slice) -> Array:
        """Decision values (C, m), or (C, m, k), of some candidates of one split for rows (m, p)."""
        return self.responses.decision(_rows(self, X), split, candidates)

    def probability(self: _Models, decision: Array) -> Array | None:
        """Probabilities (C, m, k) of decision values; None where models know none."""
        return self.responses.probability(decision)

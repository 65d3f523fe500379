"""What linear models say of rows, without any of the rows that they were fitted to."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TypeVar

from gpuml._arrays import Array, Place, is_sparse, move, namespace
from gpuml.designs._sparse_ops import times
from gpuml.designs.sparse import float64_matrix
from gpuml.linear_model._classifier import softmax, two_class_probability
from gpuml.losses import POISSON, Loss

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


@dataclass(frozen=True)
class Predictions(Responses):
    """Models that predict numbers: (C, m) where y was `flat`, else (C, m, t)."""

    flat: bool = True

    def predict(self, X: Array, split: int, candidates: slice) -> Array:
        """Predictions of some candidates of one split for rows X (m, p), float64."""
        xp = namespace(X)
        coef = self.coef[candidates, split, ...]  # (C, t, p)
        n_candidates, t, p = coef.shape
        values = xp.astype(X, xp.float64, copy=False) @ xp.reshape(coef, (n_candidates * t, p)).T
        out = xp.reshape(values.T, (n_candidates, t, X.shape[0]))
        out = out + self.intercept[candidates, split, ..., None]
        return out[:, 0, :] if self.flat else xp.matrix_transpose(out)


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
        xp = namespace(self.coef)
        X = float64_matrix(X) if is_sparse(X) else xp.astype(X, xp.float64, copy=False)
        coef, intercept = (a[candidates, split, ...] for a in (self.coef, self.intercept))
        return self.loss.mean(_margins(X, coef, intercept), xp)[:, 0, :]

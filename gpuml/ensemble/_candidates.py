"""Scores of an ensemble after adding one more model, for all models together."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpuml._arrays import Array, as_array, is_array, is_numpy, move, namespace, place_of, to_host
from gpuml._arrays.labels import encode
from gpuml._arrays.ops import all_finite
from gpuml.metrics.residuals import ResidualMoments, residual_moments
from gpuml.metrics.scorer import BatchScorer, ClassBatchScorer, batch_scorer, get_scorer

# How many numbers of combined predictions to score together: as many as fit into the cache of a
# CPU, or keep a GPU busy.
NUMBERS_HERE, NUMBERS_ON_DEVICES = 2**20, 2**26

# Scores (c,) of c ensembles: models with `counts` (m,), and one more of each of some models (c,).
Judge = Callable[[np.ndarray, np.ndarray], np.ndarray]


def stacked(predictions: Any) -> tuple[Array, tuple[Any, ...]]:
    """Predictions as one float64 array (m, n) or (m, n, k), and the names of the models."""
    names: Any = None
    if isinstance(predictions, Mapping):
        names, predictions = tuple(predictions), list(predictions.values())
    if is_array(predictions):
        all_of = predictions
    else:
        each = [as_array(one) for one in predictions]
        each = [one if is_array(one) else np.asarray(one) for one in each]
        if not each or any(tuple(one.shape) != tuple(each[0].shape) for one in each):
            shapes = [tuple(one.shape) for one in each]
            raise ValueError(f"Predictions of all models must have one shape, got {shapes}.")
        # Move all predictions to the place of the first.
        place = place_of(each[0])
        all_of = place.xp.stack([move(one, place) for one in each])
    xp = namespace(all_of)
    if all_of.ndim not in (2, 3) or 0 in all_of.shape:
        raise ValueError(
            "predictions must be (n_models, n_samples), or have a third axis of classes or "
            f"targets, got {tuple(all_of.shape)}."
        )
    all_of = xp.astype(all_of, xp.float64, copy=False)
    if not all_finite(all_of, xp):
        raise ValueError("predictions contain NaN or infinity. Every model must predict every row.")
    return all_of, tuple(range(all_of.shape[0])) if names is None else names


def judge_of(scoring: Any, P: Array, y: Any, sample_weight: Any) -> Judge:
    """A function that scores ensembles of models with predictions P (m, n) or (m, n, k)."""
    place, y = place_of(P), as_array(y)
    y = y if is_array(y) else np.asarray(y)
    if y.ndim == 0:
        raise ValueError(f"y must be the targets of the predictions, got {y}.")
    if not isinstance(scoring, str) and not callable(scoring):
        raise ValueError(f"scoring must be a name, a scorer or a function, got {scoring!r}.")
    weight = None
    if sample_weight is not None:
        weight = move(np.asarray(sample_weight), place) if not is_array(sample_weight) else None
        weight = move(sample_weight, place) if weight is None else weight
        weight = place.xp.astype(weight, place.xp.float64)
    for name, values in (("y", y), ("sample_weight", weight)):
        if values is not None and values.shape[0] != P.shape[1]:
            raise ValueError(
                f"{name} has {values.shape[0]} rows, and predictions have {P.shape[1]}."
            )
    scorer = batch_scorer(get_scorer(scoring), has_decisions=False)
    if isinstance(scorer, ClassBatchScorer):
        return _OfClasses.of(scorer, P, y, weight)
    if isinstance(scorer, BatchScorer):
        y = move(y, place)
        if scorer.uses_moments and y.ndim == P.ndim - 1:
            return _FromSums.of(scorer, P, y, weight)
        return _ByRows(P, lambda some: scorer.from_predictions(y, some, weight))
    if isinstance(scoring, str) or hasattr(scoring, "_score_func"):
        raise ValueError(
            f"scoring={scoring!r} cannot score predictions without a model. Pass a function "
            "(y_true, prediction) that returns a larger number for better predictions."
        )
    options = {} if weight is None else {"sample_weight": weight}

    def one_by_one(some):
        return np.asarray([float(scoring(y, some[i, ...], **options)) for i in range(len(some))])

    return _ByRows(P, one_by_one)


@dataclass(frozen=True)
class _ByRows:
    """Scores computed from combined predictions of all rows."""

    predictions: Array
    score: Callable[[Array], Any]

    def __call__(self, counts: np.ndarray, some: np.ndarray) -> np.ndarray:
        P = self.predictions
        place = place_of(P)
        xp = place.xp
        there = move(counts.astype(np.float64), place)
        total = xp.tensordot(there, P, axes=1)
        numbers = NUMBERS_HERE if place.is_host else NUMBERS_ON_DEVICES
        size = max(1, numbers // max(1, int(np.prod(P.shape[1:]))))
        found = []
        for first in range(0, len(some), size):
            index = move(some[first : first + size], place)
            mixed = (total[None, ...] + xp.take(P, index, axis=0)) / (float(counts.sum()) + 1.0)
            scores = self.score(mixed)
            found.append(scores if is_numpy(scores) else to_host(scores))
        return np.concatenate(found)


class _OfClasses(_ByRows):
    """Scores of averaged probabilities of classifiers."""

    @classmethod
    def of(cls, scorer: ClassBatchScorer, P: Array, y: Array, weight: Array | None) -> "_OfClasses":
        labels = encode(y)
        codes, k = move(labels.codes, place_of(P)), labels.n_classes
        if k < 2 or (P.shape[2] != k if P.ndim == 3 else k > 2):
            raise ValueError(
                f"y has {k} classes: predictions must be probabilities (n_models, n_samples, {k})"
                f"{', or those of the second class' if k == 2 else ''}, got {tuple(P.shape)}."
            )
        xp = namespace(P)

        def score(some):
            if scorer.response == "labels":
                if some.ndim == 3:
                    response = xp.argmax(some, axis=-1)
                else:
                    response = xp.astype(some > 0.5, xp.int64)
            elif some.ndim == 2:
                response = xp.stack([1.0 - some, some], axis=-1)
            else:
                response = some
            return scorer.from_responses(codes, response, weight, labels.host_classes)

        return cls(P, score)


@dataclass(frozen=True)
class _FromSums:
    """Scores of residuals, computed from the products of the residuals of each pair of models.

    The residuals of an ensemble are the mean of those of its models, so that one pass over the rows
    serves all steps.

    Attributes
    ----------
    scorer : BatchScorer
    known : ResidualMoments
        Moments of the residuals of the m models, in CPU memory.
    products : ndarray (t, m, m)
        ``sum w r_i r_j``.
    """

    scorer: BatchScorer
    known: ResidualMoments
    products: np.ndarray

    @classmethod
    def of(cls, scorer: BatchScorer, P: Array, y: Array, weight: Array | None) -> "_FromSums":
        xp = namespace(P)
        known = residual_moments(y, P, weight)
        sums = {name: to_host(a) for name, a in vars(known).items() if name != "n_rows"}
        y = xp.astype(y, xp.float64)
        P, y = (P[..., None], y[:, None]) if P.ndim == 2 else (P, y)
        total: Any = 0.0
        size = max(1, NUMBERS_HERE // (P.shape[0] * P.shape[2]))
        for first in range(0, P.shape[1], size):
            rows = slice(first, min(first + size, P.shape[1]))
            R = xp.permute_dims(y[None, rows, :] - P[:, rows, :], (2, 0, 1))  # (t, m, b)
            weighted = R if weight is None else R * weight[rows]
            total = total + weighted @ xp.matrix_transpose(R)
        return cls(scorer, replace(known, **sums), to_host(total))

    def __call__(self, counts: np.ndarray, some: np.ndarray) -> np.ndarray:
        G, size = self.products, counts.sum() + 1.0
        G_counts = G @ counts  # (t, m)
        own = np.diagonal(G, axis1=1, axis2=2)
        squared = (G_counts @ counts)[:, None] + 2.0 * G_counts + own
        residual = counts @ self.known.residual + self.known.residual  # (m, t)
        moments = ResidualMoments(
            weight=self.known.weight,
            residual=residual[some] / size,
            squared=np.maximum(squared.T[some], 0.0) / size**2,
            target=self.known.target,
            n_rows=self.known.n_rows,
        )
        return self.scorer.from_moments(moments)

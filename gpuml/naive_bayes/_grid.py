"""Grids of naive Bayes models: statistics of a fold are computed once for all candidates.

The sufficient statistics of these models are sums, or moments, of each class. One pass over the
rows computes them for each atom. Those of a training part are sums over its atoms, and give the
models of all candidates. One product with all models gives their predictions for held-out rows.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from math import isqrt
from typing import Any, Protocol

import numpy as np

from gpuml._arrays import Array, Place, device_of, is_sparse, move, namespace, place_of, to_host
from gpuml._settings.config import current_settings
from gpuml.data import (
    Batch,
    Folds,
    Partition,
    Rows,
    atoms_here,
    count_rows,
    resident_classes,
    take,
)
from gpuml.extending import ClassStack, MultifitEstimator
from gpuml.naive_bayes._input import Labelled, values_of
from gpuml.naive_bayes._sums import ClassRows, rows_of_classes
from gpuml.resampling.stand_ins import refuse
from gpuml.solvers.sparse_rows import SparseBatch

# Size of the coefficients of the candidates that predict together.
MODEL_BYTES = 2**27


class Grid(MultifitEstimator):
    """Fits all candidates from sums over the rows of each class.

    Besides `multifit_params`, which do not change these sums, subclasses define:

    - `_labelled` and `_check_values`, which check rows and labels;
    - `_sums`, which computes the sums of rows;
    - `_joined`, which adds up such sums, each multiplied by a count;
    - either `_adopt`, which sets a model from sums, and `_joints`, the joint log likelihoods of
      several models, or `_fitted`, which does both for all candidates together.
    """

    multifit_divided = True

    # Parameters that do not affect shared results, such as logarithms of counts.
    _own_params: tuple[str, ...] = ()

    @property
    def _stack(self) -> "type[GridStack]":
        return GridStack

    _labelled: Callable[..., Labelled]
    _sums: Callable[..., Any]
    _joined: Callable[..., Any]
    _adopt: Callable[..., None]
    _joints: Callable[..., Array]

    def multifit_batch(self, X: Any, y: Any, sample_weight: Any = None) -> Batch:
        """Check the rows of a search; see `work_place` for the compute device."""
        X, labels, weight = self._labelled(X, y, sample_weight)
        if not is_sparse(X):
            at = "cuda" if current_settings().device == "cuda" else "cpu"
            return resident_classes(X, labels, weight, at)
        place = place_of(values_of(X))
        xp = place.xp
        numbers = xp.arange(X.shape[0], dtype=xp.int64, device=place.device)[:, None]
        codes = move(labels.codes, place)
        return SparseBatch(
            *(numbers, codes[:, None], weight, place, place, True, codes, labels.classes),
            matrix=X,
            n_columns=X.shape[1],
        )

    def multifit_rows(self, folds: Folds) -> int:
        """Each row is read once for every partition of the splits."""
        return sum(count_rows(atom) for part in _partitions(folds) for atom in part.atoms)

    def multifit_work(
        self, n_rows: int, n_features: int, n_targets: int, n_models: int
    ) -> tuple[int, float]:
        """One pass, and the flops of sums and predictions; the number of classes is unknown."""
        return 1, 4.0 * n_rows * n_features * (1 + n_models)

    def multifit(
        self,
        folds: Folds,
        candidates: Sequence[Mapping[str, Any]],
        advance: Callable[[int], None] | None = None,
    ) -> "GridStack":
        """Fit every candidate on the training part of every split; see `MultifitEstimator`."""
        batch, partitions = folds.batch, _partitions(folds)
        models = [self._candidate(params) for params in candidates]
        for model in models:
            model._check_parameters(batch.n_classes)
        sums: list[list[Any]] = []
        counts, both = [], partial(_joined_atoms, self)
        for part in partitions:
            question = self, part.atoms, not sums
            found = batch.total(_sums_of_atoms, *question, combine=both, here=folds)
            sums.append(self._small([one for one, _ in found]))
            counts.append(to_host(namespace(found[0][1]).stack([count for _, count in found])))
            if advance is not None:
                advance(sum(count_rows(atom) for atom in part.atoms))
        refuse(_lacking(partitions, counts, batch), folds.n_splits, together=True)
        refuse(self._refused(partitions, sums), folds.n_splits)
        return self._stack(self, folds, models, partitions, sums)

    def _small(self, sums: list[Any]) -> list[Any]:
        """Sums of atoms, moved to CPU memory if computing with them is faster there."""
        return sums

    def _fitted(
        self, candidates: Sequence[Any], sums: Any, home: Place, dtype: Any
    ) -> "Alone | Together":
        """Models with these sums; those that differ only in priors share all other attributes."""
        found: list[Any] = []
        same: dict[tuple, Any] = {}
        for candidate in candidates:
            key = _key(candidate, self)
            model = copy(candidate)
            model._adopt(sums, home, dtype, like=same.get(key))
            same.setdefault(key, model)
            found.append(model)
        return Alone(found)

    def _check_values(self, X: Any) -> None:
        """Raise ValueError for values that the model cannot be fitted to."""

    def _check_parameters(self, n_classes: int) -> None:
        """Raise ValueError for invalid parameters of a candidate."""

    def _refused(
        self, partitions: Sequence[Partition], sums: Sequence[Sequence[Any]]
    ) -> dict[int, str]:
        """Splits that cannot be fitted, or whose models cannot predict, with the reason."""
        return {}

    def _candidate(self, params: Mapping[str, Any]) -> Any:
        model = copy(self)
        vars(model).update(params)
        return model


class Together(Protocol):
    """Models of candidates with the same sums."""

    def attributes(self, candidate: int) -> dict[str, Any]:
        """Fitted attributes of one candidate."""

    def joints(self, candidates: slice, X: Any) -> Array:
        """Joint log likelihoods of some candidates for checked rows: float64 (C, n, k)."""


@dataclass(frozen=True)
class Alone:
    """`Together`, for models that are estimators."""

    models: list[Any]

    def attributes(self, candidate: int) -> dict[str, Any]:
        """Fitted attributes of one candidate."""
        return {n: v for n, v in vars(self.models[candidate]).items() if n.endswith("_")}

    def joints(self, candidates: slice, X: Any) -> Array:
        """Joint log likelihoods of some candidates for checked rows: float64 (C, n, k)."""
        some = self.models[candidates]
        return some[0]._joints(some, X)


class GridStack(ClassStack):
    """Naive Bayes models of all candidates on all splits, each made on demand."""

    # Probabilities replace decision values.
    has_decisions = False

    def __init__(self, estimator, folds, models, partitions, sums):
        self._estimator, self._folds, self._candidates = estimator, folds, models
        self._partitions, self._sums = partitions, sums
        self.n_passes = len(partitions)
        self._kept: dict[int, Any] = {}

    @property
    def n_candidates(self) -> int:
        return len(self._candidates)

    def pick(self, candidate: int, split: int | None) -> dict[str, Any]:
        """Fitted attributes of one model; split None means the model of all rows."""
        if split is None:
            fitted = self._fitted(self._of_all_rows(), [self._candidates[candidate]]).attributes(0)
        else:
            fitted = self._of_split(split).attributes(candidate)
        new = {n: v for n, v in fitted.items() if not n.endswith("_in_")}
        return {**new, "classes_": self._folds.batch.classes}

    def decision(self, X: Array, split: int, candidates: slice) -> Array:
        """Joint log likelihoods (C, m, k), float64, for rows X (m, p)."""
        batch = self._folds.batch
        X = batch.rows(X) if isinstance(batch, SparseBatch) else X
        models = self._of_split(split)
        first, stop, _ = candidates.indices(self.n_candidates)
        k, p = batch.n_classes, batch.n_features
        if X.shape[0] == 0:  # a shard without rows of this part
            place = place_of(values_of(X))
            shape = (stop - first, 0, k)
            return place.xp.zeros(shape, dtype=place.xp.float64, device=place.device)
        step = max(1, MODEL_BYTES // (8 * k * p))
        found = [models.joints(slice(i, min(i + step, stop)), X) for i in range(first, stop, step)]
        return found[0] if len(found) == 1 else namespace(*found).concat(found)

    def probability(self, decision: Array) -> Array:
        """Probabilities (C, m, k), of the dtype that `predict_proba` returns."""
        xp = namespace(decision)
        return xp.exp(normalised(decision, _dtype_of_results(self._folds.batch, xp)))

    @property
    def responses(self) -> "GridStack":
        """The models of all splits without the rows, to send to the workers that hold rows."""
        found, batch = copy(self), self._folds.batch
        found._kept = {s: self._of_training_split(s) for s in range(self._folds.n_splits)}
        found._folds = replace(self._folds, batch=replace(batch, holders=None), known={})
        found._partitions = found._sums = ()
        return found

    def to(self, place: Place) -> "GridStack":
        """The same for rows at a place; products move the data that they need."""
        return self

    def _of_split(self, split):
        """The models of a split; those of the last split are cached."""
        if split not in self._kept:
            self._kept = {split: self._of_training_split(split)}
        return self._kept[split]

    def _of_training_split(self, split):
        return self._fitted(self._of_training_part(split), self._candidates)

    def _fitted(self, sums, candidates):
        home = self._folds.batch.home
        dtype = _dtype_of_results(self._folds.batch, home.xp)
        return self._estimator._fitted(candidates, sums, home, dtype)

    def _of_training_part(self, split):
        for part, sums in zip(self._partitions, self._sums, strict=True):
            if part.first_split <= split < part.first_split + part.n_splits:
                times = part.train[split - part.first_split]
                some = [sums[atom] for atom in np.flatnonzero(times)]
                return self._estimator._joined(some, times[times > 0])
        raise IndexError(split)

    def _of_all_rows(self):
        batch = self._folds.batch
        for part, sums in zip(self._partitions, self._sums, strict=True):
            # Atoms have no row in common.
            if sum(count_rows(atom) for atom in part.atoms) == batch.n_rows:
                return self._estimator._joined(sums, np.ones(len(sums), dtype=int))
        both = partial(_joined_atoms, self._estimator)
        found = batch.total(_sums_of_all, self._estimator, combine=both, here=self._folds)
        return self._estimator._small([found[0][0]])[0]


def normalised(joint: Array, dtype: Any) -> Array:
    """Logarithms (..., k) minus their logsumexp over the last axis, in the dtype of results."""
    xp = namespace(joint)
    largest = xp.max(joint, axis=-1, keepdims=True)
    # If no class can produce a row, all its values are -inf, whose differences would be nan.
    largest = xp.where(xp.isfinite(largest), largest, xp.zeros_like(largest))
    # float32 is accurate enough for differences, but not for sums of many logarithms.
    rest = xp.astype(joint - largest, dtype, copy=False)
    return rest - xp.log(xp.sum(xp.exp(rest), axis=-1, keepdims=True))


def _key(model, estimator):
    """A key that is equal for candidates that differ only in their priors."""
    names = [name for name in estimator.multifit_params if name not in estimator._own_params]
    values = [getattr(model, name) for name in names]
    return tuple(value if np.ndim(value) == 0 else id(value) for value in values)


def _partitions(folds):
    """Partitions into atoms: as many as their sums, of k p numbers each, leave room for."""
    batch = folds.batch
    if batch.is_divided:
        return folds.partitions
    width = max(1, isqrt(max(1, batch.n_classes) * batch.n_features))
    plain = batch.without_rows() if isinstance(batch, SparseBatch) else batch
    xp = namespace(plain.X)
    zero = xp.zeros((1, 1), dtype=xp.float64, device=device_of(plain.X))
    stand_in = xp.broadcast_to(zero, (batch.n_rows, width))
    return folds.divide(replace(plain, X=stand_in), folds.splits)


def _rows_of(batch: Batch, rows: Any) -> ClassRows:
    X: Any = take(batch.X, rows, namespace(batch.X))
    X = batch.rows(X) if isinstance(batch, SparseBatch) else X
    place = place_of(values_of(X))
    codes, weight = (
        None if a is None else move(take(a, rows, namespace(a)), place)
        for a in (batch.codes, batch.weight)
    )
    return ClassRows(X, codes, weight, batch.n_classes)


def _all_rows(batch: Batch) -> ClassRows:
    return _rows_of(batch, slice(0, batch.n_rows))


def _dtype_of_results(batch: Batch, xp: Any) -> Any:
    """float32 if the user's X is float32, otherwise float64."""
    rows: Any = batch.matrix if isinstance(batch, SparseBatch) else batch.X
    return xp.float32 if str(rows.dtype).rpartition(".")[2] == "float32" else xp.float64


# ---------------------------------------------------------------- of each shard


def _sums_of_atoms(folds: Folds, estimator: Any, atoms: tuple[Rows, ...], check: bool) -> list[Any]:
    """Sums, and number of rows per class, of each atom; None for atoms without rows here."""
    if check:
        estimator._check_values(_all_rows(folds.batch).X)
    return [
        _sums_of(folds.batch, estimator, atom) if count_rows(atom) else None
        for atom in atoms_here(folds, atoms)
    ]


def _sums_of_all(folds: Folds, estimator: Any) -> list[Any]:
    return [_sums_of(folds.batch, estimator, slice(0, folds.batch.n_rows))]


def _sums_of(batch: Batch, estimator: Any, rows: Rows) -> tuple[Any, Array]:
    found = _rows_of(batch, rows)
    return estimator._sums(found), rows_of_classes(found)


def _joined_atoms(estimator: Any, some: list[Any], others: list[Any]) -> list[Any]:
    """Sums of atoms, over the rows of two shards."""

    def joined(one, other):
        if one is None or other is None:
            return other if one is None else one
        return estimator._joined([one[0], other[0]], [1, 1]), one[1] + other[1]

    return [joined(*pair) for pair in zip(some, others, strict=True)]


def _lacking(partitions, counts, batch):
    """Splits whose training part lacks a class, with a message that names it."""
    labels, found = to_host(batch.classes).tolist(), {}
    for part, of_atoms in zip(partitions, counts, strict=True):
        has_row = (part.train > 0).astype(int) @ (of_atoms > 0) > 0  # (S, k)
        for split, c in reversed(np.argwhere(~has_row).tolist()):
            found[part.first_split + split] = (
                f"it has no row of class {labels[c]!r}. Use a stratified splitter, or fewer folds."
            )
    return found

"""Predictions for held-out rows, kept beside scores."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from gpuml._arrays import Array, is_foreign, move, namespace, place_of, to_host
from gpuml._sklearn import _check_is_permutation, _enforce_prediction_order
from gpuml.data import AnySplit, row_indices
from gpuml.resampling.responses import Answer

# Methods that return a column for each class.
BY_CLASS = ("decision_function", "predict_proba", "predict_log_proba")
RESPONSES = ("predict", *BY_CLASS)
FLOATS = ("float32", "float64")
# The method of a stack for each method of an estimator.
OF_STACKS = {"predict": "labels", "predict_proba": "probability", "decision_function": "decision"}


@dataclass(frozen=True)
class Kept:
    """Which predictions to keep.

    Attributes
    ----------
    method : str
        One of `RESPONSES`.
    classes : ndarray, or list of them, or None
        All labels of each output, in order. A model that lacks some has columns for them too.
    flat : bool
        Whether the target is a vector.
    """

    method: str
    classes: Any
    flat: bool

    def of(self, model: Any, X: Any) -> Any:
        """A model's predictions for rows, with columns for all classes."""
        said = getattr(model, self.method)(X)
        if self.classes is None or self.method not in BY_CLASS:
            return said
        if isinstance(said, list):
            known = zip(model.classes_, said, self.classes, strict=True)
            return [_in_order(own, each, every, self.method) for own, each, every in known]
        # Labels of several outputs become an indicator matrix.
        every = self.classes
        every = np.arange(len(every)) if isinstance(every, list) else every
        return _in_order(model.classes_, said, every, self.method)

    def of_all(self, answer: Answer, dtype: Any) -> Array | None:
        """Predictions (C, m, ...) of all models of a stack; None if each must predict by itself.

        `dtype` is that of the rows, which single models return numbers in.
        """
        if answer.classes is None:
            alike = self.method == "predict" and self.flat and answer.values.ndim == 3
            return _of_dtype(answer.values[..., 0], dtype) if alike else None
        kind = OF_STACKS.get(self.method)
        decides = getattr(answer.models, "has_decisions", True)
        if kind is None or not self.flat or (kind == "decision" and not decides):
            return None
        if kind == "probability" and answer.models.probability(answer.values[:1, :1, ...]) is None:
            return None
        said = answer.response(kind)
        return _labels(said, answer.classes) if kind == "labels" else _of_dtype(said, dtype)


def kept_of(method: str | bool, y: Any) -> Kept | None:
    """What `return_predictions` of a search selects; None for no predictions."""
    if method is False:
        return None
    name = "predict" if method is True else method
    if y is None or name not in BY_CLASS:
        return Kept(name, None, is_flat(y))
    labels = np.asarray(to_host(y) if is_foreign(y) else y)
    if labels.ndim == 1:
        return Kept(name, np.unique(labels), True)
    return Kept(name, [np.unique(column) for column in labels.T], False)


def is_flat(y: Any) -> bool:
    """Whether a target is a vector."""
    shape = getattr(y, "shape", None)
    return y is not None and len(np.shape(y) if shape is None else shape) == 1


class Heard:
    """The predictions of a stack for the held-out rows of each split, collected while scoring."""

    def __init__(self, kept: Kept, dtype: Any):
        self._kept = kept
        self._dtype = dtype
        self._said: dict[int, list[Array | None]] = {}

    def hear(self, split: int, answer: Answer) -> None:
        """Add the predictions of further candidates."""
        self._said.setdefault(split, []).append(self._kept.of_all(answer, self._dtype))

    def by_split(self) -> dict[int, Array]:
        """Predictions (C, m, ...) of all candidates, for splits where they predict together."""
        known = {s: each for s, each in self._said.items() if all(v is not None for v in each)}
        return {
            s: each[0] if len(each) == 1 else namespace(*each).concat(each)
            for s, each in known.items()
        }


def check_partition(splits: Sequence[AnySplit], n_rows: int, owner: str) -> np.ndarray:
    """Numbers of the held-out rows, split after split.

    Raises ValueError unless each row is held out exactly once.
    """
    held_out = np.concatenate([row_indices(split.test) for split in splits])
    if not _check_is_permutation(held_out, n_rows):
        raise ValueError(f"{owner} only works for partitions")
    return held_out


def by_row(parts: Sequence[Any], order: np.ndarray, X: Any) -> Any:
    """Predictions of all splits as one array in the order of the rows, at the place of X."""
    first = parts[0]
    if isinstance(first, list):
        return [by_row(each, order, X) for each in zip(*parts, strict=True)]
    if sparse.issparse(first):
        return sparse.vstack(parts, format=first.format)[order]
    if any(map(is_foreign, parts)):
        place = place_of(next(filter(is_foreign, parts)))
        joined = place.xp.concat([move(part, place) for part in parts])
        joined = place.xp.take(joined, move(order, place), axis=0)
        return joined if is_foreign(X) else to_host(joined)
    return np.concatenate(parts)[order]


def predictions_of(said: Sequence[Any], splits: Sequence[AnySplit], X: Any) -> Any:
    """The predictions of each candidate as one array (C, n, ...), or a list of those.

    None, from a failed fit, becomes nan.
    """
    held_out = [row_indices(split.test) for split in splits]
    order = np.argsort(np.concatenate(held_out))
    like = next(part for part in said if part is not None)
    filled = [
        _nothing(like, len(held_out[i % len(splits)])) if part is None else part
        for i, part in enumerate(said)
    ]
    steps = range(0, len(filled), len(splits))
    return _by_candidate([by_row(filled[i : i + len(splits)], order, X) for i in steps])


def _nothing(like, n_rows):
    """Predictions of the same shape that are nan."""
    if isinstance(like, list):
        return [_nothing(each, n_rows) for each in like]
    numbers = is_foreign(like) or np.asarray(like).dtype.kind in "iufb"
    return np.full((n_rows, *like.shape[1:]), np.nan, dtype=float if numbers else object)


def _by_candidate(rows):
    if isinstance(rows[0], list):
        return [_by_candidate(each) for each in zip(*rows, strict=True)]
    if sparse.issparse(rows[0]):
        return list(rows)
    return namespace(*rows).stack(rows) if is_foreign(rows[0]) else np.stack(rows)


def _in_order(classes, said, every, method):
    """Columns of all classes, including those that a model has not seen."""
    if len(every) == classes.shape[0]:
        return said
    place = place_of(said) if is_foreign(said) else None
    host = to_host(said) if place else said
    codes = np.searchsorted(every, to_host(classes))
    whole = _enforce_prediction_order(codes, host, len(every), method)
    return move(whole, place) if place else whole


def _of_dtype(values, dtype):
    """Numbers of a dtype, which may be of another library; stacks may compute in a wider one."""
    xp, name = namespace(values), str(dtype).rpartition(".")[2]
    return xp.astype(values, getattr(xp, name), copy=False) if name in FLOATS else values


def _labels(codes, classes):
    """Labels for codes; strings are in CPU memory."""
    if classes.dtype.kind not in "iufb":
        return classes[to_host(codes)]
    xp = namespace(codes)
    flat = xp.take(move(classes, place_of(codes)), xp.reshape(codes, (-1,)))
    return xp.reshape(flat, codes.shape)

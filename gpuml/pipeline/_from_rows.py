"""Steps that scale or select features, fitted by their own classes to the rows of each part."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from gpuml._arrays import has_gpu, is_foreign, move, place_of, to_host
from gpuml._settings.config import current_settings
from gpuml.data import Batch, Rows, row_indices
from gpuml.extending import AffineStep
from gpuml.resampling.multifit import FROM_ROWS, is_known
from gpuml.solvers.affine import Affine, FittedStep, Parts
from gpuml.solvers.moments import rounding

# Scores that are computed feature by feature, and bytes of features to score at once.
BY_FEATURE = ("chi2", "f_classif", "f_regression", "r_regression")
BLOCK_BYTES = 2**27
# With rows in CPU memory, extrema are found in the same way.
BEHIND_TABLES = (*FROM_ROWS, "MaxAbsScaler", "MinMaxScaler")


class FromRows(AffineStep):
    """A transformer whose images are features that it scales, shifts or selects.

    What it needs to know, such as quantiles, are no sums over the rows. So it is fitted to those of
    each training part, once for all candidates behind it, and its map is read off.

    Parameters
    ----------
    step : transformer
        One of `FROM_ROWS`.
    """

    affine_needs_rows = True

    def __init__(self, step: Any):
        self.step = step
        self.affine_params = tuple(step.get_params(deep=False))
        self.affine_is_diagonal = not hasattr(step, "get_support")

    @property
    def _parameter_constraints(self) -> dict[str, Any]:  # type: ignore[override]
        return self.step._parameter_constraints

    def _validate_params(self):
        self.step._validate_params()

    def affine_obstacle(self, X: Any) -> str | None:
        """The reason why its parameters make it not affine, if any."""
        return "clip=True" if getattr(self.step, "clip", False) else None

    def multi_affine(
        self, parts: Parts, candidates: Sequence[Mapping[str, Any]]
    ) -> list[FittedStep]:
        """Fit every candidate to every part."""
        steps = [clone(self.step).set_params(**candidate) for candidate in candidates]
        found = parts.each(lambda s: _fitted_to(parts, s, [clone(step) for step in steps]))
        return [_joined(parts, each) for each in zip(*found, strict=True)]


def from_rows(step: Any, names: Collection[str] = FROM_ROWS) -> Any:
    """A transformer that reads the rows of each part, as an affine step; other steps unchanged."""
    return FromRows(step) if is_known(step) and type(step).__name__ in names else step


def reading_obstacle(steps: Sequence[Any], X: Any) -> str | None:
    """The reason why steps that are fitted to rows cannot share the pass over X, if any."""
    reading = next((step for step in steps if step.affine_needs_rows), None)
    if reading is None:
        return None
    if hasattr(X, "tocsr"):
        return f"{step_name(reading)} needs dense rows, and X is sparse"
    device = current_settings().device
    if is_foreign(X) or device == "cuda" or (device == "auto" and has_gpu()):
        there = "use gpuml.set_config(device='cpu') with X in CPU memory"
        return f"{step_name(reading)} is fitted to rows in CPU memory; {there}"
    return None


def step_name(step: Any) -> str:
    """The class name of a step."""
    return type(step.step if isinstance(step, FromRows) else step).__name__


def targets(batch: Batch, rows: Rows) -> Any:
    """Targets of some rows in CPU memory, in the form that `fit` expects."""
    numbers = row_indices(rows)
    if batch.labels is not None:
        return batch.labels[to_host(batch.codes)[numbers]]
    y = to_host(batch.y)[numbers, :]
    return y[:, 0] if batch.y_is_flat else y


def _fitted_to(parts, s, steps):
    """Steps fitted to one part, with the map of each."""
    width = parts.width(s)
    eye, y = np.eye(parts.n_features, width), targets(parts.batch, parts.rows(s))
    noise = to_host(rounding(parts.moments))[s, :width]
    rows: dict[str, np.ndarray] = {}
    scores: dict[Any, Any] = {}

    def all_features():
        if not rows:
            rows["X"] = _without_rounding(parts.times(s, eye), noise)
        return rows["X"]

    found = []
    for step in steps:
        score = getattr(step, "score_func", None)
        if score is None:
            step.fit(all_features(), y)
        else:
            if score not in scores and _is_by_feature(score) and width > 0:
                size = max(1, BLOCK_BYTES // (8 * parts.n_rows[s]))
                some = [slice(i, i + size) for i in range(0, width, size)]
                blocks = (_without_rounding(parts.times(s, eye[:, i]), noise[i]) for i in some)
                scores[score] = _side_by_side([score(block, y) for block in blocks])
            elif score not in scores:
                scores[score] = score(all_features(), y)
            _select(step, scores[score], width, y)
        found.append((step, *_map(step, width)))
    return found


def _without_rounding(X, noise):
    """Rows with constant or zero features restored where they differ by rounding only.

    `noise` has sums of squares (p,): a constant feature that was filled and centred has no more
    than that, and scaling would turn it into noise of variance 1.
    """
    mean = X.mean(axis=0)
    constant = np.sum((X - mean) ** 2, axis=0) <= noise
    if constant.any():
        X = X.copy()
        X[:, constant] = np.where(len(X) * mean**2 <= noise, 0.0, mean)[constant]
    return X


def _is_by_feature(score):
    """Whether a score function, scikit-learn's or gpuml's, scores each feature by itself."""
    module = getattr(score, "__module__", "")
    own = module.startswith(("sklearn.feature_selection", "gpuml.feature_selection"))
    return own and getattr(score, "__name__", "") in BY_FEATURE


def _side_by_side(scores):
    """Scores (or scores and p-values) of blocks of features, concatenated."""
    if isinstance(scores[0], tuple):
        return tuple(np.concatenate(each) for each in zip(*scores, strict=True))
    return np.concatenate(scores)


def _select(step, scores, width, y):
    """Fit a selector by scores that candidates share."""
    own = step.score_func
    step.set_params(score_func=lambda X, y: scores)
    step.fit(np.zeros((2, width)), y[:2])
    step.set_params(score_func=own)


def _map(step, width):
    """The matrix (p, k) and the offset (k,) of a fitted step."""
    if hasattr(step, "get_support"):
        matrix = np.asarray(step.transform(np.eye(width)))  # it warns if it selects none
        return matrix, np.zeros(matrix.shape[1])
    scale, centre = step.scale_, getattr(step, "center_", None)
    factor = np.ones(width) if scale is None else scale if hasattr(step, "min_") else 1 / scale
    if hasattr(step, "min_"):
        return np.diag(factor), step.min_
    return np.diag(factor), np.zeros(width) if centre is None else -centre * factor


def _joined(parts, found):
    """One step for all parts; parts with fewer columns are padded with zeros."""
    widths = tuple(matrix.shape[1] for _, matrix, _ in found)
    place = place_of(parts.moments.gram)
    matrix = np.zeros((len(found), parts.n_features, max(widths)))
    offset = np.zeros((len(found), max(widths)))
    for s, (_, own, shift) in enumerate(found):
        matrix[s, : own.shape[0], : own.shape[1]] = own
        offset[s, : len(shift)] = shift
    diagonal = not hasattr(found[0][0], "get_support")
    maps = Affine(move(matrix, place), move(offset, place), diagonal)
    all_of_them = min(widths) == matrix.shape[2]

    def pick(s: int) -> dict[str, Any]:
        step = found[s][0]
        given = step.get_params(deep=False)
        return {name: value for name, value in vars(step).items() if name not in given}

    return FittedStep(maps, pick, None if all_of_them else widths)

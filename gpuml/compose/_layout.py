"""What a `ColumnTransformer` reads of a table, and which steps follow from sums over rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder

from gpuml._sklearn import _get_column_indices
from gpuml.compose._coding import count_levels, is_nan, levels_of, numbers_of
from gpuml.data import Absent
from gpuml.extending import AffineStep
from gpuml.resampling.multifit import STEPS, ours_of, step_words
from gpuml.solvers.table_rows import Table, make_table

# Hyper-parameters of steps that may differ within one call.
VARYING = {
    SimpleImputer: ("strategy", "fill_value", "add_indicator"),
    OneHotEncoder: ("drop", "handle_unknown", "min_frequency", "max_categories"),
    OrdinalEncoder: ("handle_unknown", "unknown_value", "encoded_missing_value"),
}
# Sums over pairs of more levels than this take longer than they save.
MOST_LEVELS = 1024
# What affine steps are asked about.
ANY_ROWS = Absent((2, 1), np.dtype(np.float64))
STRATEGIES = {
    "numbers": ("mean", "median", "most_frequent", "constant"),
    "levels": ("most_frequent", "constant"),
}


@dataclass(frozen=True)
class Entry:
    """Steps, one after the other, for some columns.

    Attributes
    ----------
    name : str
    steps : tuple of (str, transformer)
        With the prefix of its parameters; none for columns that are passed through.
    columns : tuple of int
        Of the table of numbers, or of that of codes.
    coded : bool
        Which of the two.
    weight : float
        What its output is multiplied with.
    """

    name: str
    steps: tuple[tuple[str, Any], ...]
    columns: tuple[int, ...]
    coded: bool
    weight: float


@dataclass(frozen=True)
class Layout:
    """Entries, and which columns of X are the numbers and the codes of the table."""

    entries: tuple[Entry, ...]
    numbers: tuple[int, ...]
    coded: tuple[int, ...]

    def read(self, X: Any) -> Table:
        """The table of some rows."""
        numbers = [numbers_of(column_of(X, j)) for j in self.numbers]
        coded = [levels_of(column_of(X, j)) for j in self.coded]
        return make_table(numbers, coded, X.shape[0])


def as_ours(step: Any) -> Any:
    """The class of gpuml for a step of scikit-learn that sums over rows fit; else the step."""
    return ours_of(step, STEPS)


def column_of(X: Any, j: int) -> Any:
    """A column of an array or DataFrame."""
    return X[:, j] if isinstance(X, np.ndarray) else X.iloc[:, j]


def varying_params(transformer: Any) -> list[str]:
    """Hyper-parameters of the steps of a `ColumnTransformer` that may differ within one call."""
    names = []
    for name, each, _ in transformer.transformers:
        for prefix, step in steps_of(name, each):
            kind = kind_of(step)
            own = as_ours(step)
            params: Sequence[str] = (
                getattr(own, "affine_params", ()) if kind is None else VARYING[kind]
            )
            names += [f"{prefix}__{param}" for param in params]
    return names


def steps_of(name: str, transformer: Any) -> list[tuple[str, Any]]:
    """Steps with the prefixes of their parameters."""
    if isinstance(transformer, str):
        return []
    if type(transformer) is not Pipeline:
        return [(name, transformer)]
    return [
        (f"{name}__{own}", step)
        for own, step in transformer.steps
        if step is not None and not isinstance(step, str)
    ]


def kind_of(step: Any) -> type | None:
    """Which of scikit-learn's classes a step is, of those that are known here."""
    for kind in VARYING:
        own = type(step).__module__.partition(".")[0] in ("gpuml", "sklearn")
        if isinstance(step, kind) and own:
            return kind
    return None


def lay_out(transformer: Any, X: Any) -> Layout:
    """What a `ColumnTransformer` reads of X.

    Raises
    ------
    ValueError
        For columns that X does not have.
    """
    given = []
    used: set[int] = set()
    for name, each, columns in transformer.transformers:
        columns = columns(X) if callable(columns) else columns
        indices = [j % X.shape[1] for j in _get_column_indices(X, columns)]
        used.update(indices)
        given.append((name, each, indices))
    rest = [j for j in range(X.shape[1]) if j not in used]
    given.append(("remainder", transformer.remainder, rest))
    kept = [
        (name, tuple(steps_of(name, each)), indices)
        for name, each, indices in given
        if indices and not (isinstance(each, str) and each == "drop")
    ]
    numbers = sorted({j for _, steps, indices in kept if not is_coded(steps) for j in indices})
    coded = sorted({j for _, steps, indices in kept if is_coded(steps) for j in indices})
    weights = transformer.transformer_weights or {}
    entries = [
        Entry(
            name,
            steps,
            tuple((coded if is_coded(steps) else numbers).index(j) for j in indices),
            is_coded(steps),
            float(weights.get(name, 1.0)),
        )
        for name, steps, indices in kept
    ]
    return Layout(tuple(entries), tuple(numbers), tuple(coded))


def is_coded(steps: Sequence[tuple[str, Any]]) -> bool:
    """Whether steps read levels: an encoder is among them, behind imputers alone."""
    for _, step in steps:
        if kind_of(step) is not SimpleImputer:
            return kind_of(step) in (OneHotEncoder, OrdinalEncoder)
    return False


def layout_obstacle(transformer: Any, X: Any) -> str | None:
    """Why not all steps of a `ColumnTransformer` follow from sums over rows; None where they do."""
    is_frame = hasattr(X, "iloc") and hasattr(X, "columns")
    if not (is_frame or (isinstance(X, np.ndarray) and X.ndim == 2)):
        return f"X is of type {type(X).__name__}, and not a pandas DataFrame or NumPy array"
    for name, each, _ in transformer.transformers:
        steps = steps_of(name, each)
        if isinstance(each, str) and each not in ("drop", "passthrough"):
            return f"its entry {name!r} is {each!r}"
        why = next(filter(None, (_step_obstacle(s, steps) for _, s in steps)), None)
        if why is not None:
            return f"its entry {name!r}: {why}"
    if not isinstance(transformer.remainder, str):
        return "remainder is a transformer; name its columns instead"
    try:
        layout = lay_out(transformer, X)
    except (ValueError, TypeError, IndexError) as error:
        return str(error)
    if not layout.entries:
        return "no column is left"
    n_levels = sum(count_levels(column_of(X, j)) for j in layout.coded)
    if n_levels > MOST_LEVELS:
        pay = f"sums over pairs pay up to {MOST_LEVELS:,}"
        return f"its categories have {n_levels:,} levels, and {pay}"
    return None


def _step_obstacle(step, steps):
    """Why a step of an entry is not fitted from sums; None where it is."""
    kind, name = kind_of(step), type(step).__name__
    first = step is steps[0][1]
    if kind is SimpleImputer:
        role = "levels" if is_coded(steps) else "numbers"
        if not first:
            return f"{name} is not its first step"
        if not is_nan(step.missing_values):
            return f"{name} with missing_values={step.missing_values!r}"
        if step.strategy not in STRATEGIES[role]:
            return f"{name} with strategy={step.strategy!r} of {role}"
        return f"{name} with add_indicator=True of levels" if _flags(step, role) else None
    if kind in (OneHotEncoder, OrdinalEncoder):
        if not is_coded(steps):
            return f"{name} is not its first step, or behind an imputer"
        if not isinstance(step.categories, str):
            return f"{name} with categories=[...]"
        if getattr(step, "handle_unknown", "") == "warn":
            return f"{name} with handle_unknown='warn'"
        if kind is OneHotEncoder and not isinstance(step.drop, str | None):
            return f"{name} with drop=[...]"
        rare = kind is OrdinalEncoder and (step.min_frequency or step.max_categories)
        return f"{name} with min_frequency= or max_categories=" if rare else None
    own = as_ours(step)
    if not isinstance(own, AffineStep) or step_words(own) is not None:
        return f"{name} is none of the steps that join the pass"
    if not own.affine_needs_extrema:
        return own.affine_obstacle(ANY_ROWS)
    before = [as_ours(s) for _, s in steps[: [s for _, s in steps].index(step)]]
    mixing = [s for s in before if isinstance(s, AffineStep) and not s.affine_is_diagonal]
    if mixing or is_coded(steps):
        behind = type(mixing[0]).__name__ if mixing else "an encoder"
        return f"{name} needs extrema of features behind {behind}"
    return own.affine_obstacle(ANY_ROWS)


def sparse_encoder(transformer: Any) -> str | None:
    """The entry whose output is sparse; None where there is none."""
    for name, each, _ in transformer.transformers:
        for _, step in steps_of(name, each):
            if getattr(step, "sparse_output", False):
                return f"sparse_output=True in its entry {name!r}"
    return None


def _flags(step, role):
    return step.add_indicator and role == "levels"

"""The columns of a table that a `ColumnTransformer` reads, and how its steps join the pass."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.base import TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder

from gpuml._arrays import Place, is_foreign
from gpuml._arrays.frames import DeviceFrame, header_of
from gpuml._sklearn import _get_column_indices, _safe_indexing, is_pandas_na
from gpuml.compose._coding import count_levels, is_nan, levels_of, numbers_of
from gpuml.compose._device_columns import DeviceColumn, NamesThere
from gpuml.compose._frames import FrameColumn
from gpuml.data import Absent
from gpuml.extending import AffineStep
from gpuml.pipeline._from_rows import BEHIND_TABLES, from_rows
from gpuml.resampling.keys import value_key
from gpuml.resampling.multifit import CROSS_FITTED, MADE, STEPS, is_known, ours_of, step_words
from gpuml.solvers.table_rows import Table, make_table

# A stand-in for X, to ask affine steps for obstacles.
ANY_ROWS = Absent((2, 1), np.dtype(np.float64))
STRATEGIES = {
    "numbers": ("mean", "median", "most_frequent", "constant"),
    "levels": ("most_frequent", "constant"),
}
# NumPy's dtypes that columns of others become.
KIND_BYTES = {"b": "?", "i": "i8", "u": "u8", "f": "f8"}
ENCODERS = (OneHotEncoder, OrdinalEncoder)
# What fits and transforms, and nothing else.
ALIKE = TransformerMixin.fit_transform
# Steps that hold other ones.
CONTAINERS = (Pipeline, FeatureUnion, ColumnTransformer)


@dataclass(frozen=True)
class Branch:
    """Steps, one after the other, for some columns: those that know the table, and those behind.

    Attributes
    ----------
    kind : {"numbers", "levels", "made", "beside"}
        Numbers, perhaps with an imputer; levels, with an encoder and perhaps an imputer before it;
        what no map of columns is, and made for each split; branches side by side.
    columns : tuple of int
        Of X.
    head : tuple of transformers
        Those of the kind.
    tail : tuple of transformers
        Affine steps behind them.
    parts : tuple of (Branch, float)
        Branches side by side, and what their outputs are multiplied with.
    """

    kind: str
    columns: tuple[int, ...]
    head: tuple[Any, ...] = ()
    tail: tuple[Any, ...] = ()
    parts: tuple[tuple["Branch", float], ...] = ()

    @cached_property
    def key(self) -> Any:
        """Equal for branches that do the same to the same columns."""
        parts = tuple((part.key, weight) for part, weight in self.parts)
        return self.kind, self.columns, value_key(self.head), value_key(self.tail), parts

    @property
    def leaves(self) -> list["Branch"]:
        """The branches that read columns."""
        if self.kind != "beside":
            return [self]
        return [leaf for part, _ in self.parts for leaf in part.leaves]


@dataclass(frozen=True)
class Layout:
    """Branches of a transformer, and which columns of X are numbers and codes of a table."""

    branch: Branch
    numbers: tuple[int, ...]
    coded: tuple[int, ...]

    def read(self, X: Any, place: Place) -> Table:
        """The table of some rows at a place, column by column, without a joined array."""
        numbers = (numbers_of(column_at(X, j, place), place) for j in self.numbers)
        coded = (levels_of(column_at(X, j, place), place) for j in self.coded)
        table = make_table(numbers, len(self.numbers), coded, X.shape[0], place)
        return replace(table, positions=(self.numbers, self.coded))

    @property
    def grouped(self) -> frozenset[int]:
        """Columns of X of whose levels only those matter that are not rare."""
        leaves = [leaf for leaf in self.branch.leaves if leaf.kind == "levels"]
        whole = {j for leaf in leaves if not groups_levels(leaf) for j in leaf.columns}
        return frozenset(self.coded) - whole

    def has(self, branch: Branch) -> bool:
        """Whether the table has all columns that a branch reads."""
        columns = self.coded if branch.kind == "levels" else self.numbers
        return branch.kind == "made" or set(branch.columns) <= set(columns)


def column_of(X: Any, j: int) -> Any:
    """A column of an array or DataFrame."""
    if isinstance(X, np.ndarray):
        return X[:, j]
    if is_foreign(X):
        return DeviceColumn(X, j)
    return X.iloc[:, j] if hasattr(X, "iloc") else FrameColumn(X, j)


def dtypes_of(X: Any, columns: Sequence[int]) -> list[Any]:
    """Those of some columns."""
    if hasattr(X, "iloc"):  # without a Series for each
        every = X.dtypes.to_numpy()
        return [every[j] for j in columns]
    return [column_of(X, j).dtype for j in columns]


def column_at(X: Any, j: int, place: Place) -> Any:
    """A column at the place where it is read: cuDF's own if X was made from cuDF."""
    there = None if place.is_host else DeviceFrame.of(X)
    if there is None:
        return column_of(X, j)
    return NamesThere(there, j) if there.is_coded(j) else DeviceColumn(there.values(j)[:, None], 0)


def columns_of(X: Any, columns: Sequence[int]) -> Any:
    """Some columns, as scikit-learn takes them."""
    return _safe_indexing(X, list(columns), axis=1)


def as_ours(step: Any) -> Any:
    """What fits a step to all training parts at once, if anything does; else the step."""
    return ours_of(from_rows(step, BEHIND_TABLES), STEPS)


def varying_params(transformer: Any) -> list[str]:
    """Hyper-parameters of the steps of a `ColumnTransformer` that may differ within one call."""
    params = transformer.get_params()
    free: dict[str, Any] = {}
    for owner in {name.rpartition("__")[0] for name in params} & params.keys():
        step = params[owner]
        ours = None if isinstance(step, CONTAINERS) else ours_of(step, STEPS)
        if isinstance(ours, AffineStep):
            free[owner] = ours.affine_params
        elif ours is not None and is_made(step):
            free[owner] = [*step.get_params(deep=False)]
    return [
        name
        for name, value in params.items()
        if (named := name.rpartition("__"))[2] in free.get(named[0], ())
        and named[2] != "random_state"
        and not hasattr(value, "get_params")
    ]


def chain_of(transformer: Any) -> tuple[Any, ...]:
    """Steps one after the other; none for what is passed through."""
    if transformer is None or isinstance(transformer, str):
        return ()
    if type(transformer) is not Pipeline:
        return (transformer,)
    return tuple(step for _, each in transformer.steps for step in chain_of(each))


def kind_of(step: Any) -> type | None:
    """Which of scikit-learn's imputers and encoders a step is."""
    for kind in (SimpleImputer, *ENCODERS):
        if isinstance(step, kind) and is_known(step):
            return kind
    return None


# ---------------------------------------------------------------- branches


def lay_out(transformer: Any, X: Any) -> Layout:
    """The columns of X that a `ColumnTransformer` reads, and how.

    Raises
    ------
    ValueError
        For columns that X does not have.
    """
    branch = side_by_side(transformer, X, tuple(range(X.shape[1])))
    read: dict[str, set[int]] = {"numbers": set(), "levels": set(), "made": set()}
    for leaf in branch.leaves:
        read[leaf.kind].update(leaf.columns)
    return Layout(branch, tuple(sorted(read["numbers"])), tuple(sorted(read["levels"])))


def layout_of(table: Table, transformer: Any, X: Any) -> Layout:
    """The columns of a table, which was read for these steps or for others, and has no branches."""
    if table.positions is None:
        return lay_out(transformer, X)
    return Layout(Branch("beside", tuple(range(X.shape[1]))), *table.positions)


def entries_of(transformer: Any, X: Any) -> list[tuple[str, Any, list[int], float]]:
    """Names, transformers, columns of X and weights of what stands side by side.

    Raises
    ------
    ValueError
        For a column that scikit-learn passes as a vector: what is read is a table.
    """
    weights = transformer.transformer_weights or {}
    if isinstance(transformer, FeatureUnion):
        own = [(name, each, list(range(X.shape[1]))) for name, each in transformer.transformer_list]
    else:
        own, used = [], set()
        for name, each, columns in transformer.transformers:
            columns = columns(header_of(X)) if callable(columns) else columns
            if np.isscalar(columns) and not (isinstance(each, str) and each == "drop"):
                raise ValueError(
                    f"its entry {name!r} takes column {columns!r} as a vector; write [{columns!r}] "
                    "if it takes a table"
                )
            indices = [j % X.shape[1] for j in _get_column_indices(header_of(X), columns)]
            used.update(indices)
            own.append((name, each, indices))
        rest = [j for j in range(X.shape[1]) if j not in used]
        own.append(("remainder", transformer.remainder, rest))
    return [
        (name, each, indices, float(weights.get(name, 1.0)))
        for name, each, indices in own
        if indices and not (isinstance(each, str) and each == "drop")
    ]


def side_by_side(transformer: Any, X: Any, columns: tuple[int, ...]) -> Branch:
    """The branches of a `ColumnTransformer` or `FeatureUnion` of some columns of X."""
    whole = len(columns) == X.shape[1]
    own = X if whole else columns_of(X, columns)
    parts = [
        (branch_of(chain_of(each), X, tuple(columns[j] for j in indices)), weight)
        for _, each, indices, weight in entries_of(transformer, own)
    ]
    return Branch("beside", columns, parts=tuple(parts))


def branch_of(steps: tuple[Any, ...], X: Any, columns: tuple[int, ...]) -> Branch:
    """How steps for some columns join the pass: with as few as may be made for each split."""
    if steps and isinstance(steps[0], CONTAINERS[1:]) and _are_affine(steps[1:]):
        return replace(side_by_side(steps[0], X, columns), tail=steps[1:])
    dtypes = dtypes_of(X, columns)
    constant = bool(steps) and _takes_constant(steps[0], dtypes)
    n_imputers = int(constant and _fills(steps[0], "levels") and _are_alike(dtypes))
    known = _have_levels(X, columns, dtypes, steps[: n_imputers + 1])
    if known and _encodes(steps[n_imputers:]) and _are_affine(steps[n_imputers + 1 :]):
        return Branch("levels", columns, steps[: n_imputers + 1], steps[n_imputers + 1 :])
    n_imputers = int(constant and _fills(steps[0], "numbers"))
    kinds = _kinds_to_fill(steps[0]) if n_imputers else "biuf"
    of_numbers = all(dtype.kind in kinds for dtype in dtypes)
    if of_numbers and _are_affine(steps[n_imputers:]):
        return Branch("numbers", columns, steps[:n_imputers], steps[n_imputers:])
    n_made = next(n for n in range(min(1, len(steps)), len(steps) + 1) if follows(steps[n:]))
    return Branch("made", columns, steps[:n_made], steps[n_made:])


def layout_key(transformer: Any) -> Any:
    """A key, equal for transformers for which `lay_out` makes tables with the same columns."""
    of_columns = isinstance(transformer, FeatureUnion)
    given = {} if of_columns else {n: value_key(own) for n, _, own in transformer.transformers}
    found = []
    for name, each in named(transformer):
        steps = chain_of(each)
        kind: Any = "drop"
        if steps and isinstance(steps[0], CONTAINERS[1:]) and _are_affine(steps[1:]):
            kind = layout_key(steps[0])
        elif each != "drop":
            # What is read as levels or numbers depends on these, where columns are known.
            first = [(_is_ours(step), getattr(step, "fill_value", None)) for step in steps[:2]]
            kind = branch_of(steps, None, ()).kind, value_key(first)
        found.append((given.get(name), kind))
    return tuple(found)


def made_where_missing(branch: Branch, layout: Layout) -> Branch:
    """A branch whose columns are made for each split if the table lacks them."""
    if branch.kind == "beside":
        parts = tuple((made_where_missing(part, layout), w) for part, w in branch.parts)
        return replace(branch, parts=parts)
    return branch if layout.has(branch) else replace(branch, kind="made")


def _takes_constant(step, dtypes):
    """Whether an imputer puts its constant, if it has one, into columns of some dtypes."""
    constant = _fills(step, "numbers") and step.strategy == "constant"
    if not constant or step.fill_value is None or not dtypes:
        return True
    own = [getattr(getattr(dtype, "categories", None), "dtype", dtype) for dtype in dtypes]
    own = [
        dtype if isinstance(dtype, np.dtype) else np.dtype(KIND_BYTES.get(dtype.kind, "O"))
        for dtype in own
    ]
    return np.can_cast(type(step.fill_value), np.result_type(*own), casting="same_kind")


def _are_alike(dtypes):
    """Whether columns keep their values where an imputer makes one array of them."""
    kinds = {dtype.kind for dtype in dtypes}
    return kinds <= set("iuf") or not kinds & set("biuf")


def _have_levels(X, columns, dtypes, steps):
    """Whether the levels and missing values of the table are those that the steps use."""
    if X is None or is_foreign(X) or isinstance(X, np.ndarray):
        return True
    # scikit-learn's encoders treat null in text as a value, and refuse pandas.NA.
    known = all(map(_is_ours, steps))
    for j, dtype in zip(columns, dtypes, strict=True):
        is_date, is_text = dtype.kind in "mM", dtype.kind == "O"
        if is_date or (is_text and not known):
            column = column_of(X, j)
            if has_nulls(column) or (is_date and isinstance(column, FrameColumn)):
                return False
    return True


def _is_ours(step):
    """Whether the class of a step is gpuml's."""
    return type(step).__module__.startswith("gpuml")


def has_nulls(column: Any) -> bool:
    """Whether values of a column of a DataFrame are NaT, pandas.NA or null."""
    if isinstance(column, FrameColumn):
        return column.has_nulls
    null = getattr(column.dtype, "na_value", None)
    return (is_pandas_na(null) or column.dtype.kind in "mM") and bool(column.hasnans)


def follows(steps: Sequence[Any]) -> bool:
    """Whether steps join behind columns that are made: affine ones, perhaps behind an imputer."""
    return _are_affine(steps[1:] if steps and _fills(steps[0], "numbers") else steps)


def _are_affine(steps):
    return all(is_affine(step) for step in steps)


def is_affine(step: Any) -> bool:
    """Whether a step is fitted to all training parts at once."""
    own = as_ours(step)
    joins = isinstance(own, AffineStep) and step_words(own) is None
    return joins and own.affine_obstacle(ANY_ROWS) is None


def is_made(step: Any) -> bool:
    """Whether the output of a step for a training set can be reused in all fits to it."""
    return not_made(step) is None


def not_made(step: Any) -> str | None:
    """Why other fits of a step to the same rows, or its `transform` of them, may give others."""
    name = type(step).__name__
    clips = getattr(step, "clip", False)
    if is_known(step) and (name in MADE or (name in STEPS and (is_affine(step) or clips))):
        return None
    if is_known(step) and name in CROSS_FITTED:
        return None
    if not hasattr(step, "transform"):
        return f"{name} has no transform"
    if getattr(type(step), "fit_transform", ALIKE) is not ALIKE:
        return f"{name} has a fit_transform of its own, which may give other rows than transform"
    params = step.get_params() if hasattr(step, "get_params") else {}
    drawn = [each for each in params if each.endswith("random_state") and params[each] is None]
    return f"{name} with {drawn[0]}=None draws at random; set it to an integer" if drawn else None


def cross_fitted(transformer: Any) -> str | None:
    """The name of a step that encodes rows that it is fitted to in another way than later ones."""
    for step in transformer.get_params().values():
        if is_known(step) and type(step).__name__ in CROSS_FITTED:
            return type(step).__name__
    return None


def _fills(step, role):
    """Whether a step is an imputer that fills holes by a number, or a level, of each column."""
    return (
        kind_of(step) is SimpleImputer
        and is_nan(step.missing_values)
        and step.strategy in STRATEGIES[role]
        and not (step.add_indicator and role == "levels")
    )


def _kinds_to_fill(imputer):
    """Kinds of numbers that an imputer takes: some take no bools."""
    return "biuf" if imputer.strategy in ("mean", "median") else "iuf"


def _encodes(steps):
    """Whether the first of some steps is an encoder whose columns follow from counts of levels."""
    if not steps or kind_of(steps[0]) not in ENCODERS:
        return False
    step = steps[0]
    if not isinstance(step.categories, str) or getattr(step, "handle_unknown", "") == "warn":
        return False
    if kind_of(step) is OneHotEncoder:
        return isinstance(step.drop, str | None)
    return not (step.min_frequency or step.max_categories)


# ---------------------------------------------------------------- levels


def count_all_levels(branch: Branch, X: Any) -> dict[int, int]:
    """Numbers of levels of the columns of X that get a column for each, rare ones not grouped."""
    coded: set[int] = set()
    for leaf in branch.leaves:
        makes = leaf.kind == "levels" or any(map(makes_levels, leaf.head))
        coded.update(leaf.columns if makes and not groups_levels(leaf) else ())
    return {j: count_levels(column_of(X, j)) for j in sorted(coded)}


def groups_levels(leaf: Branch) -> bool:
    """Whether a branch merges rare levels into one column and does nothing else with them."""
    if leaf.kind != "levels" or not makes_levels(leaf.head[-1]):
        return False
    if any(fill.strategy != "constant" for fill in leaf.head[:-1]):
        return False  # what fills holes differs between training parts
    encoder = leaf.head[-1]
    return encoder.min_frequency is not None or encoder.max_categories is not None


def makes_levels(step: Any) -> bool:
    """Whether a step gives levels a column each."""
    return kind_of(step) is OneHotEncoder


def named(transformer: Any) -> list[tuple[str, Any]]:
    """Entries by name."""
    if isinstance(transformer, FeatureUnion):
        return list(transformer.transformer_list)
    own = [(name, each) for name, each, _ in transformer.transformers]
    return [*own, ("remainder", transformer.remainder)]

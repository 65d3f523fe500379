"""What of a `ColumnTransformer`, or of X, is in the way of the pass, in words for the user."""

from collections.abc import Sequence
from typing import Any

from sklearn.base import clone

from gpuml._arrays import is_array, is_foreign
from gpuml._arrays.frames import header_of, is_host_frame
from gpuml._sklearn import _check_feature_names
from gpuml.compose._coding import count_levels
from gpuml.compose._layout import (
    ANY_ROWS,
    CONTAINERS,
    Branch,
    as_ours,
    chain_of,
    column_of,
    follows,
    groups_levels,
    is_affine,
    is_made,
    lay_out,
    named,
    not_made,
)
from gpuml.compose._target_codes import is_shared
from gpuml.extending import AffineStep
from gpuml.pipeline._union import wants_frame
from gpuml.resampling.multifit import STEPS, ours_of, step_words
from gpuml.solvers.table_rows import MOST_LEVELS

# That a reason names.
MOST_COLUMNS = 10
# Affine steps that sparse rows allow, unless they centre.
OF_SPARSE = ("MaxAbsScaler", "TruncatedSVD")


def layout_obstacle(transformer: Any, X: Any) -> str | None:
    """The reason why some step of a `ColumnTransformer` does not join the pass, if any.

    But for columns of many levels, of which `_apart` knows.
    """
    why = _entries_obstacle(transformer, wants_frame(transformer))
    if why is not None or X is None:
        return why
    if not (is_host_frame(X) or (is_array(X) and X.ndim == 2)):
        kinds = "a DataFrame of pandas, polars or Arrow, or a NumPy array"
        return f"X is of type {type(X).__name__}, and not {kinds}"
    try:
        _check_feature_names(clone(transformer), header_of(X), reset=True)
        layout = lay_out(transformer, X)
    except (ValueError, TypeError, IndexError) as error:
        return str(error)
    if not layout.branch.parts:
        return "no column is left"
    if type(X).__module__.startswith("pyarrow") and not all(map(_has_steps, layout.branch.leaves)):
        return (
            "scikit-learn cannot pass columns of a pyarrow.Table through; write "
            "StandardScaler(with_mean=False, with_std=False) for 'passthrough'"
        )
    return _device_obstacle(layout.branch) if is_foreign(X) else None


def _has_steps(leaf):
    return bool(leaf.head or leaf.tail)


def _device_obstacle(branch):
    """Why steps are not fitted to columns on a device."""
    for leaf in branch.leaves:
        made = leaf.head[-1:] if leaf.kind == "made" and not is_shared(leaf.head) else ()
        for step in (*leaf.head, *leaf.tail, *branch.tail):
            name = type(step).__name__
            if not type(step).__module__.startswith("gpuml"):
                return f"X is in GPU memory, and {name} is scikit-learn's; use gpuml's"
            own = as_ours(step)
            if step in made or (isinstance(own, AffineStep) and own.affine_needs_rows):
                return f"X is in GPU memory, and {name} is fitted to rows in CPU memory"
    return None


def _entries_obstacle(transformer, frames):
    """Why an entry of a `ColumnTransformer` or `FeatureUnion` does not join the pass."""
    for name, each in named(transformer):
        if isinstance(each, str) and each not in ("drop", "passthrough"):
            return f"its entry {name!r} is {each!r}"
        why = _chain_obstacle(chain_of(each), frames)
        if why is not None:
            return f"its entry {name!r}: {why}"
    return None


def _chain_obstacle(steps, frames):
    for step in steps:
        own_frames = frames or wants_frame(step)
        if isinstance(step, CONTAINERS):
            why = _entries_obstacle(step, own_frames)
        elif own_frames and not hasattr(step, "get_feature_names_out"):
            why = f"set_output asks for DataFrames, and {_nameless(step)}"
        elif own_frames and sparse_words(step) is not None:
            why = f"set_output asks for DataFrames, which cannot be sparse: {sparse_words(step)}"
        elif is_made(step) or is_affine(step):
            why = None
        else:
            own = ours_of(step, STEPS)
            joins = isinstance(own, AffineStep) and step_words(own) is None
            why = own.affine_obstacle(ANY_ROWS) if joins else None
            why = f"{type(step).__name__} with {why}" if why else not_made(step)
        if why is not None:
            return why
    for n, step in enumerate(steps):
        if not is_made(step) and not isinstance(step, CONTAINERS) and not follows(steps[n:]):
            return f"{type(step).__name__} comes before steps that are not affine"
    return _sparse_obstacle(steps)


def _nameless(step):
    """That a step does not name its output, and what to change."""
    names = "; set feature_names_out='one-to-one'" if hasattr(step, "feature_names_out") else ""
    return f"{type(step).__name__} has no get_feature_names_out{names}"


def _sparse_obstacle(steps):
    """The step that scikit-learn does not let read sparse columns, if any."""
    sparse: str | None = None
    for step in steps:
        centres = getattr(step, "with_mean", True) and getattr(step, "with_centering", True)
        takes = type(step).__name__ in OF_SPARSE or not centres or hasattr(step, "get_support")
        if sparse is not None and is_affine(step) and not takes:
            return f"{type(step).__name__} behind {sparse}"
        sparse = sparse_words(step) or (sparse if takes else None)
    return None


def divided_obstacle(branches: Sequence[Branch], X: Any) -> str | None:
    """Why branches cannot be fitted from sums over rows that are divided, and what to change.

    Parameters
    ----------
    branches : sequence of Branch
        Of all candidates.
    X : DataFrame or array
        Few rows, among which is one of each level.
    """
    if any(part.kind == "beside" for branch in branches for part, _ in branch.parts):
        return "a ColumnTransformer or FeatureUnion is inside another one; use one for all columns"
    leaves = [leaf for branch in branches for leaf in branch.leaves]
    why = next(filter(None, map(_leaf_obstacle, leaves)), None)
    if why is not None:
        return why
    whole = [leaf for leaf in leaves if leaf.kind == "levels" and not groups_levels(leaf)]
    coded = {j for leaf in whole for j in leaf.columns}
    n_levels = sum(count_levels(column_of(X, j)) for j in coded)
    if n_levels > MOST_LEVELS:
        return too_many_levels(n_levels)
    return next(filter(None, (_reading(branch.tail) for branch in branches)), None)


def too_many_levels(n_levels: int) -> str:
    """What to do about categories with so many levels, of rows in files or on workers."""
    return (
        f"the categories have {n_levels:,} levels, and sums over rows in files, or divided over "
        f"workers, take at most {MOST_LEVELS:,}; give OneHotEncoder min_frequency or "
        "max_categories, or leave columns of many levels out"
    )


def _leaf_obstacle(leaf):
    """Why steps of some columns need all rows of these in one place."""
    if leaf.kind == "made":
        names = " and ".join(type(step).__name__ for step in leaf.head) or "passthrough"
        columns = ", ".join(map(str, leaf.columns[:MOST_COLUMNS]))
        more = ", ..." if len(leaf.columns) > MOST_COLUMNS else ""
        return (
            f"{names} of columns [{columns}{more}] is fitted to rows in memory; use "
            "SimpleImputer and StandardScaler for numbers, and OneHotEncoder or OrdinalEncoder "
            "for categories"
        )
    for name in ("min_frequency", "max_categories") if leaf.kind == "levels" else ():
        encoder = leaf.head[-1]
        theirs = not type(encoder).__module__.startswith("gpuml")
        if theirs and getattr(encoder, name, None) is not None:
            return f"{type(encoder).__name__} with {name} is scikit-learn's; use gpuml's"
    return _reading(leaf.tail)


def _reading(steps):
    for step in steps:
        if as_ours(step).affine_needs_rows:
            return (
                f"{type(step).__name__} is fitted to rows in memory; use StandardScaler, or "
                "leave it out"
            )
    return None


def sparse_words(step: Any) -> str | None:
    """The parameter of a step that makes its output sparse, and what to change."""
    name = type(step).__name__
    if isinstance(step, CONTAINERS):
        threshold = getattr(step, "sparse_threshold", None)
        inside = sparse_encoder(step) if threshold != 0 else None
        return None if inside is None else f"{name} with {inside}"
    if getattr(step, "encode", None) == "onehot":
        return f"{name} with encode='onehot'; set encode='onehot-dense'"
    if getattr(step, "sparse_output", False):
        return f"{name} with sparse_output=True; set sparse_output=False"
    return None


def sparse_encoder(transformer: Any) -> str | None:
    """The branch whose output is sparse; None if there is none."""
    for name, each in named(transformer):
        for step in chain_of(each):
            words = sparse_words(step)
            if words is not None:
                return f"{words.partition(' with ')[2].partition(';')[0]} in its entry {name!r}"
    return None

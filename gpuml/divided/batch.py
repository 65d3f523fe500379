"""Shares of the rows become one batch whose rows are elsewhere."""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from gpuml._arrays import HOST, as_array, is_array, move, namespace, place_of, to_host
from gpuml._settings.config import config_context
from gpuml.data import Absent, Batch, Holders, NeedsAllRows, whole, without_features
from gpuml.extending import MultifitEstimator


class Share(NamedTuple):
    """Some of the rows, as they came: X (n, p), y (n,) or (n, t) or None, weights (n,) or None."""

    X: Any
    y: Any = None
    weight: Any = None


# Attributes that an estimator sets when it checks rows.
SEEN = ("n_features_in_", "feature_names_in_")


class Facts(NamedTuple):
    """The facts about a piece that others need."""

    n_rows: int
    n_features: int
    dtype: np.dtype
    n_targets: int
    y_dtype: np.dtype
    y_is_flat: bool
    total_weight: float | None
    classes: np.ndarray | None
    seen: dict


def facts_of(estimator: Any, shares: Holders, settings: Mapping[str, Any]) -> list[Facts]:
    """The facts of every share, which is checked at its place."""
    return shares.map(_check_share, estimator, dict(settings), 0).each(_facts)


def divided_batch(
    estimator: Any,
    shares: Holders,
    sizes: Sequence[int],
    settings: Mapping[str, Any],
    known: Sequence[Facts] | None = None,
) -> Batch:
    """A batch of divided rows; every share is checked at its place.

    Parameters
    ----------
    estimator : estimator
        One whose `multifit_divided` says so. Number and names of features are set on it.
    shares : Holders
        Of `Share`s, in the order of the rows.
    sizes : sequence of ints
        Rows of each.
    settings : dict
        gpuml's, to hold where the shares are.
    known : sequence of Facts, optional
        If they are known, shares are not asked for them; those that are refused say so later.

    Raises
    ------
    NeedsAllRows
        If the estimator cannot be fitted to divided rows.
    ValueError
        For what the estimator refuses, and where shares do not fit together.
    """
    if not (isinstance(estimator, MultifitEstimator) and estimator.multifit_divided):
        raise NeedsAllRows(f"{type(estimator).__name__} needs the rows in one place.")
    firsts = np.cumsum([0, *sizes[:-1]]).tolist()
    checked = shares.map(_check_share, estimator, dict(settings), each_with=firsts)
    facts = checked.each(_facts) if known is None else known
    if known is None and [each.n_rows for each in facts] != list(sizes):
        raise ValueError(f"Shares have {[each.n_rows for each in facts]} rows, not {list(sizes)}.")
    one = _agreed(facts)
    vars(estimator).update(one.seen)
    classes = None if one.classes is None else _all_classes(facts)
    pieces = checked.map(_joined_piece, estimator, classes)
    # Without any rows the same steps tell what the targets of all rows look like.
    place = shares.place
    nothing = Batch(
        X=np.zeros((0, one.n_features), dtype=one.dtype),
        y=np.zeros((0, one.n_targets), dtype=one.y_dtype),
        weight=None,
        work=HOST,
        home=HOST,
        y_is_flat=one.y_is_flat,
        codes=None if classes is None else np.zeros(0, dtype=np.int64),
        classes=classes,
    )
    like = estimator.multifit_joined(nothing)
    n = int(sum(sizes))
    return Batch(
        X=Absent((n, one.n_features), one.dtype),
        y=Absent((n, like.y.shape[1]), one.y_dtype),
        weight=None if one.total_weight is None else Absent((n,), one.dtype),
        work=place,
        home=place,
        y_is_flat=like.y_is_flat,
        codes=None if classes is None else Absent((n,), np.dtype(np.int64)),
        classes=_at(classes, place),
        holders=pieces,
    )


def _at(classes, place):
    """Classes where results go: strings stay on the host."""
    if classes is None or classes.dtype.kind not in "iufb":
        return classes
    return move(classes, place)


def _check_share(share: Share, estimator, settings, first):
    if hasattr(share.X, "tocsr"):
        raise NeedsAllRows("Sparse rows are fitted in one place.")
    # Shares may be looked at by several threads, and each notes what it sees on its own copy.
    estimator = copy(estimator)
    weight = as_array(share.weight)
    weight = weight if weight is None or is_array(weight) else np.asarray(weight)
    # Some of the rows may all weigh nothing; all of them may not, which is looked at later.
    weightless = weight is not None and not bool(namespace(weight).any(weight != 0))
    checked_weight = namespace(weight).ones_like(weight) if weightless else weight
    with config_context(**settings):
        batch = estimator.multifit_piece(share.X, share.y, checked_weight)
    if weightless:
        batch = replace(batch, weight=0 * batch.weight)
    seen = {n: v for n, v in vars(estimator).items() if n in SEEN}
    return replace(batch, first=first), seen


@without_features
def _facts(checked):
    batch, seen = checked
    weight = batch.weight
    total = None if weight is None else float(namespace(weight).sum(weight))
    return Facts(
        n_rows=batch.n_rows,
        n_features=batch.n_features,
        dtype=_numpy_dtype(batch),
        n_targets=batch.y.shape[1],
        y_dtype=_numpy_dtype(batch.y),
        y_is_flat=batch.y_is_flat,
        total_weight=total,
        classes=None if batch.classes is None else to_host(batch.classes),
        seen=seen,
    )


def _numpy_dtype(x):
    return np.dtype(str(x.dtype).rpartition(".")[2])


def _agreed(facts: Sequence[Facts]) -> Facts:
    """Facts of all pieces, which have to be alike."""
    one = facts[0]
    for what, found in (
        ("numbers of features", [each.n_features for each in facts]),
        ("names of features", [_names(each) for each in facts]),
        ("dtypes of X", [str(each.dtype) for each in facts]),
        ("numbers of targets", [each.n_targets for each in facts]),
        ("numbers of axes of y", [1 if each.y_is_flat else 2 for each in facts]),
    ):
        if len(set(found)) > 1:
            some = ", ".join(sorted(map(str, set(found))))
            raise ValueError(f"Parts of the rows have different {what}: {some}.")
    totals = [each.total_weight for each in facts if each.total_weight is not None]
    if 0 < len(totals) < len(facts):
        raise ValueError("Some parts of the rows have weights and others have none.")
    if totals and not sum(totals) > 0:
        raise ValueError("Sample weights must contain at least one non-zero number.")
    return one._replace(y_dtype=np.result_type(*(each.y_dtype for each in facts)))


def _names(facts):
    return tuple(facts.seen.get("feature_names_in_", ()))


def _all_classes(facts):
    found = [to_host(each.classes) for each in facts]
    if len({each.dtype.kind in "OSTU" for each in found}) > 1:
        raise ValueError("Some parts of y hold strings and others numbers.")
    return np.unique(np.concatenate(found))


def _joined_piece(checked, estimator, classes):
    batch, _ = checked
    if classes is not None:
        own = np.searchsorted(classes, to_host(batch.classes))
        place = place_of(batch.codes)
        xp = place.xp
        codes = xp.astype(batch.codes, xp.int64, copy=False)
        codes = xp.take(xp.asarray(own, device=place.device), codes, axis=0)
        y = xp.astype(move(codes, place_of(batch.y)), batch.y.dtype)[:, None]
        batch = replace(batch, codes=codes, y=y, classes=_at(classes, batch.home))
    return whole(estimator.multifit_joined(batch))

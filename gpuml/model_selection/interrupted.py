"""Results of an interrupted search: the fits that finished."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gpuml._sklearn import _insert_error_scores
from gpuml.exceptions import level_of_user

# Fields of results that scikit-learn and cluster searches make columns of.
COLUMNS = ("fit_error", "test_scores", "train_scores", "fit_time", "score_time", "worker", "device")
# How many missing candidates a warning names.
MOST_NAMED = 3


class Left(NamedTuple):
    """The results of an interrupted search: fitted attributes, and what is missing."""

    attributes: dict[str, Any]
    text: str


def not_fitted(like: Mapping[str, Any], seconds: float = np.nan) -> dict[str, Any]:
    """The result of a fit that did not happen, with the fields of one that did; scores are nan."""
    names = [name for name in ("test_scores", "train_scores") if name in like]
    nothing = {name: _nothing(like[name]) for name in names}
    return {**like, **nothing, "fit_time": seconds, "score_time": seconds, "fit_error": None}


def left_of(rounds: Any) -> Left | None:
    """The results of the rounds of an interrupted search; None if no fit finished.

    A candidate of the current round is kept if one of its fits finished; its other scores are nan.
    """
    search, (evaluator, candidates, more) = rounds.search, rounds.under_way
    n_splits = search.n_splits_
    found: dict[int, dict[int, Any]] = {}
    for (position, split), result in evaluator.finished.items() if evaluator else ():
        found.setdefault(position, {})[split] = result
    own = {position: found[position] for position in sorted(found)}
    known = [*rounds.all_out, *(result for each in own.values() for result in each.values())]
    if not known:
        return None
    fields = [name for name in COLUMNS if name in known[0]]
    clean = [{name: result[name] for name in fields} for result in known]
    if callable(search.scoring):
        _insert_error_scores(clean, search.error_score)
    n_before = len(rounds.all_out)
    out, those = clean[:n_before], iter(clean[n_before:])
    for splits in own.values():
        row = {split: next(those) for split in splits}
        out += [row.get(s) or not_fitted(next(iter(row.values()))) for s in range(n_splits)]
    columns = {name: [*values] for name, values in rounds.more.items()}
    for name, values in more.items():
        columns.setdefault(name, []).extend(values[position] for position in own)
    params = [*rounds.all_params, *(candidates[position] for position in own)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about scores that are nan
        results = search._format_results(params, n_splits, out, columns)
    attributes = {
        "cv_results_": results,
        "n_splits_": n_splits,
        "multimetric_": isinstance(out[0]["test_scores"], dict),
    }
    if "split_sizes_" in vars(search):
        attributes["split_sizes_"] = search.split_sizes_
    n_all = n_before + len(candidates) * n_splits
    some = sum(len(splits) < n_splits for splits in own.values())
    missing = [each for position, each in enumerate(candidates) if position not in own]
    return Left(attributes, _words(len(known), n_all, len(params), some, missing))


def show_left(search: Any, left: Left) -> None:
    """Set the attributes of an interrupted fit on a search, and delete those of an earlier fit."""
    fitted = [name for name in vars(search) if name.endswith("_") and not name.startswith("_")]
    for name in fitted:
        delattr(search, name)
    vars(search).update(left.attributes)
    warnings.warn(left.text, RuntimeWarning, stacklevel=level_of_user())


def _words(n_known, n_all, n_kept, n_in_part, missing: Sequence[Mapping[str, Any]]) -> str:
    text = f"The search was interrupted after {n_known} of {n_all} fits."
    text += f" cv_results_ has the {n_kept} candidates of these fits"
    text += f"; {n_in_part} of them lack splits, whose scores are nan." if n_in_part else "."
    if missing:
        named = ", ".join(str(dict(each)) for each in missing[:MOST_NAMED])
        others = len(missing) - MOST_NAMED
        named += f" and {others} more" if others > 0 else ""
        text += f" Missing candidates: {named}."
    return f"{text} There is no best_estimator_: choose parameters from cv_results_, or fit again."


def _nothing(scores):
    return dict.fromkeys(scores, np.nan) if isinstance(scores, dict) else np.nan

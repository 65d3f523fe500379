"""The table of a fitted search, `cv_results_`, as what is to be drawn."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError

from gpuml.inspection._values import MISSING, key_of


@dataclass(frozen=True)
class Results:
    """Scores of candidates, and the parameters that are drawn.

    Attributes
    ----------
    values : dict of str to list
        For each parameter its value in each candidate; `MISSING` where a candidate has none.
    test_scores : array (n_candidates, n_splits)
    train_scores : array (n_candidates, n_splits) or None
    iterations : integer array (n_candidates,) or None
        Of an adaptive search: in which iteration each was evaluated.
    resources : array (n_candidates,) or None
        What candidates of an iteration were given.
    metric : str
    """

    values: dict[str, list]
    test_scores: np.ndarray
    train_scores: np.ndarray | None
    iterations: np.ndarray | None
    resources: np.ndarray | None
    metric: str


def read_results(search: Any, metric: str | None, params: Any) -> Results:
    """What is to be drawn of a fitted search.

    Raises
    ------
    NotFittedError
        If the search is not fitted.
    TypeError
        If it is no search.
    ValueError
        For an unknown metric or parameter, and without `metric` where there are several.
    """
    table = _table_of(search)
    metric = _check_metric(metric, table)
    candidates = list(table["params"])
    names = _check_params(params, candidates)
    iterations, resources = _iterations(table)
    test = _scores(table, "test", metric)
    assert test is not None
    return Results(
        {name: [each.get(name, MISSING) for each in candidates] for name in names},
        test,
        _scores(table, "train", metric),
        iterations,
        resources,
        metric,
    )


def _table_of(search):
    table = getattr(search, "cv_results_", None)
    if table is None and hasattr(search, "fit"):
        raise NotFittedError(
            f"This {type(search).__name__} has no cv_results_: it is not fitted yet, or is no "
            "search. Call its fit first."
        )
    if table is None:
        raise TypeError(f"A fitted search is needed, got {type(search).__name__}.")
    return table


def _check_metric(metric, table):
    found = [re.fullmatch(r"(?:mean_)?test_(.+)", name) for name in table]
    metrics = [match[1] for match in found if match]
    if metric is None and len(metrics) == 1:
        return metrics[0]
    listed = ", ".join(map(repr, metrics))
    if metric is None:
        raise ValueError(f"The search has several metrics; choose one with metric=: {listed}.")
    if metric not in metrics:
        raise ValueError(f"The search has no metric {metric!r}; it has {listed}.")
    return metric


def _check_params(params, candidates):
    known = list(dict.fromkeys(name for each in candidates for name in each))
    if params is None:
        if not known:
            raise ValueError("The search has no parameters to draw its scores over.")
        varying = [name for name in known if _varies(name, candidates)]
        return varying or known[:1]
    asked: Sequence[str] = [params] if isinstance(params, str) else list(params)
    unknown = [name for name in asked if name not in known]
    if unknown or not asked or len(set(asked)) < len(asked):
        raise ValueError(
            f"params={params!r}: give names of searched parameters, each once. "
            f"The search has {', '.join(map(repr, known))}."
        )
    return asked


def _varies(name, candidates: Iterable[Mapping]):
    return len({key_of(each.get(name, MISSING)) for each in candidates}) > 1


def _scores(table, part, metric):
    """Scores of each candidate on each split; with one column where only their mean is known."""
    pattern = re.compile(rf"split(\d+)_{part}_{re.escape(metric)}")
    splits = sorted((int(m[1]), name) for name in table if (m := pattern.fullmatch(name)))
    names = [name for _, name in splits]
    if not names:
        names = [n for n in (f"mean_{part}_{metric}", f"{part}_{metric}") if n in table][:1]
    if not names:
        return None
    return np.stack([np.ma.filled(np.asarray(table[name], float), np.nan) for name in names], 1)


def _iterations(table):
    """Of successive halving and of Hyperband; None for other searches."""
    if "iter" in table:
        return np.asarray(table["iter"]), np.asarray(table["n_resources"])
    if "partial_fit_calls" in table:
        calls = np.asarray(table["partial_fit_calls"])
        return np.unique(calls, return_inverse=True)[1], calls
    return None, None

"""What Hyperband found, as tables."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from scipy.stats import rankdata

from gpuml._sklearn import _yield_masked_array_for_each_param
from gpuml.model_selection.brackets import Entry, or_least


def described(brackets: Iterable[tuple]) -> dict[str, Any]:
    """Metadata from the number, models, calls and decisions of each bracket."""
    rows = [
        {
            "bracket": number,
            "n_models": n_models,
            "partial_fit_calls": n_calls,
            "decisions": sorted(decisions),
        }
        for number, n_models, n_calls, decisions in brackets
    ]
    return {
        "n_models": sum(row["n_models"] for row in rows),
        "partial_fit_calls": sum(row["partial_fit_calls"] for row in rows),
        "brackets": sorted(rows, key=lambda row: row["bracket"]),
    }


def results_of(entries: Sequence[Entry]) -> dict[str, Any]:
    """The results of all models."""
    last = [entry.records[-1] for entry in entries]
    table: dict[str, Any] = {}
    for name in ("partial_fit_time", "score_time"):
        times = [[record[name] for record in entry.records] for entry in entries]
        table[f"mean_{name}"] = np.array([np.mean(each) for each in times])
        table[f"std_{name}"] = np.array([np.std(each) for each in times])
    scores = np.array([record["score"] for record in last])
    table["test_score"] = scores
    table["rank_test_score"] = rankdata(
        [-or_least(score) for score in scores], method="min"
    ).astype(np.int32)
    for name in ("model_id", "bracket", "partial_fit_calls"):
        table[name] = np.array([record[name] for record in last])
    params = [dict(entry.params) for entry in entries]
    table.update(_yield_masked_array_for_each_param(params))
    table["params"] = params
    return table

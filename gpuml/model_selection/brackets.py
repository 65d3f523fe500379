"""Hyperband's plan: brackets of successive halving, their promotions, and its result tables.

This module only computes with numbers of calls and scores; the caller decides what a call trains.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.stats import rankdata

from gpuml._sklearn import _yield_masked_array_for_each_param


@dataclass(frozen=True)
class Bracket:
    """One trade-off between the number of models and the calls for each.

    Attributes
    ----------
    number : int
        How many rungs follow the first: the larger, the earlier models are dropped.
    rungs : tuple of (n_models, n_calls)
        So many models have had so many calls, all rungs before included, when they are compared.
    """

    number: int
    rungs: tuple[tuple[int, int], ...]

    @property
    def n_models(self) -> int:
        """The number of models at the start."""
        return self.rungs[0][0]

    @property
    def n_calls(self) -> int:
        """The number of calls of all models together."""
        before, total = 0, 0
        for n_models, n_calls in self.rungs:
            total += n_models * (n_calls - before)
            before = n_calls
        return total


def plan_brackets(max_calls: int, eta: int) -> list[Bracket]:
    r"""The brackets of Hyperband, from the most adaptive to the one that drops no candidate.

    With :math:`s_{max} = \lfloor \log_\eta R \rfloor`, bracket :math:`s` begins with
    :math:`\lceil (s_{max} + 1) \eta^s / (s + 1) \rceil` models of :math:`R \eta^{-s}` calls each,
    rounded down; each rung keeps one model in :math:`\eta` and gives it :math:`\eta` times as many.

    Parameters
    ----------
    max_calls, eta : int
        R, and what is called aggressiveness.

    References
    ----------
    L. Li, K. Jamieson, G. DeSalvo, A. Rostamizadeh, A. Talwalkar, "Hyperband: a novel bandit-based
    approach to hyperparameter optimization", JMLR 18 (2018), algorithm 1.

    Examples
    --------
    >>> from gpuml.model_selection.brackets import plan_brackets
    >>> for bracket in plan_brackets(81, 3):
    ...     print(bracket.number, bracket.rungs)
    4 ((81, 1), (27, 3), (9, 9), (3, 27), (1, 81))
    3 ((34, 3), (11, 9), (3, 27), (1, 81))
    2 ((15, 9), (5, 27), (1, 81))
    1 ((8, 27), (2, 81))
    0 ((5, 81),)
    """
    largest = 0
    while eta ** (largest + 1) <= max_calls:  # a floating-point logarithm would round 243 down
        largest += 1
    plan = []
    for s in range(largest, -1, -1):
        n_models, n_calls = -(-(largest + 1) * eta**s // (s + 1)), max_calls // eta**s
        rungs = tuple((n_models // eta**i, n_calls * eta**i) for i in range(s + 1))
        plan.append(Bracket(s, rungs))
    return plan


@dataclass
class Entry:
    """A model of a bracket.

    Attributes
    ----------
    number : int
        Among the models of its bracket.
    params : dict
    records : list of dict
        What is known of it, after each time that it was scored.
    state : object
        Of its trainer; None before the first call and when it is out.
    stopped : bool
        Whether it gets no more calls, because it failed or its score does not rise any more.
    error : str or None
        How it failed.
    """

    number: int
    params: Mapping[str, Any]
    records: list[dict[str, Any]] = field(default_factory=list)
    state: Any = None
    stopped: bool = False
    error: str | None = None

    @property
    def n_calls(self) -> int:
        """The number of calls so far."""
        return self.records[-1]["partial_fit_calls"] if self.records else 0

    @property
    def score(self) -> float:
        """The last score."""
        return self.records[-1]["score"]


class BracketRun:
    """A running bracket: it says which models to train next, given the scores so far.

    Depends on nothing but scores of this bracket, so brackets may run in any order or together.

    Parameters
    ----------
    bracket : Bracket
    params : sequence of dicts
        Of its models.
    patience : int or None, default=None
        Most calls between two scores; a model whose scores of that many calls have not risen by
        more than `tol` stops.
    tol : float or None, default=None
    """

    def __init__(
        self,
        bracket: Bracket,
        params: Sequence[Mapping[str, Any]],
        patience: int | None = None,
        tol: float | None = None,
    ):
        self.bracket, self.patience, self.tol = bracket, patience, tol
        self.entries = [Entry(number, each) for number, each in enumerate(params)]
        self.alive = list(self.entries)
        self._rung = 0

    def next(self) -> list[tuple[Entry, int]]:
        """The models to train now, with their total numbers of calls; empty at the end."""
        while True:
            wanted = self.bracket.rungs[self._rung][1]
            on_the_way = [e for e in self.alive if not e.stopped and e.n_calls < wanted]
            if on_the_way:
                return [(e, min(e.n_calls + self._step(e), wanted)) for e in on_the_way]
            if self._rung + 1 == len(self.bracket.rungs):
                return []
            self._rung += 1
            self._keep(self.bracket.rungs[self._rung][0])

    def record(
        self, entry: Entry, record: dict[str, Any], state: Any, error: str | None = None
    ) -> None:
        """Record the result of training a model."""
        entry.records.append(record)
        entry.state, entry.error = state, error
        entry.stopped = error is not None or self._is_on_a_plateau(entry)

    @property
    def best(self) -> Entry:
        """The best model of the last rung; of equal ones the first."""
        return max(self.alive, key=lambda e: (or_least(e.score), -e.number))

    def _step(self, entry):
        """The number of calls after which a model is scored at the latest."""
        if not self.patience:
            return self.bracket.rungs[-1][1]
        return self.patience if entry.records else 1

    def _keep(self, n_models):
        ranked = sorted(self.alive, key=lambda e: (-or_least(e.score), e.number))
        for entry in ranked[n_models:]:
            entry.state = None
        self.alive = sorted(ranked[:n_models], key=lambda e: e.number)

    def _is_on_a_plateau(self, entry):
        if not self.patience or self.tol is None or entry.n_calls < self.patience:
            return False
        begin = entry.n_calls - self.patience
        first, *later = [r["score"] for r in entry.records if r["partial_fit_calls"] >= begin]
        return bool(later) and max(later) - first <= self.tol


def or_least(score: float) -> float:
    """A score that can be compared: nan counts as less than all others."""
    return -math.inf if math.isnan(score) else score


def described(brackets: Iterable[tuple]) -> dict[str, Any]:
    """Metadata: number, models, calls and decisions of each bracket."""
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

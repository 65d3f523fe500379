"""Groups of a search that are fitted with the rows divided over workers."""

import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, replace
from typing import Any

import dask
import numpy as np
from distributed import Client
from sklearn.base import clone

from gpuml import get_config
from gpuml._sklearn import _MultimetricScorer, _num_samples
from gpuml.divided import HOST, DividedRows, moved
from gpuml.model_selection.candidates import Refusal, Step, number
from gpuml.model_selection.divided import (
    DividedEvaluator,
    reads_table,
    weight_of,
    why_not_divided,
)
from gpuml.model_selection.evaluate import Job, Results
from gpuml.model_selection.residence import all_estimators
from gpuml.model_selection.warned import Warned, recorded
from gpuml.protocol import Group
from gpuml_dask.errors import ClusterError
from gpuml_dask.planning.blocks import cut_rows
from gpuml_dask.planning.plan import Plan, has_gpu, make_plan, memory_of
from gpuml_dask.planning.worker_kinds import placing_of
from gpuml_dask.rows.blocks import head_of
from gpuml_dask.rows.placement import Placed, Table, place
from gpuml_dask.searching.tasks import with_columns
from gpuml_dask.sums.divided import Spread, block_bytes, gpus_for
from gpuml_dask.sums.holders import Lost

# Dask's setting to override the rule: "whole" or "rows".
ASKED_PLAN = "gpuml.plan"
# Errors of sums over rows that no candidate causes; all others are a candidate's own.
FAULTS = (ClusterError, Lost, CancelledError)


@dataclass(frozen=True)
class Found:
    """The outcome of a run over divided rows.

    `results` of each candidate are split by split, without those of groups that need all rows;
    `refused` says why candidates have none. `best` is the candidate of the best mean score, and its
    model on all rows. `device` is "cpu" or "cuda".
    """

    results: dict[int, Results]
    steps: Sequence[Step]
    best: tuple[int, Any] | None
    device: str
    warned: Sequence[Warned]
    refused: Mapping[int, Refusal]


class ByRows:
    """Fits groups of a job, and its best model, to rows that are divided over workers."""

    def __init__(self, job: Job, client: Client):
        self.job, self.client = job, client
        self._own: Table | None = None
        self.workers: list[str] = []  # that have rows
        self._best: dict[int, Any] = {}

    def fit(self, groups: Sequence[Group], label: str, *, refit: int | str | None) -> Found:
        """Fit and score groups; `refit` names a candidate, or "best", to fit to all rows too."""
        table, weight = self._table()
        task, _ = with_columns(self.job.task, _num_samples(self.job.X), verbose=0)
        bare = Job(clone(self.job.estimator), None, None, self.job.splits, task)
        filters = list(warnings.filters)
        spread = Spread(table, label, weight, as_tables=reads_table(self.job))
        found = spread.run(_fit_groups, bare, list(groups), refit, filters)
        if found.best is not None:
            self._best[found.best[0]] = found.best[1]
        self.workers = spread.workers
        where, unread = number(len(self.workers), "worker"), _unread(self.job)
        divided = "rows divided" if unread is None else f"rows divided; {unread}"
        steps = [
            replace(step, place=f"{where} ({step.place})", why=f"{step.why}, {divided}")
            for step in found.steps
        ]
        return replace(found, steps=steps)

    def refit(self, candidate: int, group: Group | None, label: str) -> Any | None:
        """The model of a candidate on all rows; None where it was not fitted here."""
        if candidate not in self._best and group is not None:
            index = group.positions.index(candidate)
            alone = Group(group.shared, [group.varying[index]], [candidate])
            self.fit([alone], label, refit=candidate)
        return self._best.get(candidate)

    def close(self) -> None:
        if self._own is not None:
            self._own.close()

    def _table(self) -> tuple[Table, str | None]:
        """The rows on workers, and the name of the weights among them."""
        job = self.job
        weight = weight_of(job)
        name = None if weight is None else "weight"
        if isinstance(job.X, Placed):
            if weight is not None and not isinstance(weight, Placed):
                raise ValueError(
                    f"sample_weight.shape == {np.shape(weight)}, expected ({job.X.shape[0]},)!"
                )
            return job.X.table, None if weight is None else weight.name
        if self._own is None:
            columns = {} if weight is None else {"weight": weight}
            n_rows = _num_samples(job.X)
            row_bytes = -(-_n_bytes(job.X) // max(n_rows, 1))
            sizes = np.diff(cut_rows(n_rows, row_bytes, block_bytes=block_bytes())).tolist()
            numeric = not reads_table(job)
            self._own = place(
                job.X, job.y, columns, client=self.client, chunks=sizes, numeric=numeric
            )
        return self._own, name


def _fit_groups(
    rows: DividedRows, bare: Job, groups: Sequence[Group], refit: int | str | None, filters
) -> Found:
    """Fit groups of a job to divided rows, in the process that receives the sums."""
    evaluator = DividedEvaluator(replace(bare, X=rows), FAULTS)
    results: dict[int, Results] = {}
    with recorded(filters) as warned:
        for group in groups:
            results.update(dict(evaluator.fit_group(group)))
        best = _refitted(evaluator, results, refit)
    place = str(rows.shares.place)
    device = "cuda" if "cuda" in place else "cpu"
    return Found(results, evaluator.steps, moved_model(best), device, warned, evaluator.refused)


def _refitted(evaluator, results, which):
    """A candidate and its model on all rows: the one that is named, or the best one."""
    if which == "best":
        which = _best(evaluator.job.task.scorer, results)
    return None if which is None or which not in results else (which, evaluator.refit(which))


def _best(scorer, results):
    """The first candidate of the best mean score; None where several metrics are in question."""
    if isinstance(scorer, _MultimetricScorer):
        return None
    means = {c: np.mean([r["test_scores"] for r in rows]) for c, rows in results.items()}
    known = {c: mean for c, mean in means.items() if not np.isnan(mean)}
    return min(known, key=lambda c: (-known[c], c)) if known else None


def moved_model(best: tuple[int, Any] | None) -> tuple[int, Any] | None:
    """A model with its arrays in CPU memory, so that a client without a GPU can read it."""
    if best is None or best[1] is None:
        return None
    candidate, model = best
    for part in all_estimators(model):
        own = {n: v for n, v in vars(part).items() if n.endswith("_") and not n.startswith("__")}
        vars(part).update(moved(own, HOST))
    return candidate, model


# ---------------------------------------------------------------- the plan


def plan_for(
    job: Job, groups: Sequence[Group], n_alone: int, workers: Mapping[str, Mapping[str, Any]]
) -> Plan:
    """How a round is spread over the existing workers; `n_alone` candidates are in no group."""
    host_only = placing_of(job.estimator).kind == "cpu"
    of_kind = [one for one in workers.values() if has_gpu(one) != host_only]
    one_by_one = None if groups else "candidates are fitted one by one"
    needs_all = one_by_one or why_not_divided(job, _header(job, workers))
    # A GPU reads block by block what only the memory of its host has room for.
    plan = make_plan(
        _n_bytes(job.X),
        [max(memory_of(w), w.get("memory_limit") or 2**62) for w in of_kind or workers.values()],
        divisible=needs_all is None,
        some_whole=n_alone > 0,
        asked=dask.config.get(ASKED_PLAN),
        unread=_unread(job),
        divided=isinstance(job.X, Placed) and len(job.X.rows.sizes) > 1,
    )
    return plan if needs_all is None else replace(plan, why=f"{plan.why}: {needs_all}")


def _header(job, workers):
    """X without rows where workers find the levels of tables: CPUs, in the rows that they keep."""
    if gpus_for(workers, get_config()["device"], _n_bytes(job.X), on_gpu=False):
        return None
    header = job.X.header if isinstance(job.X, Placed) else head_of(job.X)
    return None if np.ndim(header) != 2 else header


def _unread(job):
    return job.X.rows.unread if isinstance(job.X, Placed) else None


def _n_bytes(X):
    """Bytes of the rows of X, with a target; of sparse X, of its values and their columns."""
    if hasattr(X, "nnz"):
        return int(X.nnz) * 12
    shape = getattr(X, "shape", None) or np.shape(X)
    itemsize = getattr(getattr(X, "dtype", None), "itemsize", 8)
    return _num_samples(X) * ((shape[1] if len(shape) > 1 else 1) + 1) * itemsize

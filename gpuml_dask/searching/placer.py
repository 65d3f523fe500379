"""Which kind of worker the candidates of a search need."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpuml.model_selection.evaluate import Job
from gpuml.model_selection.fitted_prefixes import may_be_prepared
from gpuml.model_selection.one_by_one import is_foreign
from gpuml.model_selection.prefix_keys import value_key
from gpuml.model_selection.residence import configured
from gpuml_dask.planning.needs import ANYWHERE, Placing, placing_of
from gpuml_dask.planning.worker_kinds import Kinds


@dataclass(frozen=True)
class Spot:
    """Candidates that are fitted by one kind of worker, and have the same first steps there."""

    placing: Placing
    candidates: list[int]


class Placer:
    """Says which kind of worker candidates go to."""

    def __init__(self, job: Job, kinds: Kinds):
        self.job, self.kinds = job, kinds
        # Rows of another library than NumPy may be in the memory of GPUs.
        table = getattr(job.X, "table", None)
        self._on_gpu = is_foreign(job.X) if table is None else table["X"].rows.facts.on_gpu

    def placing(self, params: Mapping[str, Any]) -> Placing:
        """Where a candidate is fitted; anywhere if all workers are of one kind."""
        if not self.kinds.differ:
            return ANYWHERE
        job = self.job
        try:
            placing = placing_of(configured(job.estimator, params))
        except Exception:
            return ANYWHERE  # its fit will tell what is wrong
        if self._on_gpu:
            return Placing("gpu")  # where its rows are
        divisible = self.kinds.are_mixed and placing.first
        if divisible and may_be_prepared(job.estimator, params, job.task.fit_params, job.task):
            return placing
        return Placing(placing.kind)

    def spots(self, candidates: Mapping[int, Mapping[str, Any]]) -> list[Spot]:
        """Candidates, whose parameters are given by number, by where they are fitted."""
        if not self.kinds.differ:
            return [Spot(ANYWHERE, list(candidates))]
        found: dict[Any, Spot] = {}
        models = []  # a key is good as long as what it names
        for number, params in candidates.items():
            placing, key = self.placing(params), None
            if placing.first:
                models.append(configured(self.job.estimator, params))
                key = tuple(value_key(models[-1].named_steps[name]) for name in placing.first)
            found.setdefault((placing, key), Spot(placing, [])).candidates.append(number)
        return list(found.values())

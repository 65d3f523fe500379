"""Kinds of workers, and which of them the candidates of a search need."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from distributed import Client

from gpuml.model_selection.evaluate import Job
from gpuml.model_selection.one_by_one import is_foreign
from gpuml.model_selection.prefix_keys import value_key
from gpuml.model_selection.prepared import may_be_prepared
from gpuml.model_selection.residence import configured
from gpuml_dask.planning.needs import ANYWHERE, Kind, Placing, placing_of
from gpuml_dask.waiting import facts_of

RESOURCES: Mapping[Kind, str] = {"gpu": "GPU", "cpu": "CPU"}
# What a task asks for of a resource: to have it at all is what counts. How many tasks run at one
# time is up to the worker's threads. (A power of two, so that it is given back exactly.)
SHARE = 2.0**-20


class Kinds:
    """Kinds of the workers there are, by the resources that they declare.

    Parameters
    ----------
    resources : mapping of str to mapping
        Of each worker by its address.

    Examples
    --------
    >>> from gpuml_dask.searching.kinds import Kinds
    >>> kinds = Kinds({"a": {"GPU": 1.0}, "b": {"CPU": 4.0}})
    >>> kinds.are_mixed, kinds.workers("cpu"), list(kinds.demand("gpu"))
    (True, ['b'], ['GPU'])
    >>> Kinds({"a": {"GPU": 1.0}}).demand("gpu")  # nothing to choose
    {}
    """

    def __init__(self, resources: Mapping[str, Mapping[str, float]]):
        self.addresses = sorted(resources)
        self._of = {
            kind: [a for a in self.addresses if resources[a].get(name)]
            for kind, name in RESOURCES.items()
        }

    @property
    def differ(self) -> bool:
        """Whether some workers have a GPU and others do not."""
        return 0 < len(self._of["gpu"]) < len(self.addresses)

    @property
    def are_mixed(self) -> bool:
        """Whether some workers have a GPU, and others declare that they are for the host's work."""
        return bool(self._of["gpu"]) and bool(set(self._of["cpu"]) - set(self._of["gpu"]))

    @property
    def resources(self) -> set[str]:
        """Names of the resources that there are."""
        return {name for kind, name in RESOURCES.items() if self._of[kind]}

    def workers(self, kind: Kind | None) -> list[str]:
        """Addresses of the workers that a kind of work goes to."""
        return self._of[kind] if kind is not None and self.demand(kind) else self.addresses

    def demand(self, kind: Kind | None) -> dict[str, float]:
        """Resources that a task has to ask for; nothing that nobody has, or that everybody has."""
        chosen = self.differ if kind == "gpu" else self.are_mixed
        return {RESOURCES[kind]: SHARE} if kind is not None and chosen else {}


def kinds_of(client: Client) -> Kinds:
    """Kinds of the workers of a cluster; of none where the scheduler gives no answer."""
    return kinds_among(facts_of(client))


def kinds_among(workers: Mapping[str, Mapping[str, Any]]) -> Kinds:
    """Kinds of workers of which the scheduler said this."""
    return Kinds({address: worker["resources"] for address, worker in workers.items()})


@dataclass(frozen=True)
class Spot:
    """Candidates that are fitted by one kind of worker, and have the same first steps there."""

    placing: Placing
    candidates: list[int]


class Placer:
    """Says which kind of worker candidates go to.

    Parameters
    ----------
    job : Job
    kinds : Kinds
    """

    def __init__(self, job: Job, kinds: Kinds):
        self.job, self.kinds = job, kinds
        self._on_gpu = _is_on_gpu(job.X)

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
        """Candidates by where they are fitted.

        Parameters
        ----------
        candidates : dict of int to dict
            Parameters by number.
        """
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


def _is_on_gpu(X):
    """Whether rows are in the memory of GPUs, or may be: those of another library than NumPy."""
    table = getattr(X, "table", None)
    return is_foreign(X) if table is None else table["X"].rows.facts.on_gpu

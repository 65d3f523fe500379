"""Kinds of workers, by the resources that they declare."""

from collections.abc import Mapping
from typing import Any

from distributed import Client

from gpuml_dask.planning.needs import Kind
from gpuml_dask.waiting import facts_of

RESOURCES: Mapping[Kind, str] = {"gpu": "GPU", "cpu": "CPU"}
# The amount of a resource that a task needs: only having it matters, and the worker's threads limit
# how many tasks run. (A power of two, so that sums are exact.)
SHARE = 2.0**-20


class Kinds:
    """The kinds of the existing workers, by the resources that each declares.

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
        """Whether some workers have a GPU, and others declare that they are for CPU work."""
        return bool(self._of["gpu"]) and bool(set(self._of["cpu"]) - set(self._of["gpu"]))

    @property
    def resources(self) -> set[str]:
        """Names of the existing resources."""
        return {name for kind, name in RESOURCES.items() if self._of[kind]}

    def workers(self, kind: Kind | None) -> list[str]:
        """Addresses of the workers for a kind of work."""
        return self._of[kind] if kind is not None and self.demand(kind) else self.addresses

    def demand(self, kind: Kind | None) -> dict[str, float]:
        """Resources that a task needs; none that no worker or every worker has."""
        chosen = self.differ if kind == "gpu" else self.are_mixed
        return {RESOURCES[kind]: SHARE} if kind is not None and chosen else {}


def kinds_of(client: Client) -> Kinds:
    """The kinds of a cluster's workers; none if the scheduler does not answer."""
    return kinds_among(facts_of(client))


def kinds_among(workers: Mapping[str, Mapping[str, Any]]) -> Kinds:
    """The kinds of workers with this description by the scheduler."""
    return Kinds({address: worker["resources"] for address, worker in workers.items()})

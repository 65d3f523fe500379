"""Annotations of tasks: those of a search, and a worker for each of some tasks.

Workers, priority and resources of a search are Dask's annotations, so that a
``with dask.annotate(...)`` block around a fit does the same.
"""

from collections.abc import Collection, Mapping
from typing import Any, TypeVar

import dask
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer
from distributed import Client, Future

Fact = TypeVar("Fact", bound=Mapping[str, Any])

NAMES = ("workers", "priority", "resources")


def asked_by(search: Any) -> dict[str, Any]:
    """The annotations of a search: those of its parameters `NAMES` that are not None."""
    return {name: value for name in NAMES if (value := getattr(search, name)) is not None}


def asked_workers() -> Collection[Any]:
    """Addresses, names or hosts of the workers for tasks of this thread; empty for all workers."""
    workers = dask.get_annotations().get("workers") or ()
    return () if callable(workers) else workers


def allowed(facts: Mapping[str, Fact]) -> dict[str, Fact]:
    """The workers that tasks of this thread may use, as the scheduler describes them."""
    wanted = set(map(str, asked_workers()))
    return {
        address: fact
        for address, fact in facts.items()
        if not wanted or wanted & {address, fact["host"], str(fact["name"])}
    }


def asked_resources(demand: Mapping[str, float]) -> dict[str, float]:
    """The resources of a task, with those for all tasks of this thread."""
    asked = dask.get_annotations().get("resources") or {}
    return {**demand, **(asked if isinstance(asked, dict) else {})}


def submit_near(
    client: Client,
    tasks: Mapping[Any, Any],
    homes: Mapping[Any, str],
    *,
    resources: Mapping[str, float] | None = None,
    priority: float = 0,
    strictly: bool = False,
) -> list[Future]:
    """Futures of tasks, in the order of their workers, in one message to the scheduler.

    `Client.map` takes one worker for all. Tasks are as in a graph of Dask. `homes` are addresses of
    workers by key; tasks without one are what others need. `priority` is added to that of the
    search. `strictly`: tasks wait for their worker, also when that is gone.
    """
    demand = dict(resources or {})
    # By key of a task, and None for others; methods of dicts need no package of ours to be read.
    workers = {key: [home] for key, home in homes.items()}.get
    annotations: dict[str, Any] = {"workers": workers, "resources": demand}
    if strictly:
        annotations["resources"] = asked_resources(demand)
    else:
        # Such tasks may run anywhere: Dask sends them also to workers without the resources of the
        # search.
        annotations["allow_other_workers"] = dict.fromkeys(homes, True).get
    # Of a graph in one layer: hints of layers are lost where Dask fuses their tasks.
    layer = MaterializedLayer(dict(tasks), annotations=annotations)
    graph = HighLevelGraph({"near": layer}, {"near": set()})
    keys = list(homes)
    asked = dask.get_annotations().get("priority", 0)
    priority += 0 if callable(asked) else asked
    return client.get(graph, keys, sync=False, priority=priority, fifo_timeout="100 ms")

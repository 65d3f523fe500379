"""Tasks that each have a worker of their own, in one message to the scheduler."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dask.highlevelgraph import HighLevelGraph, MaterializedLayer
from distributed import Client, Future


@dataclass(frozen=True)
class _Homes:
    """Where the task of a key shall run; None for all others."""

    addresses: Mapping[Any, str]

    def __call__(self, key: Any) -> list[str] | None:
        return [self.addresses[key]] if key in self.addresses else None


def submit_near(
    client: Client,
    tasks: Mapping[Any, Any],
    homes: Mapping[Any, str],
    *,
    resources: Mapping[str, float] | None = None,
    priority: int = 0,
    strictly: bool = False,
) -> list[Future]:
    """Futures of tasks, in the order of their homes.

    `Client.submit` takes 0.4 ms for each at the client, and `Client.map` one worker for all.

    Parameters
    ----------
    client : Client
    tasks : mapping
        By key, as in a graph of Dask: a function and its arguments, which may be futures. Those
        without a home are what others need.
    homes : mapping
        Addresses of workers by key.
    resources : mapping, optional
        Of Dask, that all tasks ask for.
    priority : int, default=0
    strictly : bool, default=False
        Whether tasks wait for their worker, also where that is gone.

    Examples
    --------
    >>> from distributed import Client
    >>> from gpuml_dask.near import submit_near
    >>> with Client(processes=False, dashboard_address=":0") as client:
    ...     homes = dict.fromkeys(["a", "b"], next(iter(client.nthreads())))
    ...     client.gather(submit_near(client, {"a": (abs, -1), "b": (abs, "a")}, homes))
    [1, 1]
    """
    annotations: dict[str, Any] = {"workers": _Homes(dict(homes))}
    if not strictly:
        annotations["allow_other_workers"] = True
    if resources:
        annotations["resources"] = dict(resources)
    # Of a graph in one layer: hints of layers are lost where Dask fuses their tasks.
    layer = MaterializedLayer(dict(tasks), annotations=annotations)
    graph = HighLevelGraph({"near": layer}, {"near": set()})
    keys = list(homes)
    return client.get(graph, keys, sync=False, priority=priority, fifo_timeout="100 ms")

"""The only module that uses Dask's private or version-dependent names.

Dask arrays are graphs, or, with Dask's setting ``array.query-planning``, expressions. These have no
`to_delayed`, cannot be made of a graph by their class, and lose `Delayed` arguments of functions.
"""

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import dask
import dask.array as da
from dask.core import flatten
from dask.delayed import Delayed
from dask.highlevelgraph import HighLevelGraph

ARE_EXPRESSIONS = hasattr(da.Array, "expr")
# gpuml's settings among Dask's: users change them in files, by `dask.config.set`, or by environment
# variables such as DASK_GPUML__PATIENCE.
SETTINGS = Path(__file__).with_name("gpuml.yaml")
dask.config.update_defaults(next(iter(dask.config.collect_yaml([str(SETTINGS)]))))


def meta_of(x: Any) -> Any:
    """The empty array or DataFrame that describes a collection's chunks; x itself without one.

    Dask's own functions give another array than the one that tells how codes are packed.
    """
    return getattr(x, "_meta", x)


def is_on_gpu(x: Any) -> bool:
    """Whether the chunks of a collection are arrays, or packed codes, in the memory of GPUs."""
    meta = meta_of(x)
    meta = getattr(meta, "data", meta)  # the bytes of packed codes
    return type(meta).__module__.partition(".")[0] == "cupy"


def array_of(
    name: str,
    tasks: Mapping[Any, Any],
    chunks: Sequence[Sequence[float]],
    meta: Any,
    dependencies: Sequence[Any] = (),
) -> da.Array:
    """The dask array with one task per chunk; keys are the name and the number of the chunk.

    `meta` is an empty array that chunks are like. `dependencies` are the dask collections that
    tasks name; of arrays what `lowered` returns.
    """
    graph = HighLevelGraph.from_collections(name, tasks, dependencies=dependencies)
    chunks = tuple(map(tuple, chunks))
    if not ARE_EXPRESSIONS:
        return da.Array(graph, name, chunks, meta=meta)
    # The function that builds an array of futures builds one of tasks; it has no public name.
    from_graph, _ = da.empty(0).__dask_postpersist__()
    keys = [(name, *index) for index in product(*(range(len(sizes)) for sizes in chunks))]
    return from_graph(dict(graph), meta, chunks, keys, name)


def lowered(x: Any) -> Any:
    """A collection with tasks under its name as chunks; the result, if it is an expression."""
    return x.optimize() if hasattr(x, "expr") else x


def chunks_of(x: da.Array) -> list[Delayed]:
    """The chunks of an array, row after row."""
    if hasattr(x, "to_delayed"):
        return list(x.to_delayed().ravel())
    tasks, keys = graph_of(x)
    name = f"delayed-{keys[0][0]}"  # arrays made of DataFrames have no name
    graph = HighLevelGraph.from_collections(name, tasks, dependencies=())
    return [Delayed(key, graph, layer=name) for key in keys]


def graph_of(x: Any) -> tuple[dict[Any, Any], list[Any]]:
    """Tasks by their keys, and the keys of the chunks of a collection.

    `dask.optimize` would lose futures of arrays, and the choice of columns of DataFrames.
    """
    x = x.optimize() if hasattr(x, "optimize") else x
    return dict(x.__dask_graph__()), list(flatten(x.__dask_keys__()))

"""What a search did, drawn as Dask draws task graphs."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import dask


def graph_of(names: Iterable[str]) -> dict[str, list[str]]:
    """What was done, each with what it needed."""
    units = list(names)
    return {"rows": [], **{name: ["rows"] for name in units}, "table of scores": units}


def draw(graph: Mapping[str, Sequence[str]], **options: Any) -> Any:
    """Draw a graph of names; `options` as for `dask.visualize`.

    Each name is mapped to those that it needs, which stand before it; all lead to the last. An
    ImportError is raised if graphviz is not installed.
    """
    done: dict[str, Any] = {}
    for name, needed in graph.items():
        inputs = [done[each] for each in needed]
        done[name] = dask.delayed(_symbol, pure=False)(*inputs, dask_key_name=name)
    try:
        return done[name].visualize(**options)
    except (ImportError, RuntimeError) as error:
        raise ImportError(
            "Drawing needs graphviz, the program and the Python package: conda install "
            "python-graphviz, or pip install graphviz and your system's graphviz."
        ) from error


def _symbol(*needed):
    """Stands for what was done."""

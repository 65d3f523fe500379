"""What tasks of the graphs of a decomposition do, and trees of their sums.

Small results come to CPU memory, so that any worker can go on with them.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np
from dask.delayed import Delayed
from dask.highlevelgraph import HighLevelGraph

from gpuml.data import Array, move, namespace
from gpuml.divided import HOST, moved, tree
from gpuml.reading import chunked
from gpuml.reading.chunked import Chunked
from gpuml.solvers.compressed import Triplets
from gpuml.solvers.row_products import Visit
from gpuml.solvers.standard import Rule, Standard
from gpuml_dask.planning.blocks import neighbours
from gpuml_dask.rows.blocks import upload

# Of strips: is_wide, is_summed, device, block_bytes.
Settings = tuple[bool, bool, str, int | None]

# ---------------------------------------------------------------- graphs


def delayed(name: str, tasks: dict, result: Any, *dependencies: Any) -> Delayed:
    """The result of one of the tasks of a layer."""
    graph = HighLevelGraph.from_collections(name, tasks, dependencies=dependencies)
    return Delayed(result, graph, layer=name)


def add(tasks: dict, leaves: Sequence[Any], combine: Callable[[Any, Any], Any], *name: Any) -> Any:
    """Add the tasks of a tree that sums all leaves, with keys that begin with `name`; its key."""
    below, level = list(leaves), 0
    while len(below) > 1:
        level += 1
        nodes = neighbours(below)
        below = [(*name, level, i) for i in range(len(nodes))]
        tasks.update(
            (key, (partial(tree, combine=combine), list(node)))
            for key, node in zip(below, nodes, strict=True)
        )
    return below[0]


def spans_of(sizes: Sequence[int]) -> list[slice]:
    """The slices of neighbouring parts of these sizes."""
    ends = list(accumulate(sizes))
    return [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]


# ---------------------------------------------------------------- strips


def _strip(chunks, standard, settings):
    is_wide, *others = settings
    return Chunked(chunks, is_wide, standard or Standard(), *others)


def of_strip(
    chunks: Sequence[Any],
    standard: Standard | None,
    *args: Any,
    function: Callable[..., Any],
    settings: Settings,
) -> Any:
    """The result of a function of `gpuml.reading.chunked` for a strip, in CPU memory."""
    return moved(function(_strip(chunks, standard, settings), *args), HOST)


def standard_of_strip(strip: Chunked, rule: Rule) -> Standard:
    """How the features of a wide strip are standardised."""
    found = chunked.standard_of_run(strip, rule, needs_sums=strip.is_summed)
    return found.beside(chunked.no_shift(0))


def long_vectors(
    chunks: Sequence[Any], standard: Standard, found: Triplets, *, settings: Settings
) -> Array:
    """Rows of u of a strip, or columns of v of a wide one, where the chunks are."""
    image = chunked.image(_strip(chunks, standard, settings), found.map)
    return image.T if settings[0] else image


# ---------------------------------------------------------------- single chunks of a strip


def part_of_image(strip: Chunked, W: Any, span: slice) -> np.ndarray:
    """What a chunk adds to ``B W`` of its strip, float64; W may be triplets, for their map."""
    W = W.map if isinstance(W, Triplets) else W
    return move(chunked.image(strip, W[span, :]), HOST).astype(np.float64)


def small_sums(Y: np.ndarray) -> Visit:
    """The sums of a visit that the image ``Y = B Q`` of a strip is enough for."""
    Y = move(Y, HOST)  # aligned, whatever worker it came from
    return Visit.of(np.zeros(0), Y)


def whole_visit(Z: Sequence[np.ndarray], rest: Visit) -> Visit:
    """The sums of a visit, from those of parts of the short side and the others."""
    return Visit(np.concatenate(Z), rest.G, rest.ones)


def squared_lengths(Y: np.ndarray) -> np.ndarray:
    """Squared lengths of columns."""
    return (Y**2).sum(axis=0)


# ---------------------------------------------------------------- results


def same(x: Any) -> Any:
    """Return x: a task whose result is a known value."""
    return x


def right_part(found: Triplets, span: slice) -> Array:
    """Part of the right vectors, as rows."""
    return found.right[:, span]


def result(x: Array, *, transposed: bool, dtype: str, on_gpu: bool) -> Array:
    """An array in the dtype and the memory of the results."""
    x = namespace(x).astype(x.T if transposed else x, getattr(namespace(x), dtype))
    return upload(x) if on_gpu else x

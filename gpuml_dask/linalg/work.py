"""What tasks of the graphs of a decomposition do, and trees of their sums.

Whatever is small comes to the host, so that any worker can go on with it.
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
from gpuml.solvers.standard import Rule, Standard, Sums
from gpuml_dask.planning.blocks import neighbours
from gpuml_dask.rows.blocks import upload

# Of strips: is_wide, is_summed, device, block_bytes.
Settings = tuple[bool, bool, str, int | None]

# ---------------------------------------------------------------- graphs


def delayed(name: str, tasks: dict, result: Any, *dependencies: Any) -> Delayed:
    """The outcome of the tasks of one layer."""
    graph = HighLevelGraph.from_collections(name, tasks, dependencies=dependencies)
    return Delayed(result, graph, layer=name)


def add(tasks: dict, leaves: Sequence[Any], combine: Callable[[Any, Any], Any], *name: Any) -> Any:
    """The key of the sum of all leaves; tasks of the tree are put to the others, as `name`."""
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
    """Where parts of some sizes lie."""
    ends = list(accumulate(sizes))
    return [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]


# ---------------------------------------------------------------- of strips


def _strip(chunks, settings, standard=None):
    is_wide, *others = settings
    return Chunked(chunks, is_wide, standard or Standard(), *others)


def first_means(chunks: Sequence[Any], *, settings: Settings) -> np.ndarray:
    """See `chunked.first_means`."""
    return move(chunked.first_means(_strip(chunks, settings)), HOST)


def sums(chunks: Sequence[Any], shift: np.ndarray, *, settings: Settings) -> Sums:
    """See `chunked.sums`."""
    return moved(chunked.sums(_strip(chunks, settings), shift), HOST)


def standard_of_strip(
    chunks: Sequence[Any], *, settings: Settings, rule: Rule, needs_sums: bool
) -> Standard:
    """See `chunked.standard_of_run`."""
    strip = _strip(chunks, settings)
    return chunked.standard_of_run(strip, rule, needs_sums).beside(chunked.no_shift(0))


def visit(chunks: Sequence[Any], Q: np.ndarray, standard: Standard, *, settings: Settings) -> Visit:
    """See `chunked.visit`."""
    return moved(chunked.visit(_strip(chunks, settings, standard), Q), HOST)


def squared_lengths(
    chunks: Sequence[Any], W: np.ndarray, standard: Standard, *, settings: Settings
) -> np.ndarray:
    """See `chunked.squared_lengths`."""
    return move(chunked.squared_lengths(_strip(chunks, settings, standard), W), HOST)


def long_vectors(
    chunks: Sequence[Any], found: Triplets, standard: Standard, *, settings: Settings
) -> Array:
    """Rows of u of a strip, or columns of v of a wide one."""
    image = chunked.image(_strip(chunks, settings, standard), found.map)
    return image.T if settings[0] else image


# ---------------------------------------------------------------- of single chunks of a strip


def part_of_image(
    chunk: Any, W: Any, standard: Standard, *, span: slice, settings: Settings
) -> np.ndarray:
    """What a chunk adds to ``B W`` of its strip, float64; W may be triplets, for their map."""
    W = W.map if isinstance(W, Triplets) else W
    image = chunked.image(_strip([chunk], settings, standard), W[span, :])
    return move(image, HOST).astype(np.float64)


def part_of_sums(chunk: Any, Y: np.ndarray, standard: Standard, *, settings: Settings) -> Any:
    """What a chunk adds to ``B' Y`` of its strip."""
    return move(chunked.transposed_image(_strip([chunk], settings, standard), Y), HOST)


def small_sums(Y: np.ndarray) -> Visit:
    """Of a strip, what its image ``Y = B Q`` is enough for."""
    Y = move(Y, HOST)  # aligned, wherever it came from
    return Visit.of(np.zeros(0), Y)


def whole_visit(Z: Sequence[np.ndarray], rest: Visit) -> Visit:
    """The sums of a visit, from those of parts of the short side and the others."""
    return Visit(np.concatenate(Z), rest.G, rest.ones)


def lengths(Y: np.ndarray) -> np.ndarray:
    """Squared, of columns."""
    return (Y**2).sum(axis=0)


def as_long_vectors(Y: np.ndarray, *, is_wide: bool, dtype: str, on_gpu: bool) -> Array:
    """The same as `long_vectors`, from the image of a strip."""
    return _result(Y.T if is_wide else Y, dtype, on_gpu)


# ---------------------------------------------------------------- small things


def same(x: Any) -> Any:
    """Itself."""
    return x


def plus(a: Any, b: Any) -> Any:
    """Their sum."""
    return a + b


def rows_of_right(found: Triplets, *, span: slice, dtype: str, on_gpu: bool) -> Array:
    """Part of the right vectors as rows."""
    return _result(found.right[:, span], dtype, on_gpu)


def columns_of_right(found: Triplets, *, span: slice, dtype: str, on_gpu: bool) -> Array:
    """Part of the right vectors as columns."""
    return _result(found.right[:, span].T, dtype, on_gpu)


def singular(found: Triplets, *, dtype: str, on_gpu: bool) -> Array:
    """Singular values."""
    return _result(found.singular, dtype, on_gpu)


def nothing(shape: tuple[int, ...], dtype: str, on_gpu: bool) -> Array:
    """Vectors of a strip that has none."""
    return _result(np.empty(shape), dtype, on_gpu)


def _result(x, dtype, on_gpu):
    x = namespace(x).astype(x, getattr(namespace(x), dtype))
    return upload(x) if on_gpu else x

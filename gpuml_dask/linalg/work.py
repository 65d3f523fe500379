"""What tasks of the graphs of a decomposition do: to strips, between visits, and trees of sums.

Small results come to CPU memory, so that any worker can go on with them.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np
from dask.delayed import Delayed
from dask.highlevelgraph import HighLevelGraph
from sklearn.utils import check_random_state

from gpuml.data import Array, move, namespace
from gpuml.divided import HOST, moved, tree
from gpuml.reading import chunked
from gpuml.reading.chunked import Chunked
from gpuml.solvers import compressed
from gpuml.solvers.compressed import Plan, Triplets
from gpuml.solvers.row_products import Visit
from gpuml.solvers.standard import Rule, Standard
from gpuml_dask.planning.blocks import neighbours
from gpuml_dask.rows.blocks import upload

# Of strips: is_wide, is_summed, device, block_bytes.
Settings = tuple[bool, bool, str, int | None]

# What is drawn after the first vectors has numbers of its own, so that it can be drawn anywhere.
FOR_PROBES, FOR_VECTORS = 1, 2

# ---------------------------------------------------------------- graphs


def delayed(name: str, tasks: dict, result: Any, *dependencies: Any) -> Delayed:
    """The result of one of the tasks of a layer."""
    graph = HighLevelGraph.from_collections(name, tasks, dependencies=dependencies)
    return Delayed(result, graph, layer=name)


def add(tasks: dict, leaves: Iterable[Any], combine: Callable[[Any, Any], Any], *name: Any) -> Any:
    """Add tasks, and those of a tree that sums them, with keys that begin with `name`; its key."""
    added = {(*name, 0, i): leaf for i, leaf in enumerate(leaves)}
    tasks.update(added)
    below, level = list(added), 0
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
    return (Y**2).sum(axis=0)


# ---------------------------------------------------------------- thin matrices between visits


def first_block(short: int, width: int, seed: int) -> np.ndarray:
    """Random orthonormal columns (p, l)."""
    return compressed.start(short, width, check_random_state(seed))


def next_block(Q: Any, total: Visit) -> Any:
    return compressed.turned(Q, compressed.checked(total))


def first_triplets(Q: Any, total: Visit, plan: Plan, **options: Any) -> Triplets:
    found = compressed.triplets(Q, compressed.checked(total), plan.n_components, plan.dtype)
    return finished(found, total, plan, **options)


def finished(
    found: Triplets, total: Visit, plan: Plan, *, signs: bool, is_wide: bool, seed: int
) -> Triplets:
    """Triplets with signs, as many as are wanted, of the matrix that visits see.

    `total` are the sums of the last visit. `signs`: no row of v has a negative sum. `is_wide`:
    visits see the transposed matrix, whose left vectors are v.
    """
    if signs:
        xp = namespace(total.G)
        sums = total.ones @ found.turn if is_wide else xp.sum(found.right, axis=1)
        found = _flipped(found, xp.where(sums >= 0, xp.ones_like(sums), -xp.ones_like(sums)))
    return _completed(found, plan.n_components, np.random.default_rng([seed, FOR_VECTORS]))


def _flipped(found, signs):
    return Triplets(
        found.singular, signs[:, None] * found.right, found.map * signs, found.turn * signs
    )


def _completed(found, k, random):
    missing = k - found.singular.shape[0]
    if missing == 0:
        return found
    xp = namespace(found.map)
    nothing = xp.zeros_like(found.map[:, :1])
    return Triplets(
        compressed.more_values(found.singular, missing),
        compressed.more_columns(found.right.T, missing, random).T,
        xp.concat([found.map, *[nothing] * missing], axis=1),
        xp.concat([found.turn, *[xp.zeros_like(found.turn[:, :1])] * missing], axis=1),
    )


def probes_for(found: Triplets, seed: int) -> Any:
    """The block to multiply the matrix with for an estimate of errors, (p, k + 10)."""
    return compressed.probes(found, np.random.default_rng([seed, FOR_PROBES]))


# ---------------------------------------------------------------- results


def right_part(found: Triplets, span: slice) -> Array:
    return found.right[:, span]


def result(x: Array, *, transposed: bool, dtype: str, on_gpu: bool) -> Array:
    """An array in the dtype and the memory of the results."""
    x = namespace(x).astype(x.T if transposed else x, getattr(namespace(x), dtype))
    return upload(x) if on_gpu else x

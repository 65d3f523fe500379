"""Scores of predictions in blocks: blocks that belong together, and a tree of tasks over them."""

from typing import Any

import array_api_compat
import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
from dask import delayed

from gpuml.metrics.blocks import BlockScore, MisalignedError
from gpuml_dask._dask import chunks_of
from gpuml_dask.planning.blocks import neighbours
from gpuml_dask.rows.lazy import as_collection


def score_blocks(score: BlockScore, predictions: da.Array, y: Any, sample_weight: Any) -> float:
    """Score predictions in blocks as ``model.score`` would; see `gpuml_dask.predict.score`.

    The tree over the blocks has a fixed shape, so that any number of workers gives the same.
    """
    blocks: list[list[Any]] = [chunks_of(predictions)]
    unknown = (np.nan,) * len(blocks[0])  # expressions that are made of DataFrames have no chunks
    sizes = predictions.chunks[0] if hasattr(predictions, "chunks") else unknown
    for name, x in (("y", y if score.takes_y else None), ("sample_weight", sample_weight)):
        blocks.append([None] * len(sizes) if x is None else _aligned(x, sizes, name))
    sums = [delayed(score.sums, pure=True)(*parts) for parts in zip(*blocks, strict=True)]
    while len(sums) > 1:
        sums = [delayed(score.together, pure=True)(group) for group in neighbours(sums)]
    (total,) = dask.compute(sums[0])
    return score.finish(total)


def _aligned(x, sizes, name):
    """The blocks of `x` that belong to those of the predictions."""
    x = as_collection(x)
    known = not any(size != size for size in sizes)
    if isinstance(x, dd.DataFrame | dd.Series):
        _check_numbers_of_blocks(x.npartitions, sizes, name)
        return x.to_delayed()
    if not isinstance(x, da.Array):
        x = x if array_api_compat.is_array_api_obj(x) else np.asarray(x)
        if x.ndim == 0:
            raise ValueError(f"{name} must have one value for each row, got a single value.")
        if not known and len(sizes) > 1:
            raise MisalignedError(
                f"{name} is a local array, but the rows of X are in blocks of unknown sizes. Call "
                "X.compute_chunk_sizes() first, or give targets in the same blocks."
            )
        x = da.from_array(x, chunks=x.shape)
    if not known or x.shape[0] != x.shape[0]:  # NaN: not known
        _check_numbers_of_blocks(x.numblocks[0], sizes, name)
    elif x.shape[0] != sum(sizes):
        raise ValueError(
            "Found input variables with inconsistent numbers of samples: "
            f"X has {sum(sizes)}, {name} has {x.shape[0]}."
        )
    else:
        x = x.rechunk({0: sizes})
    return chunks_of(x.rechunk({1: -1}) if x.ndim > 1 else x)


def _check_numbers_of_blocks(number, sizes, name):
    if number != len(sizes):
        raise MisalignedError(
            f"{name} has {number} blocks of rows, X has {len(sizes)}. Give both in "
            f"the same blocks, or place them together: with gpuml_dask.place(X, {name}) as table."
        )

"""Decompositions by GPU workers that sum together, with one task for each worker."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from distributed import Client, Future

from gpuml.data import Holders, fits, move
from gpuml.divided import HOST, moved
from gpuml.encodings import Packed
from gpuml.reading import chunked
from gpuml.reading.chunked import Chunked
from gpuml.solvers.compressed import ErrorEstimate, Triplets, error_estimate, iterate
from gpuml.solvers.row_products import Visit
from gpuml.solvers.standard import Standard, Sums
from gpuml_dask.io import has_gpu_here
from gpuml_dask.linalg import work
from gpuml_dask.linalg.matrix import Matrix
from gpuml_dask.linalg.stages import Job
from gpuml_dask.sums.collective import collective_of
from gpuml_dask.sums.divided import by_worker, gpus_for, holders_of, owners_of
from gpuml_dask.waiting import facts_of


def workers_for(client: Client, matrix: Matrix, device: str) -> list[str]:
    """GPU workers in the order of their ranks, if there are any and the matrix is worth it.

    All chunks must be on workers already; and where strips are large, none may have to move.
    """
    if not is_held(matrix):
        return []
    gpus = gpus_for(facts_of(client), device, matrix.n_bytes, on_gpu=matrix.on_gpu)
    return gpus if not (gpus and matrix.is_grid) or _strips_are_whole(client, matrix) else []


def _strips_are_whole(client, matrix):
    """Whether all chunks of each strip are on one worker."""
    strips = _strips(matrix)
    held_by = holders_of(client, [future for strip in strips for future in strip])
    return all(
        set.intersection(*(set(held_by[future.key]) for future in strip)) for strip in strips
    )


def is_held(matrix: Matrix) -> bool:
    return all(isinstance(each, Future) for strip in _strips(matrix) for each in strip)


def _strips(matrix) -> list[list]:
    """The chunks of each strip: futures, where workers have them."""
    held = matrix.array.dask
    return [[held.get(key) for key in keys] for keys in matrix.strips.values()]


def decomposed(
    client: Client, matrix: Matrix, job: Job, workers: Sequence[str], return_error: bool
) -> tuple[Triplets, list[Standard], ErrorEstimate | None]:
    """Triplets, how features are standardised (for each strip of a wide matrix), and errors.

    The chunks of the matrix are on workers; `RankLost` is raised if one of `workers` is lost.
    """
    shape, sizes = matrix.array.shape, [size for size in matrix.long_chunks if size]
    strips, needs_sums = _strips(matrix), job.rule.needs_sums or matrix.may_miss
    owners, _ = owners_of(client, strips, sizes, workers)
    pieces = by_worker(strips, owners, workers)
    build = partial(_strip_of, matrix.is_wide, needs_sums)
    args = job, shape, sizes, needs_sums, return_error
    return collective_of(client).run(_decompose, pieces, *args, build=build)


# ---------------------------------------------------------------- on the workers


def _strip_of(is_wide, is_summed, *chunks):
    """A strip of some chunks; those in CPU memory go to the GPU if they fit there."""
    n_bytes = sum(chunk.nbytes for chunk in chunks)
    device = "cuda" if has_gpu_here() else "cpu"
    strip = Chunked(chunks, is_wide, is_summed=is_summed, device=device)
    if strip.home == strip.work or not fits(2 * n_bytes, strip.work):
        return strip
    return replace(strip, chunks=[_at(chunk, strip.work) for chunk in chunks])


def _at(chunk, place):
    return chunk.of(move(chunk.data, place)) if isinstance(chunk, Packed) else move(chunk, place)


def _decompose(holders: Holders, job, shape, sizes, needs_sums, return_error):
    """All visits, on rank 0."""
    is_wide = shape[0] < shape[1]
    pieces, standards = _with_standards(holders, job.rule, shape, sizes, needs_sums)
    last: list[Visit] = []

    def visit(Q):
        last[:] = [pieces.total(chunked.visit, Q, combine=Visit.plus)]
        return last[0]

    Q = work.first_block(min(shape), job.plan.width(shape), job.seed)
    _, found = iterate(move(Q, holders.place), visit, job.plan)
    found = work.finished(found, last[0], job.plan, signs=job.signs, is_wide=is_wide, seed=job.seed)
    found, error = moved(found, HOST), None
    if return_error:
        probe = work.probes_for(found, job.seed)
        squares = pieces.total(chunked.squared_lengths, move(probe, holders.place))
        error = error_estimate(found, move(squares, HOST), job.plan.dtype)
    return found, standards, error


def _with_standards(holders, rule, shape, sizes, needs_sums):
    """Pieces that know how their features are standardised, and those standards in CPU memory."""
    if shape[0] < shape[1]:
        parts = [rule.part(span) for span in work.spans_of(sizes)]
        pieces = holders.map(_with_own_standard, each_with=parts)
        return pieces, pieces.each(lambda strip: strip.standard.beside(chunked.no_shift(0)))
    shift, found = chunked.no_shift(shape[1]), None
    if needs_sums:
        shift = holders.total(chunked.first_means, combine=lambda a, _: a)
        found = holders.total(chunked.sums, shift, combine=Sums.plus)
    standard = chunked.standard_from(rule, moved(found, HOST), move(shift, HOST), shape[0])
    return holders.map(_with_standard, standard), [standard]


def _with_own_standard(strip, rule):
    return replace(strip, standard=chunked.standard_of_run(strip, rule, strip.is_summed))


def _with_standard(strip, standard):
    there = strip.work.xp.empty(0, device=strip.work.device)
    return replace(strip, standard=standard.beside(there))

"""Decompositions by the ranks of GPU workers: one task for each of them, whatever the visits."""

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
from gpuml_dask.linalg import triplets
from gpuml_dask.linalg.matrix import Matrix
from gpuml_dask.linalg.stages import Job
from gpuml_dask.planning.blocks import assign
from gpuml_dask.sums.collective import collective_of, in_order
from gpuml_dask.sums.divided import WORTH_A_GPU, fetch
from gpuml_dask.waiting import ask, facts_of


def workers_for(client: Client, matrix: Matrix, device: str) -> list[str]:
    """GPU workers in the order of their ranks, if there are any and the matrix is worth it.

    Only chunks that stay on workers are for ranks, which cannot ask for more; and large strips only
    if no chunk has to move for them.
    """
    gpus = [] if device == "cpu" else gpu_workers(client)
    worth_it = matrix.on_gpu or device == "cuda" or matrix.n_bytes >= WORTH_A_GPU
    if not gpus or not worth_it or not is_held(matrix):
        return []
    return gpus if not matrix.is_grid or _strips_are_whole(client, matrix) else []


def gpu_workers(client: Client) -> list[str]:
    """Workers that declare a GPU, in the order of their ranks."""
    facts = facts_of(client)
    return in_order((a for a, w in facts.items() if w["resources"].get("GPU")), facts)


def _strips_are_whole(client, matrix):
    """Whether all chunks of each strip are on one worker."""
    futures = _futures(matrix)
    fetch(client, list(futures.values()), values=False)
    held_by = ask(client, client.who_has, futures=list(futures.values()))
    return all(
        set.intersection(*(set(held_by.get(key, ())) for key in keys))
        for keys in matrix.strips.values()
    )


def is_held(matrix: Matrix) -> bool:
    """Whether all chunks are futures."""
    return all(isinstance(each, Future) for each in _futures(matrix).values())


def _futures(matrix):
    held = matrix.array.dask
    keys = [key for strip in matrix.strips.values() for key in strip]
    return {key: held.get(key) for key in keys}


def decomposed(
    client: Client, matrix: Matrix, job: Job, workers: Sequence[str], return_error: bool
) -> tuple[Triplets, list[Standard], ErrorEstimate | None]:
    """Triplets, how features are standardised (for each strip of a wide matrix), and errors.

    Parameters
    ----------
    client : Client
    matrix : Matrix
        Its chunks are on workers.
    job : Job
    workers : sequence of str
        Addresses.
    return_error : bool

    Raises
    ------
    RankLost
        If a worker was lost.
    """
    pieces = _dealt(client, matrix, workers)
    needs_sums = job.rule.needs_sums or matrix.may_miss
    build = partial(_strip_of, matrix.is_wide, needs_sums)
    collective = collective_of(client)
    shape, sizes = matrix.array.shape, [size for size in matrix.long_chunks if size]
    used = [worker for worker in workers if worker in pieces]
    return collective.run(
        _decompose, pieces, job, shape, sizes, needs_sums, return_error, build=build, workers=used
    )


def _dealt(client, matrix, workers) -> dict[str, dict[int, list[Future]]]:
    """Strips as lists of futures for each worker, where they are, as evenly as that allows."""
    futures = _futures(matrix)
    fetch(client, list(futures.values()), values=False)
    held_by = ask(client, client.who_has, futures=list(futures.values()))
    strips_ = list(matrix.strips.values())
    holders = [next(iter(held_by.get(keys[0], ())), None) for keys in strips_]
    owners = assign([size for size in matrix.long_chunks if size], holders, workers)
    dealt: dict[str, dict[int, list[Future]]] = {}
    for position, (keys, owner) in enumerate(zip(strips_, owners, strict=True)):
        dealt.setdefault(owner, {})[position] = [futures[key] for key in keys]
    return dealt


# ---------------------------------------------------------------- on the workers


def _strip_of(is_wide, is_summed, *chunks):
    """A strip of some chunks; those of the host go to the GPU if they fit there."""
    n_bytes = sum(chunk.nbytes for chunk in chunks)
    device = "cuda" if has_gpu_here() else "cpu"
    strip = Chunked(chunks, is_wide, is_summed=is_summed, device=device)
    if strip.home == strip.work or not fits(2 * n_bytes, strip.work):
        return strip
    return replace(strip, chunks=[_at(chunk, strip.work) for chunk in chunks])


def _at(chunk, place):
    return chunk.of(move(chunk.data, place)) if isinstance(chunk, Packed) else move(chunk, place)


def _decompose(holders: Holders, job, shape, sizes, needs_sums, return_error):
    """On rank 0: all visits."""
    is_wide = shape[0] < shape[1]
    pieces, standards = _with_standards(holders, job.rule, shape, sizes, needs_sums)
    last: list[Visit] = []

    def visit(Q):
        last[:] = [pieces.total(chunked.visit, Q, combine=Visit.plus)]
        return last[0]

    Q = triplets.first_block(min(shape), job.plan.width(shape), job.seed)
    _, found = iterate(move(Q, holders.place), visit, job.plan)
    found = triplets.finished(
        found, last[0], job.plan, signs=job.signs, is_wide=is_wide, seed=job.seed
    )
    found, error = moved(found, HOST), None
    if return_error:
        probe = triplets.probes_for(found, job.seed)
        squares = pieces.total(chunked.squared_lengths, move(probe, holders.place))
        error = error_estimate(found, move(squares, HOST), job.plan.dtype)
    return found, standards, error


def _with_standards(holders, rule, shape, sizes, needs_sums):
    """Pieces that know how their features are standardised, and that, on the host."""
    if shape[0] < shape[1]:
        starts = [sum(sizes[:i]) for i in range(len(sizes))]
        parts = [rule.part(slice(a, a + n)) for a, n in zip(starts, sizes, strict=True)]
        pieces = holders.map(_with_own_standard, needs_sums, each_with=parts)
        return pieces, pieces.each(_standard)
    shift, found = chunked.no_shift(shape[1]), None
    if needs_sums:
        shift = holders.total(chunked.first_means, combine=_first)
        found = holders.total(chunked.sums, shift, combine=Sums.plus)
    standard = chunked.standard_from(rule, moved(found, HOST), move(shift, HOST), shape[0])
    return holders.map(_with_standard, standard), [standard]


def _first(a, _b):
    return a


def _with_own_standard(strip, needs_sums, rule):
    return replace(strip, standard=chunked.standard_of_run(strip, rule, needs_sums))


def _with_standard(strip, standard):
    there = strip.work.xp.empty(0, device=strip.work.device)
    return replace(strip, standard=standard.beside(there))


def _standard(strip):
    return strip.standard.beside(chunked.no_shift(0))

"""Visits of a dask array as graphs: a task for each strip, a tree of sums, small tasks between.

Each stage is one layer of a graph with a `Delayed` result: the next stage takes it lazily, or takes
what it was computed to. The order of sums follows from the positions of strips alone.
"""

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import dask
import dask.array as da
import numpy as np
from dask.array.utils import meta_from_array
from dask.base import tokenize
from dask.delayed import Delayed

from gpuml.reading import chunked
from gpuml.solvers.compressed import Plan, error_estimate
from gpuml.solvers.row_products import Visit
from gpuml.solvers.standard import Rule, Sums
from gpuml_dask._dask import array_of
from gpuml_dask.linalg import work
from gpuml_dask.linalg.matrix import Matrix

PREFIX = "svd"


@dataclass(frozen=True)
class Job:
    """The parameters of a call and gpuml's settings; `rule` says how features are standardised."""

    plan: Plan
    rule: Rule
    seed: int
    signs: bool
    device: str
    block_bytes: int | None


class Stages:
    """Stages of the decomposition of a matrix. Nothing is computed here.

    `standards` say how features are standardised: one for all strips, or one for each strip of a
    wide matrix.
    """

    def __init__(self, matrix: Matrix, job: Job):
        self.matrix, self.job = matrix, job
        self._token = tokenize(matrix.array.name, job)
        self.needs_sums = job.rule.needs_sums or matrix.may_miss
        self._settings = matrix.is_wide, self.needs_sums, job.device, job.block_bytes
        self.standards: list[Delayed] = []

    # ------------------------------------------------------------ standards

    def find_standards(self) -> list[Delayed]:
        """Standards of the features: one more visit, if sums over features are needed."""
        if self.matrix.is_wide:
            return self._standards_of_strips()
        every = slice(0, self.matrix.array.shape[1])
        return self._summed_standards([(every, list(self.matrix.strips.values()))])

    def _summed_standards(self, groups: Sequence[tuple[slice, Sequence[list]]]) -> list[Delayed]:
        """For each group the standard of its features, from sums over lists of chunks."""
        name, array = self._name("standard"), self.matrix.array
        tasks: dict[Any, Any] = {}
        for g, (features, members) in enumerate(groups):
            shift, found = (name, "shift", g), None
            tasks[shift] = (partial(chunked.no_shift, features.stop - features.start),)
            if self.needs_sums:
                tasks[shift] = (self._of_strip(chunked.first_means), members[0], None)
                one = self._of_strip(chunked.sums)
                leaves = [(one, keys, None, shift) for keys in members]
                found = work.add(tasks, leaves, Sums.plus, name, "sums", g)
            rule = self.job.rule.part(features)
            tasks[name, g] = (chunked.standard_from, rule, found, shift, array.shape[0])
        return [work.delayed(name, tasks, (name, g), array) for g in range(len(groups))]

    def _standards_of_strips(self):
        name = self._name("standard")
        one, spans = self._of_strip(work.standard_of_strip), work.spans_of(self.matrix.long_chunks)
        tasks: dict[Any, Any] = {
            (name, i): (one, keys, None, self.job.rule.part(spans[i]))
            for i, keys in self.matrix.strips.items()
        }
        return [work.delayed(name, tasks, key, self.matrix.array) for key in tasks]

    # ------------------------------------------------------------ visits

    def start(self) -> Delayed:
        shape = self.matrix.array.shape
        draw = partial(work.first_block, min(shape), self.job.plan.width(shape), self.job.seed)
        name = self._name("start")
        return work.delayed(name, {(name, 0): (draw,)}, (name, 0))

    def visit(self, Q: Delayed) -> Delayed:
        """The sums of a visit with a block."""
        return self._total("visit", chunked.visit, Visit.plus, Q)

    def turned(self, Q: Delayed, total: Delayed) -> Delayed:
        return self._small("turn", work.next_block, Q, total)

    def found(self, Q: Delayed, total: Delayed) -> Delayed:
        """The triplets that a visit gave."""
        job, is_wide = self.job, self.matrix.is_wide
        finish = partial(
            work.first_triplets, plan=job.plan, signs=job.signs, is_wide=is_wide, seed=job.seed
        )
        return self._small("triplets", finish, Q, total)

    def resolved(self, found: Delayed, n_added: int) -> Delayed:
        """Whether triplets need no more visits; see `gpuml.solvers.compressed.Plan.is_resolved`."""
        is_resolved = partial(self.job.plan.is_resolved, n_added=n_added)
        return self._small(f"resolved-{n_added}", is_resolved, found)

    def error(self, found: Delayed) -> Delayed:
        """The estimated error of triplets: one more visit."""
        probe = self._small("probes", partial(work.probes_for, seed=self.job.seed), found)
        estimate = partial(error_estimate, dtype=self.job.plan.dtype)
        return self._small("error", estimate, found, self._squares(probe))

    def _squares(self, probe):
        return self._total("squares", chunked.squared_lengths, operator.add, probe)

    def known(self, word: str, values: Sequence[Any]) -> list[Delayed]:
        name = self._name(f"known-{word}")
        return [
            dask.delayed(each, name=f"{name}-{i}", traverse=False) for i, each in enumerate(values)
        ]

    def _total(self, word, function, combine, W):
        """A function of every strip and a thin matrix, summed."""
        name = self._name(word, W.key)
        tasks: dict[Any, Any] = {}
        leaves = [task for _, task in self._each_strip(self._of_strip(function), W)]
        result = work.add(tasks, leaves, combine, name)
        return work.delayed(name, tasks, result, self.matrix.array, W, *self.standards)

    def _each_strip(self, one, W):
        """The number and the task of each strip; a task gets its standard and a thin matrix."""
        strips, standards = self.matrix.strips, self.standards
        standards = standards if self.matrix.is_wide else standards * len(strips)
        for (i, keys), standard in zip(strips.items(), standards, strict=True):
            yield i, (one, keys, standard.key, W.key)

    def _small(self, word, function, *args):
        name = self._name(word, *(arg.key for arg in args))
        tasks = {(name, 0): (function, *(arg.key for arg in args))}
        return work.delayed(name, tasks, (name, 0), *args)

    def _of_strip(self, function):
        """The function of a task on a strip: of chunks, their standard, and more arguments."""
        return partial(work.of_strip, function=function, settings=self._settings)

    def _name(self, word, *keys):
        return f"{PREFIX}-{word}-{tokenize(self._token, *keys)}"

    # ------------------------------------------------------------ results

    def arrays(self, found: Delayed) -> tuple[da.Array, da.Array, da.Array]:
        """u, s and v, chunked as the matrix is. What is long takes one more visit, if computed."""
        k = self.job.plan.n_components
        rows, columns = self.matrix.array.chunks
        if self.matrix.is_wide:
            u = self._thin("u", found, rows)
            return u, self._values(found), self._long("v", found, ((k,), columns))
        v = self._thin("v", found, columns)
        return self._long("u", found, (rows, (k,))), self._values(found), v

    def _long(self, word, found, chunks):
        name, one = self._name(word, found.key), partial(work.long_vectors, settings=self._settings)
        tasks = {self._long_key(name, i): task for i, task in self._each_strip(one, found)}
        return self._long_array(name, tasks, chunks, found)

    def _long_key(self, name, i):
        return (name, 0, i) if self.matrix.is_wide else (name, i, 0)

    def _long_array(self, name, tasks, chunks, found):
        for i, size in enumerate(self.matrix.long_chunks):
            if size == 0:
                shape = tuple(0 if len(sizes) > 1 else sizes[0] for sizes in chunks)
                tasks[self._long_key(name, i)] = (self._result(), (np.empty, shape))
        return self._array(name, tasks, chunks, found, self.matrix.array, *self.standards)

    def _thin(self, word, found, sizes):
        name, tasks, is_wide = self._name(word, found.key), {}, self.matrix.is_wide
        for j, span in enumerate(work.spans_of(sizes)):
            key = (name, j, 0) if is_wide else (name, 0, j)
            tasks[key] = (self._result(is_wide), (work.right_part, found.key, span))
        k = (self.job.plan.n_components,)
        return self._array(name, tasks, (sizes, k) if is_wide else (k, sizes), found)

    def _values(self, found):
        name = self._name("s", found.key)
        tasks = {(name, 0): (self._result(), (getattr, found.key, "singular"))}
        return self._array(name, tasks, ((self.job.plan.n_components,),), found)

    def _result(self, transposed=False):
        """The function that makes arrays results, in their dtype and memory."""
        on_gpu, dtype = self.matrix.on_gpu, self.job.plan.dtype
        return partial(work.result, transposed=transposed, dtype=dtype, on_gpu=on_gpu)

    def _array(self, name, tasks, chunks, *dependencies):
        meta = meta_from_array(self.matrix.meta, ndim=len(chunks), dtype=self.job.plan.dtype)
        return array_of(name, tasks, chunks, meta, dependencies)

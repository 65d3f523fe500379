"""Visits of a dask array as graphs: a task for each strip, a tree of sums, small tasks between.

Each stage is one layer of a graph whose outcome is a `Delayed`, so that a caller may go on with it
lazily, or have it computed and go on with what it has become. Sums are added in an order that
follows from the positions of strips alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import dask.array as da
from dask.array.utils import meta_from_array
from dask.base import tokenize
from dask.delayed import Delayed
from dask.highlevelgraph import HighLevelGraph

from gpuml.reading import chunked
from gpuml.solvers.compressed import Plan, error_estimate
from gpuml.solvers.row_products import Visit
from gpuml.solvers.standard import Rule, Sums
from gpuml_dask._dask import array_of
from gpuml_dask.linalg import triplets, work
from gpuml_dask.linalg.matrix import Matrix

PREFIX = "svd"


@dataclass(frozen=True)
class Job:
    """All that a call asks for.

    Attributes
    ----------
    plan : Plan
    rule : Rule
        How features are standardised.
    seed : int
    signs : bool
        Whether rows of v shall not have negative sums.
    device : {"auto", "cpu", "cuda"}
        gpuml's setting.
    block_bytes : int or None
        The same.
    """

    plan: Plan
    rule: Rule
    seed: int
    signs: bool
    device: str
    block_bytes: int | None

    def __dask_tokenize__(self):
        rule, plan = self.rule, self.plan
        plain = (plan.n_components, plan.n_oversamples, plan.n_power_iter, plan.dtype)
        how = (self.seed, self.signs, self.device, self.block_bytes)
        return (plain, rule.center, rule.scale, rule.dtype, how)


class Stages:
    """Stages of the decomposition of a matrix. Nothing is computed here.

    Parameters
    ----------
    matrix : Matrix
    job : Job

    Attributes
    ----------
    standards : list of Delayed
        How features are standardised: one for all strips, or one for each strip of a wide matrix.
    """

    def __init__(self, matrix: Matrix, job: Job):
        self.matrix, self.job = matrix, job
        self._token = tokenize(matrix.array.name, job)
        self.needs_sums = job.rule.needs_sums or matrix.may_miss
        self.standards: list[Delayed] = []

    # ------------------------------------------------------------ standards

    def find_standards(self) -> list[Delayed]:
        """Features are summed if need be: one more visit."""
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
                tasks[shift] = (self._of_strip(work.first_means), members[0])
                leaves = [(name, "sums", g, 0, m) for m in range(len(members))]
                one = self._of_strip(work.sums)
                tasks.update(
                    {leaf: (one, keys, shift) for leaf, keys in zip(leaves, members, strict=True)}
                )
                found = work.add(tasks, leaves, Sums.plus, name, "sums", g)
            rule = self.job.rule.part(features)
            tasks[name, g] = (chunked.standard_from, rule, found, shift, array.shape[0])
        return [work.delayed(name, tasks, (name, g), array) for g in range(len(groups))]

    def _standards_of_strips(self):
        name = self._name("standard")
        tasks: dict[Any, Any] = {}
        spans = work.spans_of(self.matrix.long_chunks)
        for i, keys in self.matrix.strips.items():
            rule = self.job.rule.part(spans[i])
            of_strip = self._of_strip(work.standard_of_strip, rule=rule, needs_sums=self.needs_sums)
            tasks[name, i] = (of_strip, keys)
        return [work.delayed(name, tasks, key, self.matrix.array) for key in tasks]

    # ------------------------------------------------------------ visits

    def start(self) -> Delayed:
        """The first block."""
        width = self.job.plan.width(self.matrix.array.shape)
        draw = partial(triplets.first_block, self.matrix.short, width, self.job.seed)
        name = self._name("start")
        return work.delayed(name, {(name, 0): (draw,)}, (name, 0))

    def visit(self, Q: Delayed) -> Delayed:
        """Sums of a visit with a block."""
        return self._total("visit", work.visit, Visit.plus, Q)

    def turned(self, Q: Delayed, total: Delayed) -> Delayed:
        """The next block."""
        return self._small("turn", triplets.next_block, Q, total)

    def found(self, Q: Delayed, total: Delayed) -> Delayed:
        """Triplets that a visit gave."""
        job = self.job
        finish = partial(
            triplets.first_triplets,
            signs=job.signs,
            is_wide=self.matrix.is_wide,
            seed=job.seed,
            plan=job.plan,
        )
        return self._small("triplets", finish, Q, total)

    def resolved(self, found: Delayed, n_added: int) -> Delayed:
        """Whether they need no more visits; see `gpuml.solvers.compressed.Plan.is_resolved`."""
        return self._small(
            f"resolved-{n_added}", partial(self.job.plan.is_resolved, n_added=n_added), found
        )

    def error(self, found: Delayed) -> Delayed:
        """How good they are: one more visit."""
        probe = self._small("probes", partial(triplets.probes_for, seed=self.job.seed), found)
        estimate = partial(error_estimate, dtype=self.job.plan.dtype)
        return self._small("error", estimate, found, self._squares(probe))

    def _squares(self, probe):
        return self._total("squares", work.squared_lengths, work.plus, probe)

    def known(self, word: str, values: Sequence[Any]) -> list[Delayed]:
        """What was found elsewhere, as outcomes of stages."""
        name = self._name(f"known-{word}")
        tasks: dict[Any, Any] = {
            (name, i): (partial(work.same, each),) for i, each in enumerate(values)
        }
        graph = HighLevelGraph.from_collections(name, tasks, dependencies=())
        return [Delayed(key, graph, layer=name) for key in tasks]

    def _total(self, word, function, combine, W):
        """A function of every strip and a thin matrix, summed."""
        name = self._name(word, W.key)
        one, tasks, leaves = self._of_strip(function), {}, []
        for (i, keys), standard in zip(
            self.matrix.strips.items(), self._each_standard(), strict=True
        ):
            leaves.append((name, 0, i))
            tasks[leaves[-1]] = (one, keys, W.key, standard.key)
        result = work.add(tasks, leaves, combine, name)
        return work.delayed(name, tasks, result, self.matrix.array, W, *self.standards)

    def _each_standard(self):
        if self.matrix.is_wide:
            return self.standards
        return self.standards * len(self.matrix.strips)

    def _small(self, word, function, *args):
        name = self._name(word, *(arg.key for arg in args))
        tasks = {(name, 0): (function, *(arg.key for arg in args))}
        return work.delayed(name, tasks, (name, 0), *args)

    def _of_strip(self, function, **options):
        job = self.job
        settings = (self.matrix.is_wide, self.needs_sums, job.device, job.block_bytes)
        return partial(function, settings=settings, **options)

    def _name(self, word, *keys):
        return f"{PREFIX}-{word}-{tokenize(self._token, *keys)}"

    # ------------------------------------------------------------ results

    def arrays(self, found: Delayed) -> tuple[da.Array, da.Array, da.Array]:
        """u, s and v, chunked as the matrix is. What is long takes one more visit, if computed."""
        k = self.job.plan.n_components
        rows, columns = self.matrix.array.chunks
        if self.matrix.is_wide:
            u = self._thin("u", work.columns_of_right, found, rows)
            return u, self._values(found), self._long("v", found, ((k,), columns))
        v = self._thin("v", work.rows_of_right, found, columns)
        return self._long("u", found, (rows, (k,))), self._values(found), v

    def _long(self, word, found, chunks):
        name = self._name(word, found.key)
        tasks: dict[Any, Any] = {}
        image = self._of_strip(work.long_vectors)
        standards = dict(zip(self.matrix.strips, self._each_standard(), strict=True))
        for i, keys in self.matrix.strips.items():
            tasks[self._long_key(name, i)] = (image, keys, found.key, standards[i].key)
        return self._long_array(name, tasks, chunks, found)

    def _long_key(self, name, i):
        return (name, 0, i) if self.matrix.is_wide else (name, i, 0)

    def _long_array(self, name, tasks, chunks, found):
        for i, size in enumerate(self.matrix.long_chunks):
            if size == 0:
                shape = tuple(0 if len(sizes) > 1 else sizes[0] for sizes in chunks)
                empty = partial(work.nothing, shape, self._dtype, self.matrix.on_gpu)
                tasks[self._long_key(name, i)] = (empty,)
        return self._array(name, tasks, chunks, found, self.matrix.array, *self.standards)

    def _thin(self, word, function, found, sizes):
        name, tasks = self._name(word, found.key), {}
        for j, span in enumerate(work.spans_of(sizes)):
            key = (name, j, 0) if self.matrix.is_wide else (name, 0, j)
            cut = partial(function, span=span, dtype=self._dtype, on_gpu=self.matrix.on_gpu)
            tasks[key] = (cut, found.key)
        k = (self.job.plan.n_components,)
        return self._array(name, tasks, (sizes, k) if self.matrix.is_wide else (k, sizes), found)

    def _values(self, found):
        name = self._name("s", found.key)
        cut = partial(work.singular, dtype=self._dtype, on_gpu=self.matrix.on_gpu)
        return self._array(
            name, {(name, 0): (cut, found.key)}, ((self.job.plan.n_components,),), found
        )

    def _array(self, name, tasks, chunks, *dependencies):
        meta = meta_from_array(self.matrix.meta, ndim=len(chunks), dtype=self._dtype)
        return array_of(name, tasks, chunks, meta, dependencies)

    @property
    def _dtype(self):
        return self.job.plan.dtype

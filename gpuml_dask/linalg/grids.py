"""Visits of a matrix whose strips are too large for one task: chunk by chunk, in two steps.

With the chunks ``B_ij`` of strip i, first ``Y_i = sum_j B_ij Q_j``, then ``Z_j = sum_i B_ij' Y_i``.
No chunk moves; images of strips do. Both steps need all chunks, which stay in memory between them.
"""

import operator
from collections.abc import Callable
from typing import Any

import dask.array as da
from dask.delayed import Delayed

from gpuml.reading import chunked
from gpuml.solvers.row_products import Visit
from gpuml_dask.linalg import work
from gpuml_dask.linalg.matrix import Matrix
from gpuml_dask.linalg.stages import Job, Stages


def stages_of(matrix: Matrix, job: Job) -> Stages:
    """Stages of a decomposition: with a task for each strip, or for each chunk of large ones."""
    return GridStages(matrix, job) if matrix.is_grid else Stages(matrix, job)


class GridStages(Stages):
    """Stages whose tasks work on single chunks; a standard for each chunk along the short side."""

    @property
    def _spans(self) -> list[slice]:
        """The part of the short side that each chunk of a strip has."""
        sizes = self.matrix.array.chunks[0 if self.matrix.is_wide else 1]
        return work.spans_of([size for size in sizes if size])

    def find_standards(self) -> list[Delayed]:
        """A standard for each chunk along the short side, from sums over features if need be."""
        matrix = self.matrix
        if matrix.is_wide:
            spans = work.spans_of(matrix.long_chunks)
            groups = [(spans[i], keys) for i, keys in matrix.strips.items()]
        else:
            columns = zip(*matrix.strips.values(), strict=True)
            groups = list(zip(self._spans, map(list, columns), strict=True))
        return self._summed_standards([(f, [[key] for key in keys]) for f, keys in groups])

    def visit(self, Q: Delayed) -> Delayed:
        name = self._name("visit", Q.key)
        tasks: dict[Any, Any] = {}
        images = self._images(tasks, name, Q)
        one = self._of_strip(chunked.transposed_image)
        parts = []
        for j in range(len(self._spans)):
            leaves = [
                (one, [keys[j]], self._standard_key(position, j), images[i])
                for position, (i, keys) in enumerate(self.matrix.strips.items())
            ]
            parts.append(work.add(tasks, leaves, operator.add, name, "Z", j))
        rest = self._sum_over(tasks, images, work.small_sums, Visit.plus, name, "G")
        tasks[name, "all"] = (work.whole_visit, parts, rest)
        return self._outcome(name, tasks, (name, "all"), Q)

    def _squares(self, probe: Delayed) -> Delayed:
        name = self._name("squares", probe.key)
        tasks: dict[Any, Any] = {}
        images = self._images(tasks, name, probe)
        total = self._sum_over(tasks, images, work.squared_lengths, operator.add, name, "sum")
        return self._outcome(name, tasks, total, probe)

    def _long(self, word: str, found: Delayed, chunks: Any) -> da.Array:
        name = self._name(word, found.key)
        tasks: dict[Any, Any] = {}
        images = self._images(tasks, f"{name}-parts", found)
        finish = self._result(self.matrix.is_wide)
        for i, image in images.items():
            tasks[self._long_key(name, i)] = (finish, image)
        return self._long_array(name, tasks, chunks, found)

    def _images(self, tasks: dict, name: str, W: Delayed) -> dict[int, Any]:
        """Keys of ``B W`` of each strip."""
        images, one = {}, self._of_strip(work.part_of_image)
        for position, (i, keys) in enumerate(self.matrix.strips.items()):
            leaves = [
                (one, [key], self._standard_key(position, j), W.key, span)
                for j, (span, key) in enumerate(zip(self._spans, keys, strict=True))
            ]
            images[i] = work.add(tasks, leaves, operator.add, name, "Y", i)
        return images

    def _sum_over(
        self, tasks: dict, images: dict[int, Any], one: Callable, combine: Callable, *name: Any
    ) -> Any:
        return work.add(tasks, [(one, image) for image in images.values()], combine, *name)

    def _standard_key(self, position, j):
        return self.standards[position if self.matrix.is_wide else j].key

    def _outcome(self, name, tasks, result, W):
        return work.delayed(name, tasks, result, self.matrix.array, W, *self.standards)

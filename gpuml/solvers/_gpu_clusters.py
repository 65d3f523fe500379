"""k-means of many runs on the rows of a GPU, by the kernels of `_cluster_kernels`."""

from collections.abc import Sequence
from itertools import count
from typing import Any

import numpy as np

from gpuml._arrays import Array, to_host
from gpuml._arrays.ops import column_sums
from gpuml.solvers import _cluster_kernels as kernels
from gpuml.solvers._far_rows import with_all_centres
from gpuml.solvers._near_centres import LEAST_MEAN, ROUNDINGS

# Tiles of rows whose sums by label are kept apart, and the workspace for these sums.
MOST_TILES, PART_BYTES = 128, 2**28
# What `Labelled.step` tells of each run.
CHANGED, MOVED, EMPTY = range(3)


class Labelled:
    """Rows with their labels by the centres of each run, and for how long these are certain.

    Parameters
    ----------
    X : CuPy array (n, p)
    weight : CuPy array (n,) or None
    starts : sequence of CuPy array (k, p)
        Centres of each run, where the rows are, of their dtype.

    Attributes
    ----------
    centres : CuPy array (R, K, p)
        Those of each run come first.
    labels : CuPy int32 array (R, n)
    sums : CuPy array (R, K, p + 3)
        Of features of the rows of each centre by weight, of their weights, and how many of them
        have some weight and how many there are.
    """

    def __init__(self, X: Array, weight: Array | None, starts: Sequence[Array]):
        import cupy

        self._xp = cupy
        self._X = cupy.ascontiguousarray(X)
        self._weight = np.uintp(0) if weight is None else cupy.ascontiguousarray(weight)
        self._kernels = kernels.kernels(X.dtype.name)
        n_runs, (n_rows, p) = len(starts), X.shape
        self.own = [len(each) for each in starts]
        k = max(self.own)
        self._sizes = cupy.asarray(self.own, dtype=np.int32)
        self.centres = cupy.zeros((n_runs, k, p), dtype=X.dtype)
        for r, each in enumerate(starts):
            self.centres[r, : len(each)] = each
        self._moved = self.centres.copy()
        self._coefs = cupy.empty_like(self.centres)
        self._lengths = cupy.empty((n_runs, k), dtype=X.dtype)
        self._single = self.centres.astype(np.float32), cupy.empty((n_runs, k), dtype=np.float32)
        self._travelled, self._gone, self._steps = cupy.zeros((3, n_runs, k))
        self._slacks, self._changed = cupy.empty((n_runs, 2)), cupy.zeros(n_runs, dtype=np.int32)
        self._told = cupy.empty((n_runs, 3))
        self.sums = cupy.zeros((n_runs, k, p + kernels.EXTRA))
        self.labels = cupy.full((n_runs, n_rows), -1, dtype=np.int32)
        self._before = cupy.empty_like(self.labels)
        self._until = cupy.empty(self.labels.shape, dtype=np.float32)
        # Without these, labels are right and certain for no time that anybody asks for.
        self._longest, self._unit, self._fresh = 0.0, 1.0, True
        self._single_rows = np.uintp(0)
        self.go_on_with(range(n_runs))
        self.move(given=True)

    def keep_bounds(self) -> None:
        """Have `label` pass rows that are certain, from now on."""
        xp = self._xp
        lengths = xp.sum(self._X * self._X, axis=1)
        longest = float(lengths.max())
        mean = float(column_sums(lengths[:, None], xp)[0]) / len(lengths)
        self._longest, self._unit = longest, longest**-0.5 if longest > 0 else 1.0
        self._fresh = mean < LEAST_MEAN * longest
        if self._X.dtype == np.float64:
            self._single_rows = (self._X * self._unit).astype(np.float32)
        self.move(given=True)

    def go_on_with(self, runs: Any) -> None:
        """Leave all other runs as they are from now on."""
        self.runs = np.asarray(runs, dtype=np.int32)
        self._alive = self._xp.asarray(self.runs)
        # What a step writes is what the next one reads, also of runs that are left as they are.
        self._moved[...], self._gone[...] = self.centres, self._travelled

    def label(self) -> None:
        """Label rows by the nearest centre."""
        n_rows, p = self._X.shape
        if n_rows == 0:
            return
        sizes = (np.int64(n_rows), np.int32(p), np.int32(self.centres.shape[1]))
        n_runs = len(self.runs)
        given = (self._X, self._single_rows, *sizes, np.int32(n_runs), self._alive, self._sizes)
        of_runs = (self._coefs, self._lengths, *self._single, self._slacks)
        bounds = (np.float64(self._unit), self._travelled, self._before, self.labels, self._until)
        grid = (n_runs * -(-n_rows // kernels.TILE),)
        self._call("label", grid, kernels.THREADS, (*given, *of_runs, *bounds))

    def count(self) -> None:
        """Bring sums up to date with labels."""
        n_rows, p = self._X.shape
        if n_rows == 0:
            return
        k, width = self.sums.shape[1:]
        tile, n_tiles = _tiles(n_rows)
        self._changed.fill(0)
        step = max(1, PART_BYTES // (8 * n_tiles * k * width))
        for at in range(0, len(self.runs), step):
            alive = self._alive[at : at + step]
            parts = self._xp.empty((len(alive), n_tiles, k, width))
            rows = (self._X, self._weight, np.int64(n_rows), np.int32(p), np.int32(k), alive)
            fresh = np.int32(self._fresh)
            of_tiles = (self._before, self.labels, fresh, np.int64(tile), parts, self._changed)
            slices = -(-k // kernels.SLICE) * -(-width // 32)
            grid = (len(alive), n_tiles, slices)
            self._call("count", grid, 32 * kernels.WARPS, (*rows, *of_tiles))
            sums = (parts, np.int32(n_tiles), np.int64(k * width), alive, fresh, self.sums)
            self._call("add_parts", (-(-k * width // 256), len(alive)), 256, sums)

    def move(self, *, given: bool = False) -> np.ndarray:
        """Move centres to the means of their rows, or to those given; see `_cluster_kernels`."""
        k, p = self.centres.shape[1:]
        numbers = map(np.float64, (self._longest, ROUNDINGS * (p + 4), self._unit))
        sizes = (np.int32(p), np.int32(k), self._alive, self._sizes, self.sums, np.int32(given))
        centres = (self.centres, self._moved, self._coefs, self._lengths, *self._single)
        steps = (self._slacks, self._travelled, self._gone, self._steps, self._changed, self._told)
        grid = (len(self.runs),)
        self._call("move", grid, kernels.THREADS, (*sizes, *numbers, *centres, *steps))
        return to_host(self._told)[self.runs]

    def step(self, weight: Array | None) -> np.ndarray:
        """One of Lloyd's iterations: how many labels changed, and how far centres moved (R', 3)."""
        self.label()
        self.count()
        told = self.move()
        for r in self.runs[told[:, EMPTY] > 0]:
            own = slice(0, self.own[r])
            sums, some = self.sums[r, own], self.sums[r, own, -2] > 0
            self._moved[r, own] = with_all_centres(
                (self._X, weight),
                self.centres[r, own],
                self.labels[r],
                sums[:, : -kernels.EXTRA],
                self._xp.where(some, sums[:, -kernels.EXTRA], 0.0),
            )
        if (told[:, EMPTY] > 0).any():
            told = self.move(given=True)
        self.centres, self._moved = self._moved, self.centres
        self._travelled, self._gone = self._gone, self._travelled
        return told

    def costs_and_sizes(self) -> Array:
        """Weighted squared distances of rows from their centres, then how many these have.

        An array (R, 1 + K), after a call of `count`.
        """
        n_rows, p = self._X.shape
        n_runs, k = self.sums.shape[:2]
        parts = self._xp.zeros((n_runs, 1))
        if n_rows:
            tile, n_tiles = _tiles(n_rows)
            parts = self._xp.empty((n_runs, n_tiles * 32 * kernels.WARPS))
            given = (self._X, self._weight, np.int64(n_rows), np.int32(p), np.int32(k))
            of_tiles = (self.centres, self.labels, np.int64(tile), parts)
            self._call("costs", (n_runs, n_tiles), 32 * kernels.WARPS, (*given, *of_tiles))
        return self._xp.concatenate([parts.sum(axis=1)[:, None], self.sums[..., -1]], axis=1)

    def _call(self, name, grid, n_threads, arguments):
        self._kernels.get_function(name)(grid, (n_threads,), arguments)


def _tiles(n_rows: int) -> tuple[int, int]:
    """Rows of a tile whose sums are kept apart, and how many tiles there are."""
    least = kernels.TILE
    tile = -(-n_rows // (MOST_TILES * least)) * least
    return tile, -(-n_rows // tile)


def lloyd(X: Array, weight: Array | None, runs: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Centres (k, p) where each run ends, the number of its iterations, its cost and its sizes."""
    labelled = Labelled(X, weight, [run.start for run in runs])
    labelled.keep_bounds()
    tol = np.asarray([run.tol for run in runs])
    most = np.asarray([run.max_iter for run in runs])
    n_iter = np.zeros(len(runs), dtype=int)
    for step in count(1):
        told, left = labelled.step(weight), labelled.runs
        n_iter[left] = step
        done = (told[:, CHANGED] == 0) | (told[:, MOVED] <= tol[left]) | (most[left] == step)
        if done.all():
            break
        if done.any():
            labelled.go_on_with(left[~done])
    labelled.go_on_with(range(len(runs)))
    labelled.label()
    labelled.count()
    both = to_host(labelled.costs_and_sizes())
    return [
        (
            labelled.centres[r, :k],
            int(n_iter[r]),
            float(row[0]),
            np.sort(row[1 : k + 1].astype(int)),
        )
        for r, (k, row) in enumerate(zip(labelled.own, both, strict=True))
    ]


def labels_of(X: Array, centres: Array) -> Array:
    """The nearest centre of each row (n,), int32."""
    labelled = Labelled(X, None, [centres])
    labelled.label()
    return labelled.labels[0]


def sums_by_centre(X: Array, weight: Array | None, centres: Sequence[Array]) -> tuple[Array, Array]:
    """Sums (R, K, p) of the rows that are nearest to each centre, and their weights (R, K)."""
    labelled = Labelled(X, weight, centres)
    labelled.label()
    labelled.count()
    return labelled.sums[..., : -kernels.EXTRA], labelled.sums[..., -kernels.EXTRA]


def costs_and_sizes(X: Array, weight: Array | None, centres: Sequence[Array]) -> Array:
    """Cost of each set of centres, then the number of rows of each centre: (R, 1 + K) sums."""
    labelled = Labelled(X, weight, centres)
    labelled.label()
    labelled.count()
    return labelled.costs_and_sizes()

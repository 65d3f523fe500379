"""Sufficient statistics for least squares, read once per partition of the splits."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from gpuml._arrays import HOST, Place, itemsize, nbytes, place_of
from gpuml._arrays.ops import all_finite
from gpuml.data import Folds, Rows, count_rows, without_weights
from gpuml.solvers._blocks import quiet
from gpuml.solvers.affine import Affine, stacked_image, transformed
from gpuml.solvers.extrema import Extrema, atom_extrema
from gpuml.solvers.factors import Factors, Stacked, atom_factors
from gpuml.solvers.kernel import Kernel, row_kernel
from gpuml.solvers.moments import Moments, atom_moments, without_lengths
from gpuml.solvers.numbered_rows import NumberedBatch
from gpuml.solvers.sparse_rows import SparseBatch

# Relative error of the coefficients that a route may cost beyond rounding of the data itself.
ASKED_PRECISION = {8: 1e-7, 4: 1e-5}
# Moments of dense rows go to CPU memory where factoring those of all training parts takes so few
# multiplications, a few milliseconds of one core: on a GPU each of the hundreds of steps that make
# models and scores of them is a launch, however small its arrays are. There are as many steps for
# each setting of the preprocessing before the models.
MOST_PRODUCTS_HERE = 2**23
# Features up to which models of sparse rows are solved from moments.
MOST_SPARSE_FEATURES = 1024
# Moments of parts of the rows that are kept, together.
KEPT_BYTES = 2**24


@dataclass(frozen=True)
class Training:
    """Training parts of neighbouring splits, as sums of atoms; or all rows as one part.

    Attributes
    ----------
    index : int
        Number of the partition.
    counts : ndarray (S, A)
        How often each atom of it is in each part.
    splits : slice or None
        The splits; None for all rows.
    """

    index: int
    counts: np.ndarray
    splits: slice | None

    def __len__(self) -> int:
        return len(self.counts)

    def part(self, i: int) -> "Training":
        """One of them."""
        return self.parts(i, i + 1)

    def parts(self, start: int, stop: int) -> "Training":
        """Some of them."""
        if self.splits is None:
            return self
        first = self.splits.start
        counts = self.counts[start:stop]
        return Training(self.index, counts, slice(first + start, first + start + len(counts)))


def training_parts(folds: Folds) -> list[Training]:
    """The training parts of all splits, partition by partition."""
    return [
        Training(i, part.train, slice(part.first_split, part.first_split + part.n_splits))
        for i, part in enumerate(folds.partitions)
    ]


def all_rows(folds: Folds) -> Training:
    """All rows as one part."""
    return Training(0, np.ones((1, len(folds.partitions[0].atoms))), None)


@dataclass(frozen=True)
class Described:
    """All that the solves need to know of the rows: per partition, moments or else one kernel.

    Attributes
    ----------
    folds : Folds
    moments : tuple of Moments, or None
        Of the atoms of each partition, of the rows as they are.
    kernel : Kernel or None
        Inner products of the rows, where there are more features than rows. Of sparse rows there
        may be neither: all models are found by iterations then.
    block_bytes : int or None
        Bound on the workspace of a block.
    careful : bool
        Whether every model is to be solved from factors of the rows.
    n_passes : int
        How often the rows were read for this.
    factors : dict
        Factors of the atoms of a partition: needed for hard problems only, and then by the splits
        and by the refit.
    """

    folds: Folds
    moments: tuple[Moments, ...] | None
    kernel: Kernel | None
    block_bytes: int | None = None
    careful: bool = False
    n_passes: int = 1
    factors: dict[int, Factors] = field(default_factory=dict)

    @property
    def place(self) -> Place:
        """Where the sums are: where rows are worked on, or in CPU memory if they are small."""
        if self.moments is None:
            return self.folds.batch.work
        return place_of(self.moments[0].gram)

    @property
    def n_features(self) -> int:
        """Features that models see."""
        return self.folds.n_features

    @property
    def is_sparse(self) -> bool:
        """Whether rows are sparse: what moments do not solve is solved by iterations."""
        return isinstance(self.folds.batch, SparseBatch)

    @property
    def precision(self) -> float:
        """Relative error that a solve from moments may leave."""
        if self.careful:
            return 0.0
        return ASKED_PRECISION[itemsize(self.folds.batch.dtype)]

    @property
    def is_finite(self) -> bool:
        """Whether all sums are finite: they are not if any row is not, or if squares overflow."""
        xp = self.place.xp
        if self.kernel is not None:
            sums = [self.kernel.K, self.kernel.y]
        elif self.moments is None:
            with quiet():
                sums = [xp.sum(R**2) for each in self.factors.values() for R in each.atoms]
        else:
            sums = [moments.gram for moments in self.moments]
        return all(all_finite(part, xp) for part in sums)

    def combined(self, parts: Training) -> Moments:
        """Moments of some parts: of the images of their rows where `folds` has a frame."""
        frame, splits = self.folds.frame, parts.splits
        if frame is None:
            return self.sums(parts.index, parts.counts)
        atoms = (self.moments or ())[parts.index]
        kept = getattr(frame, "kept", {})
        key = parts.index, None if splits is None else (splits.start, splits.stop)
        source, found = kept.get(key, (None, None))
        if source is not atoms:  # those of other weights, or of nothing
            found = transformed(self.sums(parts.index, parts.counts), frame.of(splits))
            kept[key] = atoms, found
        return found

    def sums(self, index: int, counts: np.ndarray) -> Moments:
        """Moments of sums (S, A) of the atoms of a partition, of the rows as they are.

        Small ones are kept: models in all frames, and their scores, need the same.
        """
        atoms = (self.moments or ())[index]
        size = len(counts) * nbytes(atoms.gram) // atoms.gram.shape[0]
        if size + counts.nbytes > KEPT_BYTES:
            return atoms.combine(counts)
        kept = self.folds.known.setdefault("sums", {})
        key = index, counts.shape, counts.tobytes()
        source, found = kept.get(key, (None, None))
        if source is not atoms:  # those of other weights, or of nothing
            found = atoms.combine(counts)
            if size + sum(nbytes(each.gram) for _, each in kept.values()) > KEPT_BYTES:
                kept.clear()
            kept[key] = atoms, found
        return found

    def stacked(self, part: Training) -> Stacked:
        """Rows that describe one part, without forming its moments."""
        found = self.factors_of(part.index).stack(part.counts[0])
        frame = self.folds.frame
        return found if frame is None else stacked_image(found, frame.of(part.splits))

    def extrema(self, parts: Training) -> Extrema:
        """Extrema of the features of the rows of some parts; they are read at the first call."""
        key = ("extrema", parts.index)
        if key not in self.folds.known:
            atoms = self.folds.partitions[parts.index].atoms
            batch = self.folds.batch
            found = atom_extrema(batch, atoms, block_bytes=self.block_bytes)
            self.folds.known[key] = found.to(self.place)
        return self.folds.known[key].combine(parts.counts)

    def factors_of(self, index: int) -> Factors:
        """Triangular factors of the atoms of a partition; the rows are read at the first call."""
        if index not in self.factors:
            atoms = self.folds.partitions[index].atoms
            found = atom_factors(self.folds.batch, atoms, block_bytes=self.block_bytes)
            self.factors[index] = found.to(self.place)
        return self.factors[index]


def describe(
    folds: Folds,
    *,
    block_bytes: int | None = None,
    advance: Callable[[int], None] | None = None,
    careful: bool = False,
    by_features: bool = False,
    at_work: bool = False,
    lengths: bool = False,
    n_settings: int = 1,
) -> Described:
    """Read the rows, once for each partition of the splits, unless that was done before.

    Parameters
    ----------
    folds : Folds
        Rows that lie elsewhere than ``folds.batch.work`` are moved there block by block.
    block_bytes : int, optional
        Bound on the workspace of a block.
    advance : callable, optional
        Called with the number of rows read since the last call.
    careful : bool, default=False
        Whether every model is to be solved from factors of the rows.
    by_features : bool, default=False
        Whether moments are wanted even where there are more features than rows, as they always are
        for folds with a frame.
    at_work : bool, default=False
        Whether moments stay where rows are worked on, however small they are.
    lengths : bool, default=False
        Whether the same reading finds ``known["lengths"]``, for `moments.fourth_powers`.
    n_settings : int, default=1
        How many frames the models are going to see the rows in.

    Raises
    ------
    MemoryError
        If not even small blocks fit.
    """
    batch, known = folds.batch, folds.known
    if isinstance(batch, SparseBatch) and not may_have_moments(batch):
        return Described(folds, None, None, block_bytes, careful, 0)
    few_rows = batch.n_features > batch.n_rows
    if few_rows and not by_features and folds.frame is None:
        batch.must_be_here(
            f"{batch.n_features} features of {batch.n_rows} rows: with more features than rows "
            "the rows have to be in one place."
        )
        n_passes = 0 if "kernel" in known else 1
        if n_passes:
            known["kernel"] = row_kernel(batch)
        return Described(folds, None, known["kernel"], block_bytes, careful, n_passes)
    n_passes = 0 if ("lengths" if lengths else "moments") in known else len(folds.partitions)
    if n_passes:
        known["factors"] = {}
        place = batch.work if at_work or not _are_small(folds, n_settings) else HOST
        known["moments"] = tuple(
            atom_moments(
                batch, part.atoms, block_bytes=block_bytes, advance=advance, lengths=lengths
            ).to(place)
            for part in folds.partitions
        )
        if lengths:
            known["lengths"] = known["moments"]
            known["moments"] = tuple(map(without_lengths, known["lengths"]))
    found = Described(
        folds, known["moments"], None, block_bytes, careful, n_passes, known["factors"]
    )
    # Iterations on sparse rows need no squares of y.
    return replace(found, moments=None) if found.is_sparse and not found.is_finite else found


def described_by_rows(
    folds: Folds, block_bytes: int | None, advance: Callable[[int], None] | None = None
) -> Described:
    """Factors of the atoms alone: of fewer rows than features they are the rows."""
    kept = folds.known.setdefault("factors", {})
    found = Described(folds, None, None, block_bytes, factors=kept)
    unread = [i for i in range(len(folds.partitions)) if i not in kept]
    for i in unread:
        found.factors_of(i)
        if advance is not None:
            advance(folds.batch.n_rows)
    return replace(found, n_passes=len(unread))


def _are_small(folds, n_settings):
    """Whether moments are solved sooner in CPU memory than on a device."""
    if isinstance(folds.batch, NumberedBatch) and folds.batch.solved_here:
        return True
    if folds.batch.work.is_host or isinstance(folds.batch, SparseBatch):
        return False
    q = folds.batch.n_features + folds.batch.y.shape[1] + 1
    n_atoms = sum(len(part.atoms) for part in folds.partitions)
    return (folds.n_splits + n_atoms) * q**3 <= 2 * MOST_PRODUCTS_HERE * n_settings


def may_have_moments(batch: SparseBatch) -> bool:
    """Whether second moments of so many features take less memory than the sparse rows."""
    return batch.n_features <= min(MOST_SPARSE_FEATURES, batch.n_rows)


def frame_maps(folds: Folds) -> Affine | None:
    """Maps of all splits into the frame of folds, (S, p, k); None where models see the rows."""
    return None if folds.frame is None else folds.frame.of(slice(0, folds.n_splits))


def rows_of_parts(folds: Folds, parts: Training) -> tuple[int, ...]:
    """Number of rows of each part."""
    sizes = np.asarray([count_rows(atom) for atom in folds.partitions[parts.index].atoms])
    return tuple(int(n) for n in parts.counts @ sizes)


def rows_of_part(folds: Folds, parts: Training, s: int) -> Rows:
    """The rows of one part."""
    if parts.splits is None:
        return slice(0, folds.batch.n_rows)
    return folds.splits[parts.splits.start + s].train


def unweighted(folds: Folds) -> Folds:
    """The same rows and splits without weights; what gets known of them stays with `folds`."""
    if folds.batch.weight is None:
        return folds
    if "unweighted" not in folds.known:
        folds.known["unweighted"] = without_weights(folds)
    return replace(folds.known["unweighted"], frame=folds.frame)

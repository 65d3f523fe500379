"""Batches whose X has row numbers, which are looked up on demand."""

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

from gpuml._arrays import Array
from gpuml.data import Batch, Folds, Rows
from gpuml.designs import Design


@dataclass(frozen=True)
class NumberedBatch(Batch):
    """Rows by number: X is (n, 1), and `rows` gives the rows themselves.

    Attributes
    ----------
    solved_here : bool
        Whether moments go to CPU memory however large they are.
    """

    solved_here: ClassVar[bool] = False

    @abstractmethod
    def rows(self, taken: Array) -> Any:
        """Rows by their numbers (m, 1)."""

    @abstractmethod
    def design(self, block_bytes: int | None = None) -> Design:
        """The rows as solvers see them."""

    @property
    def rows_at_once(self) -> int:
        """How many rows are looked up at once."""
        return 2**16

    @property
    def apart(self) -> Design | None:
        """Columns behind those of `design`, too many for sums over pairs; None for none."""
        return None

    @abstractmethod
    def about(self, numbers: Array, shift: Array) -> Design:
        """Some rows less a shift (p,), in float64."""

    @abstractmethod
    def shifts(self, atoms: tuple[Rows, ...]) -> Array:
        """What moments of [X, y] of each atom are about, (A, q - 1) or (q - 1,)."""

    def without_rows(self) -> Batch:
        """Targets, weights and all that has the dtype of the rows, with X of shape (n, 0)."""
        xp = self.work.xp
        dtype = getattr(xp, str(self.dtype).rpartition(".")[2])
        X = xp.empty((self.n_rows, 0), dtype=dtype, device=self.work.device)
        return Batch(
            X, self.y, self.weight, self.work, self.home, self.y_is_flat, self.codes, self.classes
        )


def folds_without_rows(folds: Folds) -> Folds:
    """The same splits of a batch `without_rows`."""
    return replace(folds, batch=cast(NumberedBatch, folds.batch).without_rows())

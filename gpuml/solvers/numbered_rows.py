"""Batches whose X holds row numbers; the rows are looked up on demand."""

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

from gpuml._arrays import Array
from gpuml.data import Batch, Folds, Rows
from gpuml.designs import Design


@dataclass(frozen=True)
class NumberedBatch(Batch):
    """Rows by number: X (n, 1) holds the numbers, and `rows` looks up the rows.

    Attributes
    ----------
    solved_here : bool
        Whether moments go to CPU memory, whatever their size.
    """

    solved_here: ClassVar[bool] = False

    @abstractmethod
    def rows(self, taken: Array) -> Any:
        """The rows with these numbers (m, 1)."""

    @abstractmethod
    def design(self, block_bytes: int | None = None) -> Design:
        """The rows as solvers see them."""

    @property
    def rows_at_once(self) -> int:
        """How many rows to look up at once."""
        return 2**16

    @property
    def apart(self) -> Design | None:
        """Columns after those of `design` that are too many for sums over pairs, or None."""
        return None

    @abstractmethod
    def about(self, numbers: Array, shift: Array) -> Design:
        """The rows with these numbers, minus a shift (p,), in float64."""

    @abstractmethod
    def shifts(self, atoms: tuple[Rows, ...]) -> Array:
        """The shift of the moments of [X, y] of each atom, (A, q - 1) or (q - 1,)."""

    def without_rows(self) -> Batch:
        """The same batch with X of shape (n, 0), in the dtype of the rows."""
        xp = self.work.xp
        dtype = getattr(xp, str(self.dtype).rpartition(".")[2])
        X = xp.empty((self.n_rows, 0), dtype=dtype, device=self.work.device)
        return Batch(
            X, self.y, self.weight, self.work, self.home, self.y_is_flat, self.codes, self.classes
        )


def folds_without_rows(folds: Folds) -> Folds:
    """The same splits of the batch `without_rows`."""
    return replace(folds, batch=cast(NumberedBatch, folds.batch).without_rows())

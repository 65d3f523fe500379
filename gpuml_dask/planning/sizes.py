"""What a plan has to know of workers, rows and work: their sizes, and nothing else."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from gpuml_dask.planning.pieces import Chunks

Kind = Literal["gpu", "cpu"]


@dataclass(frozen=True)
class Worker:
    """A worker, as far as a plan has to know it.

    Attributes
    ----------
    name : str
    kind : {"gpu", "cpu"}
    memory_bytes : int
        Of its GPU, or of its process.
    threads : int
    host : str
        Workers of one host have a faster link.
    host_memory_bytes : int
        Of a GPU worker: where rows may stay that its GPU cannot hold, to be read block by block.
    """

    name: str
    kind: Kind
    memory_bytes: int
    threads: int = 1
    host: str = ""
    host_memory_bytes: int = 0


@dataclass(frozen=True)
class GroupWork:
    """Candidates that are fitted at once.

    Attributes
    ----------
    label : str
        Such as "ridge x10".
    n_candidates, n_splits : int
    by_rows : bool
        Whether it can be done with rows divided over workers.
    rounds : int
        Passes over the rows, each with a sum over all of them: 1 for moments, about 30 for
        gradients.
    """

    label: str
    n_candidates: int
    n_splits: int
    by_rows: bool = False
    rounds: int = 1

    def sum_bytes(self, data: "Data") -> int:
        """Bytes of the sum over rows that a pass gives."""
        if self.rounds == 1:
            return 8 * self.n_splits * (data.n_features + data.n_targets + 1) ** 2
        columns = self.n_candidates * self.n_splits * max(data.n_targets, 1)
        return 8 * columns * (data.n_features + 1)


@dataclass(frozen=True)
class SinglesWork:
    """Candidates that are fitted one by one, each on each split.

    `host_only` says that the estimator cannot use a GPU. `seconds` is what a fit takes, where that
    is known.
    """

    label: str
    n_candidates: int
    n_splits: int
    host_only: bool = False
    seconds: float | None = None


@dataclass(frozen=True)
class Work:
    """All that a search has to fit."""

    groups: Sequence[GroupWork] = ()
    singles: SinglesWork | None = None


@dataclass(frozen=True)
class Data:
    """The rows of a search, as far as a plan has to know them.

    `chunks` are those of a collection on workers; `lives` says where rows are; `n_bytes` is given
    where rows are not dense.
    """

    n_rows: int
    n_features: int
    itemsize: int = 8
    n_targets: int = 1
    chunks: Chunks | None = None
    lives: Literal["client", "workers"] = "client"
    n_bytes: int | None = None

    @property
    def whole_bytes(self) -> int:
        """Bytes of all rows, targets included."""
        if self.n_bytes is not None:
            return self.n_bytes
        return self.n_rows * (self.n_features + self.n_targets) * self.itemsize

    @property
    def row_bytes(self) -> int:
        """Bytes of a row, on average, rounded up."""
        return -(-self.whole_bytes // max(self.n_rows, 1))

"""Blocks of rows, with a held-out part of each, for models that learn call by call."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np


@dataclass(frozen=True)
class Recipe:
    """How to divide a block of rows."""

    seed: int
    block: int
    n_rows: int
    test_size: float

    def parts(self) -> tuple[np.ndarray, np.ndarray]:
        """Training rows in a random order, and held-out rows."""
        drawn = np.random.default_rng([self.seed, self.block]).permutation(self.n_rows)
        # Rounding must not leave the held-out part empty.
        n_test = min(self.n_rows, int(np.ceil(self.test_size * self.n_rows)))
        return drawn[n_test:], drawn[:n_test]


@dataclass(frozen=True)
class RowBlocks:
    """Blocks of consecutive rows; a random part of each block is held out for scores.

    What is drawn in a block depends on the seed, the number of the block and its length alone, so
    a block can be divided wherever it is.

    Attributes
    ----------
    bounds : tuple of int, n_blocks + 1 of them
        Rows at which blocks begin, and the number of rows.
    test_size : float
        Share of the rows of each block that is held out.
    seed : int
    """

    bounds: tuple[int, ...]
    test_size: float
    seed: int

    def __post_init__(self):
        if not self.training_blocks:
            raise ValueError(
                f"With n_samples={self.bounds[-1]}, test_size={self.test_size:g} and blocks of at "
                f"most {max(np.diff(self.bounds), default=0)} rows, the resulting train set will "
                "be empty. Adjust any of the aforementioned parameters."
            )

    @property
    def n_blocks(self) -> int:
        """The number of blocks, including those without training rows."""
        return len(self.bounds) - 1

    @cached_property
    def training_blocks(self) -> list[int]:
        """The blocks that have training rows."""
        return [j for j in range(self.n_blocks) if len(self.parts(j)[0])]

    def recipe(self, block: int) -> "Recipe":
        """How to divide a block."""
        n_rows = self.bounds[block + 1] - self.bounds[block]
        return Recipe(self.seed, block, n_rows, self.test_size)

    def parts(self, block: int) -> tuple[np.ndarray, np.ndarray]:
        """Training rows and held-out rows, counted from the first row of a block."""
        return self.recipe(block).parts()

    def train(self, block: int) -> np.ndarray:
        """Rows of X that a call with this block trains on, in a random order."""
        return self.bounds[block] + self.parts(block)[0]

    def test(self) -> np.ndarray:
        """Held-out rows of X, block by block."""
        return np.concatenate([self.bounds[j] + self.parts(j)[1] for j in range(self.n_blocks)])

    def prefix(self, share: float) -> np.ndarray:
        """A share of the training rows of every block; a larger share contains a smaller one."""
        rows = map(self.train, self.training_blocks)
        return np.concatenate([each[: max(1, round(share * len(each)))] for each in rows])

    def order(self, n_calls: int) -> list[int]:
        """The block of each call: a random permutation of all blocks, then another, and so on."""
        rng = np.random.default_rng(self.seed)
        blocks: list[int] = []
        while len(blocks) < n_calls:
            blocks.extend(rng.permutation(self.training_blocks).tolist())
        return blocks[:n_calls]


def even_bounds(n_rows: int, chunk_size: int | None) -> tuple[int, ...]:
    """Bounds of blocks of equal size, the last of which may be shorter; None is one block."""
    size = chunk_size or max(n_rows, 1)
    return (*range(0, n_rows, size), n_rows)

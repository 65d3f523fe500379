"""Rows in blocks, a part of each held out: what models that learn call by call are given."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np


@dataclass(frozen=True)
class Recipe:
    """How a block of so many rows is divided."""

    seed: int
    block: int
    n_rows: int
    test_size: float

    def parts(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows to train on, in a random order, and rows held out."""
        drawn = np.random.default_rng([self.seed, self.block]).permutation(self.n_rows)
        # Rounding must not hold out nobody.
        n_test = min(self.n_rows, int(np.ceil(self.test_size * self.n_rows)))
        return drawn[n_test:], drawn[:n_test]


@dataclass(frozen=True)
class RowBlocks:
    """Blocks of neighbouring rows; some rows of each, drawn at random, are held out for scores.

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
        """Number of blocks, those without a training row counted."""
        return len(self.bounds) - 1

    @cached_property
    def training_blocks(self) -> list[int]:
        """Blocks that have rows to train on."""
        return [j for j in range(self.n_blocks) if len(self.parts(j)[0])]

    def recipe(self, block: int) -> "Recipe":
        """What it takes to divide a block."""
        n_rows = self.bounds[block + 1] - self.bounds[block]
        return Recipe(self.seed, block, n_rows, self.test_size)

    def parts(self, block: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows to train on and rows held out, counted from the first row of a block."""
        return self.recipe(block).parts()

    def train(self, block: int) -> np.ndarray:
        """Rows of X that a call with this block trains on, in a random order."""
        return self.bounds[block] + self.parts(block)[0]

    def test(self) -> np.ndarray:
        """Rows of X that are held out, block by block."""
        return np.concatenate([self.bounds[j] + self.parts(j)[1] for j in range(self.n_blocks)])

    def prefix(self, share: float) -> np.ndarray:
        """A share of the training rows of every block; a larger share has those of a smaller."""
        rows = map(self.train, self.training_blocks)
        return np.concatenate([each[: max(1, round(share * len(each)))] for each in rows])

    def order(self, n_calls: int) -> list[int]:
        """The block of each call: all blocks once, in a random order, then all in another."""
        rng = np.random.default_rng(self.seed)
        blocks: list[int] = []
        while len(blocks) < n_calls:
            blocks.extend(rng.permutation(self.training_blocks).tolist())
        return blocks[:n_calls]


def even_bounds(n_rows: int, chunk_size: int | None) -> tuple[int, ...]:
    """Bounds of blocks of so many rows, the last of which may be shorter; None is one block."""
    size = chunk_size or max(n_rows, 1)
    return (*range(0, n_rows, size), n_rows)

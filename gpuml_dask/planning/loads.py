"""Groups of candidates, and candidates one by one, as loads of passes and seconds."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpuml_dask.planning.layouts import Load, Pool
from gpuml_dask.planning.pieces import Tree
from gpuml_dask.planning.sizes import Data, GroupWork, SinglesWork

UNIT_SECONDS = 0.1  # a task of less is mostly the scheduler's work
MANY_UNITS = 10_000


@dataclass(frozen=True)
class Loads:
    """Loads of a search's work on workers of a pool; `tree` adds up the pieces of its rows."""

    data: Data
    pool: Pool
    tree: Tree

    def of_groups(self, groups: Sequence[GroupWork], size: int) -> Load:
        """Load of groups on teams of that size; on one worker for 1."""
        if not groups:
            return Load()
        rounds = [group.rounds for group in groups]
        sums = self.sum_seconds(groups, size)
        return Load(len(groups), sum(rounds), max(rounds), sum(sums), max(sums))

    def sum_seconds(self, groups: Sequence[GroupWork], size: int) -> list[float]:
        """Seconds of adding up over a team, all rounds of each group together."""
        if size == 1:
            return [0.0] * len(groups)
        costs, link, out = self.pool.costs, self.pool.link, []
        # Moments of the rows are added up once for all groups that need them.
        moments = costs.task * (self.tree.n_leaves + self.tree.n_nodes)
        depth = max(1, -(-(size - 1).bit_length() // 3))
        for group in groups:
            n_bytes = group.sum_bytes(self.data)
            if group.rounds == 1:
                out.append(moments and moments + costs.tree(link, self.tree.depth, n_bytes))
                moments = 0.0
            else:
                once = costs.all_reduce(self.pool.kind, link, size, depth, n_bytes)
                out.append(group.rounds * once)
        return out

    def of_singles(self, singles: SinglesWork | None) -> Load:
        """Load of candidates that are fitted one by one, with all rows in one place."""
        if singles is None:
            return Load()
        unit = self.unit_candidates(singles)
        n_units = singles.n_splits * -(-singles.n_candidates // unit)
        n_fits = singles.n_splits * singles.n_candidates
        if singles.seconds is not None:
            return Load(n_units, 0.0, 0.0, n_fits * singles.seconds, unit * singles.seconds)
        passes = self.pool.costs.single_passes
        return Load(n_units, n_fits * passes, unit * passes)

    def unit_candidates(self, singles: SinglesWork) -> int:
        """Candidates of a task: enough to be worth one, and no more tasks than can be handled."""
        enough = np.ceil(UNIT_SECONDS / max(self.fit_seconds(singles, 1), 1e-9))
        fewest = -(-singles.n_candidates * singles.n_splits // MANY_UNITS)
        return int(min(max(enough, fewest, 1), max(singles.n_candidates, 1)))

    def fit_seconds(self, singles: SinglesWork, n_used: int) -> float:
        """Seconds of one fit on one of the first `n_used` workers."""
        if singles.seconds is not None:
            return singles.seconds
        return self.pool.costs.single_passes * self.pass_seconds(self.data.whole_bytes, n_used)

    def pass_seconds(self, n_bytes: float, n_used: int) -> float:
        """Seconds in which each of the first `n_used` workers reads that many bytes."""
        return float(self.pool.pass_seconds(n_bytes, np.array([n_used]))[0])

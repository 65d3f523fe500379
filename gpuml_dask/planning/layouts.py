"""Ways to lay rows out over workers, and the seconds that each would take.

A layout has teams of equal size: each team has all rows, divided over its members. Teams of one
have whole data; one team of all workers has the rows divided; what lies between does both.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from gpuml_dask.planning.costs import Costs

Mode = Literal["whole", "rows", "both"]

MOST_TEAMS = 64  # of more than one worker
SIMPLEST_FIRST: tuple[Mode, ...] = ("whole", "rows", "both")
CLOSE = (1.05, 0.01)  # layouts this near to the fastest are as good: factor, seconds


@dataclass(frozen=True)
class Pool:
    """Workers of one kind, in the order in which they are taken.

    Attributes
    ----------
    names, hosts : tuples of str
    kind : {"gpu", "cpu"}
    rooms, host_rooms : arrays (w,)
        Bytes of rows that each may have in its memory, and of those a GPU reads from its host's.
    held : array (w,)
        Bytes of the rows that each has already.
    threads : float
        Of a worker, on average.
    n_holders : int
        Number of workers that have any rows, in this pool or not; 0 where the client has them.
    """

    names: tuple[str, ...]
    hosts: tuple[str, ...]
    kind: str
    rooms: np.ndarray
    host_rooms: np.ndarray
    held: np.ndarray
    threads: float
    n_holders: int
    costs: Costs

    def __len__(self):
        return len(self.names)

    @cached_property
    def link(self) -> float:
        """Bytes/s between two of them."""
        return self.costs.link(self.kind, len(set(self.hosts)))

    def pass_seconds(self, n_bytes: float, n_used: np.ndarray) -> np.ndarray:
        """Seconds in which each of the first `n_used` workers reads its rows; inf for no room."""
        room = np.minimum.accumulate(self.rooms)[n_used - 1]
        host_room = np.minimum.accumulate(self.host_rooms)[n_used - 1]
        gpu = self.kind == "gpu"
        rate = self.costs.gpu_pass if gpu else self.costs.thread_pass * self.threads
        streamed = n_bytes / self.costs.upload if gpu else math.inf
        slow = np.where(n_bytes <= host_room, streamed, math.inf)
        return np.where(n_bytes <= room, n_bytes / rate, slow)

    def copy_seconds(self, n_bytes: float, size: int, n_teams: np.ndarray) -> np.ndarray:
        """Seconds until teams of that size have all rows each."""
        part = n_bytes / size
        if self.n_holders == 0:
            # The client sends the rows once; workers hand them on to each other.
            handed_on = np.ceil(np.log2(n_teams)) * part / self.link
            seconds = self.send_seconds(n_bytes) + handed_on
        else:
            there = np.cumsum(np.minimum(self.held, part))[size * n_teams - 1]
            moved = np.maximum(n_teams * n_bytes - there, 0)
            at_once = np.minimum(size * n_teams, self.n_holders)
            seconds = moved / at_once / self.link
        return seconds + (part / self.costs.upload if self.kind == "gpu" else 0)

    def send_seconds(self, n_bytes: float) -> float:
        """Seconds in which the client sends the rows once, whatever the layout; 0 without it."""
        return n_bytes / self.costs.client_link if self.n_holders == 0 else 0.0

    def start_seconds(self, iterative: bool) -> float:
        """Seconds until sums between passes can begin."""
        return self.costs.nccl_start if iterative and self.kind == "gpu" else 0.0

    def teams(self, size: int, n_teams: int) -> np.ndarray:
        """Indices of the members of each team (n_teams, size); neighbours are of one host."""
        first = range(size * n_teams)
        order = sorted(first, key=lambda i: (self.hosts[i], i)) if n_teams > 1 else list(first)
        return np.array(order).reshape(n_teams, size)


@dataclass(frozen=True)
class Load:
    """Units of work: passes over all rows, and seconds besides, of all units and of the longest."""

    n_units: int = 0
    passes: float = 0.0
    longest: float = 0.0
    seconds: float = 0.0
    longest_seconds: float = 0.0

    def __add__(self, other):
        return Load(
            self.n_units + other.n_units,
            self.passes + other.passes,
            max(self.longest, other.longest),
            self.seconds + other.seconds,
            max(self.longest_seconds, other.longest_seconds),
        )


@dataclass(frozen=True)
class Layout:
    """`n_teams` teams of `team_size`, and `n_whole` workers with all rows for what needs them so.

    `by_rows` says that teams add their members' sums. Workers with whole data are teams of one
    where it is False, and `n_whole` is then 0.
    """

    team_size: int
    n_teams: int
    n_whole: int
    by_rows: bool
    seconds: float

    @property
    def mode(self) -> Mode:
        """Whole data, rows divided over one team, or some of both."""
        if not self.by_rows:
            return "whole"
        return "rows" if self.n_teams == 1 and not self.n_whole else "both"


def whole_layouts(pool: Pool, n_bytes: float, load: Load) -> Iterator[Layout]:
    """Whole data on 1, 2, ... workers, where it fits."""
    k = np.arange(1, min(len(pool), max(load.n_units, 1)) + 1)
    seconds = _work_seconds(pool, load, pool.pass_seconds(n_bytes, k), k)
    seconds = seconds + pool.copy_seconds(n_bytes, 1, k)
    for n_used, value in zip(k.tolist(), seconds.tolist(), strict=True):
        if value < math.inf:
            yield Layout(1, n_used, 0, False, value)


def row_layouts(pool: Pool, n_bytes: float, loads: Mapping[int, Load]) -> Iterator[Layout]:
    """Teams, as many as there is work for; `loads` are those of teams of each size."""
    for size, load in loads.items():
        most = min(len(pool) // size, load.n_units, MOST_TEAMS)
        n_teams = np.arange(1, most + 1)
        passes = pool.pass_seconds(n_bytes / size, size * n_teams)
        seconds = _work_seconds(pool, load, passes, n_teams)
        seconds = seconds + pool.copy_seconds(n_bytes, size, n_teams)
        for n, value in zip(n_teams.tolist(), seconds.tolist(), strict=True):
            if value < math.inf:
                yield Layout(size, n, 0, True, value)


def _work_seconds(pool, load, pass_seconds, n_teams):
    """Seconds of all units on so many teams, as if they were alike; the longest bounds them."""
    costs, n_units = pool.costs, max(load.n_units, 1)
    unit = (load.passes * pass_seconds + load.seconds) / n_units
    longest = load.longest * pass_seconds + load.longest_seconds
    work = np.maximum(unit * np.ceil(n_units / n_teams), longest)
    return work + costs.round_trip + costs.task * n_units


def team_sizes(n_workers: int, n_pieces: int) -> list[int]:
    """Sizes worth a look: powers of two, and as many workers as can have a piece."""
    most = min(n_workers, n_pieces)
    return sorted({1 << i for i in range(1, most.bit_length()) if 1 << i < most} | {most})


def cheapest(layouts: Sequence[Layout], common_seconds: float) -> Layout | None:
    """The simplest layout, on fewest workers, of those that are about as fast as the fastest.

    `common_seconds` are in all of them, and tell nothing.
    """
    if not layouts:
        return None
    least = min(layout.seconds for layout in layouts) - common_seconds
    limit = common_seconds + least * CLOSE[0] + CLOSE[1]

    def effort(layout):
        n_workers = max(layout.team_size * layout.n_teams, layout.n_whole)
        return SIMPLEST_FIRST.index(layout.mode), n_workers, layout.seconds

    return min((layout for layout in layouts if layout.seconds <= limit), key=effort)

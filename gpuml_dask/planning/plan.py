"""How a search is spread over workers: decided before it begins, from sizes alone.

Nothing here knows Dask or looks at data. For each way to place the rows, `make_plan` estimates the
seconds of the search by the table in `gpuml_dask.planning.costs`, and takes the cheapest way that
fits memory. `docs/scaling.md` has the formulas.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from gpuml_dask.planning.costs import COSTS, Costs
from gpuml_dask.planning.layouts import Mode, Pool, cheapest, row_layouts, team_sizes, whole_layouts
from gpuml_dask.planning.loads import Loads
from gpuml_dask.planning.pieces import (
    Chunks,
    Tree,
    assign,
    balance,
    cut_rows,
    overlaps,
    reduction_tree,
)
from gpuml_dask.planning.sizes import Data, GroupWork, SinglesWork, Work, Worker
from gpuml_dask.planning.steps import PlacedStep, place_steps
from gpuml_dask.planning.words import byte_text, plan_text, second_text

__all__ = [
    "Chunks",
    "Data",
    "GroupWork",
    "PlacedStep",
    "Plan",
    "SinglesWork",
    "Step",
    "Tree",
    "Work",
    "Worker",
    "assign",
    "balance",
    "cut_rows",
    "make_plan",
    "place_steps",
    "reduction_tree",
]

StepMode = Literal["whole", "rows"]

SHARES = (0.45, 0.9)  # of memory for rows: the rest is for folds and work; the second if it must


@dataclass(frozen=True)
class Step:
    """What is done with one group, or with the candidates that are fitted one by one.

    Attributes
    ----------
    label : str
    mode : {"whole", "rows"}
        Whether a worker (a team) needs all rows for it, or a team of several has them divided.
    n_fits : int
    workers : tuple of str
        Who may get it.
    unit_candidates : int
        Candidates of a task.
    seconds : float
        Estimate for one worker, or one team, that has its rows.
    """

    label: str
    mode: StepMode
    n_fits: int
    workers: tuple[str, ...]
    unit_candidates: int
    seconds: float


@dataclass(frozen=True)
class Plan:
    """How a search is spread over workers; printed with ``verbose=2``.

    Attributes
    ----------
    mode : {"whole", "rows", "both"}
        "whole": every worker that works has all rows, and candidates are divided. "rows": one team
        has the rows divided, and sums are added. "both": some steps go one way and some the other,
        or several teams have all rows each.
    why : str
    steps : tuple of Step
        One per group, in order, then the candidates that are fitted one by one.
    teams : tuple of tuples of str
        Workers that share the rows among them; teams of one for "whole".
    bounds : int array (n_pieces + 1,)
        Rows at which pieces begin; they depend on the data only.
    owners : int array (n_teams, n_pieces)
        Member of the team that has each piece.
    tree : Tree
        In which order sums of pieces are added.
    bytes_moved : int
        Rows that go to a worker from another or from the client.
    seconds : float
        Estimate.
    """

    mode: Mode
    why: str
    steps: tuple[Step, ...]
    teams: tuple[tuple[str, ...], ...]
    bounds: np.ndarray = field(repr=False)
    owners: np.ndarray = field(repr=False)
    tree: Tree = field(repr=False)
    bytes_moved: int
    seconds: float

    @property
    def workers(self) -> tuple[str, ...]:
        """Names of all workers that get work, each once."""
        team = (name for team in self.teams for name in team)
        others = (
            name for workers in dict.fromkeys(s.workers for s in self.steps) for name in workers
        )
        return tuple(dict.fromkeys((*team, *others)))

    @property
    def n_pieces(self) -> int:
        """Number of pieces of rows."""
        return len(self.bounds) - 1

    def __str__(self):
        return plan_text(self)


def make_plan(
    data: Data,
    work: Work,
    workers: Sequence[Worker],
    *,
    force: Mode | None = None,
    piece_bytes: int | None = None,
    costs: Costs = COSTS,
) -> Plan:
    """Decide how a search is spread over workers.

    Parameters
    ----------
    data : Data
    work : Work
    workers : sequence of Worker
        GPU workers get all that can use them; work of the host goes to CPU workers where there are
        any.
    force : {"whole", "rows", "both"}, default=None
        Takes the best plan of that mode. Groups that cannot be done by rows, and candidates fitted
        one by one, need all rows in one place all the same.
    piece_bytes : int, default=None
        Bytes wanted in a piece of rows; None follows the size of the data.
    costs : Costs
        What the estimate rests on.

    Returns
    -------
    plan : Plan
        The same for the same arguments.

    Raises
    ------
    ValueError
        If there are no workers, or rows do not fit where they are needed, or `force` asks for what
        cannot be done.

    Examples
    --------
    >>> from gpuml_dask.planning.plan import Data, GroupWork, Work, Worker, make_plan
    >>> gpus = [Worker(f"gpu-{i}", "gpu", 140 * 10**9, host="a") for i in range(8)]
    >>> ridge = Work([GroupWork("ridge x10", 10, 5, by_rows=True)])
    >>> make_plan(Data(442, 10), ridge, gpus).teams
    (('gpu-0',),)
    >>> make_plan(Data(640_000_000, 100, 4, lives="workers"), ridge, gpus).mode
    'rows'
    """
    if not workers:
        raise ValueError("No worker has joined the cluster: there is nobody to give work to.")
    if force in ("rows", "both") and not any(group.by_rows for group in work.groups):
        raise ValueError(f"force={force!r}: nothing in this search can be done with rows divided.")
    chunk_bounds = None if data.chunks is None else data.chunks.bounds
    bounds = cut_rows(data.n_rows, data.row_bytes, chunk_bounds, piece_bytes=piece_bytes)
    for share in SHARES:
        planner = _Planner(data, work, workers, bounds, share, costs)
        plan = planner.plan(force)
        if plan is not None:
            return plan
    raise ValueError(_does_not_fit(data, workers, force))


class _Planner:
    """Plans of one search, with a share of each memory for rows."""

    def __init__(self, data, work, workers, bounds, share, costs):
        self.data, self.bounds, self.groups, self.singles = data, bounds, work.groups, work.singles
        self.tree = reduction_tree(max(len(bounds) - 1, 1))
        gpu, cpu = ([w for w in workers if w.kind == kind] for kind in ("gpu", "cpu"))
        of_host = [_without_gpu(w) for w in cpu or gpu]
        host_only = work.singles is not None and work.singles.host_only
        # What cannot use a GPU goes to other workers if there are any, so it is planned by itself.
        self.apart = bool(host_only and gpu and work.groups)
        device = of_host if host_only and not work.groups else gpu or cpu
        self.on_device, self.on_host = (
            Loads(data, _pool(pool, data, share, costs), self.tree) for pool in (device, of_host)
        )

    def plan(self, force):
        """The best plan of a mode, or of any; None where rows do not fit."""
        layouts = list(self._layouts(force))
        best, on_host = self._cheapest(layouts), None
        if best is None:
            return None
        if self.apart:
            on_host = self._cheapest(
                self._whole(self.on_host, self.on_host.of_singles(self.singles))
            )
            if on_host is None:
                return None
        return self._written_out(best, on_host, _why(best, layouts, force, self.data))

    def _cheapest(self, layouts):
        return cheapest(layouts, self.on_device.pool.send_seconds(self.data.whole_bytes))

    def _whole(self, loads, load):
        return list(whole_layouts(loads.pool, self.data.whole_bytes, load))

    def _layouts(self, force):
        loads = self.on_device
        divisible = [group for group in self.groups if group.by_rows]
        undivided = loads.of_groups([group for group in self.groups if not group.by_rows], 1)
        if not self.apart:
            undivided += loads.of_singles(self.singles)
        if force in (None, "whole") or not divisible:
            yield from self._whole(loads, loads.of_groups(divisible, 1) + undivided)
        if force == "whole" or not divisible:
            return
        for_rest = self._cheapest(self._whole(loads, undivided)) if undivided.n_units else None
        if undivided.n_units and for_rest is None:
            return
        sizes = team_sizes(len(loads.pool), self.tree.n_leaves)
        if force == "rows":
            sizes = sizes[-1:]
        row_loads = {size: loads.of_groups(divisible, size) for size in sizes}
        start = loads.pool.start_seconds(any(group.rounds > 1 for group in divisible))
        for layout in row_layouts(loads.pool, self.data.whole_bytes, row_loads):
            layout = _joined(layout, for_rest, start)
            if _allowed(layout, force):
                yield layout

    # ------------------------------------------------------------ the chosen layout

    def _written_out(self, layout, on_host, why):
        pool, seconds = self.on_device.pool, layout.seconds
        members = pool.teams(layout.team_size, layout.n_teams)
        owners, moved = self._owners(members)
        moved += self._bytes_of_whole(pool, layout.n_whole)
        teams = tuple(tuple(pool.names[i] for i in team) for team in members)
        steps = self._group_steps(layout, tuple(name for team in teams for name in team))
        if on_host is not None:
            host = self.on_host.pool
            steps.append(self._singles_step(self.on_host, on_host.n_teams))
            moved += self._bytes_of_whole(host, on_host.n_teams)
            shared = set(host.names) & set(pool.names)
            seconds = (sum if shared else max)((seconds, on_host.seconds))
        elif self.singles is not None:
            steps.append(self._singles_step(self.on_device, layout.n_whole or layout.n_teams))
        return Plan(
            layout.mode, why, tuple(steps), teams, self.bounds, owners, self.tree, moved, seconds
        )

    def _group_steps(self, layout, in_teams):
        loads, size, groups = self.on_device, layout.team_size, self.groups
        n_used = size * layout.n_teams
        n_whole = layout.n_whole or n_used
        divided = loads.pass_seconds(self.data.whole_bytes / size, n_used)
        whole, with_whole = (
            loads.pass_seconds(self.data.whole_bytes, n_whole),
            loads.pool.names[:n_whole],
        )
        in_sums = iter(loads.sum_seconds([g for g in groups if g.by_rows], size))
        steps = []
        for g in groups:
            rows = layout.by_rows and g.by_rows
            seconds = g.rounds * (divided if rows else whole) + (next(in_sums) if rows else 0.0)
            who = in_teams if rows else with_whole
            n_fits = g.n_candidates * g.n_splits
            mode: StepMode = "rows" if rows else "whole"
            steps.append(Step(g.label, mode, n_fits, who, g.n_candidates, seconds))
        return steps

    def _singles_step(self, loads, n_used):
        singles = self.singles
        n_fits = singles.n_candidates * singles.n_splits
        seconds = n_fits * loads.fit_seconds(singles, n_used)
        unit, names = loads.unit_candidates(singles), loads.pool.names[:n_used]
        return Step(singles.label, "whole", n_fits, names, unit, seconds)

    def _owners(self, members):
        """Member of each team that has each piece, and the bytes that have to go there."""
        n_teams, size = members.shape
        shape, chunks, pool = (n_teams, len(self.bounds) - 1), self.data.chunks, self.on_device.pool
        if size == 1:
            nobody_else = np.zeros(1, dtype=np.int64)
            return np.broadcast_to(nobody_else, shape), self._bytes_of_whole(pool, n_teams)
        piece_bytes = np.diff(self.bounds) * self.data.row_bytes
        if chunks is None:
            owners = balance(piece_bytes, size)
            return np.broadcast_to(owners, shape), n_teams * self.data.whole_bytes
        found, in_teams, moved = overlaps(self.bounds, chunks, pool.names), [], 0
        for team in members:
            seen = found.seen_by(team, len(pool))
            in_teams.append(balance(piece_bytes, size, seen.main_holders()))
            moved += seen.bytes_to_move(in_teams[-1])
        return np.stack(in_teams), moved

    def _bytes_of_whole(self, pool, n_workers):
        return round(n_workers * self.data.whole_bytes - pool.held[:n_workers].sum())


def _pool(workers, data, share, costs):
    """Those workers, in the order in which they are taken: who has rows already comes first."""
    names = [w.name for w in workers]
    held: np.ndarray = np.zeros(len(workers))
    n_holders = 0
    if data.chunks is not None:
        index = data.chunks.holder_indices(names)
        there = index >= 0
        held = np.bincount(index[there], data.chunks.n_bytes[there], minlength=len(workers))
        n_holders = len(set(data.chunks.holders) - {None})
    if data.lives == "workers":
        n_holders = n_holders or len(workers)
    order = sorted(
        range(len(workers)), key=lambda i: (-held[i], -workers[i].memory_bytes, -workers[i].threads)
    )
    workers = [workers[i] for i in order]
    return Pool(
        tuple(w.name for w in workers),
        tuple(w.host for w in workers),
        workers[0].kind,
        np.array([share * w.memory_bytes for w in workers]),
        np.array([share * w.host_memory_bytes for w in workers]),
        held[order],
        sum(w.threads for w in workers) / len(workers),
        n_holders,
        costs,
    )


def _without_gpu(worker):
    if worker.kind == "cpu":
        return worker
    memory = worker.host_memory_bytes or worker.memory_bytes
    return replace(worker, kind="cpu", memory_bytes=memory, host_memory_bytes=0)


def _joined(rows, whole, start_seconds):
    """A layout with rows divided, and next to it whole data for the rest of the work."""
    n_whole, more = (0, 0.0) if whole is None else (whole.n_teams, whole.seconds)
    return replace(rows, n_whole=n_whole, seconds=rows.seconds + start_seconds + more)


def _allowed(layout, force):
    if force == "rows":
        return layout.n_teams == 1
    if force == "both":
        return layout.mode == "both" and layout.team_size > 1
    return layout.team_size > 1


# ---------------------------------------------------------------- in words


def _why(best, layouts, force, data):
    size = byte_text(data.whole_bytes)
    if force is not None:
        return "asked for"
    fastest: dict[str, float] = {}
    for layout in layouts:
        mode = layout.mode
        fastest[mode] = min(layout.seconds, fastest.get(mode, layout.seconds))
    if "whole" not in fastest:
        return f"{size} of rows do not fit a worker"
    if best.team_size * best.n_teams == 1 and not best.n_whole:
        return f"{size} of rows: more workers would not be faster"
    return "estimates: " + ", ".join(f"{mode} {second_text(s)}" for mode, s in fastest.items())


def _does_not_fit(data, workers, force):
    largest = max(max(w.memory_bytes, w.host_memory_bytes) for w in workers)
    total = sum(max(w.memory_bytes, w.host_memory_bytes) for w in workers)
    asked = "" if force is None else f" with force={force!r}"
    if force == "both":
        asked += " (two teams of two, or a team and whole data for what cannot be divided)"
    return (
        f"{byte_text(data.whole_bytes)} of rows cannot be placed{asked} for this search: the "
        f"largest of {len(workers)} workers has {byte_text(largest)} of memory, all of them "
        f"{byte_text(total)}, and {SHARES[-1]:.0%} of it may hold rows. Work that cannot be done "
        "with rows divided needs all of them in one place. Add workers, or workers with more "
        "memory, or take fewer rows or float32."
    )

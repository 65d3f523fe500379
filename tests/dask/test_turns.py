"""Runs of ranks: of disjoint workers at the same time, of workers that overlap in turns."""

import random
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from distributed import Client

from gpuml_dask.sums.collective import Collective, _turns
from gpuml_dask.waiting import NoAnswer, ask
from tests.dask.test_collective import SocketTransport

ROOT = Path(__file__).parents[2]
SECONDS = 60


def pieces_on(client, workers):
    """A piece on each of some workers, as `Collective.run` takes them."""
    made = [client.submit(int, workers=[worker], pure=False) for worker in workers]
    return {worker: {i: piece} for i, (worker, piece) in enumerate(zip(workers, made, strict=True))}


def meet(holders, folder, me, other):
    """Whether another run begins before this one ends."""
    Path(folder, me).touch()
    deadline = time.monotonic() + SECONDS
    while not Path(folder, other).exists():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return len(holders.each(type)) == 2


def log(holders, path, me):
    """Note the beginning and the end of a run."""
    for word in ("begin", "end"):
        with open(path, "a") as file:
            file.write(f"{word} {me}\n")
        time.sleep(0.02)


def runs_at(client):
    return client.run_on_scheduler(_runs)


def _runs(dask_scheduler):
    return dict(dask_scheduler.extensions.get("gpuml runs", {}))


@pytest.fixture
def workers(client):
    return sorted(client.nthreads())


@pytest.fixture
def others(client):
    with Client(client.scheduler.address, set_as_default=False) as other:
        yield other


@contextmanager
def collectives(*clients):
    """One of each client; where a client is named twice they are the same."""
    known = {client.id: Collective(client, SocketTransport) for client in clients}
    try:
        yield [known[client.id] for client in clients]
    finally:
        for each in known.values():
            each.close()


@pytest.mark.parametrize("same", [False, True], ids=["two clients", "two threads"])
def test_runs_of_disjoint_workers_overlap(client, others, workers, tmp_path, same):
    second = client if same else others
    pieces = pieces_on(client, workers[:2]), pieces_on(second, workers[2:])
    with collectives(client, second) as (a, b), ThreadPoolExecutor(2) as pool:
        for _ in range(2):  # a new communicator, and a kept one
            met = [
                pool.submit(a.run, meet, pieces[0], tmp_path, "a", "b"),
                pool.submit(b.run, meet, pieces[1], tmp_path, "b", "a"),
            ]
            assert [each.result(timeout=2 * SECONDS) for each in met] == [True, True]
            for path in tmp_path.iterdir():
                path.unlink()
        if same:
            assert len(a._members) == 2
    assert runs_at(client) == {}


@pytest.mark.parametrize("same", [False, True], ids=["two clients", "two threads"])
def test_runs_of_workers_that_overlap_take_turns(client, others, workers, tmp_path, same):
    """Also where they name their workers in opposite orders."""
    second, path = client if same else others, tmp_path / "log"
    groups = [workers[:3], workers[:0:-1], workers[1:3]]
    with collectives(client, second) as (a, b), ThreadPoolExecutor(6) as pool:
        runs = [
            pool.submit(one.run, log, pieces_on(by, group), path, f"{i} {name}")
            for i, group in enumerate(groups)
            for one, by, name in ((a, client, "a"), (b, second, "b"))
        ]
        for run in runs:
            run.result(timeout=2 * SECONDS)
    lines = path.read_text().splitlines()
    assert len(lines) == 12
    for begin, end in zip(lines[::2], lines[1::2], strict=True):
        assert begin.replace("begin", "end") == end
    assert runs_at(client) == {}


HOLDS = """
import sys, time
from distributed import Client
from gpuml_dask.sums.collective import Collective

with Client(sys.argv[1]) as client:
    with Collective(client)._turn(sys.argv[2:]):
        print("has its turn", flush=True)
        time.sleep(600)
"""


@pytest.mark.exhaustive
def test_the_turn_of_a_client_that_is_killed_ends(client, workers, tmp_path):
    address = client.scheduler.address
    command = [sys.executable, "-c", HOLDS, address, *workers[1:]]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as holder:
        try:
            assert holder.stdout.readline() == "has its turn\n"
            path = tmp_path / "log"
            with collectives(client) as (one,), ThreadPoolExecutor(1) as pool:
                run = pool.submit(one.run, log, pieces_on(client, workers), path, "me")
                deadline = time.monotonic() + SECONDS
                while len(runs_at(client)) < 2:
                    assert time.monotonic() < deadline
                    time.sleep(0.02)
                assert not path.exists()
                holder.kill()
                run.result(timeout=SECONDS)
        finally:
            holder.kill()
    assert path.read_text().splitlines() == ["begin me", "end me"]
    assert runs_at(client) == {}


def test_a_run_that_is_interrupted_while_it_waits_leaves_the_queue(client):
    one, waits = Collective(client), threading.Event()

    def check(given):
        waits.set()
        raise KeyboardInterrupt

    with one._turn(["a"]), pytest.MonkeyPatch.context() as patch:
        patch.setattr("gpuml_dask.sums.collective.check_client", check)
        with pytest.raises(KeyboardInterrupt), one._turn(["a", "b"]):
            pass
        assert waits.is_set()
        assert len(runs_at(client)) == 1
        with one._turn(["b"]):  # the one that left does not keep it from its turn
            pass
    assert runs_at(client) == {}


@pytest.mark.parametrize("lost", ["interrupted", "unanswered", "overtaken"])
def test_the_next_run_of_a_client_drops_those_whose_end_was_lost(client, others, lost):
    one, begins = Collective(client), []

    def lossy(client, question, **settings):
        if settings["function"].__name__ == "may_begin":
            begins.append(partial(ask, client, question, **settings))
            return begins[-1]()
        if lost == "interrupted":  # a second Ctrl-C
            raise KeyboardInterrupt
        if lost == "unanswered":
            raise NoAnswer
        ask(client, question, **settings)
        return begins[-1]()  # the last message of its wait comes after that of its end

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gpuml_dask.sums.collective.ask", lossy)
        with suppress(KeyboardInterrupt), one._turn(["a"]):
            pass
    (held,) = runs_at(client)
    with Collective(others)._turn(["b"]):
        assert held in runs_at(client)  # another client can't know that it is over
    with one._turn(["b"]):
        assert len(runs_at(client)) == 1
        assert held not in runs_at(client)
        with Collective(others)._turn(["a"]), one._turn(["c"]):
            assert len(runs_at(client)) == 3  # none of a thread that is at work is dropped
    assert runs_at(client) == {}


@pytest.mark.parametrize("seed", range(20))
def test_every_run_gets_its_turn_whoever_leaves(seed):
    """As the scheduler does it, in any order: no two share a worker, and nobody waits forever."""
    rng = random.Random(seed)
    may_begin, leave = _turns()
    scheduler = SimpleNamespace(extensions={}, clients={"a", "b", "c"})
    runs = {i: (rng.choice("abc"), {*rng.sample(range(6), rng.randint(1, 4))}) for i in range(30)}
    waiting, at_work = list(runs), []
    for turn in range(10_000):
        if turn == 20:
            scheduler.clients.remove("c")  # with whatever it has
            waiting, at_work = (
                [run for run in some if runs[run][0] != "c"] for some in (waiting, at_work)
            )
        if not waiting and not at_work:
            break
        run = rng.choice(waiting + at_work)
        if run in at_work:
            leave(run, scheduler)
            at_work.remove(run)
        elif may_begin(run, *runs[run], (), scheduler):
            assert all(runs[run][1].isdisjoint(runs[other][1]) for other in at_work)
            waiting.remove(run)
            at_work.append(run)
    assert not waiting
    assert not at_work
    may_begin("last", "a", {*range(6)}, (), scheduler)
    assert list(scheduler.extensions["gpuml runs"]) == ["last"]

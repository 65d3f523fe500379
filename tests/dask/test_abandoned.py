"""Rows of clients that are killed between a worker's having them and the scheduler's knowing."""

import asyncio
import gc
import os
import subprocess
import sys
import threading
import time

import dask
import numpy as np
import pytest
from distributed import Client
from distributed.worker_state_machine import FreeKeysEvent

from gpuml_dask.errors import ClusterError
from gpuml_dask.rows.abandoned import PAUSES_S, key_of, see_to_rows_of
from gpuml_dask.rows.placement import place

# Is killed, or only cut off, when a worker has its rows.
CLIENT = """
import os, signal, sys, time
import distributed.client
import numpy as np
from gpuml_dask.rows.placement import place
from gpuml_dask.searching.inputs import Sent

theirs = distributed.client.scatter_to_workers

async def scatter_to_workers(*args, **kwargs):
    await theirs(*args, **kwargs)
    print(client.id, flush=True)
    sys.stdin.readline()
    os.kill(os.getpid(), signal.SIGKILL)

distributed.client.scatter_to_workers = scatter_to_workers
client = distributed.Client(sys.argv[1])
X = np.ones((30_000, 2))
if sys.argv[2] == "placed":
    place(X, client=client, chunks=10_000)
else:
    Sent(client, X, "X")
"""
SECONDS = 10


def keys_of(client, name):
    """Keys that workers have of a client, and that the scheduler has."""
    held = [key for keys in client.run(_held, name).values() for key in keys]
    return held, client.run_on_scheduler(_known, name)


def _held(name, dask_worker):
    return [key for key in dask_worker.data if key[-1] == name]


def _known(name, dask_scheduler):
    wanted = getattr(dask_scheduler.clients.get(name), "wants_what", ())
    return [key for key in dask_scheduler.tasks if key[-1] == name] + [ts.key for ts in wanted]


def assert_soon_none(client, name):
    deadline = time.monotonic() + SECONDS
    while keys_of(client, name) != ([], []):
        assert time.monotonic() < deadline, keys_of(client, name)
        time.sleep(0.05)


@pytest.mark.exhaustive
@pytest.mark.parametrize("how", ["placed", "sent"])
def test_rows_of_a_client_that_is_killed_before_the_scheduler_knows_are_let_go(client, how):
    command = [sys.executable, "-c", CLIENT, client.scheduler.address, how]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=os.environ, **pipes) as process:
        name = process.stdout.readline().strip()
        held, known = keys_of(client, name)
        assert held, "no worker has rows: the test does not find the moment"
        assert known == []
        process.communicate("now\n")
    assert_soon_none(client, name)


def place_and_go(client, worker=None):
    """Another client that has sent rows and is closed; the scheduler looks for them from now on."""
    with Client(client.scheduler.address, set_as_default=False) as gone:
        place(np.ones((100, 2)), client=gone).close()
        if worker is not None:
            gone.sync(see_to_rows_of, gone, worker)
    return gone


def deliver(client, worker, key):
    """Give a worker something under a key, and tell nobody."""

    async def update():
        await client.rpc(worker).update_data(data={key: "rows"})

    client.sync(update)


def test_rows_that_the_scheduler_hears_of_after_their_client_has_gone_are_let_go(client):
    worker = next(iter(client.scheduler_info()["workers"]))
    gone = place_and_go(client, worker)
    key = key_of(gone, "X-late", 0)
    deliver(client, worker, key)

    async def tell():
        await client.scheduler.update_data(who_has={key: [worker]}, nbytes={key: 1}, client=gone.id)

    client.sync(tell)
    assert keys_of(client, gone.id) == ([key], [key, key])
    assert_soon_none(client, gone.id)


def test_only_workers_that_a_client_has_sent_to_are_asked_when_it_goes(client):
    workers = list(client.scheduler_info(n_workers=-1)["workers"])
    with Client(client.scheduler.address, set_as_default=False):
        pass  # sends nothing
    gone = place_and_go(client, workers[0])
    key = key_of(gone, "X-late", 0)
    for worker in workers:
        deliver(client, worker, key)
    deadline = time.monotonic() + SECONDS
    while key in client.run(_held, gone.id, workers=workers[:1])[workers[0]]:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert keys_of(client, gone.id)[0], "workers were asked that had nothing of the client"
    client.run(_forget, key)


def _forget(key, dask_worker):
    dask_worker.handle_stimulus(FreeKeysEvent(keys=[key], stimulus_id="test"))


def test_rows_of_a_client_that_stays_are_left_alone_however_long_it_takes(client):
    worker = next(iter(client.scheduler_info()["workers"]))
    with Client(client.scheduler.address, set_as_default=False) as slow:
        key = key_of(slow, "X-slow", 0)
        slow.sync(see_to_rows_of, slow, worker)
        deliver(slow, worker, key)
        place_and_go(client)
        time.sleep(2 * PAUSES_S[0])
        assert keys_of(client, slow.id) == ([key], [])
    assert_soon_none(client, slow.id)


def test_nothing_is_said_of_rows_that_were_given_up_and_fail_later(client, monkeypatch, caplog):
    given_up, failed = threading.Event(), threading.Event()

    async def fail_late(*args):
        while not given_up.is_set():
            await asyncio.sleep(0.01)
        asyncio.get_running_loop().call_later(0.1, failed.set)
        raise OSError("the worker has gone")

    monkeypatch.setattr("distributed.client.scatter_to_workers", fail_late)
    monkeypatch.setattr("gpuml_dask.rows.sending.N_TRIES", 1)
    with dask.config.set({"gpuml.patience": "2s"}), pytest.raises(ClusterError, match="took"):
        place(np.ones((100, 2)), client=client)
    given_up.set()
    assert failed.wait(SECONDS)
    gc.collect()
    assert "never retrieved" not in caplog.text

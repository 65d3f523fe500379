"""Wait until workers do nothing of what nobody waits for any more."""

import time

SECONDS = 60


def wait_until_idle(client):
    """Return when nothing runs, or will run, of clients that are gone or of futures let go.

    Workers that look idle are not enough. The scheduler learns with some delay that a process was
    killed, and reads what that had sent before it died; until then it gives out more of its tasks.
    A task of `client` that goes to a worker after that comes behind all of them, and a worker with
    one thread begins it when everything else has ended.
    """
    _wait_until_alone(client)
    n_threads = client.nthreads()
    assert set(n_threads.values()) == {1}
    client.gather([client.submit(int, workers=worker, pure=False) for worker in n_threads])


def _wait_until_alone(client):
    ours = {client.id, "fire-and-forget"}
    deadline = time.monotonic() + SECONDS
    while not client.run_on_scheduler(_clients_of) <= ours:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _clients_of(dask_scheduler):
    # Workers keep the clients that tasks have asked for.
    return {name for name in dask_scheduler.clients if not name.startswith("Client-worker-")}

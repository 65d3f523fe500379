"""The scenario of svd.py on a cluster: bytes on the workers, gpuml_dask and Dask's own function."""

from itertools import pairwise

import _harness as harness
import numpy as np
from _svd import N_COMPONENTS, N_OVERSAMPLES, N_POWER_ITER, SEED, Task, block_of, dasks

CHUNKS_PER_WORKER = {"cpu": 4, "cuda": 25}


def on_cluster(run, bench, n_rows, n_columns):
    """Times and singular values of a function on the workers of a new cluster."""
    from distributed import wait

    from gpuml_dask import local_client

    # A new cluster each: what one leaves in the memory of workers is not there for the other.
    with local_client(bench.workers, device=bench.device) as client:
        a = _chunks(client, bench, n_rows, n_columns)
        values = []

        def call():
            results = run(client, a)
            wait(results)
            values.append(np.asarray(_on_host(results[1].compute())))

        first = harness.seconds_of(call)
        seconds = harness.timing(call, bench.repeats)
        return {
            "first_seconds": first,
            "seconds": seconds,
            "data_bytes": n_rows * n_columns,
            "singular_values": values[0].astype(float).tolist(),
        }


def _chunks(client, bench, n_rows, n_columns):
    """A dask array of uint8 on the workers, as many chunks on each."""
    import dask
    import dask.array as da
    from distributed import wait

    workers = sorted(client.scheduler_info(n_workers=-1)["workers"])
    n_chunks = len(workers) * CHUNKS_PER_WORKER[bench.device]
    edges = np.linspace(0, n_rows, n_chunks + 1).astype(int)
    meta = Task("uint8", 1, 1, bench.device).xp.empty((0, 0), dtype="uint8")
    task = Task("uint8", n_rows, n_columns, bench.device)
    chunks = []
    for i, (first, stop) in enumerate(pairwise(edges)):
        future = client.submit(
            block_of, task, i, int(first), int(stop - first), workers=[workers[i % len(workers)]]
        )
        shape = (int(stop - first), n_columns)
        chunks.append(da.from_delayed(dask.delayed(future), shape, meta=meta))
    a = client.persist(da.concatenate(chunks))
    wait(a)
    return a


def our_cluster(client, a):
    """gpuml's, on a dask array."""
    from gpuml_dask.linalg import svd_compressed

    return svd_compressed(
        a,
        N_COMPONENTS,
        n_power_iter=N_POWER_ITER,
        n_oversamples=N_OVERSAMPLES,
        seed=SEED,
        compute=True,
        client=client,
    )


def their_cluster(client, a):
    """Dask's own function."""
    return client.persist(list(dasks(a, compute=True)))


def _on_host(x):
    return x.get() if hasattr(x, "get") else x

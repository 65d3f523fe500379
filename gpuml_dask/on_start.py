"""What workers do when they start and end.

Workers of clusters of `gpuml_dask.cluster` have this module as a preload module of Dask, which
imports the package before the scheduler knows of them. On other clusters `import_on_workers` does.
"""

import gc
import importlib
import signal
import sys
import threading
from contextlib import suppress
from typing import Any
from weakref import WeakSet

import cloudpickle
from distributed import Client, WorkerPlugin

SECONDS_TO_IMPORT = 10
_waited: WeakSet[Client] = WeakSet()


def dask_setup(worker: Any) -> None:
    """Leave Ctrl-C to the process that started the cluster.

    A terminal sends it to all; a worker that stops by itself cannot be asked to tidy up.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def dask_teardown(worker: Any) -> None:
    """Let the process end at once, without a search for cycles.

    That computes for 0.6 s with scikit-learn, pandas and Dask loaded. On a busy machine several
    workers that do so together outlast the four seconds that Dask gives them, and are killed.
    """
    gc.freeze()


def import_on_workers(client: Client) -> None:
    """Let workers of any cluster, also those that join later, import what is imported here.

    Dask gives no tasks to a worker before its plugins are set up. Otherwise one that replaces a
    dead worker imports for seconds, while all others wait for it. Each client waits until all have
    imported: a function that arrives meanwhile would deadlock with a task that imports the package.
    Errors are ignored.
    """
    names = [name for name in sys.modules if name.partition(".")[0] == "gpuml_dask"]

    # A class of a function travels by value. Workers without the package could not read one of this
    # module, and could not join the cluster then.
    class Imported(WorkerPlugin):
        def setup(self, worker: Any) -> None:
            for name in names:
                with suppress(ImportError):
                    importlib.import_module(name)

    async def register():
        scheduler: Any = client.scheduler
        await scheduler.register_worker_plugin(
            plugin=cloudpickle.dumps(Imported()), name="gpuml_dask", idempotent=client in _waited
        )
        _waited.add(client)

    with suppress(Exception):
        client.sync(register, callback_timeout=SECONDS_TO_IMPORT)

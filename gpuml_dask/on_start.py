"""Run by workers of our local clusters when they start (a preload module of Dask)."""

import signal
import threading
from typing import Any


def dask_setup(worker: Any) -> None:
    """Leave Ctrl-C to the process that started the cluster.

    A terminal sends it to every process at once; a worker that stops by itself then cannot be asked
    to tidy up, and has to be killed.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)

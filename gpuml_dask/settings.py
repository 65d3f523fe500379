"""Copies of gpuml's settings for the workers of a cluster."""

from typing import Any

from distributed import Client, WorkerPlugin, get_client

from gpuml import config_context, get_config, set_config
from gpuml_dask.waiting import check_client

PLUGIN = "gpuml-settings"


class _Settings(WorkerPlugin):
    """Changes the settings of a worker process, and restores them when it is removed."""

    name = PLUGIN

    def __init__(self, settings: dict[str, Any]):
        self._settings = settings

    def setup(self, worker):
        self._before = get_config()
        set_config(**self._settings)

    def teardown(self, worker):
        set_config(**self._before)


def share_settings(client: Client | None = None, **changes) -> None:
    """Set gpuml's settings on all workers of a cluster to those of this process.

    `gpuml_dask`'s searches do this by themselves. If other code starts the fits on the workers
    (scikit-learn's searches on joblib's Dask backend, dask-ml's searches, your own tasks), gpuml's
    estimators use the settings of the worker process. This function sets those.

    Parameters
    ----------
    client : distributed.Client or None, default=None
        The client of the cluster; workers that join later get the settings too. None is the current
        client.
    **changes
        Settings with other values on the workers; see `gpuml.set_config`.

    Raises
    ------
    TypeError, ValueError
        If `gpuml.set_config` rejects a setting or its value, or `client` is no client or missing.
    ClusterError
        If the client is closed.

    Notes
    -----
    Settings are sent once: call this again after a change. To restore the earlier settings of the
    workers, type ``client.unregister_worker_plugin("gpuml-settings")``.

    Examples
    --------
    >>> import gpuml, gpuml_dask.settings
    >>> from distributed import Client
    >>> with Client(processes=False, dashboard_address=":0") as client:
    ...     gpuml_dask.settings.share_settings(client, device="cpu")
    ...     client.submit(gpuml.get_config).result()["device"]
    'cpu'
    """
    with config_context(**changes):
        settings = get_config()
    client = get_client() if client is None else client
    check_client(client)
    client.register_plugin(_Settings(settings), name=PLUGIN)

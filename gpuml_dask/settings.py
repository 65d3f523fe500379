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
    """Give the workers of a cluster the settings of this process.

    gpuml's own searches take the settings along by themselves. Where others start the fits on the
    workers (scikit-learn's searches on joblib's dask backend, dask-ml's searches, your own tasks),
    gpuml's estimators follow the settings of the worker process, which this function sets.

    Parameters
    ----------
    client : distributed.Client or None, default=None
        Its workers, and those that join them later. None is the current client.
    **changes
        Settings that shall differ on the workers; see `gpuml.set_config`.

    Raises
    ------
    TypeError, ValueError
        For a setting or a value that `gpuml.set_config` does not take, and if `client` is no
        client.
    ClusterError
        If the client is closed.
    ValueError
        If there is no client.

    Notes
    -----
    Settings are sent once: call this again after a change. To put back what the workers had before:
    ``client.unregister_worker_plugin("gpuml-settings")``.

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

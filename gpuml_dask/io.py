"""Arrays that workers read themselves, and chunks spread evenly over workers."""

import os
from collections.abc import Mapping
from typing import Any

import dask
import dask.array as da
import numpy as np
from dask.base import tokenize
from dask.core import flatten
from dask.utils import parse_bytes
from distributed import Client

from gpuml import get_config
from gpuml.data import compute_place
from gpuml_dask._annotations import submit_near
from gpuml_dask._dask import array_of, is_on_gpu, lowered, meta_of
from gpuml_dask.client import current_client, the_client
from gpuml_dask.planning.blocks import balance
from gpuml_dask.planning.plan import has_gpu
from gpuml_dask.planning.worker_kinds import Kind, kinds_among
from gpuml_dask.rows.blocks import upload
from gpuml_dask.sums.collective import in_order
from gpuml_dask.waiting import facts_of

__all__ = ["from_zarr", "persist"]

# Enough bytes to prefer any GPU.
MUCH_WORK = 2**62
# Dask's setting for the chunk size of a task.
CHUNK_SIZE = "array.chunk-size"


def from_zarr(
    url: Any,
    component: str | None = None,
    chunks: Any = None,
    *,
    client: Client | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> da.Array:
    """Return an array in Zarr as a dask array, of CuPy chunks if the workers have GPUs.

    The call reads nothing. Tasks read the blocks that they need, and move them to the GPU.

    Parameters
    ----------
    url : str, path, zarr.Array or store
        Workers must be able to open it too. A ``zarr.Array`` is used as you opened it. Open it with
        kvikio's store, after ``zarr.config.enable_gpu()``, to read directly to the GPU if GPUDirect
        Storage is available.
    component : str, default=None
        Path of the array within a group.
    chunks : int, tuple, str or None, default=None
        As for `dask.array.from_array`. None joins whole chunks (or shards) of Zarr up to Dask's
        setting ``array.chunk-size``, first along the shorter side of a matrix. Chunks that span the
        shorter side are best for `gpuml_dask.linalg.svd_compressed`.
    client : distributed.Client, default=None
        The client whose workers may have GPUs. None is the current client; if there is none, this
        process counts. gpuml's setting ``device="cpu"`` keeps chunks in CPU memory.
    storage_options : mapping, default=None
        Options of fsspec for a store at a URL.

    Returns
    -------
    x : dask array
        Its name is the same for the same array and chunks.

    Raises
    ------
    ImportError
        If zarr is not installed.
    FileNotFoundError, TypeError, ValueError
        Raised by zarr if it cannot open the array; also for a group without `component`, and for
        chunks that do not match the shape.

    See Also
    --------
    persist : Read the chunks, and keep them evenly on the workers.

    Examples
    --------
    >>> from gpuml.encodings import pack
    >>> from gpuml_dask.io import from_zarr, persist
    >>> x = from_zarr("genotypes.zarr", "calls").map_blocks(pack)  # doctest: +SKIP
    >>> x = persist(x)  # read and packed by the same tasks  # doctest: +SKIP
    """
    stored = _opened(url, component, storage_options)
    on_gpu = _reads_to_gpu(client)
    # Zarr's setting for the memory that it reads to, in this process.
    buffers = {name: _zarr().config.get(name) for name in ("buffer", "ndbuffer")}
    reader = _Reader(stored, on_gpu, buffers)
    chunks = _usual_chunks(stored) if chunks is None else chunks
    unit = getattr(stored, "shards", None) or stored.chunks
    chunks = da.core.normalize_chunks(
        chunks, stored.shape, dtype=stored.dtype, previous_chunks=unit
    )
    meta: Any = np.empty((0,) * stored.ndim, dtype=stored.dtype)
    meta = upload(meta) if on_gpu else meta
    name = f"from-zarr-{tokenize(stored, chunks, on_gpu)}"
    return da.from_array(
        reader, chunks, name=name, asarray=False, inline_array=True, meta=meta, fancy=False
    )


def persist(x: da.Array, *, client: Client | None = None) -> da.Array:
    """Compute the chunks of a dask array, and keep them on the workers, evenly by bytes.

    Each worker gets neighbouring rows (or columns, if the matrix has more columns than rows), and
    about as many bytes as the others. The placement is a hint: if a worker is lost, others compute
    its chunks again, and idle workers may take over tasks, unless Dask's setting
    ``distributed.scheduler.work-stealing`` is False. (`dask.array.Array.persist` does not take such
    hints, and loses those of layers when it fuses tasks.)

    Parameters
    ----------
    x : dask array
        Chunks of any kind. Chunks that are on workers already stay there.
    client : distributed.Client, default=None
        None is the current client.

    Returns
    -------
    x : dask array
        The same array; its chunks are computed, or being computed.

    Raises
    ------
    TypeError
        If `x` is not a dask array.
    gpuml_dask.errors.ClusterError
        If there is no client, or it has no workers.

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from gpuml_dask.io import persist
    >>> with Client(processes=False, dashboard_address=":0") as client:
    ...     x = persist(da.ones((8, 2), chunks=(2, 2)))
    ...     float(x.sum().compute())
    16.0
    """
    if not isinstance(x, da.Array):
        raise TypeError(f"x must be a dask array, got {type(x).__name__}.")
    with the_client(client) as there:
        return persisted(there, x, facts_of(there))


def persisted(client: Client, x: da.Array, facts: Mapping[str, Mapping[str, Any]]) -> da.Array:
    """The same array with chunks that workers compute, spread evenly; `facts` describe workers."""
    (x,) = map(lowered, dask.optimize(x))
    kinds = kinds_among(facts)
    kind: Kind = "gpu" if is_on_gpu(x) else "cpu"
    workers, demand = in_order(kinds.workers(kind), facts), kinds.demand(kind)
    if not workers or not x.ndim:
        return client.persist(x, optimize_graph=False)
    axis = 1 if x.ndim == 2 and x.shape[0] < x.shape[1] else 0
    sizes = np.nan_to_num(np.asarray(x.chunks[axis], dtype=np.float64), nan=1.0)
    owners = balance(sizes, len(workers))
    keys = list(flatten(x.__dask_keys__()))
    homes = {key: workers[owners[key[1 + axis]]] for key in keys}
    made = submit_near(client, x.dask, homes, resources=demand)
    return array_of(x.name, dict(zip(keys, made, strict=True)), x.chunks, meta_of(x))


# ---------------------------------------------------------------- reading


class _Reader:
    """An array in Zarr, in the form in which a task reads it."""

    def __init__(self, stored: Any, on_gpu: bool, buffers: Mapping[str, str]):
        self._stored, self._on_gpu, self._buffers = stored, on_gpu, buffers
        self.shape, self.dtype, self.ndim = stored.shape, stored.dtype, stored.ndim

    def __getitem__(self, key: Any) -> Any:
        if not self._on_gpu:
            return self._stored[key]
        with _zarr().config.set(self._buffers):
            block = self._stored[key]
        return upload(np.ascontiguousarray(block)) if isinstance(block, np.ndarray) else block

    def __dask_tokenize__(self):
        return (tokenize(self._stored), self._on_gpu)


def _zarr() -> Any:
    try:
        import zarr
    except ImportError as error:
        raise ImportError(
            "from_zarr needs the package zarr (3 or later): pip install zarr."
        ) from error
    return zarr


def _opened(url, component, storage_options):
    zarr = _zarr()
    if isinstance(url, zarr.Array):
        if component is not None:
            raise ValueError("component is for groups; an array was passed.")
        return url
    if isinstance(url, os.PathLike):
        url = os.fspath(url)
    options = {"storage_options": dict(storage_options)} if storage_options else {}
    found = zarr.open(store=url, path=component, mode="r", **options)
    if not isinstance(found, zarr.Array):
        names = sorted(found.array_keys())
        raise ValueError(f"{url!r} is a group. Pass component=, one of {names}.")
    return found


def _usual_chunks(stored) -> tuple[int, ...]:
    """Whole chunks of Zarr up to Dask's usual bytes, along the shorter side of a matrix first."""
    unit = getattr(stored, "shards", None) or stored.chunks
    sizes = [min(size, length) for size, length in zip(unit, stored.shape, strict=True)]
    room = parse_bytes(dask.config.get(CHUNK_SIZE, "128MiB"))
    axes = list(range(stored.ndim))[::-1]
    if stored.ndim == 2 and stored.shape[0] < stored.shape[1]:
        axes = [0, 1]
    for axis in axes:
        n_bytes = max(1, int(np.prod(sizes)) * stored.dtype.itemsize)
        wanted = sizes[axis] * max(1, room // n_bytes)
        sizes[axis] = min(wanted, stored.shape[axis])
    return tuple(sizes)


def has_gpu_here(setting: str = "auto") -> bool:
    """Whether this process would use a GPU under gpuml's setting ``device``."""
    return not compute_place(np.empty(0), MUCH_WORK, setting).is_host


def _reads_to_gpu(client) -> bool:
    setting = get_config()["device"]
    if setting == "cpu":
        return False
    client = current_client() if client is None else client
    if client is None:
        return has_gpu_here(setting)
    with the_client(client) as there:
        facts = facts_of(there)
    with_gpu = any(map(has_gpu, facts.values()))
    if setting == "cuda" and not with_gpu:
        raise RuntimeError(
            "device='cuda' needs workers with the resource GPU, but none declares it. "
            "gpuml_dask.local_client() starts workers that do; or gpuml.set_config(device='auto')."
        )
    return with_gpu

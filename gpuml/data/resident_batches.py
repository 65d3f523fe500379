"""Batches of rows in memory, on the device that the settings select."""

from dataclasses import replace

from gpuml._arrays import Array, compute_place, fits, move, nbytes, place_of
from gpuml._arrays.device_copies import device_copies
from gpuml._arrays.labels import Encoded
from gpuml.data.batch import Batch


def resident(
    X: Array, y: Array, weight: Array | None, setting: str, work_bytes: int | None = None
) -> Batch:
    """A batch at the place where the settings want it worked on, moved there if it fits.

    Parameters
    ----------
    X, y, weight : arrays (n, p), (n,) or (n, t), (n,) or None
        Of one library and device.
    setting : {"auto", "cpu", "cuda"}
        The configured device for host data.
    work_bytes : int, optional
        Bytes that the job reads; those of X if not given.

    Notes
    -----
    What was brought there for an earlier fit may serve again (see `_device_copies`), so nobody
    writes to a batch.
    """
    home = place_of(X)
    work = compute_place(X, nbytes(X) if work_bytes is None else work_bytes, setting)
    y_is_flat = y.ndim == 1
    y = y[:, None] if y_is_flat else y
    if work != home:
        size = sum(nbytes(a) for a in (X, y, weight) if a is not None)
        # Copies of earlier rows are dropped to make room.
        if fits(size, work) or (device_copies.drop(work) and fits(size, work)):
            X, y, weight = (device_copies.moved(a, work) for a in (X, y, weight))
    return Batch(X, y, weight, work, home, y_is_flat)


def resident_rows(X: Array, setting: str) -> Batch:
    """A batch of rows without targets: as `resident`, with y of shape (n, 0)."""
    place = place_of(X)
    no_targets = place.xp.zeros((X.shape[0], 0), dtype=X.dtype, device=place.device)
    return resident(X, no_targets, None, setting)


def resident_classes(X: Array, labels: Encoded, weight: Array | None, setting: str) -> Batch:
    """A batch with classes: as `resident`, with the codes of labels (n,) as y."""
    codes = move(labels.codes, place_of(X))
    batch = resident(X, codes, weight, setting)
    at_work = move(batch.y[:, 0], batch.work)
    return replace(batch, codes=at_work, classes=labels.classes)

"""Blocks that are stretches of a file: read past CPU memory, where a machine can do that."""

from functools import cache
from typing import Any, NamedTuple

import numpy as np


class Stretch(NamedTuple):
    """Bytes of a file that are all of an array, in order."""

    path: str
    offset: int
    n_bytes: int


def stretch_of(x: Any) -> Stretch | None:
    """Where the elements of a memory map, or of a part of one, are; None for other arrays.

    Examples
    --------
    >>> import numpy as np
    >>> from gpuml.reading.files import stretch_of
    >>> stretch_of(np.ones(3)) is None
    True
    """
    if not isinstance(x, np.ndarray) or not x.flags.c_contiguous:
        return None
    root = _root(x)
    if root is None or getattr(root, "filename", None) is None:
        return None
    first = x.__array_interface__["data"][0] - root.__array_interface__["data"][0]
    return Stretch(str(root.filename), int(root.offset) + first, x.nbytes)


def _root(x):
    """The memory map that an array is a part of: the one whose base is no array."""
    found = None
    while isinstance(x, np.ndarray):
        if isinstance(x, np.memmap):
            found = x
        x = x.base
    return found


@cache
def has_direct_reads() -> bool:
    """Whether files go to the GPU by GPUDirect storage, without a copy in CPU memory."""
    try:
        import kvikio

        return bool(kvikio.DriverProperties().is_gds_available)
    except Exception:  # not installed, no driver, or one that is too old: then by CPU memory
        return False


def read_directly(stretch: Stretch, buffer: Any) -> None:
    """Read a stretch of a file into bytes of the current device.

    Raises
    ------
    OSError
        If the file ends before.
    """
    import kvikio

    with kvikio.CuFile(stretch.path, "r") as file:
        n_read = file.read(buffer, stretch.n_bytes, stretch.offset)
    if n_read != stretch.n_bytes:
        raise OSError(
            f"{stretch.path} ended after {n_read} of {stretch.n_bytes} bytes at {stretch.offset}."
        )

"""What gpuml_dask takes of Dask that is private: the only module that does."""

from typing import Any


def meta_of(x: Any) -> Any:
    """The empty array or DataFrame that chunks of a collection are like; x itself if it has none.

    Dask's own functions take arrays only (`dask.array.utils.meta_from_array`) or DataFrames only
    (`make_meta`), and give another array than the one that tells how codes are packed.
    """
    return getattr(x, "_meta", x)

"""Arrays of any library, in a form that scikit-learn's functions read."""

from typing import Any

from gpuml._arrays import as_array, is_foreign, to_host
from gpuml._arrays.gathered import gathered


def is_unreadable(x: Any) -> bool:
    """Whether NumPy, and so scikit-learn, can't be trusted to read `x`."""
    x = x[0] if isinstance(x, list) and x else x  # classes of several targets are a list of arrays
    return hasattr(x, "__cuda_array_interface__") or is_foreign(x)


def on_host(x: Any) -> Any:
    """`x` in CPU memory; an array that is there does not change."""
    x = gathered(x)
    if isinstance(x, list) and x and is_unreadable(x[0]):
        return [on_host(item) for item in x]
    if hasattr(x, "to_cupy"):
        return x.to_pandas()  # cuDF: labels may be strings, which no array on a device holds
    return to_host(as_array(x)) if is_unreadable(x) else x

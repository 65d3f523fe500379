"""Whatever lives elsewhere, as what scikit-learn's functions on the host can read."""

from typing import Any

from gpuml._arrays import as_array, is_array, is_numpy, to_host
from gpuml._gathered import gathered


def is_foreign(x: Any) -> bool:
    """Whether NumPy, and so scikit-learn, can't be trusted to read `x`."""
    items = x if isinstance(x, list) and x else [x]
    x = items[0]  # classes of several targets are a list of arrays
    return hasattr(x, "__cuda_array_interface__") or (is_array(x) and not is_numpy(x))


def on_host(x: Any) -> Any:
    """`x` in host memory; what is there already comes back as it is."""
    x = gathered(x)
    if isinstance(x, list) and x and is_foreign(x[0]):
        return [on_host(item) for item in x]
    if hasattr(x, "to_cupy"):
        return x.to_pandas()  # cuDF: labels may be strings, which no array on a device holds
    return to_host(as_array(x)) if is_foreign(x) else x

"""Columns of arrays and of cuDF on a device, as numbers or codes there."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np

from gpuml._arrays import Array, namespace, to_host
from gpuml._arrays.frames import DeviceFrame
from gpuml._arrays.ops import all_true, any_true

KINDS = {"bool": "b", "signed integer": "i", "unsigned integer": "u", "real floating": "f"}


class DeviceColumn:
    """A column of an array that is not NumPy's.

    Attributes
    ----------
    values : array (n,)
    dtype : namespace with the kind of its dtype, as NumPy's have it
    """

    def __init__(self, X: Array, j: int):
        xp = namespace(X)
        self.values = X[:, j]
        kind = next((k for name, k in KINDS.items() if xp.isdtype(X.dtype, name)), "O")
        self.dtype = SimpleNamespace(kind=kind)

    def numbers(self) -> Array:
        """The values (n,) as float64.

        Raises
        ------
        ValueError
            If one of them is infinite.
        """
        xp = namespace(self.values)
        values = xp.astype(self.values, xp.float64)
        if any_true(xp.isinf(values), xp):
            raise ValueError("a column holds infinity")
        return values

    def levels(self) -> tuple[Array, np.ndarray]:
        """Codes (n,) of the values, there, and the sorted levels in CPU memory, nan last."""
        xp, values = namespace(self.values), self.values
        if self.dtype.kind == "b":
            values = xp.astype(values, xp.int8)
        if self.dtype.kind != "f":
            found = xp.unique_inverse(xp.asarray(values, copy=True))
            levels = to_host(found.values)
            return found.inverse_indices, levels.astype(bool) if self.dtype.kind == "b" else levels
        missing = xp.isnan(values)
        if not any_true(missing, xp):
            found = xp.unique_inverse(xp.asarray(values, copy=True))
            return found.inverse_indices, to_host(found.values)
        if all_true(missing, xp):
            return xp.zeros_like(values, dtype=xp.int64), np.asarray([np.nan])
        # Libraries count each nan as another value; the smallest one is a level in any case.
        least = xp.min(xp.where(missing, xp.full_like(values, float("inf")), values))
        found = xp.unique_inverse(xp.where(missing, least, values))
        levels = to_host(found.values)
        codes = found.inverse_indices
        codes = xp.where(missing, xp.full_like(codes, len(levels)), codes)
        return codes, np.append(levels, np.nan)

    def n_levels(self) -> int:
        """How many values it has, nan among them."""
        return len(self.levels()[1])


@dataclass(frozen=True)
class NamesThere:
    """A column of strings or categories of cuDF."""

    frame: DeviceFrame
    j: int

    def codes(self) -> tuple[Array, np.ndarray]:
        """Codes (n,) of its names, there, -1 for null, and the names in the order of the codes."""
        return self.frame.codes(self.j)

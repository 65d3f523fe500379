"""Values in terms that every machine has, and back: what is saved of arrays on devices.

Arrays that NumPy cannot read become `Stored` ones: their values in NumPy, and the library that they
were of. They are given back to that library where it is installed and may be used, and stay NumPy's
elsewhere.
"""

import copy
import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from typing import Any

import numpy as np

from gpuml._arrays import (
    Place,
    aligned,
    gpu_place,
    has_gpu,
    is_cupyx_sparse,
    is_foreign,
    move,
    place_of,
    to_host,
)
from gpuml._settings.config import DEVICES, current_settings

_loading: ContextVar[str | None] = ContextVar("gpuml_loading", default=None)


@dataclass(frozen=True, eq=False)
class Stored:
    """An array as it travels.

    Attributes
    ----------
    values : ndarray or scipy sparse matrix
    library : str
        "cupy", "cupyx", "torch" or "array_api_strict".
    device : str
        "cpu", "cuda", or what the library calls its device.
    dtype : str
        The library's name of it, as NumPy may not have it.
    """

    values: Any
    library: str
    device: str
    dtype: str


@dataclass(frozen=True)
class Member:
    """A member of an enumeration by its name: skops would keep its number only."""

    kind: type[Enum]
    name: str


@contextmanager
def loading_to(device: str | None) -> Iterator[None]:
    """Inside the block, models are loaded to a device; None leaves it to the settings."""
    if device is not None and device not in DEVICES:
        raise ValueError(f"device must be None or one of {DEVICES}, got {device!r}.")
    token = _loading.set(device)
    try:
        yield
    finally:
        _loading.reset(token)


def loading_device() -> str:
    """Where models are loaded to: "auto", "cpu" or "cuda"."""
    return _loading.get() or current_settings().device


def must_load_to_gpu() -> bool:
    """Whether the caller of `load` explicitly requires a GPU."""
    return _loading.get() == "cuda"


# ---------------------------------------------------------------- there and back


def packed(state: Any) -> Any:
    """A state that loads everywhere; what does so anyway stays the same objects."""
    return mapped(state, _pack)


def unpacked(state: Any) -> Any:
    """A packed state with arrays in their libraries, if these are installed and allowed.

    NumPy's are `aligned`: a model that came over a network predicts as it did.
    """
    return mapped(state, _unpack)


def _pack(x):
    if is_foreign(x):
        place, dtype = place_of(x), _name_of(x.dtype)
        values = to_host(x.float() if dtype == "bfloat16" else x)
        return Stored(values, place.kind, _device_name(place), dtype)
    if is_cupyx_sparse(x):
        return Stored(x.get(), "cupyx", "cuda", _name_of(x.dtype))
    if isinstance(x, Enum) and type(x).__module__.startswith("gpuml."):
        return Member(type(x), x.name)
    return x


def _name_of(dtype):
    return str(dtype).rpartition(".")[2]


def _device_name(place: Place) -> str:
    if place.kind == "array_api_strict":
        return str(place.device).split("'")[1]  # of "array_api_strict.Device('device1')"
    return "cpu" if place.is_host else "cuda"


def _unpack(x):
    if isinstance(x, Member):
        return x.kind[x.name]
    if not isinstance(x, Stored):
        return aligned(x)
    place = _place_for(x)
    if must_load_to_gpu() and x.device == "cuda" and (place is None or place.is_host):
        raise RuntimeError(
            f"device='cuda' needs a GPU, but {x.library} is not installed here or sees no GPU, "
            "and arrays of this model were made by it. Use device='auto' or 'cpu'."
        )
    return as_on_host(x.values) if place is None else _brought(x, place)


def as_on_host(values: Any) -> Any:
    """Values as a fit on the CPU would have left them: arrays without an axis are numbers."""
    is_number = isinstance(values, np.ndarray) and values.ndim == 0
    return values[()] if is_number else values


def _place_for(stored: Stored) -> Place | None:
    """Where an array of its library goes here; None for NumPy."""
    on_device = loading_device() != "cpu"
    if stored.library in ("cupy", "cupyx"):
        return gpu_place() if on_device and has_gpu() else None
    if stored.library not in ("torch", "array_api_strict"):
        return None  # nothing else is imported because a file says so
    try:
        library = importlib.import_module(stored.library)
    except ImportError:
        return None
    if stored.library == "torch":
        on_gpu = on_device and stored.device == "cuda" and library.cuda.is_available()
        return place_of(library.empty(0, device="cuda" if on_gpu else "cpu"))
    if stored.device != "CPU_DEVICE" and not on_device:
        return None
    return place_of(library.empty(0, device=library.Device(stored.device)))


def _brought(stored: Stored, place: Place) -> Any:
    if stored.library == "cupyx":
        import cupyx.scipy.sparse

        return getattr(cupyx.scipy.sparse, f"{stored.values.format}_matrix")(stored.values)
    values = stored.values
    if not values.flags.writeable:
        values = values.copy()  # of a mapped file, say; torch warns of such memory
    x = move(values, place)
    dtype = getattr(place.xp, stored.dtype)
    return x if x.dtype == dtype else place.xp.astype(x, dtype)


# ---------------------------------------------------------------- walking


def mapped(value: Any, leaf: Callable[[Any], Any]) -> Any:
    """A value with `leaf` applied to everything in it.

    Dicts, lists, tuples, dataclasses and arrays of objects are walked through; estimators are not,
    as they have states of their own. What nothing changes in stays the same object, so that what
    was shared before is shared after.

    Parameters
    ----------
    value : object
    leaf : callable
        Gives its argument, or what stands for it.
    """
    return Walk(leaf).of(value)


class Walk:
    """One walk of `mapped`: each part is looked at once, however often it is referred to."""

    def __init__(self, leaf: Callable[[Any], Any]):
        self._leaf = leaf
        # Parts are kept, so that their ids stay theirs.
        self._known: dict[int, tuple[Any, Any]] = {}

    def of(self, value: Any) -> Any:
        """What becomes of a value."""
        if isinstance(value, str | int | float | None) and not isinstance(value, Enum):
            return value
        if id(value) not in self._known:
            self._known[id(value)] = value, value  # for values that hold themselves
            self._known[id(value)] = value, self._of_new(value)
        return self._known[id(value)][1]

    def _of_new(self, value):
        out = self._leaf(value)
        if out is not value:
            return out
        if isinstance(value, dict):
            return self._changed(value, value.items(), _with_items)
        if isinstance(value, list | tuple):
            return self._changed(value, enumerate(value), _with_elements)
        if isinstance(value, np.ndarray) and value.dtype == object:
            return self._changed(value, np.ndenumerate(np.asarray(value)), _with_entries)
        if is_dataclass(value) and not isinstance(value, type) and not hasattr(value, "get_params"):
            named = ((field.name, getattr(value, field.name)) for field in fields(value))
            return self._changed(value, named, _with_fields)
        return value

    def _changed(self, value, parts, rebuilt):
        changes = {}
        for key, part in parts:
            new = self.of(part)
            if new is not part:
                changes[key] = new
        return rebuilt(value, changes) if changes else value


def _with_items(value, changes):
    out = copy.copy(value)
    out.update(changes)
    return out


def _with_elements(value, changes):
    elements = [changes.get(i, element) for i, element in enumerate(value)]
    if isinstance(value, list):
        out = copy.copy(value)
        out[:] = elements
        return out
    return value._make(elements) if hasattr(value, "_make") else type(value)(elements)


def _with_entries(value, changes):
    out = value.copy()
    plain = out.data if isinstance(out, np.ma.MaskedArray) else out
    for index, entry in changes.items():
        plain[index] = entry
    return out


def _with_fields(value, changes):
    out = copy.copy(value)
    for name, new in changes.items():
        object.__setattr__(out, name, new)  # frozen ones too
    return out

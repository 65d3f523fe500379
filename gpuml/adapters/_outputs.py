"""Results in kind: in the library, on the device and in the floating dtype of the rows."""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from gpuml._arrays import (
    HOST,
    Place,
    is_array,
    is_cupyx_sparse,
    is_numpy,
    move,
    namespace,
    place_of,
    to_host,
)
from gpuml._sklearn import _get_output_config
from gpuml.adapters._place import home_of

# Letters of NumPy, which are at hand, of dtypes whose names it makes up each time.
FLOATS = {"f": "float32", "d": "float64"}


class Kind(NamedTuple):
    """What results are to be like.

    Attributes
    ----------
    place : Place
    floats : str or None
        Name of the floating dtype; None leaves each as it is.
    """

    place: Place
    floats: str | None


def kind_of(X: Any) -> Kind:
    """The kind of checked rows; other input counts as NumPy's, with its dtypes."""
    dtype = getattr(X, "dtype", None)
    if isinstance(dtype, np.dtype):
        return Kind(home_of(X), FLOATS.get(dtype.char))
    name = str(dtype).rpartition(".")[2]
    return Kind(home_of(X), name if name in FLOATS.values() else None)


def in_kind(value: Any, kind: Kind, dtype: str | None = None) -> Any:
    """A result, or a list, tuple or dict of results, in kind.

    Parameters
    ----------
    value : object
        Arrays of numbers and sparse matrices are brought there; all else comes back as it is.
    kind : Kind
    dtype : str or None
        Name of a dtype for integers; or of one for floats, in place of that of `kind`.
    """
    if isinstance(value, list | tuple):
        items = [in_kind(item, kind, dtype) for item in value]
        changed = any(new is not old for new, old in zip(items, value, strict=True))
        return type(value)(items) if changed and type(value) in (list, tuple) else value
    if sparse.issparse(value) or is_cupyx_sparse(value):
        return _sparse_in_kind(value, kind, dtype)
    if not is_array(value) or value.ndim == 0:
        return value
    if isinstance(value, np.ndarray) and value.dtype.kind not in "fiub":
        return value
    return _as(move(value, kind.place), kind, dtype)


def _as(x, kind, dtype):
    xp = namespace(x)
    name = None
    if xp.isdtype(x.dtype, "real floating"):
        name = _floats(kind, dtype)
    elif xp.isdtype(x.dtype, "integral") and not _is_floating(dtype):
        name = dtype
    return x if name is None else xp.astype(x, getattr(xp, name), copy=False)


def _floats(kind, dtype):
    return dtype if _is_floating(dtype) else kind.floats


def _is_floating(dtype):
    return dtype is not None and dtype.startswith("float")


def _sparse_in_kind(value, kind, dtype):
    floats = _floats(kind, dtype)
    if floats is not None and value.dtype.kind == "f" and value.dtype != floats:
        value = value.astype(floats)
    if is_cupyx_sparse(value):
        return value if kind.place.kind == "cupy" else value.get()
    if kind.place.kind != "cupy":
        return value
    import cupyx.scipy.sparse

    # Which has no integers: of paths through trees, say.
    return cupyx.scipy.sparse.csr_matrix(value.astype(float) if value.dtype.kind in "iu" else value)


def labels_in_kind(codes: Any, classes: Any, kind: Kind) -> Any:
    """``classes[codes]`` where the rows are; strings are NumPy's wherever the rows are."""
    if is_numpy(classes) and classes.dtype.kind not in "fiub":
        return classes[to_host(codes).astype(np.int64)]
    xp = namespace(codes)
    classes = move(classes, place_of(codes))
    return move(xp.take(classes, xp.astype(codes, xp.int64, copy=False), axis=0), kind.place)


def kind_for(estimator: Any, method: str, kind: Kind) -> Kind:
    """CPU memory, if a transformer's result becomes a DataFrame."""
    if method not in ("transform", "fit_transform") or kind.place.is_host:
        return kind
    asked = _get_output_config("transform", estimator)["dense"]
    return kind if asked == "default" else Kind(HOST, kind.floats)

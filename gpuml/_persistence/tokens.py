"""Tokens: short names of objects, equal in every process exactly if the objects are equal.

dask's `tokenize` and `joblib.hash` are not used: the first depends on which hash libraries are
installed and on which equal strings a process happens to share, the second on the memory layout
of arrays, and on whether an estimator has been fitted.
"""

import hashlib
import types
from collections.abc import Mapping, Set
from functools import partial
from typing import Any

import numpy as np

from gpuml._arrays import to_host

BLOCK_BYTES = 16 << 20
# Drawing from it changes it; a token only says that it is used.
_GLOBAL_STATE = np.random.mtrand._rand


def token_of(obj: Any) -> str:
    """A token of parameters, estimators, splitters, scorers, arrays or DataFrames.

    Equal values have equal tokens, 64 hexadecimal digits, in every process: arrays by kind, dtype,
    shape and content, whatever their layout in memory; estimators by class and parameters, fitted
    or not; functions by name and code, but not by the functions that they call; other objects by
    what pickle would keep of them. Rows on a device are read block by block. For rows that are
    divided over workers, take the token of the list of their pieces' tokens. A TypeError is raised
    for an object whose content nothing tells.

    >>> from sklearn.linear_model import Ridge
    >>> token_of(Ridge(alpha=2.0)) == token_of(Ridge(alpha=2.0).fit([[0.0], [1.0]], [0, 1]))
    True
    >>> token_of(np.ones(3)) == token_of(np.ones(3, dtype=np.float32))
    False
    """
    return _Walk().digest(obj).hex()


class _Walk:
    """One traversal of an object; each part is read once, however often it occurs."""

    def __init__(self):
        self._known: dict[int, tuple[Any, bytes]] = {}  # objects are kept alive, so ids stay unique
        self._open: dict[int, None] = {}  # in order of entry

    def digest(self, obj: Any) -> bytes:
        """SHA-256 of the kind of an object and of its parts."""
        simple = _simple(obj)
        if simple is not None:
            return _hash(*simple)
        if id(obj) in self._known:
            return self._known[id(obj)][1]
        if id(obj) in self._open:  # it contains itself: say how far up
            distance = len(self._open) - list(self._open).index(id(obj))
            return _hash(b"back", str(distance).encode())
        self._open[id(obj)] = None
        out = _hash(*self._parts(obj))
        del self._open[id(obj)]
        self._known[id(obj)] = (obj, out)
        return out

    def _parts(self, obj):
        """A word for the kind of an object, and digests of its parts."""
        kind = _name(type(obj)).encode()
        if isinstance(obj, list | tuple):
            return b"sequence", kind, *map(self.digest, obj)
        if isinstance(obj, Mapping):
            pairs = sorted((self.digest(k), self.digest(v)) for k, v in obj.items())
            return b"mapping", kind, *(part for pair in pairs for part in pair)
        if isinstance(obj, Set):
            return b"set", kind, *sorted(map(self.digest, obj))
        if isinstance(obj, np.ndarray):
            return self._of_numpy(obj)
        if hasattr(obj, "to_numpy") and hasattr(obj, "shape"):
            return self._tagged("frame", kind, *_frame_parts(obj))
        if hasattr(obj, "tocsr"):
            rows = obj.tocsr()
            return self._tagged("sparse", kind, rows.shape, rows.data, rows.indices, rows.indptr)
        if hasattr(obj, "__dlpack__") and hasattr(obj, "shape"):
            return b"array", kind, *_array_parts(obj)
        if hasattr(obj, "get_params") and not isinstance(obj, type):
            routing = repr(getattr(obj, "_metadata_request", None))
            return self._tagged("estimator", kind, obj.get_params(deep=False), routing)
        return self._other(obj, kind)

    def _of_numpy(self, x):
        if isinstance(x, np.ma.MaskedArray):
            return self._tagged("masked", b"", np.asarray(x.data), np.ma.getmaskarray(x))
        if x.dtype.hasobject:
            shape, values = repr(x.shape).encode(), x.ravel().tolist()
            if set(map(type, values)) == {str}:
                # Columns of text are long, and hashing each text would take too long.
                lengths = np.asarray([*map(len, values)], dtype=np.int64)
                return self._tagged("texts", shape, lengths, "".join(values))
            return b"objects", shape, *map(self.digest, values)
        # A memory map counts as an array.
        return b"array", b"numpy.ndarray", *_array_parts(x)

    def _other(self, obj, kind):
        if hasattr(obj, "dist") and hasattr(obj, "args") and hasattr(obj, "kwds"):
            # A distribution of SciPy; its other attributes are caches, and NumPy's global state.
            return self._tagged("distribution", kind, type(obj.dist), obj.args, obj.kwds)
        if isinstance(obj, types.FunctionType):
            cells = [cell.cell_contents for cell in obj.__closure__ or ()]
            defaults = (obj.__defaults__, obj.__kwdefaults__)
            return self._tagged("function", _name(obj).encode(), obj.__code__, *defaults, cells)
        if isinstance(obj, types.CodeType):
            return self._tagged("code", obj.co_code, obj.co_consts, obj.co_names)
        if isinstance(obj, types.MethodType):
            return self._tagged("method", kind, obj.__func__, obj.__self__)
        if isinstance(obj, partial):
            return self._tagged("partial", kind, obj.func, obj.args, obj.keywords)
        if hasattr(obj, "__dask_graph__"):
            raise TypeError(
                f"A {_name(type(obj))} has no token before it is computed: take token_of of each "
                "of its pieces where they are, and of the list of those."
            )
        return self._reduced(obj, kind)

    def _reduced(self, obj, kind):
        """What pickle would store of an object."""
        try:
            reduced = obj.__reduce_ex__(4)
        except (TypeError, AttributeError) as error:
            raise TypeError(f"A {_name(type(obj))} has no token: {error}.") from error
        if isinstance(reduced, str):
            return self._tagged("global", kind, _name(obj), reduced)
        # Items of subclasses of list and dict come as iterators.
        items = [None if part is None else list(part) for part in reduced[3:5]]
        return self._tagged("object", kind, *reduced[:3], *items)

    def _tagged(self, word, kind, *parts):
        return word.encode(), kind, *map(self.digest, parts)


def _simple(obj):
    """Kind and content of an object without parts; None for others."""
    if type(obj) in (type(None), type(Ellipsis), bool, int):
        return type(obj).__name__.encode(), repr(obj).encode()
    if type(obj) is float:
        return b"float", np.float64(obj).tobytes()
    if type(obj) is complex:
        return b"complex", np.complex128(obj).tobytes()
    if type(obj) is str:
        return b"str", obj.encode("utf-8", "surrogatepass")
    if type(obj) in (bytes, bytearray):
        return type(obj).__name__.encode(), bytes(obj)
    if isinstance(obj, np.generic) and not obj.dtype.hasobject:
        return b"scalar", obj.dtype.str.encode(), obj.tobytes()
    if isinstance(obj, np.dtype):
        return b"dtype", repr(obj).encode()
    if obj is _GLOBAL_STATE:
        return b"global", b"numpy.random"
    if isinstance(obj, type | types.BuiltinFunctionType | np.ufunc) and not _bound(obj):
        return b"global", _name(obj).encode()
    return None


def _bound(obj):
    """Whether a built-in function is a bound method."""
    owner = getattr(obj, "__self__", None)
    return not isinstance(obj, type) and not (owner is None or isinstance(owner, types.ModuleType))


def _array_parts(x):
    """Dtype, shape, and digests of blocks of rows, in C order and in CPU memory."""
    yield str(x.dtype).encode()
    yield repr(tuple(x.shape)).encode()
    if x.ndim == 0:
        yield np.ascontiguousarray(_to_host(x)).tobytes()
        return
    n_rows = x.shape[0]
    size = int(np.prod(x.shape[1:])) * getattr(x.dtype, "itemsize", 8)
    step = max(1, BLOCK_BYTES // max(size, 1))
    for start in range(0, n_rows, step):
        block = np.ascontiguousarray(_to_host(x[start : min(start + step, n_rows), ...]))
        yield _hash(block.view(np.uint8).data if block.size else b"")


def _to_host(x):
    return x if isinstance(x, np.ndarray) else to_host(x)


def _frame_parts(frame):
    """Name, type and values of each column; an index counts as a column."""
    names = list(getattr(frame, "columns", ()))
    columns = [frame[name] for name in names] if names else [frame]
    index = getattr(frame, "index", None)
    for column in columns if index is None else [*columns, index]:
        yield getattr(column, "name", None)
        yield str(column.dtype)
        yield _to_host(column.to_numpy())


def _name(obj):
    name = getattr(obj, "__qualname__", None) or getattr(obj, "__name__", repr(obj))
    return f"{getattr(obj, '__module__', '')}.{name}"


def _hash(*parts):
    """SHA-256 of parts and their lengths, so that no two lists of parts have the same bytes."""
    out = hashlib.sha256()
    for part in parts:
        out.update(len(part).to_bytes(8, "little"))
        out.update(part)
    return out.digest()

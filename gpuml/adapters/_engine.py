"""Models of other libraries, such as cuML: creation, fits, calls."""

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from importlib import import_module
from typing import Any

from gpuml._arrays import Place, synchronize
from gpuml._cuml import import_cuml
from gpuml.adapters._cuml_memory import pooled_memory
from gpuml.adapters._inputs import moved, to_engine
from gpuml.adapters._place import home_of
from gpuml.adapters._row import Data, Row, UnsupportedHere


class CumlRefuses(UnsupportedHere):
    """cuML's own words for what it does not do."""

    @property
    def clause(self) -> str:
        return f"cuML says: {str(self).rstrip('.')}"


class Engine:
    """A cuML model, fitted or not, and its GPU.

    What another library does otherwise is in `session`, `brought` and `_run`.

    Parameters
    ----------
    row : Row
    model : estimator of the library
    place : Place
        CuPy on a device.
    """

    def __init__(self, row: Row, model: Any, place: Place):
        self.row, self.model, self.place = row, model, place

    def __deepcopy__(self, memo):
        return self  # never written to after its fit

    @staticmethod
    def session(row: Row) -> AbstractContextManager[None]:
        """Whatever holds while the library works; its refusals are raised as `UnsupportedHere`."""
        return _in_cuml(row)

    @classmethod
    def made(cls, row: Row, twin: Any, changes: Mapping[str, Any], place: Place) -> "Engine":
        """Unfitted, with the parameters of an unfitted twin.

        Raises
        ------
        UnsupportedHere
            If cuML refuses them.
        """
        with cls.session(row):
            return cls(row, row.convert.make(_class(row, twin), twin, changes), place)

    @classmethod
    def lifted(cls, row: Row, twin: Any, place: Place) -> "Engine":
        """Fitted, of a fitted twin whose classes are 0..k-1.

        Raises
        ------
        UnsupportedHere
            If models of this kind, or this one, stay in CPU memory.
        """
        lift = row.convert.lift
        with cls.session(row):
            if lift is None:
                raise UnsupportedHere(f"way to take over a {row.name} fitted by scikit-learn")
            return cls(row, lift(_class(row, twin), twin, {}), place)

    @staticmethod
    def brought(row: Row, data: Data, place: Place) -> Data:
        """The data with X where the engine works, so that it goes there once."""
        X = _again_with_free_memory(lambda: to_engine(data.X, place), row.name, "fit")
        return replace(data, X=X)

    def fit(self, data: Data, method: str, params: Mapping[str, Any]) -> Any:
        """Fit the model; returns the result of cuML's `fit_transform`, else None."""
        name = method if method != "fit" and method in self.row.methods else "fit"
        arguments = dict(data.rest)
        if data.y is not None:
            arguments["y"] = data.y
        if data.weight is not None:
            arguments["sample_weight"] = data.weight
        result = self._run(name, data.X, arguments)
        with self.session(self.row):
            self.row.after_fit(self.model, params)
        return None if name == "fit" else result

    def call(self, method: str, X: Any, rest: Mapping[str, Any]) -> Any:
        """Call a method with checked rows from any place; X may be None if the method allows it.

        Raises
        ------
        ValueError
            scikit-learn's.
        UnsupportedHere
            If cuML does not do it with these rows.
        """
        arguments = {name: value for name, value in rest.items() if value is not None}
        with self.session(self.row):
            self.row.use_checks(self.model, method, X, arguments)
        return self._run(method, X, arguments)

    def attribute(self, name: str) -> Any:
        """A fitted attribute, in CuPy's memory if it is an array."""
        with self.session(self.row):
            return getattr(self.model, name)

    def lowered(self, twin: Any) -> Mapping[str, Any]:
        """Fitted attributes of scikit-learn's; the twin is unfitted.

        Raises
        ------
        UnsupportedHere
            If the model cannot be converted.
        """
        with self.session(self.row):
            return self.row.convert.lower(self.model, twin)

    def _run(self, method, X, arguments):
        def work():
            given = moved(arguments, self.place)
            rows = () if X is None else (to_engine(X, self.place),)
            # cuML queues work on its own stream: wait for others before it, and let others wait
            # after it.
            synchronize(home_of(X))
            synchronize(self.place)
            memory = pooled_memory() if self.row.pooled else nullcontext()
            with self.session(self.row), memory:
                result = getattr(self.model, method)(*rows, **given)
            _wait_for_device(self.place)
            return result

        return _again_with_free_memory(work, self.row.name, method)


def _class(row, twin):
    module, _, name = row.model.rpartition(".")
    return row.convert.derived(getattr(import_module(module), name), twin)


@contextmanager
def _in_cuml(row: Row) -> Iterator[None]:
    """CuPy arrays come from cuML whatever the process has set; its refusals become ours."""
    cuml = import_cuml()
    from cuml.internals.interop import UnsupportedOnCPU, UnsupportedOnGPU

    if row.noise is not None:
        ignore(row.noise)
    try:
        with cuml.using_output_type("cupy"):
            yield
    except (UnsupportedOnCPU, UnsupportedOnGPU) as error:
        raise CumlRefuses(str(error)) from error


def ignore(message: str) -> None:
    """Let no warning with this message through, in front of all other filters.

    For the whole process and for good, which threads can do to each other without harm; what
    `warnings.catch_warnings` puts back at its end is what another thread is using. Nor is an error
    of it that a user's filter makes any use: it is raised in a callback from C, where nobody can
    catch it.
    """
    first = warnings.filters[0] if warnings.filters else None
    # Only if needed: each change of filters makes Python forget which warnings it has shown.
    if first is None or getattr(first[1], "pattern", None) != message:
        warnings.filterwarnings("ignore", message, UserWarning)


def _wait_for_device(place):
    if place.kind == "cupy":
        import cupy

        cupy.cuda.Device(place.device.id).synchronize()


def _again_with_free_memory(work: Callable[[], Any], name: str, method: str) -> Any:
    """Out of memory, once more without what CuPy keeps for later; never somewhere else."""
    try:
        return work()
    except MemoryError:
        _free_pool()
    try:
        return work()
    except MemoryError as error:
        raise MemoryError(
            f"{name}.{method} does not fit into GPU memory. Use fewer rows, or "
            "gpuml.config_context(device='cpu') with rows in CPU memory."
        ) from error


def _free_pool():
    if "cupy" in sys.modules:
        sys.modules["cupy"].get_default_memory_pool().free_all_blocks()

"""Models of scikit-learn-intelex: they work on NumPy arrays, on a CPU.

Its classes are imported from their modules, and scikit-learn's names are left as they are: nothing
is patched. Each of its methods asks first whether oneDAL does it for these parameters and rows, and
else calls scikit-learn's without a word. The classes that are derived here raise instead, so that
the adapter knows who does the work.
"""

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from sklearn import config_context

from gpuml._arrays import HOST, Place, is_sparse
from gpuml._settings.config import current_settings
from gpuml.adapters._engine import Engine, ignore
from gpuml.adapters._inputs import moved, to_engine
from gpuml.adapters._row import Data, Row, UnsupportedHere

LIBRARY = "scikit-learn-intelex"
# Outside the main thread it works with all threads of its pool, as it does in it, and warns.
OF_THREADS = r"'Threading' parallel backend is not supported by Extension for scikit-learn"
# For less work in bytes, the overhead of a call exceeds what it saves.
WORTHWHILE_BYTES = 8 * 2**20


class IntelexRefuses(UnsupportedHere):
    """The library's own words for what oneDAL does not do."""

    @property
    def clause(self) -> str:
        return f"{LIBRARY} says: {str(self).rstrip('.')}"


def has_intelex() -> bool:
    """Whether scikit-learn-intelex is installed; it is imported at its first use."""
    return "sklearnex" in sys.modules or importlib.util.find_spec("sklearnex") is not None


def intelex_row(row: Row) -> Row | None:
    """The row of scikit-learn-intelex's class; None if there is none."""
    from gpuml.adapters._intelex_rows import ROWS

    return ROWS.get(row.sk)


def engine_at(place: Place) -> type[Engine]:
    """Whose models work at a place."""
    return IntelexEngine if place.is_host else Engine


def serves_rows_of_cpu(engine: Engine) -> bool:
    """Whether the settings let a fitted model work on rows in CPU memory."""
    settings = current_settings()
    if engine.place.is_host:
        return settings.cpu_engine != "sklearn"
    return settings.device != "cpu"


def wanted(row: Row, home: Place, work_bytes: Any) -> Row | None:
    """The row to fit rows in CPU memory by; None is scikit-learn.

    Parameters
    ----------
    row : Row
        Of cuML.
    home : Place
        Where the rows are.
    work_bytes : callable (row) -> float
        What a fit by a row reads; asked for only where it matters.

    Raises
    ------
    RuntimeError
        If the engine is asked for and is not installed.
    """
    setting = current_settings().cpu_engine
    if setting == "sklearn" or not home.is_host or home.kind == "array_api_strict":
        return None
    if setting == "auto" and not has_intelex():
        return None
    found = intelex_row(row)
    if found is None:
        return None
    if setting == "auto":
        return found if not found.asked and work_bytes(found) >= WORTHWHILE_BYTES else None
    if not has_intelex():
        raise RuntimeError(
            "cpu_engine='intelex' needs scikit-learn-intelex, which is not installed. "
            "Install gpuml[intel], or use gpuml.set_config(cpu_engine='auto')."
        )
    return found


def was_asked(place: Place) -> bool:
    """Whether the user selected the engine at a place, so that refusals are reported.

    ``cpu_engine="auto"`` asks for no library: the same CPU does the work either way, and `engine_`
    says by which.
    """
    return not (place.is_host and current_settings().cpu_engine == "auto")


class IntelexEngine(Engine):
    """A fitted model of scikit-learn-intelex, or one to be fitted."""

    @staticmethod
    def session(row: Row) -> AbstractContextManager[None]:
        """Its output is NumPy's whatever is set for scikit-learn."""
        return _in_intelex()

    @staticmethod
    def brought(row: Row, data: Data, place: Place) -> Data:
        """The data with X as oneDAL is to read it."""
        return replace(data, X=_read(row, data.X))

    def _run(self, method, X, arguments):
        rows = () if X is None else (_read(self.row, X),)
        with self.session(self.row):
            return getattr(self.model, method)(*rows, **moved(arguments, HOST))


def _read(row, X):
    X = to_engine(X, HOST)
    if row.floats is None or is_sparse(X):
        return X
    return X.astype(row.floats, copy=False)


@contextmanager
def _in_intelex() -> Iterator[None]:
    ignore(OF_THREADS)
    try:
        with config_context(transform_output="default", array_api_dispatch=False):
            yield
    except UnsupportedHere as error:
        error.library = LIBRARY
        raise


@cache
def frank(intelex_class: Any) -> Any:
    """A class whose methods raise `IntelexRefuses` where they would call scikit-learn's."""

    def supported(self, method_name, *data):
        status = intelex_class._onedal_cpu_supported(self, method_name, *data)
        if not status.get_status():
            raise IntelexRefuses("; ".join(status.messages))
        return status

    # Its methods look at the name of their class.
    members = {"_onedal_cpu_supported": supported, "__module__": __name__}
    return type(intelex_class.__name__, (intelex_class,), members)


@cache
def frank_tsne(intelex_class: Any) -> Any:
    """The same for t-SNE, which decides elsewhere, and calls the next base class."""
    from sklearn.manifold import TSNE

    class Refusing(TSNE):
        def _fit(self, X, skip_num_points=0):
            raise IntelexRefuses(
                "oneDAL has no t-SNE with these parameters; it has method='barnes_hut', "
                "n_components=2 and verbose=0"
            )

    return type("TSNE", (intelex_class, Refusing), {"__module__": __name__})


def make(derived: Any, twin: Any, changes: Any) -> Any:
    """Unfitted, with the parameters of a twin."""
    return derived(**{**twin.get_params(deep=False), **changes})


def lower(model: Any, twin: Any) -> dict[str, Any]:
    """Fitted attributes that scikit-learn's class has, too."""
    params = twin.get_params(deep=False)
    return {
        name: np.asarray(value) if isinstance(value, np.ndarray) else value
        for name, value in vars(model).items()
        if name not in params and name != "n_jobs" and "onedal" not in name
    }

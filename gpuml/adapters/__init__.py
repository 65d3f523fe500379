"""scikit-learn's estimators whose work cuML does on a GPU.

One table (`gpuml.adapters.rows`) drives all of them. Users import the classes from modules with
scikit-learn's names, such as `gpuml.cluster`.
"""

from gpuml.adapters._base import Adapter
from gpuml.adapters._build import build
from gpuml.adapters._conversion import Conversion
from gpuml.adapters._row import Data, Refusal, Row, only, unset, when, when_set

__all__ = [
    "Adapter",
    "Conversion",
    "Data",
    "Refusal",
    "Row",
    "all_rows",
    "build",
    "only",
    "unset",
    "when",
    "when_set",
]


def all_rows() -> dict[str, Row]:
    """Every row of the table, by the public path of its class.

    Returns
    -------
    rows : dict of str to Row

    Examples
    --------
    >>> from gpuml.adapters import all_rows
    >>> all_rows()["gpuml.cluster.KMeans"].cuml
    'cuml.cluster.KMeans'
    """
    from importlib import import_module

    from gpuml.adapters.rows import PUBLIC

    found = {}
    for module in PUBLIC:
        public = import_module(module)
        for name in public.__all__:
            row = getattr(getattr(public, name), "_row", None)
            if row is not None:
                found[f"{module}.{name}"] = row
    return found

"""scikit-learn estimators and searches that run where the data is: NumPy, CuPy or torch."""

from typing import TYPE_CHECKING

from gpuml._config import config_context, get_config, set_config
from gpuml._first_use import at_first_use

if TYPE_CHECKING:
    from gpuml._accelerate import accelerate
    from gpuml._diagnosis import doctor, show_versions
    from gpuml._twins import as_sklearn
    from gpuml.persistence import load, save, trusted_types

__version__ = "0.1.0.dev0"

__all__ = [
    "__version__",
    "accelerate",
    "as_sklearn",
    "config_context",
    "doctor",
    "get_config",
    "load",
    "save",
    "set_config",
    "show_versions",
    "trusted_types",
]

# `import gpuml` loads no scikit-learn.
_LATER = {
    "accelerate": "gpuml._accelerate",
    "as_sklearn": "gpuml._twins",
    "doctor": "gpuml._diagnosis",
    "load": "gpuml.persistence",
    "save": "gpuml.persistence",
    "show_versions": "gpuml._diagnosis",
    "trusted_types": "gpuml.persistence",
}
__getattr__, __dir__ = at_first_use(__name__, _LATER)

"""scikit-learn estimators and searches that run where the data is: NumPy, CuPy or torch."""

from typing import TYPE_CHECKING

from gpuml._settings.config import config_context, get_config, set_config
from gpuml._settings.first_use import at_first_use

if TYPE_CHECKING:
    from gpuml._accelerate import accelerate
    from gpuml._persistence.twins import as_sklearn
    from gpuml._settings.diagnosis import doctor, show_versions
    from gpuml.divided.files import read_array, read_csv, read_parquet
    from gpuml.persistence import load, save, trusted_types

__version__ = "0.2.0"

__all__ = [
    "__version__",
    "accelerate",
    "as_sklearn",
    "config_context",
    "doctor",
    "get_config",
    "load",
    "read_array",
    "read_csv",
    "read_parquet",
    "save",
    "set_config",
    "show_versions",
    "trusted_types",
]

# `import gpuml` loads no scikit-learn, and `gpuml.linear_model.Ridge` needs no other import.
_PACKAGES = (
    *("base", "calibration", "cluster", "compose", "covariance", "cross_decomposition"),
    *("datasets", "decomposition", "discriminant_analysis", "dummy"),
    *("ensemble", "exceptions", "extending", "feature_extraction", "feature_selection"),
    *("frozen", "gaussian_process", "impute"),
    *("inspection", "isotonic", "kernel_approximation", "kernel_ridge", "linalg", "linear_model"),
    *("losses", "manifold", "metrics", "mixture"),
    *("model_selection", "multiclass", "multioutput", "naive_bayes", "neighbors"),
    *("neural_network", "optuna", "penalties", "persistence", "pipeline", "preprocessing"),
    *("protocol", "random_projection", "semi_supervised", "svm", "testing", "tree"),
)
_LATER = {
    "accelerate": "gpuml._accelerate",
    "as_sklearn": "gpuml._persistence.twins",
    "doctor": "gpuml._settings.diagnosis",
    "load": "gpuml.persistence",
    "load_ipython_extension": "gpuml._accelerate.handle",
    "read_array": "gpuml.divided.files",
    "read_csv": "gpuml.divided.files",
    "read_parquet": "gpuml.divided.files",
    "save": "gpuml.persistence",
    "show_versions": "gpuml._settings.diagnosis",
    "trusted_types": "gpuml.persistence",
    "unload_ipython_extension": "gpuml._accelerate.handle",
}
__getattr__, __dir__ = at_first_use(__name__, _LATER, packages=_PACKAGES)

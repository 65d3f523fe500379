"""scikit-learn estimators and searches that run where the data is: NumPy, CuPy or torch."""

from gpuml._config import config_context, get_config, set_config

__version__ = "0.1.0.dev0"

__all__ = ["__version__", "config_context", "get_config", "set_config"]

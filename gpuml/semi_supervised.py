"""The names of scikit-learn's module, for imports: targets that are partly unknown."""

from gpuml._settings.first_use import at_first_use

__getattr__, __dir__ = at_first_use(__name__, mirrors="sklearn.semi_supervised")

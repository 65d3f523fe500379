"""The names of scikit-learn's module, for imports: models that ignore features."""

from gpuml._settings.first_use import at_first_use

__getattr__, __dir__ = at_first_use(__name__, mirrors="sklearn.dummy")

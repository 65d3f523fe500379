"""Shared parts of the two estimators: when a search can batch them, and the compute device."""

from typing import Any, ClassVar

from sklearn.gaussian_process.kernels import Kernel

from gpuml._persistence.travel import Travels
from gpuml._settings.config import current_settings
from gpuml.data import Folds
from gpuml.extending import MultifitEstimator
from gpuml.gaussian_process._kernels import own_functions


class OfKernel(Travels, MultifitEstimator):
    """An estimator with a kernel.

    Attributes
    ----------
    kernel : kernel of scikit-learn or None
    own_params : tuple of str
        Parameters that may differ within one call of `multifit`, besides those of the kernel.
    """

    kernel: Any
    own_params: ClassVar[tuple[str, ...]]
    _multiplies_pairs = True

    def _first_kernel(self) -> Kernel:
        """The kernel with which a fit starts."""
        raise NotImplementedError

    @property
    def _takes_vectors(self) -> bool:
        return self.kernel is None or self.kernel.requires_vector_input

    @property
    def multifit_params(self) -> tuple[str, ...]:  # type: ignore[override]
        """Parameters that may differ within one call, including those of the current kernel."""
        of_kernel = (name for name in self.get_params() if name.startswith("kernel__"))
        return (*self.own_params, *of_kernel)

    def multifit_obstacle(self, X: Any) -> str | None:
        """The reason why candidates are fitted one by one; None if they are not."""
        if not self._takes_vectors:
            return "a kernel of other things than vectors"
        names = own_functions(self._first_kernel())
        return f"the kernel {names[0]}, of which gpuml has no function," if names else None

    def multifit_rows(self, folds: Folds) -> int | None:
        """None: the number of kernel matrices depends on the candidates and the optimiser."""
        return None

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.array_api_support = self._takes_vectors
        return tags


def device_for(*kernels: Kernel) -> str:
    """The setting `device`, or "cpu" if a kernel is a user's own, which needs CPU memory."""
    return "cpu" if any(map(own_functions, kernels)) else current_settings().device

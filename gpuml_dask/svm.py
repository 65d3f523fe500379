"""Linear machines of rows that are divided over the workers of a cluster."""

from gpuml import svm as one_device
from gpuml_dask.fitting import SCORED, OnWorkers, documented

FROM_GRADIENTS = (
    "with a squared loss, each step is one pass, which sums gradients over all chunks; for other "
    "losses, the rows are gathered on one worker"
)
CLASSES = "(X[:, 0] > 0.5).astype(int)"
REGRESSOR = 'LinearSVR(loss="squared_epsilon_insensitive", C=100)'


@documented(FROM_GRADIENTS, SCORED.format(CLASSES, "LinearSVC(C=100)", 1, "1.0"))
class LinearSVC(OnWorkers, one_device.LinearSVC):
    """Linear support vector machines for classes, of rows here or on workers."""


@documented(FROM_GRADIENTS, SCORED.format("X @ [1.0, 2.0, 3.0]", REGRESSOR, 2, "1.0"))
class LinearSVR(OnWorkers, one_device.LinearSVR):
    """Linear support vector machines for numbers, of rows here or on workers."""

"""Linear machines of rows that are divided over the workers of a cluster."""

from gpuml import svm as one_device
from gpuml_dask.fitting import OnWorkers, documented

FROM_GRADIENTS = (
    "of squared losses each step is one pass, which sums gradients of all chunks; for the others "
    "rows come together on one worker"
)


@documented(
    FROM_GRADIENTS,
    """\
>>> y = (X[:, 0] > 0.5).astype(int)
>>> with Client(processes=False, dashboard_address=":0") as client:
...     model = LinearSVC(C=100).fit(X, y)
...     round(model.score(X, y), 1)
1.0
""",
)
class LinearSVC(OnWorkers, one_device.LinearSVC):
    """Linear support vector machines for classes, of rows here or on workers."""


@documented(
    FROM_GRADIENTS,
    """\
>>> y = X @ [1.0, 2.0, 3.0]
>>> with Client(processes=False, dashboard_address=":0") as client:
...     model = LinearSVR(loss="squared_epsilon_insensitive", C=100).fit(X, y)
...     round(model.score(X, y), 2)
1.0
""",
)
class LinearSVR(OnWorkers, one_device.LinearSVR):
    """Linear support vector machines for numbers, of rows here or on workers."""

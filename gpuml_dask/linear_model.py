"""Linear models of rows that are divided over the workers of a cluster."""

from gpuml import linear_model as one_device
from gpuml_dask.fitting import SCORED, OnWorkers, documented

FROM_MOMENTS = "one pass sums second moments over all chunks, and the model follows from them"
FROM_GRADIENTS = (
    "each step is one pass, which sums gradients over all chunks, by NCCL on GPU workers and by a "
    "tree of tasks on CPU workers"
)
LINEAR = "X @ [1.0, 2.0, 3.0]"
COUNTS = "(10 * X[:, 0]).astype(int)"
TWEEDIE = "TweedieRegressor(power=1.5, alpha=0.01)"


@documented(FROM_MOMENTS, SCORED.format(LINEAR, "LinearRegression()", 2, "1.0"))
class LinearRegression(OnWorkers, one_device.LinearRegression):
    """Ordinary least squares, of rows here or on workers."""


@documented(FROM_MOMENTS, SCORED.format(LINEAR, "Ridge(alpha=0.1)", 2, "1.0"))
class Ridge(OnWorkers, one_device.Ridge):
    """Linear least squares with an l2 penalty, of rows here or on workers."""


@documented(FROM_MOMENTS, SCORED.format(LINEAR, "Lasso(alpha=0.001)", 2, "1.0"))
class Lasso(OnWorkers, one_device.Lasso):
    """Linear least squares with an l1 penalty, of rows here or on workers."""


@documented(FROM_MOMENTS, SCORED.format(LINEAR, "ElasticNet(alpha=0.001)", 2, "1.0"))
class ElasticNet(OnWorkers, one_device.ElasticNet):
    """Linear least squares with an l1 and an l2 penalty, of rows here or on workers."""


@documented(FROM_GRADIENTS, SCORED.format(COUNTS, "PoissonRegressor(alpha=0.01)", 1, "0.8"))
class PoissonRegressor(OnWorkers, one_device.PoissonRegressor):
    """Counts and rates whose logarithm is linear in the features, of rows here or on workers."""


@documented(FROM_GRADIENTS, SCORED.format("0.1 + X[:, 0]", "GammaRegressor(alpha=0.01)", 1, "0.9"))
class GammaRegressor(OnWorkers, one_device.GammaRegressor):
    """Positive targets whose logarithm is linear in the features, of rows here or on workers."""


@documented(FROM_GRADIENTS, SCORED.format(COUNTS, TWEEDIE, 1, "0.7"))
class TweedieRegressor(OnWorkers, one_device.TweedieRegressor):
    """Targets whose variance grows with a power of their mean, of rows here or on workers."""


@documented(
    FROM_GRADIENTS,
    """\
>>> y = (X[:, 0] > 0.5).astype(int)
>>> with Client(processes=False, dashboard_address=":0") as client:
...     model = LogisticRegression(C=100).fit(X, y)
...     model.predict_proba(X).compute().shape
(300, 2)
""",
)
class LogisticRegression(OnWorkers, one_device.LogisticRegression):
    """Logistic regression with l2, l1, elastic-net or no penalty, of rows here or on workers."""

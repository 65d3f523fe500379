"""Naive Bayes of rows that are divided over the workers of a cluster."""

from gpuml import naive_bayes as one_device
from gpuml_dask.fitting import OnWorkers, documented

FROM_SUMS = "one pass sums {} of each class over all chunks, and the model follows from the sum"
CLASSES = """\
>>> X, y = (9 * X).astype(int), (X[:, 0] > 0.5).astype(int)
>>> with Client(processes=False, dashboard_address=":0") as client:
...     model = {}().fit(X, y)
...     model.predict_proba(X).compute().shape
(300, 2)
"""


@documented(FROM_SUMS.format("moments of the rows"), CLASSES.format("GaussianNB"))
class GaussianNB(OnWorkers, one_device.GaussianNB):
    """Naive Bayes with normal densities, of rows here or on workers."""


@documented(FROM_SUMS.format("the features"), CLASSES.format("MultinomialNB"))
class MultinomialNB(OnWorkers, one_device.MultinomialNB):
    """Naive Bayes for counts, of rows here or on workers."""


@documented(FROM_SUMS.format("the features"), CLASSES.format("ComplementNB"))
class ComplementNB(OnWorkers, one_device.ComplementNB):
    """Naive Bayes for counts in classes of different sizes, of rows here or on workers."""


@documented(FROM_SUMS.format("the features"), CLASSES.format("BernoulliNB"))
class BernoulliNB(OnWorkers, one_device.BernoulliNB):
    """Naive Bayes for features that are there or not, of rows here or on workers."""


@documented(FROM_SUMS.format("categories"), CLASSES.format("CategoricalNB"))
class CategoricalNB(OnWorkers, one_device.CategoricalNB):
    """Naive Bayes for categories 0, 1, ..., of rows here or on workers."""

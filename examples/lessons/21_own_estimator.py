"""Search over your own estimator
==============================

Any estimator with scikit-learn's interface works in a search. gpuml prepares the folds once, and
fits one candidate after another. The plan tells you so.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from gpuml.inspection import SearchDisplay
from gpuml.model_selection import GridSearchCV


class NadarayaWatson(RegressorMixin, BaseEstimator):
    """A mean of the training targets, weighted by a Gaussian of the distance."""

    def __init__(self, bandwidth=1.0):
        self.bandwidth = bandwidth

    def fit(self, X, y):
        self.X_, self.y_ = validate_data(self, X, y)
        return self

    def predict(self, X):
        check_is_fitted(self)
        X = validate_data(self, X, reset=False)
        distances = ((X[:, None, :] - self.X_) ** 2).sum(axis=2)
        weights = np.exp(-distances / (2 * self.bandwidth**2)) + 1e-300
        return weights @ self.y_ / weights.sum(axis=1)


# %%
# A wave with noise.
random = np.random.default_rng(0)
X = random.uniform(0, 10, size=(400, 1))
y = np.sin(X[:, 0]) + random.normal(0, 0.4, 400)

# %%
# Search over the bandwidth.
grid = {"bandwidth": np.logspace(-2, 1, 13)}
search = GridSearchCV(NadarayaWatson(), grid, cv=5).fit(X, y)
print(search.plan_)
print(search.best_params_)
SearchDisplay.from_search(search)
plt.title("R2 of a kernel smoother")
plt.show()

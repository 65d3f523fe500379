"""Warnings of fits in other processes are raised in the process of the user."""

import warnings

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import BaseEstimator, RegressorMixin

from gpuml.model_selection import GridSearchCV


class Warns(RegressorMixin, BaseEstimator):
    """The mean of y; warns of `a`."""

    def __init__(self, a=0):
        self.a = a

    def fit(self, X, y):
        warnings.warn(f"a is {self.a}", RuntimeWarning, stacklevel=1)
        self.mean_ = y.mean()
        return self

    def predict(self, X):
        return np.full(len(X), self.mean_)


def told(n_jobs, action):
    X = np.arange(20.0)[:, None]
    search = GridSearchCV(Warns(), {"a": [1, 2]}, n_jobs=n_jobs, cv=2, refit=False)
    with warnings.catch_warnings(record=True) as found, parallel_config("multiprocessing"):
        warnings.simplefilter(action)
        search.fit(X, X[:, 0])
    return [(str(each.message), each.category, each.filename) for each in found]


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_each_warning_is_raised_here(n_jobs):
    expected = [("a is 1", RuntimeWarning, __file__), ("a is 2", RuntimeWarning, __file__)]
    assert sorted(set(told(n_jobs, "always"))) == expected
    assert told(n_jobs, "ignore") == []


def test_of_several_processes_each_comes_once():
    assert len(told(2, "always")) == 2

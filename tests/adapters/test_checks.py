"""scikit-learn's own checks of every adapter, on the host and around an engine that is a fake.

What is expected to fail is what scikit-learn expects of its own class, and nothing else.
"""

import importlib

import pytest
from sklearn.utils._test_common.instance_generator import PER_ESTIMATOR_XFAIL_CHECKS
from sklearn.utils.estimator_checks import parametrize_with_checks

import gpuml
from gpuml.adapters import all_rows
from gpuml.cluster import KMeans
from gpuml.ensemble import RandomForestClassifier, RandomForestRegressor

# Checked in test_checks_a.py and test_checks_b.py.
CHECKED_THERE = (
    *("gpuml.covariance.", "gpuml.manifold.", "gpuml.neighbors."),
    *("gpuml.svm.", "gpuml.cluster.AgglomerativeClustering", "gpuml.cluster.DBSCAN"),
    *("gpuml.cluster.HDBSCAN", "gpuml.cluster.SpectralClustering"),
    "gpuml.ensemble.IsolationForest",
)
# Parameters that make the checks quick.
QUICK = {"n_estimators": 5, "n_init": 1}
FAKED = [
    KMeans(n_init=1),
    RandomForestClassifier(n_estimators=5),
    RandomForestRegressor(n_estimators=5),
]


def instances():
    """An instance of every class of the table that no other file checks."""
    for path in all_rows():
        if path.startswith(CHECKED_THERE):
            continue
        module, _, name = path.rpartition(".")
        estimator = getattr(importlib.import_module(module), name)()
        known = estimator.get_params(deep=False)
        yield estimator.set_params(**{k: v for k, v in QUICK.items() if k in known})


def expected_failures(estimator):
    return PER_ESTIMATOR_XFAIL_CHECKS.get(estimator._row.sk, {})


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(
    list(instances()), expected_failed_checks=expected_failures, xfail_strict=False
)
def test_on_the_host(estimator, check):
    with gpuml.config_context(device="cpu"):
        check(estimator)


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(FAKED, expected_failed_checks=expected_failures, xfail_strict=False)
def test_around_an_engine(fake, estimator, check):
    with gpuml.config_context(device="cuda", fallback="silent"):
        check(estimator)

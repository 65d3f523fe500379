"""scikit-learn's own checks of clusters, covariances, isolation forests and kernel ridge.

On the host, and around an engine that is a fake. What is expected to fail is what scikit-learn
expects of its own class, and nothing else.
"""

import pytest
from sklearn.utils._test_common.instance_generator import PER_ESTIMATOR_XFAIL_CHECKS
from sklearn.utils.estimator_checks import parametrize_with_checks

import gpuml
from gpuml.cluster import DBSCAN, HDBSCAN, AgglomerativeClustering, SpectralClustering
from gpuml.covariance import (
    EllipticEnvelope,
    GraphicalLasso,
    GraphicalLassoCV,
    MinCovDet,
)
from gpuml.ensemble import IsolationForest

# With the parameters that scikit-learn checks its own with.
ON_THE_HOST = [
    AgglomerativeClustering(),
    DBSCAN(),
    EllipticEnvelope(),
    GraphicalLasso(alpha=1.0, max_iter=5),
    GraphicalLassoCV(cv=3, max_iter=5),
    HDBSCAN(),
    IsolationForest(n_estimators=5),
    MinCovDet(),
    SpectralClustering(2, n_init=2),
]
# With parameters that cuML has.
AROUND_AN_ENGINE = [
    AgglomerativeClustering(linkage="single"),
    DBSCAN(),
    HDBSCAN(copy=False),
    IsolationForest(n_estimators=5),
    SpectralClustering(2, n_init=1, affinity="nearest_neighbors"),
]


def expected_failures(estimator):
    return PER_ESTIMATOR_XFAIL_CHECKS.get(estimator._row.sk, {})


@pytest.mark.some
@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(ON_THE_HOST, expected_failed_checks=expected_failures, xfail_strict=False)
def test_on_the_host(estimator, check):
    with gpuml.config_context(device="cpu"):
        check(estimator)


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(
    AROUND_AN_ENGINE, expected_failed_checks=expected_failures, xfail_strict=False
)
def test_around_an_engine(fake, estimator, check):
    with gpuml.config_context(device="cuda", fallback="silent"):
        check(estimator)

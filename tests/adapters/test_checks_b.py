"""scikit-learn's own checks of neighbours, support vectors and embeddings.

On the host, and around an engine that is a fake. What is expected to fail is what scikit-learn
expects of its own class, and nothing else.
"""

import pytest
from sklearn.utils._test_common.instance_generator import PER_ESTIMATOR_XFAIL_CHECKS
from sklearn.utils.estimator_checks import parametrize_with_checks

import gpuml
from gpuml.manifold import TSNE, UMAP, SpectralEmbedding
from gpuml.neighbors import (
    KernelDensity,
    KNeighborsClassifier,
    KNeighborsRegressor,
    NearestNeighbors,
)
from gpuml.svm import SVC, SVR
from tests.adapters.fake_models_b import fake_b  # noqa: F401  (a fixture)

ESTIMATORS = [
    KNeighborsClassifier(),
    KNeighborsRegressor(),
    KernelDensity(),
    NearestNeighbors(),
    SVC(),
    SVR(),
    SpectralEmbedding(),
    TSNE(perplexity=2, max_iter=250),
]


def expected_failures(estimator):
    return PER_ESTIMATOR_XFAIL_CHECKS.get(estimator._row.sk, {})


@pytest.mark.some
@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failures, xfail_strict=False)
def test_on_the_host(estimator, check):
    with gpuml.config_context(device="cpu"):
        check(estimator)


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failures, xfail_strict=False)
def test_around_an_engine(fake_b, estimator, check):  # noqa: F811
    with gpuml.config_context(device="cuda", fallback="silent"):
        check(estimator)


# umap-learn's own: the rows of the fit, if they are all of them and as they were, are embedded as at
# the fit, and other rows by a search from there.
OF_UMAP = dict.fromkeys(
    ["check_methods_sample_order_invariance", "check_methods_subset_invariance"],
    "the rows of the fit are embedded as they were, and parts of them anew",
)


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks(
    [UMAP(n_neighbors=5, n_epochs=30, init="random")],
    expected_failed_checks=lambda estimator: OF_UMAP,
    xfail_strict=False,
)
def test_umap_on_the_host(estimator, check):
    pytest.importorskip("umap")
    with gpuml.config_context(device="cpu"):
        check(estimator)

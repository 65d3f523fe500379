"""scikit-learn's own checks of every adapter that cuML does the work of, on a GPU.

Checks whose case cuML does not do are done by scikit-learn, as users have it. What fails is written
down here, with its cause; beside it there is what scikit-learn expects of its own class. Classes
and parameters that a GPU has no part in are checked on the host, in the other files.
"""

import pytest
from sklearn.utils._test_common.instance_generator import PER_ESTIMATOR_XFAIL_CHECKS
from sklearn.utils.estimator_checks import parametrize_with_checks

import gpuml
from gpuml.adapters import all_rows
from gpuml.manifold import UMAP
from tests.adapters import test_checks, test_checks_a, test_checks_b

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore")]

OF_THE_FILES = [
    *test_checks.FAKED,
    *test_checks_a.AROUND_AN_ENGINE,
    *test_checks_b.ESTIMATORS,
    UMAP(n_neighbors=5, n_epochs=30, init="random"),
]
ESTIMATORS = list({repr(estimator): estimator for estimator in OF_THE_FILES}.values())

ANEW = "rows are embedded anew at each call, by random steps that depend on the rows beside them"
FAILURES = {
    # Of 13 runs 4: it starts at random and then raises that it "couldn't converge".
    "SpectralEmbedding": {
        "check_f_contiguous_array_estimator": "cuML's eigensolver does not always converge"
    },
    "UMAP": {
        "check_methods_sample_order_invariance": ANEW,
        "check_methods_subset_invariance": ANEW,
    },
}


@pytest.fixture(autouse=True)
def cuml():
    pytest.importorskip("cupy")
    return pytest.importorskip("cuml")


def expected_failures(estimator):
    row = estimator._row
    return {**PER_ESTIMATOR_XFAIL_CHECKS.get(row.sk, {}), **FAILURES.get(row.name, {})}


def test_every_class_that_cuml_has_is_checked():
    checked = {estimator._row.cuml for estimator in ESTIMATORS}
    assert checked == {row.cuml for row in all_rows().values() if row.cuml is not None}


def test_exceptions_are_of_classes_that_are_checked():
    assert set(FAILURES) <= {estimator._row.name for estimator in ESTIMATORS}


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failures, xfail_strict=False)
def test_with_cuml(estimator, check):
    with gpuml.config_context(device="cuda", fallback="silent"):
        check(estimator)

"""PolynomialFeatures over array libraries: agreement with scikit-learn, and memory order."""

import numpy as np
import pytest
import sklearn.preprocessing as sk

from gpuml.preprocessing import PolynomialFeatures
from gpuml.testing import RTOL

DEGREES = [0, 1, 2, 3, (0, 2), (1, 1), (2, 2), (2, 4), (3, 5), 7]


@pytest.mark.pairwise
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("degree", DEGREES, ids=str)
@pytest.mark.parametrize("interaction_only", [False, True])
@pytest.mark.parametrize("include_bias", [False, True])
def test_agrees_with_sklearn(library, rng, dtype, degree, interaction_only, include_bias):
    if degree == 0 and not include_bias:
        pytest.skip("no column at all")
    X = rng.normal(size=(15, 4)).astype(dtype)
    params = {"interaction_only": interaction_only, "include_bias": include_bias}
    expected = sk.PolynomialFeatures(degree, **params).fit(X)
    for order in ("C", "F"):
        ours = PolynomialFeatures(degree, order=order, **params)
        X_lib = library.asarray(X)
        found = ours.fit_transform(X_lib)
        assert type(found) is type(X_lib)
        found = library.to_numpy(found)
        assert found.dtype == dtype
        rtol = RTOL[dtype]
        np.testing.assert_allclose(found, expected.transform(X), rtol=rtol, atol=rtol)
        np.testing.assert_array_equal(ours.powers_, expected.powers_)
        assert ours.n_output_features_ == expected.n_output_features_
        np.testing.assert_array_equal(
            ours.get_feature_names_out(), expected.get_feature_names_out()
        )


@pytest.mark.parametrize("order", ["C", "F"])
def test_order_in_memory(library, rng, order):
    image = PolynomialFeatures(3, order=order).fit_transform(
        library.asarray(rng.normal(size=(9, 3)))
    )
    if library.name == "array_api_strict":
        image = image._array
    elif library.name.startswith("torch"):
        assert image.T.is_contiguous() is (order == "F")
        return
    assert image.flags.f_contiguous is (order == "F")


def test_models_move_between_libraries(library, rng):
    X = rng.normal(size=(9, 3))
    expected = sk.PolynomialFeatures().fit_transform(X)
    here, there = PolynomialFeatures().fit(library.asarray(X)), PolynomialFeatures().fit(X)
    np.testing.assert_allclose(here.transform(X), expected)
    np.testing.assert_allclose(library.to_numpy(there.transform(library.asarray(X))), expected)


@pytest.mark.parametrize("degree", [-1, (3, 2), (1, 2, 3), "two"])
def test_bad_degrees_are_refused(library, rng, degree):
    model = PolynomialFeatures(degree)
    with pytest.raises(ValueError, match="degree"):
        model.fit(library.asarray(rng.normal(size=(5, 2))))
    assert not hasattr(model, "n_features_in_")


def test_bad_rows_are_refused(library, rng):
    X = rng.normal(size=(5, 3))
    model = PolynomialFeatures().fit(library.asarray(X))
    for bad in (np.where(X[0, 0] == X, np.nan, X), X[:, :2], X[0]):
        with pytest.raises(ValueError, match=r"\w"):
            model.transform(library.asarray(bad))

"""The door for rows without a target."""

import numpy as np
import pytest

from gpuml._inputs.validation import check_rows
from gpuml.preprocessing import Normalizer


@pytest.mark.parametrize("dtype", ["int64", "uint8", "float32", "float64"])
def test_dtypes(library, rng, dtype):
    X = library.asarray(rng.integers(0, 9, size=(6, 3)).astype(dtype))
    estimator = Normalizer()
    found = library.to_numpy(check_rows(estimator, X, reset=True)).dtype
    assert found == (dtype if dtype.startswith("float") else "float64")
    kept = check_rows(estimator, X, reset=False, keep_dtype=True)
    assert library.to_numpy(kept).dtype == dtype
    assert estimator.n_features_in_ == 3


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nan_and_inf(library, value):
    X = library.asarray(np.array([[1.0, value]]))
    with pytest.raises(ValueError, match="NaN" if np.isnan(value) else "infinity"):
        check_rows(Normalizer(), X, reset=True)
    check_rows(Normalizer(), X, reset=True, finite_X=False)
    if np.isnan(value):
        check_rows(Normalizer(), X, reset=True, allow_nan=True)
    else:
        with pytest.raises(ValueError, match="infinity"):
            check_rows(Normalizer(), X, reset=True, allow_nan=True)


def test_other_features_than_in_fit(library):
    estimator = Normalizer()
    check_rows(estimator, library.asarray(np.ones((2, 3))), reset=True)
    with pytest.raises(ValueError, match="expecting 3 features"):
        check_rows(estimator, library.asarray(np.ones((2, 2))), reset=False)

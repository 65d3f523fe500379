"""Labels of classes as codes, and how many there are of each."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import KFold

from gpuml._arrays import labels as _labels
from gpuml._arrays.labels import encode
from gpuml.linear_model import LogisticRegression
from gpuml.model_selection import GridSearchCV


@pytest.mark.each
@pytest.mark.parametrize("n_classes", [1, 2, 9, 5000])
def test_labels_counted_at_several_places_are_counted(library, rng, monkeypatch, n_classes):
    """As on a GPU, wherever the labels are."""
    if library.name not in ("numpy", "torch", "cupy"):
        pytest.skip("integers are sorted there")
    known = _labels.place_of

    def as_on_a_gpu(x):
        return SimpleNamespace(kind=known(x).kind, device=known(x).device, is_host=False)

    monkeypatch.setattr(_labels, "SPREAD_BINS", 100)
    monkeypatch.setattr(_labels, "place_of", as_on_a_gpu)
    monkeypatch.setattr(_labels, "move", lambda x, place: library.asarray(x))
    labels = rng.integers(-3, n_classes - 3, size=777)
    classes, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    found = encode(library.asarray(labels))
    np.testing.assert_array_equal(library.to_numpy(found.codes), codes)
    np.testing.assert_array_equal(library.to_numpy(found.classes), classes)
    np.testing.assert_array_equal(found.counts, counts)


@pytest.mark.pairwise
@pytest.mark.parametrize(
    "values",
    [[0], [3], [0, 1], [1, 2], [5, 3], [0, 2, 127], [0, 128], [-1, 0], [70_000, 1]]
    + [[0.5, 1], [-np.inf, 1], [1e300, 3]],
)
@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "int32", "int64", "uint64", "bool", "float32", "float64"]
)
def test_labels_near_zero_and_others(library, rng, values, dtype):
    with np.errstate(invalid="ignore", over="ignore"):
        has_them = np.all(np.asarray(values).astype(dtype) == values)
    if not has_them:
        pytest.skip("the dtype does not have these values")
    labels = rng.choice(np.asarray(values, dtype=dtype), size=300)
    classes, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
    found = encode(library.asarray(labels))
    assert found.classes.dtype == library.asarray(labels).dtype
    np.testing.assert_array_equal(library.to_numpy(found.codes), codes)
    np.testing.assert_array_equal(library.to_numpy(found.classes), classes)
    np.testing.assert_array_equal(found.counts, counts)


MISSING = {"None": None, "nan": np.nan, "NA": pd.NA}
FORMS = {
    "list": list,
    "objects": lambda values: np.asarray(values, dtype=object),
    "series": lambda values: pd.Series(values, dtype=object),
    "texts": lambda values: pd.Series(values, dtype="string"),
    "categories": lambda values: pd.Series(values, dtype="category"),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("missing", MISSING)
def test_texts_with_missing_values_are_no_labels(rng, form, missing):
    """scikit-learn sorts them, and says that None is not less than a text."""
    X = rng.normal(size=(12, 2))
    y = FORMS[form]([*("ab" * 5), MISSING[missing], "a"])
    search = GridSearchCV(LogisticRegression(), {"C": [1.0]}, cv=2)
    for model in (search, search.set_params(cv=KFold(2)), LogisticRegression()):
        with pytest.raises(ValueError, match=r"1 of 12 labels, .* position 10 .*notna\(y\)"):
            model.fit(X, y)

"""Labels of classes as codes, and how many there are of each."""

from functools import partial
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from gpuml._arrays import labels as _labels
from gpuml._arrays.labels import encode
from gpuml.linear_model import LogisticRegression, RidgeClassifier
from gpuml.model_selection import GridSearchCV, cross_val_score
from gpuml.naive_bayes import GaussianNB
from gpuml.neighbors import KNeighborsClassifier


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


MISSING = {
    "None": lambda y: np.array([None, *y], dtype=object),
    "nan": lambda y: np.array([np.nan, *y], dtype=object),
    "list": lambda y: [np.nan, *y],
    "pandas.NA": lambda y: pd.Series([pd.NA, *y], dtype="string"),
    "categories": lambda y: pd.Series([None, *y], dtype="category"),
    "polars": lambda y: pytest.importorskip("polars").Series([None, *y]),
}


@pytest.mark.parametrize("missing", MISSING.values(), ids=MISSING)
@pytest.mark.parametrize(
    "fit",
    [
        LogisticRegression().fit,
        GaussianNB().fit,
        KNeighborsClassifier().fit,
        GridSearchCV(RidgeClassifier(), {"alpha": [0.1, 1.0]}).fit,
        partial(cross_val_score, LogisticRegression()),
    ],
    ids=["fit", "sums", "adapter", "search", "cross_val_score"],
)
def test_missing_labels_are_refused_with_what_to_type(fit, missing, rng):
    X, y = rng.normal(size=(40, 2)), ["yes", "no"] * 20
    fit(X, y)
    with pytest.raises(ValueError, match=r"1 of 40 labels are missing, the first in row 0\. Drop"):
        fit(X, missing(y[1:]))


@pytest.mark.parametrize(
    "name",
    ["linear_model.LogisticRegression", "linear_model.RidgeClassifier", "svm.LinearSVC"]
    + ["linear_model.RidgeClassifierCV", "naive_bayes.GaussianNB", "naive_bayes.BernoulliNB"]
    + [
        "discriminant_analysis." + kind + "DiscriminantAnalysis" for kind in ("Linear", "Quadratic")
    ],
)
def test_classes_of_strings_have_scikit_learns_dtype(name, rng):
    X, y = rng.normal(size=(40, 2)), np.array(["yes", "no"] * 20, dtype=object)
    module, kind = name.split(".")
    theirs, ours = (
        getattr(import_module(f"{library}.{module}"), kind)().fit(X, y)
        for library in ("sklearn", "gpuml")
    )
    assert ours.classes_.dtype == theirs.classes_.dtype
    assert ours.predict(X).dtype == theirs.predict(X).dtype
    search = GridSearchCV(ours, {}, cv=2).fit(X, y)
    assert search.predict(X).dtype == theirs.predict(X).dtype

"""OneHotEncoder over array libraries: agreement with scikit-learn, and its inverse."""

import numpy as np
import pytest
import sklearn.preprocessing as sk

from gpuml.preprocessing import OneHotEncoder

DTYPES = ["int64", "int32", "uint8", "float32", "float64", "bool"]
DROPS = [None, "first", "if_binary"]


def rows(rng, dtype, n=60):
    X = np.stack([rng.integers(0, k, size=n) * 3 for k in (2, 5, 1, 9)], axis=1)
    return (X > 3 if dtype == "bool" else X).astype(dtype)


def dense(**params):
    return {"sparse_output": False, **params}


@pytest.mark.pairwise
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("drop", DROPS)
@pytest.mark.parametrize("out", ["float64", "float32", "int8"])
def test_agrees_with_sklearn(library, rng, dtype, drop, out):
    X = rows(rng, dtype)
    params = dense(drop=drop, dtype=np.dtype(out).type)
    ours, theirs = OneHotEncoder(**params), sk.OneHotEncoder(**params).fit(X)
    X_lib = library.asarray(X)
    image = ours.fit_transform(X_lib)
    assert type(image) is type(X_lib)
    expected = theirs.transform(X)
    assert library.to_numpy(image).dtype == expected.dtype
    np.testing.assert_array_equal(library.to_numpy(image), expected)
    for found, wanted in zip(ours.categories_, theirs.categories_, strict=True):
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(ours.get_feature_names_out(), theirs.get_feature_names_out())
    back = library.to_numpy(ours.inverse_transform(image))
    assert back.dtype == X.dtype
    np.testing.assert_array_equal(back, X)


@pytest.mark.parametrize("drop", [None, "first", [np.nan, 3.0]])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_nan_is_a_category(library, rng, drop, dtype):
    X = (rng.integers(0, 4, size=(70, 2)) * 3).astype(dtype)
    X[rng.uniform(size=X.shape) < 0.2] = np.nan
    ours = OneHotEncoder(**dense(drop=drop)).fit(library.asarray(X))
    image = ours.transform(library.asarray(X))
    expected = sk.OneHotEncoder(**dense(drop=drop)).fit_transform(X)
    np.testing.assert_array_equal(library.to_numpy(image), expected)
    np.testing.assert_array_equal(library.to_numpy(ours.inverse_transform(image)), X)


@pytest.mark.parametrize("handle_unknown", ["ignore", "infrequent_if_exist"])
def test_unknown_categories_are_zeros(library, rng, handle_unknown):
    X, new = rows(rng, "float64"), rows(rng, "float64")
    new[0, :] = 100.0
    new[1, 1] = np.nan
    params = dense(handle_unknown=handle_unknown)
    ours = OneHotEncoder(**params).fit(library.asarray(X))
    image = ours.transform(library.asarray(new))
    expected = sk.OneHotEncoder(**params).fit(X).transform(new)
    np.testing.assert_array_equal(library.to_numpy(image), expected)
    if not library.name.startswith("numpy"):
        new[0, :] = np.nan
        np.testing.assert_array_equal(library.to_numpy(ours.inverse_transform(image)), new)


def test_unknown_integers_have_no_inverse_on_a_device(library, rng):
    if library.name.startswith("numpy"):
        pytest.skip("None on the host")
    ours = OneHotEncoder(**dense(handle_unknown="ignore")).fit(library.asarray(rows(rng, "int64")))
    image = ours.transform(library.asarray(rows(rng, "int64") + 1))
    with pytest.raises(ValueError, match="Convert X to NumPy"):
        ours.inverse_transform(image)


def test_unknown_categories_are_refused_or_warned_of(library, rng):
    X = rows(rng, "int64")
    model = OneHotEncoder(**dense()).fit(library.asarray(X))
    with pytest.raises(ValueError, match=r"Found unknown categories .*1.* in column 0"):
        model.transform(library.asarray(X + 1))
    for params in ({"handle_unknown": "warn"}, {"handle_unknown": "ignore", "drop": "first"}):
        model = OneHotEncoder(**dense(**params)).fit(library.asarray(X))
        with pytest.warns(UserWarning, match=r"unknown categories in columns \[0, 1, 2, 3\]"):
            model.transform(library.asarray(X + 1))


def test_given_categories(library, rng):
    X = rng.integers(0, 3, size=(20, 2))
    given = [[0, 1, 2, 5], [0, 1, 2]]
    found = OneHotEncoder(**dense(categories=given)).fit_transform(library.asarray(X))
    expected = sk.OneHotEncoder(**dense(categories=given)).fit_transform(X)
    np.testing.assert_array_equal(library.to_numpy(found), expected)
    for wrong in ([[0, 1], [0, 1, 2]], [[2, 1, 0], [0, 1, 2]], [[0, 1, 2]]):
        with pytest.raises(ValueError, match=r"categories"):
            OneHotEncoder(**dense(categories=wrong)).fit(library.asarray(X))


def test_models_move_between_libraries(library, rng):
    X = rows(rng, "float32")
    expected = sk.OneHotEncoder(**dense()).fit_transform(X)
    here = OneHotEncoder(**dense()).fit(library.asarray(X))
    there = OneHotEncoder(**dense()).fit(X)
    np.testing.assert_array_equal(here.transform(X), expected)
    np.testing.assert_array_equal(library.to_numpy(there.transform(library.asarray(X))), expected)
    wider = library.asarray(X.astype("int64"))
    np.testing.assert_array_equal(library.to_numpy(there.transform(wider)), expected)


def test_data_frames_come_where_they_are_asked_for(library, rng):
    X = rows(rng, "int64")
    model = OneHotEncoder(**dense()).set_output(transform="pandas")
    image = model.fit_transform(library.asarray(X))
    assert list(image.columns) == list(model.get_feature_names_out())
    np.testing.assert_array_equal(image, sk.OneHotEncoder(**dense()).fit_transform(X))


def test_sparse_output(library, rng):
    X = library.asarray(rows(rng, "int64"))
    model = OneHotEncoder(drop="if_binary").fit(X)
    expected = sk.OneHotEncoder(drop="if_binary", sparse_output=False).fit_transform(
        library.to_numpy(X)
    )
    if library.name.startswith("numpy") or library.name == "cupy":
        image = model.transform(X)
        np.testing.assert_array_equal(library.to_numpy(image.toarray()), expected)
        back = library.to_numpy(model.inverse_transform(image))
        np.testing.assert_array_equal(back, library.to_numpy(X))
    else:
        with pytest.raises(ValueError, match="sparse_output=False"):
            model.transform(X)


def test_bad_rows_are_refused_and_leave_the_model_as_it_was(library, rng):
    X = rows(rng, "float64")
    model = OneHotEncoder(**dense()).fit(library.asarray(X))
    before = dict(vars(model))
    for bad in (np.where(X == 0, np.inf, X), X[:, 0], X[:0]):
        with pytest.raises(ValueError, match=r"\w"):
            model.fit(library.asarray(bad))
        with pytest.raises(ValueError, match=r"\w"):
            model.transform(library.asarray(bad))
    assert vars(model) == before


TEXT = ["u", None, "v", "u", None]
DTYPES_OF_TEXT = ["str", "string[python]", "string[pyarrow]"]


@pytest.mark.parametrize("fitted", DTYPES_OF_TEXT)
@pytest.mark.parametrize("given", DTYPES_OF_TEXT)
@pytest.mark.parametrize("as_category", [(False, True), (True, False), (True, True)])
def test_holes_of_text_are_one_category_whatever_holds_the_text(fitted, given, as_category):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frames = [
        pd.DataFrame({"name": pd.Series(TEXT, dtype=dtype).astype("category" if c else dtype)})
        for dtype, c in zip((fitted, given), as_category, strict=True)
    ]
    model = OneHotEncoder(**dense()).fit(frames[0])
    assert list(map(repr, model.categories_[0])) == ["'u'", "'v'", "nan"]
    np.testing.assert_array_equal(model.transform(frames[1]).argmax(axis=1), [0, 2, 1, 0, 2])

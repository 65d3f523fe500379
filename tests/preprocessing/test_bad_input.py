"""Bad input of transformers and of searches over them: scikit-learn's errors, and no traces."""

import copy
from functools import cache
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import sklearn
import sklearn.compose
import sklearn.decomposition
import sklearn.impute
import sklearn.linear_model
import sklearn.model_selection
import sklearn.pipeline
import sklearn.preprocessing
from scipy import sparse

import gpuml
import gpuml.compose
import gpuml.decomposition
import gpuml.impute
import gpuml.linear_model
import gpuml.model_selection
import gpuml.pipeline
import gpuml.preprocessing
from gpuml._arrays import is_array
from gpuml.testing import ArrayLibrary

PACKAGES = (
    *("compose", "decomposition", "impute", "linear_model", "model_selection", "pipeline"),
    "preprocessing",
)


def classes_of(package):
    """What gpuml and scikit-learn both have, of one of them."""
    found = {}
    for name in PACKAGES:
        module, public = getattr(package, name), getattr(gpuml, name).__all__
        found |= {each: getattr(module, each) for each in public if hasattr(module, each)}
    return SimpleNamespace(**found)


OURS, THEIRS = classes_of(gpuml), classes_of(sklearn)
RNG = np.random.default_rng(0)
ROWS = np.round(np.abs(RNG.normal(size=(30, 4))) * 3) + 1
TARGET = RNG.normal(size=30)

# Parameters with which fits of `ROWS` succeed.
CLASSES = {
    "StandardScaler": {},
    "MinMaxScaler": {},
    "MaxAbsScaler": {},
    "Normalizer": {},
    "PolynomialFeatures": {},
    "SimpleImputer": {},
    "OneHotEncoder": {"sparse_output": False},
    "PCA": {"svd_solver": "full"},
    "TruncatedSVD": {"n_components": 2, "random_state": 0},
    "IncrementalPCA": {},
}

ARRAYS = {
    "no rows": ROWS[:0],
    "no columns": ROWS[:, :0],
    "one axis": ROWS[:, 0],
    "three axes": ROWS[None],
    "no axis": np.array(3.0),
    "nan": np.where(ROWS > 2, np.nan, ROWS),
    "only nan": ROWS * np.nan,
    "inf": np.where(ROWS > 2, np.inf, ROWS),
    "complex": ROWS + 1j,
    "constant": np.ones_like(ROWS),
    "zeros": np.zeros_like(ROWS),
    "tiny": ROWS * 1e-300,
    "other columns": ROWS[:, :3],
    "integers": ROWS.astype(int),
    "bools": ROWS > 2,
}
HOST_ONLY = {
    "nothing": None,
    "number": 3.0,
    "word": "abc",
    "words": np.array([["a", "b"], ["c", "d"]]),
    "objects": np.array([[1, "a"], [2, "b"]], dtype=object),
    "missing object": np.array([[1, None], [2.0, 3.0]], dtype=object),
    "ragged": [[1, 2], [3]],
    "sparse": sparse.csr_matrix(ROWS),
    "series": pd.Series(ROWS[:, 0]),
    "frame of words": pd.DataFrame({"a": ["x", "y"], "b": [1, 2]}),
    "frame with mixed names": pd.DataFrame(ROWS, columns=["a", 1, "b", 2]),
    "nullable frame": pd.DataFrame({"a": pd.array([1, None, 3], dtype="Int64"), "b": [1.0, 2, 3]}),
}

BAD_PARAMS = [
    ("StandardScaler", {"with_mean": "yes"}),
    ("MinMaxScaler", {"feature_range": (1, 0)}),
    ("MinMaxScaler", {"feature_range": 3}),
    ("MaxAbsScaler", {"copy": "no"}),
    ("Normalizer", {"norm": "l3"}),
    ("PolynomialFeatures", {"degree": -1}),
    ("PolynomialFeatures", {"degree": (3, 1)}),
    ("PolynomialFeatures", {"degree": 0, "include_bias": False}),
    ("SimpleImputer", {"strategy": "best"}),
    ("SimpleImputer", {"strategy": "constant", "fill_value": "a"}),
    ("SimpleImputer", {"missing_values": "a"}),
    ("OneHotEncoder", {"drop": "last"}),
    ("OneHotEncoder", {"drop": [99, 99, 99, 99]}),
    ("OneHotEncoder", {"categories": [[3, 2, 1]] * 4}),
    ("OneHotEncoder", {"categories": [[1]]}),
    ("OneHotEncoder", {"min_frequency": -1}),
    ("PCA", {"n_components": 99}),
    ("PCA", {"n_components": 1.5}),
    ("PCA", {"n_components": "many"}),
    ("PCA", {"svd_solver": "best"}),
    ("PCA", {"n_components": 4, "svd_solver": "arpack"}),
    ("PCA", {"random_state": "a"}),
    ("TruncatedSVD", {"n_components": 99}),
    ("TruncatedSVD", {"n_components": 0}),
    ("TruncatedSVD", {"algorithm": "best"}),
    ("IncrementalPCA", {"n_components": 99}),
    ("IncrementalPCA", {"batch_size": 0}),
]


def error_of(call, *args):
    """The error that a call raises, or None."""
    try:
        call(*args)
    except Exception as error:
        return error
    return None


def agrees(ours, theirs):
    """Whether one error is as good as the other: the same type or a special case of it."""
    return type(ours) is type(theirs) if theirs is None else isinstance(ours, type(theirs))


def state_of(estimator):
    """Everything that an estimator knows, as what can be compared."""
    return {
        name: ArrayLibrary.to_numpy(value).tolist() if is_array(value) else repr(value)
        for name, value in vars(estimator).items()
    }


def fitted(cls, asarray=np.asarray):
    return getattr(OURS, cls)(**CLASSES[cls]).fit(asarray(ROWS))


@pytest.mark.pairwise
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("cls", CLASSES)
def test_bad_arrays_raise_the_errors_of_scikit_learn(cls, name, library):
    X = ARRAYS[name]
    rows = library.asarray(X)
    theirs = getattr(THEIRS, cls)(**CLASSES[cls])
    expected = error_of(theirs.fit, X)
    ours = fitted(cls, library.asarray)
    before = state_of(ours)
    found = error_of(ours.fit, rows)
    assert agrees(found, expected), (found, expected)
    if found is not None:
        assert state_of(ours) == before
    expected = error_of(theirs.fit(ROWS).transform, X)
    ours = fitted(cls, library.asarray)
    found = error_of(ours.transform, rows)
    assert agrees(found, expected), (found, expected)
    assert state_of(ours) == before


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", HOST_ONLY)
@pytest.mark.parametrize("cls", CLASSES)
def test_what_is_no_matrix_raises_the_errors_of_scikit_learn(cls, name):
    X = HOST_ONLY[name]
    theirs = getattr(THEIRS, cls)(**CLASSES[cls])
    expected = error_of(theirs.fit, copy.copy(X))
    ours = fitted(cls)
    before = state_of(ours)
    found = error_of(ours.fit, X)
    assert agrees(found, expected), (found, expected)
    if found is not None:
        assert state_of(ours) == before


@pytest.mark.some
@pytest.mark.parametrize(("cls", "params"), BAD_PARAMS, ids=str)
def test_bad_parameters_raise_the_errors_of_scikit_learn(cls, params, library):
    expected = error_of(getattr(THEIRS, cls)(**params).fit, ROWS)
    assert expected is not None
    ours = fitted(cls, library.asarray).set_params(**params)
    before = state_of(ours)
    found = error_of(ours.fit, library.asarray(ROWS))
    assert agrees(found, expected), (found, expected)
    assert state_of(ours) == before


# ---------------------------------------------------------------- under search


SEARCHES = {
    "scale": lambda m: (m.make_pipeline(m.StandardScaler(), m.Ridge()), "ridge__alpha"),
    "components": lambda m: (m.make_pipeline(m.PCA(2), m.Ridge()), "ridge__alpha"),
    "products": lambda m: (m.make_pipeline(m.PolynomialFeatures(), m.Ridge()), "ridge__alpha"),
    "union": lambda m: (
        m.make_pipeline(m.make_union(m.StandardScaler(), m.MinMaxScaler()), m.Ridge()),
        "ridge__alpha",
    ),
    "columns": lambda m: (
        m.make_pipeline(
            m.make_column_transformer((m.StandardScaler(), [0, 1]), remainder=m.MinMaxScaler()),
            m.Ridge(),
        ),
        "ridge__alpha",
    ),
    "target": lambda m: (
        m.TransformedTargetRegressor(m.Ridge(), transformer=m.StandardScaler()),
        "regressor__alpha",
    ),
}
TARGETS = {
    "too short": TARGET[:-1],
    "no rows": TARGET[:0],
    "nan": np.where(TARGET > 0.5, np.nan, TARGET),
    "inf": np.where(TARGET > 0.5, np.inf, TARGET),
    "complex": TARGET + 1j,
    "three axes": np.zeros((30, 2, 2)),
}


def search(m, name):
    estimator, alpha = SEARCHES[name](m)
    return m.GridSearchCV(estimator, {alpha: [0.1, 1.0]}, cv=3, error_score="raise")


# Each is the same for every test that asks: scikit-learn's for all array libraries, ours for all
# kinds of bad rows.


@cache
def their_error_of_rows(name, bad):
    return error_of(search(THEIRS, name).fit, ARRAYS[bad], TARGET[: len(ARRAYS[bad])])


@cache
def their_error_of_a_target(name, bad):
    return error_of(search(THEIRS, name).fit, ROWS, TARGETS[bad])


@cache
def their_error_of_rows_to_predict(name, bad):
    return error_of(search(THEIRS, name).fit(ROWS, TARGET).predict, ARRAYS[bad])


@cache
def our_fitted_search(name, library):
    return search(OURS, name).fit(library.asarray(ROWS), library.asarray(TARGET))


@pytest.mark.pairwise
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("bad", sorted({*ARRAYS} - {"no axis", "other columns", "three axes"}))
@pytest.mark.parametrize("name", SEARCHES)
def test_bad_rows_of_searches_raise_the_errors_of_scikit_learn(name, bad, library):
    X = ARRAYS[bad]
    y = TARGET[: len(X)]
    expected = their_error_of_rows(name, bad)
    ours = copy.copy(our_fitted_search(name, library))
    before = dict(vars(ours))
    found = error_of(ours.fit, library.asarray(X), library.asarray(y))
    assert agrees(found, expected), (found, expected)
    if found is not None:
        assert vars(ours) == before


@pytest.mark.pairwise
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("bad", TARGETS)
@pytest.mark.parametrize("name", SEARCHES)
def test_bad_targets_of_searches_raise_the_errors_of_scikit_learn(name, bad, library):
    y = TARGETS[bad]
    expected = their_error_of_a_target(name, bad)
    assert expected is not None
    for target in (library.asarray(y), y):
        found = error_of(search(OURS, name).fit, library.asarray(ROWS), target)
        assert agrees(found, expected), (found, expected)


@pytest.mark.pairwise
@pytest.mark.parametrize("bad", ["other columns", "nan", "inf", "one axis", "no rows", "complex"])
@pytest.mark.parametrize("name", SEARCHES)
def test_bad_rows_to_predict_raise_the_errors_of_scikit_learn(name, bad, library):
    expected = their_error_of_rows_to_predict(name, bad)
    assert expected is not None
    ours = our_fitted_search(name, library)
    found = error_of(ours.predict, library.asarray(ARRAYS[bad]))
    assert agrees(found, expected), (found, expected)


class SparseOnGpu:
    """What tells a sparse matrix of cupyx, which is not asked for anything else."""

    __module__ = "cupyx.scipy.sparse._csr"
    shape, ndim, dtype, data = (6, 3), 2, np.dtype(float), np.ones(4)

    @property
    def device(self):
        raise NotImplementedError


@pytest.mark.parametrize(
    "name",
    [
        *("Binarizer", "KBinsDiscretizer", "MaxAbsScaler", "MinMaxScaler", "Normalizer"),
        *("OneHotEncoder", "OrdinalEncoder", "PolynomialFeatures", "PowerTransformer"),
        *("QuantileTransformer", "RobustScaler", "SplineTransformer", "StandardScaler"),
        "TargetEncoder",
    ],
)
def test_sparse_rows_of_a_gpu_are_refused_in_words(name):
    options = {"n_quantiles": 6} if name == "QuantileTransformer" else {}
    model, y = getattr(gpuml.preprocessing, name)(**options), np.arange(6) % 2
    with pytest.raises(TypeError, match=f"{name} takes only dense data there. Use X.toarray"):
        model.fit(SparseOnGpu(), y)
    model.fit(np.arange(18.0).reshape(6, 3) ** 2, y)
    with pytest.raises(TypeError, match="takes only dense data there"):
        model.transform(SparseOnGpu())


def test_codes_of_missing_categories_are_only_read():
    frame = pd.DataFrame({"a": ["x", None, "y"]})
    encoder = gpuml.preprocessing.OrdinalEncoder().fit(frame)
    codes = encoder.transform(frame)
    read_only = codes.copy()
    read_only.setflags(write=False)
    back = encoder.inverse_transform(read_only)
    assert list(back[[0, 2], 0]) == ["x", "y"]
    assert pd.isna(back[1, 0])
    encoder.inverse_transform(codes)
    np.testing.assert_array_equal(codes, read_only)

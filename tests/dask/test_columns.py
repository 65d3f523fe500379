"""Encoders, imputers and quantiles of rows on workers: those of one device, of text and holes too."""

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import gpuml.impute
import gpuml.preprocessing
import gpuml_dask.preprocessing
from gpuml.divided import InProcess
from gpuml.divided.quantiles import divided_quantiles, sorted_column
from gpuml.exceptions import GatheredWarning
from gpuml_dask.impute import SimpleImputer
from gpuml_dask.preprocessing import OneHotEncoder, OrdinalEncoder, RobustScaler

N = 90
KINDS = [
    ("float64", (90,)),
    ("float64", (1, 40, 49)),
    ("float32", (30, 30, 30)),
    ("int64", (1, 89)),
]


ON_ONE_WORKER = pytest.mark.filterwarnings("ignore:All .* rows go to one worker")


def numbers():
    """Numbers with holes, ties and a column of which only the last rows are known."""
    random = np.random.default_rng(0)
    X = random.normal(size=(N, 4))
    X[::4, 1] = np.nan
    X[:60, 2] = np.round(X[:60, 2])
    X[:80, 3] = np.nan
    return X


def texts():
    """Sorted categories, so that partitions lack some; text with holes; integers with holes."""
    random = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "kind": pd.Categorical(np.sort(np.asarray(list("abcd"))[random.integers(0, 4, N)])),
            "name": np.asarray(["u", "v", None], dtype=object)[random.integers(0, 3, N)],
            "size": pd.array(random.integers(0, 3, N), dtype="Int64"),
        }
    )


def alone(model):
    """gpuml's estimator with the same parameters."""
    module = gpuml.impute if isinstance(model, SimpleImputer) else gpuml.preprocessing
    return getattr(module, type(model).__name__)(**clone(model).get_params())


def dense(images):
    return images.toarray() if hasattr(images, "toarray") else images


def assert_same(model, there, here):
    """A model of rows on workers is that of one device, and so is what it makes of them."""
    model = clone(model).fit(there)
    other = alone(model).fit(here)
    assert vars(model).keys() == vars(other).keys()
    assert list(model.get_feature_names_out()) == list(other.get_feature_names_out())
    for name in ("statistics_", "center_", "scale_"):
        if getattr(other, name, None) is not None:
            mine, theirs = getattr(model, name), getattr(other, name)
            assert mine.dtype == theirs.dtype
            pd.testing.assert_series_equal(pd.Series(mine), pd.Series(theirs))
    for name in ("categories_", "infrequent_categories_"):
        for mine, theirs in zip(getattr(model, name, ()), getattr(other, name, ()), strict=True):
            told = [each if each is None else list(map(repr, each)) for each in (mine, theirs)]
            assert told[0] == told[1]  # of nan and None too
    images = model.transform(there)
    assert isinstance(images, da.Array)
    assert images.shape[1] == other.transform(here).shape[1]
    found, expected = (dense(each) for each in (images.compute(), other.transform(here)))
    assert found.dtype == expected.dtype
    pd.testing.assert_frame_equal(pd.DataFrame(found), pd.DataFrame(expected))


FILLS = [
    *(SimpleImputer(strategy=s) for s in ("mean", "median", "most_frequent", "constant")),
    SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True),
    pytest.param(SimpleImputer(strategy=np.max), id="a function", marks=ON_ONE_WORKER),
    RobustScaler(),
]


@pytest.mark.some
@pytest.mark.parametrize(("dtype", "chunks"), KINDS)
@pytest.mark.parametrize("model", FILLS, ids=str)
def test_statistics_are_those_of_one_device(client, model, dtype, chunks):
    X = numbers().astype(dtype) if dtype != "int64" else np.nan_to_num(5 * numbers()).astype(dtype)
    assert_same(model, da.from_array(X, chunks=(chunks, 2)), X)


def test_sums_take_arguments_of_any_size(client):
    # Bounds of some hundred kilobytes, others in each pass: Dask's scheduler fails at such keywords.
    X = np.random.default_rng(0).normal(size=(N, 50))
    assert_same(RobustScaler(), da.from_array(X, chunks=(40, 50)), X)


@pytest.mark.parametrize("model", [OneHotEncoder(), OrdinalEncoder()], ids=str)
def test_categories_may_be_of_half_precision(client, model):
    X = np.abs(np.round(numbers())).astype(np.float16)
    assert_same(model, da.from_array(X, chunks=(40, 4)), X)
    X = pd.DataFrame(X).set_axis(list("abcd"), axis=1)
    assert_same(model, dd.from_pandas(X, npartitions=3), X)


@pytest.mark.parametrize("strategy", ["mean", "median", "most_frequent", "constant"])
def test_any_number_stands_for_a_hole(client, strategy):
    X = np.round(np.nan_to_num(numbers()))
    model = SimpleImputer(strategy=strategy, missing_values=0, fill_value=7, add_indicator=True)
    assert_same(model, da.from_array(X, chunks=(40, 4)), X)


def own_categories(part):
    return part.assign(kind=part["kind"].astype(object).astype("category"))


FRAMES = {
    "known": lambda X: X,
    "unknown": lambda X: X.assign(kind=X["kind"].cat.as_unknown()),
    "others in each partition": lambda X: X.map_partitions(own_categories),
    "an empty partition": lambda X: dd.concat([X.query("size > 9"), X]),
    "categories of strings": lambda X: X.assign(name=X["name"].astype("category")),
}
ENCODERS = [
    OneHotEncoder(),
    OneHotEncoder(drop="first", sparse_output=False),
    OneHotEncoder(min_frequency=25, handle_unknown="infrequent_if_exist"),
    OneHotEncoder(categories=[list("abcde"), ["u", "v", np.nan], [0, 1, 2]], min_frequency=0.2),
    OrdinalEncoder(),
    OrdinalEncoder(max_categories=3, encoded_missing_value=-1),
    SimpleImputer(strategy="most_frequent"),
    SimpleImputer(strategy="constant", fill_value="none"),
]


@pytest.mark.some
@pytest.mark.parametrize("kind", FRAMES)
@pytest.mark.parametrize("model", ENCODERS, ids=str)
def test_tables_of_text_and_categories(client, model, kind):
    lazy = FRAMES[kind](dd.from_pandas(texts(), npartitions=4))
    if isinstance(model, SimpleImputer):
        lazy = lazy[["kind", "name"]]
    assert_same(model, lazy, lazy.compute())


@pytest.mark.parametrize("model", [OneHotEncoder(), OrdinalEncoder(min_frequency=20)], ids=str)
@pytest.mark.parametrize("kind", ["float", "bool", "str", "object", "None"])
def test_encoders_of_arrays(client, model, kind):
    codes = np.random.default_rng(2).integers(0, 3, (N, 2))
    levels = {
        "float": np.asarray([0.5, np.nan, 2.0]),
        "bool": np.asarray([True, False, True]),
        "str": np.asarray(["a", "bcd", "ab"]),
        "object": np.asarray(["a", np.nan, "ab"], dtype=object),
        "None": np.asarray(["a", np.nan, None], dtype=object),
    }
    X = levels[kind][codes]
    assert_same(model, da.from_array(X, chunks=((1, 40, 49), 1)), X)


def test_objects_that_are_no_values_are_refused_as_on_one_device(client):
    """As dask has holes of text, once it is of objects."""
    lazy = dd.from_pandas(texts()[["name"]], npartitions=4).astype(object)
    for encoder in (OneHotEncoder(), OrdinalEncoder()):
        with pytest.raises(TypeError, match="NAType"):
            alone(encoder).fit(lazy.compute())
        with pytest.raises(TypeError, match="NAType"):
            encoder.fit(lazy)


@pytest.mark.parametrize("encoder", [OneHotEncoder(), OrdinalEncoder()], ids=str)
def test_images_are_undone_whatever_partitions_lack(client, encoder):
    lazy = FRAMES["an empty partition"](dd.from_pandas(texts(), npartitions=4))[["kind", "name"]]
    undone = encoder.fit(lazy).inverse_transform(encoder.transform(lazy)).compute()
    pd.testing.assert_frame_equal(
        pd.DataFrame(undone).astype(str),
        pd.DataFrame(texts()[["kind", "name"]].to_numpy()).astype(str),
    )


def test_weights_of_rows_are_repetitions_of_values(client):
    X = texts()[["kind", "size"]]
    twice = pd.concat([X, X])
    model = OneHotEncoder(min_frequency=50).fit(dd.from_pandas(twice, npartitions=3, sort=False))
    once = OneHotEncoder(min_frequency=25).fit(dd.from_pandas(X, npartitions=3))
    for mine, theirs in zip(model.infrequent_categories_, once.infrequent_categories_, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_unknown_categories_are_known_when_blocks_are_computed(client):
    X = texts()[["kind"]].astype(str)
    there, other = (dd.from_pandas(x, npartitions=3) for x in (X, X.replace("d", "e")))
    encoder = OneHotEncoder(handle_unknown="ignore").fit(there)
    n_known = int((X["kind"] != "d").sum())
    assert encoder.transform(other).compute().sum() == n_known
    strict = OneHotEncoder().fit(there).transform(other)
    with pytest.raises(ValueError, match="Found unknown categories"):
        strict.compute()


def of_infinity(X):
    X = X.copy()
    X[70, 0] = np.inf
    return X


def of_text(X):
    return np.where(np.isnan(X), "x", "y").astype(object)


def of_text_and_nan(X):
    return np.where(np.isnan(X), np.nan, of_text(X))


@ON_ONE_WORKER
@pytest.mark.parametrize(
    ("model", "change", "error"),
    [
        (SimpleImputer(), of_infinity, "infinity"),
        (SimpleImputer(strategy="median"), lambda X: X[:, 0], "Expected 2D array"),
        (SimpleImputer(missing_values=-1), lambda X: X, "contains NaN.\nSimpleImputer does not"),
        (SimpleImputer(missing_values=-1), of_text_and_nan, "Cannot use mean strategy with non"),
        (SimpleImputer(strategy="mean"), of_text, "non-numeric"),
        (SimpleImputer(strategy="most"), lambda X: X, "'strategy' parameter"),
        (RobustScaler(quantile_range=(90.0, 10.0)), lambda X: X, "Invalid quantile range"),
        (OneHotEncoder(categories=[[1.0]] * 4), lambda X: X, "Found unknown categories"),
        (OrdinalEncoder(), lambda X: X[:, :0], "0 feature"),
        (OrdinalEncoder(), lambda X: X.astype(complex), "Complex data not supported"),
        (RobustScaler(), lambda X: X.astype(complex), "Complex data not supported"),
        (SimpleImputer(), lambda X: X.astype(complex), "Complex data not supported"),
    ],
    ids=[
        *(
            "infinity",
            "one axis",
            "nan",
            "text and nan",
            "text",
            "parameter",
            "range",
            "unknown",
            "no features",
        ),
        *("complex codes", "complex quantiles", "complex sums"),
    ],
)
def test_what_is_refused_changes_nothing(client, model, change, error):
    model = clone(model)
    X = change(numbers())
    with pytest.raises(ValueError, match=error):
        model.fit(da.from_array(X, chunks=(40, *X.shape[1:])))
    assert not [name for name in vars(model) if name.endswith("_")]


def test_sparse_rows_go_to_one_worker(client):
    X = np.round(np.nan_to_num(numbers()))
    sparse = pytest.importorskip("scipy.sparse")
    rows = da.from_array(X, chunks=(40, 4)).map_blocks(sparse.csr_matrix)
    with pytest.warns(GatheredWarning, match="go to one worker to fit SimpleImputer: Sparse rows"):
        model = SimpleImputer(missing_values=-1).fit(rows)
    other = gpuml.impute.SimpleImputer(missing_values=-1).fit(sparse.csr_matrix(X))
    np.testing.assert_allclose(model.statistics_, other.statistics_)


@pytest.mark.parametrize("seed", range(5))
def test_quantiles_of_pieces_are_those_of_all(seed):
    random = np.random.default_rng(seed)
    scales = 10.0 ** random.integers(-300, 300, (200, 3))
    X = random.normal(size=(200, 3)) * scales
    X[:50, 1] = random.integers(-1, 2, 50) * 0.0
    cuts = np.sort(random.integers(0, 200, 3))
    pieces = [[sorted_column(part[:, j]) for j in range(3)] for part in np.split(X, cuts)]
    levels = [0.0, 0.1, 0.25, 0.5, 0.77, 1.0]
    found = divided_quantiles(InProcess(pieces), np.full(3, 200), levels)
    np.testing.assert_allclose(found, np.quantile(X, levels, axis=0), rtol=1e-14)


def test_blocks_that_lack_a_column_are_inverted_as_all_rows():
    X = numbers()  # of the last column only the last rows are known
    model = SimpleImputer(add_indicator=True).fit(X)
    images = da.from_array(model.transform(X), chunks=(40, -1))
    there = model.inverse_transform(images).compute(scheduler="threads")
    np.testing.assert_array_equal(there, X)


ODD_COLUMNS = {
    "categories of bools": {"a": pd.Categorical([True, None, False, True, True, False])},
    "categories of bools and text": {
        "a": pd.Categorical([True, None, False, True, True, False]),
        "b": pd.array(["u", "v", "u", "v", "u", "u"], dtype="str"),
    },
    "objects and integers with holes": {
        "a": pd.Series([1, 2, 3, None, 5, 6], dtype=object),
        "b": pd.array([None, 1, 1, 2, None, 0], dtype="Int64"),
    },
    "numbers of Arrow": {"a": pd.array([0.5, None, 1, 2, 3, 4], dtype="double[pyarrow]")},
    "strings of Arrow": {
        "a": pd.array(["u", None, "v", "u", "v", "u"], dtype="string[pyarrow]"),
        "b": pd.array(["x", "y"] * 3, dtype="str"),
    },
}
OF_ODD_COLUMNS = [
    ("categories of bools", OrdinalEncoder()),
    ("categories of bools and text", SimpleImputer(strategy="most_frequent")),
    ("objects and integers with holes", SimpleImputer()),
    ("objects and integers with holes", SimpleImputer(strategy="median")),
    ("numbers of Arrow", gpuml_dask.preprocessing.StandardScaler()),
    ("numbers of Arrow", gpuml_dask.preprocessing.MinMaxScaler()),
    ("strings of Arrow", SimpleImputer(strategy="most_frequent", missing_values=pd.NA)),
    ("strings of Arrow", SimpleImputer(strategy="constant", missing_values=pd.NA)),
]


@ON_ONE_WORKER
@pytest.mark.parametrize(("columns", "model"), OF_ODD_COLUMNS, ids=str)
def test_odd_columns_are_fitted_as_on_one_device(client, columns, model):
    X = pd.DataFrame(ODD_COLUMNS[columns])
    with dask.config.set({"dataframe.convert-string": False}):
        lazy = dd.from_pandas(X, npartitions=3)
    found, there = clone(model).fit(X), clone(model).fit(lazy)
    for each in ("categories_", "statistics_", "mean_", "data_min_"):
        for one, other in zip(getattr(found, each, ()), getattr(there, each, ()), strict=True):
            np.testing.assert_array_equal(one, other)
            assert np.asarray(one).dtype == np.asarray(other).dtype
            assert type(one) is type(other)
    images = there.transform(lazy).compute()
    np.testing.assert_array_equal(images.astype(str), found.transform(X).astype(str))


def test_bools_are_numbers_to_means(client):
    X = np.arange(12).reshape(6, 2) % 3 > 0
    model = SimpleImputer().fit(da.from_array(X, chunks=(2, 2)))
    np.testing.assert_allclose(model.statistics_, X.mean(axis=0))


ODD_CODES = {  # what gives objects only where there are such categories
    "unknown": OneHotEncoder(handle_unknown="ignore"),
    "rare": OneHotEncoder(min_frequency=2),
    "rare or unknown": OneHotEncoder(min_frequency=2, handle_unknown="infrequent_if_exist"),
    "unknown codes": OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
    "rare codes": OrdinalEncoder(min_frequency=2),
}


@pytest.mark.parametrize("sizes", [(0, 4, 2), (4, 2)])
@pytest.mark.parametrize("model", ODD_CODES.values(), ids=ODD_CODES)
def test_inverted_codes_have_one_dtype_in_all_blocks(model, sizes):
    X = np.asarray([[1.0, 7.0], [1.0, 7.0], [2.0, 7.0], [2.0, 7.0], [3.0, 7.0], [2.0, 7.0]])
    model = clone(model).fit(X if model.min_frequency else X[:4])
    images = dense(model.transform(X))
    back = model.inverse_transform(da.from_array(images, chunks=(sizes, -1)))
    found = back.compute(scheduler="threads")
    assert back.dtype == found.dtype == object
    np.testing.assert_array_equal(found, model.inverse_transform(images))


def test_inverted_codes_of_one_category_have_the_dtype_of_all_blocks(client):
    X = pd.DataFrame({"a": [np.nan] * 6, "b": ["x", "y"] * 3})
    lazy = dd.concat([dd.from_pandas(X, npartitions=2).query("b == 'none'"), X])
    model = OrdinalEncoder().fit(X)
    back = model.inverse_transform(model.transform(lazy))
    assert back.dtype == back.compute().dtype == object

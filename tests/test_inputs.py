"""Every kind of input gives what the tables of `docs/inputs.md` say."""

import sys
import types
import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.utils._set_output import ADAPTERS_MANAGER

from gpuml._arrays import moves
from gpuml._arrays.frames import from_cudf
from gpuml._inputs.output import CudfAdapter
from gpuml.decomposition import PCA
from gpuml.linear_model import LogisticRegression, Ridge
from gpuml.model_selection import GridSearchCV
from gpuml.pipeline import make_pipeline
from gpuml.preprocessing import StandardScaler
from tests.inputs_kinds import OUTPUTS, REFUSED, ROWS, TARGETS
from tests.inputs_page import page
from tests.inputs_table import (
    NAMES,
    PAGE,
    estimators,
    expected_of_output,
    expected_of_rows,
    expected_of_target,
    labels,
    numbers,
    outcome_of_output,
    outcome_of_target,
    outcomes_of_rows,
    outputs,
    places,
    target,
)


def _params(kinds, columns_of=lambda kind: ()):
    """Kinds with all that they are to be tried with; without a library or a GPU they are skipped."""
    found = []
    for kind in kinds:
        for column in columns_of(kind) or [None]:
            of_x = [columns_of(kind)[column]] if isinstance(columns_of(kind), dict) else []
            missing = next(filter(None, (each.missing() for each in (kind, *of_x))), "")
            marks = [pytest.mark.gpu] * kind.needs_gpu
            marks += [pytest.mark.skip(reason=missing)] if missing else []
            values = (kind,) if column is None else (kind, column)
            name = kind.name if column is None else f"{kind.name}, {column}"
            found.append(pytest.param(*values, id=name, marks=marks))
    return found


# Values that are not NumPy's, and rows that were written to, are outcomes too.
@pytest.mark.some
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
@pytest.mark.parametrize("kind", _params([*ROWS, *REFUSED]))
def test_rows_give_what_the_rules_say(kind):
    assert outcomes_of_rows(kind) == expected_of_rows(kind)


@pytest.mark.parametrize(("kind", "where"), _params(TARGETS, places))
def test_targets_give_what_the_rules_say(kind, where):
    assert outcome_of_target(kind, where) == expected_of_target(kind, where)


@pytest.mark.parametrize(("kind", "what"), _params(OUTPUTS, outputs))
def test_set_output_gives_what_the_rules_say(kind, what):
    assert outcome_of_output(kind, what) == expected_of_output(kind, what)


def test_the_page_is_written_from_the_rules():
    text = PAGE.read_text()
    assert page(text) == text, "Run python -m tests.inputs_page."


def test_exceptions_are_of_estimators_that_there_are():
    names = {name for name, _ in estimators()}
    for kind in (*ROWS, *REFUSED):
        assert set(kind.but) <= names
        # What the rule says needs no exception.
        plain = expected_of_rows(replace(kind, but={}))
        assert not set(kind.but.items()) & set(plain.items())


# ---------------------------------------------------------------- words of errors


def frame(**columns):
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame(numbers(), columns=NAMES).assign(**columns)


@pytest.mark.parametrize("estimator", [Ridge(), LogisticRegression(), PCA()], ids=str)
@pytest.mark.parametrize(
    ("column", "error", "words"),
    [
        (["u", "v"] * 15, ValueError, "Column 'b' is not numeric"),
        (np.arange(30).astype("M8[ns]"), TypeError, "Column 'b' holds dates or times"),
        ([np.nan, *range(29)], ValueError, "Column 'b' has (missing|such) values"),
        (
            [np.inf, *range(29)],
            ValueError,
            "infinity(.|\n)*Column 'b' has (infinite|such) values",
        ),
    ],
    ids=["strings", "dates", "nan", "inf"],
)
def test_errors_name_the_column(estimator, column, error, words):
    X = frame(b=column)
    with pytest.raises(error, match=words):
        estimator.fit(X, labels())
    estimator.fit(frame(), labels())
    method = getattr(estimator, "predict", None) or estimator.transform
    with pytest.raises(error, match=words):
        method(X)


def test_many_columns_are_not_all_named():
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(np.full((4, 9), np.nan), columns=list("abcdefghi"))
    with pytest.raises(ValueError, match="'e' and 4 more"):
        Ridge().fit(X, np.arange(4.0))


def test_categories_that_are_numbers_count_as_numbers():
    pandas = pytest.importorskip("pandas")
    X = frame()
    same = X.assign(b=pandas.Categorical(X["b"]))
    np.testing.assert_allclose(
        Ridge().fit(same, target()).coef_, Ridge().fit(X, target()).coef_, rtol=1e-9
    )


def test_the_error_of_device_rows_tells_columns_by_number(library):
    X = numbers()
    X[3, 2] = np.nan
    with pytest.raises(ValueError, match=r"NaN(.|\n)*Column 2 has such values"):
        Ridge().fit(library.asarray(X), library.asarray(target()))


def test_masked_elements_are_refused_and_masks_of_none_are_not():
    X = np.ma.masked_array(numbers(), mask=np.zeros((30, 4), dtype=bool))
    Ridge().fit(X, target())
    X[2, 1] = np.ma.masked
    with pytest.raises(ValueError, match="Masked elements"):
        Ridge().fit(X, target())


# ---------------------------------------------------------------- tensors


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn"])
def test_half_precision_is_computed_in_float32(dtype):
    torch = pytest.importorskip("torch")
    half = torch.from_numpy(numbers()).to(getattr(torch, dtype))
    found = Ridge().fit(half, torch.from_numpy(target()))
    expected = Ridge().fit(half.float(), torch.from_numpy(target()))
    assert found.coef_.dtype == torch.float32
    assert torch.equal(found.predict(half), expected.predict(half.float()))


def test_models_do_not_hold_gradients():
    torch = pytest.importorskip("torch")
    X = torch.from_numpy(numbers()).requires_grad_()
    model = PCA(2).fit(X)
    assert not model.components_.requires_grad
    assert not model.transform(X).requires_grad
    assert X.requires_grad


def test_rows_with_a_gradient_are_not_written_to():
    torch = pytest.importorskip("torch")
    X = torch.from_numpy(numbers()).requires_grad_()
    StandardScaler().fit(X).transform(X)
    np.testing.assert_array_equal(X.detach().numpy(), numbers())


# ---------------------------------------------------------------- CUDA arrays of other libraries


class CudaArray:
    """What numba and others show of an array on a GPU."""

    def __init__(self, x):
        self.x = x

    @property
    def __cuda_array_interface__(self):
        return {"shape": self.x.shape, "typestr": "<f8", "data": (0, True), "version": 3}


def test_cuda_arrays_of_other_libraries_are_handed_to_cupy(monkeypatch):
    strict = pytest.importorskip("array_api_strict")
    stand_in = types.SimpleNamespace(asarray=lambda found: strict.asarray(found.x))
    monkeypatch.setattr(moves, "import_cupy", lambda: stand_in)
    predicted = Ridge().fit(CudaArray(numbers()), target()).predict(CudaArray(numbers()))
    assert type(predicted).__module__.startswith("array_api_strict")


class CudaDLPack:
    """An array on a GPU with nothing but the DLPack protocol."""

    def __init__(self, x):
        self.x = x

    def __dlpack__(self, **options):
        raise AssertionError("NumPy cannot read this.")

    def __dlpack_device__(self):
        return (2, 0)


def test_dlpack_of_a_gpu_is_handed_to_cupy(monkeypatch):
    strict = pytest.importorskip("array_api_strict")
    stand_in = types.SimpleNamespace(from_dlpack=lambda found: strict.asarray(found.x))
    monkeypatch.setattr(moves, "import_cupy", lambda: stand_in)
    predicted = Ridge().fit(CudaDLPack(numbers()), target()).predict(CudaDLPack(numbers()))
    assert type(predicted).__module__.startswith("array_api_strict")


# ---------------------------------------------------------------- cuDF, as far as pandas can act it


class ActedColumn:
    """A pandas series that hands out arrays of a device NumPy cannot read, as cuDF does."""

    def __init__(self, series, plain=False):
        self.series, self.plain = series, plain

    @property
    def dtype(self):
        dtype = self.series.dtype
        return getattr(dtype, "numpy_dtype", dtype) if self.plain else dtype

    @property
    def null_count(self):
        return int(self.series.isna().sum())

    def to_cupy(self):
        if self.null_count:
            raise ValueError("Column must have no nulls.")
        if hasattr(self.dtype, "numpy_dtype"):
            raise TypeError(f"Cannot interpret '{self.dtype!r}' as a data type")
        return on_device(self.series.to_numpy(dtype=self.dtype))

    def to_pandas(self):
        return self.series

    def head(self, n):
        return ActedColumn(self.series.head(n))

    def factorize(self):
        codes, names = self.series.factorize()
        return on_device(codes), names

    @property
    def cat(self):
        codes, categories = self.series.cat.codes, self.series.cat.categories
        codes = codes.astype("Int8").mask(codes < 0)  # cuDF has nulls where pandas has -1
        return types.SimpleNamespace(codes=ActedColumn(codes, plain=True), categories=categories)

    def astype(self, dtype):
        dtype = {"bool": "boolean", "uint8": "UInt8"}.get(dtype, dtype.capitalize())
        return ActedColumn(self.series.astype(dtype), plain=True)

    def fillna(self, value):
        return ActedColumn(self.series.fillna(value), self.plain)

    def isna(self):
        return ActedColumn(self.series.isna())


class ActedFrame:
    """The same for frames; like cuDF's, it makes no matrix of bools beside other numbers."""

    def __init__(self, frame):
        self.frame = frame

    @property
    def columns(self):
        return self.frame.columns

    def __len__(self):
        return len(self.frame)

    def __getitem__(self, name):
        return ActedColumn(self.frame[name])

    def to_cupy(self):
        (dtype,) = {self[name].dtype for name in self.columns}
        return on_device(self.frame.to_numpy(dtype=dtype))

    def to_pandas(self):
        return self.frame


def on_device(x):
    strict = pytest.importorskip("array_api_strict")
    return strict.asarray(x, device=strict.Device("device1"), copy=True)


def acted(**columns):
    return ActedFrame(frame(**columns))


def test_names_of_columns_are_kept():
    model = Ridge().fit(acted(), target())
    assert model.feature_names_in_.tolist() == NAMES
    assert StandardScaler().fit(acted()).get_feature_names_out().tolist() == NAMES


def test_columns_in_another_order_are_refused():
    model = Ridge().fit(acted(), target())
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(ActedFrame(frame()[NAMES[::-1]]))


def test_arrays_after_a_frame_are_warned_about():
    model = Ridge().fit(acted(), target())
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.predict(on_device(numbers()))


def test_names_go_with_their_array():
    from gpuml._arrays import frames as _frames

    array = from_cudf(acted())
    assert _frames.was_frame(array)
    key = id(array)
    del array
    assert key not in _frames._names


@pytest.mark.parametrize(
    "model",
    [
        GridSearchCV(Ridge(), {"alpha": [0.1, 1.0]}, cv=3),
        make_pipeline(StandardScaler(), Ridge()),
        GridSearchCV(
            make_pipeline(StandardScaler(), PCA(2), Ridge()), {"ridge__alpha": [0.1, 1.0]}, cv=3
        ),
    ],
    ids=["search", "pipeline", "search of a pipeline"],
)
def test_searches_and_pipelines_take_frames_without_warnings(model):
    predicted = model.fit(acted(), target()).predict(acted())
    expected = model.fit(numbers(), target()).predict(numbers())
    np.testing.assert_allclose(moves.to_host(predicted), expected, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["Int64", "Float64", "Float32"])
def test_missing_values_become_nan(dtype):
    X = frame().astype(dtype)
    X.iloc[3, 1] = None
    found = moves.to_host(from_cudf(ActedFrame(X)))
    assert found.dtype == (np.float32 if dtype == "Float32" else np.float64)
    expected = numbers()
    expected[3, 1] = np.nan
    np.testing.assert_array_equal(found, expected)
    with pytest.raises(ValueError, match="NaN(.|\n)*Column 'b' has such values"):
        Ridge().fit(ActedFrame(X), target())


@pytest.mark.parametrize(
    "dtypes",
    [
        {"a": "bool", "b": "float32", "c": "int64"},
        {"a": "boolean", "b": "Float32", "c": "Int64"},
        dict.fromkeys("abcd", "Int64"),
    ],
)
def test_columns_of_several_dtypes_become_one_matrix(dtypes):
    """Those of pandas for numbers beside NA too, without any NA."""
    X = (frame() % 2).astype(dtypes)
    found = moves.to_host(from_cudf(ActedFrame(X)))
    assert found.dtype == (np.int64 if len(set(dtypes.values())) == 1 else np.float64)
    np.testing.assert_array_equal(found, numbers() % 2)


def test_strings_are_read_on_the_host():
    X = acted(b=["u", "v"] * 15)
    with pytest.raises(ValueError, match="Column 'b' is not numeric"):
        Ridge().fit(X, target())
    pandas = pytest.importorskip("pandas")
    words = ActedColumn(pandas.Series(np.where(labels() > 0, "u", "v")))
    model = LogisticRegression().fit(acted(), words)
    assert set(model.predict(acted())) == {"u", "v"}


# ---------------------------------------------------------------- set_output("cudf")


@pytest.fixture
def pandas_as_cudf(monkeypatch):
    """pandas in the place of cuDF, whose frames have the same methods here."""
    pandas = pytest.importorskip("pandas")
    monkeypatch.setitem(sys.modules, "cudf", pandas)
    return pandas


def test_scikit_learn_knows_the_adapter():
    assert isinstance(ADAPTERS_MANAGER.adapters["cudf"], CudfAdapter)


def test_results_come_as_frames_with_names_and_index(pandas_as_cudf):
    X = frame().set_index(np.arange(30) * 10)
    for estimator in (StandardScaler(), PCA(2), make_pipeline(StandardScaler(), PCA(2))):
        result = estimator.set_output(transform="cudf").fit_transform(X)
        assert isinstance(result, pandas_as_cudf.DataFrame)
        assert list(result.columns) == list(estimator.get_feature_names_out())
        assert list(result.index) == list(X.index)


def test_half_precision_becomes_float32_in_a_frame(pandas_as_cudf):
    scaler = StandardScaler().set_output(transform="cudf")
    assert set(scaler.fit_transform(numbers().astype(np.float16)).dtypes) == {np.dtype(np.float32)}


def test_frames_are_joined_side_by_side(pandas_as_cudf):
    from gpuml.compose import ColumnTransformer

    both = ColumnTransformer([("s", StandardScaler(), ["a", "b"]), ("p", PCA(1), ["c", "d"])])
    result = both.set_output(transform="cudf").fit_transform(frame())
    assert list(result.columns) == ["s__a", "s__b", "p__pca0"]


@pytest.mark.skipif("cudf" in sys.modules, reason="cuDF is installed")
def test_without_cudf_the_error_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "cudf", None)
    with pytest.raises(ImportError, match="requires cudf"):
        StandardScaler().set_output(transform="cudf").fit_transform(numbers())


# ---------------------------------------------------------------- JAX


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_jax_takes_results_without_a_copy_of_ours(dtype):
    jnp = pytest.importorskip("jax.numpy")
    X = jnp.asarray(numbers(), dtype=dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        predicted = Ridge().fit(X, target()).predict(X)
    assert jnp.asarray(predicted).dtype == jnp.float32

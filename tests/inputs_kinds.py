"""The kinds of input of the tables in `docs/inputs.md`. A kind more is a line more."""

import numpy as np
from scipy import sparse

from tests.inputs_table import N_ROWS, NAMES, Kind, bits, labels, numbers, target
from tests.travelled import travelled


class HostDLPack:
    """Nothing but the DLPack protocol."""

    def __init__(self, x):
        self.x = x

    def __dlpack__(self, **options):
        return self.x.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.x.__dlpack_device__()


# ---------------------------------------------------------------- makers


def bfloat16(x):
    """NumPy with a dtype of the package ml_dtypes."""
    import ml_dtypes

    return x.astype(ml_dtypes.bfloat16)


def strided(x):
    """A view with gaps between rows and columns."""
    return np.repeat(np.repeat(x, 2, axis=0), 2, axis=1)[::2, ::2]


def read_only(x):
    """An array that cannot be written to."""
    x = x.copy()
    x.flags.writeable = False
    return x


def pandas(dtype="float64", **columns):
    """A maker of pandas frames with an index of its own."""

    def make(x):
        import pandas as pd

        index = np.arange(len(x))[::-1] * 10
        return pd.DataFrame(x, columns=NAMES, index=index).astype(dtype).assign(**columns)

    return make


def sparse_columns(x):
    """A pandas frame that stores what is not 0."""
    import pandas as pd

    return pandas(pd.SparseDtype("float64", 0))(x)


def with_missing(dtype):
    """A maker of pandas frames that lack a value in column b."""

    def make(x):
        frame = pandas(dtype)(x)
        frame.iloc[3, 1] = None
        return frame

    return make


def polars(dtype="Float64", **columns):
    """A maker of polars frames."""

    def make(x):
        import polars as pl

        frame = pl.DataFrame({name: x[:, j] for j, name in enumerate(NAMES)})
        frame = frame.cast(getattr(pl, dtype))
        return frame.with_columns(**{n: pl.Series(v) for n, v in columns.items()})

    return make


def arrow(dtype="float64", **columns):
    """A maker of Arrow tables, each column in two chunks."""

    def make(x):
        import pyarrow as pa

        table = pa.Table.from_pandas(pandas(dtype, **columns)(x), preserve_index=False)
        return pa.concat_tables([table[:10], table[10:]])

    return make


def torch(dtype="float64", device="cpu"):
    """A maker of tensors."""

    def make(x):
        import torch as library

        return library.from_numpy(x.copy()).to(device=device, dtype=getattr(library, dtype))

    return make


def jax(dtype, platform="cpu"):
    """A maker of arrays of JAX; what it makes of 64 bits depends on its settings."""

    def make(x):
        import jax.numpy as jnp
        from jax import devices

        return jnp.asarray(x, dtype=dtype, device=devices(platform)[0])

    return make


def strict(x):
    """array-api-strict."""
    import array_api_strict

    return array_api_strict.asarray(x)


def cupy(dtype="float64", order="C"):
    """A maker of CuPy arrays."""

    def make(x):
        import cupy as library

        return library.asarray(x.astype(dtype), order=order)

    return make


def cupy_strided(x):
    """A view with gaps on a GPU."""
    return cupy()(np.repeat(x, 2, axis=0))[::2]


def numba(x):
    """A device array of numba."""
    from numba import cuda

    return cuda.to_device(np.ascontiguousarray(x))


def cudf(dtype="float64", missing=False, **columns):
    """A maker of cuDF frames with an index of its own."""

    def make(x):
        import cudf as library

        frame = pandas(dtype, **columns)(x)
        frame = with_missing(dtype)(x) if missing else frame
        return library.from_pandas(frame)

    return make


def cupyx_csr(x):
    """CSR on a GPU."""
    import cupyx.scipy.sparse as library

    return library.csr_matrix(cupy()(x))


def series(dtype=None):
    """A maker of pandas series with an index of its own."""

    def make(y):
        import pandas as pd

        return pd.Series(y, index=np.arange(len(y))[::-1], dtype=dtype)

    return make


def letters(y):
    """Labels as strings."""
    return np.where(y > 0, "u", "v")


def polars_series(y):
    """A series of polars."""
    import polars as pl

    return pl.Series(y)


def arrow_chunks(y):
    """A chunked array of Arrow."""
    import pyarrow as pa

    return pa.chunked_array([y[:10], y[10:]])


def cudf_series(y):
    """A series of cuDF."""
    import cudf as library

    return library.Series(y)


# ---------------------------------------------------------------- tables

# Sparse rows have solvers of their own, which stop elsewhere.
SOLVERS = 5e-3
WORDS = ["u", "v"] * (N_ROWS // 2)
DAYS = np.arange(N_ROWS).astype("datetime64[D]").astype("datetime64[ms]")

# What estimators make of rows that are as in scikit-learn, but for the words of errors.
SCALERS = [
    *("MaxAbsScaler", "MinMaxScaler", "PolynomialFeatures", "SimpleImputer", "StandardScaler"),
]
SCALED_16 = dict.fromkeys(
    [*SCALERS, "Binarizer", "Normalizer", "RobustScaler", "SplineTransformer"], "NumPy float16"
)
# scikit-learn's likelihoods of float16 are no more than that.
SCALED_16 |= {
    "PowerTransformer": "NumPy float16, OTHER VALUES",
    "QuantileTransformer": "NumPy float16",
}
NAMED, DATED = "ValueError, names the column", "TypeError, names the column"
ENCODERS = dict.fromkeys(["OneHotEncoder", "OrdinalEncoder", "TargetEncoder"], "NumPy float64")
FLAGS = {"MissingIndicator": "NumPy bool"}
CODES = {**ENCODERS, **FLAGS}
# Some libraries' strings are an array of objects, in which NumPy finds no numbers.
OBJECTS = dict.fromkeys(["KBinsDiscretizer", "SplineTransformer"], "TypeError, names the column")
DATES = {**ENCODERS, **FLAGS, "GridSearchCV": NAMED}
HOLES = {
    **dict.fromkeys(["MaxAbsScaler", "MinMaxScaler", "SimpleImputer"], "NumPy float64"),
    **dict.fromkeys(["RobustScaler", "StandardScaler"], "NumPy float64"),
    **dict.fromkeys(["PowerTransformer", "QuantileTransformer"], "NumPy float64"),
    **ENCODERS,
    **FLAGS,
    "Pipeline": "ValueError",
}
DENSE_ONLY = dict.fromkeys(
    [
        *("EmpiricalCovariance", "FactorAnalysis", "LedoitWolf", "OAS", "ShrunkCovariance"),
        *("GaussianMixture", "GaussianProcessClassifier", "GaussianProcessRegressor"),
        *("CCA", "PLSCanonical", "PLSRegression", "PLSSVD"),
    ],
    "TypeError",
)
OF_PATHS = [
    *("ARDRegression", "Lars", "LarsCV", "LassoLars", "LassoLarsCV", "LassoLarsIC"),
    *("OrthogonalMatchingPursuit", "OrthogonalMatchingPursuitCV"),
    *("BandedRidge", "BandedRidgeCV"),
]
MULTI_TASK = [f"MultiTask{kind}{cv}" for kind in ("ElasticNet", "Lasso") for cv in ("", "CV")]
SPARSE = {
    **dict.fromkeys(["Binarizer", "MaxAbsScaler", "Normalizer"], "SciPy sparse float64"),
    "MissingIndicator": "SciPy sparse bool",
    **dict.fromkeys(["PolynomialFeatures", "SimpleImputer"], "SciPy sparse float64"),
    **dict.fromkeys(
        ["BayesianRidge", "KBinsDiscretizer", "MinMaxScaler", "SplineTransformer"], "TypeError"
    ),
    "PowerTransformer": "TypeError",
    "QuantileTransformer": "SciPy sparse float64",
    **dict.fromkeys([*ENCODERS, *OF_PATHS], "TypeError"),
    **dict.fromkeys(["Pipeline", "RobustScaler", "StandardScaler"], "ValueError"),
    **DENSE_ONLY,
    **dict.fromkeys(
        [f"{kind}DiscriminantAnalysis" for kind in ("Linear", "Quadratic")], "TypeError"
    ),
}
SPARSE_ON_GPU = {
    **DENSE_ONLY,
    **dict.fromkeys(["CCA", "PLSCanonical", "PLSRegression"], "ValueError"),
    **dict.fromkeys(["ElasticNet", "ElasticNetCV", "Lasso", "LassoCV", "RidgeCV"], "ValueError"),
    **dict.fromkeys(["KernelRidge", "LinearRegression", "RidgeClassifier"], "ValueError"),
    "LogisticRegressionCV": "ValueError",
    **dict.fromkeys(["Normalizer", "Pipeline", "PolynomialFeatures", *ENCODERS], "TypeError"),
    **dict.fromkeys(
        ["Binarizer", "KBinsDiscretizer", "MissingIndicator", "RobustScaler", "SplineTransformer"],
        "TypeError",
    ),
    **dict.fromkeys(["PowerTransformer", "QuantileTransformer", "SimpleImputer"], "TypeError"),
    **dict.fromkeys(["MaxAbsScaler", "MinMaxScaler", "StandardScaler"], "TypeError"),
    **dict.fromkeys(["HuberRegressor", "QuantileRegressor", "RidgeClassifierCV"], "ValueError"),
    **dict.fromkeys(["IncrementalPCA", "QuadraticDiscriminantAnalysis"], "TypeError"),
    **dict.fromkeys(["BayesianRidge", "LinearDiscriminantAnalysis"], "ValueError"),
    **dict.fromkeys([*OF_PATHS, *MULTI_TASK], "ValueError"),
    **dict.fromkeys(["BandedRidge", "BandedRidgeCV"], "TypeError"),
}

# Rows in CPU memory that scikit-learn leaves what they are.
LONG = f"NumPy {np.dtype(np.longdouble).name}"
INTEGERS = {"Binarizer": "NumPy int64"}
NO_BOOLS = {"MissingIndicator": "ValueError"}
BOOLS = {"Binarizer": "NumPy bool", "KBinsDiscretizer": "TypeError", **NO_BOOLS}

ROWS = [
    Kind("NumPy float64", np.array),
    Kind("NumPy float32", lambda x: x.astype(np.float32), dtype="float32"),
    Kind("NumPy float16", lambda x: x.astype(np.float16), but=SCALED_16, tolerance=2e-2),
    Kind("NumPy longdouble", lambda x: x.astype(np.longdouble), but={"Binarizer": LONG}),
    Kind("NumPy int64", lambda x: x.astype(np.int64), but=INTEGERS),
    Kind("NumPy uint8", lambda x: x.astype(np.uint8), but={"Binarizer": "NumPy uint8"}),
    Kind("NumPy bool", lambda x: x.astype(bool), rows=bits, but=BOOLS),
    Kind("NumPy object that holds numbers", lambda x: x.astype(object)),
    Kind("NumPy, Fortran order", np.asfortranarray),
    Kind("NumPy, not contiguous", strided),
    Kind("NumPy, read-only", read_only),
    Kind("NumPy, other byte order", lambda x: x.astype(">f8")),
    Kind("NumPy, not aligned", travelled),
    Kind(
        "NumPy, other byte order, integers",
        lambda x: x.astype(">i4"),
        but={"Binarizer": "NumPy int32"},
    ),
    Kind("NumPy bfloat16 (ml_dtypes)", bfloat16, ("ml_dtypes",), dtype="float32"),
    Kind("list of lists", lambda x: x.tolist()),
    Kind("list of arrays", list),
    Kind(
        "list of large integers",
        lambda x: [[int(v) for v in row] for row in x],
        rows=lambda: numbers() + 2.0**64,
        but={"SplineTransformer": "TypeError"},
    ),
    Kind("pandas float64", pandas(), ("pandas",)),
    Kind("pandas, dtypes mixed", pandas({"a": "float32", "b": "int64"}), ("pandas",)),
    Kind("pandas Int64, Float64", pandas({"a": "Int64", "b": "Float64"}), ("pandas",)),
    Kind("pandas boolean", pandas("boolean"), ("pandas",), rows=bits),
    Kind("pandas double[pyarrow]", pandas("double[pyarrow]"), ("pandas", "pyarrow")),
    Kind("polars Float64", polars(), ("polars", "pyarrow")),
    Kind(
        "polars Float32",
        polars("Float32"),
        ("polars", "pyarrow"),
        dtype="float32",
        but=dict.fromkeys(
            [
                *(*SCALERS, "KBinsDiscretizer", "Pipeline", "PowerTransformer"),
                *("QuantileTransformer", "RobustScaler"),
            ],
            "NumPy float64",
        ),
    ),
    Kind("polars Int64", polars("Int64"), ("polars", "pyarrow"), but=INTEGERS),
    Kind("Arrow table", arrow(), ("pandas", "pyarrow")),
    Kind("Arrow table of integers", arrow("int64"), ("pandas", "pyarrow"), but=INTEGERS),
    Kind(
        *("pandas, all columns sparse", sparse_columns, ("pandas",)),
        but={name: words for name, words in SPARSE.items() if not name.endswith("Encoder")},
        tolerance=SOLVERS,
    ),
    Kind("SciPy CSR", sparse.csr_array, but=SPARSE, tolerance=SOLVERS),
    Kind("SciPy CSC", sparse.csc_array, but=SPARSE, tolerance=SOLVERS),
    Kind("SciPy COO", sparse.coo_array, but=SPARSE, tolerance=SOLVERS),
    Kind("torch float64", torch(), ("torch",)),
    Kind("torch float32", torch("float32"), ("torch",), dtype="float32"),
    Kind("torch float16", torch("float16"), ("torch",), dtype="float32"),
    Kind("torch bfloat16", torch("bfloat16"), ("torch",), dtype="float32"),
    Kind("torch int64", torch("int64"), ("torch",), but={"Binarizer": "torch int64"}),
    Kind(
        "torch bool",
        torch("bool"),
        ("torch",),
        rows=bits,
        but={**NO_BOOLS, "Binarizer": "torch bool"},
    ),
    Kind("torch, not contiguous", lambda x: torch()(x.T).T, ("torch",)),
    Kind("torch with a gradient", lambda x: torch()(x).requires_grad_(), ("torch",)),
    Kind("array-api-strict", strict, ("array_api_strict",)),
    Kind("JAX float32", jax("float32"), ("jax",), dtype="float32"),
    Kind("JAX bfloat16", jax("bfloat16"), ("jax",), dtype="float32"),
    Kind("JAX int32", jax("int32"), ("jax",)),
    Kind("DLPack in CPU memory, nothing else", HostDLPack),
    Kind("CuPy float64", cupy(), ("cupy",)),
    Kind("CuPy float32", cupy("float32"), ("cupy",), dtype="float32"),
    Kind("CuPy float16", cupy("float16"), ("cupy",), dtype="float32"),
    Kind("CuPy int64", cupy("int64"), ("cupy",), but={"Binarizer": "CuPy int64"}),
    Kind(
        "CuPy bool", cupy("bool"), ("cupy",), rows=bits, but={**NO_BOOLS, "Binarizer": "CuPy bool"}
    ),
    Kind("CuPy, Fortran order", cupy(order="F"), ("cupy",)),
    Kind("CuPy, not contiguous", cupy_strided, ("cupy",)),
    Kind("torch float32 on the GPU", torch("float32", "cuda"), ("torch", "cuda"), dtype="float32"),
    Kind(
        "torch bfloat16 on the GPU", torch("bfloat16", "cuda"), ("torch", "cuda"), dtype="float32"
    ),
    Kind("JAX float32 on the GPU", jax("float32", "gpu"), ("jax", "cuda"), dtype="float32"),
    Kind("numba device array", numba, ("numba", "cuda")),
    Kind("cuDF float64", cudf(), ("cudf",)),
    Kind("cuDF float32", cudf("float32"), ("cudf",), dtype="float32"),
    Kind("cuDF, dtypes mixed", cudf({"a": "float32", "b": "int64"}), ("cudf",)),
    Kind("cuDF bool beside float64", cudf({"b": "bool"}), ("cudf",), rows=bits),
    Kind("CuPy CSR", cupyx_csr, ("cupy",), but=SPARSE_ON_GPU, tolerance=SOLVERS),
]
REFUSED = [
    Kind("pandas, strings", pandas(b=WORDS), ("pandas",), error=NAMED, but=CODES),
    Kind(
        "pandas, categories of strings",
        lambda x: pandas(b=WORDS)(x).astype({"b": "category"}),
        ("pandas",),
        error=NAMED,
        but={**CODES, **OBJECTS},
    ),
    Kind(
        "pandas, dates",
        pandas(b=DAYS),
        ("pandas",),
        error=DATED,
        but={**DATES, "MissingIndicator": "TypeError"},
    ),
    Kind("pandas Float64 with NA", with_missing("Float64"), ("pandas",), error=NAMED, but=HOLES),
    Kind(
        "polars, strings",
        polars(b=WORDS),
        ("polars", "pyarrow"),
        error=NAMED,
        but={**CODES, **OBJECTS},
    ),
    Kind("polars, dates", polars(b=DAYS), ("polars", "pyarrow"), error=DATED, but=DATES),
    Kind(
        "polars, null",
        polars(b=[None, *range(1, N_ROWS)]),
        ("polars", "pyarrow"),
        error=NAMED,
        but=HOLES,
    ),
    Kind("polars LazyFrame", lambda x: polars()(x).lazy(), ("polars",), error="TypeError"),
    Kind(
        "Arrow, strings",
        arrow(b=WORDS),
        ("pandas", "pyarrow"),
        error=NAMED,
        but={**CODES, **OBJECTS},
    ),
    Kind("cuDF, strings", cudf(b=WORDS), ("cudf",), error=NAMED, but=CODES),
    Kind("cuDF, null", cudf("Float64", missing=True), ("cudf",), error="TypeError"),
    Kind("masked array", lambda x: np.ma.masked_array(x, mask=x == 3), error="ValueError"),
    Kind("np.matrix", lambda x: x.view(np.matrix), error="TypeError"),
    Kind(
        "array without axes",
        lambda x: np.array(3.0),
        error="ValueError",
        but=dict.fromkeys(["GridSearchCV", "TargetEncoder"], "TypeError"),
    ),
    Kind("array with one axis", lambda x: x[:, 0], error="ValueError"),
    Kind("ragged list", lambda x: [[1, 2], [3]], error="ValueError"),
    Kind("complex", lambda x: x + 0j, error="ValueError"),
    Kind("torch, complex", torch("complex128"), ("torch",), error="ValueError"),
    Kind("torch, sparse", lambda x: torch()(x).to_sparse_csr(), ("torch",), error="TypeError"),
]
TARGETS = [
    Kind("NumPy float32", lambda y: y.astype(np.float32), rows=target),
    Kind("NumPy, other byte order", lambda y: y.astype(">f8"), rows=target),
    Kind("list", list, rows=target),
    Kind("pandas Series", series(), ("pandas",), rows=target),
    Kind("pandas Float64", series("Float64"), ("pandas",), rows=target),
    Kind("polars Series", polars_series, ("polars",), rows=target),
    Kind("Arrow chunks", arrow_chunks, ("pyarrow",), rows=target),
    Kind("torch float64", torch(), ("torch",), rows=target),
    Kind("JAX float32", jax("float32"), ("jax",), rows=target),
    Kind("CuPy float64", cupy(), ("cupy",), rows=target),
    Kind("cuDF Series", cudf_series, ("cudf",), rows=target),
    Kind("labels, NumPy int64", np.array, rows=labels, dtype="int64"),
    Kind("labels, NumPy bool", lambda y: y.astype(bool), rows=labels, dtype="bool"),
    Kind(
        "labels, list of strings", lambda y: y.tolist(), rows=lambda: letters(labels()), dtype="<U1"
    ),
    Kind(
        "labels, pandas Int64",
        series("Int64"),
        ("pandas",),
        rows=labels,
        dtype="int64",
        but={"X of NumPy": "NumPy float64"},
    ),
    Kind(
        "labels, pandas categories",
        series("category"),
        ("pandas",),
        rows=lambda: letters(labels()),
        dtype="object",
    ),
    Kind("labels, polars Series", polars_series, ("polars",), rows=labels, dtype="int64"),
    Kind("labels, Arrow chunks", arrow_chunks, ("pyarrow",), rows=labels, dtype="int64"),
    Kind("labels, torch int64", torch("int64"), ("torch",), rows=labels, dtype="int64"),
    Kind("labels, CuPy int64", cupy("int64"), ("cupy",), rows=labels, dtype="int64"),
    Kind(
        "labels, cuDF strings",
        cudf_series,
        ("cudf",),
        rows=lambda: letters(labels()),
        dtype="object",
    ),
]
OUTPUTS = [
    Kind("NumPy", np.array, ("pandas", "polars")),
    Kind("pandas", pandas(), ("pandas", "polars")),
    Kind("polars", polars(), ("pandas", "polars", "pyarrow")),
    Kind("torch", torch(), ("pandas", "polars", "torch")),
    Kind("array-api-strict", strict, ("pandas", "polars", "array_api_strict")),
    Kind("CuPy", cupy(), ("pandas", "polars", "cupy", "cudf")),
    Kind("cuDF", cudf(), ("pandas", "polars", "cudf")),
]

"""Fitted models over rows in blocks give what they give to all rows at once."""

import sys
import warnings
from types import ModuleType

import cloudpickle
import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed.utils import key_split
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.cluster import KMeans
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA as SklearnPCA
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import NotFittedError, UndefinedMetricWarning
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfTransformer
from sklearn.feature_selection import RFECV
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LinearRegression, PoissonRegressor
from sklearn.linear_model import LogisticRegression as SklearnLogistic
from sklearn.model_selection import GridSearchCV, TunedThresholdClassifierCV
from sklearn.neighbors import KernelDensity, KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, LabelBinarizer, LabelEncoder, OneHotEncoder

from gpuml.decomposition import PCA
from gpuml.linear_model import (
    LogisticRegression,
    LogisticRegressionCV,
    Ridge,
    RidgeCV,
    TweedieRegressor,
)
from gpuml.linear_model import PoissonRegressor as OurPoisson
from gpuml.preprocessing import StandardScaler
from gpuml_dask import predict as blockwise
from gpuml_dask.decomposition import PCA as DaskPCA
from gpuml_dask.model_selection import GridSearchCV as DaskSearch
from gpuml_dask.rows.placement import place

ROWS = (7, 1, 12, 20)


@pytest.fixture(autouse=True)
def threads():
    with dask.config.set(scheduler="threads", num_workers=2):
        yield


@pytest.fixture
def rows(rng):
    X = rng.normal(size=(sum(ROWS), 5))
    y = X @ rng.normal(size=5) + rng.normal(size=len(X)) + 1e3
    return X, y, np.asarray(["no", "yes", "may be"])[rng.integers(3, size=len(X))]


def in_blocks(x, sizes=ROWS):
    return da.from_array(x, chunks=(sizes, *x.shape[1:]))


def unknown(x):
    """The same blocks, with unknown numbers of rows."""
    blocks = in_blocks(x)
    return blocks[da.ones(blocks.shape[0], chunks=(ROWS,), dtype=bool)]


MODELS = [
    (Ridge(), "number", ["predict"]),
    (LogisticRegression(C=0.1), "label", ["predict", "predict_proba", "decision_function"]),
    (StandardScaler(), None, ["transform"]),
    (PCA(2), None, ["transform", "score_samples"]),
    (KernelDensity(), None, ["score_samples"]),
    (make_pipeline(StandardScaler(), PCA(3), Ridge()), "number", ["predict"]),
    (make_pipeline(StandardScaler().set_output(transform="pandas"), PCA(2)), None, ["transform"]),
    (SklearnPCA(2).set_output(transform="pandas"), None, ["transform"]),
    (KNeighborsClassifier(3), "label", ["predict", "predict_proba"]),
    (GridSearchCV(Ridge(), {"alpha": [1, 2]}, cv=2), "number", ["predict"]),
]
CASES = [(model, kind, method) for model, kind, methods in MODELS for method in methods]


@pytest.mark.parametrize("blocks", [in_blocks, unknown], ids=["known", "unknown"])
@pytest.mark.parametrize(("model", "kind", "method"), CASES)
def test_blocks_give_what_all_rows_give(rows, model, kind, method, blocks):
    X, y, label = rows
    model.fit(X, {"number": y, "label": label, None: None}[kind])
    expected = np.asarray(getattr(model, method)(X))
    found = getattr(blockwise, method)(model, blocks(X))
    assert isinstance(found, da.Array)
    assert found.dtype == expected.dtype
    assert found.ndim == expected.ndim
    assert found.shape[1:] == expected.shape[1:]
    if blocks is in_blocks:
        assert found.chunks[0] == ROWS
    computed = found.compute()
    assert type(computed) is np.ndarray
    if expected.dtype.kind == "f":
        np.testing.assert_allclose(computed, expected, rtol=1e-12, atol=1e-12)
    else:
        np.testing.assert_array_equal(computed, expected)


@pytest.mark.parametrize("blocks", [in_blocks, unknown], ids=["known", "unknown"])
@pytest.mark.parametrize(
    "model",
    [
        StandardScaler(),
        PCA(2),
        make_pipeline(StandardScaler(), PCA(3)),
        SklearnPCA(2).set_output(transform="pandas"),
        FunctionTransformer(np.exp, np.log),
    ],
)
def test_transforms_are_undone_block_by_block(rows, model, blocks):
    X = np.abs(rows[0])
    images = np.asarray(model.fit(X).transform(X))
    there = blockwise.transform(model, blocks(X))
    for found in (
        blockwise.inverse_transform(model, there),
        blockwise.inverse_transform(model, blocks(images)),
    ):
        assert isinstance(found, da.Array)
        assert found.shape[1:] == X.shape[1:]
        if blocks is in_blocks:
            assert found.chunks[0] == ROWS
        expected = model.inverse_transform(images)
        np.testing.assert_allclose(found.compute(), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(
    ("last", "target"),
    [
        (Ridge(), "several"),
        (KMeans(2, n_init=1, random_state=0), None),
        (LogisticRegression(), "label"),
    ],
)
def test_results_of_the_last_step_are_known_though_no_row_can_be_made_up(rows, last, target, known):
    """Nobody knows categories that a strict encoder takes."""
    X = pd.DataFrame({"x": rows[0][:, 0], "kind": pd.Categorical(["u", "v"] * 20)})
    y = {"several": rows[0][:, :2], "label": rows[2], None: None}[target]
    columns = make_column_transformer((OneHotEncoder(), ["kind"]), ("passthrough", ["x"]))
    model = make_pipeline(columns, last).fit(X, y)
    lazy = dd.from_pandas(X, npartitions=3)
    lazy = lazy if known else lazy.assign(kind=lazy["kind"].cat.as_unknown())
    found, expected = blockwise.predict(model, lazy), model.predict(X)
    assert found.dtype == expected.dtype
    assert found.shape[1:] == expected.shape[1:]
    np.testing.assert_array_equal(found.compute(), expected)


def test_what_is_no_image_is_refused(rows):
    X = rows[0]
    model = PCA(2).fit(X)
    with pytest.raises(ValueError, match="X has 5 features, but PCA is expecting 2"):
        blockwise.inverse_transform(model, in_blocks(X))
    with pytest.raises(AttributeError):
        blockwise.inverse_transform(Ridge().fit(X, X[:, 0]), in_blocks(X))


@pytest.mark.parametrize("library", ["numpy", pytest.param("cupy", marks=pytest.mark.gpu)])
def test_results_are_of_the_library_and_dtype_of_the_blocks(rows, library):
    xp = pytest.importorskip(library)
    X, y, _ = rows
    X, y = (xp.asarray(x.astype(np.float32)) for x in (X, y))
    model = Ridge().fit(X, y)
    found = blockwise.predict(model, da.from_array(X, chunks=(10, 3), asarray=False))
    assert found.chunks == ((10, 10, 10, 10),)
    assert type(found._meta) is type(X)
    computed = found.compute()
    assert type(computed) is type(X)
    assert computed.dtype == found.dtype == np.float32
    assert bool(xp.all(abs(computed - model.predict(X)) <= 1e-3))


def test_several_chunks_of_columns_are_joined(rows):
    X, y, _ = rows
    model = Ridge().fit(X, y)
    found = blockwise.predict(model, da.from_array(X, chunks=(10, 2)))
    np.testing.assert_allclose(found.compute(), model.predict(X))


def test_blocks_without_rows(rows):
    X, y, label = rows
    blocks = in_blocks(X)
    keep = X[:, 0] > 0
    keep[ROWS[0] : sum(ROWS[:2])] = False
    some = blocks[in_blocks(keep)]
    model = Ridge().fit(X, y)
    np.testing.assert_allclose(blockwise.predict(model, some).compute(), model.predict(X[keep]))
    classifier = LogisticRegression().fit(X, label)
    found = blockwise.predict_proba(classifier, some).compute()
    np.testing.assert_allclose(found, classifier.predict_proba(X[keep]))


def test_local_rows_go_to_the_model(rows):
    X, y, _ = rows
    model = Ridge().fit(X, y)
    found = blockwise.predict(model, X)
    assert type(found) is np.ndarray
    np.testing.assert_array_equal(found, model.predict(X))
    assert blockwise.score(model, X, y) == model.score(X, y)


def test_frames(rows):
    X, _, label = rows
    frame = pd.DataFrame(X, columns=list("abcde"))
    blocks = dd.from_pandas(frame, npartitions=3)
    model = LogisticRegression().fit(frame, label)
    found = blockwise.predict_proba(model, blocks)
    assert isinstance(found, da.Array)
    assert found.shape[1] == 3
    np.testing.assert_allclose(found.compute(), model.predict_proba(frame), rtol=1e-12)
    targets = dd.from_pandas(pd.Series(label), npartitions=3)
    assert blockwise.score(model, blocks, targets) == pytest.approx(model.score(frame, label))
    scaler = StandardScaler().set_output(transform="pandas").fit(frame)
    np.testing.assert_allclose(
        blockwise.transform(scaler, blocks).compute(), scaler.transform(frame).to_numpy()
    )
    with pytest.raises(ValueError, match="feature names"):
        blockwise.predict(model, blocks.rename(columns={"d": "z"}))


@pytest.mark.parametrize("n_partitions", [1, 3])
def test_partitions_that_are_read_as_they_are_needed(rows, n_partitions):
    """A delayed argument of one partition fails in Dask, as of a DataFrame of one file."""
    X, y, _ = rows
    frame = pd.DataFrame(X, columns=list("abcde"))
    model = Ridge().fit(frame, y)
    parts = np.array_split(np.arange(len(X)), n_partitions)
    lazy = dd.from_map(lambda part: frame.iloc[part], parts, meta=frame.iloc[:0])
    found = blockwise.predict(model, lazy)
    np.testing.assert_allclose(found.compute(), model.predict(frame))
    np.testing.assert_allclose(found.blocks[0].compute(), model.predict(frame)[parts[0]])
    targets = da.from_array(y, chunks=(tuple(map(len, parts)),))
    assert np.isclose(blockwise.score(model, lazy, targets), model.score(frame, y))


def test_a_made_up_row_that_the_model_refuses():
    X = np.asarray([[5.0], [7.0], [5.0], [9.0]])
    encoder = OneHotEncoder(sparse_output=False).fit(X)
    found = blockwise.transform(encoder, da.from_array(X, chunks=(2, 1)))
    assert found.shape == (4, 3)
    np.testing.assert_array_equal(found.compute(), encoder.transform(X))


class Picky(ClassifierMixin, BaseEstimator):
    """A classifier that takes even numbers only, so that no made-up row of ones will do."""

    def __init__(self, n_classes=2):
        self.n_classes = n_classes

    def fit(self, X, y):
        self.classes_ = np.arange(self.n_classes)
        return self

    def predict(self, X):
        if (X % 2).any():
            raise ValueError("odd")
        return (X[:, 0] // 2 % self.n_classes).astype(int)

    def predict_proba(self, X):
        return np.eye(self.n_classes)[self.predict(X)]

    def decision_function(self, X):
        return self.predict_proba(X) if self.n_classes > 2 else self.predict_proba(X)[:, 1]


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("method", ["predict", "predict_proba", "decision_function"])
def test_results_are_foretold_without_a_row(method, n_classes):
    X = 2.0 * np.arange(8).reshape(8, 1)
    model = Picky(n_classes).fit(X, None)
    found = getattr(blockwise, method)(model, da.from_array(X, chunks=(3, 1)))
    expected = getattr(model, method)(X)
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found.compute(), expected)


# ---------------------------------------------------------------- rows without features

TEXTS = ["one text", "another text", "no words of the others", "one of the others"] * 5
OF_TEXTS = {
    "series": lambda: dd.from_pandas(pd.Series(TEXTS), npartitions=3),
    "series of objects": lambda: dd.from_pandas(pd.Series(TEXTS), npartitions=3).astype(object),
    "strings": lambda: da.from_array(np.asarray(TEXTS), chunks=7),
    "objects": lambda: da.from_array(np.asarray(TEXTS, dtype=object), chunks=7),
    "delayed lists": lambda: [dask.delayed(TEXTS[:9]), dask.delayed(TEXTS[9:])],
}


@pytest.mark.parametrize("kind", OF_TEXTS)
def test_texts_are_rows(kind):
    X, y = OF_TEXTS[kind](), np.arange(20) % 2
    model = make_pipeline(HashingVectorizer(n_features=32), TfidfTransformer(), SklearnLogistic())
    model.fit(TEXTS, y)
    for method in ("predict", "predict_proba"):
        found = getattr(blockwise, method)(model, X)
        expected = getattr(model, method)(TEXTS)
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found.compute(), expected)
    targets = y if kind in ("strings", "objects") else [dask.delayed(y)[:9], dask.delayed(y)[9:]]
    targets = dd.from_pandas(pd.Series(y), npartitions=3) if "series" in kind else targets
    assert blockwise.score(model, X, targets) == model.score(TEXTS, y)


@pytest.mark.parametrize("step", [CountVectorizer(), HashingVectorizer(n_features=32)], ids=repr)
@pytest.mark.parametrize("kind", [kind for kind in OF_TEXTS if "delayed" not in kind])
def test_vectorizers_make_sparse_blocks_of_texts(kind, step):
    expected = step.fit(TEXTS).transform(TEXTS)
    found = blockwise.transform(step, OF_TEXTS[kind]())
    assert (type(found._meta), found.dtype) == (type(expected), expected.dtype)
    assert found.shape[1] == expected.shape[1]
    np.testing.assert_array_equal(found.compute().toarray(), expected.toarray())


def test_a_search_over_texts_predicts_and_scores_them():
    X, y = OF_TEXTS["series"](), dd.from_pandas(pd.Series(np.arange(20) % 2), npartitions=3)
    model = make_pipeline(HashingVectorizer(n_features=32), SklearnLogistic())
    search = DaskSearch(model, {"logisticregression__C": [0.1, 1]}, cv=2, scheduler="sync")
    search.fit(X, y)
    assert isinstance(search.predict(X), da.Array)
    np.testing.assert_array_equal(search.predict(X), search.predict(TEXTS))
    assert search.score(X, y) == search.score(TEXTS, y.compute())


@pytest.mark.parametrize("labels", [[6, 1, 2, 2], list("baac")], ids=["numbers", "strings"])
@pytest.mark.parametrize("encoder", [LabelEncoder(), LabelBinarizer()], ids=repr)
def test_labels_are_encoded_where_they_are(encoder, labels):
    y = np.asarray(labels * 5)
    expected = encoder.fit(y).transform(y)
    frame = pd.Series(y, dtype="category")
    for there in (da.from_array(y, chunks=7), dd.from_pandas(frame, npartitions=2)):
        found = blockwise.transform(encoder, there)
        assert (found.dtype, found.shape[1:]) == (expected.dtype, expected.shape[1:])
        np.testing.assert_array_equal(found.compute(), expected)
        back = blockwise.inverse_transform(encoder, found)
        assert back.dtype == y.dtype
        np.testing.assert_array_equal(back.compute(), y)


def test_a_regressor_of_one_variable_takes_an_array_or_a_series(rng):
    x = rng.random(20)
    model = IsotonicRegression().fit(x, x**2)
    for there in (da.from_array(x, chunks=7), dd.from_pandas(pd.Series(x), npartitions=2)):
        np.testing.assert_array_equal(blockwise.predict(model, there), model.predict(x))


# ---------------------------------------------------------------- at the door


def test_names_of_columns_that_only_workers_know_are_no_warning(client, rows):
    X = pd.DataFrame(rows[0], columns=list("abcde"))
    model, lazy = Ridge().fit(X, rows[1]), dd.from_pandas(X, npartitions=2)
    with warnings.catch_warnings(record=True) as caught, place(lazy) as table:
        warnings.simplefilter("always")
        for there in (dask.delayed(X), lazy.to_delayed(), table.X):
            blockwise.predict(model, there)
    assert [str(w.message) for w in caught] == []
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        blockwise.predict(model, in_blocks(rows[0]))
    with place(in_blocks(rows[0])) as table, pytest.warns(UserWarning, match="valid feature names"):
        blockwise.predict(model, table.X)


def test_errors_come_before_anything_is_computed(rows):
    X, y, _ = rows
    model = Ridge().fit(X, y)
    with pytest.raises(ValueError, match="X has 4 features, but Ridge is expecting 5 features"):
        blockwise.predict(model, in_blocks(X[:, :4]))
    with pytest.raises(NotFittedError):
        blockwise.predict(Ridge(), in_blocks(X))
    with pytest.raises(AttributeError, match="predict_proba"):
        blockwise.predict_proba(model, in_blocks(X))
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array"):
        blockwise.predict(model, in_blocks(y))


# ---------------------------------------------------------------- the graph


class Counted(RegressorMixin, BaseEstimator):
    """A model that is heavy to send."""

    def fit(self, X, y):
        self.ballast_ = np.random.default_rng(0).bytes(100_000)
        return self

    def predict(self, X):
        return X[:, 0] + len(self.ballast_)


def test_the_model_is_in_the_graph_once(rows):
    X, y, _ = rows
    model = Counted().fit(X, y)
    found = blockwise.predict(model, da.from_array(X, chunks=(1, 5)))
    assert found.npartitions == 40
    (optimized,) = dask.optimize(found)
    sent = len(cloudpickle.dumps(dict(optimized.__dask_graph__())))
    assert sent < 250_000
    assert {key_split(key) for key in found.__dask_keys__()} == {"predict-counted"}


@pytest.mark.exhaustive
def test_on_a_cluster(rows, client):
    X, _, label = rows
    model = LogisticRegression().fit(X, label)
    with dask.config.set(scheduler=client):
        found = blockwise.predict(model, unknown(X)).compute()
        scored = blockwise.score(model, unknown(X), unknown(label))
    np.testing.assert_array_equal(found, model.predict(X))
    assert scored == pytest.approx(model.score(X, label), rel=1e-14)


def test_a_model_that_workers_cannot_import(rows, client, monkeypatch):
    X, y, _ = rows
    monkeypatch.setitem(sys.modules, "only_here", ModuleType("only_here"))
    sys.modules["only_here"].OnlyHere = type("OnlyHere", (Counted,), {"__module__": "only_here"})
    found = blockwise.predict(sys.modules["only_here"].OnlyHere().fit(X, y), in_blocks(X))
    error = client.compute(found).exception(timeout=60)
    assert isinstance(error, ModuleNotFoundError)


# ---------------------------------------------------------------- score


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("blocks", [in_blocks, unknown], ids=["known", "unknown"])
def test_score_is_that_of_all_rows(rows, rng, blocks, weighted):
    X, y, label = rows
    weight = rng.integers(4, size=len(X)) * 1.5 if weighted else None
    if weighted:
        weight[: ROWS[0]] = 0
    blocks_of_weight = None if weight is None else blocks(weight)
    several = np.stack([y, -2 * y + X[:, 0], y**2], axis=1)
    for model, target in [
        (Ridge(), y),
        (LinearRegression(), several),
        (OurPoisson(alpha=0.1), np.round(np.abs(y))),
        (OurPoisson(), np.where(np.arange(len(y)) < sum(ROWS[:3]), 0.0, np.abs(y))),
        (TweedieRegressor(power=0, link="identity"), y - 2e3),
        (make_pipeline(StandardScaler(), OurPoisson()), np.abs(y)),
        (LogisticRegression(), label),
        (SklearnLogistic(), label),
        (make_pipeline(StandardScaler(), Ridge()), y),
        (GridSearchCV(Ridge(), {"alpha": [1, 2]}, cv=2), y),
    ]:
        model.fit(X, target)
        scored = getattr(model, "best_estimator_", model)  # a search takes no weights
        expected = scored.score(X, target, sample_weight=weight)
        found = blockwise.score(model, blocks(X), blocks(target), blocks_of_weight)
        assert type(found) is float
        assert found == pytest.approx(expected, rel=1e-10)


def test_targets_in_other_blocks_and_local_ones(rows):
    X, y, _ = rows
    model = Ridge().fit(X, y)
    expected = pytest.approx(model.score(X, y), rel=1e-10)
    assert blockwise.score(model, in_blocks(X), da.from_array(y, chunks=9)) == expected
    assert blockwise.score(model, in_blocks(X), y) == expected
    assert blockwise.score(model, in_blocks(X), list(y)) == expected


def test_score_of_many_blocks_does_not_depend_on_their_sizes(rng):
    X = rng.normal(size=(500, 2))
    y = 1e6 + X[:, 0] * 1e-2 + rng.normal(size=500) * 1e-3
    model = LinearRegression().fit(X, y)
    expected = model.score(X, y)
    for size in (1, 7, 499):
        found = blockwise.score(
            model, da.from_array(X, chunks=(size, 2)), da.from_array(y, chunks=size)
        )
        assert found == pytest.approx(expected, rel=1e-9)


def test_targets_that_do_not_vary(rows):
    X, _, _ = rows
    y = np.full(len(X), 2.0)
    for model in (LinearRegression().fit(X, y), LinearRegression().fit(X, X[:, 0])):
        model.coef_ = np.round(model.coef_)
        model.intercept_ = np.round(model.intercept_)
        found = blockwise.score(model, in_blocks(X), in_blocks(y))
        assert found == model.score(X, y)
    with pytest.warns(UndefinedMetricWarning, match="less than two samples"):
        assert np.isnan(blockwise.score(model, in_blocks(X[:1], (1,)), in_blocks(y[:1], (1,))))


def of_rows(model, X, y):
    return model.score(X, y)


def test_scores_that_are_not_sums_over_blocks(rows):
    X, y, label = rows
    poisson = PoissonRegressor().fit(X, np.abs(y))
    with pytest.raises(ValueError, match="PoissonRegressor cannot be computed block by block"):
        blockwise.score(poisson, in_blocks(X), in_blocks(y))
    search = GridSearchCV(SklearnLogistic(), {"C": [1]}, scoring=of_rows, cv=2).fit(X, label)
    with pytest.raises(ValueError, match="GridSearchCV cannot be computed block by block"):
        blockwise.score(search, in_blocks(X), in_blocks(label))
    assert blockwise.score(search.best_estimator_, in_blocks(X), in_blocks(label)) > 0


FEW = {"Cs": 2, "l1_ratios": (0,), "use_legacy_attributes": False}


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        (HistGradientBoostingClassifier(max_iter=2, scoring="loss"), "label"),
        (TunedThresholdClassifierCV(LogisticRegression(), scoring="f1"), "binary"),
        (RidgeCV(scoring="neg_mean_absolute_error"), "number"),
        (LogisticRegressionCV(**FEW, scoring=None), "label"),
        (LogisticRegressionCV(**FEW, scoring="neg_log_loss"), "label"),
        (RFECV(LogisticRegression(), scoring="roc_auc", step=4, cv=2), "binary"),
    ],
    ids=lambda v: type(v).__name__ if isinstance(v, BaseEstimator) else v,
)
def test_score_uses_the_scoring_of_models_whose_own_does(rows, model, kind):
    X, y, label = rows
    y = {"number": y, "label": label, "binary": (label == "yes").astype(int)}[kind]
    model = make_pipeline(StandardScaler(), model).fit(X, y)
    found = blockwise.score(model, in_blocks(X), in_blocks(y))
    assert found == pytest.approx(model.score(X, y), rel=1e-10)


def test_rows_and_targets_that_do_not_belong_together(rows):
    X, y, _ = rows
    model = Ridge().fit(X, y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        blockwise.score(model, in_blocks(X), y[:-1])
    with pytest.raises(ValueError, match="different numbers of rows"):
        blockwise.score(model, unknown(X), in_blocks(y, ROWS[::-1]))
    with pytest.raises(ValueError, match="3 blocks of rows, X has 4"):
        blockwise.score(model, unknown(X), da.from_array(y, chunks=15))
    frame = dd.from_pandas(pd.Series(y), npartitions=2)
    with pytest.raises(ValueError, match="2 blocks of rows, X has 4"):
        blockwise.score(model, in_blocks(X), frame)
    with pytest.raises(ValueError, match="compute_chunk_sizes"):
        blockwise.score(model, unknown(X), y)


def test_columns_of_codes_are_sparse_of_frames_too():
    frame = pd.DataFrame({"a": list("xyz") * 4, "b": np.arange(12) % 2})
    lazy = blockwise.transform(OneHotEncoder().fit(frame), dd.from_pandas(frame, npartitions=2))
    assert isinstance(lazy._meta, type(lazy.compute(scheduler="threads")))


def test_likelihoods_of_rows_on_workers_do_not_come_here(client, rng):
    X = rng.normal(size=(60, 4))
    rows = da.from_array(X, chunks=25)
    ours, one_device = DaskPCA(2).fit(rows), PCA(2).fit(X)
    assert isinstance(ours.score_samples(rows), da.Array)
    np.testing.assert_allclose(ours.score_samples(rows), one_device.score_samples(X))
    assert ours.score(rows) == pytest.approx(one_device.score(X))
    assert ours.score(X) == pytest.approx(one_device.score(X))

"""Collections of Dask in what works in one process: gathered once a call, with a word of it."""

import importlib.util
import inspect
import pkgutil
import warnings

import dask
import dask.array as da
import dask.bag as bag
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.utils import get_tags

import gpuml.metrics
import gpuml_dask
from gpuml._arrays import gathered as _gathered
from gpuml.cluster import BisectingKMeans, KMeans
from gpuml.compose import ColumnTransformer, TransformedTargetRegressor
from gpuml.decomposition import PCA, IncrementalPCA, TruncatedSVD
from gpuml.ensemble import BaggingClassifier, BaggingRegressor, RandomForestClassifier
from gpuml.exceptions import GatheredWarning
from gpuml.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfVectorizer
from gpuml.feature_selection import (
    RFE,
    RFECV,
    SelectKBest,
    chi2,
    f_classif,
    f_regression,
    r_regression,
)
from gpuml.linear_model import (
    ElasticNet,
    Lasso,
    LinearRegression,
    LogisticRegression,
    Ridge,
    RidgeClassifier,
    RidgeCV,
)
from gpuml.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    RandomizedSearchCV,
    cross_val_score,
    cross_validate,
    permutation_test_score,
)
from gpuml.naive_bayes import GaussianNB
from gpuml.neighbors import KNeighborsClassifier, NearestNeighbors
from gpuml.pipeline import Pipeline
from gpuml.preprocessing import (
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    PolynomialFeatures,
    SimpleImputer,
    StandardScaler,
    TargetEncoder,
)
from gpuml.random_projection import GaussianRandomProjection
from gpuml_dask.fitting import OnWorkers

N_ROWS = 120
RANDOM = np.random.default_rng(0)
ROWS = RANDOM.standard_normal((N_ROWS, 4))
NUMBERS = ROWS @ [1.0, 2.0, 3.0, 4.0]
LABELS = (NUMBERS > 0).astype(np.int64)


class Counted:
    """Collections of Dask; rows of arrays are counted when they are computed."""

    def __init__(self):
        self.n_computed = 0

    def array(self, x):
        return da.from_array(x, chunks=(50, *x.shape[1:])).map_blocks(self._seen, dtype=x.dtype)

    def frame(self, x):
        return dd.from_pandas(pd.DataFrame(x, columns=list("abcd")), npartitions=3)

    def _seen(self, block):
        self.n_computed += len(block)
        return block


@pytest.fixture
def counted():
    # Dask's threads would count at the same time.
    with dask.config.set(scheduler="synchronous"):
        yield Counted()


FITS = [
    *((model, NUMBERS) for model in (Ridge(), LinearRegression(), Lasso(), ElasticNet())),
    *((model, NUMBERS) for model in (RidgeCV(), ElasticNet(l1_ratio=0.2))),
    *((model, LABELS) for model in (LogisticRegression(), RidgeClassifier(), GaussianNB())),
    (KNeighborsClassifier(), LABELS),
    (RandomForestClassifier(3, random_state=0), LABELS),
    (TransformedTargetRegressor(LinearRegression()), NUMBERS),
    *((model, None) for model in (StandardScaler(), MinMaxScaler(), Normalizer(), PCA(2))),
    *((model, None) for model in (IncrementalPCA(2), TruncatedSVD(2), SimpleImputer())),
    *((model, None) for model in (PolynomialFeatures(), NearestNeighbors(), OneHotEncoder())),
    (KMeans(2, n_init=1, random_state=0), None),
    (BisectingKMeans(2, random_state=0), None),
    *((model, LABELS) for model in (SelectKBest(k=2), TargetEncoder(), RFE(Ridge()))),
    (RFECV(Ridge()), NUMBERS),
    (GaussianRandomProjection(2, random_state=0), None),
    (ColumnTransformer([("all", StandardScaler(), [0, 1])]), None),
    *((search, NUMBERS) for search in (
        GridSearchCV(Ridge(), {"alpha": [1.0, 2.0]}, cv=3),
        RandomizedSearchCV(Ridge(), {"alpha": [1.0, 2.0]}, n_iter=2, cv=3),
        HalvingGridSearchCV(Ridge(), {"alpha": [1.0, 2.0]}, cv=3),
    )),
    (GridSearchCV(KNeighborsClassifier(), {"n_neighbors": [1, 2]}, cv=3), LABELS),
]  # fmt: skip


def said(caught):
    return [w for w in caught if w.category is GatheredWarning]


@pytest.mark.parametrize(("model", "target"), FITS, ids=lambda v: type(v).__name__)
@pytest.mark.parametrize("kind", ["array", "frame"])
def test_fits_say_what_they_gather(counted, model, target, kind):
    if kind == "frame" and isinstance(model, ColumnTransformer):
        model = ColumnTransformer([("all", StandardScaler(), ["a", "b"])])
    X = getattr(counted, kind)(ROWS)
    y = () if target is None else (counted.array(target),)
    counted.n_computed = 0
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = clone(model).fit(X, *y)
    words = said(caught)
    assert len(words) == 1 + len(y), [str(w.message) for w in words]
    if kind == "array":
        assert counted.n_computed == N_ROWS * (1 + len(y))
    assert {w.filename for w in words} == {__file__}
    assert f"of {X.compute().nbytes if kind == 'array' else ROWS.nbytes + 132:,} bytes" in str(
        words[0].message
    )
    expected = clone(model).fit(X.compute(), *(a.compute() for a in y))
    assert_same(found, expected)


def test_steps_of_pipelines_gather_what_they_are_given(counted):
    model = Pipeline([("scaler", StandardScaler()), ("model", Ridge())])
    with pytest.warns(GatheredWarning):
        found = model.fit(counted.array(ROWS), counted.array(NUMBERS))
    assert_same(found[-1], model.fit(ROWS, NUMBERS)[-1])


def assert_same(found, expected):
    for name in (n for n in vars(expected) if n.endswith("_") and not n.startswith("_")):
        theirs = getattr(expected, name)
        if isinstance(theirs, np.ndarray) and theirs.dtype.kind in "fiub":
            np.testing.assert_array_equal(getattr(found, name), theirs, err_msg=name)


USES = [
    (Ridge(), "predict", NUMBERS),
    (Ridge(), "score", NUMBERS),
    (LogisticRegression(), "predict_proba", LABELS),
    (KNeighborsClassifier(), "predict", LABELS),
    (KNeighborsClassifier(), "score", LABELS),
    (KMeans(2, n_init=1, random_state=0), "transform", None),
    *((BisectingKMeans(2, random_state=0), name, None) for name in ("predict", "fit_predict")),
    (BisectingKMeans(2, random_state=0), "fit_transform", None),
    (BaggingRegressor(Ridge(), 2, random_state=0), "predict", NUMBERS),
    (BaggingClassifier(LogisticRegression(), 2, random_state=0), "predict_proba", LABELS),
    (StandardScaler(), "transform", None),
    (StandardScaler(), "inverse_transform", None),
    (PCA(2), "transform", None),
    (GridSearchCV(Ridge(), {"alpha": [1.0, 2.0]}), "predict", NUMBERS),
]


@pytest.mark.parametrize(("model", "method", "target"), USES, ids=str)
def test_uses_say_what_they_gather(counted, model, method, target):
    model = clone(model).fit(ROWS, target)
    given = (ROWS, target) if method == "score" else (ROWS,)
    rows = [counted.array(x) for x in given]
    counted.n_computed = 0
    with pytest.warns(GatheredWarning, match="gpuml_dask.predict") as caught:
        found = getattr(model, method)(*rows)
    assert len(said(caught)) == len(rows)
    assert counted.n_computed == N_ROWS * len(rows)
    assert {w.filename for w in said(caught)} == {__file__}
    np.testing.assert_allclose(found, getattr(model, method)(*given), rtol=1e-12)


@pytest.mark.parametrize(
    ("name", "y"),
    [("r2_score", NUMBERS), ("accuracy_score", LABELS), ("f1_score", LABELS), ("log_loss", LABELS)],
)
def test_metrics_say_what_they_gather(counted, name, y):
    pair = counted.array(y), counted.array(y)
    counted.n_computed = 0
    with pytest.warns(GatheredWarning) as caught:
        found = getattr(gpuml.metrics, name)(*pair)
    assert (len(said(caught)), counted.n_computed) == (2, 2 * N_ROWS)
    assert found == getattr(gpuml.metrics, name)(y, y)


@pytest.mark.parametrize("function", [f_classif, chi2, f_regression, r_regression])
def test_functions_of_rows_and_targets_say_what_they_gather(counted, function):
    given = np.abs(ROWS), LABELS
    rows = [counted.array(x) for x in given]
    counted.n_computed = 0
    with pytest.warns(GatheredWarning) as caught:
        found = function(*rows)
    assert (len(said(caught)), counted.n_computed) == (2, 2 * N_ROWS)
    assert str(found) == str(function(*given))


@pytest.mark.parametrize("kind", [CountVectorizer, TfidfVectorizer, HashingVectorizer])
@pytest.mark.parametrize("method", ["fit_transform", "transform"])
def test_vectorizers_say_what_they_gather(kind, method):
    texts = ["one two", "two three", "four"]
    model = kind().fit(texts)
    for lazy in (
        bag.from_sequence(texts, npartitions=2),
        dd.from_pandas(pd.Series(texts), npartitions=2),
        da.from_array(np.asarray(texts, dtype=object), chunks=2),
    ):
        with pytest.warns(GatheredWarning) as caught:
            found = getattr(model, method)(lazy)
        assert [w.filename for w in said(caught)] == [__file__]
        np.testing.assert_array_equal(found.toarray(), getattr(model, method)(texts).toarray())


@pytest.mark.parametrize("function", [cross_validate, cross_val_score, permutation_test_score])
def test_functions_say_what_they_gather(counted, function):
    rows = counted.array(ROWS), counted.array(NUMBERS)
    counted.n_computed = 0
    with pytest.warns(GatheredWarning) as caught:
        function(Ridge(), *rows, cv=3)
    assert (len(said(caught)), counted.n_computed) == (2, 2 * N_ROWS)


def divided_classes():
    """Every estimator of gpuml_dask, by its module."""
    modules = [each.name for each in pkgutil.iter_modules(gpuml_dask.__path__, "gpuml_dask.")]
    for module in map(importlib.import_module, modules):
        for kind in vars(module).values():
            is_own = inspect.isclass(kind) and kind.__module__ == module.__name__
            if is_own and issubclass(kind, OnWorkers) and kind is not OnWorkers:
                yield pytest.param(module, kind, id=kind.__name__)


@pytest.mark.parametrize(("module", "kind"), list(divided_classes()))
def test_the_words_name_every_divided_class(counted, module, kind):
    other = next(k for k in kind.__mro__ if k.__module__.startswith("gpuml."))
    rows = {"X": counted.array(np.abs(ROWS))}
    if get_tags(other()).target_tags.required:
        rows["y"] = LABELS + 1
    with pytest.warns(GatheredWarning) as caught:
        other().fit(**rows)
    words = str(said(caught)[0].message)
    assert module.__name__ in words
    # The module is called as gpuml's, or the words say what is in it.
    same_name = importlib.util.find_spec(module.__name__.replace("gpuml_dask", "gpuml"))
    assert same_name or f"{kind.__name__} from {module.__name__}" in words


def test_the_words_name_searches_and_predictions():
    for module in ("gpuml_dask.model_selection", "gpuml_dask.predict"):
        assert module in _gathered.INSTEAD
        importlib.import_module(module)


def test_what_is_no_collection_is_left_alone():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for x in (ROWS, ROWS.tolist(), None, pd.DataFrame(ROWS), "text", 1.0, BaseEstimator()):
            assert _gathered.gathered(x) is x


def test_the_classes_of_gpuml_dask_say_nothing(counted):
    from gpuml_dask.linear_model import Ridge as Divided

    with warnings.catch_warnings():
        warnings.simplefilter("error", GatheredWarning)
        model = Divided().fit(ROWS, NUMBERS)
        found = model.predict(counted.array(ROWS)).compute()
    np.testing.assert_allclose(found, model.predict(ROWS))

"""Searches over estimators of anybody: which rows they get, how often rows are copied and moved."""

from copy import deepcopy

import numpy as np
import pandas as pd
import pytest
import sklearn
import sklearn.model_selection as sk
from joblib import parallel_config
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, TransformerMixin
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LinearRegression, Ridge, SGDRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.tree import DecisionTreeRegressor

import gpuml
from gpuml import linear_model as ours_linear
from gpuml import model_selection as ours_selection
from gpuml._arrays import is_numpy, namespace, place_of
from gpuml.kernel_approximation import Nystroem
from gpuml.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    cross_validate,
    residence,
)
from gpuml.model_selection.residence import computes_on_gpu, reads_host_only
from gpuml.preprocessing import FunctionTransformer as OursFunctionTransformer
from gpuml.testing import array_libraries, count_transfers

SHUFFLED = sk.KFold(5, shuffle=True, random_state=0)
FOLDS = {
    "KFold": sk.KFold(5),
    "shuffled": SHUFFLED,
    "stratified": sk.StratifiedKFold(5),
    "stratified, shuffled": sk.StratifiedKFold(4, shuffle=True, random_state=0),
    "groups": sk.GroupKFold(3),
}
OTHERS = {
    "shuffle split": sk.ShuffleSplit(4, random_state=0),
    "repeated": sk.RepeatedKFold(n_splits=3, n_repeats=2, random_state=0),
    "time series": sk.TimeSeriesSplit(4),
}


class Seen:
    """What estimators of one test were given."""

    def __init__(self):
        self.fits = []

    def __deepcopy__(self, memo):
        return self  # clones of an estimator write to the same list


class Slope(RegressorMixin, BaseEstimator):
    """Weighted least squares with a penalty and no intercept, in the standard's operations."""

    def __init__(self, alpha=1.0, seen=None):
        self.alpha = alpha
        self.seen = seen

    def fit(self, X, y, sample_weight=None):
        if self.seen is not None:
            self.seen.fits.append((X, y, sample_weight))
        xp = namespace(X)
        y = xp.astype(y, X.dtype)
        Z = X if sample_weight is None else X * sample_weight[:, None]
        penalty = self.alpha * xp.eye(X.shape[1], dtype=X.dtype, device=place_of(X).device)
        self.coef_ = xp.linalg.solve(Z.T @ X + penalty, Z.T @ y[:, None])[:, 0]
        return self

    def predict(self, X):
        return X @ self.coef_


class Threshold(ClassifierMixin, Slope):
    """Classes 0 and 1 by the same."""

    def fit(self, X, y, sample_weight=None):
        self.classes_ = namespace(X).unique_values(y)
        return super().fit(X, y, sample_weight)

    def predict(self, X):
        return namespace(X).astype(super().predict(X) > 0.5, self.classes_.dtype)


class Centred(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        self.mean_ = namespace(X).mean(X, axis=0)
        return self

    def transform(self, X):
        return X - self.mean_


GRID = {"alpha": [0.1, 1.0, 100.0]}


def data(rng, n=120, p=4):
    X = rng.normal(size=(n, p))
    return X, X @ rng.normal(size=p) + rng.normal(size=n)


def groups_for(cv, n=120):
    return {"groups": np.arange(n) * 7 // n} if isinstance(cv, sk.GroupKFold) else {}


def same(ours, theirs, atol=1e-9):
    assert list(ours.cv_results_) == list(theirs.cv_results_)
    for key in (key for key in theirs.cv_results_ if "score" in key and "time" not in key):
        np.testing.assert_allclose(ours.cv_results_[key], theirs.cv_results_[key], atol=atol)
    assert ours.best_params_ == theirs.best_params_


def address(x):
    """Where the first element of an array is, and the block of memory that it is in."""
    if is_numpy(x):
        while x.base is not None:
            x = x.base
        return id(x)
    if type(x).__module__.startswith("cupy"):
        return x.data.mem.ptr
    return x.untyped_storage().data_ptr()


@pytest.mark.each
@pytest.mark.parametrize("name", [*FOLDS, *OTHERS])
def test_scores_are_those_of_sklearn(library, rng, name):
    cv = {**FOLDS, **OTHERS}[name]
    X, y = data(rng)
    labels = (y > 0).astype(np.int64)
    w = rng.uniform(0.1, 2, 120)
    for estimator, target, scoring in (
        (Slope(), y, None),
        (Slope(), y, ["r2", "neg_mean_squared_error"]),
        (Threshold(), labels, None),
        (Threshold(), labels, "balanced_accuracy"),
    ):
        options = {"cv": cv, "scoring": scoring, "return_train_score": True}
        options |= {"refit": scoring[0] if isinstance(scoring, list) else True}
        if "stratified" in name and estimator.__class__ is Slope:
            continue
        theirs = sk.GridSearchCV(estimator, GRID, **options)
        theirs.fit(X, target, sample_weight=w, **groups_for(cv))
        ours = GridSearchCV(estimator, GRID, **options)
        lib_X, lib_y, lib_w = (library.asarray(a) for a in (X, target, w))
        ours.fit(lib_X, lib_y, sample_weight=lib_w, **groups_for(cv))
        same(ours, theirs)
        expected = theirs.best_estimator_.coef_
        np.testing.assert_allclose(library.to_numpy(ours.best_estimator_.coef_), expected)
        assert str(ours.plan_.steps[-1]).endswith(f"(one by one, {residence.GATHERED})")


class ReturnsNothing(RegressorMixin, BaseEstimator):
    """`fit` forgets to return the estimator, which scikit-learn's searches do not mind."""

    def __init__(self, level=0.0):
        self.level = level

    def fit(self, X, y=None):
        self.fitted_ = True

    def predict(self, X):
        return np.full(len(X), self.level)


@pytest.mark.parametrize("search", [GridSearchCV, HalvingGridSearchCV])
def test_fit_may_return_nothing(rng, search):
    X, y = rng.normal(size=(60, 3)), rng.normal(5, 1, 60)
    found = search(ReturnsNothing(), {"level": [0.0, 5.0]}, cv=3).fit(X, y)
    assert found.best_estimator_.fitted_
    assert found.predict(X)[0] == 5.0


def test_rows_without_y_and_pipelines(library, rng):
    X, y = data(rng)

    class Spread(Centred):
        def score(self, X, y=None):
            return -float(namespace(X).mean((X - self.mean_) ** 2))

    for estimator, target in ((Spread(), None), (make_pipeline(Centred(), Slope()), y)):
        ours = cross_validate(
            estimator,
            library.asarray(X),
            None if target is None else library.asarray(target),
            cv=SHUFFLED,
            return_train_score=True,
            return_estimator=True,
        )
        theirs = sk.cross_validate(estimator, X, target, cv=SHUFFLED, return_train_score=True)
        for key in ("test_score", "train_score"):
            np.testing.assert_allclose(ours[key], theirs[key])
        assert len(ours["estimator"]) == 5


# ---------------------------------------------------------------- what estimators are given


WITH_ADDRESSES = [p for p in array_libraries() if p.id in ("torch", "cupy", "torch-cuda")]


@pytest.mark.parametrize("memory", WITH_ADDRESSES)
@pytest.mark.parametrize("name", [*FOLDS, *OTHERS])
def test_folds_are_gathered_once_in_the_order_of_the_splitter(rng, name, memory, monkeypatch):
    cv, seen = {**FOLDS, **OTHERS}[name], Seen()
    X, y = data(rng)
    target = (y > 0).astype(np.int64)
    w = rng.uniform(size=120)
    X_lib, y_lib, w_lib = (memory.asarray(a) for a in (X, target, w))
    search = GridSearchCV(Threshold(seen=seen), GRID, cv=cv, refit=False)
    search.fit(X_lib, y_lib, sample_weight=w_lib, **groups_for(cv))
    splits = list(cv.split(X, target, **groups_for(cv)))
    assert len(seen.fits) == 3 * len(splits)
    assert all(is_c_ordered(X) for X, *_ in seen.fits)
    for i, (train, _) in enumerate(splits):
        of_fold = seen.fits[3 * i : 3 * i + 3]
        for part in zip(*of_fold, strict=True):
            assert len({address(x) for x in part}) == 1
        for found, given in zip(of_fold[0], (X, target, w), strict=True):
            np.testing.assert_array_equal(memory.to_numpy(found), given[train])


def is_c_ordered(x):
    return x.is_contiguous() if hasattr(x, "is_contiguous") else x.flags.c_contiguous


@pytest.mark.parametrize("name", ["KFold", "shuffled"])
def test_estimators_that_split_or_draw_rows_find_the_same_on_a_device(library, rng, name):
    X, y = data(rng)
    options = {"cv": FOLDS[name], "scoring": "neg_mean_squared_error"}
    for estimator, grid in (
        (ours_linear.LassoCV(cv=3, alphas=3), {"fit_intercept": [True, False]}),
        (make_pipeline(Nystroem(n_components=5, random_state=0), ours_linear.LassoCV(cv=3)), {}),
    ):
        expected = GridSearchCV(estimator, grid, **options).fit(X, y)
        search = GridSearchCV(estimator, grid, **options)
        same(search.fit(library.asarray(X), library.asarray(y)), expected, atol=1e-5)


def test_index_arrays_go_up_once_per_split(rng):
    strict = pytest.importorskip("array_api_strict")
    X, y = data(rng, n=4000)
    w = rng.uniform(size=4000)
    arrays = [strict.asarray(a, device=strict.Device("device1")) for a in (X, y, w)]

    def moved(cv):
        search = GridSearchCV(Slope(), GRID, cv=cv, refit=False)
        with count_transfers() as counter:
            search.fit(*arrays[:2], sample_weight=arrays[2])
        assert counter.to_host < 100 * 16
        return counter.to_device

    assert moved(sk.KFold(5)) == 0
    assert moved(SHUFFLED) == 4000  # the label of each row, once
    assert moved(sk.ShuffleSplit(3, random_state=0)) <= 8 * 4000 * 3


def test_host_rows_stay_in_the_splitters_order(rng):
    """Estimators that draw at random, or take rows in turn, give bit for bit what they gave."""
    X, y = data(rng)
    for cv in (SHUFFLED, sk.KFold(4)):
        for estimator, grid in (
            (RandomForestRegressor(5, random_state=0), {"min_samples_leaf": [2, 3]}),
            (SGDRegressor(random_state=0), {"alpha": [1e-4, 1e-2]}),
        ):
            ours = GridSearchCV(estimator, grid, cv=cv).fit(X, y)
            theirs = sk.GridSearchCV(estimator, grid, cv=cv).fit(X, y)
            same(ours, theirs, atol=0)
            np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
            assert str(ours.plan_.steps[-1]).endswith(residence.GATHERED + ")")


def test_what_shares_rows_cannot_write_to_them(rng):
    X, y = data(rng)
    seen = Seen()
    for cv in (SHUFFLED, sk.KFold(4)):
        GridSearchCV(Slope(seen=seen), GRID, cv=cv, refit=False).fit(X, y)
    assert seen.fits
    assert not any(X.flags.writeable for X, *_ in seen.fits)


class Writes(RegressorMixin, BaseEstimator):
    """Ridge regression that writes to all that it is given."""

    def __init__(self, by=1.0):
        self.by = by

    def fit(self, X, y, sample_weight):
        X, y = changed(X, self.by), changed(y, self.by)
        self.model_ = Ridge().fit(X, y, changed(sample_weight, self.by))
        return self

    def predict(self, X):
        return self.model_.predict(changed(X, self.by))


def changed(X, by=2.0):
    """The same object with other values."""
    if isinstance(X, list):
        X[:] = (
            [[by * a, *more] for a, *more in X] if isinstance(X[0], list) else [by + a for a in X]
        )
    elif isinstance(X, pd.DataFrame):
        X["first"] += by * np.arange(len(X))
        X["added"] = X["first"] ** 2
    elif sparse.issparse(X):
        X.data += by * np.arange(X.nnz)
    elif hasattr(X, "insert_column"):
        X.insert_column(X.width, (X["first"] * by).alias(f"column {X.width}"))
    else:
        X += by
    return X


def table_of(library):
    def made(X):
        return library.DataFrame({"first": X[:, 0], "second": X[:, 1]})

    return made


WRITING = {
    "a model": (Writes(), {"by": [1.0, 2.0, 3.0]}),
    "a function": (
        make_pipeline(FunctionTransformer(changed), Ridge()),
        {"ridge__alpha": [0.1, 1.0, 10.0]},
    ),
    "a function of gpuml": (
        make_pipeline(OursFunctionTransformer(changed), ours_linear.Ridge()),
        {"ridge__alpha": [0.1, 1.0, 10.0]},
    ),
    "a function twice, in several places": (
        make_pipeline(FunctionTransformer(changed), FunctionTransformer(changed), Ridge()),
        {"functiontransformer-1": ["passthrough", FunctionTransformer(changed)]},
    ),
}
OF_ROWS = {"pandas": table_of(pd), "sparse": sparse.csr_array, "list": lambda X: X.tolist()}


@pytest.mark.parametrize("estimator", WRITING)
@pytest.mark.parametrize("kind", [*OF_ROWS, "polars"])
def test_what_a_candidate_writes_to_its_rows_changes_no_other_candidate(rng, estimator, kind):
    # scikit-learn takes the rows of a fold out once for each fit.
    X, y = rng.normal(size=(40, 2)) + 2.0, rng.normal(size=40)
    rows = (OF_ROWS.get(kind) or table_of(pytest.importorskip("polars")))(X)
    model, grid = WRITING[estimator]
    as_given = {"pandas": pd.Series, "list": list}.get(kind, np.array)
    weights = {"sample_weight": as_given(rng.uniform(1, 2, 40))} if estimator == "a model" else {}
    if weights and as_given is np.array:
        y = pd.Series(y)  # arrays of rows are read-only
    found, wanted = (
        module.GridSearchCV(model, grid, cv=SHUFFLED, refit=False, error_score="raise").fit(
            deepcopy(rows), deepcopy(y if as_given is np.array else as_given(y)), **weights
        )
        for module in (ours_selection, sk)
    )
    for split in range(5):
        name = f"split{split}_test_score"
        np.testing.assert_allclose(found.cv_results_[name], wanted.cv_results_[name], rtol=1e-9)


# ---------------------------------------------------------------- estimators that read host arrays


@pytest.mark.each
@pytest.mark.parametrize("name", ["shuffled", "stratified", "shuffle split"])
def test_estimators_of_sklearn_get_host_views_of_rows_on_a_device(library, rng, name):
    cv = {**FOLDS, **OTHERS}[name]
    X, y = data(rng)
    labels = (y > 0).astype(np.int64)
    w = rng.uniform(0.1, 2, 120)
    X_lib, w_lib = library.asarray(X), library.asarray(w)
    for estimator, grid, target in (
        (DecisionTreeRegressor(random_state=0), {"min_samples_leaf": [2, 5]}, labels),
        (make_pipeline(StandardScaler(), Ridge()), {"ridge__alpha": [0.1, 10.0]}, labels),
        (make_pipeline(StandardScaler(), ours_linear.Ridge()), {"ridge__alpha": [0.1]}, labels),
        (GridSearchCV(LinearRegression(), {}), {"cv": [3]}, labels),
    ):
        takes_weights = isinstance(estimator, DecisionTreeRegressor)
        fit_args = {"sample_weight": w} if takes_weights else {}
        theirs = sk.GridSearchCV(estimator, grid, cv=cv).fit(X, target, **fit_args)
        ours = GridSearchCV(estimator, grid, cv=cv)
        with count_transfers(max_to_host=X.nbytes + 10 * y.nbytes):
            ours.fit(X_lib, library.asarray(target), **dict.fromkeys(fit_args, w_lib))
        same(ours, theirs)
        # The model of all rows is that of the host copy, in the user's order.
        np.testing.assert_allclose(ours.best_estimator_.predict(X), theirs.predict(X))
        how = residence.GATHERED
        how = how if is_numpy(X_lib) else f"on a copy in CPU memory, {how}"
        assert f"on numpy:cpu (one by one, {how}" in str(ours.plan_)


def test_host_folds_are_read_only(rng, monkeypatch):
    torch = pytest.importorskip("torch")
    X, y = data(rng)
    monkeypatch.setattr(residence, "reads_host_only", lambda estimator: True)
    seen = Seen()
    search = GridSearchCV(Slope(seen=seen), GRID, cv=SHUFFLED, refit=False)
    search.fit(torch.asarray(X), torch.asarray(y))
    assert not any(x.flags.writeable for x, *_ in seen.fits)


def test_targets_and_weights_come_to_the_host_for_rows_that_are_there(rng):
    strict = pytest.importorskip("array_api_strict")
    X, y = data(rng)
    y_dev, w_dev = (strict.asarray(a, device=strict.Device("device1")) for a in (y, y**2))
    for target, weight in ((y_dev, y**2), (y, w_dev)):
        ours = GridSearchCV(Ridge(), GRID, cv=SHUFFLED).fit(X, target, sample_weight=weight)
        same(ours, sk.GridSearchCV(Ridge(), GRID, cv=SHUFFLED).fit(X, y, sample_weight=y**2))


def test_who_reads_host_arrays_only():
    assert reads_host_only(RandomForestClassifier())
    assert reads_host_only(make_pipeline(Centred(), Ridge()))
    assert reads_host_only(make_pipeline(StandardScaler(), Slope()))
    assert reads_host_only(GridSearchCV(make_pipeline("passthrough", Ridge()), {}))
    assert reads_host_only(sk.GridSearchCV(Slope(), {}))
    for kind in (getattr(ours_linear, name) for name in ours_linear.__all__):
        assert not (isinstance(kind, type) and reads_host_only(kind()))
    assert not reads_host_only(make_pipeline(Centred(), Slope()))
    assert not reads_host_only(GridSearchCV(ours_linear.Ridge(), {}))
    with sklearn.config_context(array_api_dispatch=True):
        assert reads_host_only(RandomForestClassifier())
        assert not reads_host_only(make_pipeline(StandardScaler(), Ridge(solver="svd")))


@pytest.mark.parametrize("name", ["shuffled", "shuffle split"])
def test_estimators_of_sklearn_that_read_other_arrays_get_them(rng, name):
    torch = pytest.importorskip("torch")
    cv = {**FOLDS, **OTHERS}[name]
    X, y = data(rng)
    search = GridSearchCV(
        make_pipeline(StandardScaler(), Ridge(solver="svd")), {"ridge__alpha": [0.1, 10.0]}, cv=cv
    )
    expected = sk.GridSearchCV(search.estimator, search.param_grid, cv=cv).fit(X, y)
    with sklearn.config_context(array_api_dispatch=True):
        same(search.fit(torch.asarray(X), torch.asarray(y)), expected)
    assert search.plan_.place == "torch:cpu"
    assert isinstance(search.best_estimator_[-1].coef_, torch.Tensor)


def test_each_candidate_takes_its_own_route(rng):
    torch = pytest.importorskip("torch")
    X, y = data(rng)
    pipeline = make_pipeline(Centred(), Slope())
    grid = {"slope": [Slope(), Ridge(fit_intercept=False), Slope(alpha=1e6)]}
    ours = GridSearchCV(pipeline, grid, cv=SHUFFLED).fit(torch.asarray(X), torch.asarray(y))
    theirs = sk.GridSearchCV(pipeline, grid, cv=SHUFFLED).fit(X, y)
    for key in ("split0_test_score", "split4_test_score", "mean_test_score"):
        np.testing.assert_allclose(ours.cv_results_[key], theirs.cv_results_[key])
    there, on_host = ours.plan_.steps
    assert (there.n_fits, there.place) == (10, "torch:cpu")
    assert (on_host.n_fits, on_host.place) == (5, "numpy:cpu")
    assert "copy in CPU memory" in on_host.why


# ---------------------------------------------------------------- host rows and a GPU


def test_who_computes_on_a_gpu():
    class Booster(BaseEstimator):
        def __init__(self, device="cpu"):
            self.device = device

        def fit(self, X, y):
            return self

    Forest = type("Forest", (Slope,), {})
    Forest.__module__ = "cuml.ensemble"
    assert computes_on_gpu(Forest())
    assert computes_on_gpu(make_pipeline(Forest(), Forest()))
    assert computes_on_gpu(GridSearchCV(Forest(), {}))
    assert not computes_on_gpu(make_pipeline(StandardScaler(), Forest()))
    assert not computes_on_gpu(sk.GridSearchCV(Forest(), {}))
    assert not computes_on_gpu(Slope())
    assert not computes_on_gpu(Booster("cuda"))  # of a library that we know nothing of
    Booster.__module__ = "xgboost.sklearn"
    assert [computes_on_gpu(Booster(d)) for d in ("cuda", "cuda:1", "gpu", "cpu", None)] == [
        *(True, True, True, False, False)
    ]


@pytest.fixture
def second_device(monkeypatch):
    """Host rows are worth being brought to a device that NumPy cannot read."""
    strict = pytest.importorskip("array_api_strict")
    place = place_of(strict.zeros(1, device=strict.Device("device1")))
    monkeypatch.setattr(residence, "compute_place", lambda *args: place)
    monkeypatch.setattr(
        residence, "computes_on_gpu", lambda estimator: isinstance(estimator, Slope)
    )
    return place


@pytest.mark.parametrize("name", ["KFold", "shuffled", "shuffle split"])
def test_host_rows_go_to_the_gpu_once(rng, name, second_device):
    cv = {**FOLDS, **OTHERS}[name]
    X, y = data(rng, n=2000, p=20)
    w = rng.uniform(0.1, 2, 2000)
    theirs = sk.GridSearchCV(Slope(), GRID, cv=cv).fit(X, y, sample_weight=w)
    seen = Seen()
    ours = GridSearchCV(Slope(seen=seen), GRID, cv=cv)
    with count_transfers(max_to_host=2**14) as moved:
        ours.fit(X, y, sample_weight=w)
    same(ours, theirs)
    assert X.nbytes < moved.to_device < 1.4 * X.nbytes  # index arrays, y, weights
    assert all(place_of(x) == second_device for fit in seen.fits for x in fit)
    assert seen.fits[-1][0].shape == X.shape  # of the refit
    coef = namespace(ours.best_estimator_.coef_).asarray(ours.best_estimator_.coef_)
    np.testing.assert_allclose(gpuml._arrays.to_host(coef), theirs.best_estimator_.coef_)
    assert ours.plan_.place == str(second_device)
    assert "copied there once" in str(ours.plan_)


def test_what_does_not_go_to_the_gpu(rng, second_device, monkeypatch):
    X, y = data(rng)
    frame, names = pd.DataFrame(X), np.where(y > 0, "yes", "no")
    for rows in (frame, X.tolist(), X.astype(object)):
        seen = Seen()
        GridSearchCV(Seeing(seen), {"alpha": [1.0]}).fit(rows, y)
        assert not any("strict" in type(x).__module__ for x, *_ in seen.fits)
    seen = Seen()
    GridSearchCV(Seeing(seen), {"alpha": [1.0]}, scoring=lambda *args: 0.0).fit(X, names)
    assert all(place_of(x) == second_device for x, *_ in seen.fits)
    assert all(is_numpy(y) for _, y, _ in seen.fits)
    monkeypatch.setattr(residence, "fits", lambda *args: False)
    search = GridSearchCV(Slope(), GRID).fit(X, y)
    assert search.plan_.place == "numpy:cpu"
    with gpuml.config_context(device="cpu"):
        assert GridSearchCV(Slope(), GRID).fit(X, y).plan_.place == "numpy:cpu"


class Seeing(Slope):
    """Looks at its rows and does nothing with them."""

    def __init__(self, seen=None, alpha=1.0):
        self.seen = seen
        self.alpha = alpha

    def fit(self, X, y):
        self.seen.fits.append((X, y, None))
        return self

    def score(self, X, y):
        return 0.0


def test_estimators_of_gpuml_are_refitted_to_what_the_user_gave(rng, second_device, monkeypatch):
    monkeypatch.setattr(residence, "computes_on_gpu", lambda estimator: True)
    X, y = data(rng)
    search = GridSearchCV(ours_linear.Ridge(solver="svd"), GRID, cv=SHUFFLED)
    monkeypatch.setattr(ours_linear.Ridge, "multifit_ready", lambda self, X: False)
    search.fit(X, y)
    assert search.plan_.place == str(second_device)
    assert isinstance(search.best_estimator_.coef_, np.ndarray)
    found = cross_validate(ours_linear.Ridge(solver="svd"), X, y, return_estimator=True)
    assert all(isinstance(model.coef_, np.ndarray) for model in found["estimator"])


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore")  # of cuML, about what it deprecates
def test_cuml_on_host_rows(rng):
    cupy = pytest.importorskip("cupy")
    if not cupy.is_available():
        pytest.skip("no GPU")
    Forest = pytest.importorskip("cuml.ensemble").RandomForestClassifier
    X = rng.normal(size=(200_000, 20)).astype(np.float32)
    y = (X[:, 0] + X[:, 1] > 0).astype(np.int32)
    search = GridSearchCV(
        Forest(n_estimators=5, random_state=0), {"max_depth": [2, 6]}, cv=SHUFFLED
    )
    on_device = cupy.asarray(X), cupy.asarray(y)
    search.fit(*on_device)
    # cuML sends things of its own up in every fit, wherever the rows are.
    with count_transfers() as its_own:
        search.fit(*on_device)
    with gpuml.config_context(device="cuda"), count_transfers() as moved:
        search.fit(X, y)
    assert moved.counts_everyone
    of_rows = moved.to_device - its_own.to_device
    assert X.nbytes < of_rows < 1.2 * X.nbytes
    assert str(search.plan_.steps[-1]).endswith(
        f"(one by one, copied there once, {residence.GATHERED})"
    )
    assert search.best_score_ > 0.8
    assert search.score(X, y) > 0.8
    on_device = GridSearchCV(search.estimator, search.param_grid, cv=SHUFFLED)
    on_device.fit(cupy.asarray(X), cupy.asarray(y))
    same(on_device, search, atol=0.02)


# ---------------------------------------------------------------- workers


def test_rows_on_a_device_are_given_to_no_other_process(rng):
    strict = pytest.importorskip("array_api_strict")
    X, y = data(rng)
    X_dev, y_dev = (strict.asarray(a, device=strict.Device("device1")) for a in (X, y))
    expected = sk.GridSearchCV(Slope(), GRID, cv=SHUFFLED).fit(X, y)
    search = GridSearchCV(Slope(), GRID, cv=SHUFFLED, n_jobs=2)
    same(search.fit(X_dev, y_dev), expected)
    assert "in this process: the rows are in GPU memory" in str(search.plan_)
    with parallel_config("threading"):
        same(search.fit(X_dev, y_dev), expected)
    assert "in this process" not in str(search.plan_)


# ---------------------------------------------------------------- workers


@pytest.mark.parametrize("n_jobs", [None, 2])
@pytest.mark.parametrize("pre_dispatch", ["lots", "", "n_jobs +", "1/0", "-n_jobs", 0, -1])
def test_numbers_of_tasks_that_are_none_are_refused_whichever_way_the_fits_go(n_jobs, pre_dispatch):
    """scikit-learn refuses them where it starts workers; a search here may never do so."""
    X, y = np.eye(6), np.arange(6.0)
    options = {"n_jobs": n_jobs, "pre_dispatch": pre_dispatch, "cv": 2}
    for model in (Ridge(), ours_linear.Ridge()):
        for call in (
            lambda m: GridSearchCV(m, {"alpha": [1.0, 2.0]}, **options).fit(X, y),
            lambda m: cross_validate(m, X, y, **options),
        ):
            with pytest.raises(ValueError, match=r"pre_dispatch must be .* got "):
                call(model)


@pytest.mark.parametrize("pre_dispatch", ["all", "n_jobs", "n_jobs//2", "1.5*n_jobs", 3])
def test_numbers_of_tasks_that_joblib_takes_are_taken(pre_dispatch):
    X, y = np.eye(6), np.arange(6.0)
    for n_jobs in (None, 2):
        with parallel_config(backend="threading"):
            options = {"n_jobs": n_jobs, "pre_dispatch": pre_dispatch, "cv": 2}
            found = GridSearchCV(Ridge(), {"alpha": [1.0, 2.0]}, **options).fit(X, y)
        assert len(found.cv_results_["params"]) == 2


class Expression:
    """A lazy expression, as skrub's DataOp: attributes of almost any name, and no truth value."""

    def __getattr__(self, name):
        if name.startswith("__") or name == "get_params":
            raise AttributeError(name)
        return Expression()

    def __bool__(self):
        raise TypeError("This expression has no truth value.")

    def __deepcopy__(self, memo):
        return self

    def __sklearn_clone__(self):
        return self


class Evaluates(RegressorMixin, BaseEstimator):
    """A regressor with a lazy expression among its parameters."""

    def __init__(self, expression=None, alpha=1.0):
        self.expression, self.alpha = expression, alpha

    def fit(self, X, y):
        self.ridge_ = Ridge(self.alpha).fit(X, y)
        return self

    def predict(self, X):
        return self.ridge_.predict(X)


@pytest.mark.parametrize("inside", [False, True])
def test_parameters_may_be_expressions_that_have_every_attribute(inside):
    X = np.random.default_rng(0).normal(size=(60, 3))
    model, grid = Evaluates(Expression()), {"alpha": [0.1, 100.0]}
    if inside:
        model = make_pipeline(StandardScaler(), model)
        grid = {"evaluates__alpha": grid["alpha"]}
    ours, theirs = (kind(model, grid).fit(X, X[:, 0]) for kind in (GridSearchCV, sk.GridSearchCV))
    found = ours.cv_results_["mean_test_score"]
    np.testing.assert_allclose(found, theirs.cv_results_["mean_test_score"])

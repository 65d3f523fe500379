"""Searches over sparse rows: scores of scikit-learn's search, from fits of all candidates at once."""

import numpy as np
import pytest
from scipy import sparse
from sklearn import linear_model as sk
from sklearn import model_selection as theirs
from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer
from sklearn.model_selection import KFold, ShuffleSplit, StratifiedKFold
from sklearn.pipeline import make_pipeline

from gpuml.datasets import make_texts
from gpuml.linear_model import LogisticRegression, Ridge
from gpuml.model_selection import GridSearchCV, HalvingGridSearchCV, RandomizedSearchCV
from gpuml.naive_bayes import BernoulliNB
from gpuml.preprocessing import MaxAbsScaler

TIGHT = {"tol": 1e-9, "max_iter": 3000}
TOGETHER = "all candidates together"


def rows(rng, shape, density=0.1):
    return sparse.random_array(shape, density=density, format="csr", rng=rng)


def same_scores(ours, rival, rtol=1e-6):
    parts = ("split", "mean_test", "mean_train")
    names = [name for name in rival.cv_results_ if name.startswith(parts)]
    assert names
    for name in names:
        np.testing.assert_allclose(
            ours.cv_results_[name], rival.cv_results_[name], rtol=rtol, atol=rtol
        )
    assert ours.best_params_ == rival.best_params_


@pytest.mark.pairwise
@pytest.mark.parametrize("shape", [(150, 20), (90, 400)])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize(
    "cv", [KFold(3), KFold(4, shuffle=True, random_state=0), ShuffleSplit(3, random_state=0)]
)
def test_ridge(rng, shape, weighted, cv):
    X = rows(rng, shape)
    y = X @ rng.normal(size=shape[1]) + 0.1 * rng.normal(size=shape[0])
    params = {"sample_weight": rng.uniform(0, 2, shape[0])} if weighted else {}
    grid = {"alpha": [0.01, 1.0, 100.0], "fit_intercept": [True, False]}
    scoring = ["r2", "neg_mean_absolute_error"]
    options = {"cv": cv, "scoring": scoring, "refit": "r2", "return_train_score": True}
    ours = GridSearchCV(Ridge(), grid, **options).fit(X, y, **params)
    rival = theirs.GridSearchCV(sk.Ridge(), grid, **options).fit(X.toarray(), y, **params)
    same_scores(ours, rival)
    assert TOGETHER in str(ours.plan_)
    np.testing.assert_allclose(
        ours.best_estimator_.coef_, rival.best_estimator_.coef_, rtol=1e-6, atol=1e-8
    )
    np.testing.assert_allclose(ours.predict(X), rival.predict(X.toarray()), rtol=1e-6, atol=1e-8)


def test_ridge_with_several_targets(rng):
    X = rows(rng, (80, 200))
    Y = X @ rng.normal(size=(200, 3))
    grid = {"alpha": [0.1, 1.0]}
    ours = GridSearchCV(Ridge(), grid, cv=3).fit(X, Y)
    same_scores(ours, theirs.GridSearchCV(sk.Ridge(), grid, cv=3).fit(X.toarray(), Y))
    assert TOGETHER in str(ours.plan_)


@pytest.mark.pairwise
@pytest.mark.parametrize("shape", [(150, 20), (90, 400)])
@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("cv", [3, StratifiedKFold(4, shuffle=True, random_state=0)])
def test_logistic(rng, shape, k, cv):
    X = rows(rng, shape)
    y = np.arange(shape[0]) % k
    grid = {"C": [0.1, 3.0], "fit_intercept": [True, False]}
    scoring = ["accuracy", "neg_log_loss"]
    options = {"cv": cv, "scoring": scoring, "refit": "neg_log_loss"}
    params = {"class_weight": {0: 2.0}, **TIGHT}
    ours = GridSearchCV(LogisticRegression(**params), grid, **options).fit(X, y)
    rival = theirs.GridSearchCV(sk.LogisticRegression(**params), grid, **options)
    rival.fit(X.toarray(), y)
    same_scores(ours, rival, rtol=1e-5)
    assert TOGETHER in str(ours.plan_)
    with pytest.raises(ValueError, match="features"):
        ours.predict(X[:, 1:])


def test_the_best_estimator_is_that_of_a_single_fit(rng):
    X = rows(rng, (90, 300))
    y = np.arange(90) % 3
    ours = GridSearchCV(LogisticRegression(**TIGHT), {"C": [0.5]}, cv=3).fit(X, y)
    alone = LogisticRegression(C=0.5, **TIGHT).fit(X, y)
    np.testing.assert_allclose(ours.best_estimator_.coef_, alone.coef_, atol=1e-7)
    assert ours.best_estimator_.n_features_in_ == 300


def test_halving_reads_some_of_the_rows(rng):
    X = rows(rng, (400, 100))
    y = np.arange(400) % 2
    grid = {"C": [0.01, 0.1, 1.0, 10.0]}
    options = {"cv": 3, "random_state": 0, "factor": 2, "min_resources": 60}
    ours = HalvingGridSearchCV(LogisticRegression(**TIGHT), grid, **options).fit(X, y)
    rival = HalvingGridSearchCV(LogisticRegression(**TIGHT), grid, **options).fit(X.toarray(), y)
    same_scores(ours, rival)


def test_scorers_without_a_batched_form(rng):
    X = rows(rng, (90, 120))
    y = rng.normal(size=90)

    def score(model, X, y):
        assert sparse.issparse(X)
        return -np.abs(model.predict(X) - y).max()

    options = {"cv": 3, "scoring": score}
    ours = GridSearchCV(Ridge(), {"alpha": [0.1, 1.0]}, **options).fit(X, y)
    same_scores(
        ours, theirs.GridSearchCV(sk.Ridge(), {"alpha": [0.1, 1.0]}, **options).fit(X, y), 1e-3
    )
    assert TOGETHER in str(ours.plan_)


# ---------------------------------------------------------------- texts


class Counting(HashingVectorizer):
    """Counts how often it makes rows."""

    n_calls = 0

    def transform(self, X):
        Counting.n_calls += 1
        return super().transform(X)


@pytest.mark.exhaustive
def test_text_search_is_that_of_scikit_learn_and_shares_what_is_common():
    texts, labels = make_texts(240, n_classes=4, n_words=2000, random_state=1)
    values = np.array(["a", "b", "c", "d"])[labels]

    def pipeline(model):
        return make_pipeline(Counting(n_features=2**12), TfidfTransformer(), model)

    space = {
        "logisticregression__C": np.logspace(-1, 3, 9).tolist(),
        "tfidftransformer__use_idf": [True, False],
    }
    options = {"n_iter": 8, "cv": 3, "random_state": 0}
    Counting.n_calls = 0
    ours = RandomizedSearchCV(pipeline(LogisticRegression(**TIGHT)), space, **options)
    ours.fit(texts, values)
    # Training and held-out rows of each fold, and the fit of the best pipeline.
    assert Counting.n_calls == 3 * 2 + 1
    rival = theirs.RandomizedSearchCV(pipeline(sk.LogisticRegression(**TIGHT)), space, **options)
    rival.fit(texts, values)
    same_scores(ours, rival)
    assert list(ours.predict(texts[:5])) == list(rival.predict(texts[:5]))


def test_all_models_behind_a_prefix_are_fitted_at_once(monkeypatch):
    texts, labels = make_texts(120, n_classes=3, n_words=500)
    fits = []
    multifit = LogisticRegression.multifit
    monkeypatch.setattr(
        LogisticRegression,
        "multifit",
        lambda self, folds, candidates, *a: (
            fits.append(len(candidates)) or multifit(self, folds, candidates, *a)
        ),
    )
    pipeline = make_pipeline(HashingVectorizer(), TfidfTransformer(), LogisticRegression())
    grid = {"logisticregression__C": [0.1, 1.0, 10.0]}
    GridSearchCV(pipeline, grid, cv=3, refit=False).fit(texts, labels)
    assert fits == [3, 3, 3]


def test_sparse_rows_of_a_device_are_searched_there(library, rng):
    if library.name != "cupy":
        pytest.skip("only CuPy has sparse matrices here")
    import cupy
    from cupyx.scipy import sparse as on_gpu

    X, y = rows(rng, (150, 400)), np.arange(150) % 3
    on_device = on_gpu.csr_matrix(sparse.csr_matrix(X))
    grid = {"C": [0.1, 1.0, 10.0]}
    host = GridSearchCV(LogisticRegression(**TIGHT), grid, cv=3).fit(X, y)
    ours = GridSearchCV(LogisticRegression(**TIGHT), grid, cv=3).fit(on_device, cupy.asarray(y))
    same_scores(ours, host)
    assert TOGETHER in str(ours.plan_)
    assert isinstance(ours.best_estimator_.coef_, cupy.ndarray)
    target = rng.normal(size=150)
    host = GridSearchCV(Ridge(), {"alpha": [0.1, 1.0]}, cv=3).fit(X, target)
    ours = GridSearchCV(Ridge(), {"alpha": [0.1, 1.0]}, cv=3).fit(on_device, cupy.asarray(target))
    same_scores(ours, host)


@pytest.mark.parametrize("format", ["csr", "csc"])
@pytest.mark.parametrize("model", [LogisticRegression(warm_start=True, **TIGHT), BernoulliNB()])
def test_models_that_are_not_batched_take_sparse_rows_of_a_device(library, rng, format, model):
    """Each fold has a copy of its rows there, as of SciPy's rows in CPU memory."""
    if library.name != "cupy":
        pytest.skip("only CuPy has sparse matrices here")
    import cupy
    from cupyx.scipy import sparse as on_gpu

    X, y = sparse.csr_matrix(rows(rng, (60, 20))).asformat(format), np.arange(60) % 3
    on_device = getattr(on_gpu, f"{format}_matrix")(X)
    options = {"cv": 3, "error_score": "raise"}
    host = GridSearchCV(model, {}, **options).fit(X, y)
    ours = GridSearchCV(model, {}, **options).fit(on_device, cupy.asarray(y))
    same_scores(ours, host)
    assert isinstance(ours.predict(on_device), cupy.ndarray)
    scaled = make_pipeline(MaxAbsScaler(), model)
    with pytest.raises(TypeError, match="takes only dense data there"):
        GridSearchCV(scaled, {}, **options).fit(on_device, cupy.asarray(y))


@pytest.mark.gpu
def test_texts_are_searched_on_a_gpu_as_on_the_host():
    """The sparse rows stay on the GPU; scores and the best candidate are the host's."""
    pytest.importorskip("cuml")
    from cupyx.scipy.sparse import csr_matrix

    import gpuml
    from gpuml.feature_extraction import text

    texts, labels = make_texts(300, n_classes=4, n_words=2000, random_state=1)
    model = LogisticRegression(**TIGHT)
    pipeline = make_pipeline(
        text.HashingVectorizer(n_features=2**12), text.TfidfTransformer(), model
    )
    space = {
        "logisticregression__C": np.logspace(-3, 2, 6).tolist(),
        "tfidftransformer__use_idf": [True, False],
    }
    found = {}
    for device in ("cpu", "cuda"):
        with gpuml.config_context(device=device, fallback="error"):
            search = RandomizedSearchCV(pipeline, space, n_iter=6, cv=3, random_state=0)
            found[device] = search.fit(texts, labels)
    same_scores(found["cuda"], found["cpu"])
    assert found["cpu"].plan_.place == "numpy:cpu"
    assert found["cuda"].plan_.place == "numpy:cpu, cupy:cuda:0"
    with gpuml.config_context(device="cuda"):
        rows = found["cuda"].best_estimator_[:-1].transform(texts[:3])
    assert isinstance(rows, csr_matrix)

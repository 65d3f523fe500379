"""Sparse rows: models are those of the same rows made dense, and no row is ever made dense."""

import tracemalloc
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn import linear_model as sk
from sklearn.exceptions import ConvergenceWarning

from gpuml._inputs import csr
from gpuml.data import Split
from gpuml.designs import Sparse
from gpuml.linear_model import LogisticRegression, Ridge, RidgeCV
from gpuml.model_selection import GridSearchCV
from gpuml.resampling.atoms import make_folds
from gpuml.solvers import loss_models
from gpuml.solvers._result import Status
from gpuml.solvers.described import describe, training_parts
from gpuml.solvers.moments import to_origin

TIGHT = {"tol": 1e-10, "max_iter": 3000}
# Few features: second moments. More than rows, or than moments are for: conjugate gradients.
SHAPES = {"moments": (120, 12), "tall": (1300, 1100), "wide": (60, 400)}


def rows(rng, shape, density=0.2, empty=True):
    """Random rows; the third and the last have nothing in them, nor has the second column."""
    X = rng.normal(1.0, 1.0, shape) * (rng.random(shape) < density)
    if empty:
        X[[2, -1], :] = 0
        X[:, 1] = 0
    return sparse.csr_array(X)


def weights(rng, n):
    w = rng.uniform(0, 2, n)
    w[:5] = 0
    return w


def close(ours, theirs, rtol=1e-6):
    """Agreement to so much of the largest coefficient."""
    np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=rtol * np.abs(theirs).max())


# ---------------------------------------------------------------- ridge


@pytest.mark.pairwise
@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_ridge_is_that_of_dense_rows(rng, kind, fit_intercept, weighted):
    X = rows(rng, SHAPES[kind], density=0.02 if kind == "tall" else 0.2)
    n, p = X.shape
    y = X @ rng.normal(size=p) + rng.normal(size=n) + 3
    w = weights(rng, n) if weighted else None
    ours = Ridge(alpha=0.3, fit_intercept=fit_intercept).fit(X, y, w)
    theirs = sk.Ridge(alpha=0.3, fit_intercept=fit_intercept).fit(X.toarray(), y, w)
    close(ours.coef_, theirs.coef_)
    close(ours.intercept_, theirs.intercept_)
    close(ours.predict(X), theirs.predict(X.toarray()))
    assert ours.solver_ == ("cholesky" if kind == "moments" else "sparse_cg")
    assert ours.score(X, y, w) == pytest.approx(theirs.score(X.toarray(), y, w))


@pytest.mark.parametrize("kind", ["moments", "wide"])
def test_ridge_with_several_targets(rng, kind):
    X = rows(rng, SHAPES[kind])
    Y = rng.normal(size=(X.shape[0], 3))
    for alpha in (2.0, [0.1, 1.0, 10.0]):
        ours, theirs = Ridge(alpha=alpha).fit(X, Y), sk.Ridge(alpha=alpha).fit(X.toarray(), Y)
        assert ours.coef_.shape == theirs.coef_.shape
        close(ours.coef_, theirs.coef_)
        close(ours.intercept_, theirs.intercept_)
        assert ours.solver_ == ("cholesky" if kind == "moments" else "sparse_cg")
    one = Ridge().fit(X, Y[:, :1])
    assert one.coef_.shape == sk.Ridge().fit(X.toarray(), Y[:, :1]).coef_.shape
    assert one.intercept_.shape == (1,)


def test_without_a_penalty_the_solution_of_minimum_norm_is_found(rng):
    X = rows(rng, (30, 80))
    y = rng.normal(size=30)
    ours = Ridge(alpha=0.0, fit_intercept=False).fit(X, y)
    close(ours.coef_, np.linalg.lstsq(X.toarray(), y)[0])


def test_features_of_very_different_scales(rng):
    X = rows(rng, (1500, 1200), density=0.02)
    X = sparse.csr_array(X @ sparse.diags_array(np.logspace(-3, 3, 1200)))
    y = rng.normal(size=1500)
    ours, theirs = Ridge(alpha=1e-3).fit(X, y), sk.Ridge(alpha=1e-3).fit(X.toarray(), y)
    close(ours.predict(X), theirs.predict(X.toarray()))


@pytest.mark.parametrize("case", ["far from zero", "nearly dependent"])
def test_moments_that_leave_too_few_digits_are_not_trusted(rng, case):
    X = rows(rng, (200, 10), empty=False).toarray()
    y = X[:, 0] + rng.normal(size=200)
    alpha = 1e-3
    if case == "far from zero":
        X[:, 0] = 1e6 + X[:, 0]  # its variance is what moments about zero lose
    else:
        X[:, 2], alpha = X[:, 3] + 1e-5 * rng.normal(size=200), 1e-9
    ours = Ridge(alpha=alpha).fit(sparse.csr_array(X), y)
    assert ours.status_ is Status.ROWS
    centred = X - X.mean(axis=0)
    stacked = np.r_[centred, alpha**0.5 * np.eye(10)]
    expected = np.linalg.lstsq(stacked, np.r_[y - y.mean(), np.zeros(10)])[0]
    close(ours.coef_, expected)


def test_ridge_says_when_it_stops_early(rng):
    X = rows(rng, SHAPES["wide"])
    with pytest.warns(ConvergenceWarning, match="did not converge for 1 of 1 models"):
        model = Ridge(alpha=1e-3, max_iter=2).fit(X, rng.normal(size=60))
    assert model.status_ is Status.STOPPED
    assert "max_iter" in model.status_.advice


@pytest.mark.parametrize("weighted", [True, False])
def test_what_is_known_of_sparse_rows_is_what_is_known_of_dense_ones(rng, weighted):
    """The same record, moved to where the other has its origin."""
    X = rows(rng, SHAPES["moments"], empty=False)
    y, w = rng.normal(size=120), weights(rng, 120) if weighted else None
    splits = [Split(slice(0, 70), slice(70, 120)), Split(np.r_[0:9, 60:120], slice(9, 60))]
    found = []
    for each in (X, X.toarray()):
        folds = make_folds(Ridge().multifit_batch(each, y, w), splits)
        described = describe(folds)
        found.append([to_origin(described.combined(part)) for part in training_parts(folds)])
        assert describe(folds).n_passes == 0
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-11)


@pytest.mark.parametrize("solver", ["lsqr", "sparse_cg", "sag"])
def test_other_solvers_are_those_of_scikit_learn(rng, solver):
    X = rows(rng, SHAPES["moments"])
    y = rng.normal(size=120)
    params = {"solver": solver, "random_state": 0, "tol": 1e-8}
    ours, theirs = Ridge(**params).fit(X, y), sk.Ridge(**params).fit(X, y)
    np.testing.assert_array_equal(ours.coef_, theirs.coef_)
    positive = Ridge(positive=True).fit(X, y)
    np.testing.assert_array_equal(positive.coef_, sk.Ridge(positive=True).fit(X, y).coef_)
    with pytest.raises((TypeError, ValueError), match="(?i)svd"):
        Ridge(solver="svd").fit(X, y)


# ---------------------------------------------------------------- logistic


@pytest.mark.pairwise
@pytest.mark.parametrize("shape", [(150, 12), (60, 400)])
@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_logistic_is_that_of_dense_rows(rng, shape, k, fit_intercept):
    X = rows(rng, shape)
    y = np.array(["a", "b", "c", "d"])[np.arange(shape[0]) % k]
    w = weights(rng, shape[0])
    for C in (0.1, 10.0):
        params = {"C": C, "fit_intercept": fit_intercept, "class_weight": "balanced", **TIGHT}
        ours = LogisticRegression(**params).fit(X, y, w)
        theirs = sk.LogisticRegression(solver="newton-cg", **params).fit(X.toarray(), y, w)
        close(ours.coef_, theirs.coef_)
        close(ours.intercept_, theirs.intercept_) if fit_intercept else None
        close(ours.predict_proba(X), theirs.predict_proba(X.toarray()))
        close(ours.predict_log_proba(X), theirs.predict_log_proba(X.toarray()))
        np.testing.assert_array_equal(ours.predict(X), theirs.predict(X.toarray()))
        assert ours.score(X, y) == theirs.score(X.toarray(), y)


@pytest.mark.parametrize("solver", ["newton-cholesky", "saga"])
@pytest.mark.parametrize("l1_ratio", [0.0, 0.5, 1.0])
def test_other_solvers_and_penalties(rng, solver, l1_ratio):
    if solver == "newton-cholesky" and l1_ratio:
        pytest.skip("only smooth penalties")
    X = rows(rng, (150, 12))
    y = np.arange(150) % 3
    params = {"solver": solver, "l1_ratio": l1_ratio, "C": 0.5, **TIGHT}
    sparse_rows, dense = (LogisticRegression(**params).fit(x, y) for x in (X, X.toarray()))
    close(sparse_rows.coef_, dense.coef_)
    if l1_ratio == 1:
        np.testing.assert_array_equal(sparse_rows.coef_ == 0, dense.coef_ == 0)


def test_l1_penalties_where_features_are_many(rng):
    X = rows(rng, (80, 3000), density=0.02)
    y = np.arange(80) % 2
    params = {"solver": "saga", "l1_ratio": 1.0, "C": 2.0, "tol": 1e-7, "max_iter": 5000}
    model = LogisticRegression(**params).fit(X, y)
    # The least subgradient is the definition of the minimum.
    slope = X.T @ (model.predict_proba(X)[:, 1] - y) / 80
    bound = 1 / (2.0 * 80)
    coef = model.coef_[0]
    used = coef != 0
    assert 0 < used.sum() < 80
    np.testing.assert_allclose(slope[used], -bound * np.sign(coef[used]), atol=2e-7)
    assert np.abs(slope[~used]).max() <= bound + 2e-7


def test_warm_starts_along_a_path(rng):
    X = rows(rng, (100, 300))
    y = np.arange(100) % 3
    model = LogisticRegression(warm_start=True, **TIGHT)
    for C in (0.01, 0.1, 1.0):
        model.set_params(C=C).fit(X, y)
        cold = LogisticRegression(C=C, **TIGHT).fit(X, y)
        close(model.coef_, cold.coef_)
    again = model.fit(X, y)
    assert again.n_iter_[0] <= 1 < cold.n_iter_[0]
    with pytest.raises(ValueError, match="X and y need the features"):
        model.fit(X[:, :50], y)


def test_many_rows_are_read_in_pieces(rng, monkeypatch):
    from gpuml.designs import base

    X = rows(rng, (900, 40))
    y = np.arange(900) % 3
    whole = LogisticRegression(**TIGHT).fit(X, y)
    blocks = []
    make = Sparse.block
    monkeypatch.setattr(base, "CPU_BLOCK_BYTES", 2**11)
    monkeypatch.setattr(Sparse, "block", lambda X, rows: blocks.append(rows) or make(X, rows))
    close(LogisticRegression(**TIGHT).fit(X, y).coef_, whole.coef_)
    assert len(blocks) >= 8


# ---------------------------------------------------------------- laws of both


def models(rng, n):
    return [
        (Ridge(alpha=0.5), rng.normal(size=n)),
        (LogisticRegression(**TIGHT), np.arange(n) % 3),
    ]


def test_units_of_features_do_no_harm_where_a_sample_has_fewer_rows_than_features(rng):
    X = rows(rng, (2100, 1500), density=0.01, empty=False)
    y = (X @ rng.normal(size=1500) + rng.normal(size=2100) > 0).astype(int)
    X = sparse.csr_array(X * np.logspace(-1, 2, 1500))
    model = LogisticRegression(C=0.01).fit(X, y)  # would warn if it had not converged
    assert model.n_iter_[0] < 40


def test_passes_over_sparse_rows_do_not_pay_for_hessians_of_dense_ones(rng, monkeypatch):
    taken = []
    hessians = loss_models.inverse_curvature
    monkeypatch.setattr(
        loss_models, "inverse_curvature", lambda *a, **b: taken.append(1) or hessians(*a, **b)
    )
    X = rows(rng, (4000, 400), density=0.01, empty=False)
    y = (X @ rng.normal(size=400) + rng.normal(size=4000) > 0).astype(int)
    for each, expected in ((X.toarray(), True), (X, False)):
        GridSearchCV(LogisticRegression(), {"C": [0.1, 0.3, 1, 3]}, cv=3, refit=False).fit(each, y)
        assert bool(taken) == expected
        taken.clear()


@pytest.mark.parametrize("shape", [(100, 10), (40, 200)])
def test_a_doubled_row_is_a_doubled_weight(rng, shape):
    X = rows(rng, shape)
    n = shape[0]
    w = np.where(np.arange(n) < 7, 2.0, 1.0)
    twice = np.r_[np.arange(n), np.arange(7)]
    for model, y in models(rng, n):
        weighted = model.fit(X, y, w).coef_
        close(model.fit(X[twice], y[twice]).coef_, weighted, rtol=1e-7)


def test_formats_indices_zeros_and_duplicates_change_nothing(rng):
    X = rows(rng, (80, 150))
    long = sparse.csr_array(
        (X.data, X.indices.astype(np.int64), X.indptr.astype(np.int64)), X.shape
    )
    with_zeros = X.copy()
    with_zeros.data[::7] = 0
    without = with_zeros.copy()
    without.eliminate_zeros()
    coo = X.tocoo()
    duplicated = sparse.coo_array(
        (np.r_[coo.data / 2, coo.data / 2], (np.r_[coo.row, coo.row], np.r_[coo.col, coo.col])),
        X.shape,
    )
    indptr = 2 * X.indptr
    halves = sparse.csr_array((np.repeat(X.data / 2, 2), np.repeat(X.indices, 2), indptr), X.shape)
    for model, y in models(rng, 80):
        expected = model.fit(X, y).coef_
        for other in (X.tocsc(), coo, X.tolil(), sparse.csr_matrix(X), long, duplicated, halves):
            close(model.fit(other, y).coef_, expected, rtol=1e-8)
            close(model.predict(other).astype(float), model.predict(X).astype(float), rtol=1e-8)
        close(model.fit(with_zeros, y).coef_, model.fit(without, y).coef_, rtol=1e-8)
    assert halves.nnz == 2 * X.nnz  # what is the user's stays as it was


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_dtypes(rng, dtype):
    X = rows(rng, (90, 120))
    X = sparse.csr_array((np.round(3 * X.data).astype(dtype), X.indices, X.indptr), X.shape)
    expected = np.float32 if dtype == np.float32 else np.float64
    for model, y in models(rng, 90):
        model = model.set_params(**({"tol": 1e-5} if hasattr(model, "C") else {}))
        model.fit(X, y)
        assert model.coef_.dtype == expected
        assert np.asarray(model.intercept_).dtype == expected
        assert X.dtype == dtype
        double = type(model)(**model.get_params()).fit(X.astype(np.float64), y)
        close(model.coef_, double.coef_, rtol=2e-3 if dtype == np.float32 else 1e-9)


def test_rows_that_need_no_change_are_not_validated_for_long(rng, monkeypatch):
    X = rows(rng, (90, 120))
    fits = [(model.fit(X, y), model.predict(X.toarray())) for model, y in models(rng, 90)]
    monkeypatch.setattr(csr, "validate_data", None)
    for model, expected in fits:
        close(model.predict(X).astype(float), expected.astype(float), rtol=1e-8)


@pytest.mark.parametrize("kept", [sparse.csc_array, sparse.coo_array])
def test_rows_that_are_only_multiplied_stay_in_their_format(rng, monkeypatch, kept):
    """To CSR they went for 20 times as long as a product with them takes."""
    X = rows(rng, (90, 120))
    fits = [(model.fit(X, y), model.predict(X)) for model, y in models(rng, 90)]
    monkeypatch.setattr(kept, "tocsr", None)
    for model, expected in fits:
        close(model.predict(kept(X)).astype(float), expected.astype(float), rtol=1e-8)


def test_bad_input_is_refused_and_leaves_the_model_as_it_was(rng):
    X = rows(rng, (50, 8))
    bad = X.copy()
    bad.data[3] = np.nan
    for model, y in models(rng, 50):
        coef = model.fit(X, y).coef_
        for args, message in (
            ((bad, y), "NaN"),
            ((X, y[:-1]), "inconsistent numbers of samples"),
            ((X, y, -np.ones(50)), "[Nn]egative"),
            ((X.astype(complex), y), "Complex data not supported"),
            ((sparse.csr_array((0, 8)), y[:0]), "0 sample"),
        ):
            with pytest.raises(ValueError, match=message):
                model.fit(*args)
            assert model.coef_ is coef
            assert model.n_features_in_ == 8
        with pytest.raises(ValueError, match="X has 7 features, but .* is expecting 8"):
            model.predict(X[:, :7])
    with pytest.raises(ValueError, match="at least 2 classes"):
        LogisticRegression().fit(X, np.zeros(50))


def test_rows_without_any_entry(rng):
    X = sparse.csr_array((20, 5))
    y = rng.normal(size=20)
    model = Ridge().fit(X, y)
    np.testing.assert_array_equal(model.coef_, np.zeros(5))
    assert model.intercept_ == pytest.approx(y.mean())
    labels = np.arange(20) % 2
    model = LogisticRegression().fit(X, labels)
    np.testing.assert_array_equal(model.coef_, np.zeros((1, 5)))


def test_dense_rows_go_to_a_model_of_sparse_ones_and_back(rng):
    X = rows(rng, (60, 9))
    for model, y in models(rng, 60):
        model.fit(X, y)
        close(model.predict(X).astype(float), model.predict(X.toarray()).astype(float))
        model.fit(X.toarray(), y)
        close(model.predict(X).astype(float), model.predict(X.toarray()).astype(float))


# ---------------------------------------------------------------- several at once


@pytest.mark.parametrize("shape", [(120, 10), (60, 300)])
def test_multifit_is_one_fit_after_another(rng, shape):
    X, n = rows(rng, shape), shape[0]
    w = weights(rng, n)
    parts = np.array_split(rng.permutation(n), 3)
    splits = [Split(np.setdiff1d(np.arange(n), part), np.sort(part)) for part in parts]
    grids = {
        Ridge: [{"alpha": a, "fit_intercept": f} for a in (0.1, 10.0) for f in (True, False)],
        LogisticRegression: [
            {"C": c, "fit_intercept": f} for c in (0.1, 10.0) for f in (True, False)
        ],
    }
    for model, y in models(rng, n):
        candidates = grids[type(model)]
        folds = make_folds(model.multifit_batch(X, y, w), splits)
        stack = model.multifit(folds, candidates)
        for c, params in enumerate(candidates):
            alone = type(model)(**{**model.get_params(), **params})
            for s, split in enumerate(splits):
                alone.fit(X[split.train], y[split.train], w[split.train])
                found = stack.pick(c, s)
                close(found["coef_"], alone.coef_, rtol=2e-7)
                np.testing.assert_allclose(found["intercept_"], alone.intercept_, atol=1e-6)
            close(stack.pick(c, None)["coef_"], alone.fit(X, y, w).coef_, rtol=2e-7)


# ---------------------------------------------------------------- memory


@pytest.mark.parametrize("n_classes", [0, 2])
def test_memory_is_that_of_entries_and_models(rng, n_classes):
    n, p = 300, 2**20
    X = sparse.random_array((n, p), density=40 / p, format="csr", rng=rng)
    y = np.arange(n) % 2 if n_classes else rng.normal(size=n)
    model = LogisticRegression() if n_classes else Ridge()
    tracemalloc.start()
    model.fit(X, y)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert model.coef_.size == p
    # Rows alone would be 300 vectors of coefficients; work is on the columns that have entries.
    assert peak < 8 * 8 * p


def test_no_warning_where_all_is_well(rng):
    X = rows(rng, (60, 400))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for model, y in models(rng, 60):
            model.fit(X, y)


# ---------------------------------------------------------------- on a GPU


@pytest.mark.parametrize("shape", [(600, 12), (800, 1000)])
def test_device_rows_stay_there(library, rng, shape):
    if library.name != "cupy":
        pytest.skip("only CuPy has sparse matrices here")
    import cupy
    from cupyx.scipy import sparse as on_gpu

    from gpuml.testing import count_transfers

    X, n = rows(rng, shape), shape[0]
    on_device = on_gpu.csr_matrix(sparse.csr_matrix(X))
    for model, y in models(rng, n):
        host = type(model)(**model.get_params()).fit(X, y)
        with count_transfers() as moved:
            model.fit(on_device, cupy.asarray(y))
        assert moved.to_device < X.data.nbytes
        assert isinstance(model.coef_, cupy.ndarray)
        close(model.coef_.get(), host.coef_)
        predicted = model.predict(on_device)
        assert isinstance(predicted, cupy.ndarray)
        close(predicted.get().astype(float), host.predict(X).astype(float))
        close(model.predict(X).astype(float), host.predict(X).astype(float))
    with pytest.raises(ValueError, match="needs data in CPU memory"):
        Ridge(positive=True).fit(on_device, rng.normal(size=n))


@pytest.mark.parametrize("scoring", [None, "neg_mean_absolute_error"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_ridge_cv_of_sparse_rows(library, rng, scoring, fit_intercept):
    """Splits of sparse rows are fitted as those of dense ones; leaving one out is scikit-learn's."""
    X = rng.normal(size=(90, 8)) * (rng.random((90, 8)) < 0.4)
    y = X[:, 0] + rng.normal(size=90)
    options = {"alphas": (0.1, 3.0), "scoring": scoring, "fit_intercept": fit_intercept}
    rows = sparse.csr_array(X)
    if library.name == "cupy":
        rows = pytest.importorskip("cupyx.scipy.sparse").csr_matrix(rows)
        with pytest.raises(ValueError, match="sparse X and cv=None"):
            RidgeCV().fit(rows, library.asarray(y))
    elif library.name != "numpy":
        pytest.skip("it has no sparse matrices of ours")
    found = RidgeCV(cv=3, **options).fit(rows, library.asarray(y))
    expected = RidgeCV(cv=3, **options).fit(X, y)
    assert found.alpha_ == expected.alpha_
    assert found.best_score_ == pytest.approx(expected.best_score_, rel=1e-9)
    np.testing.assert_allclose(library.to_numpy(found.coef_), expected.coef_, rtol=1e-8, atol=1e-9)

"""Features that approximate kernels: scikit-learn's draws and numbers, where X is."""

import pickle

import numpy as np
import pytest
import sklearn.kernel_approximation as sk
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn import model_selection
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import gpuml.kernel_approximation as ours
from gpuml.linear_model import LogisticRegression, Ridge
from gpuml.model_selection import GridSearchCV
from gpuml.pipeline import make_pipeline
from gpuml.preprocessing import StandardScaler
from gpuml.testing import ArrayLibrary

to_numpy = ArrayLibrary.to_numpy
SEED = {"random_state": 3, "n_components": 12}


def product(x, y, power=1):
    """A kernel of two rows of any library."""
    return (x @ y + 1.0) ** power


CASES = [
    ("RBFSampler", SEED),
    ("RBFSampler", {**SEED, "gamma": "scale"}),
    ("RBFSampler", {**SEED, "gamma": 0.0}),
    ("SkewedChi2Sampler", SEED),
    ("SkewedChi2Sampler", {**SEED, "skewedness": 0.1}),
    ("AdditiveChi2Sampler", {}),
    ("AdditiveChi2Sampler", {"sample_steps": 1}),
    ("AdditiveChi2Sampler", {"sample_steps": 4, "sample_interval": 0.3}),
    ("PolynomialCountSketch", SEED),
    ("PolynomialCountSketch", {**SEED, "degree": 1, "n_components": 1}),
    ("PolynomialCountSketch", {**SEED, "degree": 3, "coef0": 1.5, "gamma": 0.3}),
    *[
        ("Nystroem", {**SEED, "kernel": kernel})
        for kernel in ("rbf", "laplacian", "chi2", "additive_chi2", "poly", "polynomial", "sigmoid")
    ],
    # Of no more than the rank of the kernel: what is beyond is rounding, divided by 1e-6.
    *[
        ("Nystroem", {**SEED, "kernel": kernel, "n_components": 4})
        for kernel in ("linear", "cosine")
    ],
    ("Nystroem", {**SEED, "gamma": 3.0}),
    ("Nystroem", {**SEED, "kernel": "poly", "degree": 2, "coef0": 0.5, "gamma": 0.2}),
    ("Nystroem", {**SEED, "kernel": "poly", "kernel_params": {"degree": 2}}),
    ("Nystroem", {**SEED, "kernel": product, "kernel_params": {"power": 2}, "n_components": 4}),
]
DRAWN = ("random_weights_", "random_offset_", "indexHash_", "bitHash_", "component_indices_")
FIRST = dict(reversed(CASES))  # one of each class


def rows(n=50):
    """Rows of 0 and more, a 0 among them."""
    X = np.random.default_rng(0).random((n, 5))
    X[3, 1] = 0.0
    return X


@pytest.mark.pairwise
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("name", "params"), CASES)
def test_features_are_those_of_scikit_learn(name, params, dtype, library):
    X, new = rows().astype(dtype), rows(70)[50:].astype(dtype)
    theirs = getattr(sk, name)(**params).fit(X)
    model = getattr(ours, name)(**params).fit(library.asarray(X))
    rtol = 1e-11 if dtype == "float64" else 1e-4
    for each in (X, new):
        expected, image = theirs.transform(each), model.transform(library.asarray(each))
        assert type(image) is type(library.asarray(X))
        if params.get("kernel") != "laplacian":  # whose float32 scikit-learn makes float64
            assert to_numpy(image).dtype == expected.dtype
        assert_allclose(to_numpy(image), expected, rtol=rtol, atol=rtol)
        # Fitted arrays go where the rows are.
        assert_allclose(model.transform(each), expected, rtol=rtol, atol=rtol)
        here = getattr(ours, name)(**params).fit(X).transform(library.asarray(each))
        assert_allclose(to_numpy(here), expected, rtol=rtol, atol=rtol)
    assert list(model.get_feature_names_out()) == list(theirs.get_feature_names_out())
    for attribute in DRAWN:
        if hasattr(theirs, attribute):
            found, wanted = to_numpy(getattr(model, attribute)), getattr(theirs, attribute)
            # A variance may round otherwise elsewhere.
            assert_allclose(found, wanted, rtol=1e-6 if params.get("gamma") == "scale" else 0)
            assert found.dtype == wanted.dtype


@pytest.mark.parametrize(("name", "params"), CASES)
def test_rows_in_cpu_memory_are_scikit_learns_work(name, params):
    X = rows()
    found = getattr(ours, name)(**params).fit_transform(X)
    assert_array_equal(found, getattr(sk, name)(**params).fit_transform(X))
    dense_only = (product, "chi2", "additive_chi2")
    if name != "SkewedChi2Sampler" and params.get("kernel") not in dense_only:
        sparse_rows = sparse.csr_array(X)
        found, wanted = (getattr(m, name)(**params).fit_transform(sparse_rows) for m in (ours, sk))
        assert type(found) is type(wanted)


@pytest.mark.parametrize("name", ["RBFSampler", "SkewedChi2Sampler", "Nystroem"])
def test_a_generator_goes_on_as_in_scikit_learn(name, library):
    X = rows()
    draws = []
    for module, given in ((ours, library.asarray(X)), (sk, X)):
        model = getattr(module, name)(n_components=4, random_state=np.random.RandomState(5))
        images = [to_numpy(model.fit(given).transform(given)) for _ in range(2)]
        assert not np.allclose(*images)
        draws.append(images)
    assert_allclose(draws[0], draws[1], rtol=1e-9, atol=1e-9)


def test_variances_of_constant_rows_are_no_divisor(library):
    X = np.ones((6, 2))
    model = ours.RBFSampler(gamma="scale", random_state=0).fit(library.asarray(X))
    expected = sk.RBFSampler(gamma="scale", random_state=0).fit_transform(X)
    assert_allclose(to_numpy(model.transform(library.asarray(X))), expected, atol=1e-12)


def test_precomputed_kernels_are_taken_as_they_are(library):
    X = rows(12)
    K = X @ X.T + np.eye(12)
    wanted = sk.Nystroem("precomputed", n_components=12, random_state=0).fit_transform(K)
    model = ours.Nystroem("precomputed", n_components=12, random_state=0)
    found = to_numpy(model.fit_transform(library.asarray(K)))
    assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)


def test_inner_products_of_all_rows_are_the_kernel(library):
    X = rows(20)
    model = ours.Nystroem(gamma=2.0, n_components=20, random_state=0)
    Z = to_numpy(model.fit_transform(library.asarray(X)))
    distances = np.sum((X[:, None] - X) ** 2, axis=2)
    assert_allclose(Z @ Z.T, np.exp(-2.0 * distances), atol=1e-9)


def test_fewer_rows_than_components_are_all_taken(library):
    X = library.asarray(rows(7))
    model = ours.Nystroem(n_components=9, random_state=0)
    with pytest.warns(UserWarning, match="n_components > n_samples"):
        model.fit(X)
    assert model.transform(X).shape == (7, 7)
    assert sorted(to_numpy(model.component_indices_)) == list(range(7))


BAD = [
    ("AdditiveChi2Sampler", {}, -rows(), "Negative values in data passed to X"),
    ("AdditiveChi2Sampler", {"sample_steps": 4}, rows(), "sample_interval"),
    ("SkewedChi2Sampler", {}, -2 * rows() - 1, "skewedness"),
    ("Nystroem", {"kernel": "chi2", "n_components": 5}, -rows(), "negative values"),
    ("Nystroem", {"kernel": "precomputed", "n_components": 5, "gamma": 1.0}, rows(), "gamma"),
    ("RBFSampler", {"gamma": -1.0}, rows(), "gamma"),
    ("RBFSampler", {"n_components": 0}, rows(), "n_components"),
    ("PolynomialCountSketch", {"degree": 0}, rows(), "degree"),
]


@pytest.mark.parametrize(("name", "params", "X", "words"), BAD)
def test_bad_input_is_an_error_as_in_scikit_learn(name, params, X, words, library):
    with pytest.raises(ValueError, match=r"."):
        getattr(sk, name)(**params).fit(X).transform(X)
    model, given = getattr(ours, name)(**params), library.asarray(X)
    with pytest.raises(ValueError, match=words):
        model.fit(given).transform(given)


def test_what_devices_cannot_have_says_what_to_change(library):
    X = library.asarray(rows())
    if isinstance(X, np.ndarray):
        pytest.skip("scikit-learn's work")
    with pytest.raises(ValueError, match="Set n_components to how many"):
        ours.Nystroem("precomputed", n_components=5).fit(library.asarray(np.eye(8)))
    with pytest.raises(ValueError, match="coef0=-1"):
        ours.PolynomialCountSketch(coef0=-1).fit(X)


@pytest.mark.parametrize("name", ours.__all__)
def test_fits_models_that_travel(name, library):
    X = rows()
    model = getattr(ours, name)(**FIRST[name])
    if name != "AdditiveChi2Sampler":  # which learns nothing
        with pytest.raises(NotFittedError):
            model.transform(library.asarray(X))
    model.fit(library.asarray(X))
    before = dict(vars(model))
    with pytest.raises(ValueError, match="infinity"):
        model.fit(library.asarray(np.where(X == 0, np.inf, X)))
    assert all(vars(model)[key] is value for key, value in before.items())
    with pytest.raises(ValueError, match="features"):
        model.transform(library.asarray(X[:, :3]))
    assert clone(model).get_params() == model.get_params()
    expected = to_numpy(model.transform(library.asarray(X)))
    twin = model.as_sklearn()
    assert type(twin) is getattr(sk, name)
    assert_allclose(twin.transform(X), expected, rtol=1e-9, atol=1e-9)
    if library.name != "array_api_strict":  # its devices cannot be pickled
        again = pickle.loads(pickle.dumps(model)).transform(library.asarray(X))
        assert_array_equal(to_numpy(again), expected)


# ---------------------------------------------------------------- in searches


def test_kernels_that_scikit_learn_has_for_writable_rows_are_searched():
    # Folds are read-only.
    X = rows(60)
    y = np.sin(4 * X.sum(axis=1))
    pipe = make_pipeline(ours.Nystroem("chi2", n_components=9, random_state=0), Ridge())
    grid = {"nystroem__gamma": [0.5, 1.0], "ridge__alpha": [0.1, 1.0]}
    search = GridSearchCV(pipe, grid, cv=3).fit(X, y)
    wanted = model_selection.GridSearchCV(pipe, grid, cv=3).fit(X, y)
    name = "mean_test_score"
    assert_allclose(search.cv_results_[name], wanted.cv_results_[name], rtol=1e-8)


STEPS = {
    "rbf": (ours.RBFSampler, {}, True),
    "chi2": (ours.SkewedChi2Sampler, {}, True),
    "scikit-learn's": (sk.RBFSampler, {}, True),
    "sketch": (ours.PolynomialCountSketch, {"coef0": 1}, True),
    "scale": (ours.RBFSampler, {"gamma": "scale"}, "takes gamma='scale' from each training set"),
    "rows": (ours.Nystroem, {}, "Nystroem draws its components from the rows"),
}


@pytest.mark.pairwise
@pytest.mark.parametrize("front", [(), (StandardScaler(),)])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("step", STEPS)
def test_searches_agree_with_scikit_learns_and_say_what_is_shared(step, kind, front):
    cls, params, way = STEPS[step]
    if kind == "sparse" and (front or cls is ours.SkewedChi2Sampler):
        pytest.skip("scikit-learn refuses sparse rows here")
    X = rows(80) if not front or step != "chi2" else rows(80) + 9.0
    y = np.sin(4 * X.sum(axis=1))
    X = sparse.csr_array(X) if kind == "sparse" else X
    skewed = {"skewedness": 9.0} if step == "chi2" else {}
    pipe = make_pipeline(*front, cls(n_components=9, random_state=0, **params, **skewed), Ridge())
    grid = {"ridge__alpha": [1e-3, 0.1, 1.0]}
    search = GridSearchCV(pipe, grid, cv=4).fit(X, y)
    wanted = model_selection.GridSearchCV(pipe, grid, cv=4).fit(X, y)
    scores = [each.cv_results_["mean_test_score"] for each in (search, wanted)]
    assert_allclose(*scores, rtol=1e-8, atol=1e-10)
    assert_allclose(search.predict(X), wanted.predict(X), rtol=1e-7, atol=1e-8)
    plan = str(search.plan_)
    if way is True and not front:
        assert "12 fits in 1 pass" in plan
        assert "all candidates together" in plan
    else:
        assert "12 fits together on each fold, preprocessing fitted once per fold" in plan
        assert way is True or way in plan


def test_a_sampler_without_a_seed_is_another_one_on_each_fold():
    X = rows(80)
    y = (X.sum(axis=1) > 2.5).astype(int)
    grid = {"logisticregression__C": [0.1, 1.0]}
    pipe = make_pipeline(ours.RBFSampler(n_components=9), LogisticRegression())
    plan = str(GridSearchCV(pipe, grid, cv=3).fit(X, y).plan_)
    assert "RBFSampler draws again for each training set; set random_state to an int" in plan


def test_each_width_of_a_kernel_is_a_pass():
    X = rows(80)
    y = np.sin(4 * X.sum(axis=1))
    pipe = make_pipeline(ours.RBFSampler(n_components=9, random_state=0), Ridge())
    grid = {"rbfsampler__gamma": [0.1, 1.0, "scale"], "ridge__alpha": [0.1, 1.0]}
    search = GridSearchCV(pipe, grid, cv=3).fit(X, y)
    assert [step.n_fits for step in search.plan_.steps] == [6, 6, 6]
    assert [step.n_passes for step in search.plan_.steps][:2] == [1, 1]
    wanted = model_selection.GridSearchCV(pipe, grid, cv=3).fit(X, y)
    name = "mean_test_score"
    assert_allclose(search.cv_results_[name], wanted.cv_results_[name], rtol=1e-8)


def test_rows_of_a_device_stay_there_in_a_search(library):
    X = rows(80)
    y = np.sin(4 * X.sum(axis=1))
    grid = {"ridge__alpha": [1e-3, 0.1]}
    for step in (ours.RBFSampler, ours.Nystroem):
        pipe = make_pipeline(step(n_components=9, random_state=0), Ridge())
        search = GridSearchCV(pipe, grid, cv=3, scoring="r2")
        found = search.fit(library.asarray(X), library.asarray(y)).predict(library.asarray(X))
        assert type(found) is type(library.asarray(X))
        wanted = model_selection.GridSearchCV(pipe, grid, cv=3).fit(X, y)
        assert_allclose(to_numpy(found), wanted.predict(X), rtol=1e-6, atol=1e-7)

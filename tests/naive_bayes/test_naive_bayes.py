"""Laws of the naive Bayes classifiers, and agreement with scikit-learn, over array libraries."""

import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn.naive_bayes as sk
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from gpuml import config_context
from gpuml.model_selection import RandomizedSearchCV
from gpuml.naive_bayes import BernoulliNB, CategoricalNB, ComplementNB, GaussianNB, MultinomialNB

N, P, K = 120, 6, 3
PRIORS = [0.5, 0.3, 0.2]
CASES = [
    (GaussianNB, {}),
    (GaussianNB, {"priors": PRIORS, "var_smoothing": 1e-3}),
    (MultinomialNB, {}),
    (MultinomialNB, {"alpha": np.linspace(0.1, 2, P), "fit_prior": False}),
    (MultinomialNB, {"class_prior": PRIORS}),
    (ComplementNB, {}),
    (ComplementNB, {"norm": True, "alpha": 0.5}),
    (BernoulliNB, {}),
    (BernoulliNB, {"binarize": 1.5, "alpha": 0.1}),
    (CategoricalNB, {}),
    (CategoricalNB, {"min_categories": 7, "alpha": 0.3}),
]
CLASSES = [GaussianNB, MultinomialNB, ComplementNB, BernoulliNB, CategoricalNB]
SPARSE = [MultinomialNB, ComplementNB, BernoulliNB]
METHODS = ["predict", "predict_proba", "predict_log_proba", "predict_joint_log_proba"]


def rows(rng, cls=MultinomialNB):
    """Rows, labels and weights; of the kind that the class is for."""
    y = rng.integers(K, size=N)
    y[:K] = np.arange(K)
    w = rng.uniform(size=N)
    if cls is GaussianNB:
        return rng.normal(size=(N, P)) * [1, 1, 5, 1, 0.1, 1] + 2.0 * y[:, None], y, w
    X = np.minimum(rng.poisson(1.0 + y[:, None], size=(N, P)), 5)
    X[0, :-1] = 5  # the first row alone has nearly all categories
    return X.astype(np.float64), y, w


def theirs(cls):
    return getattr(sk, cls.__name__)


def fitted_arrays(model):
    """Fitted attributes as lists of arrays, without names of features."""
    found = {}
    for name, value in vars(model).items():
        if name.endswith("_") and not name.startswith(("_", "n_features", "feature_names")):
            found[name] = value if isinstance(value, list) else [value]
    return found


def assert_same_model(library, one, two, rtol):
    first, second = fitted_arrays(one), fitted_arrays(two)
    assert set(first) == set(second)
    for name in second:
        assert len(first[name]) == len(second[name])
        for a, b in zip(first[name], second[name], strict=True):
            a, b = library.to_numpy(a), library.to_numpy(b)
            assert a.shape == b.shape
            np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-13, err_msg=name)


def assert_same_answers(library, one, X_one, two, X_two, rtol):
    for method in METHODS:
        a, b = getattr(one, method)(X_one), getattr(two, method)(X_two)
        np.testing.assert_allclose(
            library.to_numpy(a), library.to_numpy(b), rtol=rtol, atol=1e-10, err_msg=method
        )


# ---------------------------------------------------------------- agreement


@pytest.mark.each
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("cls", "params"), CASES)
def test_agrees_with_sklearn(library, rng, cls, params, weighted):
    X, y, w = rows(rng, cls)
    w = w if weighted else None
    other = theirs(cls)(**params).fit(X, y, w)
    X_lib, y_lib = library.asarray(X), library.asarray(y)
    w_lib = None if w is None else library.asarray(w)
    ours = cls(**params).fit(X_lib, y_lib, w_lib)
    assert_same_model(library, ours, other, 1e-10)
    assert_same_answers(library, ours, X_lib, other, X, 1e-9)
    assert type(ours.predict(X_lib)) is type(X_lib)
    assert type(ours.predict_proba(X_lib)) is type(X_lib)
    for values in fitted_arrays(ours).values():
        assert all(type(a) is type(X_lib) for a in values if getattr(a, "ndim", 0) > 0)
    assert ours.score(X_lib, y_lib, w_lib) == pytest.approx(other.score(X, y, w), abs=1e-12)
    np.testing.assert_array_equal(library.to_numpy(X_lib), X)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("cls", SPARSE)
@pytest.mark.parametrize("form", [sparse.csr_matrix, sparse.csr_array, sparse.csc_matrix])
def test_sparse_rows_are_as_dense_ones(rng, cls, form, weighted):
    X, y, w = rows(rng)
    w = w if weighted else None
    ours, other = cls().fit(form(X), y, w), theirs(cls)().fit(X, y, w)
    for name, values in fitted_arrays(other).items():
        np.testing.assert_allclose(getattr(ours, name), values[0], rtol=1e-10, err_msg=name)
    for method in METHODS:
        found = getattr(ours, method)(form(X))
        assert isinstance(found, np.ndarray)
        np.testing.assert_allclose(found, getattr(other, method)(X), rtol=1e-9, atol=1e-10)


def test_sparse_rows_of_other_values_than_floats(rng):
    X, y, _ = rows(rng)
    for dtype in (np.int8, np.int64, np.float32):
        other = MultinomialNB().fit(X, y)
        ours = MultinomialNB().fit(sparse.csr_matrix(X.astype(dtype)), y)
        np.testing.assert_allclose(ours.feature_log_prob_, other.feature_log_prob_, rtol=1e-12)


@pytest.mark.parametrize("cls", [GaussianNB, CategoricalNB])
def test_sparse_rows_are_refused_as_in_sklearn(rng, cls):
    X, y, _ = rows(rng, cls)
    with pytest.raises(TypeError, match="dense data is required"):
        cls().fit(sparse.csr_matrix(np.abs(X)), y)


def test_real_data_agree(library):
    X, y = load_iris(return_X_y=True)
    ours = GaussianNB().fit(library.asarray(X), library.asarray(y))
    assert ours.score(library.asarray(X), library.asarray(y)) == sk.GaussianNB().fit(X, y).score(
        X, y
    )
    X, y = load_digits(return_X_y=True)
    for cls in (MultinomialNB, ComplementNB, BernoulliNB, CategoricalNB):
        ours = cls().fit(library.asarray(X), library.asarray(y))
        expected = theirs(cls)().fit(X, y).predict(X)
        np.testing.assert_array_equal(library.to_numpy(ours.predict(library.asarray(X))), expected)


# ---------------------------------------------------------------- laws


@pytest.mark.parametrize("cls", CLASSES)
def test_doubled_row_is_doubled_weight(library, rng, cls):
    X, y, w = rows(rng, cls)
    twice, doubled = np.r_[np.arange(N), 7], w.copy()
    doubled[7] *= 2
    # The variance that smoothes is of rows without weights.
    params = {"var_smoothing": 0.0} if cls is GaussianNB else {}
    one = cls(**params).fit(*map(library.asarray, (X, y, doubled)))
    two = cls(**params).fit(*map(library.asarray, (X[twice], y[twice], w[twice])))
    assert_same_model(library, one, two, 1e-10)


@pytest.mark.parametrize("cls", CLASSES)
def test_row_of_no_weight_is_no_row(library, rng, cls):
    X, y, w = rows(rng, cls)
    w[11:20] = 0.0
    kept = w > 0
    params = {"var_smoothing": 0.0} if cls is GaussianNB else {}
    one = cls(**params).fit(*map(library.asarray, (X, y, w)))
    two = cls(**params).fit(*map(library.asarray, (X[kept], y[kept], w[kept])))
    assert_same_model(library, one, two, 1e-10)


@pytest.mark.pairwise
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("cls", CLASSES)
def test_parts_in_turn_give_what_all_rows_give(library, rng, cls, weighted):
    X, y, w = rows(rng, cls)
    params = {"var_smoothing": 0.0} if cls is GaussianNB else {}
    in_turn = cls(**params)
    for part in (slice(0, 1), slice(1, 50), slice(50, N)):
        weight = library.asarray(w[part]) if weighted else None
        in_turn.partial_fit(
            library.asarray(X[part]), library.asarray(y[part]), [0, 1, 2], sample_weight=weight
        )
    weight = library.asarray(w) if weighted else None
    at_once = cls(**params).fit(library.asarray(X), library.asarray(y), weight)
    if cls is CategoricalNB:
        del in_turn.n_categories_, at_once.n_categories_  # of the last part
    assert_same_model(library, in_turn, at_once, 1e-10)


@pytest.mark.parametrize("cls", CLASSES)
def test_parts_in_turn_are_as_in_sklearn(rng, cls):
    X, y, w = rows(rng, cls)
    ours, other = cls(), theirs(cls)()
    for part in (slice(0, 40), slice(40, N)):
        for model in (ours, other):
            model.partial_fit(X[part], y[part], np.arange(K), sample_weight=w[part])
    for name, values in fitted_arrays(other).items():
        found = fitted_arrays(ours)[name]
        for a, b in zip(found, values, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-13, err_msg=name)


def test_the_model_follows_the_rows(library, rng):
    X, y, _ = rows(rng, GaussianNB)
    model = GaussianNB().partial_fit(X[:60], y[:60], np.arange(K))
    model.partial_fit(library.asarray(X[60:]), library.asarray(y[60:]))
    assert type(model.theta_) is type(library.asarray(X))
    other = sk.GaussianNB().partial_fit(X[:60], y[:60], np.arange(K)).partial_fit(X[60:], y[60:])
    np.testing.assert_allclose(library.to_numpy(model.var_), other.var_, rtol=1e-6)
    model.partial_fit(X[:60], y[:60])
    assert type(model.theta_) is np.ndarray


@pytest.mark.parametrize("cls", CLASSES)
def test_order_of_rows_does_not_matter(library, rng, cls):
    X, y, w = rows(rng, cls)
    order = rng.permutation(N)
    one = cls().fit(*map(library.asarray, (X, y, w)))
    two = cls().fit(*map(library.asarray, (X[order], y[order], w[order])))
    assert_same_model(library, one, two, 1e-10)


@pytest.mark.parametrize("cls", CLASSES)
def test_blocks_of_rows_do_not_matter(library, rng, cls):
    X, y, w = rows(rng, cls)
    X_lib, y_lib, w_lib = map(library.asarray, (X, y, w))
    one = cls().fit(X_lib, y_lib, w_lib)
    with config_context(block_bytes=800):
        two = cls().fit(X_lib, y_lib, w_lib)
        found = two.predict_joint_log_proba(X_lib)
    assert_same_model(library, two, one, 1e-10)
    expected = library.to_numpy(one.predict_joint_log_proba(X_lib))
    np.testing.assert_allclose(library.to_numpy(found), expected, rtol=1e-10)


def test_a_large_mean_does_not_cost_digits_of_float32(library, rng):
    X, y, _ = rows(rng, GaussianNB)
    X = (X + 1e4).astype(np.float32)
    ours = GaussianNB().fit(library.asarray(X), library.asarray(y))
    expected = sk.GaussianNB().fit(X.astype(np.float64), y).var_
    np.testing.assert_allclose(library.to_numpy(ours.var_), expected, rtol=1e-6)


@pytest.mark.parametrize("cls", CLASSES)
def test_float32_stays_float32(library, rng, cls):
    X, y, _ = rows(rng, cls)
    X32, y = library.asarray(X.astype(np.float32)), library.asarray(y)
    model = cls().fit(X32, y)
    for method in METHODS[1:]:
        found = library.to_numpy(getattr(model, method)(X32))
        assert found.dtype == np.float32
        expected = library.to_numpy(getattr(model, method)(library.asarray(X)))
        assert expected.dtype == np.float64
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    wanted = np.float32 if cls is GaussianNB else np.float64
    table = model.theta_ if cls is GaussianNB else model.class_log_prior_
    assert library.to_numpy(table).dtype == wanted


@pytest.mark.pairwise
@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.uint8, bool])
@pytest.mark.parametrize("cls", CLASSES)
def test_integers_and_bools_are_numbers(library, rng, cls, dtype):
    X, y, _ = rows(rng)
    X = X.astype(dtype)
    ours = cls().fit(library.asarray(X), library.asarray(y))
    other = theirs(cls)().fit(X.astype(np.float64), y)
    assert_same_model(library, ours, other, 1e-10)
    found = library.to_numpy(ours.predict_proba(library.asarray(X)))
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, other.predict_proba(X.astype(np.float64)), rtol=1e-8)


@pytest.mark.parametrize("cls", CLASSES)
def test_memory_order_does_not_matter(rng, cls):
    X, y, _ = rows(rng, cls)
    expected = cls().fit(X, y).predict_proba(X)
    wide = np.repeat(X, 2, axis=1)[:, ::2]
    for other in (np.asfortranarray(X), wide, X[::-1][::-1]):
        np.testing.assert_allclose(cls().fit(other, y).predict_proba(other), expected, rtol=1e-12)


# ---------------------------------------------------------------- labels, names, places


@pytest.mark.pairwise
@pytest.mark.parametrize("labels", [["ant", "bee", "cat"], [10, 20, 40], [-1.0, 2.0, 3.0]])
@pytest.mark.parametrize("cls", CLASSES)
def test_labels_of_all_kinds(library, rng, cls, labels):
    X, y, _ = rows(rng, cls)
    named = np.asarray(labels)[y]
    model = cls().fit(library.asarray(X), named)
    expected = theirs(cls)().fit(X, named).predict(X)
    found = model.predict(library.asarray(X))
    np.testing.assert_array_equal(library.to_numpy(found), expected)
    assert type(found) is (np.ndarray if labels[0] == "ant" else type(library.asarray(X)))
    assert model.score(library.asarray(X), named) == np.mean(expected == named)
    part = cls().partial_fit(library.asarray(X[:9]), named[:9], classes=labels)
    np.testing.assert_array_equal(library.to_numpy(part.classes_), labels)


@pytest.mark.pairwise
@pytest.mark.parametrize("dtype", [np.uint8, bool])
@pytest.mark.parametrize("cls", CLASSES)
def test_labels_of_few_bits(library, rng, cls, dtype):
    X, y, _ = rows(rng, cls)
    y = (y > 0).astype(dtype)
    model = cls().fit(library.asarray(X), library.asarray(y))
    found = library.to_numpy(model.predict(library.asarray(X)))
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, theirs(cls)().fit(X, y).predict(X))


@pytest.mark.parametrize("kind", [list, pd.Series, np.array, lambda w: 2.0])
def test_weights_of_all_kinds(library, rng, kind):
    X, y, w = rows(rng)
    ours = MultinomialNB().fit(library.asarray(X), library.asarray(y), kind(w))
    expected = sk.MultinomialNB().fit(X, y, kind(w)).feature_count_
    np.testing.assert_allclose(library.to_numpy(ours.feature_count_), expected, rtol=1e-12)


@pytest.mark.parametrize("cls", CLASSES)
def test_one_class_is_enough(library, rng, cls):
    X, _, _ = rows(rng, cls)
    y = np.ones(N, dtype=np.int64)
    model = cls().fit(library.asarray(X), library.asarray(y))
    assert_same_model(library, model, theirs(cls)().fit(X, y), 1e-10)
    np.testing.assert_array_equal(library.to_numpy(model.predict(library.asarray(X))), y)


def test_names_of_features_are_kept_and_checked(rng):
    X, y, _ = rows(rng, GaussianNB)
    frame = pd.DataFrame(X, columns=list("abcdef"))
    model = GaussianNB().fit(frame, y)
    assert list(model.feature_names_in_) == list("abcdef")
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[list("fedcba")])


@pytest.mark.parametrize("cls", CLASSES)
def test_clones_and_pickles(library, rng, cls):
    X, y, _ = rows(rng, cls)
    model = cls().fit(library.asarray(X), library.asarray(y))
    assert clone(model).get_params() == model.get_params()
    twin = model.as_sklearn()
    assert type(twin) is theirs(cls)
    assert_same_answers(library, model, library.asarray(X), twin, X, 1e-9)
    if library.name == "array_api_strict":
        return  # its devices cannot be pickled
    back = pickle.loads(pickle.dumps(model))
    assert_same_answers(library, back, library.asarray(X), model, library.asarray(X), 1e-12)


def test_alpha_of_each_feature_of_features_that_are_there_or_not(library, rng):
    # scikit-learn takes the array for one of classes where it counts rows.
    X, y, _ = rows(rng)
    X_lib, y_lib = library.asarray(X), library.asarray(y)
    alpha = np.linspace(0.1, 2, P)
    model = BernoulliNB(alpha=alpha, binarize=1.5).fit(X_lib, y_lib)
    for j in range(P):
        alone = sk.BernoulliNB(alpha=alpha[j], binarize=1.5).fit(X[:, [j]], y)
        found = library.to_numpy(model.feature_log_prob_)[:, [j]]
        np.testing.assert_allclose(found, alone.feature_log_prob_, rtol=1e-12)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_old_variances_keep_what_scikit_learn_keeps_of_what_was_added(library, rng, scale):
    """Rows that are all alike add nothing, and take nothing: constant features of a class stay."""
    X, y, _ = rows(rng, GaussianNB)
    X[y == 1, 0] = 2.0
    classes = np.arange(K + 1)  # one without any rows
    parts = [(X[:60], y[:60]), (X[60:] * scale, y[60:]), (X[:1], y[:1])]
    ours, other = GaussianNB(), sk.GaussianNB()
    for some, labels in parts:
        ours.partial_fit(library.asarray(some), library.asarray(labels), classes)
        other.partial_fit(some, labels, classes)
        assert float(ours.epsilon_) == pytest.approx(other.epsilon_)
        np.testing.assert_allclose(library.to_numpy(ours.var_), other.var_, rtol=1e-9)
    assert other.epsilon_ == 0
    with np.errstate(divide="ignore"):
        found = library.to_numpy(ours.predict(library.asarray(X)))
        np.testing.assert_array_equal(found, other.predict(X))


def test_unseen_category_is_an_error(library):
    model = CategoricalNB().fit(library.asarray(np.array([[0.0], [1.0]])), [0, 1])
    with pytest.raises(IndexError, match="index 2 is out of bounds"):
        model.predict(library.asarray(np.array([[2.0]])))


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_the_highest_category_of_small_integers_is_counted(dtype, library):
    X, y = np.array([[0], [np.iinfo(dtype).max], [3], [3]], dtype), np.array([0, 1, 0, 1])
    expected = sk.CategoricalNB().fit(X, y)
    model = CategoricalNB().fit(library.asarray(X), library.asarray(y))
    found = library.to_numpy(model.n_categories_)
    np.testing.assert_array_equal(found, expected.n_categories_)
    assert found.dtype == expected.n_categories_.dtype
    found = library.to_numpy(model.category_count_[0])
    np.testing.assert_array_equal(found, expected.category_count_[0])


# ---------------------------------------------------------------- bad input


def bad_calls(rng, cls):
    X, y, w = rows(rng, cls)
    holed, below = X.copy(), X.copy()
    holed[3, 1], below[3, 1] = np.nan, -1.0
    calls = [
        (holed, y, None, "NaN"),
        (X[:, 0], y, None, "2D array"),
        (X[:0], y[:0], None, "0 sample"),
        (X, y[:-1], None, "inconsistent"),
        (X, y + 0.5, None, "Unknown label type"),
        (X, y, -w, "(?i)negative"),
        (X, y, 0 * w, "non-zero"),
        (X, y, w[:-1], "sample_weight.shape"),
    ]
    return calls + ([(below, y, None, "Negative values")] if cls in COUNTING else [])


COUNTING = [MultinomialNB, ComplementNB, CategoricalNB]


@pytest.mark.parametrize("cls", CLASSES)
def test_bad_input_changes_nothing(library, rng, cls):
    X, y, _ = rows(rng, cls)
    model = cls().fit(library.asarray(X), library.asarray(y))
    before = dict(vars(model))
    for bad_X, bad_y, weight, message in bad_calls(rng, cls):
        weight = None if weight is None else library.asarray(weight)
        for method in (model.fit, model.partial_fit):
            with pytest.raises(ValueError, match=message):
                method(library.asarray(bad_X), library.asarray(bad_y), sample_weight=weight)
        assert all(vars(model)[name] is before[name] for name in before)


@pytest.mark.parametrize("cls", CLASSES)
def test_classes_of_parts_are_checked(library, rng, cls):
    X, y, _ = rows(rng, cls)
    X, y = library.asarray(X), library.asarray(y)
    with pytest.raises(ValueError, match="classes must be passed"):
        cls().partial_fit(X, y)
    with pytest.raises(ValueError, match="do not exist in the initial classes"):
        cls().partial_fit(X, y, classes=[0, 1])
    model = cls().partial_fit(X, y, classes=[0, 1, 2])
    with pytest.raises(ValueError, match="not the same as on last call"):
        model.partial_fit(X, y, classes=[0, 1, 2, 3])
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(X[:, :2], y)


@pytest.mark.parametrize(
    ("priors", "message"),
    [
        ([0.5, 0.5], "Number of priors"),
        ([0.5, 0.6, 0.1], "sum"),
        ([1.5, -1.0, 0.5], "non-negative"),
    ],
)
def test_bad_priors(rng, priors, message):
    X, y, _ = rows(rng, GaussianNB)
    with pytest.raises(ValueError, match=message):
        GaussianNB(priors=priors).fit(X, y)
    if message == "Number of priors":
        with pytest.raises(ValueError, match=message):
            MultinomialNB(class_prior=priors).fit(np.abs(X), y)


@pytest.mark.parametrize("cls", CLASSES)
def test_nothing_is_said_before_a_fit(cls):
    for method in METHODS:
        with pytest.raises(NotFittedError):
            getattr(cls(), method)(np.ones((2, 2)))


# ---------------------------------------------------------------- in a search


@pytest.mark.parametrize(
    ("cls", "space"),
    [
        (GaussianNB, {"var_smoothing": [1e-9, 1e-3, 1.0]}),
        (MultinomialNB, {"alpha": [0.1, 1.0, 10.0]}),
    ],
)
def test_a_search_takes_device_rows(library, rng, cls, space):
    X, y, _ = rows(rng, cls)

    def search(model):
        return RandomizedSearchCV(model, space, n_iter=3, cv=3, random_state=0)

    ours = search(cls()).fit(library.asarray(X), library.asarray(y))
    other = search(theirs(cls)()).fit(X, y)
    assert ours.best_params_ == other.best_params_
    np.testing.assert_allclose(
        ours.cv_results_["mean_test_score"], other.cv_results_["mean_test_score"], atol=1e-12
    )
    assert type(ours.predict(library.asarray(X))) is type(library.asarray(X))


# ---------------------------------------------------------------- on a GPU


@pytest.mark.gpu
@pytest.mark.parametrize("cls", SPARSE)
def test_cupyx_rows_are_as_scipys(rng, cls):
    cupy = pytest.importorskip("cupy")
    from cupyx.scipy import sparse as cupyx_sparse

    X, y, w = rows(rng)
    on_gpu = cupyx_sparse.csr_matrix(sparse.csr_matrix(X))
    ours = cls().fit(on_gpu, cupy.asarray(y), cupy.asarray(w))
    other = theirs(cls)().fit(X, y, w)
    assert isinstance(ours.feature_log_prob_, cupy.ndarray)
    found = ours.predict_log_proba(on_gpu)
    assert isinstance(found, cupy.ndarray)
    np.testing.assert_allclose(found.get(), other.predict_log_proba(X), rtol=1e-9, atol=1e-10)
    ours.partial_fit(on_gpu, y)
    with pytest.raises(ValueError, match="features"):
        ours.predict(on_gpu[:, :2])


@pytest.mark.gpu
@pytest.mark.parametrize("cls", CLASSES)
def test_host_rows_may_be_worked_on_by_a_gpu(rng, cls):
    cupy = pytest.importorskip("cupy")
    if not cupy.is_available():
        pytest.skip("no GPU")
    X, y, w = rows(rng, cls)
    expected = cls().fit(X, y, w).predict_proba(X)
    with config_context(device="cuda"):
        model = cls().fit(X, y, w)
        found = model.predict_proba(X)
    assert type(found) is np.ndarray
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([cls() for cls in CLASSES])
def test_check_estimator(estimator, check):
    check(estimator)

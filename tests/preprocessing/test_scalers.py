"""Laws of the scalers, and agreement with scikit-learn, over array libraries."""

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
import sklearn
import sklearn.preprocessing as sk
from scipy import sparse
from sklearn.base import clone

import gpuml.preprocessing
from gpuml.extending import AffineStep
from gpuml.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, StandardScaler
from gpuml.preprocessing._column_extrema import max_abs, range_map
from gpuml.testing import LAW_RTOL, RTOL

STANDARD = [
    {"with_mean": with_mean, "with_std": with_std}
    for with_mean in (True, False)
    for with_std in (True, False)
]
CASES = [
    *[(StandardScaler, params) for params in STANDARD],
    (MinMaxScaler, {}),
    (MinMaxScaler, {"feature_range": (-2, 0.5), "clip": True}),
    (MaxAbsScaler, {}),
    (MaxAbsScaler, {"clip": True}),
]
SCALERS = list(dict.fromkeys(cls for cls, _ in CASES))
STATELESS = [(Normalizer, {"norm": norm}) for norm in ("l1", "l2", "max")]

# Of a constant feature with weights, scikit-learn's variance may come out as -1e-33.
SKLEARN_ROUNDS_BELOW_ZERO = "ignore:invalid value encountered in sqrt:RuntimeWarning"


def test_every_scaler_has_a_case():
    every = {getattr(gpuml.preprocessing, name) for name in gpuml.preprocessing.__all__}
    assert {cls for cls in every if issubclass(cls, AffineStep)} == set(SCALERS)


def rows(rng, n=90, p=5, *, holes=False):
    X = rng.normal(3, 2, size=(n, p))
    X[:, 1] = 7.5  # constant
    if holes:
        X[rng.uniform(size=X.shape) < 0.1] = np.nan
        X[:, 4] = np.nan
    return X


def theirs(model):
    return getattr(sk, type(model).__name__)(**model.get_params())


def fitted_attributes(model):
    return {k: v for k, v in vars(model).items() if k.endswith("_") and v is not None}


def assert_same(library, ours, other, rtol):
    """Both were fitted to the same rows."""
    expected = fitted_attributes(other)
    assert fitted_attributes(ours).keys() == expected.keys()
    for name, value in expected.items():
        found = library.to_numpy(getattr(ours, name))
        np.testing.assert_allclose(found, library.to_numpy(value), rtol=rtol, atol=rtol)


@pytest.mark.pairwise
@pytest.mark.filterwarnings("ignore:All-NaN:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize(("cls", "params"), [*CASES, *STATELESS])
def test_agrees_with_sklearn(library, rng, dtype, holes, cls, params):
    if holes and cls is Normalizer:
        pytest.skip("refuses nan")
    X = rows(rng, holes=holes).astype(dtype)
    new = 2 * rows(rng, holes=holes).astype(dtype)
    ours, other = cls(**params), theirs(cls(**params))
    X_lib, new_lib = library.asarray(X), library.asarray(new)
    image = ours.fit(X_lib).transform(new_lib)
    expected = other.fit(X).transform(new)
    rtol = RTOL[dtype]
    assert type(image) is type(X_lib)
    assert library.to_numpy(image).dtype == dtype
    np.testing.assert_allclose(library.to_numpy(image), expected, rtol=rtol, atol=rtol)
    assert_same(library, ours, other, rtol)
    for name, value in fitted_attributes(other).items():
        found = getattr(ours, name)
        if isinstance(value, np.ndarray):
            assert type(found) is type(X_lib)
            assert library.to_numpy(found).dtype == value.dtype
        else:
            assert type(found) is type(value)
    if hasattr(other, "inverse_transform"):
        back = library.to_numpy(ours.inverse_transform(image))
        expected = other.inverse_transform(expected)
        np.testing.assert_allclose(back, expected, rtol=rtol, atol=10 * rtol)
    np.testing.assert_array_equal(library.to_numpy(new_lib), new)


@pytest.mark.filterwarnings(SKLEARN_ROUNDS_BELOW_ZERO)
@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("params", STANDARD)
def test_weights_agree_with_sklearn(library, rng, params, holes):
    X, w = rows(rng, holes=holes)[:, :4], rng.uniform(size=90)
    ours = StandardScaler(**params).fit(library.asarray(X), sample_weight=library.asarray(w))
    assert_same(library, ours, sk.StandardScaler(**params).fit(X, sample_weight=w), 1e-9)


@pytest.mark.pairwise
@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize(("cls", "params"), CASES)
def test_parts_in_turn_give_what_all_rows_give(library, rng, cls, params, holes):
    if holes and library.name.startswith("numpy"):
        pytest.skip("scikit-learn's own: nan for good once a part of a feature has no value")
    X = rows(rng, holes=holes)
    X[:, 4] = 0.0
    if holes:
        X[:40, 3] = np.nan
    in_turn = cls(**params)
    for part in (X[:1], X[1:40], X[40:]):
        in_turn.partial_fit(library.asarray(part))
    assert_same(library, in_turn, cls(**params).fit(library.asarray(X)), LAW_RTOL["float64"])


def test_weighted_parts_in_turn_give_what_all_rows_give(library, rng):
    X, w = rows(rng), rng.uniform(size=90)
    in_turn = StandardScaler()
    for part in (slice(0, 30), slice(30, 90)):
        in_turn.partial_fit(library.asarray(X[part]), sample_weight=library.asarray(w[part]))
    at_once = StandardScaler().fit(library.asarray(X), sample_weight=library.asarray(w))
    assert_same(library, in_turn, at_once, LAW_RTOL["float64"])


@pytest.mark.filterwarnings(SKLEARN_ROUNDS_BELOW_ZERO)
def test_doubled_row_is_doubled_weight(library, rng):
    X, w = rows(rng), rng.uniform(size=90)
    twice, doubled = np.r_[np.arange(90), 7], w.copy()
    doubled[7] *= 2
    one = StandardScaler().fit(library.asarray(X), sample_weight=library.asarray(doubled))
    two = StandardScaler().fit(library.asarray(X[twice]), sample_weight=library.asarray(w[twice]))
    assert_same(library, one, two, LAW_RTOL["float64"])


@pytest.mark.parametrize("holes", [False, True])
def test_a_large_mean_does_not_cost_digits_of_float32(library, rng, holes):
    X = rng.normal(500, 1, size=(20_000, 3)).astype("float32")
    if holes:
        X[5, 0] = np.nan  # the sample that finds a shift does not see this one
        X[::2, 1] = np.nan  # and of this feature it sees nothing but nan
    ours = StandardScaler().fit(library.asarray(X))
    expected = np.nanvar(X.astype("float64"), axis=0)
    np.testing.assert_allclose(library.to_numpy(ours.var_), expected, rtol=1e-10)


def test_features_far_from_zero_that_the_sample_misses(library, rng):
    X = rng.normal(1e9, 1, size=(20_000, 2))
    X[:, 1] = np.nan
    X[3, 1], X[7, 1] = 1e9, 1e9 + 2  # two values, in none of the rows 0, 4, 8, ...
    ours = StandardScaler().fit(library.asarray(X))
    np.testing.assert_allclose(library.to_numpy(ours.var_)[1], 1.0, rtol=1e-9)


@pytest.mark.filterwarnings(SKLEARN_ROUNDS_BELOW_ZERO)
def test_constant_features_are_not_scaled(library, rng):
    X = np.full((5_000, 4), 0.1) * 10.0 ** np.arange(4)
    for w in (None, library.asarray(rng.uniform(size=5_000))):
        ours = StandardScaler().fit(library.asarray(X), sample_weight=w)
        np.testing.assert_array_equal(library.to_numpy(ours.scale_), np.ones(4))


def test_rows_of_zeros_stay(library):
    image = Normalizer().fit_transform(library.asarray(np.array([[0.0, 0.0], [3.0, 4.0]])))
    np.testing.assert_allclose(library.to_numpy(image), [[0, 0], [0.6, 0.8]], atol=1e-12)


def test_batched_extrema_give_the_maps_of_each(library, rng):
    parts = rng.normal(size=(3, 20, 4))
    parts[:, :, 2] = 1.0
    low, high = library.asarray(parts.min(axis=1)), library.asarray(parts.max(axis=1))
    scale, offset = (library.to_numpy(x) for x in range_map(low, high, (-1, 2)))
    largest = library.to_numpy(max_abs(low, high))
    for s, part in enumerate(parts):
        one = sk.MinMaxScaler(feature_range=(-1, 2)).fit(part)
        np.testing.assert_allclose(scale[s], one.scale_, rtol=1e-12)
        np.testing.assert_allclose(offset[s], one.min_, rtol=1e-12)
        np.testing.assert_allclose(largest[s], sk.MaxAbsScaler().fit(part).max_abs_)


def test_integers_become_float64(library, rng):
    X = rng.integers(0, 9, size=(20, 3))
    for cls in (*SCALERS, Normalizer):
        image = library.to_numpy(cls().fit_transform(library.asarray(X)))
        assert image.dtype == "float64"
        np.testing.assert_allclose(image, theirs(cls()).fit_transform(X), rtol=1e-12)


def test_copy_false_may_write_and_true_does_not(library, rng):
    if library.name == "numpy-readonly":
        pytest.skip("nobody writes there")
    X = rows(rng)
    for copy in (True, False):
        X_lib = library.asarray(X)
        model = StandardScaler().fit(X_lib)
        image = library.to_numpy(model.set_params(copy=copy).transform(X_lib))
        np.testing.assert_allclose(image, sk.StandardScaler().fit_transform(X), atol=1e-12)
        unchanged = np.array_equal(library.to_numpy(X_lib), X)
        assert unchanged is copy


@pytest.mark.parametrize(("cls", "params"), [*CASES, *STATELESS])
def test_models_move_between_libraries(library, rng, cls, params):
    X = rows(rng)
    X_lib = library.asarray(X)
    expected = theirs(cls(**params)).fit(X).transform(X)
    here = clone(cls(**params)).fit(X_lib)
    travelled = pickle.loads(pickle.dumps(here)) if library.name != "array_api_strict" else here
    for found in (travelled.transform(X), cls(**params).fit(X).transform(X_lib)):
        np.testing.assert_allclose(library.to_numpy(found), expected, rtol=1e-9, atol=1e-9)
    if cls is not Normalizer:
        both = cls(**params).partial_fit(X_lib).partial_fit(X).partial_fit(X_lib)
        again = library.to_numpy(both.transform(X_lib))
        np.testing.assert_allclose(again, expected, rtol=1e-9, atol=1e-9)
        assert both.n_samples_seen_ == 3 * 90


@pytest.mark.parametrize("cls", [*SCALERS, Normalizer])
def test_data_frames_come_where_they_are_asked_for(library, rng, cls):
    X = rows(rng)
    model = cls().set_output(transform="pandas")
    image = model.fit_transform(library.asarray(X))
    assert list(image.columns) == list(model.get_feature_names_out())
    np.testing.assert_allclose(image, theirs(cls()).fit_transform(X), rtol=1e-9, atol=1e-9)


@pytest.mark.pairwise
@pytest.mark.parametrize("cls", [*SCALERS, Normalizer])
@pytest.mark.parametrize("wrong", ["inf", "columns", "axes", "empty", "complex"])
def test_bad_rows_are_refused_and_leave_the_model_as_it_was(library, rng, cls, wrong):
    X = rows(rng)
    bad = {
        "inf": np.where(X[3, 0] == X, np.inf, X),
        "columns": X[:, :3],
        "axes": X[:, 0],
        "empty": X[:0],
        "complex": X + 1j,
    }[wrong]
    model = cls().fit(library.asarray(X))
    before = dict(vars(model))
    again = getattr(model, "partial_fit", model.transform)
    with pytest.raises(ValueError, match=r"\w"):
        again(library.asarray(bad))
    with pytest.raises(ValueError, match=r"\w"):
        model.transform(library.asarray(bad))
    assert all(vars(model)[name] is value for name, value in before.items())


def test_bad_weights_are_refused(library, rng):
    X = library.asarray(rows(rng))
    for weight in (np.zeros(90), np.ones(7), np.full(90, np.nan)):
        with pytest.raises(ValueError, match="eight"):
            StandardScaler().fit(X, sample_weight=library.asarray(weight))


def test_an_empty_range_is_refused(library, rng):
    with pytest.raises(ValueError, match="Minimum of desired feature range"):
        MinMaxScaler(feature_range=(1, 1)).fit(library.asarray(rows(rng)))


@pytest.mark.parametrize("cls", [StandardScaler, MaxAbsScaler, Normalizer])
def test_sparse_rows_are_the_work_of_sklearn(rng, cls):
    X = sparse.random_array((40, 5), density=0.4, rng=rng, format="csr")
    model = cls(with_mean=False) if cls is StandardScaler else cls()
    found = model.fit_transform(X)
    np.testing.assert_allclose(found.toarray(), theirs(model).fit_transform(X).toarray())


def test_dispatch_refuses_to_mix_libraries(library, rng):
    if library.name.startswith("numpy"):
        pytest.skip("one library")
    X = rows(rng)
    model = StandardScaler().fit(library.asarray(X))
    with (
        sklearn.config_context(array_api_dispatch=True),
        pytest.raises(ValueError, match="same namespace"),
    ):
        model.transform(X)


@pytest.mark.exhaustive
def test_devices_need_no_setting_of_scipy():
    # scikit-learn's own dispatch raises without SCIPY_ARRAY_API=1; this process has it set.
    code = (
        "import array_api_strict as xp\n"
        "from gpuml.preprocessing import StandardScaler\n"
        "X = xp.asarray([[0.0], [2.0]], device=xp.Device('device1'))\n"
        "assert float(StandardScaler().fit_transform(X)[0, 0]) == -1.0\n"
    )
    environment = {k: v for k, v in os.environ.items() if k != "SCIPY_ARRAY_API"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)

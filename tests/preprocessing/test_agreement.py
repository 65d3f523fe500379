"""Every transformer over array libraries: agreement with scikit-learn, on rows that are odd."""

import numpy as np
import pytest
import sklearn.impute
import sklearn.model_selection
import sklearn.preprocessing as sk

import gpuml.preprocessing as ours
from gpuml._arrays import is_array
from gpuml.testing import ArrayLibrary

to_numpy = ArrayLibrary.to_numpy
N = 90


def rows(kind):
    """Rows to fit and rows to transform, with what a kind of them has."""
    rng = np.random.default_rng(3)
    X = np.round(rng.normal(size=(N, 4)) * 3, 1)
    new = np.round(rng.normal(size=(20, 4)) * 6, 1)
    if kind == "levels":
        X, new = rng.integers(0, 6, X.shape) * 1.0, rng.integers(0, 8, new.shape) * 1.0
        X[X[:, 1] == 0, 1] = 2.0
    if kind == "holes":
        X[rng.random(X.shape) < 0.2], new[:3, 2] = np.nan, np.nan
        X[:, 3] = np.round(X[:, 3])
        new[np.isnan(new) & ~np.isnan(X).any(axis=0)] = 0.0
    if kind == "constant":
        X[:, 2] = 7.0
    if kind == "positive":
        X, new = np.exp(X / 3), np.exp(new / 4)
    return X, new


def labels(kind):
    y = rows("plain")[0].sum(axis=1)
    if kind == "binary":
        return (y > 0).astype(np.int64) * 4
    return np.digitize(y, [-2.0, 2.0]) if kind == "multiclass" else np.round(y, 1)


NORMAL = {"output_distribution": "normal"}
DENSE = {"encode": "onehot-dense"}
RARE = {"handle_unknown": "infrequent_if_exist", "sparse_output": False}
UNKNOWN = {"handle_unknown": "use_encoded_value", "unknown_value": -1}
# Classes with parameters, and the kinds of rows that are tried.
CASES = [
    ("RobustScaler", {}, "plain holes constant"),
    ("RobustScaler", {"quantile_range": (10.0, 60.0), "unit_variance": True}, "plain holes"),
    ("RobustScaler", {"with_centering": False}, "plain"),
    ("RobustScaler", {"with_scaling": False}, "holes"),
    ("Binarizer", {"threshold": 1.0}, "plain levels"),
    ("KBinsDiscretizer", DENSE, "plain levels constant"),
    ("KBinsDiscretizer", {"encode": "ordinal", "n_bins": [2, 3, 7, 3]}, "plain levels"),
    ("KBinsDiscretizer", {**DENSE, "quantile_method": "linear"}, "plain levels"),
    ("KBinsDiscretizer", {**DENSE, "quantile_method": "hazen", "dtype": np.float32}, "plain"),
    ("KBinsDiscretizer", {"encode": "ordinal", "strategy": "uniform"}, "plain constant"),
    ("KBinsDiscretizer", {**DENSE, "subsample": 30, "random_state": 5}, "plain"),
    ("OrdinalEncoder", UNKNOWN, "levels"),
    ("OrdinalEncoder", {**UNKNOWN, "unknown_value": np.nan, "encoded_missing_value": -9}, "holes"),
    ("OrdinalEncoder", {**UNKNOWN, "dtype": np.int32}, "levels"),
    ("OrdinalEncoder", {**UNKNOWN, "categories": [[0.0, 1, 2, 3, 4, 5]] * 4}, "levels"),
    ("OrdinalEncoder", {**UNKNOWN, "max_categories": 3, "encoded_missing_value": 9}, "holes"),
    ("OrdinalEncoder", {**UNKNOWN, "min_frequency": 0.15}, "levels holes"),
    ("OneHotEncoder", {**RARE, "min_frequency": 16}, "levels holes"),
    ("OneHotEncoder", {**RARE, "handle_unknown": "ignore", "max_categories": 3}, "levels"),
    ("OneHotEncoder", {**RARE, "max_categories": 2, "drop": "if_binary"}, "levels"),
    ("OneHotEncoder", {**RARE, "min_frequency": 0.17, "drop": "first"}, "levels holes"),
    ("MissingIndicator", {}, "plain holes"),
    ("MissingIndicator", {"features": "all"}, "plain holes"),
    ("MissingIndicator", {"missing_values": 3, "error_on_new": False}, "levels"),
    *[
        ("SplineTransformer", {"extrapolation": how, "degree": degree, **more}, "plain constant")
        for how, degree, more in [
            *[("constant", degree, {}) for degree in (1, 3)],
            ("linear", 3, {"include_bias": False}),
            *[("continue", degree, {"knots": "quantile"}) for degree in (0, 2)],
            *[("periodic", degree, {}) for degree in (1, 3)],
        ]
    ],
    ("QuantileTransformer", {"n_quantiles": 20}, "plain levels holes constant"),
    ("QuantileTransformer", {**NORMAL, "n_quantiles": 1000}, "plain levels holes constant"),
    ("QuantileTransformer", {"n_quantiles": 7, "subsample": 30, "random_state": 5}, "plain"),
    ("QuantileTransformer", {"n_quantiles": 1}, "plain"),
    ("PowerTransformer", {}, "plain levels holes constant"),
    ("PowerTransformer", {"standardize": False}, "plain holes"),
    ("PowerTransformer", {"method": "box-cox"}, "positive"),
    ("SplineTransformer", {"handle_missing": "zeros"}, "holes"),
    ("SplineTransformer", {"handle_missing": "zeros", "knots": "quantile"}, "holes"),
    ("SplineTransformer", {"knots": [[-9.0] * 4, [0.0] * 4, [1.0] * 4], "degree": 2}, "plain"),
]


FOUND = ("quantiles_", "references_", "lambdas_")


def cls_of(module, name):
    return getattr(module, name, None) or getattr(sklearn.impute, name)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.pairwise
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    ("name", "params", "kind"),
    [(name, params, kind) for name, params, kinds in CASES for kind in kinds.split()],
)
def test_device_rows_give_what_scikit_learn_gives(name, params, kind, dtype, library):
    X, new = (each.astype(dtype) for each in rows(kind))
    theirs = cls_of(sk, name)(**params).fit(X)
    model = getattr(ours, name)(**params).fit(library.asarray(X))
    in_cpu_memory = getattr(ours, name)(**params).fit(X)
    rtol = 1e-9 if dtype == "float64" else 2e-5
    if name == "PowerTransformer":  # of a maximum half of the digits are known
        rtol = 1e-6 if dtype == "float64" else 1e-2
    if params.get("output_distribution") and dtype == "float32":
        rtol = 1e-2  # at both ends, where the distribution function is nearly 1
    for each in (X, new):
        expected, image = theirs.transform(each), model.transform(library.asarray(each))
        assert type(image) is type(library.asarray(X))
        assert to_numpy(image).dtype == expected.dtype
        np.testing.assert_allclose(to_numpy(image), expected, rtol=rtol, atol=rtol)
        # Fitted attributes go where they are needed.
        np.testing.assert_allclose(model.transform(each), expected, rtol=rtol, atol=rtol)
        image = in_cpu_memory.transform(library.asarray(each))
        np.testing.assert_allclose(to_numpy(image), expected, rtol=rtol, atol=rtol)
    both = getattr(ours, name)(**params).fit_transform(library.asarray(X))
    assert type(both) is type(library.asarray(X))
    np.testing.assert_array_equal(to_numpy(both), to_numpy(model.transform(library.asarray(X))))
    assert list(model.get_feature_names_out()) == list(theirs.get_feature_names_out())
    for attribute in ("center_", "scale_", "bin_edges_", "n_bins_", "features_", *FOUND):
        known = getattr(theirs, attribute, None)
        found = getattr(model, attribute, None)
        if known is None:
            assert found is None
        elif known.dtype == object:
            for one, other in zip(found, known, strict=True):
                np.testing.assert_allclose(one, other, rtol=rtol)
        else:
            # Exponents of a power may be near 0: known are half of the digits that 1 has.
            atol = rtol if name == "PowerTransformer" else 0.0
            np.testing.assert_allclose(to_numpy(found), known, rtol=rtol, atol=atol)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("name", "params", "kind"),
    [
        ("RobustScaler", {}, "holes"),
        ("KBinsDiscretizer", DENSE, "plain"),
        ("KBinsDiscretizer", {"encode": "ordinal"}, "plain"),
        ("OrdinalEncoder", {}, "levels"),
        ("OrdinalEncoder", {"encoded_missing_value": -9}, "holes"),
        ("QuantileTransformer", {"n_quantiles": 20}, "holes"),
        ("QuantileTransformer", {**NORMAL, "n_quantiles": 20}, "plain"),
        ("PowerTransformer", {}, "holes"),
        ("PowerTransformer", {"method": "box-cox", "standardize": False}, "positive"),
    ],
)
def test_the_inverse_is_that_of_scikit_learn(name, params, kind, library):
    X = rows(kind)[0]
    theirs = getattr(sk, name)(**params).fit(X)
    model = getattr(ours, name)(**params).fit(library.asarray(X))
    expected = theirs.inverse_transform(theirs.transform(X))
    for fitted in (model, getattr(ours, name)(**params).fit(X)):
        image = fitted.transform(library.asarray(X))
        found = to_numpy(fitted.inverse_transform(image))
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("degree", [0, 1])
def test_linear_extrapolation_of_low_degrees_is_that_of_each_feature_alone(degree, library):
    # scikit-learn's class counts the degree up once more with each feature.
    X, new = rows("plain")
    params = {"extrapolation": "linear", "degree": degree, "knots": "quantile"}
    model = ours.SplineTransformer(**params)
    if library.name.startswith("numpy"):
        X, new = X[:, :1], new[:, :1]
    found = to_numpy(model.fit(library.asarray(X)).transform(library.asarray(new)))
    each = [
        sk.SplineTransformer(**params).fit(one[:, None]).transform(other[:, None])
        for one, other in zip(X.T, new.T, strict=True)
    ]
    np.testing.assert_allclose(found, np.concatenate(each, axis=1), rtol=1e-12, atol=1e-13)


# ---------------------------------------------------------------- targets


@pytest.mark.pairwise
@pytest.mark.parametrize("smooth", ["auto", 0.0, 7.5])
@pytest.mark.parametrize("target", ["binary", "multiclass", "continuous"])
@pytest.mark.parametrize("kind", ["levels", "holes"])
def test_means_of_the_target_are_those_of_scikit_learn(kind, target, smooth, library):
    (X, new), y = rows(kind), labels(target)
    folds = sklearn.model_selection.KFold(4, shuffle=True, random_state=1)
    if target != "continuous":
        folds = sklearn.model_selection.StratifiedKFold(4, shuffle=True, random_state=1)
    theirs = sk.TargetEncoder(smooth=smooth, cv=folds)
    model = ours.TargetEncoder(smooth=smooth, cv=folds)
    expected = theirs.fit_transform(X, y)
    image = model.fit_transform(library.asarray(X), library.asarray(y))
    assert type(image) is type(library.asarray(X))
    np.testing.assert_allclose(to_numpy(image), expected, rtol=1e-12, atol=1e-13)
    assert model.target_type_ == theirs.target_type_
    np.testing.assert_allclose(model.target_mean_, theirs.target_mean_)
    np.testing.assert_allclose(
        to_numpy(model.transform(library.asarray(new))), theirs.transform(new), rtol=1e-12
    )
    np.testing.assert_allclose(model.transform(new), theirs.transform(new), rtol=1e-12)
    if target == "multiclass":
        np.testing.assert_array_equal(model.classes_, theirs.classes_)


def test_what_is_drawn_is_what_scikit_learn_draws(library):
    X, y = rows("levels")[0], labels("binary")
    np.random.seed(4)  # noqa: NPY002 - folds are drawn from it where nothing else is given
    expected = sk.TargetEncoder().fit_transform(X, y)
    np.random.seed(4)  # noqa: NPY002
    found = ours.TargetEncoder().fit_transform(library.asarray(X), library.asarray(y))
    np.testing.assert_allclose(to_numpy(found), expected, rtol=1e-12)


def test_folds_that_overlap_are_refused(library):
    X, y = rows("levels")[0], labels("binary")
    folds = sklearn.model_selection.ShuffleSplit(3, random_state=0)
    with pytest.raises(ValueError, match="exactly once"):
        ours.TargetEncoder(cv=folds).fit_transform(library.asarray(X), library.asarray(y))


# ---------------------------------------------------------------- functions


def test_a_function_is_given_rows_where_they_are(library):
    X = library.asarray(np.abs(rows("plain")[0]))
    seen = []
    model = ours.FunctionTransformer(lambda Z: (seen.append(type(Z)), Z * 2)[1], lambda Z: Z / 2)
    image = model.fit(X).transform(X)
    assert set(seen) == {type(X)}
    np.testing.assert_array_equal(to_numpy(image), 2 * to_numpy(X))
    np.testing.assert_array_equal(to_numpy(model.inverse_transform(image)), to_numpy(X))
    assert is_array(image)


def test_functions_that_do_not_undo_each_other_are_noticed(library):
    X = library.asarray(rows("plain")[0])
    model = ours.FunctionTransformer(lambda Z: Z * 2, lambda Z: Z, validate=True)
    with pytest.warns(UserWarning, match="not strictly"):
        model.fit(X)


# ---------------------------------------------------------------- words of errors

ONLY_HOST = [
    ("KBinsDiscretizer", {"strategy": "kmeans"}, "strategy='kmeans' needs .* convert X to NumPy"),
    ("KBinsDiscretizer", {}, "Set encode='onehot-dense'"),
    ("SplineTransformer", {"sparse_output": True}, "Set sparse_output=False"),
    ("MissingIndicator", {"sparse": True}, "Set sparse=False"),
]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("name", "params", "words"), ONLY_HOST)
def test_what_needs_cpu_memory_is_refused_with_what_to_type(name, params, words, library):
    X = library.asarray(rows("levels")[0])
    if library.name.startswith("numpy"):
        getattr(ours, name)(**params).fit(X).transform(X)
        return
    if library.name == "cupy" and not params:
        return
    with pytest.raises(ValueError, match=words):
        getattr(ours, name)(**params).fit(X).transform(X)


def test_weights_of_device_rows_are_heeded(library):
    """A weight of two is a row twice, and one of none is no row."""
    X = rows("plain")[0]
    weight = np.arange(N) % 4.0
    for name, params in (
        ("KBinsDiscretizer", {"strategy": "uniform", "encode": "ordinal"}),
        ("KBinsDiscretizer", {"encode": "ordinal"}),
        ("KBinsDiscretizer", {"encode": "ordinal", "quantile_method": "inverted_cdf"}),
        ("SplineTransformer", {"knots": "uniform"}),
        ("SplineTransformer", {"knots": "quantile"}),
    ):
        expected = getattr(sk, name)(**params).fit(X, sample_weight=weight).transform(X)
        model = getattr(ours, name)(**params)
        model.fit(library.asarray(X), sample_weight=library.asarray(weight))
        found = to_numpy(model.transform(library.asarray(X)))
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)
    model = ours.KBinsDiscretizer(quantile_method="linear", encode="ordinal")
    with pytest.raises(ValueError, match="quantile_method should either be"):
        model.fit(library.asarray(X), sample_weight=library.asarray(weight))


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")  # by scikit-learn
@pytest.mark.parametrize("hole", [np.nan, np.inf])
@pytest.mark.parametrize("target", ["multiclass", "continuous"])
def test_targets_with_holes_are_refused(target, hole, library):
    y = labels(target).astype(float)
    y[3] = hole
    with pytest.raises(ValueError, match="Input y contains (NaN|infinity)"):
        ours.TargetEncoder().fit(library.asarray(rows("levels")[0]), library.asarray(y))


def test_targets_of_categories_that_are_not_given(library):
    """scikit-learn counts them for the first category, and encodes them by the last fold's mean."""
    (X, new), y = rows("holes"), labels("continuous")
    X, new = X.round(), new.round()
    given = [[-2.0, 0.0, 1.0]] * 3 + [[0.0, np.nan]]
    folds = sklearn.model_selection.KFold(3)
    theirs, model = (each.TargetEncoder(categories=given, cv=folds) for each in (sk, ours))
    image = to_numpy(model.fit_transform(library.asarray(X), library.asarray(y)))
    np.testing.assert_allclose(image, theirs.fit_transform(X, y), rtol=1e-12)
    found = to_numpy(model.transform(library.asarray(new)))
    np.testing.assert_allclose(found, theirs.transform(new), rtol=1e-12)


def test_what_rare_categories_share_has_no_inverse_among_numbers(library):
    X = library.asarray(rows("levels")[0])
    for model in (
        ours.OneHotEncoder(sparse_output=False, min_frequency=16),
        ours.OrdinalEncoder(min_frequency=16),
    ):
        image = model.fit(X).transform(X)
        if library.name.startswith("numpy"):
            assert "infrequent_sklearn" in model.inverse_transform(image)
            continue
        with pytest.raises(ValueError, match="convert|Convert X to NumPy"):
            model.inverse_transform(image)


@pytest.mark.each
@pytest.mark.parametrize("sign", [1, -1])
def test_powers_of_values_far_from_zero_have_images(sign, library):
    """As SciPy's: a power of 30 and more is likely there, of which float32 has no images."""
    X = sign * (5000 + np.random.default_rng(3).normal(size=(13, 4))).astype("float32")
    model = ours.PowerTransformer(standardize=False).fit(library.asarray(X))
    assert np.isfinite(to_numpy(model.transform(library.asarray(X)))).all()

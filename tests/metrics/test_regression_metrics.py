"""Regression metrics: agreement with scikit-learn on every array library, and laws."""

import functools
import importlib
import inspect
import warnings

import numpy as np
import pytest
import sklearn.metrics as sk
from sklearn.exceptions import UndefinedMetricWarning

import gpuml.metrics
from gpuml._arrays import is_numpy, namespace, place_of, to_host
from gpuml.metrics import residuals
from gpuml.metrics._batched import METRICS, evaluate, evaluate_moments
from gpuml.metrics.residuals import residual_moments

# Parameters that each metric is tried with, beside its defaults.
PARAMETERS = {
    "r2_score": [{"force_finite": False}, {"multioutput": None}],
    "explained_variance_score": [{"force_finite": False}],
    "mean_pinball_loss": [{"alpha": 0.0}, {"alpha": 0.1}, {"alpha": 1.0}],
    "d2_pinball_score": [{"alpha": 0.0}, {"alpha": 0.07}, {"alpha": 0.75}, {"alpha": 1.0}],
    "mean_tweedie_deviance": [{"power": p} for p in (-1.5, 1, 1.5, 2, 3)],
    "d2_tweedie_score": [{"power": p} for p in (-1.5, 1, 1.5, 2, 3)],
}
CASES = [
    pytest.param(name, parameters, id=" ".join([name, *map(str, parameters.values())]))
    for name in METRICS
    for parameters in ({}, *PARAMETERS.get(name, []))
]
SEVERAL_TARGETS = [name for name, metric in METRICS.items() if not metric.single_target]
WEIGHTED = [name for name in METRICS if name != "max_error"]
MOMENTS = [name for name, metric in METRICS.items() if metric.uses_moments]
AVERAGES = ["uniform_average", "variance_weighted", "raw_values", [0.2, 0.5, 0.3]]
RTOL = {"float64": 1e-12, "float32": 1e-5}


def ours(name, **parameters):
    return functools.partial(getattr(gpuml.metrics, name), **parameters)


def theirs(name, **parameters):
    return functools.partial(getattr(sk, name), **parameters)


def takes(name, parameter):
    return parameter in inspect.signature(getattr(sk, name)).parameters


def averages_of(name):
    finite = takes(name, "force_finite")
    return [a for a in AVERAGES if finite or a != "variance_weighted"]


def problem(rng, *shape, dtype="float64"):
    """Positive targets and predictions: every metric is defined for them."""
    y = rng.gamma(2.0, size=shape) + 0.1
    return y.astype(dtype), (y * rng.uniform(0.5, 1.6, size=shape)).astype(dtype)


def weights_of(rng, n):
    weight = rng.uniform(0.1, 2.0, size=n)
    weight[::7] = 0.0
    return weight


def weighting(name, weight):
    return {} if weight is None or name == "max_error" else {"sample_weight": weight}


# ---------------------------------------------------------------- against scikit-learn


def test_every_regression_metric_of_scikit_learn_is_public():
    for name in METRICS:
        function = getattr(gpuml.metrics, name)
        assert name in gpuml.metrics.__all__
        assert inspect.signature(function) == inspect.signature(getattr(sk, name))
    regression = vars(importlib.import_module("sklearn.metrics._regression"))["__ALL__"]
    assert set(METRICS) == set(regression)


@pytest.mark.pairwise
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize(("name", "parameters"), CASES)
def test_metrics_agree_with_scikit_learn(library, rng, name, parameters, weighted, dtype):
    y, pred = problem(rng, 51, dtype=dtype)
    weight = weights_of(rng, 51).astype(dtype) if weighted else None
    found = ours(name, **parameters)(
        library.asarray(y),
        library.asarray(pred),
        **weighting(name, None if weight is None else library.asarray(weight)),
    )
    # The truth is of float64, or it would be no better than what it judges.
    wide = weighting(name, None if weight is None else weight.astype(float))
    expected = theirs(name, **parameters)(y.astype(float), pred.astype(float), **wide)
    assert type(found) is float
    np.testing.assert_allclose(found, expected, rtol=RTOL[dtype], atol=RTOL[dtype])


@pytest.mark.pairwise
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("name", SEVERAL_TARGETS)
def test_averages_over_targets_agree_with_scikit_learn(library, rng, name, weighted):
    y, pred = problem(rng, 40, 3)
    weight = weights_of(rng, 40) if weighted else None
    for average in averages_of(name):
        found = ours(name, multioutput=average)(
            library.asarray(y),
            library.asarray(pred),
            **weighting(name, None if weight is None else library.asarray(weight)),
        )
        expected = theirs(name, multioutput=average)(y, pred, **weighting(name, weight))
        if average == "raw_values":
            assert place_of(found) == place_of(library.asarray(pred))
            assert found.dtype == namespace(found).float64
            found = to_host(found)
        else:
            assert type(found) is float
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", METRICS)
def test_float32_is_reduced_in_float64(rng, name):
    y, pred = problem(rng, 3000, dtype="float32")
    expected = ours(name)(y.astype(float), pred.astype(float))
    np.testing.assert_allclose(ours(name)(y, pred), expected, rtol=1e-14)


@pytest.mark.parametrize("name", METRICS)
def test_lists_frames_and_integers_are_read(rng, name):
    pd = pytest.importorskip("pandas")
    y, pred = rng.integers(1, 9, size=(2, 20))
    expected = theirs(name)(y, pred)
    for kind in (list, pd.Series, np.asarray, lambda x: x[:, None], lambda x: x.astype(object)):
        np.testing.assert_allclose(ours(name)(kind(y), kind(pred)), expected, rtol=1e-12)
    frame = pd.DataFrame({"y": y})
    np.testing.assert_allclose(ours(name)(frame, pred), expected, rtol=1e-12)


@pytest.mark.parametrize("name", METRICS)
def test_targets_and_weights_are_brought_to_the_predictions(library, rng, name):
    y, pred = problem(rng, 15)
    weight = weights_of(rng, 15)
    expected = theirs(name)(y, pred, **weighting(name, weight))
    found = ours(name)(y, library.asarray(pred), **weighting(name, list(weight)))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    there = library.asarray(weight)
    found = ours(name)(library.asarray(y), list(pred), **weighting(name, there))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_raw_values_are_where_the_predictions_are(library, rng):
    y, pred = problem(rng, 15, 2)
    found = ours("mean_squared_error", multioutput="raw_values")(library.asarray(y), pred)
    assert is_numpy(found)


@pytest.mark.parametrize("level", [0.0, 0.25, 0.5, 1.0])
def test_weighted_quantiles_meet_levels_as_scikit_learn_does(library, rng, level):
    # Integer weights and ties: the sum of weights often reaches the level exactly.
    for _ in range(10):
        y, pred = rng.integers(0, 5, size=(2, 12)).astype(float)
        weight = rng.integers(0, 3, size=12).astype(float)
        weight[0] = 1.0
        there = [library.asarray(a) for a in (y, pred, weight)]
        for name, more in (("median_absolute_error", {}), ("d2_pinball_score", {"alpha": level})):
            found = ours(name, **more)(there[0], there[1], sample_weight=there[2])
            expected = theirs(name, **more)(y, pred, sample_weight=weight)
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_torch_predictions_may_be_part_of_a_graph(rng):
    torch = pytest.importorskip("torch")
    y, pred = problem(rng, 9)
    there = torch.asarray(pred, requires_grad=True)
    np.testing.assert_allclose(ours("r2_score")(y, there), theirs("r2_score")(y, pred))


# ---------------------------------------------------------------- laws


@pytest.mark.pairwise
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("n_targets", [None, 1, 3])
@pytest.mark.parametrize("name", METRICS)
def test_a_batch_is_the_models_one_by_one(library, rng, name, n_targets, weighted):
    if METRICS[name].single_target and n_targets == 3:
        n_targets = 1
    shape = (30,) if n_targets is None else (30, n_targets)
    y, _ = problem(rng, *shape)
    preds = y * rng.uniform(0.5, 1.6, size=(4, *shape))
    weight = weights_of(rng, 30) if weighted else None
    there = library.asarray(preds)
    w = None if weight is None else library.asarray(weight)
    found = evaluate(name, library.asarray(y), there, w, {})
    assert found.shape == (4,)
    assert place_of(found) == place_of(there)
    expected = [ours(name)(y, pred, **weighting(name, weight)) for pred in preds]
    np.testing.assert_allclose(to_host(found), expected, rtol=1e-12)


@pytest.mark.parametrize("name", METRICS)
def test_a_doubled_row_is_a_doubled_weight(rng, name):
    y, pred = problem(rng, 20)
    doubled = np.arange(20) < 7
    index = np.r_[np.arange(20), np.flatnonzero(doubled)]
    by_rows = ours(name)(y[index], pred[index])
    by_weight = ours(name)(y, pred, **weighting(name, 1.0 + doubled))
    np.testing.assert_allclose(by_rows, by_weight, rtol=1e-12)


@pytest.mark.parametrize("name", WEIGHTED)
def test_a_row_of_no_weight_is_no_row(rng, name):
    y, pred = problem(rng, 20)
    weight = weights_of(rng, 20)
    y[weight == 0] *= 1e3
    kept = weight > 0
    with_it = ours(name)(y, pred, sample_weight=weight)
    without = ours(name)(y[kept], pred[kept], sample_weight=weight[kept])
    np.testing.assert_allclose(with_it, without, rtol=1e-12)


@pytest.mark.parametrize("name", WEIGHTED)
def test_weights_count_relative_to_each_other(rng, name):
    y, pred = problem(rng, 20)
    weight = rng.integers(1, 9, size=20).astype(float)
    once = ours(name)(y, pred, sample_weight=weight)
    np.testing.assert_allclose(ours(name)(y, pred, sample_weight=4 * weight), once, rtol=1e-12)


@pytest.mark.parametrize("name", METRICS)
def test_perfect_predictions_have_the_best_value(rng, name):
    y, _ = problem(rng, 20)
    best = 1.0 if name.endswith("_score") else 0.0
    np.testing.assert_allclose(ours(name)(y, y), best, atol=1e-15)


@pytest.mark.pairwise
@pytest.mark.parametrize("average", AVERAGES, ids=str)
@pytest.mark.parametrize("name", MOMENTS)
def test_moments_say_what_predictions_say(library, rng, name, average):
    if average == "variance_weighted" and not takes(name, "force_finite"):
        average = "uniform_average"
    y, pred = problem(rng, 25, 3)
    preds = np.stack([pred, 2 * pred, y])
    arrays = [library.asarray(a) for a in (y, preds, weights_of(rng, 25))]
    options = {"multioutput": average}
    of_moments = evaluate_moments(name, residual_moments(*arrays), options)
    of_predictions = evaluate(name, *arrays, options)
    np.testing.assert_allclose(to_host(of_moments), to_host(of_predictions), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", MOMENTS)
def test_moments_may_have_more_leading_axes(library, rng, name):
    parts = [residual_moments(*(library.asarray(a) for a in _part(rng, n))) for n in (12, 20)]
    xp = namespace(parts[0].squared)
    stacked = type(parts[0])(
        weight=xp.stack([m.weight for m in parts]),  # (S,)
        residual=xp.stack([m.residual for m in parts], axis=1),  # (C, S, t)
        squared=xp.stack([m.squared for m in parts], axis=1),
        target=xp.stack([m.target for m in parts]),  # (S, t)
        n_rows=np.asarray([12, 20]),
    )
    found = to_host(evaluate_moments(name, stacked, {}))
    assert found.shape == (4, 2)
    for s, part in enumerate(parts):
        np.testing.assert_allclose(found[:, s], to_host(evaluate_moments(name, part, {})))


@pytest.mark.parametrize("name", ["mean_squared_error", "root_mean_squared_error"])
def test_errors_are_computed_without_sums_of_the_target(rng, name, monkeypatch):
    y, pred = problem(rng, 20, 2)
    monkeypatch.setattr(residuals, "target_sums", None)
    monkeypatch.setattr(residuals, "sum_rows", None)
    for weight in None, weights_of(rng, 20):
        expected = theirs(name)(y, pred, sample_weight=weight)
        np.testing.assert_allclose(ours(name)(y, pred, sample_weight=weight), expected, rtol=1e-13)


def _part(rng, n):
    y, _ = problem(rng, n, 2)
    return y, y * rng.uniform(0.5, 1.6, size=(4, n, 2)), weights_of(rng, n)


def test_a_part_of_one_row_has_no_r2_and_the_others_keep_theirs(rng):
    y, pred = problem(rng, 6, 1)
    moments = residual_moments(y, pred[None], None)
    some = type(moments)(
        moments.weight,
        moments.residual[:, None],
        moments.squared[:, None] * np.ones((1, 2, 1)),
        moments.target,
        np.asarray([6, 1]),
    )
    with pytest.warns(UndefinedMetricWarning, match="R\\^2"):
        found = evaluate_moments("r2_score", some, {})
    assert np.isfinite(found[0, 0])
    assert np.isnan(found[0, 1])


def test_explained_variance_survives_a_large_mean_error(rng):
    y, pred = problem(rng, 50)
    expected = theirs("explained_variance_score")(y, pred)
    found = ours("explained_variance_score")(y, pred + 1e6)
    np.testing.assert_allclose(found, expected, rtol=1e-8)  # what adding 1e6 left of pred


def test_a_model_that_predicts_nan_has_no_finite_score_and_spoils_no_other(library, rng):
    for name in METRICS:
        y, pred = problem(rng, 10)
        preds = np.stack([pred, pred])
        preds[1, 3] = np.nan
        found = to_host(evaluate(name, library.asarray(y), library.asarray(preds), None, {}))
        assert np.isfinite(found[0]), name
        assert np.isnan(found[1]), name
    constant = to_host(
        evaluate("r2_score", library.asarray(np.ones(10)), library.asarray(preds), None, {})
    )
    assert constant[0] == 0.0
    assert np.isnan(constant[1])


# ---------------------------------------------------------------- degenerate rows


@pytest.mark.pairwise
@pytest.mark.parametrize("force_finite", [True, False])
@pytest.mark.parametrize("name", ["r2_score", "explained_variance_score"])
@pytest.mark.parametrize("value", [-2.0, 0.1, 1e8 / 3])
def test_a_constant_target_is_explained_or_not(library, name, value, force_finite):
    # In threes, the mean of 0.1 rounds to another number.
    y = np.full(3, value)
    noisy = y + np.array([0.0, 1.0, -1.5])
    score = ours(name, force_finite=force_finite)
    perfect, imperfect = (1.0, 0.0) if force_finite else (np.nan, -np.inf)
    for weight in (None, library.asarray(np.array([1.0, 0.5, 0.3]))):
        found = [
            score(library.asarray(y), library.asarray(pred), sample_weight=weight)
            for pred in (y, noisy)
        ]
        np.testing.assert_array_equal(found, [perfect, imperfect])


def test_a_constant_error_explains_the_variance_of_a_constant_target():
    y, pred = np.full((2, 7), [[0.1], [0.7]])
    assert ours("explained_variance_score")(y, pred) == 1.0
    moments = residual_moments(y, pred[None], None)
    np.testing.assert_array_equal(evaluate_moments("explained_variance_score", moments, {}), [1.0])


@pytest.mark.parametrize("name", ["d2_pinball_score", "d2_absolute_error_score"])
def test_deviances_of_a_constant_target_are_explained_or_not(name):
    y = np.full(4, 0.1)
    assert ours(name)(y, y) == 1.0
    assert ours(name)(y, y + [0.0, 1.0, 2.0, 3.0]) == 0.0


def test_the_tweedie_deviance_of_a_constant_target_cannot_be_explained():
    for function in (ours("d2_tweedie_score"), theirs("d2_tweedie_score")):
        with pytest.raises(ZeroDivisionError):
            function([2.0, 2.0], [1.0, 3.0])


@pytest.mark.parametrize("name", METRICS)
def test_one_row_is_as_in_scikit_learn(name):
    expected, said = _value_and_warnings(theirs(name), [2.0], [1.5])
    found, says = _value_and_warnings(ours(name), [2.0], [1.5])
    assert says == said
    np.testing.assert_equal(found, expected)
    if takes(name, "multioutput"):
        raw = {"multioutput": "raw_values"}
        expected, _ = _value_and_warnings(theirs(name, **raw), [2.0], [1.5])
        found, _ = _value_and_warnings(ours(name, **raw), [2.0], [1.5])
        np.testing.assert_equal(found, expected)


def _value_and_warnings(function, *args):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        value = function(*args)
    return value, [(w.category, str(w.message)) for w in caught]


# ---------------------------------------------------------------- bad input

GOOD = [1.0, 2.0, 3.0]
BAD = {
    "no y_true": ((None, GOOD), {}, ValueError, "y_true"),
    "no y_pred": ((GOOD, None), {}, ValueError, "y_pred"),
    "a number": ((2.0, 2.0), {}, ValueError, "y_true"),
    "an array of no axis": ((np.asarray(2.0), np.asarray(2.0)), {}, TypeError, "y_true"),
    "a matrix of weights": ((GOOD, GOOD), {"sample_weight": np.ones((3, 1))}, ValueError, "weight"),
    "lengths": ((GOOD, [1.0, 2.0]), {}, ValueError, "y_true has 3, y_pred has 2"),
    "length of weights": (
        (GOOD, GOOD),
        {"sample_weight": [1.0]},
        ValueError,
        "sample_weight has 1",
    ),
    "nothing": (([], []), {}, ValueError, "y_true"),
    "nan in y_true": (([1.0, np.nan, 2.0], GOOD), {}, ValueError, "y_true contains NaN"),
    "inf in y_pred": ((GOOD, [1.0, np.inf, 2.0]), {}, ValueError, "y_pred contains inf"),
    "nan in weights": (
        (GOOD, GOOD),
        {"sample_weight": [1.0, np.nan, 1.0]},
        ValueError,
        "sample_weight contains NaN",
    ),
    "None in a list": (([1.0, None, 2.0], GOOD), {}, ValueError, "y_true contains NaN"),
    "None in weights": (
        (GOOD, GOOD),
        {"sample_weight": [1.0, None, 1.0]},
        ValueError,
        "sample_weight contains NaN",
    ),
    "no weight": ((GOOD, GOOD), {"sample_weight": [0.0] * 3}, ValueError, "sample_weight"),
    "weights cancel": (
        (GOOD, GOOD),
        {"sample_weight": [1.0, -1.0, 0.0]},
        ZeroDivisionError,
        "sample_weight",
    ),
    "words": ((["a", "b", "c"], GOOD), {}, ValueError, None),
    "complex": ((np.array([1j, 2, 3]), GOOD), {}, ValueError, "Complex"),
    "three axes": ((np.ones((3, 1, 1)), GOOD), {}, ValueError, None),
    "numbers of targets": ((np.ones((3, 2)), np.ones((3, 1))), {}, ValueError, "2!=1"),
    "average": ((GOOD, GOOD), {"multioutput": "mean"}, ValueError, "multioutput"),
    "average of one": ((GOOD, GOOD), {"multioutput": [1.0]}, ValueError, "multioutput"),
    "average of more": (
        (np.ones((3, 2)), np.ones((3, 2))),
        {"multioutput": [1.0, 2.0, 3.0]},
        ValueError,
        "multioutput",
    ),
    "average by nothing": (
        (np.eye(3), np.eye(3)),
        {"multioutput": [0.0, 0.0, 0.0]},
        ZeroDivisionError,
        "multioutput",
    ),
    "force_finite": ((GOOD, GOOD), {"force_finite": "yes"}, ValueError, "force_finite"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_raises_what_scikit_learn_raises_and_is_named(case):
    args, kwargs, error, match = BAD[case]
    with pytest.raises(error):
        theirs("r2_score")(*args, **kwargs)
    with pytest.raises(error, match=match):
        ours("r2_score")(*args, **kwargs)


@pytest.mark.parametrize("dtype", ["list", "U", "O"])
def test_strings_of_numbers_are_numbers(dtype):
    text, weight = ["1.5", "2", "3e-1"], ["1", "2", "0.5"]
    if dtype != "list":
        text, weight = np.array(text, dtype=dtype), np.array(weight, dtype=dtype)
    for a, b in ((text, GOOD), (GOOD, text)):
        found = ours("r2_score")(a, b, sample_weight=weight)
        np.testing.assert_allclose(found, theirs("r2_score")(a, b, sample_weight=weight))


@pytest.mark.pairwise
@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_bad_values_on_a_device_are_named(library, rng, name, bad):
    y, pred = problem(rng, 5)
    worse = y.copy()
    worse[2] = bad
    with pytest.raises(ValueError, match="y_true contains"):
        ours(name)(library.asarray(worse), library.asarray(pred))
    with pytest.raises(ValueError, match="y_pred contains"):
        ours(name)(library.asarray(y), library.asarray(worse))


def test_bad_shapes_on_a_device_are_named(library):
    column, cube = library.asarray(np.ones((4, 1))), library.asarray(np.ones((4, 1, 1)))
    with pytest.raises(ValueError, match="y_true has 3, y_pred has 4"):
        ours("r2_score")(library.asarray(np.ones(3)), column)
    with pytest.raises(ValueError, match="y_pred must have shape"):
        ours("r2_score")(column, cube)
    with pytest.raises(ValueError, match="2!=1"):
        ours("r2_score")(library.asarray(np.ones((4, 2))), column)
    with pytest.raises(ValueError, match="sample_weight"):
        ours("r2_score")(column, column, sample_weight=column)
    with pytest.raises(TypeError, match="y_true"):
        ours("r2_score")(library.asarray(np.asarray(1.0)), column)


@pytest.mark.parametrize("name", [n for n, metric in METRICS.items() if metric.single_target])
def test_one_target_is_all_that_some_metrics_take(name):
    for function in (ours(name), theirs(name)):
        with pytest.raises(ValueError, match="Multioutput not supported in"):
            function(np.ones((3, 2)), np.ones((3, 2)))


OUT_OF_DOMAIN = [
    ("mean_squared_log_error", {}, [-1.0, 2.0], [1.0, 1.0]),
    ("mean_squared_log_error", {}, [1.0, 2.0], [1.0, -3.0]),
    ("root_mean_squared_log_error", {}, [1.0, 2.0], [1.0, -3.0]),
    ("mean_poisson_deviance", {}, [-1.0, 2.0], [1.0, 1.0]),
    ("mean_poisson_deviance", {}, [0.0, 2.0], [1.0, 0.0]),
    ("mean_gamma_deviance", {}, [0.0, 2.0], [1.0, 1.0]),
    ("mean_gamma_deviance", {}, [1.0, 2.0], [1.0, 0.0]),
    ("mean_tweedie_deviance", {"power": -1}, [1.0, 2.0], [1.0, 0.0]),
    ("d2_tweedie_score", {"power": 1.5}, [1.0, -2.0], [1.0, 1.0]),
    ("d2_tweedie_score", {"power": 3}, [0.0, 2.0], [1.0, 1.0]),
    ("mean_tweedie_deviance", {"power": 0.5}, [1.0, 2.0], [1.0, 1.0]),
    ("mean_pinball_loss", {"alpha": 1.5}, [1.0, 2.0], [1.0, 1.0]),
    ("d2_pinball_score", {"alpha": -0.5}, [1.0, 2.0], [1.0, 1.0]),
]


@pytest.mark.parametrize(("name", "parameters", "y", "pred"), OUT_OF_DOMAIN)
def test_values_out_of_the_domain_raise_as_in_scikit_learn(library, name, parameters, y, pred):
    with pytest.raises(ValueError) as expected:  # noqa: PT011 - the message is compared below
        theirs(name, **parameters)(y, pred)
    with pytest.raises(ValueError) as found:  # noqa: PT011
        ours(name, **parameters)(library.asarray(np.array(y)), library.asarray(np.array(pred)))
    assert str(expected.value).rstrip(".") in str(found.value)


@pytest.mark.parametrize("power", [1, 1.5, -0.5])
def test_targets_at_the_edge_of_the_domain(library, power):
    y, pred = np.array([0.0, 2.0, 0.0]), np.array([0.5, 1.0, 2.0])
    found = ours("mean_tweedie_deviance", power=power)(library.asarray(y), library.asarray(pred))
    expected = theirs("mean_tweedie_deviance", power=power)(y, pred)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_negative_targets_of_an_extreme_stable_distribution():
    y, pred = np.array([-1.0, 2.0, -3.0]), np.array([0.5, 1.0, 2.0])
    found = ours("mean_tweedie_deviance", power=-1.5)(y, pred)
    np.testing.assert_allclose(found, theirs("mean_tweedie_deviance", power=-1.5)(y, pred))

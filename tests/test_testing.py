"""`gpuml.testing`: the transfer counter, the table of array libraries, tolerances."""

import subprocess
import sys
import threading
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

from gpuml._arrays import moves, places
from gpuml._arrays import transfers as _transfers
from gpuml.testing import (
    LAW_RTOL,
    RTOL,
    TransferBudgetExceeded,
    array_libraries,
    count_transfers,
    estimators,
    tolerance,
)

# ---------------------------------------------------------------- tables


def test_import_loads_no_array_library_and_no_pytest():
    heavy = {"cupy", "torch", "cupti", "cuml", "cudf", "array_api_strict", "pytest", "dask"}
    code = f"import sys, gpuml.testing; print(sorted({heavy} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.strip() == "[]", result.stderr


def test_round_trip_through_every_library(library, rng):
    x = rng.standard_normal((4, 3))
    there = library.asarray(x)
    assert places.is_array(there)
    assert there.shape == x.shape
    np.testing.assert_array_equal(library.to_numpy(there), x)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "bool"])
def test_libraries_keep_the_dtype(library, dtype):
    x = np.asarray([[0, 1], [1, 0]], dtype=dtype)
    assert library.to_numpy(library.asarray(x)).dtype == x.dtype


def test_libraries_take_any_memory_layout(library):
    x = np.arange(12.0).reshape(3, 4)[::-1, ::2]
    np.testing.assert_array_equal(library.to_numpy(library.asarray(x)), x)


def test_arrays_share_no_memory_with_the_original(library):
    if library.name == "numpy-readonly":
        pytest.skip("cannot be written to")
    x = np.zeros(3)
    there = library.asarray(x)
    there[0] = 1
    assert x[0] == 0


def test_to_numpy_takes_numbers(library):
    assert library.to_numpy(2.5) == 2.5


def test_entry_names_and_marks():
    entries = {entry.id: {mark.name for mark in entry.marks} for entry in array_libraries()}
    names = ["numpy", "numpy-readonly", "array_api_strict", "torch", "cupy", "torch-cuda"]
    assert list(entries) == names
    assert [name for name in names if "gpu" in entries[name]] == ["cupy", "torch-cuda"]
    assert not entries["numpy"]


def test_entries_skip_with_the_reason(monkeypatch):
    monkeypatch.setattr("gpuml.testing._has_driver", lambda: False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    skips = {
        entry.id: mark.kwargs["reason"]
        for entry in array_libraries()
        for mark in entry.marks
        if mark.name == "skip"
    }
    assert skips == {
        "array_api_strict": "array_api_strict is not installed",
        "torch": "torch is not installed",
        "cupy": "no GPU",
        "torch-cuda": "no GPU",
    }


def test_readonly_entry_cannot_be_written():
    (entry,) = [entry for entry in array_libraries() if entry.id == "numpy-readonly"]
    with pytest.raises(ValueError, match="read-only"):
        entry.values[0].asarray(np.zeros(3))[0] = 1


def test_strict_entry_cannot_be_read_by_numpy():
    pytest.importorskip("array_api_strict")
    (entry,) = [entry for entry in array_libraries() if entry.id == "array_api_strict"]
    with pytest.raises(RuntimeError):
        np.asarray(entry.values[0].asarray(np.zeros(3)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_tolerance_knows_the_dtypes_of_every_library(library, dtype):
    x = library.asarray(np.zeros(1, dtype=dtype))
    assert tolerance(x.dtype) == RTOL[dtype]
    assert tolerance(x.dtype, LAW_RTOL) == LAW_RTOL[dtype]


def test_tolerance_of_names_types_and_unknown_dtypes():
    assert tolerance("float64") == tolerance(np.float64) == tolerance(float) == RTOL["float64"]
    with pytest.raises(KeyError, match=r"int64.*float32"):
        tolerance("int64")


def test_estimators_are_new_each_time():
    first, second = estimators(), estimators()
    assert [name for name, _ in first] == [type(estimator).__name__ for _, estimator in first]
    assert all(a is not b for (_, a), (_, b) in zip(first, second, strict=True))


# ---------------------------------------------------------------- counting gpuml's own moves


@pytest.fixture
def without_gpu(monkeypatch):
    monkeypatch.setattr(places, "has_gpu", lambda: False)


@pytest.fixture
def second_device(without_gpu):
    strict = pytest.importorskip("array_api_strict")
    return places.place_of(strict.zeros(1, device=strict.Device("device1")))


def test_counts_moves_in_both_directions(second_device):
    x = np.zeros((100, 10))
    with count_transfers() as moved:
        there = moves.move(x, second_device)
        moves.move(np.zeros(2), second_device)
        moves.to_host(there[:2, 0])
    assert (moved.to_device, moved.n_to_device) == (8016, 2)
    assert (moved.to_host, moved.n_to_host) == (16, 1)
    assert not moved.counts_everyone


def test_moves_before_and_after_the_block_do_not_count(second_device):
    there = moves.move(np.zeros(10), second_device)
    with count_transfers() as moved:
        moves.move(there, second_device)
    moves.to_host(there)
    assert moved.figures == _transfers.Figures()
    assert not moves.transfer_observers


def test_figures_can_be_read_inside_the_block(second_device):
    moved = count_transfers()
    assert moved.to_device == 0
    with moved:
        moves.move(np.zeros(1), second_device)
        assert moved.to_device == 8
        moves.move(np.zeros(1), second_device)
        assert (moved.to_device, moved.n_to_device) == (16, 2)


def test_nested_counters_both_count(second_device):
    with count_transfers() as outer:
        moves.move(np.zeros(1), second_device)
        with count_transfers() as inner:
            moves.move(np.zeros(2), second_device)
        moves.move(np.zeros(4), second_device)
    assert (inner.to_device, outer.to_device) == (16, 56)
    assert not moves.transfer_observers


def test_counter_can_be_used_again_but_not_twice_at_once(second_device):
    moved = count_transfers()
    for _ in range(2):
        with moved:
            moves.move(np.zeros(1), second_device)
        assert moved.to_device == 8
    with moved, pytest.raises(RuntimeError, match="one per"), moved:
        pass
    assert not moves.transfer_observers


def test_moves_of_several_threads_all_count(without_gpu):
    n_threads, n_moves = 8, 500
    start = threading.Barrier(n_threads)

    def work():
        start.wait()
        with count_transfers() as own:
            for _ in range(n_moves):
                moves._report("to_host", 3)
        assert own.n_to_host >= n_moves

    threads = [threading.Thread(target=work) for _ in range(n_threads)]
    with count_transfers() as moved:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert moved.n_to_host == n_threads * n_moves
    assert moved.to_host == 3 * n_threads * n_moves
    assert not moves.transfer_observers


def test_budget_is_the_largest_size_that_passes(second_device):
    with count_transfers(max_to_device=80, max_to_host=80):
        moves.to_host(moves.move(np.zeros(10), second_device))
    too_little = count_transfers(max_to_device=79, max_to_host=0)
    message = r"80 B .*79 B \(max_to_device=79\)"
    with pytest.raises(TransferBudgetExceeded, match=message), too_little:
        moves.move(np.zeros(10), second_device)


def test_message_names_both_budgets_and_all_figures(second_device):
    moved = count_transfers(max_to_device=0, max_to_host=8)
    with pytest.raises(TransferBudgetExceeded) as caught, moved:
        moves.to_host(moves.move(np.zeros(10), second_device))
    message = str(caught.value)
    assert "to the device, 80 B with a budget of 0 B (max_to_device=0)" in message
    assert "to CPU memory, 80 B with a budget of 8 B (max_to_host=8)" in message
    assert str(moved) in message


def test_exception_in_the_block_is_not_masked(second_device):
    def move_and_fail():
        moves.move(np.zeros(1), second_device)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), count_transfers(max_to_device=0) as moved:
        move_and_fail()
    assert moved.to_device == 8
    assert not moves.transfer_observers


@pytest.mark.parametrize("bad", [-1, float("nan")])
def test_bad_budget(bad):
    with pytest.raises(ValueError, match="max_to_host must be"):
        count_transfers(max_to_host=bad)


def test_text():
    figures = _transfers.Figures(3_355_443, 96, 4, 1)
    assert str(figures) == "3.2 MiB up in 4 copies, 96 B down in 1 copy"
    assert repr(count_transfers()) == (
        "<TransferCounter: 0 B up in 0 copies, 0 B down in 0 copies>"
    )


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (5 * 2**30, "5.0 GiB"), (2**41, "2.0 TiB")],
)
def test_format_bytes(size, text):
    assert _transfers.format_bytes(size) == text


# ---------------------------------------------------------------- a stand-in for CUPTI and CuPy


class FakeDriver:
    """Records copies as CUPTI does: only while enabled, and delivered only by a flush."""

    ActivityKind = SimpleNamespace(MEMCPY=1)
    ActivityFlag = SimpleNamespace(FLUSH_FORCED=1)

    def __init__(self):
        self.enabled = self.mute = self.broken = False
        self.running, self.records, self.n_registered = [], [], 0

    def copy(self, copy_kind, size):
        self.running.append(SimpleNamespace(kind=1, copy_kind=copy_kind, bytes=size))

    def synchronize(self):
        if self.broken:
            raise RuntimeError("illegal address")
        self.records += self.running if self.enabled and not self.mute else []
        self.running = []

    def activity_register_callbacks(self, requested, completed):
        self.n_registered += 1
        self.requested, self.completed = requested, completed

    def activity_enable(self, kind):
        self.enabled = True

    def activity_disable(self, kind):
        self.enabled = False

    def activity_flush_all(self, flag):
        assert flag == 1
        records, self.records = self.records, []
        size, max_records = self.requested()
        assert size > 0
        assert max_records == 0
        # As from a thread of the driver, while the flush waits for it.
        thread = threading.Thread(target=self.completed, args=(records,))
        thread.start()
        thread.join()


class FakeDevice:
    def __init__(self, number):
        assert number == 0

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None


@pytest.fixture
def driver(monkeypatch):
    driver = FakeDriver()

    def asarray(x):
        driver.copy(1, x.nbytes)
        return x

    runtime = SimpleNamespace(getDeviceCount=lambda: 1, deviceSynchronize=driver.synchronize)
    cuda = SimpleNamespace(runtime=runtime, Device=FakeDevice)
    monkeypatch.setattr(places, "has_gpu", lambda: True)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(asarray=asarray, cuda=cuda))
    monkeypatch.setitem(sys.modules, "cupti", SimpleNamespace(cupti=driver))
    _transfers._cupti_source.cache_clear()
    _transfers._warn_once.cache_clear()
    yield driver
    _transfers._cupti_source.cache_clear()
    _transfers._warn_once.cache_clear()


def test_cupti_counts_everyone_within_the_block(driver):
    driver.copy(1, 1000)
    with count_transfers() as moved:
        driver.copy(1, 10)
        driver.copy(2, 20)
        driver.copy(8, 40)  # within a device
        driver.copy(10, 80)  # between devices
        driver.copy(3, 100)  # to a CUDA array
    driver.copy(2, 1000)
    assert moved.figures == _transfers.Figures(110, 20, 2, 1)
    assert moved.counts_everyone
    assert not driver.enabled


def test_cupti_and_own_moves_do_not_both_count(driver):
    with count_transfers() as moved:
        driver.copy(1, 10)
        moves._report("to_device", 10)
    assert (moved.to_device, moved.n_to_device) == (10, 1)
    assert not moves.transfer_observers


def test_nested_cupti_counters_both_count(driver):
    with count_transfers() as outer:
        driver.copy(1, 1)
        with count_transfers() as inner:
            driver.copy(1, 2)
        driver.copy(1, 4)
        assert driver.enabled
    assert (inner.to_device, outer.to_device) == (2, 7)
    assert driver.n_registered == 1
    assert not driver.enabled


def test_a_reading_waits_for_records_that_another_one_took(driver):
    came, go_on, seen = threading.Event(), threading.Event(), []
    with count_transfers():
        source, completed = _transfers._cupti_source(), driver.completed

        def slowly(records):
            if records:
                came.set()
                go_on.wait(20)
            completed(records)

        driver.completed = slowly
        before = source._tally.read()
        driver.copy(1, 10)
        readings = [threading.Thread(target=lambda: seen.append(source.read())) for _ in range(2)]
        readings[0].start()
        assert came.wait(20)
        readings[1].start()
        readings[1].join(0.1)
        go_on.set()
        for reading in readings:
            reading.join()
        driver.completed = completed
    assert [each.since(before).to_device for each in seen] == [10, 10]


def test_cupti_budget(driver):
    with pytest.raises(TransferBudgetExceeded), count_transfers(max_to_host=19):
        driver.copy(2, 20)


def test_broken_context_does_not_mask_what_broke_it(driver):
    def break_and_fail():
        driver.broken = True
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), count_transfers(max_to_host=0):
        break_and_fail()
    assert not driver.enabled


def test_broken_context_is_reported_if_nothing_else_is(driver):
    with pytest.raises(RuntimeError, match="illegal address"), count_transfers():
        driver.broken = True
    assert not driver.enabled


def check_falls_back():
    with pytest.warns(RuntimeWarning, match="pip install cupti-python"), count_transfers() as moved:
        moves._report("to_device", 10)
    assert moved.to_device == 10
    assert not moved.counts_everyone
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with count_transfers() as moved:
            pass
    assert not moved.counts_everyone


def test_without_cupti_own_moves_count_and_one_warning_says_so(driver, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupti", None)
    check_falls_back()


def test_mute_cupti_is_found_out(driver):
    driver.mute = True
    check_falls_back()
    assert not driver.enabled


def test_cupti_without_permission_falls_back(driver, monkeypatch):
    def refuse(kind):
        raise PermissionError("insufficient privileges")

    monkeypatch.setattr(driver, "activity_enable", refuse)
    check_falls_back()


# ---------------------------------------------------------------- on a GPU

MEGABYTES = 8_000_000


@pytest.fixture
def cupy():
    if not places.has_gpu():
        pytest.skip("no GPU")
    cupy = pytest.importorskip("cupy")
    pytest.importorskip("cupti", reason="cupti-python is not installed")
    # Loads the kernels and makes the buffers that first calls need.
    float(cupy.asarray(np.ones(10)).copy().sum())
    return cupy


@pytest.fixture
def torch_cuda(cupy):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch sees no GPU")
    torch.ones(10).cuda().cpu()
    return torch


@pytest.mark.gpu
def test_gpu_counter_counts_everyone(cupy):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with count_transfers() as moved:
            pass
    assert moved.counts_everyone
    assert moved.figures == _transfers.Figures()


@pytest.mark.gpu
def test_gpu_upload_counts(cupy):
    x = np.ones(MEGABYTES // 8)
    with count_transfers() as moved:
        cupy.asarray(x)
    assert moved.to_device == MEGABYTES
    assert moved.to_host == 0


@pytest.mark.gpu
def test_gpu_download_counts(cupy):
    x = cupy.ones(MEGABYTES // 8)
    with count_transfers() as moved:
        cupy.asnumpy(x)
    assert moved.to_host == MEGABYTES
    assert moved.to_device == 0


@pytest.mark.gpu
def test_gpu_scalar_counts_its_eight_bytes(cupy):
    x = cupy.ones(1000)
    float(x.sum())
    with count_transfers() as moved:
        float(x.sum())
    assert moved.figures == _transfers.Figures(0, 8, 0, 1)


@pytest.mark.gpu
def test_gpu_copies_by_torch_count(torch_cuda):
    x = torch_cuda.ones(MEGABYTES // 4, dtype=torch_cuda.float32)
    with count_transfers() as moved:
        there = x.cuda()
        there[:25].cpu()
    assert moved.to_device == MEGABYTES
    assert moved.to_host == 100


@pytest.mark.gpu
def test_gpu_copies_within_the_device_do_not_count(cupy):
    x = cupy.ones(MEGABYTES // 8)
    with count_transfers() as moved:
        for _ in range(10):
            x = x.copy()
    assert moved.figures == _transfers.Figures()


@pytest.mark.gpu
def test_gpu_copies_before_the_block_do_not_count(cupy):
    pinned = np.frombuffer(cupy.cuda.alloc_pinned_memory(MEGABYTES), np.uint8, MEGABYTES)
    x = cupy.empty(MEGABYTES, np.uint8)
    for _ in range(20):
        x.set(pinned)  # still under way when the block begins
    with count_transfers() as moved:
        pass
    assert moved.figures == _transfers.Figures()


@pytest.mark.gpu
def test_gpu_copies_still_under_way_at_the_end_count(cupy):
    pinned = np.frombuffer(cupy.cuda.alloc_pinned_memory(MEGABYTES), np.uint8, MEGABYTES)
    x = cupy.empty(MEGABYTES, np.uint8)
    stream = cupy.cuda.Stream(non_blocking=True)
    with count_transfers() as moved:
        for _ in range(20):
            x.set(pinned, stream=stream)
    assert (moved.to_device, moved.n_to_device) == (20 * MEGABYTES, 20)


@pytest.mark.gpu
def test_gpu_staged_upload_of_gpuml_counts_once(cupy):
    x = np.ones((4_000_000, 8))
    with count_transfers() as moved:
        there = moves.move(x, places.gpu_place())
        moves.to_host(there[:1])
    assert moved.to_device == x.nbytes
    assert moved.to_host == 64


@pytest.mark.gpu
def test_gpu_nested_counters_and_threads(cupy):
    x = np.ones(MEGABYTES // 8)

    def work():
        with count_transfers() as own:
            cupy.asarray(x)
        assert own.to_device >= MEGABYTES

    threads = [threading.Thread(target=work) for _ in range(4)]
    with count_transfers() as moved:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert moved.to_device == 4 * MEGABYTES


@pytest.mark.gpu
def test_gpu_many_small_copies_all_count(cupy):
    x = cupy.ones(1)
    with count_transfers() as moved:
        for _ in range(20_000):
            x.get()
    assert (moved.to_host, moved.n_to_host) == (160_000, 20_000)


@pytest.mark.gpu
def test_gpu_budget(cupy):
    x = np.ones(MEGABYTES // 8)
    with count_transfers(max_to_device=MEGABYTES):
        cupy.asarray(x)
    too_little = count_transfers(max_to_device=MEGABYTES - 1)
    with pytest.raises(TransferBudgetExceeded, match=r"7\.6 MiB"), too_little:
        cupy.asarray(x)

"""Copies of host arrays on a device: one trip, never out of date, gone with the array."""

import gc
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import gpuml
from gpuml._arrays import HOST, move, place_of, to_host
from gpuml._arrays import device_copies as _device_copies
from gpuml._arrays.device_copies import DeviceCopies, content_digest, several_fits
from gpuml.data import resident_batches
from gpuml.linear_model import LogisticRegression, Ridge

LENGTH = 5_000  # 40 kB
MUCH = 10**9


@pytest.fixture
def place():
    """A device that NumPy cannot read, without a GPU."""
    strict = pytest.importorskip("array_api_strict")
    return place_of(strict.asarray([0.0], device=strict.Device("device1")))


@pytest.fixture(autouse=True)
def moved(monkeypatch):
    """Sizes of what copies were made of, in order."""
    sizes = []

    def counting(x, place):
        if not isinstance(x, np.ndarray) or place.is_host:
            return move(x, place)
        sizes.append(x.size)
        return move(x.copy(), place)  # array-api-strict would share its memory

    monkeypatch.setattr(_device_copies, "move", counting)
    return sizes


@pytest.fixture
def copies():
    return DeviceCopies()


@pytest.fixture(autouse=True)
def kept():
    """Copies are kept unless a test says otherwise, and no test finds those of another."""
    gpuml.set_config(copy_bytes=MUCH)  # in all threads
    yield
    gpuml.set_config(copy_bytes=None)
    _device_copies.device_copies._slots.clear()


@pytest.fixture
def x(rng):
    return rng.normal(size=LENGTH)


# ---------------------------------------------------------------- one trip


def test_an_array_is_moved_once(copies, place, moved, x):
    first, second = copies.moved(x, place), copies.moved(x, place)
    assert moved == [LENGTH]
    assert second is first
    np.testing.assert_array_equal(to_host(first), x)


@pytest.mark.parametrize("order", ["C", "F"])
def test_views_of_one_memory_share_a_copy(copies, place, moved, rng, order):
    X = np.asarray(rng.normal(size=(100, 50)), order=order)
    for _ in range(3):
        np.testing.assert_array_equal(to_host(copies.moved(X[:, :], place)), X)
        np.testing.assert_array_equal(to_host(copies.moved(X.T, place)), X.T)
    # The array and its transpose: the same memory, other shapes.
    assert moved == [5000, 5000]


def test_other_parts_and_other_readings_of_one_memory_are_other_copies(copies, place, x):
    big = np.concatenate([x, x + 1.0])
    for part in (big[:LENGTH], big[LENGTH:], big, big.view(np.int64), big.reshape(2, -1)):
        np.testing.assert_array_equal(to_host(copies.moved(part, place)), part)


def test_threads_that_want_one_array_wait_for_one_copy(copies, place, moved, x):
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: copies.moved(x, place), range(32)))
    assert moved == [LENGTH]
    assert all(copy is found[0] for copy in found)


def test_what_does_not_go_to_a_device_or_is_there_comes_back_as_it_is(copies, place, moved, x):
    assert copies.moved(x, HOST) is x
    assert copies.moved(None, place) is None
    there = move(x, place)
    assert copies.moved(there, place) is there
    assert copies.held_bytes(place) == 0


@pytest.mark.parametrize(
    "make", [lambda x: x[::2], lambda x: x[:10].copy()], ids=["strided", "small"]
)
def test_what_is_not_worth_it_is_moved_each_time(copies, place, moved, x, make):
    part = make(x)
    for _ in range(2):
        np.testing.assert_array_equal(to_host(copies.moved(part, place)), part)
    assert len(moved) == 2
    assert copies.held_bytes(place) == 0


# ---------------------------------------------------------------- never out of date

# Where a sample of the content, a sum of it, or a checksum of its low bits would see nothing.
CHANGES = {
    "first": lambda x: x.__setitem__(0, 1.5),
    "last": lambda x: x.__setitem__(-1, 1.5),
    "one bit": lambda x: x.view(np.uint64).__setitem__(1234, x.view(np.uint64)[1234] ^ 1),
    "one sign": lambda x: x.__setitem__(1234, -x[1234]),
    "two swapped": lambda x: x.__setitem__([10, 20], x[[20, 10]]),
    "reversed": lambda x: x.__setitem__(slice(None), x[::-1].copy()),
    "doubled": lambda x: x.__imul__(2.0),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_an_array_that_was_written_to_is_moved_again(copies, place, moved, x, change):
    before = to_host(copies.moved(x, place)).copy()
    change(x)
    after = to_host(copies.moved(x, place))
    assert not np.array_equal(before, x)
    np.testing.assert_array_equal(after, x)
    assert moved == [LENGTH] * 2


def test_a_read_only_array_that_was_written_to_elsewhere_is_moved_again(copies, place, x):
    reader = x.view()
    reader.flags.writeable = False
    copies.moved(reader, place)
    x[7] = 1.5
    np.testing.assert_array_equal(to_host(copies.moved(reader, place)), x)


def test_a_later_array_at_the_same_address_is_another(copies, place):
    for value in range(50):
        x = np.full(LENGTH, float(value))
        np.testing.assert_array_equal(to_host(copies.moved(x, place)), x)
        del x


def test_the_digest_depends_on_each_chunk_and_their_order(monkeypatch, x):
    monkeypatch.setattr(_device_copies, "CHUNK_BYTES", 8 * LENGTH // 4)
    in_chunks = content_digest(x)
    quarters = np.split(x, 4)
    assert content_digest(np.concatenate(quarters)) == in_chunks
    assert content_digest(np.concatenate(quarters[::-1])) != in_chunks
    monkeypatch.setattr(_device_copies, "MAX_THREADS", 1)
    assert content_digest(x) == in_chunks


# ---------------------------------------------------------------- how long, how much


def test_a_copy_goes_with_its_array(copies, place, x):
    X = x.copy()
    copy = weakref.ref(copies.moved(X[:, None], place))
    assert copies.held_bytes(place) == X.nbytes
    gc.disable()  # not a cycle for the collector to find some day
    try:
        del X
        assert copies.held_bytes(place) == 0
        assert copy() is None
    finally:
        gc.enable()


def test_what_was_not_used_for_longest_goes_first(copies, place, moved, rng):
    first, second, third = rng.normal(size=(3, LENGTH)).copy()
    arrays = [a.copy() for a in (first, second, third)]
    with gpuml.config_context(copy_bytes=2 * arrays[0].nbytes):
        for i in (0, 1, 0, 2):
            copies.moved(arrays[i], place)
            assert copies.held_bytes(place) <= 2 * arrays[0].nbytes
        assert len(moved) == 3
        copies.moved(arrays[0], place)
        assert len(moved) == 3
        copies.moved(arrays[1], place)
        assert len(moved) == 4


def test_what_is_too_large_pushes_nothing_out(copies, place, moved, x):
    small = x[: LENGTH // 2].copy()
    with gpuml.config_context(copy_bytes=small.nbytes):
        copies.moved(small, place)
        np.testing.assert_array_equal(to_host(copies.moved(x, place)), x)
        copies.moved(small, place)
    assert moved == [LENGTH // 2, LENGTH]


def test_by_default_copies_are_kept_where_several_fits_are_to_come(copies, place, moved, x):
    with gpuml.config_context(copy_bytes=None):
        with several_fits():
            copies.moved(x, place)
            copies.moved(x, place)
        assert len(moved) == 1


def test_by_default_copies_are_kept_with_dask_ml_and_not_without(
    copies, place, moved, x, monkeypatch
):
    with gpuml.config_context(copy_bytes=None):
        monkeypatch.delitem(sys.modules, "dask_ml", raising=False)
        copies.moved(x, place)
        assert copies.held_bytes(place) == 0
        monkeypatch.setitem(sys.modules, "dask_ml", sys)
        copies.moved(x, place)
        assert copies.held_bytes(place) == x.nbytes
        with gpuml.config_context(cache_bytes=x.nbytes - 1):
            copies.moved(x[:-1], place)
            copies.moved(x[1:], place)
            assert copies.held_bytes(place) == x.nbytes - 8


def test_zero_keeps_none(copies, place, moved, x):
    with gpuml.config_context(copy_bytes=0), several_fits():
        copies.moved(x, place)
        copies.moved(x, place)
    assert len(moved) == 2
    assert copies.held_bytes(place) == 0


@pytest.mark.parametrize("value", [-1, 1.5, True, "all"])
def test_the_setting_takes_a_number_of_bytes(value):
    with pytest.raises(ValueError, match="copy_bytes must be None, 0 or a positive number"):
        gpuml.set_config(copy_bytes=value)


def test_a_move_that_fails_leaves_nothing_behind(copies, place, x, monkeypatch):
    def no_room(x, place):
        raise MemoryError("no room")

    with monkeypatch.context() as patched:
        patched.setattr(_device_copies, "move", no_room)
        with pytest.raises(MemoryError, match="no room"):
            copies.moved(x, place)
    assert copies.held_bytes(place) == 0
    np.testing.assert_array_equal(to_host(copies.moved(x, place)), x)


def test_many_threads_with_little_room_get_what_they_ask_for(copies, place, rng):
    arrays = [rng.normal(size=LENGTH) for _ in range(6)]
    wrong = []

    def work(seed):
        order = np.random.default_rng(seed)
        for i in order.integers(0, len(arrays), size=60):
            # A view or an array that dies at once.
            x = arrays[i] if i % 2 else arrays[i].copy()
            if not np.array_equal(to_host(copies.moved(x, place)), arrays[i]):
                wrong.append(i)

    gpuml.set_config(copy_bytes=2 * arrays[0].nbytes)
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    assert wrong == []
    assert copies.held_bytes(place) <= 2 * arrays[0].nbytes


# ---------------------------------------------------------------- in fits


@pytest.fixture
def rows_go_to(monkeypatch, place):
    """Host rows are worked on at `place`, as they would be on a GPU."""

    def compute_place(x, work_bytes, setting):
        return place if place_of(x) == HOST else place_of(x)

    monkeypatch.setattr(resident_batches, "compute_place", compute_place)
    return place


@pytest.mark.parametrize(
    ("make", "classes"), [(Ridge, False), (LogisticRegression, True)], ids=["Ridge", "Logistic"]
)
def test_fits_of_several_candidates_take_one_trip(rng, moved, rows_go_to, make, classes):
    X = rng.normal(size=(600, 20))
    y = X @ rng.normal(size=20) + rng.normal(size=600)
    y = (y > 0).astype(int) if classes else y
    name = "C" if classes else "alpha"
    values = [0.1, 1.0, 10.0]
    models = [make(**{name: value}).fit(X, y) for value in values]
    assert moved.count(X.size) == 1
    with gpuml.config_context(copy_bytes=0):
        for value, model in zip(values, models, strict=True):
            alone = make(**{name: value}).fit(X, y)
            np.testing.assert_array_equal(model.coef_, alone.coef_)
            assert type(model.coef_) is np.ndarray


def test_a_fit_after_a_change_is_of_the_changed_rows(rng, rows_go_to):
    X, y = rng.normal(size=(600, 20)), rng.normal(size=600)
    Ridge().fit(X, y)
    X[5] *= 3.0
    y[7] += 1.0
    again = Ridge().fit(X, y)
    np.testing.assert_array_equal(again.coef_, Ridge().fit(X.copy(), y.copy()).coef_)


def test_copies_give_way_to_rows_that_would_not_fit(rng, rows_go_to, monkeypatch):
    kept = _device_copies.device_copies
    X, y = rng.normal(size=(600, 20)), rng.normal(size=600)
    Ridge().fit(X, y)
    assert kept.held_bytes(rows_go_to) >= X.nbytes
    monkeypatch.setattr(resident_batches, "fits", lambda size, place: kept.held_bytes(place) == 0)
    others = X + 1.0
    Ridge().fit(others, y)
    assert kept.held_bytes(rows_go_to) <= X.nbytes + y.nbytes


@pytest.mark.gpu
def test_candidates_on_one_host_array_take_one_trip_to_the_gpu(rng):
    pytest.importorskip("cupy")
    from gpuml._arrays import has_gpu
    from gpuml.testing import count_transfers

    if not has_gpu():
        pytest.skip("no GPU")
    X, y = rng.normal(size=(200_000, 50)), rng.normal(size=200_000)
    with gpuml.config_context(device="cuda"), count_transfers() as counted:
        for alpha in np.logspace(-2, 2, 10):
            Ridge(alpha=alpha).fit(X, y)
    assert X.nbytes <= counted.to_device < 1.1 * X.nbytes

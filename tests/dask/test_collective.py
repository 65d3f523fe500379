"""One rank drives, the others serve: in threads, in worker processes, and on GPUs."""

import contextlib
import gc
import operator
import os
import queue
import signal
import socket
import struct
import tempfile
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
import pytest
from distributed import Client, LocalCluster, wait

from gpuml import divided
from gpuml.data import place_of
from gpuml.testing import array_libraries
from gpuml_dask.sums import _frames, _messages
from gpuml_dask.sums._frames import FramedTransport
from gpuml_dask.sums._messages import Alone, Message, RankLost, decode, encode
from gpuml_dask.sums._ranks import Driver, fold, serve
from gpuml_dask.sums.collective import Collective, collective_of

SECONDS = 20
HOST = place_of(np.empty(0))
GPU_MARKS = next(p.marks for p in array_libraries() if p.id == "cupy")

# ---------------------------------------------------------------- ranks that are threads


@dataclass
class ThreadLink:
    """A link between threads: buffers are NumPy arrays, transfers go through queues.

    As with NCCL, both ends say how long a transfer is, and what comes must be as long.
    """

    rank: int
    size: int
    queues: dict
    ended: threading.Event
    place: object = HOST
    sizes: list = field(default_factory=list)

    @staticmethod
    def carries(x):
        return type(x) is np.ndarray and x.dtype.kind in "biufc"

    def empty(self, n_bytes):
        return np.full(n_bytes, 0xAB, dtype=np.uint8)

    def view(self, buffer, offset, shape, dtype):
        return np.ndarray(shape, dtype=dtype, buffer=buffer, offset=offset)

    def write(self, buffer, data):
        buffer[: len(data)] = np.frombuffer(data, dtype=np.uint8)

    def read(self, buffer):
        self.wait()
        return buffer.tobytes()

    def broadcast(self, buffers):
        if self.rank == 0:
            for peer in range(1, self.size):
                self._put(0, peer, buffers)
        else:
            self._take(0, self.rank, buffers)

    def send(self, target, buffers):
        self._put(self.rank, target, buffers)

    def receive(self, buffers):
        for peer, of_one in buffers.items():
            self._take(peer, self.rank, of_one)

    def _put(self, source, target, buffers):
        self.sizes.append(sum(x.size for x in buffers))
        self.queues[source, target].put([x.copy() for x in buffers])

    def _take(self, source, target, buffers):
        deadline = time.monotonic() + SECONDS
        while True:
            with contextlib.suppress(queue.Empty):
                sent = self.queues[source, target].get(timeout=0.02)
                break
            if self.ended.is_set():
                raise RankLost(f"ended on rank {self.rank}")
            assert time.monotonic() < deadline, "nothing came"
        assert [x.size for x in sent] == [x.size for x in buffers]
        for x, came in zip(buffers, sent, strict=True):
            x[...] = came

    def wait(self):
        pass

    def abort(self):
        self.ended.set()


def transports_of_threads(n_ranks):
    pairs = [(i, j) for i in range(n_ranks) for j in range(n_ranks)]
    queues, ended = {pair: queue.Queue() for pair in pairs}, threading.Event()
    return [FramedTransport(ThreadLink(rank, n_ranks, queues, ended)) for rank in range(n_ranks)]


@contextlib.contextmanager
def driver_of(pieces, ranks=(0,), n_ranks=1):
    """A driver of pieces that are dealt to ranks, with the others serving in threads."""
    held = [
        {i: piece for i, piece in enumerate(pieces) if ranks[i % len(ranks)] == rank}
        for rank in range(n_ranks)
    ]
    if n_ranks == 1:
        alone = Alone(HOST)
        alone.carries = ThreadLink.carries
        with Driver(alone, held[0]) as driver:
            yield driver
        return
    transports = transports_of_threads(n_ranks)
    with ThreadPoolExecutor(n_ranks - 1) as pool:
        serving = [
            pool.submit(serve, transport, own)
            for transport, own in zip(transports[1:], held[1:], strict=True)
        ]
        with Driver(transports[0], held[0]) as driver:
            yield driver
        for one in serving:
            one.result(timeout=SECONDS)


DEALS = [((0,), 1), ((0, 1), 2), ((1,), 2), ((0, 0, 1, 1), 2), ((2, 0, 1), 3), ((3, 3, 1, 0), 4)]
deals = pytest.mark.parametrize(("ranks", "n_ranks"), DEALS)


def gradient(piece, W, scale=1.0):
    return piece.T @ (piece @ W) * scale


def summary(piece, *args):
    return {"sum": piece.sum(), "shape": piece.shape, "args": args, "none": None}


def make_pieces(rng, n=9):
    return [rng.standard_normal((rng.integers(3, 20), 5)) for _ in range(n)]


def raise_for(piece, *bad):
    if piece in bad:
        raise ValueError(f"piece {piece} is bad")
    return piece


def times(piece, factor, own=None):
    return piece * factor if own is None else piece * factor + own


def same(piece, *args):
    return piece


def unpicklable(piece):
    return threading.Lock()


def zeros_of(piece, n):
    return np.zeros(n) + piece


def listed(a, b):
    return [a, b]


def is_contiguous(piece, x):
    return x.flags.c_contiguous, x.dtype.str, x.shape, x.sum()


class Odd(Exception):
    def __init__(self, one, two):
        super().__init__(f"{one} {two}")


def raise_odd(piece):
    raise Odd(1, 2)


# ---------------------------------------------------------------- laws of holders


@pytest.mark.parametrize("n", range(1, 18))
def test_the_tree_is_that_of_holders_in_one_process(n):
    leaves = {(i, i + 1): i for i in range(n)}
    assert fold(leaves, 0, n, listed) == {(0, n): divided.tree(range(n), listed)}


@pytest.mark.parametrize("n", [1, 2, 5, 8, 13])
def test_ranks_may_combine_beforehand_without_a_trace(n, rng):
    for _ in range(20):
        owner = rng.integers(0, 3, n)
        parts = {}
        for rank in range(3):
            own = {(i, i + 1): i for i in range(n) if owner[i] == rank}
            parts |= fold(own, 0, n, listed)
        assert fold(parts, 0, n, listed)[0, n] == divided.tree(range(n), listed)


def test_a_rank_with_all_pieces_sends_one_result():
    assert len(fold({(i, i + 1): i for i in range(8, 12)}, 0, 16, operator.add)) == 1


@pytest.mark.bits
@deals
def test_totals_have_the_same_bits_for_any_deal(ranks, n_ranks, rng):
    pieces = make_pieces(rng)
    W = rng.standard_normal((3, 5)).T  # not contiguous: what a trip does to it, it does everywhere
    expected = divided.InProcess(pieces).total(gradient, np.ascontiguousarray(W), 0.5)
    with driver_of(pieces, ranks, n_ranks) as holders:
        assert len(holders) == len(pieces)
        for _ in range(3):
            np.testing.assert_array_equal(holders.total(gradient, W, 0.5), expected)


@pytest.mark.parametrize("size", [1, 2, 8, 9, 100])
@pytest.mark.parametrize("fan_in", [2, 8])
def test_every_rank_sends_to_one_and_neighbours_are_below_it(monkeypatch, size, fan_in):
    monkeypatch.setattr(_messages, "FAN_IN", fan_in)
    below = {rank: [rank] for rank in range(size)}
    for rank in reversed(range(size)):
        children = _messages.children_of(rank, size)
        assert all(_messages.parent_of(child) == rank for child in children)
        below[rank] += [one for child in children for one in below[child]]
        assert sorted(below[rank]) == list(range(rank, rank + len(below[rank])))
    assert len(below[0]) == size


@pytest.mark.bits
@pytest.mark.parametrize("n_ranks", [5, 9])
def test_ranks_that_combine_on_the_way_leave_no_trace(monkeypatch, n_ranks, rng):
    monkeypatch.setattr(_messages, "FAN_IN", 2)
    pieces = make_pieces(rng, 23)
    expected = divided.InProcess(pieces).total(gradient, np.ones((5, 3)), 0.5)
    for ranks in (sorted(i % n_ranks for i in range(23)), list(rng.integers(0, n_ranks, 23))):
        with driver_of(pieces, ranks, n_ranks) as holders:
            np.testing.assert_array_equal(holders.total(gradient, np.ones((5, 3)), 0.5), expected)
            assert holders.each(summary) == [summary(piece) for piece in pieces]
            with pytest.raises(ZeroDivisionError):
                holders.total(same, combine=divided_by_zero)


def divided_by_zero(a, b):
    return 1 // 0


@deals
def test_results_come_in_the_order_of_the_pieces(ranks, n_ranks, rng):
    pieces = make_pieces(rng)
    with driver_of(pieces, ranks, n_ranks) as holders:
        results = holders.each(summary, "a", (1, None))
    assert results == [summary(piece, "a", (1, None)) for piece in pieces]


@deals
def test_what_is_mapped_stays_and_can_be_mapped_again(ranks, n_ranks):
    with driver_of([1, 2, 3, 4, 5], ranks, n_ranks) as holders:
        tens = holders.map(times, 10, each_with=range(5))
        again = tens.map(times, 2)
        assert again.each(same) == [20, 42, 64, 86, 108]
        assert tens.total(same) == 160
        assert holders.total(same, combine=operator.mul) == 120


@deals
def test_an_error_comes_with_its_type_and_all_go_on(ranks, n_ranks):
    with driver_of([0, 1, 2, 3, 4, 5], ranks, n_ranks) as holders:
        for call in (holders.each, lambda *args: holders.map(*args).each(same), holders.total):
            with pytest.raises(ValueError, match="piece 2 is bad"):
                call(raise_for, 5, 2, 4)
        assert holders.total(same) == 15


@deals
def test_what_is_made_of_pieces_travels_with_what_is_asked_next(ranks, n_ranks):
    with driver_of([1, 2, 3], ranks, n_ranks) as holders:
        n_messages = 0
        broadcast = holders._ranks.transport.broadcast

        def counted(message=None):
            nonlocal n_messages
            n_messages += 1
            return broadcast(message)

        holders._ranks.transport.broadcast = counted
        tens = holders.map(times, 10)
        with pytest.raises(TypeError, match="pickle"):
            holders.map(times, threading.Lock())
        with pytest.raises(TypeError, match="pickle"):
            holders.each(times, threading.Lock())
        assert tens.map(operator.add, 1).each(same) == [11, 21, 31]
        assert n_messages == 1
        assert tens.total(same) == 60


@deals
def test_an_error_of_the_driver_ends_the_block(ranks, n_ranks):
    with (
        pytest.raises(ZeroDivisionError),
        driver_of([1, 2], ranks, n_ranks) as holders,
    ):
        holders.total(same) / 0


def test_an_error_tells_where_it_was_raised():
    with driver_of([0, 1], (0, 1), 2) as holders:
        with pytest.raises(ValueError, match="piece 1 is bad") as caught:
            holders.each(raise_for, 1)
        assert "rank 1" in caught.value.__notes__[0]
        assert "in raise_for" in caught.value.__notes__[0]


def test_errors_and_results_that_cannot_travel_are_told():
    with driver_of([0, 1], (1,), 2) as holders:
        with pytest.raises(RuntimeError, match="Odd: 1 2"):
            holders.each(raise_odd)
        with pytest.raises(TypeError, match="pickle"):
            holders.each(unpicklable)
        with pytest.raises(TypeError, match="pickle"):
            holders.each(same, threading.Lock())
        assert holders.total(same) == 1


@deals
def test_arrays_of_all_kinds_arrive(ranks, n_ranks):
    arrays = [
        np.arange(6.0).reshape(2, 3).T,
        np.array(True),
        np.zeros((0, 4), np.float32),
        np.arange(10, dtype=np.int8)[::3],
        np.array([1 + 2j]),
    ]
    with driver_of([0, 1, 2], ranks, n_ranks) as holders:
        for x in arrays:
            expected = (True, x.dtype.str, x.shape, x.sum())
            assert holders.each(is_contiguous, x) == [expected] * 3


def test_messages_may_grow_and_shrink():
    with driver_of([1.0, 2.0], (0, 1), 2) as holders:
        for n in (10, 10**5, 10**5, 3, 3 * 10**6, 0, 10**4):
            results = holders.each(zeros_of, n)
            assert [(len(x), x.sum()) for x in results] == [(n, n), (n, 2.0 * n)]
            assert holders.each(is_contiguous, np.ones(n)) == [(True, "<f8", (n,), n)] * 2


def test_text_longer_than_a_head_arrives():
    text = "x" * (3 * _frames.HEAD_BYTES)
    with driver_of([text[:-1], text], (0, 1), 2) as holders:
        assert holders.each(operator.add, text) == [text[:-1] + text, text + text]


def test_a_command_that_comes_again_takes_one_transfer(rng):
    transports = transports_of_threads(2)
    sizes = transports[0]._link.sizes
    serving = threading.Thread(target=serve, args=(transports[1], {0: rng.random((9, 5))}))
    serving.start()
    with Driver(transports[0], {}) as holders:
        W = rng.random((5, 40_000))
        holders.total(gradient, W)
        before = len(sizes)
        holders.total(gradient, W)
        assert len(sizes) == before + 1
    serving.join(SECONDS)


def test_pieces_nobody_can_ask_for_any_more_are_let_go():
    transports = transports_of_threads(2)
    made = weakref.WeakSet()
    _ranks_of_test[:] = [made]
    serving = threading.Thread(target=serve, args=(transports[1], {1: 1}))
    serving.start()
    with Driver(transports[0], {0: 0}) as holders:
        for _ in range(5):
            mapped = holders.map(make_thing)
            mapped.each(is_thing)
        del mapped
        gc.collect()
        holders.each(same)
        gc.collect()
        assert len(made) == 0
    serving.join(SECONDS)


_ranks_of_test = []


class Thing:
    pass


def make_thing(piece):
    thing = Thing()
    _ranks_of_test[0].add(thing)
    return thing


def is_thing(piece):
    return isinstance(piece, Thing)


def test_an_end_from_outside_reaches_everybody_who_waits():
    transports = transports_of_threads(3)
    with ThreadPoolExecutor(2) as pool:
        # Rank 2 never comes.
        waiting = [
            pool.submit(serve, transports[1], {0: 0}),
            pool.submit(Driver, transports[0], {1: 1}),
        ]
        time.sleep(0.1)
        transports[0].abort()
        start = time.monotonic()
        for one in waiting:
            with pytest.raises(RankLost):
                one.result(timeout=SECONDS)
        assert time.monotonic() - start < SECONDS / 2


def test_a_driver_whose_block_has_ended_says_so():
    with driver_of([1, 2], (0, 1), 2) as holders:
        pass
    with pytest.raises(RuntimeError, match="no longer serve"):
        holders.total(same)


@pytest.mark.parametrize("held", [{1: 1}, {0: 0, 2: 2}])
def test_pieces_must_be_numbered_without_gaps(held):
    with pytest.raises(ValueError, match="numbered"):
        Driver(Alone(HOST), held)


def test_bad_calls_are_refused():
    with Driver(Alone(HOST), {}) as nothing, pytest.raises(ValueError, match="no pieces"):
        nothing.total(same)
    with Driver(Alone(HOST), {0: 1}) as one, pytest.raises(ValueError, match="each_with"):
        one.map(times, 1, each_with=[1, 2])


# ---------------------------------------------------------------- ranks that are Dask workers


class SocketTransport:
    """Messages through Unix sockets, as pickles: what `NcclTransport` is between GPUs."""

    def __init__(self, rank, size, sockets):
        self.rank, self.size, self.place = rank, size, place_of(np.empty(0))
        self._sockets = sockets

    @staticmethod
    def invite():
        return tempfile.mkdtemp()

    @staticmethod
    def here():
        return place_of(np.empty(0))

    @classmethod
    def join(cls, folder, rank, size):
        path = os.path.join(folder, "rank-0")
        if rank > 0:
            return cls(rank, size, [_connected(path, rank)])
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen(size)
            by_rank = {}
            while len(by_rank) < size - 1:
                peer, _ = listener.accept()
                by_rank[_receive(peer)[0]] = peer
        os.unlink(path)
        os.rmdir(folder)
        return cls(rank, size, [by_rank[i] for i in range(1, size)])

    def carries(self, x):
        return False

    def broadcast(self, message=None):
        if message is None:
            return Message(self._or_lost(_receive, self._sockets[0]))
        for peer in self._sockets:
            self._or_lost(_send, peer, message.text)
        return message

    def collect(self):
        children = self._sockets if self.rank == 0 else ()
        return [Message(self._or_lost(_receive, peer)) for peer in children]

    def send(self, message):
        self._or_lost(_send, self._sockets[0], message.text)

    def _or_lost(self, call, *args):
        try:
            return call(*args)
        except (OSError, EOFError) as error:
            # As with NCCL, nobody notices by himself that another is gone.
            while not all(peer.fileno() < 0 for peer in self._sockets):
                time.sleep(0.01)
            raise RankLost(f"rank {self.rank} lost another") from error

    def abort(self):
        for peer in self._sockets:
            with contextlib.suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)
            peer.close()

    close = abort


def _connected(path, rank):
    deadline = time.monotonic() + SECONDS
    while True:
        peer = socket.socket(socket.AF_UNIX)
        try:
            peer.connect(path)
        except OSError:
            peer.close()
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            _send(peer, bytes([rank]))
            return peer


def _send(peer, data):
    peer.sendall(struct.pack("<q", len(data)) + data)


def _receive(peer):
    (n,) = struct.unpack("<q", _exactly(peer, 8))
    return _exactly(peer, n)


def _exactly(peer, n):
    data = bytearray()
    while len(data) < n:
        part = peer.recv(n - len(data))
        if not part:
            raise EOFError
        data += part
    return bytes(data)


def make_piece(i):
    return np.random.default_rng(i).standard_normal((20, 5))


def place_pieces(client, workers, n_pieces=6):
    """Pieces on workers in turn, as `Collective.run` takes them."""
    pieces = {worker: {} for worker in workers}
    for i in range(n_pieces):
        worker = workers[i % len(workers)]
        pieces[worker][i] = client.submit(make_piece, i, workers=[worker], pure=False)
    wait([piece for own in pieces.values() for piece in own.values()], timeout=SECONDS)
    return pieces


def descend(holders, n_steps, seconds=0.0):
    """Some steps of a solver."""
    W = np.ones((5, 2))
    for _ in range(n_steps):
        W = W - 0.01 * holders.total(gradient, W)
        time.sleep(seconds)
    return W


def expected_descent(n_steps, n_pieces=6):
    return descend(divided.InProcess([make_piece(i) for i in range(n_pieces)]), n_steps)


def fail(holders):
    holders.each(raise_for_array)


def raise_for_array(piece):
    raise ValueError("rows are bad")


def process_of(holders):
    return [os.getpid(), *holders.each(pid)]


def pid(piece):
    return os.getpid()


def left_of_ranks(dask_worker):
    members = [str(key) for key in dask_worker.data if "rank" in str(key)]
    return members + [t.name for t in threading.enumerate() if "rank" in t.name]


def addresses_of(client):
    return sorted(client.nthreads())


@pytest.fixture
def collective(client):
    collective = Collective(client, SocketTransport)
    yield collective
    collective.close()


def test_workers_sum_together(client, collective):
    pieces = place_pieces(client, addresses_of(client))
    assert collective.run(descend, pieces, 5).tobytes() == expected_descent(5).tobytes()
    members = dict(collective._members)
    driver, *of_pieces = collective.run(process_of, pieces)
    assert len(set(of_pieces)) == 4
    assert driver in of_pieces
    assert of_pieces[4:] == of_pieces[:2]  # pieces were dealt in turn, and stayed
    assert collective._members == members  # the same communicator


def test_results_do_not_depend_on_the_workers(client, collective):
    workers = addresses_of(client)
    for some in (workers[:1], workers[2:], workers[::-1]):
        result = collective.run(descend, place_pieces(client, some), 4)
        assert result.tobytes() == expected_descent(4).tobytes()


def test_an_error_of_a_worker_is_raised_and_the_communicator_stays(client, collective):
    pieces = place_pieces(client, addresses_of(client))
    with pytest.raises(ValueError, match="rows are bad"):
        collective.run(fail, pieces)
    members = dict(collective._members)
    collective.run(descend, pieces, 1)
    assert collective._members == members


def test_ranks_wait_for_workers_that_are_busy(client, collective):
    workers = addresses_of(client)
    pieces = place_pieces(client, workers)
    busy = client.submit(time.sleep, 1.0, workers=[workers[1]], pure=False)
    time.sleep(0.1)
    assert collective.run(descend, pieces, 2).tobytes() == expected_descent(2).tobytes()
    assert busy.done()


@pytest.mark.bits
def test_two_clients_take_turns(client):
    workers = addresses_of(client)
    with Client(client.scheduler.address, set_as_default=False) as other:
        own = [Collective(one, SocketTransport) for one in (client, other)]
        pieces = [place_pieces(client, workers), place_pieces(client, workers[::-1])]
        with ThreadPoolExecutor(4) as pool:
            runs = [pool.submit(own[0].run, descend, pieces[i % 2], 20, 1e-3) for i in range(4)]
            theirs = {w: {i: other.submit(make_piece, i)} for i, w in enumerate(workers)}
            runs.append(pool.submit(own[1].run, descend, theirs, 20, 1e-3))
            results = [run.result(timeout=60) for run in runs]
        for one in own:
            one.close()
        del theirs
    assert all(r.tobytes() == expected_descent(20).tobytes() for r in results[:4])
    assert results[4].tobytes() == expected_descent(20, n_pieces=4).tobytes()


@pytest.fixture
def no_garbage_is_collected():
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("look_seconds", [0.25, 0.001])
def test_nothing_is_left_on_the_workers(
    client, collective, monkeypatch, no_garbage_is_collected, look_seconds
):
    """Waits that take longer than a look leave errors in cycles, and those would have futures."""
    monkeypatch.setattr("gpuml_dask.sums.collective.LOOK_SECONDS", look_seconds)
    collective.run(descend, place_pieces(client, addresses_of(client)), 2)
    collective.close()
    deadline = time.monotonic() + SECONDS
    while any(client.run(left_of_ranks).values()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(client.run(left_of_ranks).values())


def test_workers_that_are_not_there_are_named(collective):
    with pytest.raises(RankLost, match="tcp://nowhere:1"):
        collective.run(descend, {"tcp://nowhere:1": {}}, 1)


def test_a_collective_is_kept_for_the_life_of_its_client(client):
    assert collective_of(client) is collective_of(client)
    with Client(client.scheduler.address, set_as_default=False) as other:
        first = collective_of(other)
        assert first is not collective_of(client)
    with Client(client.scheduler.address, set_as_default=False) as other:
        assert collective_of(other) is not first


# ---------------------------------------------------------------- workers that die


@pytest.fixture(scope="module")
def mortal(tmp_path_factory):
    """A cluster whose workers may be killed; nannies start them again."""
    with (
        LocalCluster(
            n_workers=4,
            threads_per_worker=1,
            dashboard_address=":0",
            local_directory=str(tmp_path_factory.mktemp("mortal")),
            env=dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"),
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


def ready_workers(client):
    client.wait_for_workers(4, timeout=60)
    workers = addresses_of(client)
    assert len(workers) == 4
    return workers


@pytest.mark.parametrize("victim", [0, 1, 3])
def test_a_worker_that_dies_is_noticed_and_the_next_run_works(mortal, victim):
    collective = Collective(mortal, SocketTransport)
    pieces = place_pieces(mortal, ready_workers(mortal))
    order = list(pieces)
    collective.run(descend, pieces, 1)
    processes = mortal.run(os.getpid)
    died = []

    def kill():
        time.sleep(0.5)
        died.append(time.monotonic())
        os.kill(processes[order[victim]], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(RankLost):
        collective.run(descend, pieces, 10**5, 1e-3)
    assert time.monotonic() - died[0] < SECONDS / 2
    killer.join()
    again = place_pieces(mortal, ready_workers(mortal))
    assert collective.run(descend, again, 3).tobytes() == expected_descent(3).tobytes()
    collective.close()


def test_a_worker_that_dies_between_runs_is_noticed(mortal):
    collective = Collective(mortal, SocketTransport)
    workers = ready_workers(mortal)
    pieces = place_pieces(mortal, workers)
    collective.run(descend, pieces, 1)
    os.kill(mortal.run(os.getpid)[workers[2]], signal.SIGKILL)
    with pytest.raises(RankLost):
        collective.run(descend, pieces, 1)
    again = place_pieces(mortal, ready_workers(mortal))
    assert collective.run(descend, again, 3).tobytes() == expected_descent(3).tobytes()
    collective.close()


def test_ranks_end_when_their_client_is_gone(mortal):
    workers = ready_workers(mortal)
    with Client(mortal.scheduler.address, set_as_default=False) as other:
        collective = Collective(other, SocketTransport)
        pieces = place_pieces(other, workers)
        run = threading.Thread(target=_run_and_forget, args=(collective, pieces))
        run.start()
        until = time.monotonic() + SECONDS
        while not all(mortal.processing().values()) and time.monotonic() < until:
            time.sleep(0.1)  # a busy machine takes its time to begin
        time.sleep(1.0)
    run.join(SECONDS)
    assert not run.is_alive()
    # The threads of the workers are free again.
    ends = [mortal.submit(pid, 0, workers=[w], pure=False) for w in workers]
    assert len(wait(ends, timeout=SECONDS).done) == 4


def _run_and_forget(collective, pieces):
    with contextlib.suppress(Exception):
        collective.run(descend, pieces, 10**5, 1e-3)


# ---------------------------------------------------------------- GPUs


def on_gpu(test):
    for mark in GPU_MARKS:
        test = mark(test)
    return test


def gpu_piece(i):
    import cupy

    return cupy.asarray(make_piece(i))


def gpu_descend(holders, n_steps):
    import cupy

    W = cupy.ones((5, 2))
    for _ in range(n_steps):
        W = W - 0.01 * holders.total(gradient, W)
    kinds = {type(x).__module__.split(".")[0] for x in holders.each(same)}
    return W.get(), kinds


@on_gpu
def test_nccl_carries_messages_of_one_rank():
    import cupy

    from gpuml_dask.sums._nccl import NcclTransport

    transport = NcclTransport.join(NcclTransport.invite(), 0, 1)
    for n in (3, 10**6, 10**6, 0, 5):
        x = cupy.arange(2.0 * n).reshape(2, n).T
        message = encode({"x": x, "other": [1, "a"]}, transport.carries)
        assert len(message.arrays) == 1
        came = decode(transport.broadcast(message))
        assert came["other"] == [1, "a"]
        assert bool((came["x"] == x).all())
        assert came["x"].flags.c_contiguous
        transport.wait()
    transport.abort()
    with pytest.raises(RankLost):
        transport.broadcast(message)


@on_gpu
def test_one_gpu_drives_alone():
    import cupy

    pieces = {i: gpu_piece(i) for i in range(6)}
    with Driver(Alone(place_of(cupy.empty(0))), pieces) as holders:
        W, kinds = gpu_descend(holders, 5)
    assert kinds == {"cupy"}
    np.testing.assert_allclose(W, expected_descent(5), rtol=1e-12)


@on_gpu
@pytest.mark.exhaustive
def test_gpus_sum_together_and_survive_a_loss():
    import cupy

    if cupy.cuda.runtime.getDeviceCount() < 2:
        pytest.skip("needs two GPUs")
    dask_cuda = pytest.importorskip("dask_cuda")
    with dask_cuda.LocalCUDACluster(dashboard_address=":0") as cluster, Client(cluster) as client:
        collective = collective_of(client)
        n_workers = len(client.nthreads())
        results = []
        for turn in range(2):
            client.wait_for_workers(n_workers, timeout=120)
            workers = addresses_of(client)
            pieces = {worker: {} for worker in workers}
            for i in range(6):
                worker = workers[i % n_workers]
                pieces[worker][i] = client.submit(gpu_piece, i, workers=[worker], pure=False)
            W, kinds = collective.run(gpu_descend, pieces, 5)
            assert kinds == {"cupy"}
            results.append(W.tobytes())
            if turn == 0:
                os.kill(client.run(os.getpid)[workers[-1]], signal.SIGKILL)
                with pytest.raises(RankLost):
                    collective.run(gpu_descend, pieces, 10**6)
        collective.close()
    assert results[0] == results[1]

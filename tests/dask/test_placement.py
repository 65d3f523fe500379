"""Rows of any kind become aligned chunks on workers; none travels where it need not."""

import asyncio
import os
import signal
import sys
import time
from concurrent.futures import CancelledError
from types import SimpleNamespace

import dask
import dask.array as da
import dask.dataframe as dd
import distributed.comm.tcp
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster, wait
from scipy import sparse

from gpuml.testing import array_libraries
from gpuml_dask.errors import ClusterError
from gpuml_dask.rows import blocks, inputs, sending
from gpuml_dask.rows.placement import place

N, P = 103, 3
SECONDS = 30


@pytest.fixture
def X(rng):
    return rng.normal(size=(N, P))


@pytest.fixture
def y(rng):
    return rng.normal(size=N)


def frame(X):
    return pd.DataFrame(X, columns=["a", "b", "c"])


def dask_frame(X, n_partitions=5):

    return dd.from_pandas(frame(X), npartitions=n_partitions)


def polars_frame(X):
    return pytest.importorskip("polars").DataFrame(dict(zip("abc", X.T, strict=True)))


def without_known_chunks(x):
    """The same rows as a dask array that does not know how many each chunk has."""
    return x[da.ones(len(x), chunks=x.chunks[0]) > 0]


def dense(rows):
    return rows.toarray() if hasattr(rows, "toarray") else np.asarray(rows)


LOCAL = {
    "numpy": lambda X: X,
    "fortran": np.asfortranarray,
    "list": lambda X: X.tolist(),
    "csr": sparse.csr_array,
    "csc": sparse.csc_array,
    "pandas": frame,
    "polars": polars_frame,
    "arrow": lambda X: pytest.importorskip("pyarrow").Table.from_pandas(frame(X)),
}
REMOTE = {
    "dask array": lambda X: da.from_array(X, chunks=(30, 3)),
    "column chunks": lambda X: da.from_array(X, chunks=(30, 2)),
    "unknown chunks": lambda X: without_known_chunks(da.from_array(X, chunks=(30, 3))),
    "unknown, column chunks": lambda X: without_known_chunks(da.from_array(X, chunks=(30, 2))),
    "dask frame": dask_frame,
    "delayed": lambda X: dask.delayed(np.array)(X),
    "delayed chunks": lambda X: [
        dask.delayed(np.array)(X[:40]),
        dask.delayed(frame)(X[40:]).values,
    ],
    "delayed frames": lambda X: [dask.delayed(frame)(X[:40]), dask.delayed(frame)(X[40:])],
    "delayed lists": lambda X: [dask.delayed(X[:40].tolist()), dask.delayed(X[40:].tolist())],
}


def fetched(futures):
    return [future.result(timeout=SECONDS) for future in futures]


# ---------------------------------------------------------------- rows come as they are


@pytest.mark.some
@pytest.mark.parametrize("kind", [*LOCAL, *REMOTE])
def test_rows_of_any_kind_are_placed(client, X, y, kind):
    with place({**LOCAL, **REMOTE}[kind](X), y, {"sample_weight": y**2}, client=client) as table:
        assert table.names == ("X", "y", "sample_weight")
        assert (table.shape, table.n_rows, table.y_shape) == ((N, P), N, (N,))
        assert table.dtype == table.y_dtype == np.float64
        assert sum(table.sizes) == N
        for name, expected in (("X", X), ("y", y), ("sample_weight", y**2)):
            chunks = fetched(table.futures(name))
            assert [chunk.shape[0] for chunk in chunks] == list(table.sizes)
            np.testing.assert_array_equal(np.concatenate([dense(c) for c in chunks]), expected)
            assert all(chunk.dtype == np.float64 for chunk in chunks)
        np.testing.assert_array_equal(dense(table.whole("X").result(timeout=SECONDS)), X)
        np.testing.assert_array_equal(table.whole("y").result(timeout=SECONDS), y)


@pytest.mark.parametrize("library", array_libraries(), ids=str)
def test_arrays_of_other_libraries_become_numpy_or_cupy(client, X, library):
    expected = "cupy" if library.needs_gpu else "numpy"
    with place(library.asarray(X.astype(np.float32)), client=client, chunks=50) as table:
        assert table.dtype == np.float32
        for chunk in fetched(table.futures("X")):
            assert type(chunk).__module__.startswith(expected)
        whole = table.whole("X").result(timeout=SECONDS)
        np.testing.assert_array_equal(library.to_numpy(whole), X.astype(np.float32))


@pytest.mark.parametrize("kind", ["pandas", "polars", "dask frame", "delayed frames"])
def test_whole_frames_stay_frames(client, X, kind):
    given = {**LOCAL, **REMOTE}[kind](X)
    with place(given, client=client) as table:
        assert table.columns_names == ["a", "b", "c"]
        whole = table.whole("X").result(timeout=SECONDS)
        assert list(whole.columns) == ["a", "b", "c"]
        assert blocks.is_frame(whole)
        if kind == "pandas":
            pd.testing.assert_frame_equal(whole, given)


def test_a_frame_in_chunks_keeps_its_index_and_dtypes(client, X):
    given = frame(X).assign(text=["a", "b"] * 51 + ["c"]).set_index(pd.Index(range(7, 7 + N)))
    with place(given, client=client, chunks=20) as table:
        assert table.dtype.kind == "O"
        pd.testing.assert_frame_equal(table.whole("X").result(timeout=SECONDS), given)
        with pytest.raises(ValueError, match="could not convert string to float"):
            table.futures("X")[0].result(timeout=SECONDS)


def test_arrays_of_frames_have_a_float_dtype(client):
    for dtypes, expected in [
        (["float32", "float32", "float32"], "float32"),
        (["float32", "int64", "float32"], "float64"),
        (["float32", "int8", "bool"], "float32"),  # as scikit-learn and NumPy have it
        (["uint16", "float16", "float32"], "float32"),
        (["float32", "int32", "bool"], "float64"),
        (["float16", "int8", "bool"], "float64"),
        (["float32", "Int8", "bool"], "float64"),
        (["bool", "uint8", "Int64"], "float64"),
    ]:
        given = pd.DataFrame(np.eye(4, 3)).astype(dict(enumerate(dtypes)))
        with place(given, client=client) as table:
            (chunk,) = fetched(table.futures("X"))
            assert table.dtype == chunk.dtype == expected


def test_missing_values_of_frames_become_nan(client):
    given = pd.DataFrame({"a": pd.array([1, None], dtype="Int64"), "b": [1.0, 2.0]})
    with place(given, client=client) as table:
        np.testing.assert_array_equal(fetched(table.futures("X"))[0], [[1, 1], [np.nan, 2]])


def test_labels_may_be_text(client):
    kinds = [["no", "yes"], [0, 1], [False, True]]
    given = [np.array(labels).take(np.arange(10) % 2) for labels in kinds]
    for y in [*given, given[0].astype(object), given[0].tolist()]:
        with place(np.eye(10), y, client=client, chunks=4) as table:
            assert table.whole("y").result(timeout=SECONDS).tolist() == list(y)


@pytest.mark.parametrize("kind", ["numpy", "dask array", "dask frame"])
def test_chunks_can_be_asked_for(client, X, y, kind):
    for chunks, sizes in [(30, (30, 30, 30, 13)), ((100, 3), (100, 3)), ([1] * N, (1,) * N)]:
        with place({**LOCAL, **REMOTE}[kind](X), y, client=client, chunks=chunks) as table:
            assert table.sizes == sizes
            found = client.gather(table.futures("X"))
            np.testing.assert_array_equal(np.concatenate(found), X)


@pytest.mark.parametrize("chunks", [0, -1, (50, 50), (103, 0), (), "auto"])
def test_impossible_chunks_are_refused(chunks):
    with pytest.raises(ValueError, match="chunks must be"):
        inputs.sizes_of(chunks, n_rows=N)


def test_chunks_follow_from_bytes_alone():
    rows = inputs.read_rows(np.empty((10_000_000, 4), dtype=np.float32))
    sizes = inputs.chunk_sizes(rows)
    assert sizes == (4194304, 4194304, 1611392)
    assert inputs.chunk_sizes(inputs.read_rows(np.ones((7, 3)))) == (7,)


@pytest.mark.some
@pytest.mark.parametrize("kind", ["numpy", "dask array", "unknown chunks", "dask frame"])
def test_y_is_cut_as_X_is(client, X, y, kind):
    two = np.c_[y, -y]
    given = [
        (y, y),
        (pd.Series(y), y),
        (da.from_array(y, chunks=17), y),
        (without_known_chunks(da.from_array(y, chunks=17)), y),
        (dask_frame(np.c_[y, y, y], 3).b, y),
        (da.from_array(two, chunks=(50, 1)), two),
        (pd.DataFrame(two), two),
    ]
    for y_given, expected in given:
        with place({**LOCAL, **REMOTE}[kind](X), y_given, client=client) as table:
            assert table.y_shape == expected.shape
            chunks = client.gather(table.futures("y"))
            assert tuple(map(len, chunks)) == table.sizes
            np.testing.assert_array_equal(np.concatenate(chunks), expected)
            np.testing.assert_array_equal(client.gather(table.whole("y")), expected)


def test_empty_partitions_are_left_out(client, X, y):
    given = dask_frame(np.c_[X[:, :2], y])
    given = given[given.a > given.a.max().compute() - 1e-12]
    with place(given[["a", "b"]], given.c, client=client) as table:
        assert table.sizes == (1,)
        assert client.gather(table.whole("y")).tolist() == [y[X[:, 0].argmax()]]


def test_texts_are_taken_where_the_caller_says_so(client):
    texts = ["one", "two, which is longer", "three"]
    with place(texts, [0, 1, 0], client=client, chunks=2, numeric=False) as table:
        assert table.shape == (3,)
        assert table.whole("X").result(timeout=SECONDS).tolist() == texts


# ---------------------------------------------------------------- other bounds


@pytest.mark.parametrize("kind", ["numpy", "csr", "pandas", "dask array", "dask frame"])
def test_pieces_are_the_rows_between_their_bounds(client, X, y, kind):
    bounds = [(0, N), (0, 30), (29, 31), (10, 95), (50, 50), (N, N), (102, N), (30, 60)]
    with place({**LOCAL, **REMOTE}[kind](X), y, client=client, chunks=30) as table:
        pieces = client.gather(table.pieces(bounds))
        for (start, stop), (X_piece, y_piece) in zip(bounds, pieces, strict=True):
            np.testing.assert_array_equal(dense(X_piece), X[start:stop])
            np.testing.assert_array_equal(y_piece, y[start:stop])
        ((X_chunk, _),) = table.pieces([(30, 60)])
        assert X_chunk.key == table.futures("X")[1].key, "a chunk was copied"
        with pytest.raises(ValueError, match="no rows 90 to 104"):
            table.pieces([(90, 104)])
    np.testing.assert_array_equal(dense(X_chunk.result(timeout=SECONDS)), X[30:60])


# ---------------------------------------------------------------- what is refused


def no_rows(x):
    return x[x[:, 0] > np.inf]


REFUSED = {
    "y too short": (lambda X: (X, X[:-1, 0]), r"inconsistent numbers of samples: \[103, 102\]"),
    "dask y too short": (
        lambda X: (X, da.from_array(X[:-1, 0], chunks=9)),
        r"inconsistent numbers of samples: \[103, 102\]",
    ),
    "unknown y too short": (
        lambda X: (X, without_known_chunks(da.from_array(X[:-1, 0], chunks=9))),
        r"inconsistent numbers of samples: \[103, 102\]",
    ),
    "unknown X too short": (
        lambda X: (without_known_chunks(da.from_array(X[:-1], chunks=(40, 3))), X[:, 0]),
        r"inconsistent numbers of samples: \[102, 103\]",
    ),
    "one axis": (lambda X: (X[:, 0], None), "Expected 2D array, got 1D array instead"),
    "one axis of dask": (
        lambda X: (da.from_array(X[:, 0], chunks=40), None),
        r"Expected 2D array, got 1D array instead:\nshape=\(103,\)",
    ),
    "a delayed vector": (lambda X: (dask.delayed(X[:, 0]), None), "Expected 2D array, got 1D"),
    "a series": (lambda X: (dask_frame(X).a, None), "Expected 2D array, got 1D array instead"),
    "three axes": (lambda X: (X[None], None), "Found array with dim 3"),
    "three axes of dask": (lambda X: (da.ones((4, 2, 2)), None), "Found array with dim 3"),
    "y of three axes": (lambda X: (X, X[:, None]), "y should be a 1d array"),
    "y of no axes": (lambda X: (X, 1.0), "y should be a 1d array, got an array of shape"),
    "text": (lambda X: ([["a"]] * N, None), "dtype='numeric' is not compatible"),
    "objects": (lambda X: (np.array([["a"], [1]], dtype=object), None), "could not convert"),
    "complex": (lambda X: (X + 1j, None), "Complex data not supported"),
    "complex dask": (lambda X: (da.from_array(X + 1j), None), "Complex data not supported"),
    "no rows": (lambda X: (X[:0], None), r"Found array with 0 sample\(s\)"),
    "no rows of dask": (lambda X: (no_rows(da.from_array(X, chunks=40)), None), r"0 sample\(s\)"),
    "no rows at all": (lambda X: (None, None), "X is None"),
    "frames that differ": (
        lambda X: ([dask.delayed(frame)(X), dask.delayed(X)], None),
        "must have the same columns",
    ),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", REFUSED)
def test_what_scikit_learn_refuses_is_refused(client, X, case):
    make, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        place(*make(X), client=client)


def test_lengths_are_compared_before_any_work(client, X):
    def must_not_run(block):
        raise AssertionError

    lazy = da.from_array(X, chunks=(30, 3)).map_blocks(must_not_run, meta=np.empty((0, 0)))
    with pytest.raises(ValueError, match="inconsistent numbers"):
        place(lazy, X[1:, 0], client=client)


def test_objects_on_workers_become_numbers_or_an_error(client, X):
    with place(da.from_array(X.astype(object), chunks=(30, 3)), client=client) as table:
        assert table.dtype == np.float64
        np.testing.assert_array_equal(table.whole("X").result(timeout=SECONDS), X)
    text = np.array([["a", 1.0]], dtype=object)
    with place(dask.delayed(text), client=client) as table:
        error = table.futures("X")[0].exception(timeout=SECONDS)
        assert isinstance(error, ValueError)
        assert "could not convert string to float" in str(error)


def test_errors_of_the_users_own_tasks_are_raised(client, X):
    def fail():
        raise OSError("no such file")

    with pytest.raises(OSError, match="no such file"):
        place(dask.delayed(fail)(), client=client)


def test_other_collections_are_refused(client):
    import dask.bag

    with pytest.raises(TypeError, match="Bag has no rows"):
        place(dask.bag.from_sequence([1, 2]), client=client)


# ---------------------------------------------------------------- where bytes go


@pytest.fixture
def traffic(monkeypatch):
    """Bytes that pass this process, which is the client and the scheduler."""
    seen = {"read": 0, "written": 0}
    read, add_header = distributed.comm.tcp.read_bytes_rw, distributed.comm.tcp._add_frames_header

    async def counted_read(stream, n):
        seen["read"] += n
        return await read(stream, n)

    def counted_write(frames):
        made = add_header(frames)
        seen["written"] += made[2]
        return made

    monkeypatch.setattr(distributed.comm.tcp, "read_bytes_rw", counted_read)
    monkeypatch.setattr(distributed.comm.tcp, "_add_frames_header", counted_write)
    return seen


BIG = 2_000_000  # rows of two float64: 32 MB


def test_rows_on_workers_pass_neither_client_nor_scheduler(client, traffic):
    X = da.random.default_rng(0).random((BIG, 2), chunks=(BIG // 8, 1))
    with place(without_known_chunks(X), X[:, 0], client=client) as table:
        wait([table.whole("X"), *table.futures("y")], timeout=SECONDS)
        wait(
            [f for piece in table.pieces([(5, BIG // 2), (3, BIG)]) for f in piece], timeout=SECONDS
        )
        table.content_token()
        assert client.submit(np.shape, table.whole("X")).result(timeout=SECONDS) == (BIG, 2)
    assert traffic["read"] < 2e6
    assert traffic["written"] < 2e6


def test_rows_here_are_sent_once(client, traffic):
    X = np.ones((BIG, 2))
    with place(X, X[:, 0], client=client, chunks=BIG // 8) as table:
        wait([table.whole("X"), *table.futures("X")], timeout=SECONDS)
        sent = X.nbytes + X[:, 0].nbytes
        assert sent <= traffic["written"] < sent + 1e6
        with place(table.X, table.y, {"weight": table.y}, client=client) as again:
            wait(again.whole("X"), timeout=SECONDS)
            assert [f.key for f in again.futures("X")] == [f.key for f in table.futures("X")]
        assert traffic["written"] < sent + 1e6
    assert traffic["read"] < 1e6


def test_chunks_are_even_over_workers_and_rows_stay_together(client, X, y):
    with place(X, y, client=client, chunks=(13, 13, 13, 13, 13, 13, 13, 12)) as table:
        at = client.who_has(table.futures("X"))
        homes = [at[future.key] for future in table.futures("X")]
        assert sorted(map(homes.count, set(homes))) == [2, 2, 2, 2]
        at = client.who_has(table.futures("y"))
        assert [at[future.key] for future in table.futures("y")] == homes


def test_persisted_data_is_used_as_it_is(client, X):
    persisted = da.from_array(X, chunks=(30, 3)).persist()
    wait(persisted, timeout=SECONDS)
    before = client.who_has(persisted)
    with place(persisted, client=client) as table:
        assert {f.key for f in table.futures("X")} == set(before)
        assert client.who_has(table.futures("X")) == before
    np.testing.assert_array_equal(persisted.compute(), X)


def test_futures_of_the_user_stay_the_users(client, X):
    futures = client.scatter([X[:50], X[50:]], direct=True)
    with place(futures, client=client) as table:
        assert [f.key for f in table.futures("X")] == [f.key for f in futures]
    np.testing.assert_array_equal(np.concatenate(client.gather(futures)), X)


# ---------------------------------------------------------------- handles and tokens


def test_handles_name_what_is_placed_until_all_tables_are_closed(client, X, y):
    with place(X, y, client=client) as table:
        handle = table.X
        assert (handle.shape, handle.ndim, handle.dtype, len(handle)) == ((N, P), 2, X.dtype, N)
        inner = place(handle, table.y, {"sample_weight": y}, client=client)
        assert inner.X.rows is table.X.rows
        inner.close()
        inner.close()
        np.testing.assert_array_equal(table.whole("X").result(timeout=SECONDS), X)
        other = place(handle, client=client)
        with pytest.raises(TypeError, match="no values in this process"):
            np.asarray(handle)
    np.testing.assert_array_equal(other.whole("X").result(timeout=SECONDS), X)
    other.close()
    with pytest.raises(ClusterError, match="its table is closed"):
        place(handle, client=client)
    with pytest.raises(ClusterError, match="closed"):
        table.whole("X")


def test_handles_of_different_chunks_are_aligned(client, X, y):
    with place(X, client=client, chunks=40) as one, place(X, y, client=client, chunks=9) as two:
        table = place(one.X, two.y, client=client)
        assert table.sizes == (40, 40, 23)
        place(one.X, two.y, client=client).close()
    np.testing.assert_array_equal(np.concatenate(client.gather(table.futures("y"))), y)
    table.close()


def test_handles_are_of_one_client(client, cluster4, X):
    with (
        Client(cluster4, set_as_default=False) as other,
        place(X, client=client) as table,
        pytest.raises(ValueError, match="another client"),
    ):
        place(table.X, client=other)


def test_equal_tokens_are_of_equal_data(client, X, y):
    lazy = da.from_array(X, chunks=(30, 3))
    given = [(X, y), (X, y), (lazy, y), (lazy, None), (lazy + 0, None)]
    tables = [place(*rows, client=client) for rows in given]
    assert len({table.token for table in tables}) == len(given)
    with (
        place(lazy, client=client) as again,
        place(tables[0].X, tables[0].y, client=client) as same,
    ):
        assert again.token == tables[3].token
        assert same.token == tables[0].token
    for table in tables:
        table.close()


@pytest.mark.parametrize("kind", ["numpy", "csr", "pandas", "dask frame"])
def test_tokens_of_contents_are_of_values(client, X, y, kind):
    def token(X, y):
        with place({**LOCAL, **REMOTE}[kind](X), y, client=client) as table:
            return table.content_token()

    changed = X.copy()
    changed[70, 1] += 1e-9
    labels = np.where(y > 0, "yes", "no")
    assert token(X, y) == token(X.copy(), y.copy())
    assert (
        len({token(X, y), token(changed, y), token(X, -y), token(X, None), token(X, labels)}) == 5
    )


# ---------------------------------------------------------------- losses


@pytest.fixture
def own_cluster(importable, tmp_path):
    with (
        dask.config.set({"distributed.scheduler.work-stealing": False, "gpuml.patience": "20s"}),
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",
            local_directory=str(tmp_path),
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


def kill(client, address):
    os.kill(client.run(os.getpid, workers=[address])[address], signal.SIGKILL)


def wait_until_cancelled(future):
    deadline = time.monotonic() + SECONDS
    while not future.cancelled():
        assert time.monotonic() < deadline, future
        time.sleep(0.02)


def test_what_was_sent_is_sent_again_when_its_worker_dies(own_cluster, X, y):
    client = own_cluster
    with place(X, y, client=client, chunks=30) as table:
        wait(table.whole("X"), timeout=SECONDS)
        token = table.content_token()
        for _ in range(2):
            assert not table.revive()
            ((X_piece, y_piece),) = table.pieces([(20, 70)])
            wait([X_piece, y_piece], timeout=SECONDS)
            chunk = next(f for f in table.futures("y") if len(client.who_has(f)[f.key]) == 1)
            kill(client, client.who_has(chunk)[chunk.key][0])
            wait_until_cancelled(chunk)
            with pytest.raises(CancelledError):
                chunk.result(timeout=SECONDS)
            assert table.content_token() == token, "lost chunks were not sent again"
            np.testing.assert_array_equal(table.whole("X").result(timeout=SECONDS), X)
            np.testing.assert_array_equal(np.concatenate(client.gather(table.futures("y"))), y)
            del chunk, X_piece, y_piece


def test_all_is_made_again_after_a_restart(own_cluster, X, y):
    kinds = ["numpy", "pandas", "dask array", "dask frame", "delayed frames"]
    tables = [place({**LOCAL, **REMOTE}[kind](X), y, client=own_cluster) for kind in kinds]
    old = [[*table.futures("X"), table.whole("X")] for table in tables]  # held, as callers may
    wait([future for futures in old for future in futures], timeout=SECONDS)
    own_cluster.restart(timeout=SECONDS)
    for table in tables:
        assert table.revive()
        np.testing.assert_array_equal(table.whole("X").result(timeout=SECONDS), X)
        np.testing.assert_array_equal(np.concatenate(own_cluster.gather(table.futures("X"))), X)
        table.close()


def test_lost_data_of_the_user_is_named(own_cluster, X):
    futures = own_cluster.scatter([X], direct=True)
    persisted = own_cluster.persist(da.from_array(X, chunks=(30, 3)))
    with place(futures, client=own_cluster) as one, place(persisted, client=own_cluster) as two:
        wait(persisted, timeout=SECONDS)
        own_cluster.restart(timeout=SECONDS)
        for table in (one, two):
            with pytest.raises(ClusterError, match="X is made of were lost"):
                table.revive()
    with pytest.raises(ClusterError, match="lost"):
        place(futures, client=own_cluster)


def test_no_wait_is_endless(own_cluster, X):
    with dask.config.set({"gpuml.patience": "1s"}):
        with dask.annotate(resources={"UNOBTAINABLE": 1}):
            nowhere = da.from_array(X, chunks=(30, 3)).map_blocks(np.abs)
        with (
            dask.config.set({"optimization.fuse.active": False}),
            pytest.raises(ClusterError, match="Nothing was computed"),
        ):
            place(without_known_chunks(nowhere), client=own_cluster)
        own_cluster.cluster.scale(0)
        deadline = time.monotonic() + SECONDS
        while own_cluster.scheduler_info(n_workers=-1)["workers"] and time.monotonic() < deadline:
            time.sleep(0.05)
        with pytest.raises(ClusterError, match="no running worker"):
            place(X, client=own_cluster)


def test_rows_go_past_a_worker_that_is_stuck(own_cluster, X):
    stuck, pid = next(iter(own_cluster.run(os.getpid).items()))
    os.kill(pid, signal.SIGSTOP)
    try:
        with (
            dask.config.set({"gpuml.patience": "1s"}),
            place(X, client=own_cluster, chunks=30) as table,
        ):
            holders = own_cluster.who_has(table.futures("X")).values()
            assert stuck not in {address for addresses in holders for address in addresses}
            np.testing.assert_array_equal(table.whole("X").result(timeout=SECONDS), X)
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_closed_client_is_named(cluster4, X):
    client = Client(cluster4, set_as_default=False)
    table = place(X, client=client)
    client.close()
    for use in (lambda: place(X, client=client), table.revive, table.content_token):
        with pytest.raises(ClusterError, match="client is closed"):
            use()
    table.close()


def test_an_asynchronous_client_is_used_from_a_thread(cluster4, X):
    async def run():
        async with Client(cluster4.scheduler_address, asynchronous=True) as client:
            with pytest.raises(ClusterError, match="asyncio.to_thread"):
                place(X, client=client)
            with await asyncio.to_thread(place, X, client=client) as table:
                return await asyncio.to_thread(table.whole("X").result, timeout=SECONDS)

    np.testing.assert_array_equal(asyncio.run(run()), X)


# ---------------------------------------------------------------- devices


@pytest.mark.parametrize(
    ("setting", "given", "expected"),
    [
        ({}, np.eye(3), False),
        ({"array.backend": "cupy"}, np.eye(3), True),
        ({"array.backend": "cupy"}, frame(np.eye(3)), False),
        ({"dataframe.backend": "cudf"}, frame(np.eye(3)), True),
        ({"dataframe.backend": "cudf"}, np.eye(3), False),
        ({"array.backend": "cupy"}, sparse.csr_array(np.eye(3)), False),
    ],
)
def test_rows_here_follow_the_configured_backend(setting, given, expected):
    with dask.config.set(setting):
        rows = inputs.read_rows(given)
        labels = inputs.read_column(["a", "b", "c"], "y")
    assert (rows.facts.on_gpu, rows.is_uploaded) == (expected, expected)
    assert not labels.facts.on_gpu


@pytest.mark.parametrize(
    ("library", "block", "setting"),
    [("cupy", np.eye(3), "array.backend"), ("cudf", frame(np.eye(3)), "dataframe.backend")],
)
def test_a_worker_without_the_library_says_who_asks_for_it(monkeypatch, library, block, setting):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=f"'{setting}' is '{library}'.*local_client"):
        blocks.upload(block)


class ClientOfFakes:
    """Workers that exist on paper only; some die when something is sent to them, or are slow."""

    asynchronous, status, id = False, "running", "Client-of-fakes"

    def __init__(self, resources, dying=(), slow=()):
        self.resources, self.dying, self.sent = dict(resources), set(dying), {}
        self.slow = set(slow)
        self.scheduler = SimpleNamespace(
            register_scheduler_plugin=self._note_plugin, identity=self._identity
        )
        self.plugins = set()
        self.loop = SimpleNamespace(add_callback=lambda function, *args: function(*args))

    async def _identity(self, n_workers):
        assert n_workers == -1, "some versions leave out most workers"
        workers = self.resources.items()
        return {"workers": {a: {"status": "running", "resources": r} for a, r in workers}}

    def sync(self, function, callback_timeout):
        return asyncio.run(function())

    async def _note_plugin(self, plugin, name, idempotent):
        assert idempotent
        self.plugins.add(name)

    async def scatter(self, data, workers, direct, hash, timeout, asynchronous):
        assert asynchronous
        assert "gpuml_dask-abandoned-rows" in self.plugins, "nobody would look for the rows"
        assert direct, "rows must not pass the scheduler"
        (worker,) = workers
        if worker in self.dying:
            del self.resources[worker]
            raise OSError("connection lost")
        self.sent[worker] = [*self.sent.get(worker, []), *data]
        if worker in self.slow:
            raise TimeoutError("timed out, and comes late")
        return {key: f"future of {key}" for key in data}


@pytest.mark.parametrize(
    ("resources", "on_gpu", "expected"),
    [
        ({"a": {"GPU": 1}, "b": {}, "c": {"GPU": 1}}, True, {"a": 3, "c": 3}),
        ({"a": {"GPU": 1}, "b": {}, "c": {"GPU": 1}}, False, {"a": 2, "b": 2, "c": 2}),
        ({"a": {}, "b": {}}, True, {"a": 3, "b": 3}),
    ],
)
def test_rows_for_gpus_go_to_workers_that_say_they_have_one(resources, on_gpu, expected):
    client = ClientOfFakes(resources)
    homes = sending.Homes(client, [10] * 6, on_gpu)
    sending.send(client, "name", {i: i for i in range(6)}, homes)
    assert {worker: len(keys) for worker, keys in client.sent.items()} == expected


def test_rows_go_elsewhere_when_a_worker_dies_while_they_are_sent():
    client = ClientOfFakes({"a": {}, "b": {}, "c": {}}, dying=["b"])
    homes = sending.Homes(client, [10] * 6, on_gpu=False)
    futures = sending.send(client, "name", {i: i for i in range(6)}, homes)
    assert futures == [f"future of {('name', i, 0, client.id)}" for i in range(6)]
    assert {worker: len(keys) for worker, keys in client.sent.items()} == {"a": 3, "c": 3}


def test_rows_that_come_late_are_not_taken_for_those_that_were_sent_instead():
    """Dask lets go of late ones as soon as they come; under one key, it would of all."""
    client = ClientOfFakes({"a": {}, "b": {}, "c": {}}, slow=["b"])
    sending.send(client, "name", {i: i for i in range(6)}, sending.Homes(client, [10] * 6, False))
    keys = [key for keys in client.sent.values() for key in keys]
    assert len(keys) == len(set(keys)) == 8
    assert len(client.sent["b"]) == 2


@pytest.mark.exhaustive
def test_rows_that_no_worker_takes_are_an_error():
    client = ClientOfFakes({str(i): {} for i in range(20)}, dying=[str(i) for i in range(20)])
    with pytest.raises(ClusterError, match="No worker took the rows"):
        sending.send(client, "name", {0: 0}, sending.Homes(client, [10], on_gpu=False))


def test_large_chunks_do_not_crowd_one_worker():
    client = ClientOfFakes({"a": {}, "b": {}})
    sizes = [60, 10, 20, 30, 40]
    homes = sending.Homes(client, sizes, on_gpu=False)
    found = homes.find(range(5), avoid=set())
    loads = {name: sum(sizes[i] for i, home in found.items() if home == name) for name in "ab"}
    assert max(loads.values()) <= sum(sizes) / 2 + max(sizes) / 2
    assert homes.find([1, 4], avoid=set()) == {1: found[1], 4: found[4]}, "a home has changed"
    client.resources["c"] = {}
    assert homes.find(range(5), avoid=set()) == found, "a chunk has moved to a new worker"


def test_tasks_on_chunks_are_one_message_however_many_there_are(client, monkeypatch):
    messages, send = [], client._send_to_scheduler
    monkeypatch.setattr(client, "_send_to_scheduler", lambda m: messages.append(m["op"]) or send(m))

    frame = dd.from_pandas(pd.DataFrame(np.ones((60, 2))), npartitions=4).persist()

    def n_messages(chunks):
        before = messages.count("update-graph")
        with place(frame, client=client, chunks=chunks) as table:
            table.futures("X")
            table.content_token()
        return messages.count("update-graph") - before

    assert n_messages(25) == n_messages(7)

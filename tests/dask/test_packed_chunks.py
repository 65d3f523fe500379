"""Dask's arrays hold packed codes as they hold arrays of NumPy."""

import pickle
import subprocess
import sys

import dask
import dask.array as da
import numpy as np
import pytest
from dask.base import tokenize
from dask.sizeof import sizeof

from gpuml.encodings import Packed, open_bed, pack, unpack


@pytest.fixture
def codes(rng):
    codes = rng.integers(0, 4, (50, 23)).astype(float)
    codes[codes == 3] = np.nan
    return codes


@pytest.fixture(params=[(20, 23), (20, 9)], ids=["rows", "rows and columns"])
def packed(request, codes):
    with dask.config.set(scheduler="synchronous"):
        yield da.from_array(codes, chunks=request.param).map_blocks(pack)


def same(x, expected):
    result = x.compute()
    assert isinstance(result, Packed)
    np.testing.assert_array_equal(result.decode(float), expected)
    assert result.shape == x.shape == expected.shape


def test_dask_knows_what_its_chunks_are(packed):
    assert isinstance(packed._meta, Packed)
    assert (packed.dtype, packed.shape) == (np.uint8, (50, 23))


def test_computed_whole_and_in_parts(packed, codes):
    same(packed, codes)
    held = packed.persist()
    same(held, codes)
    for rows in (slice(3, 45), slice(None, None, 7), slice(None, None, -1), slice(19, 21)):
        same(held[rows], codes[rows])
    same(held[5:40, 3:20], codes[5:40, 3:20])
    same(held[[41, 2, 2, 30]], codes[[41, 2, 2, 30]])
    same(held[codes[:, 0] == 1], codes[codes[:, 0] == 1])
    same(held[:, [22, 0, 10]], codes[:, [22, 0, 10]])
    np.testing.assert_array_equal(held[4].compute(), np.where(np.isnan(codes), 3, codes)[4])
    block = held.blocks[1]
    same(block, codes[20:40])


def test_joined_and_cut_anew(packed, codes):
    same(da.concatenate([packed, packed[:10]]), np.concatenate([codes, codes[:10]]))
    same(da.concatenate([packed, packed], axis=1), np.concatenate([codes, codes], axis=1))
    same(packed.rechunk((7, -1)), codes)
    same(packed.rechunk({0: -1, 1: 5}), codes)


def test_decoded_lazily(packed, codes):
    decoded = packed.map_blocks(unpack, "float32", dtype="float32")
    np.testing.assert_array_equal(decoded.compute(), codes.astype("float32"))
    assert isinstance(decoded._meta, np.ndarray)
    ones = np.ones((23, 1), dtype="float32")
    np.testing.assert_allclose(da.nan_to_num(decoded) @ ones, np.nan_to_num(codes) @ ones)


def test_numbers_of_packed_codes_say_what_to_type(packed):
    with pytest.raises(TypeError, match=r"packed\.decode\(\)"):
        (packed.sum()).compute()
    with pytest.raises(TypeError, match="map_blocks"):
        pack(packed)


def test_a_packed_matrix_becomes_a_dask_array(codes):
    whole = pack(codes)
    x = da.from_array(whole, chunks=(20, -1))
    assert isinstance(x._meta, Packed)
    with dask.config.set(scheduler="synchronous"):
        same(x, codes)
        same(x[10:30], codes[10:30])


def test_delayed_chunks(codes):
    part = dask.delayed(pack)(codes)
    x = da.from_delayed(part, shape=codes.shape, meta=pack(np.empty((0, 0))))
    with dask.config.set(scheduler="synchronous"):
        same(da.concatenate([x, x]), np.concatenate([codes, codes]))


def test_weight_and_name(codes):
    packed = pack(np.tile(codes, (1000, 1)))
    assert packed.nbytes < sizeof(packed) < packed.nbytes + 1000
    assert tokenize(packed) == tokenize(pickle.loads(pickle.dumps(packed)))
    assert tokenize(packed) != tokenize(packed[1:])
    assert tokenize(packed) != tokenize(Packed(packed.data, 23, missing=False))


def test_on_a_cluster(codes):
    from distributed import Client

    with Client(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=":0") as c:
        held = da.from_array(codes, chunks=(20, 9)).map_blocks(pack).persist()
        assert all(isinstance(x, Packed) for x in c.gather(c.futures_of(held)))
        same(held, codes)
        same(held[::3, 4:], codes[::3, 4:])


def test_travels_without_a_copy(codes):
    from distributed.protocol import deserialize, serialize

    packed = pack(np.tile(codes, (1000, 1)))
    header, frames = serialize(packed)
    assert any(memoryview(frame).nbytes == packed.nbytes for frame in frames)
    there = deserialize(header, frames)
    np.testing.assert_array_equal(there.data, packed.data)
    rows = serialize(packed[:10])[1]
    assert sum(memoryview(frame).nbytes for frame in rows) < 1000


def test_bed_files_are_read_chunk_by_chunk(tmp_path, rng):
    content = rng.integers(0, 256, (30, 5), dtype=np.uint8)
    path = tmp_path / "x.bed"
    path.write_bytes(b"\x6c\x1b\x01" + content.tobytes())
    path.with_suffix(".fam").write_text("f i 0 0 0 -9\n" * 18)
    path.with_suffix(".bim").write_text("1 v 0 1 A C\n" * 30)
    bed = open_bed(path)
    whole = bed[:].decode(float)
    with dask.config.set(scheduler="synchronous"):
        same(da.from_array(bed.by_variant, chunks=(7, 8), asarray=False), whole.T)
        same(da.from_array(bed, chunks=(7, 8), asarray=False), whole)


def test_encodings_do_not_import_dask():
    program = "import sys, gpuml.encodings; assert not {'dask', 'cupy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)

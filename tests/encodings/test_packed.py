"""Packed codes are the codes that were packed, whatever was sliced, joined, moved or pickled."""

import pickle
import sys

import numpy as np
import pytest

from gpuml.encodings import Packed, pack, unpack

KINDS = [(2, True), (2, False), (4, True), (4, False), (8, True), (8, False)]
COLUMNS = (0, 1, 3, 4, 9)


def some_codes(rng, n, p, bits=2, missing=True):
    """Codes in float64, with nan where missing."""
    top = 2**bits - 1
    codes = rng.integers(0, top + 1, (n, p)).astype(float)
    if missing:
        codes[codes == top] = np.nan
    return codes


@pytest.fixture
def codes(rng):
    return some_codes(rng, 7, 9)


def same(packed, expected):
    host = packed.to_host()
    np.testing.assert_array_equal(host.decode(float), expected)
    used = host.n_columns * host.bits % 8
    if used and host.data.size:
        assert not (host.data[:, -1] >> used).any(), "padding bits are not zero"
    assert host.shape == expected.shape


@pytest.mark.parametrize(("bits", "missing"), KINDS)
@pytest.mark.parametrize("p", COLUMNS)
def test_codes_come_back(rng, bits, missing, p):
    codes = some_codes(rng, 6, p, bits, missing)
    packed = pack(codes, bits, missing=missing)
    same(packed, codes)
    assert packed.nbytes == 6 * -(-p * bits // 8)
    as_integers = np.where(np.isnan(codes), 2**bits - 1, codes)
    np.testing.assert_array_equal(packed.decode(), as_integers)
    np.testing.assert_array_equal(packed.decode("int16", slice(1, 4)), as_integers[1:4])
    assert packed.decode().dtype == np.uint8 == packed.dtype
    assert unpack(packed, "float32").dtype == np.float32


def test_first_column_is_in_the_lowest_bits():
    assert pack([[1, 0, 2, -1]]).data.tolist() == [[0b11_10_00_01]]
    assert pack([[1, 14]], 4).data.tolist() == [[0xE1]]


@pytest.mark.parametrize("dtype", ["int8", "int64", "float32", "float16"])
def test_negative_nan_and_masked_are_missing(dtype):
    codes = np.array([[0, 2, -1], [1, -127, 0]], dtype=dtype)
    expected = [[0, 2, np.nan], [1, np.nan, 0]]
    same(pack(codes), np.array(expected))
    if codes.dtype.kind == "f":
        same(pack(np.where(codes < 0, np.nan, codes)), np.array(expected))
    masked = np.ma.masked_array(np.abs(codes), codes < 0)
    same(pack(masked), np.array(expected))
    np.testing.assert_array_equal(codes < 0, masked.mask)  # the input was not written to


def test_bools_lists_and_frames_are_packed():
    pandas = pytest.importorskip("pandas")
    rows = [[True, False], [False, True]]
    for x in (rows, np.array(rows), pandas.DataFrame(rows), np.array(rows, order="F")):
        same(pack(x), np.array(rows, dtype=float))


@pytest.mark.parametrize(
    ("x", "options", "message"),
    [
        ([[0, 1], [5, 4]], {}, "5 in row 1, column 0 does not fit.*bits=4"),
        ([[0, 3]], {}, "3 in row 0, column 1 does not fit.*missing=False.*-1"),
        ([[0, 4]], {"missing": False}, "4 in row 0, column 1 does not fit"),
        ([[0, 300]], {}, "300 in row 0, column 1"),
        ([[0, 0.5]], {}, "0.5 in row 0, column 1"),
        ([[0, -0.5]], {}, "-0.5 in row 0, column 1"),
        ([[0, np.inf]], {}, "inf in row 0, column 1"),
        ([[0, -np.inf]], {}, "-inf in row 0, column 1"),
        ([[0, -1]], {"missing": False}, "-1 in row 0, column 1 is a missing value"),
        ([[0, np.nan]], {"missing": False}, "nan in row 0, column 1 is a missing value"),
        ([[256, 0]], {"bits": 8}, "256 in row 0, column 0"),
        ([[255, 0]], {"bits": 8}, "255 in row 0, column 0"),
        ([[0, 1]], {"bits": 3}, "bits must be 2, 4 or 8"),
        ([0, 1], {}, "Expected 2D array, got 1D"),
    ],
)
def test_what_does_not_fit_is_named(x, options, message):
    with pytest.raises(ValueError, match=message):
        pack(x, **options)


def test_first_of_many_rows_that_does_not_fit_is_named():
    x = np.zeros((300_000, 3), dtype=np.uint8)
    x[[200_001, 250_000], 1] = 7
    with pytest.raises(ValueError, match="7 in row 200001, column 1"):
        pack(x)


def test_other_types_are_refused():
    from scipy import sparse

    with pytest.raises(TypeError, match="toarray"):
        pack(sparse.csr_array(np.eye(3)))
    with pytest.raises(TypeError, match="whole numbers"):
        pack(np.array([["a"]]))
    with pytest.raises(TypeError, match="whole numbers"):
        pack(np.array([[1j]]))
    with pytest.raises(TypeError, match="packed already"):
        pack(pack([[1]]))
    with pytest.raises(TypeError, match="unpack takes"):
        unpack(np.eye(2))
    with pytest.raises(TypeError, match="integers or floats"):
        pack([[1]]).decode(bool)
    with pytest.raises(ValueError, match="int8 does not hold"):
        pack([[1]], 8).decode("int8")


def test_constructor_checks_the_layout():
    data = np.zeros((2, 3), dtype=np.uint8)
    assert Packed(data, 12).data is data
    assert Packed(data, 9).shape == (2, 9)
    for columns in (13, 8, -1):
        with pytest.raises(ValueError, match=f"{columns} columns of 2 bits"):
            Packed(data, columns)
    with pytest.raises(TypeError, match="uint8"):
        Packed(data.astype(int), 12)
    with pytest.raises(TypeError, match="uint8"):
        Packed([[1]], 4)
    with pytest.raises(AttributeError):
        Packed(data, 12).bits = 4


ROWS = [
    slice(None),
    slice(2, 5),
    slice(None, None, 2),
    slice(None, None, -1),
    slice(5, 1, -2),
    slice(3, 3),
    slice(-3, None),
    [4, 0, 0],
    np.array([True, False] * 3 + [True]),
    [],
]
OF_COLUMNS = [
    slice(None),
    slice(4, 8),
    slice(4, 7),
    slice(3, 9),
    slice(None, None, -1),
    slice(1, None, 3),
    slice(6, 2),
    [8, 1, 1],
    np.arange(9) % 2 == 0,
    -1,
    2,
]


@pytest.mark.parametrize("rows", ROWS, ids=str)
@pytest.mark.parametrize("columns", OF_COLUMNS, ids=str)
def test_slices_are_those_of_the_dense_matrix(codes, rows, columns):
    packed = pack(codes)
    if isinstance(columns, int):
        column = packed[rows, columns]
        expected = np.where(np.isnan(codes), 3, codes)[rows, columns]
        np.testing.assert_array_equal(column, expected)
        return
    same(packed[rows], codes[rows])
    if isinstance(rows, slice) or isinstance(columns, slice):
        same(packed[rows, columns], codes[rows, columns])
    same(packed[rows][:, columns], codes[rows][:, columns])


def test_rows_and_single_codes_are_decoded(codes):
    packed = pack(codes)
    whole = np.where(np.isnan(codes), 3, codes)
    for row in (0, -1, np.int64(3)):
        np.testing.assert_array_equal(packed[row], whole[row])
        np.testing.assert_array_equal(packed[row, 2:6], whole[row, 2:6])
    assert packed[2, -4] == whole[2, -4]
    assert type(packed[2, -4]) is int
    np.testing.assert_array_equal(list(packed), whole)
    same(packed[..., 1:3], codes[..., 1:3])
    same(packed[1:2, ...], codes[1:2])


@pytest.mark.parametrize(
    "key", [7, -8, (0, 9), (0, 0, 0), None, [0.5], ([0], [1]), np.ones((7, 9), bool), [9], True]
)
def test_bad_keys_are_index_errors(codes, key):
    with pytest.raises(IndexError):
        pack(codes)[key]


def test_neighbouring_rows_share_memory_and_pickle_alone(rng):
    packed = pack(rng.integers(0, 3, (1000, 400)))
    rows = packed[10:20]
    assert np.shares_memory(rows.data, packed.data)
    assert len(pickle.dumps(rows)) < 20 * 100
    buffers = []
    travelling = pickle.dumps(packed, protocol=5, buffer_callback=buffers.append)
    assert len(travelling) < 1000
    assert sum(len(buffer.raw()) for buffer in buffers) == packed.nbytes
    same(pickle.loads(travelling, buffers=buffers), packed.decode(float))


def test_padding_bits_that_are_set_do_not_count():
    packed = Packed(np.full((2, 1), 0b11_00_01_00, dtype=np.uint8), 3)
    assert not packed.has_missing()
    assert np.asarray(packed).dtype == np.uint8
    same(packed[:, :2], np.array([[0.0, 1], [0, 1]]))
    same(np.concatenate([packed, packed], axis=1), np.array([[0.0, 1, 0, 0, 1, 0]] * 2))


@pytest.mark.parametrize(("bits", "missing"), KINDS)
@pytest.mark.parametrize("p", COLUMNS)
def test_joined_codes_are_the_joined_matrices(rng, bits, missing, p):
    parts = [some_codes(rng, n, p, bits, missing) for n in (2, 0, 3)]
    packed = [pack(part, bits, missing=missing) for part in parts]
    same(np.concatenate(packed), np.concatenate(parts))
    same(np.vstack(packed), np.vstack(parts))
    beside = [some_codes(rng, 4, width, bits, missing) for width in (p, 5, 2)]
    packed = [pack(part, bits, missing=missing) for part in beside]
    same(np.concatenate(packed, axis=1), np.concatenate(beside, axis=1))
    same(np.hstack(packed), np.hstack(beside))


def test_what_cannot_be_joined():
    with pytest.raises(ValueError, match="Pack them alike"):
        np.concatenate([pack([[1]]), pack([[1]], 4)])
    with pytest.raises(ValueError, match="below each other"):
        np.concatenate([pack([[1]]), pack([[1, 2]])])
    with pytest.raises(ValueError, match="beside each other"):
        np.hstack([pack([[1]]), pack([[1], [2]])])
    with pytest.raises(TypeError, match="cannot be joined"):
        np.concatenate([pack([[1]]), np.ones((1, 1))])
    with pytest.raises(TypeError, match="no dtype"):
        np.concatenate([pack([[1]])], dtype=float)


def test_numpy_functions_say_what_to_type(codes):
    packed = pack(codes)
    for compute in (np.sum, np.isnan, np.linalg.svd, lambda x: np.ones((2, 7)) @ x, np.sqrt):
        with pytest.raises(TypeError, match=r"packed\.decode\(\)"):
            compute(packed)
    same(np.take(packed, [1, 3], axis=1), codes[:, [1, 3]])
    assert (np.shape(packed), np.ndim(packed), np.size(packed)) == ((7, 9), 2, 63)
    with pytest.raises(TypeError, match="np.take"):
        np.take(packed, [1])


def test_numpy_arrays_of_packed_codes(codes):
    np.testing.assert_array_equal(np.asarray(pack(codes)), codes)
    whole = pack(np.nan_to_num(codes))
    assert np.asarray(whole).dtype == np.uint8
    assert np.asarray(whole, dtype=np.float32).dtype == np.float32
    with pytest.raises(ValueError, match="copy"):
        np.array(whole, copy=False)


def test_identity_and_size(codes):
    packed, other = pack(codes), pack(codes)
    assert packed != other
    assert packed == packed
    assert len({packed, other}) == 2
    assert sys.getsizeof(packed) >= packed.nbytes == 7 * 3
    assert (len(packed), packed.ndim, packed.size) == (7, 2, 63)
    assert "shape=(7, 9), bits=2" in repr(packed)


def test_a_memory_mapped_file_is_not_read_before_it_is_needed(tmp_path):
    # As long as a file of 50 GB; it takes no room, as nothing is written to most of it.
    width, n = 5_000, 10_000_000
    path = tmp_path / "sparse.bin"
    with path.open("wb") as file:
        file.truncate(width * n)
    data = np.memmap(path, np.uint8, mode="r", shape=(n, width))
    packed = Packed(data, 4 * width)
    assert packed.shape == (n, 4 * width)
    assert not packed[n - 3 :].decode().any()
    assert packed[::5_000_000].shape == (2, 4 * width)
    assert packed[123_456, 17] == 0


def test_memory_maps_decode_to_plain_arrays(tmp_path, codes):
    path = tmp_path / "codes.npy"
    np.save(path, pack(codes).data)
    packed = Packed(np.load(path, mmap_mode="r"), 9)
    same(packed, codes)
    assert type(packed.decode()) is np.ndarray
    same(packed[::2, 1:4], codes[::2, 1:4])


def test_eight_bits_share_memory_with_bytes(rng):
    x = rng.integers(0, 255, (5, 4), dtype=np.uint8)
    x.flags.writeable = False
    packed = pack(x, 8)
    assert np.shares_memory(packed.data, x)
    assert not np.shares_memory(packed.decode(), x)


def test_libraries(library, codes):
    packed = pack(library.asarray(codes))
    same(packed, codes)
    if library.name in ("cupy", "torch-cuda"):
        assert type(packed.data).__module__.startswith("cupy")
        assert type(packed.decode()).__module__.startswith("cupy")
        with pytest.raises(TypeError, match="to_host"):
            np.asarray(packed)
        same(packed[[2, 0]][:, 1:6], codes[[2, 0]][:, 1:6])
        same(np.concatenate([packed, packed], axis=1), np.concatenate([codes, codes], axis=1))
        same(packed.to_host().to_device(), codes)
    else:
        assert packed.to_host() is packed


def test_missing_is_yes_or_no():
    with pytest.raises(TypeError, match="True or False"):
        pack([[0, 1]], missing="no")
    assert pack([[0, 1]], 2.0).bits == 2

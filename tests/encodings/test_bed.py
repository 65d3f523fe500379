"""Genotypes of .bed files, as PLINK's format says and as bed-reader reads them."""

import pickle
import tracemalloc

import numpy as np
import pytest

from gpuml.encodings import Packed, open_bed

# Three variants of five samples, written by hand from the description of the format: two bits for
# each sample, the first in the lowest bits. 00 has two alleles A1, 10 one, 11 none, 01 is missing.
BY_HAND = bytes(
    [
        *(0x6C, 0x1B, 0x01),
        *(0b11_10_01_00, 0b00_00_00_10),
        *(0b00_00_11_11, 0b00_00_00_01),
        *(0b10_10_10_10, 0b00_00_00_11),
    ]
)
A1_COUNTS = np.array([[2, np.nan, 1, 0, 1], [0, 0, 2, 2, np.nan], [1, 1, 1, 1, 0]])


def write(path, content, samples, variants):
    path.write_bytes(content)
    path.with_suffix(".fam").write_text("".join(f"f i{i} 0 0 0 -9\n" for i in range(samples)))
    path.with_suffix(".bim").write_text("".join(f"1 v{i} 0 {i} A C\n" for i in range(variants)))
    return path


@pytest.fixture
def by_hand(tmp_path):
    return write(tmp_path / "hand.bed", BY_HAND, 5, 3)


def test_the_format(by_hand):
    bed = open_bed(by_hand)
    assert (bed.shape, bed.ndim, bed.dtype, bed.size) == ((5, 3), 2, np.uint8, 15)
    assert bed.by_variant.shape == (3, 5)
    np.testing.assert_array_equal(bed.by_variant[:].decode(float), A1_COUNTS)
    np.testing.assert_array_equal(bed[:].decode(float), A1_COUNTS.T)
    other = open_bed(by_hand, count_A1=False)
    np.testing.assert_array_equal(other[:].decode(float), 2 - A1_COUNTS.T)
    assert (len(bed), len(bed.by_variant)) == (5, 3)
    assert repr(bed.by_variant) == "BedFile(hand.bed, 5 samples, 3 variants).by_variant"
    # Padding is 11, 10 or 01 once it is recoded, unless it is cleared.
    assert not (bed.by_variant[:].data[:, 1] >> 2).any()
    assert not (bed[:].data >> 6).any()


def test_as_an_array_missing_genotypes_are_nan(by_hand):
    bed = open_bed(by_hand)
    np.testing.assert_array_equal(np.asarray(bed), A1_COUNTS.T)
    np.testing.assert_array_equal(np.asarray(bed.by_variant), A1_COUNTS)


def random_file(path, rng, samples, variants):
    content = rng.integers(0, 256, (variants, -(-samples // 4)), dtype=np.uint8)
    return open_bed(write(path, b"\x6c\x1b\x01" + content.tobytes(), samples, variants))


KEYS = [
    slice(None),
    slice(1, 11),
    slice(5, 8),
    slice(None, None, 3),
    slice(None, None, -1),
    slice(4, 4),
    [3, 0, 3],
    -2,
]


@pytest.mark.pairwise
@pytest.mark.parametrize("rows", KEYS, ids=str)
@pytest.mark.parametrize("columns", KEYS, ids=str)
@pytest.mark.parametrize("samples", [13, 16])
def test_slices_in_both_orders(tmp_path, rng, rows, columns, samples):
    bed = random_file(tmp_path / "x.bed", rng, samples, 14)
    packed = bed.by_variant[:]
    assert isinstance(packed, Packed)
    whole = packed.decode()
    expected = whole[rows][..., columns]
    for result, wanted in (
        (bed.by_variant[rows, columns], expected),
        (bed[columns, rows], expected.T),
        (bed.by_variant[rows], whole[rows]),
        (bed[columns], whole.T[columns]),
    ):
        decoded = result.decode() if isinstance(result, Packed) else np.asarray(result)
        np.testing.assert_array_equal(decoded, wanted)


def test_blocks_of_variants_change_nothing(tmp_path, rng, monkeypatch):
    bed = random_file(tmp_path / "x.bed", rng, 21, 50)
    monkeypatch.setattr("gpuml.encodings.bed.BLOCK_BYTES", 24)
    np.testing.assert_array_equal(bed[:].decode(), bed.by_variant[:].decode().T)
    np.testing.assert_array_equal(bed[3:9, 7:45].decode(), bed.by_variant[7:45, 3:9].decode().T)


@pytest.mark.parametrize("shape", [(0, 3), (5, 0)])
def test_no_samples_or_variants(tmp_path, rng, shape):
    bed = random_file(tmp_path / "x.bed", rng, *shape)
    assert bed[:].shape == shape
    assert bed.by_variant[:].shape == shape[::-1]


def test_a_pickle_is_the_path(by_hand):
    bed = pickle.loads(pickle.dumps(open_bed(by_hand, count_A1=False)))
    assert not bed.count_A1
    np.testing.assert_array_equal(bed[:].decode(float), 2 - A1_COUNTS.T)
    assert len(pickle.dumps(bed)) < 1000


def test_opening_and_slicing_read_what_is_asked_for(tmp_path):
    samples, variants = 100_000, 4_000  # 100 MB, which take no room on the disk
    path = write(tmp_path / "large.bed", b"\x6c\x1b\x01", samples, variants)
    with path.open("r+b") as file:
        file.truncate(3 + variants * samples // 4)
    tracemalloc.start()
    bed = open_bed(path)
    assert (bed.by_variant[2000:2004].decode() == 2).all()
    assert (bed[50_000:50_010].decode() == 2).all()
    assert tracemalloc.get_traced_memory()[1] < 10e6
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"BED1", "not a PLINK 1 .bed file"),
        (b"", "not a PLINK 1 .bed file"),
        (b"\x6c\x1b", "not a PLINK 1 .bed file"),
        (b"\x6c\x1b\x00" + bytes(6), "--make-bed"),
        (b"\x6c\x1b\x07" + bytes(6), "byte 3"),
        (BY_HAND[:-1], "8 bytes, but 5 samples of hand.fam and 3 variants of hand.bim take 9"),
        (BY_HAND + b"0", "10 bytes"),
    ],
)
def test_bad_files(tmp_path, content, message):
    path = write(tmp_path / "hand.bed", content, 5, 3)
    with pytest.raises(ValueError, match=message):
        open_bed(path)


def test_missing_files(by_hand):
    with pytest.raises(FileNotFoundError, match="other.bed"):
        open_bed(by_hand.with_name("other.bed"))
    by_hand.with_suffix(".bim").unlink()
    with pytest.raises(FileNotFoundError, match=r"hand\.bim is missing"):
        open_bed(str(by_hand))


def test_tables_say_what_to_install(by_hand, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "bed_reader", None)
    bed = open_bed(by_hand)
    assert bed[:].shape == (5, 3)
    with pytest.raises(ImportError, match=r"gpuml\[genetics\]"):
        _ = bed.samples


@pytest.mark.parametrize("count_A1", [True, False])
def test_the_same_as_bed_reader(tmp_path, rng, count_A1):
    bed_reader = pytest.importorskip("bed_reader", reason="bed-reader is not installed")
    codes = rng.integers(0, 4, (23, 18)).astype(float)
    codes[codes == 3] = np.nan
    properties = {
        "iid": [f"person{i}" for i in range(23)],
        "sid": [f"rs{i}" for i in range(18)],
        "bp_position": list(range(100, 118)),
    }
    path = tmp_path / "reader.bed"
    bed_reader.to_bed(path, codes, properties=properties, count_A1=count_A1)
    bed = open_bed(path, count_A1=count_A1)
    np.testing.assert_array_equal(bed[:].decode(float), codes)
    with bed_reader.open_bed(path, count_A1=count_A1) as reader:
        np.testing.assert_array_equal(bed[:].decode(float), reader.read(dtype="float64"))
    assert list(bed.samples["iid"]) == properties["iid"]
    assert list(bed.variants["sid"]) == properties["sid"]
    np.testing.assert_array_equal(bed.variants["bp_position"], properties["bp_position"])
    assert set(bed.samples) == {"fid", "iid", "father", "mother", "sex", "pheno"}
    assert all(len(column) == 18 for column in bed.variants.values())

"""PLINK's .bed files, read where they lie: two bits for each genotype."""

import os
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from gpuml.encodings._bits import from_bed, row_blocks, row_bytes, transposed_quarters
from gpuml.encodings.packed import Packed

MAGIC = b"\x6c\x1b"
BY_VARIANT, BY_SAMPLE = b"\x01", b"\x00"
HEADER_BYTES = 3
# Bytes of the file that are turned over at a time.
BLOCK_BYTES = 2**24
SAMPLE_FIELDS = ("fid", "iid", "father", "mother", "sex", "pheno")
VARIANT_FIELDS = ("chromosome", "sid", "cm_position", "bp_position", "allele_1", "allele_2")


def open_bed(path: str | os.PathLike, *, count_A1: bool = True) -> "BedFile":
    r"""Open a .bed file of PLINK 1.9 for reading packed genotypes.

    Only the header and the number of lines of the .fam and .bim files beside it are read; the
    genotypes are memory-mapped.

    Parameters
    ----------
    path : str or path
        The .bed file. ``name.fam`` and ``name.bim`` are beside ``name.bed``.
    count_A1 : bool, default=True
        Whether genotypes count allele A1 (the fifth column of the .bim file), as in bed-reader.
        False counts the other allele.

    Returns
    -------
    bed : BedFile
        A matrix of samples by variants; slices of it are `Packed`.

    Raises
    ------
    FileNotFoundError
        If one of the three files is missing.
    ValueError
        If the file is not a .bed file, stores genotypes sample by sample, or does not have the size
        that follows from its .fam and .bim files.

    References
    ----------
    https://www.cog-genomics.org/plink/1.9/formats#bed

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from gpuml.encodings import open_bed
    >>> folder = tempfile.TemporaryDirectory()
    >>> name = Path(folder.name) / "two.bed"
    >>> _ = name.write_bytes(bytes([0x6C, 0x1B, 0x01, 0b10_00, 0b01_11]))
    >>> _ = name.with_suffix(".fam").write_text("f1 i1 0 0 0 -9\nf2 i2 0 0 0 -9\n")
    >>> _ = name.with_suffix(".bim").write_text("1 rs1 0 1 A C\n1 rs2 0 2 A C\n")
    >>> bed = open_bed(name)
    >>> bed
    BedFile(two.bed, 2 samples, 2 variants)
    >>> bed[:].decode(float)
    array([[ 2.,  0.],
           [ 1., nan]])
    >>> del bed
    >>> folder.cleanup()
    """
    return BedFile(path, count_A1)


class BedFile:
    """Genotypes of a .bed file, samples by variants; made by `open_bed`.

    ``bed[samples]`` and ``bed[samples, variants]`` are `Packed`, with samples as rows.
    ``bed.by_variant[variants]`` and ``bed.by_variant[variants, samples]`` have variants as rows,
    which is the order of the file, so that neighbouring variants are read from one place.
    Codes are 0, 1 and 2 alleles, and 3 where a genotype is missing. As chunks of Dask:
    ``da.from_array(bed.by_variant, chunks=(10_000, -1), asarray=False)``.

    Parameters
    ----------
    path : str or path
    count_A1 : bool, default=True
        As of `open_bed`.

    Attributes
    ----------
    shape : tuple of int
        (samples, variants).
    dtype : numpy.dtype
        uint8: what decoding gives.
    """

    ndim = 2
    dtype = np.dtype(np.uint8)

    def __init__(self, path: str | os.PathLike, count_A1: bool = True):
        self.path = Path(path)
        self.count_A1 = bool(count_A1)
        _check_header(self.path)
        samples = _count_lines(self.path.with_suffix(".fam"))
        variants = _count_lines(self.path.with_suffix(".bim"))
        self.shape = (samples, variants)
        self._bytes = _mapped(self.path, samples, variants)

    @property
    def by_variant(self) -> "ByVariant":
        """The same genotypes, with variants as rows."""
        return ByVariant(self)

    @property
    def size(self) -> int:
        return self.shape[0] * self.shape[1]

    @cached_property
    def samples(self) -> dict[str, np.ndarray]:
        """What the .fam file says: fid, iid, father, mother, sex and pheno, each (samples,)."""
        return self._table(SAMPLE_FIELDS)

    @cached_property
    def variants(self) -> dict[str, np.ndarray]:
        """What the .bim file says, each (variants,).

        chromosome, sid, cm_position, bp_position, allele_1 and allele_2.
        """
        return self._table(VARIANT_FIELDS)

    def _table(self, fields):
        try:
            import bed_reader
        except ImportError as error:
            raise ImportError(
                "Reading tables of samples and variants needs bed-reader. Type: "
                "pip install gpuml[genetics]"
            ) from error
        with bed_reader.open_bed(self.path) as bed:
            return {field: np.asarray(getattr(bed, field)) for field in fields}

    def __len__(self):
        return self.shape[0]

    def __repr__(self):
        return f"BedFile({self.path.name}, {self.shape[0]} samples, {self.shape[1]} variants)"

    def __getitem__(self, key):
        return _read(self._samples_by_variants, key)

    def _samples_by_variants(self, samples, variants):
        """Packed rows of samples, turned over block by block of variants."""
        window, samples = _byte_window(samples, self.shape[0])
        lines = _numbers(variants, self.shape[1])
        n_variants = lines.stop - lines.start if isinstance(lines, slice) else len(lines)
        data = np.zeros((4 * (window.stop - window.start), row_bytes(n_variants, 2)), np.uint8)
        step = max(1, BLOCK_BYTES // max(1, data.shape[0])) * 4
        for start in range(0, n_variants, step):
            stop = min(start + step, n_variants)
            block = from_bed(_lines(self._bytes, lines, start, stop)[:, window], 0, self.count_A1)
            block = np.concatenate([block, np.zeros((-len(block) % 4, block.shape[1]), np.uint8)])
            data[:, start // 4 : -(-stop // 4)] = transposed_quarters(block)
        return Packed(data, n_variants)[samples]

    def _variants_by_samples(self, variants, samples):
        lines = self._bytes[variants]
        data = np.empty(lines.shape, dtype=np.uint8)
        for rows in row_blocks(lines, lines.shape[1]):
            data[rows] = from_bed(lines[rows], self.shape[0], self.count_A1)
        return Packed(data, self.shape[0])[:, samples]

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self[:], dtype=dtype)

    # A pickle is the path: the process that reads it maps the file itself.
    def __reduce__(self):
        return BedFile, (self.path, self.count_A1)


class ByVariant:
    """Genotypes of a .bed file, variants by samples: ``BedFile.by_variant``."""

    ndim = 2
    dtype = np.dtype(np.uint8)

    def __init__(self, bed: BedFile):
        self.bed = bed
        self.shape = bed.shape[::-1]

    def __len__(self):
        return self.shape[0]

    def __repr__(self):
        return f"{self.bed!r}.by_variant"

    def __getitem__(self, key):
        return _read(self.bed._variants_by_samples, key)

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self[:], dtype=dtype)


def _read(read: Callable[..., Packed], key: Any):
    """Packed rows and columns; as of `Packed`, a number takes its dimension away."""
    rows, columns = key if isinstance(key, tuple) else (key, slice(None))
    packed = read(_at_least_one(rows), _at_least_one(columns))
    if not isinstance(rows, int | np.integer) and not isinstance(columns, int | np.integer):
        return packed
    return packed[
        0 if isinstance(rows, int | np.integer) else slice(None),
        0 if isinstance(columns, int | np.integer) else slice(None),
    ]


def _at_least_one(key):
    return [key] if isinstance(key, int | np.integer) else key


def _byte_window(samples, n_samples):
    """Bytes of a line that hold some samples, and those samples among them."""
    if isinstance(samples, slice):
        start, stop, step = samples.indices(n_samples)
        if step == 1:
            stop = max(start, stop)
            first = start // 4
            return slice(first, max(first, -(-stop // 4))), slice(
                start - 4 * first, stop - 4 * first
            )
    chosen = np.arange(n_samples)[samples]
    return slice(0, row_bytes(n_samples, 2)), chosen


def _numbers(variants, n_variants):
    if isinstance(variants, slice) and variants.indices(n_variants)[2] == 1:
        start, stop, _ = variants.indices(n_variants)
        return slice(start, max(start, stop))
    return np.arange(n_variants)[variants]


def _lines(data, lines, start, stop):
    if isinstance(lines, slice):
        return data[lines.start + start : lines.start + stop]
    return data[lines[start:stop]]


def _check_header(path):
    with path.open("rb") as file:
        header = file.read(HEADER_BYTES)
    if header[:2] != MAGIC or len(header) < HEADER_BYTES:
        raise ValueError(f"{path} is not a PLINK 1 .bed file: it begins with {header.hex(' ')!r}.")
    if header[2:] == BY_SAMPLE:
        raise ValueError(
            f"{path} stores genotypes sample by sample, as old PLINK files do. Write it "
            f"again: plink --bfile {path.stem} --make-bed --out {path.stem}_by_variant"
        )
    if header[2:] != BY_VARIANT:
        raise ValueError(f"{path}: byte 3 of a .bed file is 0 or 1, got {header[2]}.")


def _count_lines(path):
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing: it says how many genotypes the .bed file has.")
    with path.open("rb") as file:
        return sum(1 for line in file if line.strip())


def _mapped(path, samples, variants):
    width = row_bytes(samples, 2)
    expected = HEADER_BYTES + variants * width
    size = path.stat().st_size
    if size != expected:
        raise ValueError(
            f"{path} has {size} bytes, but {samples} samples of {path.stem}.fam and {variants} "
            f"variants of {path.stem}.bim take {expected}. It is truncated, or belongs to other "
            "files."
        )
    if variants * width == 0:
        return np.empty((variants, width), dtype=np.uint8)
    return np.memmap(path, np.uint8, mode="r", offset=HEADER_BYTES, shape=(variants, width))

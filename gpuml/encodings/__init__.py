"""Matrices of small codes, several in a byte: genotypes in two bits, and products with them.

`pack` and `unpack` go back and forth; `open_bed` reads PLINK's files without unpacking them.
"""

from gpuml.encodings.bed import BedFile, open_bed
from gpuml.encodings.packed import Packed, pack, unpack

__all__ = ["BedFile", "Packed", "open_bed", "pack", "unpack"]

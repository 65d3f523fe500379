"""Matrices of svd.py: genotypes and dense numbers, on a device, in host memory or in a file."""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import _harness as harness
import numpy as np

from gpuml.encodings import Packed, pack

SEED = 0


@dataclass(frozen=True)
class Task:
    """A matrix: what it is made of, how large it is, and where.

    Attributes
    ----------
    kind : {"packed", "uint8", "float32"}
    device : {"cpu", "cuda"}
        Where it is, or, if `on_host`, where it is worked on.
    missing : float
        Share of genotypes that are missing.
    on_host : {"", "memory", "file"}
        Not on the device.
    folder : str
        For a file.
    """

    kind: str
    rows: int
    columns: int
    device: str
    missing: float = 0.0
    on_host: str = ""
    folder: str = ""

    @property
    def n_bytes(self):
        width = {"packed": -(-self.columns // 4), "uint8": self.columns}
        return self.rows * width.get(self.kind, 4 * self.columns)

    def packed(self, data):
        """Bytes as codes."""
        return Packed(data, self.columns, missing=bool(self.missing))

    @property
    def xp(self):
        if self.device == "cpu":
            return np
        if not harness.has_gpu():
            raise RuntimeError("needs CuPy and a GPU")
        import cupy

        return cupy


# ---------------------------------------------------------------- matrices

# More than components: none of those that are compared is noise.
N_POPULATIONS = 14
# Values made at once.
MAKE_VALUES = {"cpu": 2**24, "cuda": 2**28}


def made(task):
    """The matrix, always the same on the same device."""
    if task.on_host == "file":
        return task.packed(np.load(_saved(task), mmap_mode="r"))
    there = np if task.on_host else task.xp
    data = there.empty(_shape_of(task), dtype=_dtype_of(task))
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        for rows, block in _made_blocks(task):
            if task.on_host:
                _spread(threads, block, data[rows])
            else:
                data[rows] = block
    return task.packed(data) if task.kind == "packed" else data


def _shape_of(task):
    return task.rows, -(-task.columns // 4) if task.kind == "packed" else task.columns


def _dtype_of(task):
    return np.float32 if task.kind == "float32" else np.uint8


def _made_blocks(task):
    """Slices of rows and what is in them; on the host good until the next ones are made."""
    # What streams is made on the GPU too: a CPU would take an hour for 200 GB.
    step = max(1, MAKE_VALUES[task.device] // task.columns)
    fetch = _fetcher() if task.on_host else lambda block: block
    for number, first in enumerate(range(0, task.rows, step)):
        rows = slice(first, min(first + step, task.rows))
        block = block_of(task, number, first, rows.stop - first)
        yield rows, fetch(pack(block).data if task.kind == "packed" else block)


def _fetcher():
    """Copies blocks to one page-locked buffer: pageable memory takes many times as long."""
    buffers = []

    def fetch(block):
        if isinstance(block, np.ndarray):
            return block
        import cupyx

        if not buffers:  # none is larger than the first
            buffers.append(cupyx.empty_pinned(block.shape, dtype=block.dtype))
        return block.get(out=buffers[0][: len(block)])

    return fetch


def _spread(threads, block, out):
    """Copy with all cores: each page of new memory is slow to come by."""
    edges = np.linspace(0, len(block), os.cpu_count() + 1).astype(int)
    list(threads.map(lambda a, b: np.copyto(out[a:b], block[a:b]), edges, edges[1:]))


def _saved(task):
    """Path of a .npy file of it, written block by block."""
    path = Path(task.folder) / f"{task.rows}.npy"
    header = {"descr": "|u1", "fortran_order": False, "shape": _shape_of(task)}
    with open(path, "wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for _, block in _made_blocks(task):
            file.write(np.ascontiguousarray(block))
    return path


def block_of(task, number, first, n_rows):
    """Some rows: genotypes of populations in turn, or a few directions and noise."""
    xp = task.xp
    random = xp.random.default_rng(SEED + 1000 * number)
    if task.kind == "float32":
        return _directions(xp, random, n_rows, task.columns)
    least = [xp.asarray(bounds) for bounds in _bounds(task.columns)]
    member = (xp.arange(n_rows) + first) % N_POPULATIONS
    drawn = _seven_bits(xp, random, n_rows, task.columns)
    counts = sum((drawn < bounds[member]).astype(xp.int8) for bounds in least)
    if task.missing:
        counts[_seven_bits(xp, random, n_rows, task.columns) < 128 * task.missing] = -1
        return counts
    return counts.view(xp.uint8)


def _bounds(n_columns):
    """Of a number below 128: one allele if it is below the first, two if below the second."""
    random = np.random.default_rng(SEED)
    drift = np.geomspace(0.4, 0.25, N_POPULATIONS)[:, None]
    shares = random.uniform(0.1, 0.9, n_columns)
    shares = shares + drift * random.standard_normal((N_POPULATIONS, n_columns))
    shares = np.clip(shares, 0.02, 0.98)
    return [np.round(128 * x).astype(np.uint8) for x in (1 - (1 - shares) ** 2, shares**2)]


def _seven_bits(xp, random, n_rows, n_columns):
    size = n_rows * n_columns
    words = random.integers(0, 2**31 - 1, size=-(-size // 4), dtype=xp.uint32)
    return (words.view(xp.uint8) & 127)[:size].reshape(n_rows, n_columns)


def _directions(xp, random, n_rows, n_columns):
    directions = np.linalg.qr(np.random.default_rng(SEED).normal(size=(n_columns, 20)))[0].T
    scaled = (np.geomspace(20, 2, 20)[:, None] * directions).astype(np.float32)
    rows = random.standard_normal((n_rows, n_columns), dtype=xp.float32)
    rows += 1
    rows += random.standard_normal((n_rows, 20), dtype=xp.float32) @ xp.asarray(scaled)
    return rows

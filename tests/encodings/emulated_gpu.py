"""The kernels of gpuml.encodings on the CPU: their own sources, compiled with emulated_gpu.h."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np

from gpuml.encodings._gpu_source import PARTS, options, source

HERE = Path(__file__).parent
COMPILER = shutil.which("g++")
KERNELS = {"slices": ("column_peaks", "slice")}


class EmulatedGpu:
    """Stands in for gpuml.encodings._gpu_source.Gpu, with NumPy for CuPy.

    Parameters
    ----------
    folder : path
        Where compiled programs go.
    shared_bytes : int
        Shared memory of a block.
    """

    xp = np

    def __init__(self, folder, shared_bytes=99 * 1024, n_processors=2):
        self.folder = folder
        self.shared_bytes = shared_bytes
        self.n_processors = n_processors
        self.launches = []
        self._programs = {}

    @staticmethod
    def address(array):
        return array.ctypes.data

    def launch(self, program, kernel, macros, grid, threads, arguments, shared_bytes=0):
        assert shared_bytes <= self.shared_bytes
        self.launches.append((kernel, dict(macros), grid))
        library = self._program(program, macros)
        grid = (ctypes.c_uint * 3)(*grid, *(1,) * (3 - len(grid)))
        values = [_value(argument) for argument in arguments]
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
        ranges = [np.lib.array_utils.byte_bounds(x) for x in arguments if isinstance(x, np.ndarray)]
        bounds = (ctypes.c_void_p * (2 * len(ranges)))(*sum(ranges, ()))
        getattr(library, f"launch_{kernel}")(grid, threads, bounds, len(ranges), pointers)

    def _program(self, program, macros):
        key = program, macros
        if key not in self._programs:
            path = self.folder / f"program{len(self._programs)}"
            kernels = KERNELS.get(program, (program,))
            emulated = tuple(name for name in PARTS[program] if name == "instructions.cuh")
            path.with_suffix(".cpp").write_text(
                '#include "emulated_gpu.h"\n'
                + source(program, without=emulated).replace("extern __shared__", "// shared:")
                + "".join(f"\nLAUNCHER({kernel})" for kernel in kernels)
                + "\n"
            )
            command = [COMPILER, *options(macros), "-O0", "-w", f"-I{HERE}", "-shared", "-fPIC"]
            command += ["-o", f"{path}.so", f"{path}.cpp"]
            subprocess.run(command, check=True)
            self._programs[key] = ctypes.CDLL(f"{path}.so")
        return self._programs[key]


def _value(argument):
    """An argument as ctypes: the address of an array, or a number."""
    if isinstance(argument, np.ndarray):
        return ctypes.c_void_p(argument.ctypes.data)
    return {np.dtype(np.int32): ctypes.c_int32, np.dtype(np.int64): ctypes.c_int64}[argument.dtype](
        int(argument)
    )

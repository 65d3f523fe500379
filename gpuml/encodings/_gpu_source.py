"""The CUDA sources of the products, put together and compiled once for each set of macros."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from gpuml._arrays import gpus

FOLDER = Path(__file__).parent / "cuda"
# NVRTC gets one text, so the parts need no #include.
PARTS = {
    "forward": ("instructions.cuh", "codes.cuh", "tiles.cuh", "forward.cu"),
    "backward": ("instructions.cuh", "codes.cuh", "tiles.cuh", "backward.cu"),
    "counts": ("instructions.cuh", "codes.cuh", "counts.cu"),
    "slices": ("instructions.cuh", "slices.cu"),
}
# The tensor-core instruction for unsigned times signed bytes.
OLDEST_CAPABILITY = 80

Macros = tuple[tuple[str, Any], ...]


def source(program: str, without: tuple[str, ...] = ()) -> str:
    """Text of a program, a key of `PARTS`; `without` names parts that the caller replaces."""
    parts = [name for name in PARTS[program] if name not in without]
    return "\n".join((FOLDER / name).read_text(encoding="utf-8") for name in parts)


def options(macros: Macros) -> tuple[str, ...]:
    """Options of a compiler for macros."""
    return ("-std=c++17", *(f"-D{name}={value}" for name, value in macros))


@cache
def _kernel(device, program, kernel, macros, shared_bytes):
    """A kernel for the current device, whose number is part of the key: limits are set on it."""
    import cupy

    capability = gpus.capability(device)
    if capability < OLDEST_CAPABILITY:
        raise RuntimeError(
            "Products with packed codes need a GPU of compute capability 8.0 or later; this one "
            f"has {capability / 10}. Move the codes to CPU memory with to_host()."
        )
    module = cupy.RawModule(code=source(program), options=options(macros))
    function = module.get_function(kernel)
    if shared_bytes > 48 * 1024:  # more than that has to be asked for
        function.max_dynamic_shared_size_bytes = shared_bytes
    return function


class Gpu:
    """The current CUDA device: what its limits are, and launches on its current stream."""

    def __init__(self):
        import cupy

        device = cupy.cuda.Device()
        self.xp = cupy
        self.id = device.id
        self.shared_bytes = device.attributes["MaxSharedMemoryPerBlockOptin"]
        self.n_processors = device.attributes["MultiProcessorCount"]

    def launch(
        self,
        program: str,
        kernel: str,
        macros: Macros,
        grid: tuple[int, ...],
        threads: int,
        arguments: tuple,
        shared_bytes: int = 0,
    ) -> None:
        """Start a kernel; `arguments` are arrays and NumPy scalars of the kernel's own types."""
        function = _kernel(self.id, program, kernel, macros, shared_bytes)
        function(grid, (threads,), arguments, shared_mem=shared_bytes)

    @staticmethod
    def address(array: Any) -> int:
        """Where the first element of an array is."""
        return array.data.ptr


@cache
def _gpu(device):
    return Gpu()


@contextmanager
def gpu_of(array: Any, gpu: Gpu | None = None) -> Iterator[Gpu]:
    """Make the device of an array the current one, unless the caller brings another `gpu`."""
    if gpu is not None:
        yield gpu
        return
    with array.device:
        yield _gpu(array.device.id)

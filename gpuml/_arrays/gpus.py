"""What kernels need to know of a GPU, and how C names dtypes."""

from functools import cache
from typing import Any

# Names of dtypes in CUDA C++.
C_NAMES = {
    "float32": "float",
    "float64": "double",
    "bool": "bool",
    "uint8": "unsigned char",
    "int8": "signed char",
    "int16": "short",
    "int32": "int",
    "int64": "long long",
}

# Of numbers that kernels multiply.
FLOATS = ("float32", "float64")


@cache
def properties(device: int) -> dict[str, Any]:
    """CUDA's properties of the GPU with this number."""
    import cupy

    return cupy.cuda.runtime.getDeviceProperties(device)


def capability(device: int) -> int:
    """Its compute capability, such as 90 for 9.0."""
    known = properties(device)
    return 10 * known["major"] + known["minor"]


@cache
def elementwise(inputs: str, output: str, code: str, name: str) -> Any:
    """A kernel that computes one array from others, which it broadcasts, in one launch."""
    import cupy

    return cupy.ElementwiseKernel(inputs, output, code, name)

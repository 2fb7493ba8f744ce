"""CUDA C++ compiled while a program runs: NVRTC, the cache of what it made, and launching.

Reading order: `nvrtc` (source to machine code, needs no device), `cache`, `driver` (loading and launching through the
driver), `arch` (what to compile for), `kernel` (all of it behind one object), `faults` (what kernels found wrong in
their data), `sources` (the parts that kernels are written with). It does not depend on operators or CuPy.
"""

from __future__ import annotations

from ort_py_cuda.code.kernel import Kernel
from ort_py_cuda.code.nvrtc import NvrtcError, compile  # noqa: A004 - no code here compiles Python

__all__ = ["Kernel", "NvrtcError", "compile"]

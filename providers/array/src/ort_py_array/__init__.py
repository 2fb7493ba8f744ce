"""The operator library: ONNX kernels written once over an array module `xp` that is NumPy or CuPy.

A provider derives from `ArrayModuleProvider` and has every operator; or it gives `LibraryKernels` as its registry, or
takes single kernels from it, and gives each kernel its array module through its context. This package knows no engine
and no device; it names NumPy itself only for results that belong on the host. Importing it costs nothing: modules of
kernels are imported by need, see `families`.
"""

from ort_py_array.library import LibraryKernels, kernel_defs
from ort_py_array.provider import ArrayModuleProvider

__all__ = ["ArrayModuleProvider", "LibraryKernels", "kernel_defs"]

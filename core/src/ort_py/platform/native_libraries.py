"""Table of native libraries that have threads of their own, and of their functions for the number of them.

Data only: `native_threads` looks for these names in libraries that are loaded already.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FAMILIES", "NativeFamily"]


@dataclass(frozen=True, slots=True)
class NativeFamily:
    """Builds of one library.

    Attributes:
        name: What users call it.
        files: Words of which one is in the name of the library's file, in lower case.
        functions: Names (set, get), tried in order: builds put prefixes and suffixes on them.
        per_thread: Whether the number belongs to the calling thread, not to the process.
    """

    name: str
    files: tuple[str, ...]
    functions: tuple[tuple[str, str], ...]
    per_thread: bool = False


FAMILIES = (
    NativeFamily(
        "OpenBLAS",
        # Distributions also load it under the names of the reference libraries.
        ("openblas", "libblas", "libcblas"),
        tuple(
            (f"{prefix}openblas_set_num_threads{suffix}", f"{prefix}openblas_get_num_threads{suffix}")
            for prefix in ("", "scipy_")
            for suffix in ("", "64_", "_64", "_64_")
        ),
    ),
    NativeFamily("MKL", ("mkl_rt",), (("MKL_Set_Num_Threads", "MKL_Get_Max_Threads"),)),
    NativeFamily("BLIS", ("blis",), (("bli_thread_set_num_threads", "bli_thread_get_num_threads"),)),
    NativeFamily(
        "OpenMP",
        ("libgomp", "libomp", "libiomp", "vcomp"),
        (("omp_set_num_threads", "omp_get_max_threads"),),
        per_thread=True,
    ),
)

"""Native libraries with threads of their own (BLAS, OpenMP): a table of them, and those that this process has loaded.

This is the one module that asks dynamic loaders, with a function for each system. It never loads a library. Where a
system does not tell what is loaded, no library is found. `native_threads` sets their numbers of threads.
"""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Any

from ort_py.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class NativeFamily:
    """Builds of one library.

    Attributes:
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


@dataclass(frozen=True, slots=True)
class NativeLibrary:
    """A loaded library.

    Attributes:
        set: Sets its number of threads.
    """

    family: NativeFamily
    file: str
    set: Any
    get: Any


def find_libraries(paths: list[str] | None = None) -> list[NativeLibrary]:
    """Find the libraries of the table that this process has loaded."""
    found = []
    for path in _loaded_libraries() if paths is None else paths:
        file = os.path.basename(path)
        for family in FAMILIES:
            if any(word in file.lower() for word in family.files):
                library = _library(family, file, path)
                if library is not None:
                    found.append(library)
    return found


def _library(family: NativeFamily, file: str, path: str) -> NativeLibrary | None:
    try:
        handle = _opened(path)
    except OSError:  # unloaded meanwhile, or a file that was replaced
        return None
    for set_name, get_name in family.functions:
        setter, getter = getattr(handle, set_name, None), getattr(handle, get_name, None)
        if setter is not None and getter is not None:
            # As wide as the widest build has it: what takes less reads the lower half.
            setter.restype, setter.argtypes = None, (ctypes.c_ssize_t,)
            return NativeLibrary(family, file, setter, getter)
    return None


def _loaded_libraries() -> list[str]:
    try:
        if sys.platform == "win32":
            return _on_windows()
        return _on_macos() if sys.platform == "darwin" else _on_linux()
    except (OSError, AttributeError):  # no such file or function: a system that does not tell
        return []


def _opened(path: str) -> Any:
    """A handle of a library that is loaded, whose functions keep the interpreter's lock: they only set a number."""
    if sys.platform == "win32":
        kernel = ctypes.WinDLL("kernel32")
        kernel.GetModuleHandleW.restype = ctypes.c_void_p
        handle = kernel.GetModuleHandleW(ctypes.c_wchar_p(path))
        if not handle:
            raise OSError(f"{path} is not loaded")
        return ctypes.PyDLL(path, handle=handle)
    return ctypes.PyDLL(path, mode=getattr(os, "RTLD_NOLOAD", 0) | getattr(os, "RTLD_NOW", 0))


def _on_linux(maps: str | os.PathLike[str] = "/proc/self/maps") -> list[str]:
    """Read the table of mapped files, whose sixth column is a path."""
    with open(maps, "rb") as file:
        lines = file.read().splitlines()
    paths = [line.split(maxsplit=5)[5:] for line in lines if b".so" in line]
    return list(dict.fromkeys(os.fsdecode(path[0]) for path in paths if path and b".so" in path[0]))


def _on_macos() -> list[str]:
    """Read the list of images of the dynamic loader."""
    loader = ctypes.CDLL(None)
    count, name = loader["_dyld_image_count"], loader["_dyld_get_image_name"]
    count.restype, name.restype = ctypes.c_uint32, ctypes.c_char_p
    names = (name(ctypes.c_uint32(index)) for index in range(count()))
    return [os.fsdecode(found) for found in names if found]


def _on_windows() -> list[str]:
    """Read the list of modules of the process."""
    kernel: Any = getattr(ctypes, "WinDLL")("kernel32")  # noqa: B009 - only there on that system
    process = ctypes.c_void_p(-1)  # the process itself
    modules, needed = (ctypes.c_void_p * 4096)(), ctypes.c_uint32()
    size = ctypes.c_uint32(ctypes.sizeof(modules))
    if not kernel.K32EnumProcessModules(process, modules, size, ctypes.byref(needed)):
        return []
    buffer = ctypes.create_unicode_buffer(32768)
    return [
        buffer.value
        for module in modules[: needed.value // ctypes.sizeof(ctypes.c_void_p)]
        if kernel.GetModuleFileNameW(ctypes.c_void_p(module), buffer, ctypes.c_uint32(len(buffer)))
    ]

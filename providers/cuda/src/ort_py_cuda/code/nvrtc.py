"""NVRTC by ctypes: CUDA C++ to a cubin or to PTX. Needs the library, no driver and no device.

It does not depend on what is compiled or on who keeps it. Comes before `cache` and `kernel`. The caller's text is the
whole program; headers of the CUDA runtime's wheel (``cuda_fp16.h``, ``cuda_bf16.h``) are on its path where that is
installed.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_void_p, create_string_buffer
from functools import cache
from typing import Any

from ort_py.errors import EPFail
from ort_py_cuda import libraries

__all__ = ["NvrtcError", "architectures", "compile", "version"]

_SUCCESS = 0
_COMPILATION = 6

_SIGNATURES: dict[str, list[Any]] = {
    "nvrtcVersion": [POINTER(c_int), POINTER(c_int)],
    "nvrtcGetNumSupportedArchs": [POINTER(c_int)],
    "nvrtcGetSupportedArchs": [POINTER(c_int)],
    "nvrtcCreateProgram": [POINTER(c_void_p), c_char_p, c_char_p, c_int, c_void_p, c_void_p],
    "nvrtcDestroyProgram": [POINTER(c_void_p)],
    "nvrtcCompileProgram": [c_void_p, c_int, POINTER(c_char_p)],
    "nvrtcGetProgramLogSize": [c_void_p, POINTER(c_size_t)],
    "nvrtcGetProgramLog": [c_void_p, c_void_p],
    "nvrtcGetCUBINSize": [c_void_p, POINTER(c_size_t)],
    "nvrtcGetCUBIN": [c_void_p, c_void_p],
    "nvrtcGetPTXSize": [c_void_p, POINTER(c_size_t)],
    "nvrtcGetPTX": [c_void_p, c_void_p],
}


class NvrtcError(EPFail):
    """NVRTC refused a program, or failed.

    Attributes:
        log: What the compiler wrote; empty where it did not come to that.
    """

    log: str = ""


def compile(  # noqa: A001 - the module's one verb; no code here compiles Python
    source: str, *, name: str, arch: str, options: Sequence[str] = ()
) -> bytes:
    """Machine code of a program.

    Args:
        source: CUDA C++; kernels are ``extern "C" __global__``.
        name: What the compiler calls the program in messages; also for ours.
        arch: ``sm_90`` for a cubin of that architecture, ``compute_90`` for PTX that newer ones can load too.
        options: Further options of NVRTC, e.g. ``--fmad=false``.

    Raises:
        NvrtcError: The program has errors; the message has the compiler's log.
        EPFail: The library is not installed.
    """
    library = _library()
    program = c_void_p()
    _check(
        library.nvrtcCreateProgram(byref(program), source.encode(), f"{name}.cu".encode(), 0, None, None),
        "nvrtcCreateProgram",
        name,
    )
    try:
        given = [f"--gpu-architecture={arch}", "--std=c++17", *_include_options(), *options]
        texts = (c_char_p * len(given))(*(option.encode() for option in given))
        status = library.nvrtcCompileProgram(program, len(given), texts)
        if status != _SUCCESS:
            raise _refused(status, _log(library, program), name, arch)
        what = "CUBIN" if arch.startswith("sm_") else "PTX"
        return _output(library, program, what, name)
    finally:
        library.nvrtcDestroyProgram(byref(program))


@cache
def version() -> tuple[int, int]:
    """Version of the library: (major, minor) of the CUDA toolkit it belongs to."""
    major, minor = c_int(), c_int()
    _check(_library().nvrtcVersion(byref(major), byref(minor)), "nvrtcVersion", "")
    return major.value, minor.value


@cache
def architectures() -> tuple[int, ...]:
    """Architectures that the library compiles for, in ascending order: 75, 80, …"""
    count = c_int()
    _check(_library().nvrtcGetNumSupportedArchs(byref(count)), "nvrtcGetNumSupportedArchs", "")
    found = (c_int * count.value)()
    _check(_library().nvrtcGetSupportedArchs(found), "nvrtcGetSupportedArchs", "")
    return tuple(sorted(found))


@cache
def _library() -> ctypes.CDLL:
    library = libraries.load("nvrtc")
    for function, arguments in _SIGNATURES.items():
        found = getattr(library, function)
        found.argtypes = arguments
        found.restype = c_int
    library.nvrtcGetErrorString.argtypes = [c_int]
    library.nvrtcGetErrorString.restype = c_char_p
    return library


@cache
def _include_options() -> tuple[str, ...]:
    return tuple(f"--include-path={folder}" for folder in libraries.include_folders())


def _output(library: ctypes.CDLL, program: c_void_p, what: str, name: str) -> bytes:
    size = c_size_t()
    _check(getattr(library, f"nvrtcGet{what}Size")(program, byref(size)), f"nvrtcGet{what}Size", name)
    buffer = create_string_buffer(size.value)
    _check(getattr(library, f"nvrtcGet{what}")(program, buffer), f"nvrtcGet{what}", name)
    return buffer.raw


def _log(library: ctypes.CDLL, program: c_void_p) -> str:
    size = c_size_t()
    if library.nvrtcGetProgramLogSize(program, byref(size)) != _SUCCESS or not size.value:
        return ""
    buffer = create_string_buffer(size.value)
    if library.nvrtcGetProgramLog(program, buffer) != _SUCCESS:
        return ""
    return buffer.value.decode(errors="replace").strip()


def _check(status: int, call: str, name: str) -> None:
    if status == _SUCCESS:
        return
    text = _library().nvrtcGetErrorString(status)
    raise NvrtcError(
        f"{call} failed with {status} ({text.decode() if text else 'no text'}).",
        where=name,
        fix="Reinstall the wheel of NVRTC; both files of it, libnvrtc and libnvrtc-builtins, are needed.",
    )


def _refused(status: int, log: str, name: str, arch: str) -> NvrtcError:
    text = _library().nvrtcGetErrorString(status)
    known = "the program has errors" if status == _COMPILATION else text.decode() if text else str(status)
    error = NvrtcError(
        f"NVRTC did not compile '{name}' for {arch}: {known}.",
        where=name,
        why=log,
        fix="Report it with this log; where the architecture is refused, install an NVRTC that knows it.",
    )
    error.log = log
    return error

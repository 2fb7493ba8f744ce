"""Exceptions of the library become a status for all arguments, and the process continues."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ort_py_onednn.binding import exceptions, structured_exceptions
from ort_py_onednn.binding._dnnl import ffi
from ort_py_onednn.binding.constants import Status
from ort_py_onednn.binding.engine import engine
from ort_py_onednn.binding.exceptions import Guarded, guarded
from ort_py_onednn.binding.library import find, open_library
from ort_py_onednn.binding.windows import WINDOWS

_RUNTIME, _BAD_ALLOC, _LENGTH_ERROR = (
    ("msvcp140.dll", "?_Xbad_alloc@std@@YAXXZ", "?_Xlength_error@std@@YAXPEBD@Z")
    if WINDOWS
    else ("libstdc++.so.6", "_ZSt17__throw_bad_allocv", "_ZSt20__throw_length_errorPKc")
)
"""A C++ runtime, and functions of it that throw."""


def _thrower(name: str, kind: str) -> Any:
    find()  # on Windows it opens the runtime from where it is
    return ffi.cast(kind, ctypes.cast(getattr(ctypes.CDLL(_RUNTIME), name), ctypes.c_void_p).value)


class _Functions:
    """Stands for the library: only what begins with its name is guarded."""

    dnnl_none = _thrower(_BAD_ALLOC, "int(*)(void)")
    dnnl_many = _thrower(_BAD_ALLOC, f"int(*)({', '.join(['int'] * 17)})")
    dnnl_other = _thrower(_LENGTH_ERROR, "int(*)(char *)")
    dnnl_version = _thrower(_BAD_ALLOC, "int(*)(void)")

    def __init__(self) -> None:
        def weighed(*given: float) -> int:
            return int(sum((place + 1) * one for place, one in enumerate(given)))

        kinds = ["int"] * 6 + ["float", "float"] + ["int"] * 9
        self.dnnl_few_weighed = ffi.callback("int(int, int, float)", weighed)
        self.dnnl_weighed = ffi.callback(f"int({', '.join(kinds)})", weighed)


@pytest.fixture(scope="module")
def functions() -> Any:
    """Functions that throw, guarded."""
    made = guarded(_Functions())
    assert isinstance(made, Guarded)
    return made


def test_no_memory_is_a_status(functions: Any) -> None:
    """Again and again, with arguments in registers or on the stack."""
    for _ in range(3):
        assert functions.dnnl_none() == Status.OUT_OF_MEMORY
        assert functions.dnnl_many(*range(17)) == Status.OUT_OF_MEMORY


def test_another_exception_is_another_status(functions: Any) -> None:
    assert functions.dnnl_other(ffi.new("char[]", b"why")) == Status.RUNTIME_ERROR


def test_arguments_and_results_go_through(functions: Any) -> None:
    """Numbers of both kinds, more than there are registers."""
    assert functions.dnnl_few_weighed(1, 2, 3.0) == 14
    given = [3, 1, 4, 1, 5, 9, 2.0, 6.0, 5, 3, 5, 8, 9, 7, 9, 3, 2]
    assert functions.dnnl_weighed(*given) == sum((place + 1) * one for place, one in enumerate(given))


def test_the_engine_uses_it() -> None:
    """All functions that return a status, also where their addresses are called without the interpreter."""
    c, raw = engine().c, open_library().c
    assert c.dnnl_primitive_execute != raw.dnnl_primitive_execute
    assert ffi.typeof(c.dnnl_primitive_execute) is ffi.typeof(raw.dnnl_primitive_execute)
    assert c.dnnl_memory_desc_get_size == raw.dnnl_memory_desc_get_size
    assert c.omp_set_num_threads == raw.omp_set_num_threads


def test_functions_are_as_they_were_without_executable_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exceptions, "executable", lambda _: 0)
    monkeypatch.setattr(structured_exceptions, "placed", lambda *_: 0)
    raw = _Functions()
    assert guarded(raw) is raw


_CHILD = """
import faulthandler, resource, sys
from ort_py_onednn.binding import primitives
from ort_py_onednn.binding.constants import Argument, Element, Eltwise
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.primitive import Function

faulthandler.enable()
faulthandler.dump_traceback_later(120, exit=True)

def made(size):
    "Code of several kinds, for sizes that none was made for before."
    picture, whole = Desc.plain((1, size, 24, 24)), Desc.any((1, size, 24, 24))
    weights, matrix = Desc.any((size, size, 3, 3)), Desc.plain((size, size))
    geometry = (1, 1), (1, 1), (1, 1), (1, 1)
    found = [
        primitives.convolution(whole, weights, None, whole, geometry, (Function(Eltwise.GELU_ERF),)),
        primitives.matmul(matrix, Desc.any((size, size)), None, matrix),
        primitives.softmax(matrix, matrix, 1),
        primitives.eltwise(Function(Eltwise.TANH), picture, picture),
    ]
    found.append(primitives.reorder(picture, found[0].arguments[Argument.SRC]))
    for one in found:
        assert one.handle
    return found

kept = made(8)
failed = 0
for number, room in enumerate(map(int, sys.argv[1:])):
    size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + room * 1024, resource.RLIM_INFINITY))
    try:
        kept += made(16 + 8 * number)
    except MemoryError:
        failed += 1
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
for number in range(len(sys.argv) - 1):
    made(16 + 8 * number)
print("failed", failed)
"""


@pytest.mark.skipif(WINDOWS, reason="Windows limits no process's address space")
def test_short_memory_ends_no_process(tmp_path: Path) -> None:
    """In little memory primitives are made, or an error says why not; and with memory again they are made."""
    program = tmp_path / "child.py"
    program.write_text(_CHILD)
    rooms = [str(16 * step) for step in range(20)] + [str(1024 * step) for step in range(1, 33)]
    found = subprocess.run(
        [sys.executable, str(program), *rooms],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    assert found.returncode == 0, found.stderr[-2000:]
    assert int(found.stdout.split()[-1]) > 0

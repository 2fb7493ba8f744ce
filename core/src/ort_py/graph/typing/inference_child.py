"""The process that runs ONNX's shape inference for `isolated_inference`: a script, never imported by the package.

It loads nothing but the extension module of ``onnx``, so that it starts in a few hundredths of a second: importing
``typing`` or ``contextlib`` takes as long as the interpreter's own start. A request on standard input is a header
(`REQUEST`: bytes of the model, strict or not, seconds it may take) and the model; the answer on standard output is a
header (`ANSWER`: kind, bytes) and the model with types, or the text of what was raised. It ends when its standard input
is closed, when a request takes too long, and when the model crashes it.
"""

from __future__ import annotations

import faulthandler
import struct
import sys
from importlib.machinery import ExtensionFileLoader, ModuleSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

REQUEST = struct.Struct("<Q?d")
ANSWER = struct.Struct("<BQ")
FOUND, CONTRADICTION, FAILED = range(3)

_ADDRESS_SPACE = 8 << 30
"""Bytes of address space: inference of the largest model that protobuf can hold takes half of it."""


def serve(path: str) -> None:
    """Answer requests until there are no more."""
    try:
        import resource  # POSIX only

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE, _ADDRESS_SPACE))
    except (ImportError, ValueError, OSError):  # no such limit, or a lower one is in force
        pass
    native = _load(path).shape_inference
    source, target = sys.stdin.buffer, sys.stdout.buffer
    while len(header := source.read(REQUEST.size)) == REQUEST.size:
        size, strict, seconds = REQUEST.unpack(header)
        data = source.read(size)
        if seconds > 0:
            faulthandler.dump_traceback_later(seconds, exit=True)  # a thread in C: inference keeps the interpreter
        try:
            kind, result = FOUND, native.infer_shapes(data, False, strict, False)
        except native.InferenceError as error:
            kind, result = CONTRADICTION, str(error).encode("utf-8", "replace")
        except Exception as error:  # it raises many types
            kind, result = FAILED, str(error).encode("utf-8", "replace")
        finally:
            faulthandler.cancel_dump_traceback_later()
        target.write(ANSWER.pack(kind, len(result)))
        target.write(result)
        target.flush()


def _load(path: str) -> Any:
    """The extension module without the package around it, which would import NumPy and protobuf."""
    if sys.platform == "win32":
        import os

        libraries = f"{os.path.dirname(path)}.libs"
        if os.path.isdir(libraries):
            os.add_dll_directory(libraries)  # as the package does
    name = "onnx_cpp2py_export"
    loader = ExtensionFileLoader(name, path)
    module = loader.create_module(ModuleSpec(name, loader, origin=path))
    loader.exec_module(module)
    return module


if __name__ == "__main__":
    serve(sys.argv[1])

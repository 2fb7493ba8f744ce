"""Operators that the installed onnx defines, each in its versions, and the newest opset of each domain.

onnx keeps this in its native library, which fills the table of all operators when it is first asked for one: 12 ms and
8 MiB in each process. So a process writes what is asked about operators into a file beside the bytecode of this
package, and later ones read the operators that they need from there. The file counts for the library that it was made
from, which its place, size and time identify. Without it the library is asked, as it is for the domains of operators
that a program has registered there. `ort_py.onnx_operator_records` asks it, and writes the file.

A leaf: it knows what onnx says, and nothing of models.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from functools import cache, partial
from mmap import mmap
from typing import Any

from ort_py.bytecode import write_later
from ort_py.light_tuple import NamedTuple
from ort_py.mapped_parts import UNREADABLE, Part, open_parts, read_part
from ort_py.onnx_parts import is_native_loaded, native_file

__all__ = ["Operator", "Parameter", "defined", "find", "ir_version", "newest_opsets"]

FORMAT = 4
"""Raised whenever the fields of the records change."""


class Parameter(NamedTuple):
    """A formal input or output.

    Attributes:
        type: A type, or the name of a type variable.
        only: The only type that is allowed; ``""`` where there are several.
        variadic: Whether it stands for any number of values, being the last.
        homogeneous: Whether all values that it stands for have one type.
        min_count: Values that a variadic one stands for at least.
    """

    name: str
    type: str
    only: str
    optional: bool
    variadic: bool
    homogeneous: bool
    min_count: int


class Operator(NamedTuple):
    """One version of an operator. All members are plain data.

    Attributes:
        deprecated: Whether it must not be used from this version on.
        has_inference: Whether onnx has a function for the types of its outputs.
        has_function: As ``OpSchema.has_function``.
        has_body: Whether onnx defines it by other operators, perhaps depending on its types.
        deterministic: Whether equal inputs give equal outputs.
        max_inputs, max_outputs: Counts; None where any number is allowed.
        attributes: Name, kind, number of the kind, whether it is required, and the default: None, a number, a text, a
            tuple of them, or the bytes of an ``AttributeProto`` with a tensor.
        types: Allowed types of each type variable.
    """

    op_type: str
    domain: str
    since_version: int
    deprecated: bool
    has_inference: bool
    has_function: bool
    has_body: bool
    deterministic: bool
    max_inputs: int | None
    max_outputs: int | None
    inputs: tuple[Parameter, ...]
    outputs: tuple[Parameter, ...]
    attributes: tuple[tuple[str, str, int, bool, Any], ...]
    types: tuple[tuple[str, tuple[str, ...]], ...]


class OperatorFile:
    """The file with all operators.

    Args:
        path: The file. One that is absent, damaged, or made from another library has no operators.
        library: What tells the library; see `library_key`.
    """

    def __init__(self, path: str, library: tuple[object, ...]) -> None:
        self.path, self.library = path, library
        self.opsets: dict[str, int] | None = None
        self.ir_version = 0
        self._places: dict[tuple[str, str], Part] = {}
        self._content: mmap | bytes = b""
        try:
            content, (made_from, version, opsets, places) = open_parts(path, FORMAT)
        except UNREADABLE:
            return
        if made_from == library:
            self.ir_version, self.opsets, self._places, self._content = version, opsets, places, content

    @property
    def is_present(self) -> bool:
        return self.opsets is not None

    def versions(self, op_type: str, domain: str) -> list[Operator] | None:
        """The versions of an operator, oldest first; None where the file is damaged."""
        place = self._places.get((domain, op_type))
        if place is None:
            return []
        try:
            read = read_part(self._content, place)
        except UNREADABLE:
            return None
        return [_restored(one) for one in read]


def _restored(fields: tuple[Any, ...]) -> Operator:
    found = Operator(*fields)
    sides = [tuple([Parameter(*one) for one in side]) for side in (found.inputs, found.outputs)]
    return found._replace(inputs=sides[0], outputs=sides[1])


@cache
def _file() -> OperatorFile | None:
    """The file of this process; None where the interpreter keeps no bytecode, or the library is not found."""
    package = getattr(sys.modules.get("ort_py"), "__spec__", None)
    library = library_key()
    if package is None or not package.cached or library is None:
        return None
    folder, name = os.path.split(package.cached)
    file = OperatorFile(os.path.join(folder, name.replace("__init__", "operators", 1) + "s"), library)
    if not file.is_present:
        write_later(partial(_write, file))
    return file


def _write(file: OperatorFile) -> None:
    from ort_py.onnx_operator_records import write_operators  # most processes write nothing

    write_operators(file.path, file.library)


def library_key() -> tuple[object, ...] | None:
    """Place, size and time of the native library, which tell it from another one."""
    path = native_file()
    if path is None:
        return None
    try:
        status = os.stat(path)
    except OSError:
        return None
    return (path, status.st_size, status.st_mtime_ns)


@cache
def _versions(op_type: str, domain: str) -> tuple[Operator, ...]:
    file = _file()
    found = None
    if file is not None and file.opsets is not None and (domain in file.opsets or not is_native_loaded()):
        found = file.versions(op_type, domain)
    if found is None:
        from ort_py.onnx_operator_records import versions_of  # later processes read them from the file

        found = versions_of(op_type, domain)
    return tuple(found)


@cache
def find(op_type: str, domain: str, opset: int) -> Operator | None:
    """The version of an operator that is in force at an opset, a deprecated one included; None if there is none."""
    return next((one for one in reversed(_versions(op_type, domain)) if one.since_version <= opset), None)


def defined(op_type: str, domain: str = "") -> bool:
    """Return whether onnx defines an operator, in whatever version."""
    return bool(_versions(op_type, domain))


@cache
def newest_opsets() -> Mapping[str, int]:
    """Domains that the installed onnx defines, each with its newest opset."""
    file = _file()
    if file is not None and file.opsets is not None and not is_native_loaded():
        return file.opsets
    from ort_py.onnx_operator_records import opsets_of_library

    return opsets_of_library()


@cache
def ir_version() -> int:
    """The newest version of ONNX's format that the installed onnx knows."""
    file = _file()
    if file is not None and file.is_present:
        return file.ir_version
    from ort_py.onnx_operator_records import ir_version_of_messages

    return ir_version_of_messages()

"""A region as a program of coremltools' intermediate language (MIL)."""

from __future__ import annotations

from typing import Any

from coremltools.converters.mil import Builder
from coremltools.converters.mil.mil import Function, Placeholder, Program, get_new_symbol, types

from ort_py.contracts import RegionView
from ort_py.lazy_dataclass import dataclass
from ort_py_coreml.lowering import Signature, results_of, signature_of
from ort_py_coreml.toolkit import BUILDING, TARGET, TARGETS

__all__ = ["RegionProgram", "program_of"]


@dataclass(frozen=True, slots=True)
class RegionProgram:
    """A region as an ML program.

    Attributes:
        program: The program of coremltools, with a function `main`.
        signature: The inputs and outputs of this function.
        target: The version of Core ML that it is written for.
    """

    program: Any
    signature: Signature
    target: Any = TARGET


def program_of(region: RegionView, *, named: bool = False, system: str = "macOS14") -> RegionProgram:
    """Write a region as an ML program.

    Args:
        region: A region none of whose nodes `operators.refusal` refuses.
        named: As for `signature_of`.
        system: A value of the option `deployment_target`.

    Raises:
        ValueError: coremltools refuses an operator.
    """
    signature, target = signature_of(region, named=named), TARGETS[system]
    with BUILDING:
        symbols: dict[str, Any] = {}
        inputs = {
            name: Placeholder(
                tuple(dim if isinstance(dim, int) else symbols.setdefault(dim, get_new_symbol()) for dim in shape),
                dtype=types.fp32 if kind == "float32" else types.int32,
            )
            for name, shape, kind in zip(signature.names, signature.shapes, signature.types, strict=True)
        }
        program = Program()
        with Function(inputs, opset_version=target) as function:
            given = [function.inputs[name] for name in signature.names]
            function.set_outputs(results_of(Builder, region, given, signature.outputs))
            program.add_function("main", function)
    return RegionProgram(program, signature, target)

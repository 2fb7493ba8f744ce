"""A region as a program of coremltools' intermediate language (MIL)."""

from __future__ import annotations

from typing import Any

import numpy as np
from coremltools.converters.mil import Builder
from coremltools.converters.mil.mil import Function, Placeholder, Program, get_new_symbol, types

from ort_py.contracts import RegionView
from ort_py.lazy_dataclass import dataclass
from ort_py_coreml.lowering import Signature, results_of, signature_of
from ort_py_coreml.toolkit import BUILDING, TARGET, TARGETS

__all__ = ["RegionProgram", "program_of"]


Array = np.ndarray[Any, Any]


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


class _Functions:
    """The functions of MIL, which are those of coremltools' builder."""

    def __getattr__(self, name: str) -> Any:
        return getattr(Builder, name)

    def constexpr_blockwise_shift_scale(self, data: Array, scale: Array, offset: Array) -> Any:
        """Take numbers of 4 bits as NumPy has them: coremltools has bytes whose type says what they hold."""
        kind = {"int4": types.np_int4_dtype, "uint4": types.np_uint4_dtype}.get(data.dtype.name, data.dtype)
        return Builder.constexpr_blockwise_shift_scale(data=data.astype(kind), scale=scale, offset=offset.astype(kind))


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
            function.set_outputs(results_of(_Functions(), region, given, signature.outputs))
            program.add_function("main", function)
    return RegionProgram(program, signature, target)

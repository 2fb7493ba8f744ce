"""A region as a program of coremltools' intermediate language (MIL)."""

from __future__ import annotations

from typing import Any

import numpy as np
from coremltools.converters.mil import Builder
from coremltools.converters.mil.mil import Function, Placeholder, Program, get_new_symbol, types
from coremltools.converters.mil.mil.program import StateTensorPlaceholder

from ort_py.contracts import RegionView
from ort_py.lazy_dataclass import dataclass
from ort_py_coreml.lowering import Signature, results_of, signature_of
from ort_py_coreml.states import states_of
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
        states: Places of the inputs that are states.
    """

    program: Any
    signature: Signature
    target: Any = TARGET
    states: frozenset[int] = frozenset()


class _Functions:
    """The functions of MIL, which are those of coremltools' builder."""

    def __getattr__(self, name: str) -> Any:
        return getattr(Builder, name)

    def constexpr_blockwise_shift_scale(self, data: Array, scale: Array, offset: Array) -> Any:
        """Take numbers of 4 bits as NumPy has them: coremltools has bytes whose type says what they hold."""
        kind = {"int4": types.np_int4_dtype, "uint4": types.np_uint4_dtype}.get(data.dtype.name, data.dtype)
        return Builder.constexpr_blockwise_shift_scale(data=data.astype(kind), scale=scale, offset=offset.astype(kind))


def program_of(region: RegionView, *, named: bool = False, system: str = "macOS14", states: str = "") -> RegionProgram:
    """Write a region as an ML program.

    Args:
        region: A region none of whose nodes `operators.refusal` refuses.
        named: As for `signature_of`.
        system: A value of the option `deployment_target`.
        states: The option `states`.

    Raises:
        ValueError: coremltools refuses an operator.
        EPFail: Values cannot be states.
    """
    signature, target = signature_of(region, named=named), TARGETS[system]
    kept = states_of(states, region) if states else {}
    with BUILDING:
        symbols: dict[str, Any] = {}
        inputs: dict[str, Any] = {}
        for place, (name, shape, kind) in enumerate(
            zip(signature.names, signature.shapes, signature.types, strict=True)
        ):
            sizes = tuple(dim if isinstance(dim, int) else symbols.setdefault(dim, get_new_symbol()) for dim in shape)
            if place in kept:
                inputs[name] = StateTensorPlaceholder(sizes, dtype=types.fp16)  # the only type of Core ML's states
            else:
                inputs[name] = Placeholder(sizes, dtype=types.fp32 if kind == "float32" else types.int32)
        program = Program()
        with Function(inputs, opset_version=target) as function:
            given = [
                _read(function.inputs[name]) if place in kept else function.inputs[name]
                for place, name in enumerate(signature.names)
            ]
            results = results_of(_Functions(), region, given, signature.outputs)
            for past, present in kept.items():
                value = Builder.cast(x=results[present], dtype="fp16")
                Builder.coreml_update_state(state=function.inputs[signature.names[past]], value=value)
            function.set_outputs([one for place, one in enumerate(results) if place not in kept.values()])
            program.add_function("main", function)
    return RegionProgram(program, signature, target, frozenset(kept))


def _read(state: Any) -> Any:
    """Return what a state holds before the run, in the type that nodes read."""
    return Builder.cast(x=Builder.read_state(input=state), dtype="fp32")

"""Writes a region as an ML program: each node by the function of its operator, in topological order.

The result is a program of coremltools' intermediate language (MIL). This module knows neither packages nor how programs
are run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from coremltools.converters.mil import Builder
from coremltools.converters.mil.mil import Function, Placeholder, Program, get_new_symbol, types

from ort_py.contracts import GraphView, NodeSpec, RegionView, ValueSpec
from ort_py.dtypes import DataType, numpy_dtype
from ort_py.lazy_dataclass import dataclass
from ort_py_coreml.operators import operator_of
from ort_py_coreml.operators.operator import Var
from ort_py_coreml.toolkit import BUILDING, TARGET

__all__ = ["Lowering", "RegionProgram", "program_of"]

_KINDS: dict[DataType, Any] = {DataType.BOOL: np.bool_, DataType.INT32: np.int32, DataType.INT64: np.int32}
"""The type of constants in MIL; others are float32. `operators.refusal` keeps out what int32 does not hold."""


@dataclass(frozen=True, slots=True)
class RegionProgram:
    """A region as an ML program.

    Attributes:
        program: The program of coremltools. Its function `main` has an input for each of the region's, with the names
            `in0`, `in1` and so on, and outputs `out0`, `out1` and so on.
        shapes: For each input its sizes; a name stands for a size that is not known, and the same name for the same
            size.
        types: NumPy's name of the type of each input of the region. Integers and booleans are int32 in the program.
        results: The same for each output.
        names: Names of the program's inputs.
    """

    program: Any
    shapes: tuple[tuple[int | str, ...], ...]
    types: tuple[str, ...]
    results: tuple[str, ...]
    names: tuple[str, ...]


class Lowering:
    """A graph while it is written.

    Args:
        graph: The graph.
        values: The values that are written already, by name.

    Attributes:
        mb: The builder of coremltools, whose methods are MIL's operators.
        graph: The graph whose nodes are being written.
    """

    def __init__(self, graph: GraphView, values: Mapping[str, Var]) -> None:
        self.mb = Builder
        self.graph = graph
        self._values = dict(values)

    def read(self, value: ValueSpec | None) -> Var:
        """Return an operand: what a node wrote, an input of the program, or a constant."""
        assert value is not None
        found = self._values.get(value.name)
        if found is None:
            constant = self.graph.constant(value.name)
            assert constant is not None, f"'{value.name}' is neither written nor constant"
            kind = _KINDS.get(value.data_type, np.float32) if value.data_type is not None else np.float32
            found = self._values[value.name] = self.mb.const(val=np.ascontiguousarray(constant, kind))
        return found

    def add_nodes(self) -> None:
        """Write all nodes of the graph, fused ones by the nodes of their bodies."""
        for node in self.graph.nodes:
            inner = self.graph.function(node)
            results = self._write(node) if inner is None else self._write_body(node, inner)
            for value, result in zip(node.outputs, results, strict=False):
                if value is not None:
                    self._values[value.name] = result

    def _write(self, node: NodeSpec) -> list[Var]:
        operator = operator_of(node.op_type)
        assert operator is not None, f"{node.op_type} is not supported, but was not refused"
        results = operator.lower(self, node)
        return results if isinstance(results, list) else [results]

    def _write_body(self, node: NodeSpec, inner: GraphView) -> list[Var]:
        """Write the body of a fused node. Its values have names of their own, which may be those of this graph."""
        body = node.body
        assert body is not None
        given = {
            own: self._values[value.name]
            for own, value in zip(body.inputs, node.inputs, strict=False)
            if own and value is not None and value.name in self._values
        }
        part = Lowering(inner, given)
        part.add_nodes()
        return [part._values.get(name) for name in body.outputs]


def program_of(region: RegionView, *, named: bool = False) -> RegionProgram:
    """Write a region as an ML program.

    Args:
        region: A region none of whose nodes `operators.refusal` refuses.
        named: Whether inputs and outputs have the region's names, of which Core ML only takes letters, digits and `_`.

    Raises:
        ValueError: coremltools refuses an operator.
    """
    with BUILDING:
        return _program_of(region, named=named)


def _program_of(region: RegionView, *, named: bool) -> RegionProgram:
    symbols: dict[str, Any] = {}
    shapes = tuple(_sizes(value, number) for number, value in enumerate(region.inputs))
    names = [f"in{number}" for number in range(len(shapes))] + [f"out{number}" for number in range(len(region.outputs))]
    if named:
        names = _names([value.name for value in (*region.inputs, *region.outputs)])
    given, wanted = names[: len(shapes)], names[len(shapes) :]
    inputs = {
        name: Placeholder(
            tuple(dim if isinstance(dim, int) else symbols.setdefault(dim, get_new_symbol()) for dim in shape),
            dtype=types.fp32 if value.data_type is DataType.FLOAT else types.int32,
        )
        for name, shape, value in zip(given, shapes, region.inputs, strict=True)
    }
    program = Program()
    with Function(inputs, opset_version=TARGET) as function:
        values = {
            value.name: _without_border(function.inputs[name], value)
            for name, value in zip(given, region.inputs, strict=True)
        }
        lowering = Lowering(region, values)
        lowering.add_nodes()
        results = [
            _at_border(lowering.read(value), value, name) for name, value in zip(wanted, region.outputs, strict=True)
        ]
        function.set_outputs(results)
        program.add_function("main", function)
    kinds, made = ([_numpy_name(value) for value in side] for side in (region.inputs, region.outputs))
    return RegionProgram(program, shapes, tuple(kinds), tuple(made), tuple(given))


def _without_border(var: Var, value: ValueSpec) -> Var:
    """Return an input as nodes read it. Core ML's arrays hold no booleans."""
    return Builder.cast(x=var, dtype="bool") if value.data_type is DataType.BOOL else var


def _at_border(var: Var, value: ValueSpec, name: str) -> Var:
    """Return a result as an output of the program."""
    return (
        Builder.cast(x=var, dtype="int32", name=name)
        if value.data_type is DataType.BOOL
        else Builder.identity(x=var, name=name)
    )


def _numpy_name(value: ValueSpec) -> str:
    assert value.data_type is not None, "values of unknown types are refused"
    return numpy_dtype(value.data_type).name


def _names(given: Sequence[str]) -> list[str]:
    """Return names that Core ML takes, each once."""
    found: dict[str, None] = {}
    for name in given:
        plain = re.sub(r"[^A-Za-z0-9_]", "_", name)
        plain = plain if plain[:1].isalpha() or plain[:1] == "_" else f"_{plain}"
        number = 0
        while (unique := f"{plain}_{number}" if number else plain) in found:
            number += 1
        found[unique] = None
    return list(found)


def _sizes(value: ValueSpec, number: int) -> tuple[int | str, ...]:
    """Return the sizes of an input; one that is not known has a name, which is the model's if there is one."""
    assert value.shape is not None
    return tuple(
        dim if isinstance(dim, int) else dim if isinstance(dim, str) and dim else f"in{number} {axis}"
        for axis, dim in enumerate(value.shape)
    )

"""Writes a region as an ML program: each node by the function of its operator, in topological order.

The result is a program of coremltools' intermediate language (MIL). This module knows neither packages nor how programs
are run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from coremltools.converters.mil import Builder
from coremltools.converters.mil.mil import Function, Placeholder, Program, get_new_symbol, types

from ort_py.contracts import GraphView, NodeSpec, RegionView, ValueSpec
from ort_py.lazy_dataclass import dataclass
from ort_py_coreml.operators import operator_of
from ort_py_coreml.operators.operator import Var
from ort_py_coreml.toolkit import BUILDING, TARGET

__all__ = ["Lowering", "RegionProgram", "program_of"]


@dataclass(frozen=True, slots=True)
class RegionProgram:
    """A region as an ML program.

    Attributes:
        program: The program of coremltools. Its function `main` has an input for each of the region's, with the names
            `in0`, `in1` and so on, and outputs `out0`, `out1` and so on.
        shapes: For each input its sizes; a name stands for a size that is not known, and the same name for the same
            size.
        outputs: Number of outputs.
    """

    program: Any
    shapes: tuple[tuple[int | str, ...], ...]
    outputs: int


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
            found = self._values[value.name] = self.mb.const(val=np.ascontiguousarray(constant, np.float32))
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


def program_of(region: RegionView) -> RegionProgram:
    """Write a region as an ML program.

    Args:
        region: A region none of whose nodes `operators.refusal` refuses.

    Raises:
        ValueError: coremltools refuses an operator.
    """
    with BUILDING:
        return _program_of(region)


def _program_of(region: RegionView) -> RegionProgram:
    symbols: dict[str, Any] = {}
    shapes = tuple(_sizes(value, number) for number, value in enumerate(region.inputs))
    inputs = {
        f"in{number}": Placeholder(
            tuple(dim if isinstance(dim, int) else symbols.setdefault(dim, get_new_symbol()) for dim in shape),
            dtype=types.fp32,
        )
        for number, shape in enumerate(shapes)
    }
    program = Program()
    with Function(inputs, opset_version=TARGET) as function:
        values = {value.name: function.inputs[f"in{number}"] for number, value in enumerate(region.inputs)}
        lowering = Lowering(region, values)
        lowering.add_nodes()
        results = [
            Builder.identity(x=lowering.read(value), name=f"out{number}") for number, value in enumerate(region.outputs)
        ]
        function.set_outputs(results)
        program.add_function("main", function)
    return RegionProgram(program, shapes, len(results))


def _sizes(value: ValueSpec, number: int) -> tuple[int | str, ...]:
    """Return the sizes of an input; one that is not known has a name, which is the model's if there is one."""
    assert value.shape is not None
    return tuple(
        dim if isinstance(dim, int) else dim if isinstance(dim, str) and dim else f"in{number} {axis}"
        for axis, dim in enumerate(value.shape)
    )

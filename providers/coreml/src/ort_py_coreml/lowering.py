"""Writes a region as a program: each node by the function of its operator, in topological order.

A program is written with the functions of MIL, coremltools' intermediate language. Who has such functions may be
coremltools itself, or another writer (`core_ai`). This module knows neither packages nor how programs are run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ort_py.contracts import GraphView, NodeSpec, RegionView, ValueSpec
from ort_py.dtypes import DataType, numpy_dtype
from ort_py.lazy_dataclass import dataclass
from ort_py_coreml.operators import operator_of
from ort_py_coreml.operators.operator import Var

__all__ = ["Lowering", "Signature", "results_of", "signature_of"]

_KINDS: dict[DataType, Any] = {DataType.BOOL: np.bool_, DataType.INT32: np.int32, DataType.INT64: np.int32}
"""The type of constants in MIL; others are float32. `operators.refusal` keeps out what int32 does not hold."""


@dataclass(frozen=True, slots=True)
class Signature:
    """The inputs and outputs of a program.

    Attributes:
        shapes: For each input its sizes; a name stands for a size that is not known, and the same name for the same
            size. A value without axes has one of size 1: Core ML's arrays have one at least.
        types: NumPy's name of the type of each input of the region. Integers and booleans are int32 in the program.
        results: The same for each output.
        names: Names of the program's inputs: `in0`, `in1` and so on, or those of the region.
        outputs: Names of its outputs: `out0`, `out1` and so on, or those of the region.
        bare: Places of the outputs that have no axes in the region.
    """

    shapes: tuple[tuple[int | str, ...], ...]
    types: tuple[str, ...]
    results: tuple[str, ...]
    names: tuple[str, ...]
    outputs: tuple[str, ...]
    bare: tuple[int, ...] = ()


class Lowering:
    """A graph while it is written.

    Args:
        mb: Has the functions of MIL as members.
        graph: The graph.
        values: The values that are written already, by name.

    Attributes:
        mb: Has the functions of MIL as members.
        graph: The graph whose nodes are being written.
    """

    def __init__(self, mb: Any, graph: GraphView, values: Mapping[str, Var]) -> None:
        self.mb = mb
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
            found = self._values[value.name] = self.mb.const(val=np.asarray(constant, kind, order="C"))
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
        operator = operator_of(node.domain, node.op_type)
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
        part = Lowering(self.mb, inner, given)
        part.add_nodes()
        return [part._values.get(name) for name in body.outputs]


def signature_of(region: RegionView, *, named: bool = False) -> Signature:
    """Return the inputs and outputs that a region has as a program.

    Args:
        region: The region.
        named: Whether inputs and outputs have the region's names, of which Core ML only takes letters, digits and `_`.
    """
    shapes = tuple(_sizes(value, number) for number, value in enumerate(region.inputs))
    names = [f"in{number}" for number in range(len(shapes))] + [f"out{number}" for number in range(len(region.outputs))]
    if named:
        names = _names([value.name for value in (*region.inputs, *region.outputs)])
    kinds, made = ([_numpy_name(value) for value in side] for side in (region.inputs, region.outputs))
    bare = tuple(place for place, value in enumerate(region.outputs) if value.shape == ())
    return Signature(shapes, tuple(kinds), tuple(made), tuple(names[: len(shapes)]), tuple(names[len(shapes) :]), bare)


def results_of(mb: Any, region: RegionView, inputs: Sequence[Var], names: Sequence[str]) -> list[Var]:
    """Write a region.

    Args:
        mb: Has the functions of MIL as members.
        region: A region none of whose nodes `operators.refusal` refuses.
        inputs: The inputs of the program.
        names: Names of its outputs.

    Returns:
        The outputs of the program.

    Raises:
        ValueError: An operator is refused by the writer.
    """
    values = {value.name: _without_border(mb, x, value) for x, value in zip(inputs, region.inputs, strict=True)}
    lowering = Lowering(mb, region, values)
    lowering.add_nodes()
    return [
        _at_border(mb, lowering.read(value), value, name) for name, value in zip(names, region.outputs, strict=True)
    ]


def _without_border(mb: Any, var: Var, value: ValueSpec) -> Var:
    """Return an input as nodes read it. The arrays of programs hold no booleans, and have one axis at least."""
    var = mb.squeeze(x=var, axes=[0]) if value.shape == () else var
    return mb.cast(x=var, dtype="bool") if value.data_type is DataType.BOOL else var


def _at_border(mb: Any, var: Var, value: ValueSpec, name: str) -> Var:
    """Return a result as an output of the program."""
    var = mb.expand_dims(x=var, axes=[0]) if value.shape == () else var
    if value.data_type is DataType.BOOL:
        return mb.cast(x=var, dtype="int32", name=name)
    return mb.identity(x=var, name=name)


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
    if not value.shape:
        return (1,)
    return tuple(
        dim if isinstance(dim, int) else dim if isinstance(dim, str) and dim else f"in{number} {axis}"
        for axis, dim in enumerate(value.shape)
    )

"""A region's nodes to a program, and where the program's inputs and numbers come from.

Constants of one element become numbers of the launch; other constants stay arrays, which are copied to the device when
the region is compiled. Comes after `operators`; before `region`. It is independent of devices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from functools import partial
from typing import Any

from ort_py.contracts.graph_view import Array, GraphView, NodeSpec, RegionView
from ort_py.dtypes import numpy_dtype
from ort_py.errors import Location
from ort_py.lazy_dataclass import dataclass
from ort_py_cuda.regions.operators import RULES, emit
from ort_py_cuda.regions.program import Builder, Input, Program, Scalar
from ort_py_cuda.regions.refusals import reduced_axes_of

__all__ = ["Number", "Reading", "constant_of", "read"]


@dataclass(frozen=True, slots=True)
class Number:
    """A constant of one element.

    Attributes:
        value: A Python number, of narrow floats as a float.
        shape: Its shape, whose rank counts in broadcasting.
    """

    value: Any
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """A region as a program.

    Attributes:
        program: What it computes; its results are the region's outputs in order.
        feeds: For each input of the program, the region's input of that number; -1 where it is a constant.
        constants: For each input of the program, the name of the constant; ``""`` where it is fed.
        numbers: What the program's scalars are.
        where: The first node that may find a zero divisor, else the first one.
    """

    program: Program
    feeds: tuple[int, ...]
    constants: tuple[str, ...]
    numbers: tuple[Number, ...]
    where: Location


@dataclass(slots=True)
class _Reader:
    region: RegionView
    builder: Builder = field(default_factory=Builder)
    terms: dict[str, int] = field(default_factory=dict)
    feeds: list[int] = field(default_factory=list)
    constants: list[str] = field(default_factory=list)
    numbers: list[Number] = field(default_factory=list)
    fed: dict[str, int] = field(default_factory=dict)

    def term(self, node: NodeSpec, index: int) -> int | None:
        """The term of a node's input; None where it is absent."""
        value = node.inputs[index]
        if value is None:
            return None
        found = self.terms.get(value.name)
        if found is not None:
            return found
        assert value.data_type is not None
        dtype = numpy_dtype(value.data_type).name
        known = self.region.constant(value.name)
        if known is not None and known.size == 1:
            self.numbers.append(
                Number(
                    known.reshape(-1)[0].astype("float64").item() if _is_narrow(known) else known.item(),
                    tuple(known.shape),
                )
            )
            found = self.builder.put(Scalar(len(self.numbers) - 1, dtype))
        else:
            self.feeds.append(-1 if known is not None else self.fed[value.name])
            self.constants.append(value.name if known is not None else "")
            found = self.builder.put(Input(len(self.feeds) - 1, dtype))
        self.terms[value.name] = found
        return found


def _is_narrow(array: Array) -> bool:
    return array.dtype.itemsize == 2 and array.dtype.kind not in "iu"


def constant_of(graph: GraphView, node: NodeSpec, index: int) -> Array | None:
    """Input `index` of a node as a host array where it is constant."""
    value = node.inputs[index] if index < len(node.inputs) else None
    return None if value is None else graph.constant(value.name)


def _read_inputs(node: NodeSpec) -> Sequence[int]:
    """Inputs whose values a kernel reads: not axes, not what is there for its type."""
    rule = RULES[(node.domain, node.op_type)]
    return range(1) if rule.reduces or node.op_type == "CastLike" else range(len(node.inputs))


def read(region: RegionView) -> Reading:
    """A region that `groups` claimed, or a part of one, as a program.

    Args:
        region: Its nodes are such that `operators.unsupported` has no reason for them.
    """
    reader = _Reader(region)
    reader.fed = {value.name: place for place, value in enumerate(region.inputs)}
    dropped: set[str] = set()
    axes = 0
    where = next((node.location for node in region.nodes if node.op_type in ("Div", "Mod")), region.nodes[0].location)
    for node in region.nodes:
        arguments = [reader.term(node, index) for index in _read_inputs(node)]
        known = partial(constant_of, region, node)
        output = node.outputs[0]
        assert output is not None
        reader.terms[output.name] = emit(reader.builder, node, arguments, known)
        if RULES[(node.domain, node.op_type)].reduces:
            found = reduced_axes_of(node, known)
            assert isinstance(found, int)
            axes = found
            if node.attributes.get("keepdims", 1) != 1:
                dropped.add(output.name)
    outputs = [value.name for value in region.outputs]
    program = reader.builder.finish(
        [reader.terms[name] for name in outputs], [name in dropped for name in outputs], axes
    )
    return Reading(program, tuple(reader.feeds), tuple(reader.constants), tuple(reader.numbers), where)

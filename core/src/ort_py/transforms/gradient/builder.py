"""Writes the nodes of a gradient: operators in the form that the model's opset has, constants, and small idioms.

Used by rules, through `GradientBuilder`. Equal nodes are written once. Values are names; nothing is in the graph until
`lowering` hands the templates to the editor. The gradient of a value that was broadcast is the sum over its
repetitions: axes whose sizes are known, or have one name, are decided here, the others by comparing shapes in the run.
It does not depend on rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ort_py import errors
from ort_py.contracts import NodeTemplate, ValueSpec
from ort_py.dtypes import DataType, Dim, Shape, ValueType, numpy_dtype
from ort_py.errors import Location
from ort_py.graph.editing.edit import Editor
from ort_py.transforms.gradient.allowance import Allowance


def _sum_to(b: GradientBuilder, grad: str, shape: Shape | None, target: ValueSpec) -> str:
    wanted = target.shape
    if wanted == ():
        return grad if shape == () else b.sum(grad, None)
    if shape is None or wanted is None:
        return _any_rank(b, grad, target)
    extra = len(shape) - len(wanted)
    grad = b.sum(grad, tuple(range(extra)))
    kinds = [_repeated(size, whole) for size, whole in zip(wanted, shape[extra:], strict=True)]
    grad = b.sum(grad, tuple([axis for axis, kind in enumerate(kinds) if kind]), keepdims=True)
    unsure = [axis for axis, kind in enumerate(kinds) if kind is None]
    if not unsure:
        return grad
    if b.opset >= 13:
        axes = _differing(b, b.shape(target), b.shape(grad))
        return b("ReduceSum", grad, axes, keepdims=1, noop_with_empty_axes=1)
    for axis in unsure:
        grad = _sum_or_not(b, grad, axis, target)
    return grad


def _repeated(size: Dim, whole: Dim) -> bool | None:
    """Return whether an axis was repeated from `size` to `whole`, or None if this is only known in a run."""
    if size == whole and size is not None:
        return False
    if size == 1:
        return True
    if isinstance(size, int) or whole == 1:
        return False
    return None


def _differing(b: GradientBuilder, first: str, second: str) -> str:
    """Positions at which two vectors of one length differ."""
    return b("Squeeze", b("NonZero", b("Not", b("Equal", first, second))), b.ints(0))


def _any_rank(b: GradientBuilder, grad: str, target: ValueSpec) -> str:
    if b.opset < 13:
        raise b.needs_opset(13, f"broadcasting of '{target.name}', whose rank is unknown,")
    whole, part = b.shape(grad), b.shape(target)
    missing = b("Sub", b("Shape", whole), b("Shape", part))
    padded = b.concat(b("Expand", b.ints(1), missing), part)
    axes = _differing(b, padded, whole)
    return b.reshape(b("ReduceSum", grad, axes, keepdims=1, noop_with_empty_axes=1), part)


def _sum_or_not(b: GradientBuilder, grad: str, axis: int, target: ValueSpec) -> str:
    """Sum over an axis if the target has size 1 there, while axes are attributes and cannot be computed.

    The sum is put in front of the gradient, and a slice takes one or the other.
    """
    size = b.part(b.shape(target), axis, axis + 1)
    start = b("Cast", b("Not", b("Equal", size, b.ints(1))), to=7)
    both = b("Concat", b.sum(grad, (axis,), keepdims=True), grad, axis=axis)
    return b("Slice", both, start, b("Add", start, size), b.ints(axis))


_AXES_ARE_INPUTS = {"ReduceSum": 13, "Squeeze": 13, "Unsqueeze": 13}
"""Opset since which axes are an input; 18 for the other reductions."""


class GradientBuilder:
    """Collects the nodes that replace one Gradient node.

    Args:
        editor: Editor of the graph that the nodes will be in; asked which names are taken.
        prefix: Put before the names of new values.
        opset: The model's opset of ``ai.onnx``.

    Attributes:
        templates: The nodes so far, in order.
        types: Types of new values that type inference does not find: a gradient has its value's type.
        data_type: Element type that numbers among the inputs of new nodes get.
    """

    def __init__(self, editor: Editor, prefix: str, opset: int, where: Location, allowance: Allowance) -> None:
        self.templates: list[NodeTemplate] = []
        self.constants: dict[str, Any] = {}
        self.types: dict[str, ValueType] = {}
        self.opset = opset
        self.data_type = DataType.FLOAT
        self._editor = editor
        self._prefix = prefix
        self._where = where
        self._allowance = allowance
        self._names = 0
        self._written: dict[Any, tuple[str, ...]] = {}
        self._known: dict[Any, str] = {}

    def __call__(self, op_type: str, *inputs: str | float | None, **attributes: Any) -> str:
        """Write a node with one output; returns the output's name. Numbers become constants of `data_type`."""
        return self.many(op_type, inputs, 1, attributes)[0]

    def many(
        self, op_type: str, inputs: Sequence[str | float | None], outputs: int, attributes: Mapping[str, Any]
    ) -> tuple[str, ...]:
        """Write a node with several outputs; returns their names."""
        named = tuple([self._input(one) for one in inputs])
        key = (op_type, named, outputs, tuple(sorted(attributes.items())))
        found = self._written.get(key)
        if found is None:
            self._allowance.spend(1, self._where)
            found = self._written[key] = tuple([self._name(op_type) for _ in range(outputs)])
            self.templates.append(NodeTemplate(op_type, named, found, attributes))
        return found

    def _input(self, value: str | float | None) -> str:
        if value is None:
            return ""
        return value if isinstance(value, str) else self.scalar(value)

    def _name(self, what: str) -> str:
        while True:
            self._names += 1
            name = f"{self._prefix}/{what}_{self._names}"
            if self._editor.find(name) is None:
                return name

    # Constants --------------------------------------------------------------------------------------------------------

    def array(self, content: Any) -> str:
        """A constant tensor."""
        array = np.ascontiguousarray(content)
        array = array.reshape(np.shape(content))  # NumPy makes scalars vectors
        key = (array.dtype.str, array.dtype.name, array.shape, array.tobytes())
        if key not in self._known:
            name = self._known[key] = self._name("constant")
            self.constants[name] = array
        return self._known[key]

    def scalar(self, number: float, data_type: DataType | None = None) -> str:
        """A constant of rank 0, of `GradientBuilder.data_type` where none is given."""
        return self.array(np.array(number).astype(numpy_dtype(data_type or self.data_type)))

    def ints(self, *numbers: int) -> str:
        """A constant vector of int64."""
        return self.array(np.array(numbers, np.int64))

    # Shapes -----------------------------------------------------------------------------------------------------------

    def shape(self, value: ValueSpec | str) -> str:
        """The shape as a vector of int64; a constant where all sizes are known."""
        if isinstance(value, str):
            return self("Shape", value)
        sizes = [size for size in value.shape or (None,) if isinstance(size, int)]
        if value.shape is not None and len(sizes) == len(value.shape):
            return self.ints(*sizes)
        return self("Shape", value.name)

    def part(self, vector: str, start: int, end: int) -> str:
        return self("Slice", vector, self.ints(start), self.ints(end), self.ints(0))

    def concat(self, *vectors: str) -> str:
        """Vectors of int64 behind each other."""
        return vectors[0] if len(vectors) == 1 else self("Concat", *vectors, axis=0)

    def size(self, value: ValueSpec | str) -> str:
        """Number of elements, as a vector of one int64."""
        return self("ReduceProd", self.shape(value), keepdims=1)

    def reshape(self, value: str, shape: str) -> str:
        """`Reshape` to exactly these sizes, or -1 in one place."""
        if self.opset >= 14:
            return self("Reshape", value, shape, allowzero=1)
        return self("Reshape", value, shape)

    def flat(self, value: str) -> str:
        """All elements in one vector."""
        return self("Reshape", value, self.ints(-1))

    def reshape_like(self, value: str, target: ValueSpec) -> str:
        """The elements in the shape of another value."""
        return self.reshape(value, self.shape(target))

    def expand_like(self, value: str | float, target: ValueSpec) -> str:
        """Broadcast to the shape of another value."""
        return self("Expand", value, self.shape(target))

    def zeros_like(self, target: ValueSpec) -> str:
        """Zeros in the shape and element type of another value."""
        return self.expand_like(self.scalar(0.0, target.data_type), target)

    def ones_like(self, target: ValueSpec) -> str:
        """Ones in the shape and element type of another value."""
        return self.expand_like(self.scalar(1.0, target.data_type), target)

    # Operators whose form depends on the opset ------------------------------------------------------------------------

    def reduce(self, op_type: str, value: str, axes: Sequence[int] | str | None, *, keepdims: bool) -> str:
        """A reduction.

        Args:
            op_type: ``ReduceSum`` and its like.
            axes: Axes; the name of a value that holds them; None for all axes. No axes at all: nothing is reduced.
            keepdims: Whether axes of size 1 stay.
        """
        if axes is None:
            return self(op_type, value, keepdims=int(keepdims))
        if not isinstance(axes, str) and not axes:
            return value
        if self.opset >= _AXES_ARE_INPUTS.get(op_type, 18):
            named = axes if isinstance(axes, str) else self.ints(*axes)
            return self(op_type, value, named, keepdims=int(keepdims))
        if isinstance(axes, str):
            raise self.needs_opset(_AXES_ARE_INPUTS.get(op_type, 18), f"{op_type} over axes that the model computes")
        return self(op_type, value, axes=tuple(axes), keepdims=int(keepdims))

    def sum(self, value: str, axes: Sequence[int] | str | None, *, keepdims: bool = False) -> str:
        """`reduce` with ReduceSum."""
        return self.reduce("ReduceSum", value, axes, keepdims=keepdims)

    def squeeze(self, value: str, *axes: int) -> str:
        """Take axes of size 1 out."""
        return self._axes("Squeeze", value, axes)

    def unsqueeze(self, value: str, *axes: int) -> str:
        """Put axes of size 1 in, counted in the result."""
        return self._axes("Unsqueeze", value, axes)

    def _axes(self, op_type: str, value: str, axes: tuple[int, ...]) -> str:
        if not axes:
            return value
        if self.opset >= 13:
            return self(op_type, value, self.ints(*axes))
        return self(op_type, value, axes=axes)

    def cast(self, value: str, data_type: DataType | None = None) -> str:
        """Cast, to `GradientBuilder.data_type` where no type is given."""
        return self("Cast", value, to=int(data_type or self.data_type))

    def pick(self, condition: str, value: str | float, otherwise: str | float) -> str:
        return self("Where", condition, value, otherwise)

    def transpose(self, value: str, *permutation: int) -> str:
        return self("Transpose", value, perm=permutation)

    def add_up(self, terms: Sequence[str]) -> str:
        """The sum of values of one shape."""
        if len(terms) == 1:
            return terms[0]
        return self("Add", *terms) if len(terms) == 2 else self("Sum", *terms)

    def sum_to(self, grad: str, shape: Shape | None, target: ValueSpec) -> str:
        """Undo broadcasting: sum over the axes along which `target` was repeated.

        Args:
            shape: Its shape as far as known.
            target: The value that was broadcast; the result has its shape.
        """
        return _sum_to(self, grad, shape, target)

    def needs_opset(self, opset: int, what: str) -> errors.NotImplemented:
        """The error for what can be written only at a later opset."""
        return errors.NotImplemented(
            f"This Gradient needs opset {opset}.",
            where=self._where,
            why=f"{what} cannot be written at opset {self.opset}, which the model imports",
            fix=f"Convert the model to opset {opset} or later (onnx.version_converter).",
        )

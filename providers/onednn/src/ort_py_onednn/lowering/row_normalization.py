"""LayerNormalization and RMSNormalization: rows that are normalised, with a sum in front where one is joined.

Code of our own does all of it in one call. Without that, oneDNN has a primitive for the first, and several in a row do
the second.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ort_py_onednn.binding import primitives
from ort_py_onednn.binding.constants import F32, Argument, Binary, Eltwise, NormalizationFlag
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.primitive import Function
from ort_py_onednn.binding.row_normalization import RowNormalization, has_row_normalization
from ort_py_onednn.graph.functions import linear
from ort_py_onednn.graph.joined_sums import JOINED
from ort_py_onednn.graph.operation import Combine, Operation
from ort_py_onednn.lowering.planner import Planner, Value

__all__ = ["layer_normalization", "root_mean_square"]

_FEW = 1 << 15
"""Numbers up to which our own code takes less time for a LayerNormalization than oneDNN's."""


def layer_normalization(planner: Planner, operation: Operation) -> None:
    """ONNX LayerNormalization without its statistics; the axes from one on are normalised together.

    A second tensor to add in front, and the name of the sum, come last among inputs and outputs (`joined_sums`).
    """
    source, added = _sources(planner, operation)
    inner = _inner(source, operation)
    size = math.prod(source.dims)
    vectors = {
        code: planner.reshaped(planner.value(operation.inputs[place]), (inner,))
        for place, code in ((1, Argument.SCALE), (2, Argument.SHIFT))
        if len(operation.inputs) > place and operation.inputs[place]
    }
    own = source.dtype == F32 and size <= _FEW and planner.result_type(source) == F32
    if own and has_row_normalization(planner.library):
        found = _own(planner, operation, source, added, inner, vectors, centred=True)
    else:
        source = _summed(planner, operation, source, added)
        found = _by_primitive(planner, operation, source, inner, vectors)
    planner.bind(operation.outputs[0], planner.apply(planner.reshaped(found, source.shape), operation.posts))


def root_mean_square(planner: Planner, operation: Operation) -> None:
    """ONNX RMSNormalization, computed in float32; see `layer_normalization`."""
    source, added = _sources(planner, operation)
    inner = _inner(source, operation)
    dtype = planner.result_type(source)
    name = operation.inputs[1]
    if not has_row_normalization(planner.library):
        source = _summed(planner, operation, source, added)
        _by_several(planner, operation, source, name)
        return
    vectors: dict[int, Value] = {}
    scale = planner.value(name) if name else None
    if scale is not None and _is_of_rows(scale, source, _axes(source, operation)):
        vectors[Argument.SCALE] = planner.reshaped(scale, (inner,))
        scale = None
    found = _own(planner, operation, planner.converted(source, F32), added, inner, vectors, centred=False)
    found = planner.reshaped(found, source.shape)
    if scale is not None:
        planner.bind(operation.outputs[0], planner.combine(Binary.MUL, found, scale, operation.posts))
        return
    planner.bind(operation.outputs[0], planner.apply(planner.converted(found, dtype), operation.posts))


def _sources(planner: Planner, operation: Operation) -> tuple[Value, Value | None]:
    """What is normalised, and what is added to it before: None where nothing is, or where it was added here."""
    source = planner.value(operation.inputs[0])
    if JOINED not in operation.attributes:
        return source, None
    added = planner.value(operation.inputs[-1])
    if source.shape == added.shape and source.dtype == added.dtype == F32 and planner.dtype in {None, F32}:
        return source, added
    total = planner.combine(Binary.ADD, source, added)
    planner.bind(operation.outputs[1], total)
    return total, None


def _summed(planner: Planner, operation: Operation, source: Value, added: Value | None) -> Value:
    """The sum by a primitive, where our own code does not do what follows it."""
    if added is None:
        return source
    total = planner.combine(Binary.ADD, source, added)
    planner.bind(operation.outputs[1], total)
    return total


def _axes(source: Value, operation: Operation) -> int:
    """Number of the axes that are normalised together."""
    rank = len(source.shape)
    return rank - int(operation.attributes.get("axis", -1)) % rank


def _inner(source: Value, operation: Operation) -> int:
    """Length of a row."""
    return math.prod(source.dims[-_axes(source, operation) :])


def _is_of_rows(scale: Value, source: Value, axes: int) -> bool:
    """Return whether a value has a number for each place of a row: others broadcast along rows, or within one."""
    missing = len(source.dims) - len(scale.dims)
    seen = (1,) * missing + scale.dims
    return missing >= 0 and seen[-axes:] == source.dims[-axes:] and math.prod(scale.dims) == math.prod(seen[-axes:])


def _own(
    planner: Planner,
    operation: Operation,
    source: Value,
    added: Value | None,
    inner: int,
    vectors: dict[int, Value],
    *,
    centred: bool,
) -> Value:
    """The rows in one call, (rows, length); binds the sum in front."""
    shape = math.prod(source.dims[: -_axes(source, operation)]), inner
    rows = Desc.plain(shape)
    given = {Argument.SRC: planner.reshaped(planner.plain(source), shape)}
    if added is not None:
        given[Argument.SRC_1] = planner.reshaped(planner.plain(added), shape)
        total = given[Argument.DST_1] = planner.new(rows)
        planner.bind(operation.outputs[1], planner.reshaped(total, source.shape))
    given |= {code: planner.plain(planner.converted(vector, F32)) for code, vector in vectors.items()}
    found = given[Argument.DST] = planner.new(rows)
    arguments = {code: value.desc for code, value in given.items()}
    epsilon = operation.attributes.get("epsilon", 1e-5)
    own = planner.make(lambda: RowNormalization(planner.library, arguments, epsilon, centred=centred), rows)
    planner.emit(own, given, in_place=Argument.SRC)
    return found


def _by_primitive(
    planner: Planner, operation: Operation, source: Value, inner: int, vectors: dict[int, Value]
) -> Value:
    """Rows without mean and variance, by oneDNN's primitive."""
    rows = math.prod(source.dims[: -_axes(source, operation)])
    value = planner.plain(planner.reshaped(source, (rows, inner)))
    dtype = planner.result_type(value)
    desc, target = value.desc, value.desc.of(dtype) or Desc.any(value.dims, dtype)
    given = {Argument.SRC: value}
    flags = 0
    for code, vector in vectors.items():
        flags |= NormalizationFlag.SCALE if code == Argument.SCALE else NormalizationFlag.SHIFT
        given[code] = planner.converted(planner.plain(vector), F32)
    epsilon = operation.attributes.get("epsilon", 1e-5)
    primitive = planner.make_heavy(
        lambda: primitives.layer_normalization(desc, target, epsilon, flags), 4.0 * math.prod(desc.dims)
    )
    found = planner.new(target, desc.dims)
    planner.emit(primitive, {**given, Argument.DST: found}, in_place=Argument.SRC)
    return found


def _by_several(planner: Planner, operation: Operation, source: Value, scale: str | None) -> None:
    """Rows over their root mean square by primitives that feed one another: the mean is a product with a constant."""
    from ort_py_onednn.lowering.pooling import reduce  # where our own code can run, nothing of it is needed

    output, rank = operation.outputs[0], len(source.shape)
    square, factor = f"{output}:square", f"{output}:factor"
    planner.bind(square, planner.apply(source, [Function(Eltwise.SQUARE)]))
    axes = tuple(range(rank - _axes(source, operation), rank))
    posts: Sequence[Function] = (
        linear(1.0, operation.attributes.get("epsilon", 1e-5)),
        Function(Eltwise.SQRT),
        Function(Eltwise.POW, 1.0, -1.0),
    )
    mean = Operation("ReduceMean", operation.name, (square,), (factor,), {"axes": axes}, 11, list(posts))
    reduce(planner, mean)
    last = [Combine(Binary.MUL, scale)] if scale else []
    found = planner.combine(Binary.MUL, source, planner.value(factor), [*last, *operation.posts])
    planner.bind(output, found)

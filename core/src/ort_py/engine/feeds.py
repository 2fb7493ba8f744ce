"""Feeds on their way into slots: what fits goes in as it is, the rest is converted correctly or refused by name.

Nothing is ever reinterpreted: byte order is swapped, strides are copied, a wrong dtype is an error. Feeds are never
written to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ort_py.dtypes import (
    DataType,
    MapType,
    OptionalType,
    SequenceType,
    Shape,
    SparseTensorType,
    TensorType,
    ValueType,
    data_type_of,
    numpy_dtype,
)
from ort_py.errors import AbsentInputError, ArgumentTypeError, InvalidArgument, Location, OrtPyError, UsageError
from ort_py.lazy_dataclass import dataclass
from ort_py.limits import check_time
from ort_py.logs import lazy_logger
from ort_py.planning.plan import PlanInput

if TYPE_CHECKING:
    from ort_py.values.device_tensor import DeviceTensor

_logger = lazy_logger("ort_py.session")


@dataclass(frozen=True, slots=True)
class FeedSpec:
    """One input, prepared for checking.

    Attributes:
        dtype: NumPy dtype of a tensor that can be taken as it is; None for other kinds and for strings, whose
            elements may be of any type.
        rank: Declared rank, -1 where unknown.
        fixed: (axis, size) of each fixed dimension.
    """

    name: str
    slot: int
    type: ValueType | None
    dtype: np.dtype[Any] | None
    rank: int
    fixed: tuple[tuple[int, int], ...]
    optional: bool

    def fits(self, shape: tuple[int, ...]) -> bool:
        """Return whether a shape agrees with the declared one."""
        if self.rank >= 0 and len(shape) != self.rank:
            return False
        for axis, size in self.fixed:  # noqa: SIM110 - a generator takes several times as long
            if shape[axis] != size:
                return False
        return True


def feed_spec(value: PlanInput) -> FeedSpec:
    declared = value.type
    tensor = declared if isinstance(declared, TensorType) else None
    shape = tensor.shape if tensor is not None else None
    fixed = tuple((axis, dim) for axis, dim in enumerate(shape or ()) if isinstance(dim, int) and dim >= 0)
    return FeedSpec(
        value.name,
        value.slot,
        declared,
        numpy_dtype(tensor.data_type) if tensor is not None and tensor.data_type is not DataType.STRING else None,
        -1 if shape is None else len(shape),
        fixed,
        isinstance(declared, OptionalType),
    )


def no_mapping(feed: Any) -> ArgumentTypeError:
    return ArgumentTypeError(
        f"The feed of a run must be a mapping of input names to values, not {type(feed).__name__}.",
        fix="Pass e.g. {session.get_inputs()[0].name: array}.",
    )


def convert_feed(spec: FeedSpec, value: Any) -> Any:
    """Convert a feed that does not exactly fit to the content of its slot.

    Args:
        value: Array, anything with ``__array__`` or ``__dlpack__``, nested lists, a scalar, a `SparseTensor`, or an
            `OrtValue` of any of these; a list of these for a sequence, a dict for a map, None for an empty optional.

    Raises:
        InvalidArgument: Wrong dtype, rank or dimension; names the input.
        UsageError: Wrong kind, or no tensor can be made of it; names the input.
        UnicodeDecodeError: Bytes of a string are not UTF-8; onnxruntime raises the same.
    """
    return _convert(spec.type, value, spec.name)


def _convert(
    declared: ValueType | None, value: Any, name: str, refusal: type[InvalidArgument] = InvalidArgument
) -> Any:
    where = Location(value=name)
    if not isinstance(value, np.ndarray):
        value = _on_host(value)
    if isinstance(declared, OptionalType):
        return None if value is None else _convert(declared.element, value, name)
    if value is None:
        raise AbsentInputError(f"Input '{name}' is None, but it is not optional.", where=where, fix=_wanted(declared))
    if isinstance(declared, SequenceType):
        if not isinstance(value, list | tuple):
            raise UsageError(
                f"Input '{name}' is a sequence, but the feed is a {type(value).__name__}.",
                where=where,
                fix="Pass a list of arrays.",
            )
        # onnxruntime answers a wrong element with another class than a wrong tensor.
        return [_convert(declared.element, item, f"{name}[{index}]", UsageError) for index, item in enumerate(value)]
    if isinstance(declared, MapType):
        if not isinstance(value, dict):
            raise UsageError(
                f"Input '{name}' is a map, but the feed is a {type(value).__name__}.", where=where, fix="Pass a dict."
            )
        return dict(value)
    if isinstance(declared, TensorType | SparseTensorType):
        return _convert_tensor(TensorType(declared.data_type, declared.shape), value, name, refusal)
    try:
        return np.asarray(value)
    except ValueError as error:  # lists of several lengths
        raise UsageError(
            f"Input '{name}' is not a tensor: {error}",
            where=where,
            fix="Pass an array; the model does not declare its type.",
        ) from None


def _on_host(value: Any) -> Any:
    """The dense value on the host that an `OrtValue` or one of its contents holds; any other value as it is."""
    from ort_py.values.device_tensor import DeviceTensor  # programs that feed arrays load none of these
    from ort_py.values.ort_value import OrtValue
    from ort_py.values.sparse import SparseTensor

    if isinstance(value, OrtValue):
        value = value._value
    if isinstance(value, DeviceTensor):
        value = value.to_host()
    return value.to_dense() if isinstance(value, SparseTensor) else value


def _convert_tensor(declared: TensorType, value: Any, name: str, refusal: type[InvalidArgument]) -> Any:
    where = Location(value=name)
    array = _as_array(declared, value, name)
    try:
        found = data_type_of(array.dtype)
    except OrtPyError as error:
        raise UsageError(
            f"Input '{name}' is not a tensor: {error.what}", where=where, why=error.why, fix=_wanted(declared)
        ) from None
    if array.dtype.kind in "cV":
        refusal = UsageError  # complex numbers and types NumPy lacks never get into onnxruntime
    _check_form(declared, found, array, name, refusal)
    if declared.data_type is DataType.STRING:
        return _strings(array, name)
    # Swaps the byte order and copies strides where needed; a feed that is right already is not copied.
    return np.ascontiguousarray(array, numpy_dtype(declared.data_type)).reshape(array.shape)


def device_feed(spec: FeedSpec, value: DeviceTensor) -> Any:
    """The content of a slot on a device: the array of a tensor that is there.

    Raises:
        InvalidArgument: Wrong dtype, rank or dimension; names the input.
    """
    assert isinstance(spec.type, TensorType)
    _check_form(spec.type, data_type_of(value.dtype), value, spec.name, InvalidArgument)
    return value.array


def _check_form(
    declared: TensorType,
    found: DataType,
    value: np.ndarray[Any, Any] | DeviceTensor,
    name: str,
    refusal: type[InvalidArgument],
) -> None:
    if found != declared.data_type:
        raise refusal(
            f"Input '{name}' has element type {found.onnx_name}, the model declares {declared.data_type.onnx_name}.",
            where=Location(value=name),
            why=f"dtype '{value.dtype}' was fed",
            fix=f"Convert it with .astype('{numpy_dtype(declared.data_type)}').",
        )
    _check_shape(declared.shape, value.shape, name)


def _as_array(declared: TensorType, value: Any, name: str) -> np.ndarray[Any, Any]:
    if isinstance(value, np.ndarray):
        return np.asarray(value)  # masks and matrix semantics end here
    if isinstance(value, list | tuple | int | float | bool | str | bytes):
        # Plain Python has no dtype, so the model's is taken, as onnxruntime does.
        try:
            return np.array(value, numpy_dtype(declared.data_type))
        except (ValueError, TypeError, OverflowError) as error:
            raise UsageError(
                f"Input '{name}' cannot be converted to a tensor of {declared.data_type.onnx_name}.",
                where=Location(value=name),
                why=str(error),
                fix="Pass a rectangular nested list or a NumPy array.",
            ) from error
    if hasattr(value, "__dlpack__") and not isinstance(value, np.generic):
        from ort_py.values.dlpack import from_dlpack

        try:
            return from_dlpack(value)[0]
        except (BufferError, OrtPyError) as error:
            if not hasattr(value, "__array__"):
                raise UsageError(
                    f"Input '{name}' cannot be read through DLPack.",
                    where=Location(value=name),
                    why=str(error),
                    fix="Bring it to the host first.",
                ) from error
    if hasattr(value, "__array__"):
        try:
            return np.asarray(value)
        except (TypeError, ValueError, RuntimeError) as error:
            raise UsageError(
                f"Input '{name}' cannot be read as an array.",
                where=Location(value=name),
                why=str(error),
                fix="Bring it to the host first, e.g. with .detach().cpu() or .get().",
            ) from error
    raise UsageError(
        f"Input '{name}' is a {type(value).__name__}, which is not a tensor.",
        where=Location(value=name),
        fix=_wanted(declared),
    )


def _check_shape(declared: Shape | None, shape: tuple[int, ...], name: str) -> None:
    if declared is None:
        return
    where = Location(value=name)
    if not declared and shape:
        # Exporters write the shape of a scalar where they know none, so onnxruntime lets any tensor in.
        _logger.warning("input '%s' is declared as a scalar, but a tensor of shape %s was fed", name, shape)
        return
    if len(shape) != len(declared):
        raise InvalidArgument(
            f"Input '{name}' has rank {len(shape)}, the model declares {len(declared)}.",
            where=where,
            why=f"shape {shape} was fed, {list(declared)} is declared",
            fix="Add or remove axes, e.g. with x[None] or x.reshape(...).",
        )
    for axis, (found, wanted) in enumerate(zip(shape, declared, strict=True)):
        if isinstance(wanted, int) and wanted >= 0 and found != wanted:
            raise InvalidArgument(
                f"Input '{name}' has size {found} along axis {axis}, the model declares {wanted}.",
                where=where,
                why=f"shape {shape} was fed, {list(declared)} is declared",
                fix="Resize, pad or crop the input to the declared shape.",
            )


_STRETCH = 1 << 18
"""Strings between two looks at the clock."""


def _strings(array: np.ndarray[Any, Any], name: str) -> np.ndarray[Any, Any]:
    flat, result = array.ravel(), np.empty(array.size, object)
    try:
        for start in range(0, flat.size, _STRETCH):
            check_time()
            items = flat[start : start + _STRETCH].tolist()
            result[start : start + _STRETCH] = [
                item.decode("utf-8") if isinstance(item, bytes) else str(item) for item in items
            ]
    except UnicodeDecodeError as error:
        error.add_note(f"Input '{name}' holds bytes that are not UTF-8: decode them first.")
        raise
    return result.reshape(array.shape)


def _wanted(declared: ValueType | None) -> str:
    return f"Pass a {declared}." if declared is not None else "Pass a value."

"""Changes of meaning between versions of an operator, and the earlier forms of the same computation.

Only changes that the schemas do not show stand here: another default rule of broadcasting, a mode of execution that was
an attribute, names of modes, axes counted from the end. Read from the change log of ONNX's operators. `rewriting`
applies what lies between two versions and does the rest by the schemas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto

from ort_py_kit.versions.draft import CannotRewrite, Draft
from ort_py_kit.versions.history import OperatorVersion, schema_of

RENAMED: Mapping[tuple[str, str], Mapping[str, str]] = {
    ("", "TopK"): {"K": "k"},
    ("", "Pad"): {"constant_value": "value"},
}
"""Inputs that were attributes of another name before."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change of an operator's meaning.

    Attributes:
        since: The first version with the new meaning.
        before: Writes a draft of the new form as the same computation before `since`; raises `CannotRewrite`.
        compatible: Whether every node of the older form means the same in the new one.
    """

    since: int
    before: Callable[[Draft], None]
    compatible: bool = False


def changes_of(operator: OperatorVersion, version: int) -> list[Change]:
    """The changes between a version of an operator and an older one, latest first; none where `version` is newer."""
    general = Change(_FROM_THE_END, _axes_from_the_front, compatible=True)
    found = [*_CHANGES.get((operator.domain, operator.op_type), ()), general]
    crossed = [change for change in found if version < change.since <= operator.version]
    return sorted(crossed, key=lambda change: -change.since)


_FROM_THE_END = 11
"""The opset that allowed negative axes and indices, for all operators that take them."""

_OF_THE_OUTPUT = frozenset({"OneHot", "Unsqueeze"})
"""Operators whose axes are counted in the output."""


def _axes_from_the_front(draft: Draft) -> None:
    """Before opset 11, axes were counted from the front only, be they attributes or inputs."""
    if draft.operator.domain:
        return
    shaped = draft.expected[0] if draft.operator.op_type in _OF_THE_OUTPUT else draft.value(0)
    rank = np.ndim(shaped) if isinstance(shaped, np.ndarray) else 0
    for name in ("axis", "axes"):
        value = draft.attributes.get(name)
        if isinstance(value, int) and value < 0:
            draft.attributes[name] = value + rank
        elif isinstance(value, list | tuple):
            draft.attributes[name] = [one + rank if one < 0 else one for one in value]
    for position, formal in enumerate(schema_of(draft.operator).inputs):
        axes = draft.value(position)
        if formal.name in ("axis", "axes") and axes is not None:
            draft.feed(position, np.where(axes < 0, axes + rank, axes).astype(axes.dtype))


def _no_negative_indices(draft: Draft) -> None:
    """Before, indices were not counted from the end."""
    position = 0 if draft.operator.op_type == "OneHot" else 1
    if np.any(np.asarray(draft.value(position)) < 0):
        raise CannotRewrite("indices are counted from the end")


def _stated_broadcast(draft: Draft) -> None:
    """Before, only the second operand was broadcast, on request, and its shape had to be a part of the first's."""
    shape, other = np.shape(draft.value(0)), np.shape(draft.value(1))
    if shape == other:
        return
    places = [axis for axis in range(len(shape) - len(other) + 1) if shape[axis : axis + len(other)] == other]
    fitting = [axis for axis in places if axis + len(other) == len(shape)]  # as NumPy aligns them
    if not fitting:
        raise CannotRewrite(f"{other} is not a trailing part of {shape}")
    draft.attributes["broadcast"] = 1
    if other:
        draft.attributes["axis"] = fitting[0]


def _gemm_broadcast(draft: Draft) -> None:
    """Before, C had to be there and was broadcast on request."""
    c = draft.value(2)
    if c is None:
        raise CannotRewrite("C is absent")
    while np.ndim(c) and np.shape(c)[0] == 1:
        c = c[0]
    shape = np.shape(draft.expected[0])
    if np.shape(c) != shape[len(shape) - np.ndim(c) :]:
        raise CannotRewrite(f"{np.shape(c)} is not a trailing part of {shape}")
    if np.shape(c) != shape:
        draft.attributes["broadcast"] = 1
    draft.feed(2, c)


def _slope_of_channels(draft: Draft) -> None:
    """Before, a slope was one number, or one per channel."""
    x, slope = draft.value(0), draft.value(1)
    if slope.size == 1:
        draft.feed(1, slope.reshape(1))
    elif slope.shape == (x.shape[1], *[1] * (x.ndim - 2)):
        draft.feed(1, slope.reshape(-1))
    else:
        raise CannotRewrite(f"a slope of shape {slope.shape} is not one number per channel")


def _is_test(draft: Draft) -> None:
    """Mark inference with the attribute that older versions had: training was their default."""
    draft.attributes["is_test"] = 1


def _statistics_as_outputs(draft: Draft) -> None:
    """Version 14 changed what training gives."""
    if draft.attributes.get("training_mode"):
        raise CannotRewrite("training gave other outputs")


def _consumed(draft: Draft) -> None:
    """Version 1 had to name the inputs whose memory it takes over."""
    draft.attributes["consumed_inputs"] = [0, 0, 0, 1, 1]


def _no_training(draft: Draft) -> None:
    """Before version 12, training was not asked for by an input."""
    training = draft.value(2)
    if training is not None:
        if bool(training):
            raise CannotRewrite("training was not asked for by an input")
        draft.inputs[2] = ""


def _flattened(result: Callable[[Any, Any], Any]) -> Callable[[Draft], None]:
    """Before version 13, an input was coerced to two dimensions at the axis, and rows were normalised."""

    def before(draft: Draft) -> None:
        x = draft.value(0)
        axis = draft.attributes.get("axis", -1) % x.ndim
        rows = x.reshape(int(np.prod(x.shape[:axis])), -1)
        draft.attributes["axis"] = axis
        draft.expected = [result(rows, -1).reshape(x.shape).astype(x.dtype)]

    return before


def _exponentials(rows: Any, axis: int) -> Any:
    wide = rows.astype(np.float64)
    return np.exp(wide - wide.max(axis, keepdims=True))


def _softmax(rows: Any, axis: int) -> Any:
    powers = _exponentials(rows, axis)
    return powers / powers.sum(axis, keepdims=True)


def _log_softmax(rows: Any, axis: int) -> Any:
    wide = rows.astype(np.float64)
    return wide - wide.max(axis, keepdims=True) - np.log(_exponentials(rows, axis).sum(axis, keepdims=True))


def _hardmax(rows: Any, axis: int) -> Any:
    return (np.arange(rows.shape[1]) == rows.argmax(axis)[:, None]).astype(rows.dtype)


def _only_asymmetric(draft: Draft) -> None:
    """Version 10 of Resize knew one way to map coordinates, which its successor calls asymmetric."""
    attributes = draft.attributes
    mode = attributes.get("mode", b"nearest")
    if mode == b"cubic":
        raise CannotRewrite("there was no mode 'cubic'")
    if attributes.pop("coordinate_transformation_mode", b"half_pixel") != b"asymmetric":
        raise CannotRewrite("coordinates were mapped in one way")
    if attributes.pop("nearest_mode", b"round_prefer_floor") != b"floor" and mode == b"nearest":
        raise CannotRewrite("the nearest number was the one below")
    if draft.value(2) is None or not draft.value(2).size:
        raise CannotRewrite("sizes were not asked for")
    draft.inputs[1] = ""


def _roi_and_scales(draft: Draft) -> None:
    """Before version 13, the inputs that a node does not use were there and empty."""
    for position in (1, 2):
        if draft.value(position) is None:
            draft.feed(position, np.zeros(0, np.float32))


def _no_mode(attribute: str, mode: bytes) -> Callable[[Draft], None]:
    def before(draft: Draft) -> None:
        if draft.attributes.get(attribute) == mode:
            raise CannotRewrite(f"there was no {attribute} '{mode.decode()}'")

    return before


def _height_and_width(draft: Draft) -> None:
    """Version 1 of Upsample scaled images, with an attribute for each side."""
    scales = draft.value(1) if draft.value(1) is not None else draft.attributes.pop("scales", None)
    if scales is None or len(scales) != 4 or list(scales[:2]) != [1, 1]:
        raise CannotRewrite("it scaled images only")
    draft.inputs = draft.inputs[:1]
    draft.attributes["height_scale"], draft.attributes["width_scale"] = float(scales[2]), float(scales[3])


def _no_half_pixel(draft: Draft) -> None:
    """Before version 16, RoiAlign had no half pixels, which its default has had since."""
    if draft.attributes.pop("coordinate_transformation_mode", b"half_pixel") != b"output_half_pixel":
        raise CannotRewrite("it had no half pixels")


def _names_of_images(draft: Draft) -> None:
    """Before version 20, GridSample sampled images, and its modes were called otherwise."""
    if np.ndim(draft.value(0)) != 4:
        raise CannotRewrite("it sampled images only")
    modes = {b"linear": b"bilinear", b"cubic": b"bicubic"}
    mode = draft.attributes.get("mode", b"linear")
    draft.attributes["mode"] = modes.get(mode, mode)


def _type_by_name(draft: Draft) -> None:
    """Before version 6, Cast named the type."""
    draft.attributes["to"] = TensorProto.DataType.Name(draft.attributes["to"])


def _real_power(draft: Draft) -> None:
    """Before version 2, p was a real number."""
    draft.attributes["p"] = float(draft.attributes.get("p", 2))


def _paddings(draft: Draft) -> None:
    """Version 1 of Pad called them paddings."""
    draft.attributes["paddings"] = draft.attributes.pop("pads")


def _pads_attribute(draft: Draft) -> None:
    """Before version 11, pads were an attribute; `_fit` would do it, if another change did not rename them."""
    pads = draft.value(1)
    if draft.value(3) is not None:
        raise CannotRewrite("pads are given for some of the axes only")
    draft.attributes["pads"] = [int(one) for one in pads]
    value = draft.value(2)
    if value is not None:
        draft.attributes["value"] = float(value)
    draft.inputs = draft.inputs[:1]


def _ordered_bounds(draft: Draft) -> None:
    """Before version 13, nothing was said of bounds that contradict each other; onnxruntime refuses them."""
    low, high = draft.value(1), draft.value(2)
    if low is not None and high is not None and low > high:
        raise CannotRewrite("bounds did not contradict each other")


def _one_axis(draft: Draft) -> None:
    """Version 1 of Tile repeated along one axis, both numbers being tensors of the input's type."""
    x, repeats = draft.value(0), [int(one) for one in draft.value(1)]
    repeated = [axis for axis, count in enumerate(repeats) if count != 1]
    if len(repeated) != 1:
        raise CannotRewrite("it repeated along one axis")
    draft.feed(1, np.asarray(repeats[repeated[0]], x.dtype))
    draft.feed(2, np.asarray(repeated[0], x.dtype))


def _by_group(draft: Draft) -> None:
    """Before version 21, GroupNormalization had a scale and a bias for each group, not for each channel."""
    groups = draft.attributes["num_groups"]
    for position in (1, 2):
        each = np.asarray(draft.value(position)).reshape(groups, -1)
        if not np.all(each == each[:, :1]):
            raise CannotRewrite("scale and bias differ inside a group")
        draft.feed(position, np.ascontiguousarray(each[:, 0]))


def _equal_parts(draft: Draft) -> None:
    """Before version 18, the number of equal parts was that of the outputs."""
    count = draft.attributes.pop("num_outputs", None)
    if count is not None and len({np.shape(one) for one in draft.expected}) > 1:
        raise CannotRewrite("parts without sizes were equal")


def _default(operators: Iterable[str], *changes: Change) -> dict[tuple[str, str], tuple[Change, ...]]:
    return {("", operator): changes for operator in operators}


_BROADCAST = ("Add", "And", "Div", "Equal", "Greater", "Less", "Mul", "Or", "Pow", "Sub", "Xor")

_CHANGES: Mapping[tuple[str, str], tuple[Change, ...]] = {
    **_default(_BROADCAST, Change(7, _stated_broadcast)),
    **_default(["Gemm"], Change(7, _gemm_broadcast)),
    **_default(["PRelu"], Change(7, _slope_of_channels)),
    **_default(["BatchNormalization"], Change(14, _statistics_as_outputs), Change(7, _is_test), Change(6, _consumed)),
    **_default(["Dropout"], Change(12, _no_training), Change(7, _is_test)),
    **_default(["Softmax"], Change(13, _flattened(_softmax))),
    **_default(["LogSoftmax"], Change(13, _flattened(_log_softmax))),
    **_default(["Hardmax"], Change(13, _flattened(_hardmax))),
    **_default(["Gather", "OneHot", "Scatter"], Change(11, _no_negative_indices, compatible=True)),
    **_default(
        ["Resize"],
        Change(19, _no_mode("coordinate_transformation_mode", b"half_pixel_symmetric"), compatible=True),
        Change(13, _roi_and_scales),
        Change(11, _only_asymmetric),
    ),
    **_default(["Upsample"], Change(7, _height_and_width)),
    **_default(["RoiAlign"], Change(16, _no_half_pixel)),
    **_default(["GridSample"], Change(20, _names_of_images)),
    **_default(["Cast"], Change(6, _type_by_name)),
    **_default(["LpPool", "GlobalLpPool"], Change(2, _real_power)),
    **_default(
        ["Pad"],
        Change(19, _no_mode("mode", b"wrap"), compatible=True),
        Change(11, _pads_attribute),
        Change(2, _paddings),
    ),
    **_default(["Clip"], Change(13, _ordered_bounds, compatible=True)),
    **_default(["Tile"], Change(6, _one_axis)),
    **_default(["GroupNormalization"], Change(21, _by_group)),
    **_default(["Split"], Change(18, _equal_parts)),
}

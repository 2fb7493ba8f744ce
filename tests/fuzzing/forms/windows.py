"""Convolutions and pools of all ranks, with every attribute at its edges."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.fuzzing.builder import Builder
from tests.fuzzing.forms.registry import form
from tests.fuzzing.schemas import Rejected, Value

__all__ = ["picture", "window"]


def picture(g: Builder, axes: int, dtypes: tuple[str, ...] = ()) -> Value:
    """A value with a batch, channels and some spatial axes."""
    dtype = dtypes[0] if dtypes else g.main
    try:
        if g.chance(0.85):
            return g.pick((dtype,), rank=axes + 2)
    except Rejected:
        pass
    most = {1: 24, 2: 12, 3: 6}[axes]
    shape = [
        g.one(1, 2, 3),
        g.one(1, 2, 3, 4, 6, 8, 16, 17),
        *[g.integer(1 if g.chance(0.1) else 3, most) for _ in range(axes)],
    ]
    return g.new_input(shape, dtype)


def window(g: Builder, space: tuple[int, ...], *, dilations: bool = True, share: bool = False) -> dict[str, Any]:
    """Kernel, strides, dilations and pads that fit a space; `share` bounds pads by the kernel, as pools ask."""
    kernel, strides, spread, begin, end = [], [], [], [], []
    for size in space:
        kernel.append(g.one(1, 2, 3, 3, 5) if size else 1)
        strides.append(g.one(1, 1, 2, 3))
        spread.append(g.one(1, 1, 1, 2, 3) if dilations else 1)
        most = kernel[-1] - 1 if share else kernel[-1]
        begin.append(g.integer(0, max(0, most)))
        end.append(g.integer(0, max(0, most)))
    found: dict[str, Any] = {"kernel_shape": kernel}
    if g.chance(0.7):
        found["strides"] = strides
    if g.chance(0.4):
        found["dilations"] = spread
    roll = g.rng.random()
    if roll < 0.25:
        found["auto_pad"] = g.one("SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET")
    elif roll < 0.85:
        found["pads"] = begin + (begin if g.chance(0.5) else end)
    return found


@form(7)
def conv(g: Builder) -> None:
    """Conv of one to three axes, in groups, depthwise; with bias, BatchNormalization and activation behind it."""
    axes = g.one(1, 2, 2, 2, 3)
    source = picture(g, axes)
    channels = source.shape[1]
    if not channels:
        raise Rejected("no channels")
    groups = g.rng.choice([one for one in range(1, channels + 1) if channels % one == 0]) if g.chance(0.35) else 1
    groups = channels if g.chance(0.15) else groups
    filters = groups * g.one(1, 1, 2, 3, 4, 8)
    attributes = window(g, source.shape[2:])
    kernel = attributes["kernel_shape"]
    if g.chance(0.3):
        del attributes["kernel_shape"]
    operands: list[Value | None] = [source, g.weights([filters, channels // groups, *kernel], scale=0.4)]
    if g.chance(0.5):
        operands.append(g.weights([filters]))
    made = g.emit("Conv", operands, group=groups if groups > 1 or g.chance(0.3) else None, **attributes)[0]
    if g.chance(0.2):
        made = normalised(g, made)
    if g.chance(0.4):
        made = g.emit(g.one("Relu", "Sigmoid", "LeakyRelu", "HardSwish", "Clip", "Tanh", "Elu"), [made])[0]
    if g.chance(0.25):
        g.emit("Add", [made, g.broadcast(made)])


def normalised(g: Builder, source: Value) -> Value:
    """A BatchNormalization for inference."""
    count = source.shape[1]
    scale, bias, mean = (g.weights([count]) for _ in range(3))
    variance = g.const((g.numbers.random(count) + 0.1).astype(np.float32), source.dtype)
    return g.emit("BatchNormalization", [source, scale, bias, mean, variance], epsilon=g.one(None, 1e-3))[0]


@form(1.5)
def batch_normalization(g: Builder) -> None:
    """BatchNormalization of any rank."""
    normalised(g, g.data(least=2))


@form(3)
def conv_transpose(g: Builder) -> None:
    """ConvTranspose with output padding, output shape and groups."""
    source = picture(g, g.one(1, 2, 2, 3))
    channels = source.shape[1]
    groups = g.rng.choice([one for one in range(1, channels + 1) if channels % one == 0]) if g.chance(0.3) else 1
    filters = g.one(1, 2, 3, 8)
    attributes = window(g, source.shape[2:])
    strides = attributes.get("strides", [1] * (source.rank - 2))
    if g.chance(0.3):
        attributes["output_padding"] = [g.integer(0, stride - 1) for stride in strides]
    if g.chance(0.1):
        attributes["output_shape"] = [size * stride + 1 for size, stride in zip(source.shape[2:], strides, strict=True)]
        attributes.pop("pads", None)
    kernel = attributes["kernel_shape"]
    operands: list[Value | None] = [source, g.weights([channels, filters, *kernel], scale=0.4)]
    if g.chance(0.5):
        operands.append(g.weights([filters * groups]))
    g.emit("ConvTranspose", operands, group=groups if groups > 1 else None, **attributes)


@form(4)
def pool(g: Builder) -> None:
    """MaxPool with its indices, AveragePool and LpPool."""
    source = picture(g, g.one(1, 2, 2, 2, 3))
    op_type = g.one("MaxPool", "MaxPool", "AveragePool", "AveragePool", "LpPool")
    since = {"MaxPool": 10, "AveragePool": 19, "LpPool": 18}[op_type]
    attributes = window(g, source.shape[2:], dilations=g.opset >= since, share=True)
    if g.opset < since:
        attributes.pop("dilations", None)
    if g.opset >= (18 if op_type == "LpPool" else 10) and g.chance(0.4):
        attributes["ceil_mode"] = 1
    outputs = 1
    if op_type == "AveragePool" and g.chance(0.5):
        attributes["count_include_pad"] = g.one(0, 1, 1)
    elif op_type == "LpPool":
        attributes["p"] = g.one(1, 2, 3)
    elif op_type == "MaxPool" and g.opset >= 8 and g.chance(0.2):
        outputs = 2
        attributes["storage_order"] = g.one(0, 0, 1)
    made = g.emit(op_type, [source], outputs, keep=g.one(1, outputs), **attributes)
    if any(size <= 0 for size in made[0].shape[2:]):
        raise Rejected("nothing left")


@form(2)
def global_pool(g: Builder) -> None:
    """GlobalAveragePool, GlobalMaxPool and GlobalLpPool."""
    op_type = g.one("GlobalAveragePool", "GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
    source = picture(g, g.one(1, 2, 2, 3))
    g.emit(op_type, [source], p=g.one(1, 2, 3) if op_type == "GlobalLpPool" else None)


@form(2.5)
def resize(g: Builder) -> None:
    """Resize with every mode and transformation, by scales or sizes; Upsample at old versions."""
    source = picture(g, g.one(1, 2, 2, 3))
    scales = [1.0, 1.0, *[g.one(1.0, 2.0, 2.0, 0.5, 1.5, 0.7, 3.0) for _ in source.shape[2:]]]
    if not all(source.shape) or any(int(size * by) < 1 for size, by in zip(source.shape, scales, strict=True)):
        raise Rejected("nothing to resize")
    shape = [int(np.floor(np.float32(by) * np.float32(size))) for size, by in zip(source.shape, scales, strict=True)]
    mode = g.one("nearest", "nearest", "linear", "linear", "cubic")
    numbers = g.const(np.array(scales, np.float32))
    if g.opset < 10:  # Upsample never makes anything smaller
        scales = [max(1.0, by) for by in scales]
        shape = [
            int(np.floor(np.float32(by) * np.float32(size))) for size, by in zip(source.shape, scales, strict=True)
        ]
        numbers = g.const(np.array(scales, np.float32))
    if g.opset < 9:
        g.emit("Upsample", [source], shapes=[shape], mode=g.one("nearest", "linear"), scales=scales)
        return
    if g.opset < 11:
        g.emit(
            "Upsample" if g.opset < 10 else "Resize", [source, numbers], shapes=[shape], mode=g.one("nearest", "linear")
        )
        return
    attributes: dict[str, Any] = {"mode": mode}
    ways = ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"]
    ways += ["half_pixel_symmetric"] if g.opset >= 19 else []
    attributes["coordinate_transformation_mode"] = g.one(*ways, None)
    if mode == "nearest":
        attributes["nearest_mode"] = g.one("round_prefer_floor", "round_prefer_ceil", "floor", "ceil", None)
    if mode == "cubic":
        attributes.update(cubic_coeff_a=g.one(-0.75, -0.5, None), exclude_outside=g.one(0, 1, None))
    if g.opset >= 18 and mode != "nearest" and g.chance(0.2):
        attributes["antialias"] = 1
    roi = None if g.opset >= 13 else g.const(np.zeros(0, np.float32))
    if g.chance(0.5):
        g.emit("Resize", [source, roi, numbers], shapes=[shape], **attributes)
    else:
        nothing = None if g.opset >= 13 else g.const(np.zeros(0, np.float32))
        g.emit("Resize", [source, roi, nothing, g.ints(*shape)], shapes=[shape], **attributes)


@form(1)
def sampled(g: Builder) -> None:
    """GridSample, RoiAlign and local response normalisation."""
    source = picture(g, 2)
    roll = g.rng.random()
    if roll < 0.4:
        g.emit(
            "LRN", [source], size=g.one(1, 3, 5), alpha=g.one(1e-2, 0.5), beta=g.one(0.75, 0.5), bias=g.one(1.0, 2.0)
        )
    elif roll < 0.7:
        grid = g.weights([source.shape[0], g.integer(1, 4), g.integer(1, 4), 2])
        mode = g.one("linear", "nearest", "cubic") if g.opset >= 20 else g.one("bilinear", "nearest", "bicubic")
        g.emit(
            "GridSample",
            [source, grid],
            mode=mode,
            padding_mode=g.one("zeros", "border", "reflection"),
            align_corners=g.one(0, 1),
        )
    else:
        count = g.integer(1, 3)
        corners = g.numbers.random((count, 4)) * 5
        corners[:, 2:] += corners[:, :2] + 0.5
        rois = g.const(corners.astype(np.float32), source.dtype)
        images = g.const(g.numbers.integers(0, max(1, source.shape[0]), count).astype(np.int64))
        attributes = (
            {"coordinate_transformation_mode": g.one("half_pixel", "output_half_pixel")} if g.opset >= 16 else {}
        )
        g.emit(
            "RoiAlign",
            [source, rois, images],
            mode=g.one("avg", "max"),
            output_height=2,
            output_width=3,
            sampling_ratio=g.one(0, 2),
            spatial_scale=g.one(1.0, 0.5),
            **attributes,
        )

"""Operators that move, choose and index elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from providers.openvino.tests.differential.case import (
    FLOATS,
    Array,
    Case,
    axis_of,
    floats,
    integers,
    numbers,
    pick,
    shape_of,
)

__all__ = ["FAMILIES"]

Rng = np.random.Generator
_INT = (np.int32, np.int64)


def _dtype(rng: Rng) -> Any:
    return FLOATS[rng.integers(len(FLOATS))] if rng.random() < 0.6 else pick(rng, [np.int32, np.uint8, np.int8])


def _some(rng: Rng, *places: int) -> frozenset[int]:
    return frozenset(places) if rng.random() < 0.6 else frozenset()


def gather(rng: Rng) -> Case:
    """Elements by index, negative ones too."""
    shape = shape_of(rng, 1)
    axis = axis_of(rng, len(shape))
    data, kind = numbers(rng, shape, _dtype(rng)), _INT[rng.integers(2)]
    static = bool(rng.random() < 0.5)
    size = shape[axis]
    out = 2 if rng.random() < 0.12 else 0  # how far indices may be out of range
    constants = _some(rng, 1)
    match int(rng.integers(3)):
        case 0:
            indices = integers(rng, shape_of(rng, 0, 2), kind, -size - out, size + out)
            return Case("Gather", [data, indices], {"axis": axis}, constants=constants, static=static)
        case 1:
            indices = integers(rng, shape, kind, -size - out, size + out)
            return Case("GatherElements", [data, indices], {"axis": axis}, constants=constants, static=static)
        case _:
            depth = int(rng.integers(1, len(shape) + 1))
            limits = shape[:depth]
            count = shape_of(rng, 0, 2)
            columns = [integers(rng, count, np.int64, -limit - out, limit + out) for limit in limits]
            return Case("GatherND", [data, np.stack(columns, -1)], {}, constants=constants, static=static)


def scatter(rng: Rng) -> Case:
    """Elements written by index."""
    shape = shape_of(rng, 1)
    axis = axis_of(rng, len(shape))
    dtype = _dtype(rng)
    data, kind = numbers(rng, shape, dtype, 0.05), pick(rng, _INT)
    reduction = str(rng.choice(["none", "none", "add", "mul", "max", "min"]))
    attributes: dict[str, Any] = {"reduction": reduction} if reduction != "none" else {}
    static = bool(rng.random() < 0.5)
    out = 2 if rng.random() < 0.12 else 0
    constants = _some(rng, 1)
    if rng.random() < 0.5:
        size = shape[axis]
        partial = list(shape)
        partial[axis] = int(rng.integers(1, size + 1))
        if reduction == "none":  # no runtime promises which of two writes wins
            order = np.argsort(rng.random(shape), axis)
            indices = np.take(order, np.arange(partial[axis]), axis).astype(kind)
            indices = np.where(rng.random(indices.shape) < 0.3, indices - size, indices).astype(kind) + kind(out)
        else:
            indices = integers(rng, partial, kind, -size - out, size + out)
        attributes["axis"] = axis
        updates = numbers(rng, partial, dtype, 0.05)
        return Case("ScatterElements", [data, indices, updates], attributes, 18, static=static, constants=constants)
    depth = int(rng.integers(1, len(shape) + 1))
    space = int(np.prod(shape[:depth]))
    count = int(rng.integers(1, space + 1))
    flat = rng.permutation(space)[:count] if reduction == "none" else rng.integers(0, space, count)
    indices = np.stack(np.unravel_index(flat, shape[:depth]), -1).astype(np.int64)
    if rng.random() < 0.3:
        indices = indices - np.array(shape[:depth], np.int64)
    indices = indices + out
    updates = numbers(rng, (count, *shape[depth:]), dtype, 0.05)
    return Case("ScatterND", [data, indices, updates], attributes, 18, static=static, constants=constants)


def shaped(rng: Rng) -> Case:
    """New shapes of the same elements."""
    shape = shape_of(rng, 1)
    rank = len(shape)
    data = numbers(rng, shape, _dtype(rng))
    static = bool(rng.random() < 0.5)
    match int(rng.integers(8)):
        case 0:
            wanted = [int(np.prod(shape[:1])), -1] if rng.random() < 0.5 else [0] * (rank - 1) + [-1]
            return Case("Reshape", [data, np.array(wanted, np.int64)], constants=_some(rng, 1), static=static)
        case 1:
            return Case("Transpose", [data], {"perm": rng.permutation(rank).tolist()} if rng.random() < 0.8 else {})
        case 2:
            return Case("Flatten", [data], {"axis": int(rng.integers(-rank, rank + 1))}, static=static)
        case 3:
            axes = np.array(sorted(rng.permutation(rank + 2)[:2].tolist()), np.int64) - int(rng.choice([0, rank + 2]))
            return Case("Unsqueeze", [data, axes], constants=_some(rng, 1), static=static)
        case 4:
            ones = [axis for axis, size in enumerate(shape) if size == 1]
            given = np.array(ones, np.int64) if ones and rng.random() < 0.7 else None
            return Case("Squeeze", [data, given], constants=_some(rng, 1))
        case 5:
            target = [int(rng.integers(1, 4)), *(size if rng.random() < 0.6 or size > 1 else 3 for size in shape)]
            target = [1 if rng.random() < 0.2 and place else size for place, size in enumerate(target)]
            return Case("Expand", [data, np.array(target, np.int64)], constants=_some(rng, 1), static=static)
        case 6:
            repeats = rng.integers(1, 4, rank).astype(np.int64)
            return Case("Tile", [data, repeats], constants=_some(rng, 1), static=static)
        case _:
            attributes = {} if rng.random() < 0.4 else {"start": axis_of(rng, rank), "end": int(rng.integers(-5, 6))}
            return Case("Shape", [data], attributes, static=static)


def cut(rng: Rng) -> Case:
    """Parts: slices with any bounds and steps, splits, pads, joins, triangles."""
    shape = shape_of(rng, 1, 4, 6)
    rank = len(shape)
    dtype = _dtype(rng)
    data = numbers(rng, shape, dtype)
    static = bool(rng.random() < 0.5)
    match int(rng.integers(7)):
        case 0 | 1:
            count = int(rng.integers(1, rank + 1))
            axes = rng.permutation(rank)[:count]
            axes = np.where(rng.random(count) < 0.4, axes - rank, axes).astype(np.int64)
            starts, ends = (rng.integers(-8, 9, count).astype(np.int64) for _ in range(2))
            far = rng.random(count) < 0.2
            ends = np.where(far, rng.choice([2**63 - 1, -(2**63), 2**31 - 1, -(2**31)], count), ends)
            steps = rng.choice([1, 1, 2, 3, -1, -2], count).astype(np.int64)
            given: list[Array | None] = [data, starts, ends, axes, steps if rng.random() < 0.8 else None]
            return Case("Slice", given, constants=_some(rng, 1, 2, 3, 4), static=static)
        case 2:
            axis = axis_of(rng, rank)
            size = shape[axis]
            first = int(rng.integers(1, size + 1))
            sizes = [first, size - first] if size > first else [size]
            attributes: dict[str, Any] = {"axis": axis}
            if rng.random() < 0.4:
                attributes["num_outputs"] = min(2, size)
                if size < 2 or -(-size // 2) >= size:
                    attributes["num_outputs"] = 1
                return Case("Split", [data], attributes, 18, attributes["num_outputs"], static=static)
            given = [data, np.array(sizes, np.int64)]
            return Case("Split", given, attributes, 18, len(sizes), constants=_some(rng, 1), static=static)
        case 3 | 4:
            mode = str(rng.choice(["constant", "reflect", "edge", "wrap"]))
            least = [size - 1 if mode == "reflect" else 3 for size in shape]
            pads = np.array([int(rng.integers(0, most + 1)) for most in least * 2], np.int64)
            if rng.random() < 0.25:
                pads = np.where(rng.random(2 * rank) < 0.4, -1, pads)
                if mode != "constant" or any(size < 3 for size in shape):
                    pads = np.abs(pads) * (np.array(shape * 2) > 1)
            value = numbers(rng, (), dtype) if mode == "constant" and rng.random() < 0.6 else None
            given = [data, pads, value]
            return Case(
                "Pad", given, {"mode": mode}, int(rng.choice([19, 21])), constants=_some(rng, 1, 2), static=static
            )
        case 5:
            axis = axis_of(rng, rank)
            return Case("Concat", [data, numbers(rng, shape, dtype)], {"axis": axis}, static=static)
        case _:
            square = numbers(rng, (*shape_of(rng, 0, 1), 4, 5), dtype)
            k = np.array(int(rng.integers(-4, 5)), np.int64)
            return Case(
                "Trilu",
                [square, k if rng.random() < 0.7 else None],
                {"upper": int(rng.integers(2))},
                constants=_some(rng, 1),
            )


def chosen(rng: Rng) -> Case:
    """One-hot, non-zero, compress, ranges, sequences turned, blocks moved."""
    static = bool(rng.random() < 0.5)
    match int(rng.integers(9)):
        case 0:
            depth = int(rng.integers(1, 5))
            indices = integers(
                rng, shape_of(rng, 1, 2), pick(rng, [np.int64, np.int32, np.float32]), -depth - 1, depth + 2
            )
            given: list[Array | None] = [indices, np.array([depth], np.int64), floats(rng, (2,))]
            return Case(
                "OneHot", given, {"axis": int(rng.choice([-1, 0, 1]))}, constants=_some(rng, 1, 2), static=static
            )
        case 1:
            return Case("NonZero", [numbers(rng, shape_of(rng, 1), _dtype(rng))], static=static)
        case 2:
            shape = shape_of(rng, 1)
            axis = axis_of(rng, len(shape))
            flags = rng.random(int(rng.integers(1, shape[axis] + 1))) < 0.6
            return Case("Compress", [numbers(rng, shape, np.float32), flags], {"axis": axis}, constants=_some(rng, 1))
        case 3:
            dtype: Any = pick(rng, [np.float32, np.int32, np.int64])
            step = rng.choice([1, 2, -1, -3]) if dtype != np.float32 else rng.choice([0.5, 0.3, -0.7])
            bounds = [np.array(number, dtype) for number in (rng.integers(-5, 5), rng.integers(-9, 9), step)]
            return Case("Range", bounds, constants=_some(rng, 0, 1, 2))
        case 4:
            steps, batch = int(rng.integers(1, 5)), int(rng.integers(1, 4))
            time = int(rng.integers(2))
            shape = (steps, batch, 2) if time == 0 else (batch, steps, 2)
            lengths = integers(rng, (batch,), np.int64, 1, steps + 1)
            attributes = {"time_axis": time, "batch_axis": 1 - time}
            return Case(
                "ReverseSequence", [floats(rng, shape), lengths], attributes, static=static, constants=_some(rng, 1)
            )
        case 5:
            data = numbers(rng, (1, 8, 2, 4), _dtype(rng))
            attributes = {"blocksize": 2}
            if rng.random() < 0.5:
                return Case(
                    "DepthToSpace", [data], {**attributes, "mode": str(rng.choice(["DCR", "CRD"]))}, static=static
                )
            return Case("SpaceToDepth", [data], attributes, static=static)
        case 6:
            shape_in = np.array(shape_of(rng, 1, 3), np.int64)
            return Case("ConstantOfShape", [shape_in], {}, constants=_some(rng, 0))
        case 7:
            return Case("EyeLike", [floats(rng, (3, 4))], {"k": int(rng.integers(-4, 5))}, static=static)
        case _:
            data = floats(rng, (1, 2, 4, 5))
            grid = (rng.random((1, 3, 3, 2)) * 3 - 1.5).astype(np.float32)
            opset = int(rng.choice([16, 20]))
            modes = ["bilinear", "nearest", "bicubic"] if opset == 16 else ["linear", "nearest", "cubic"]
            attributes2: dict[str, Any] = {
                "mode": str(rng.choice(modes)),
                "padding_mode": str(rng.choice(["zeros", "border", "reflection"])),
                "align_corners": int(rng.integers(2)),
            }
            return Case("GridSample", [data, grid], attributes2, opset, static=static)


def boxes(rng: Rng) -> Case:
    """Suppression of boxes, and regions of interest."""
    if rng.random() < 0.5:
        count = int(rng.integers(1, 8))
        corners = np.sort(rng.random((1, count, 2, 2)) * 4, axis=2).reshape(1, count, 4).astype(np.float32)
        if rng.random() < 0.3:
            corners = np.ascontiguousarray(corners[..., [2, 1, 0, 3]])
        scores = rng.permutation(np.arange(2 * count)).reshape(1, 2, count).astype(np.float32) / (2 * count)
        given: list[Array | None] = [corners, scores]
        given.append(np.array([rng.integers(0, 4)], np.int64) if rng.random() < 0.8 else None)
        given.append(np.array([rng.choice([0.0, 0.3, 0.7])], np.float32) if rng.random() < 0.8 else None)
        given.append(np.array([rng.choice([0.0, 0.3])], np.float32) if rng.random() < 0.6 else None)
        return Case(
            "NonMaxSuppression", given, {"center_point_box": int(rng.integers(2))}, constants=_some(rng, 2, 3, 4)
        )
    count = int(rng.integers(1, 4))
    areas = np.sort(rng.random((count, 2, 2)) * 6, axis=1).reshape(count, 4).astype(np.float32)
    attributes: dict[str, Any] = {
        "output_height": int(rng.integers(1, 4)),
        "output_width": int(rng.integers(1, 4)),
        "sampling_ratio": int(rng.integers(0, 3)),
        "mode": str(rng.choice(["avg", "max"])),
        "coordinate_transformation_mode": str(rng.choice(["half_pixel", "output_half_pixel"])),
        "spatial_scale": float(rng.choice([1.0, 0.5])),
    }
    given = [floats(rng, (2, 2, 6, 7)), areas, integers(rng, (count,), np.int64, 0, 2)]
    return Case("RoiAlign", given, attributes)


FAMILIES = {"gather": gather, "scatter": scatter, "shaped": shaped, "cut": cut, "chosen": chosen, "boxes": boxes}

"""A few nodes of every operator that the provider takes, with their inputs and constants."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from onnx import NodeProto, TensorProto, helper

from providers.coreml.tests.models import MICROSOFT, model, node

__all__ = ["CASES", "Case"]

Array = np.ndarray[Any, Any]
IMAGE = (2, 6, 7, 9)


class Case(NamedTuple):
    """One or more nodes that compute ``y``.

    Attributes:
        nodes: The nodes.
        shapes: Shape of each input.
        constants: Their constants.
        opset: Version of ai.onnx.
        positive: Whether the inputs are between 0.1 and 0.9.
        given: Inputs that are no such random numbers.
        kind: Type of the output.
        dynamic: Whether the sizes of most axes come with a run.
    """

    nodes: list[NodeProto]
    shapes: dict[str, tuple[int, ...]]
    constants: dict[str, Array]
    opset: int = 20
    positive: bool = False
    given: dict[str, Array] = {}  # noqa: RUF012 - never written to
    kind: int = TensorProto.FLOAT
    dynamic: bool = False

    def feeds(self) -> dict[str, Array]:
        """Return numbers on both sides of zero, the same each time."""
        rng = np.random.default_rng(zlib.crc32(str(self.nodes).encode()))
        if self.positive:
            return {name: rng.uniform(0.1, 0.9, shape).astype(np.float32) for name, shape in self.shapes.items()}
        return {name: rng.normal(0, 2, shape).astype(np.float32) for name, shape in self.shapes.items()} | self.given

    def model(self) -> bytes:
        """Return the model."""
        return model(self.nodes, self.feeds(), self.constants, opset=self.opset, dynamic=self.dynamic, kind=self.kind)


def _weight(*shape: int) -> Array:
    rng = np.random.default_rng(zlib.crc32(bytes(shape)))
    return rng.normal(0, 1, shape).astype(np.float32)


def _numbers(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


def _one(made: NodeProto, *shapes: tuple[int, ...], opset: int = 20, positive: bool = False, **constants: Any) -> Case:
    return Case([made], dict(zip(("x", "z", "u"), shapes, strict=False)), constants, opset, positive)


def _elementwise() -> Iterator[Case]:
    for name in [
        "Abs",
        "Atan",
        "Ceil",
        "Clip",
        "Cos",
        "Cosh",
        "Elu",
        "Erf",
        "Exp",
        "Floor",
        "Gelu",
        "HardSigmoid",
        "HardSwish",
        "LeakyRelu",
        "Mish",
        "Neg",
        "Reciprocal",
        "Relu",
        "Round",
        "Selu",
        "Sigmoid",
        "Sign",
        "Sin",
        "Sinh",
        "Softplus",
        "Softsign",
        "Tan",
        "Tanh",
        "ThresholdedRelu",
    ]:
        yield _one(node(name, "x"), (3, 5, 7))
    for name in ["Acos", "Asin", "Atanh", "Log", "Sqrt"]:
        yield _one(node(name, "x"), (3, 5, 7), positive=True)
    yield _one(node("Swish", "x"), (3, 5), opset=24)
    yield _one(node("Swish", "x", alpha=0.5), (3, 5), opset=24)
    yield _one(node("Gelu", "x", approximate="tanh"), (3, 5, 7))
    yield _one(node("Elu", "x", alpha=0.5), (37,))
    yield _one(node("LeakyRelu", "x", alpha=-0.5), (37,))
    yield _one(node("Selu", "x", alpha=0.5, gamma=3.0), (37,))
    yield _one(node("ThresholdedRelu", "x", alpha=-0.5), (37,))
    yield _one(node("HardSigmoid", "x", alpha=0.5, beta=0.25), (37,))
    yield _one(node("Clip", "x low high"), (3, 5, 7), low=np.array(-1, np.float32), high=np.array(0.5, np.float32))
    yield _one(node("Clip", "x - high"), (3, 5, 7), high=np.array(0.5, np.float32))
    yield _one(node("Clip", "x low high"), (3, 5, 7), low=np.array(1, np.float32), high=np.array(0.5, np.float32))
    for name in ("Add", "Sub", "Mul", "Div", "Max", "Min", "PRelu"):
        yield _one(node(name, "x z"), (2, 3, 5, 7), (2, 3, 5, 7))
        yield _one(node(name, "x z"), (2, 3, 5, 7), (5, 1))
        yield _one(node(name, "x c"), (2, 3, 5, 7), c=_weight(3, 1, 1))
    yield _one(node("Pow", "x z"), (3, 5), (5,), positive=True)
    for name in ("Add", "Div"):
        yield _one(node(name, "x z"), (5, 1), (2, 3, 1, 7))
        yield _one(node(name, "c x"), (2, 3, 5, 7), c=_weight(1))
    for name in ("Sum", "Max", "Mean"):
        yield _one(node(name, "x z u"), (2, 3, 7), (3, 1), (7,))
    yield Case([node("Identity", "x", "a"), node("Add", "a x")], {"x": (3, 5)}, {})


def _products() -> Iterator[Case]:
    yield _one(node("MatMul", "x w"), (5, 7), w=_weight(7, 11))
    yield _one(node("MatMul", "x w"), (2, 3, 5, 7), w=_weight(7, 11))
    yield _one(node("MatMul", "x z"), (2, 3, 5, 7), (3, 7, 11))
    yield _one(node("MatMul", "x z"), (2, 1, 5, 7), (1, 3, 7, 4))
    yield _one(node("Gemm", "x w b"), (5, 7), w=_weight(7, 11), b=_weight(11))
    yield _one(node("Gemm", "x w b", transB=1, beta=0.5), (5, 7), w=_weight(11, 7), b=_weight(5, 1))
    yield _one(node("Gemm", "x w z", transA=1, alpha=2.0), (7, 5), (5, 11), w=_weight(7, 11))
    yield _one(node("Gemm", "x w"), (5, 7), w=_weight(7, 11))


def _movement() -> Iterator[Case]:
    yield _one(node("Transpose", "x", perm=[0, 2, 3, 1]), IMAGE)
    yield _one(node("Transpose", "x"), (2, 3, 5))
    yield _one(node("Reshape", "x shape"), (2, 3, 4, 5), shape=_numbers(0, -1, 5))
    yield _one(node("Reshape", "x shape"), (2, 3, 4), shape=_numbers(-1, 3, 2, 2))
    yield _one(node("Flatten", "x", axis=2), (2, 3, 4, 5))
    yield _one(node("Flatten", "x", axis=-1), (2, 3, 4, 5))
    yield _one(node("Squeeze", "x axes"), (1, 3, 1, 5), axes=_numbers(0, -2))
    yield _one(node("Squeeze", "x"), (1, 3, 1, 5))
    yield _one(node("Unsqueeze", "x axes"), (3, 5), axes=_numbers(0, -1))
    yield _one(node("Concat", "x z", axis=-1), (2, 3, 4), (2, 3, 5))
    yield _one(node("Concat", "x c z x", axis=1), (2, 3, 4), (2, 1, 4), c=_weight(2, 2, 4))
    cut: dict[str, Any] = {"starts": _numbers(1, -3), "ends": _numbers(3, 2**62), "axes": _numbers(0, -1)}
    yield _one(node("Slice", "x starts ends axes"), (4, 6, 9), **cut)
    yield _one(node("Slice", "x starts ends axes steps"), (4, 6, 9), **cut, steps=_numbers(1, 2))
    back: dict[str, Any] = {"starts": _numbers(-1, 4), "ends": _numbers(-(2**62), 0), "axes": _numbers(0, 2)}
    yield _one(node("Slice", "x starts ends axes steps"), (4, 6, 9), **back, steps=_numbers(-1, -3))
    yield _one(
        node("Pad", "x pads number"), (2, 3, 4), pads=_numbers(0, 1, 2, 1, 0, 3), number=np.array(0.5, np.float32)
    )
    yield _one(node("Pad", "x pads - axes"), (2, 3, 4), pads=_numbers(1, 2, 3, 0), axes=_numbers(-1, 0))
    yield _one(node("DepthToSpace", "x", blocksize=2), (2, 12, 3, 5))
    yield _one(node("DepthToSpace", "x", blocksize=2, mode="CRD"), (2, 12, 3, 5))
    yield _one(node("SpaceToDepth", "x", blocksize=2), (2, 3, 4, 6))
    yield _one(node("Expand", "x shape"), (3, 1), shape=_numbers(2, 1, 4))
    yield _one(node("Expand", "x shape"), (3, 1, 5), shape=_numbers(4, 1))
    yield _one(node("Tile", "x repeats"), (3, 1, 5), repeats=_numbers(1, 3, 2))
    yield _one(node("Gather", "x indices", axis=1), (3, 4, 5), indices=_numbers(-1, 0, 2))
    yield _one(node("Gather", "x indices", axis=-1), (3, 4, 5), indices=np.array([[1, -5], [0, 4]]))
    yield _one(node("Gather", "x indices"), (3, 4, 5), indices=np.array(-2))
    parts = node("Split", "x sizes", "a b", axis=1)
    yield Case([parts, node("Concat", "b a", axis=1)], {"x": (2, 7, 3)}, {"sizes": _numbers(3, 4)})
    uneven = [node("Split", "x", "a b c", axis=-1, num_outputs=3), node("Concat", "c a b", axis=2)]
    yield Case(uneven, {"x": (2, 3, 8)}, {})


def _windows() -> Iterator[Case]:
    forms: list[tuple[int, tuple[int, ...], dict[str, Any]]] = [
        (1, (8, 6, 3, 3), {}),
        (1, (5, 6, 3, 2), {"strides": [2, 1], "dilations": [1, 2], "pads": [1, 0, 2, 1]}),
        (2, (8, 3, 3, 3), {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
        (6, (6, 1, 3, 3), {"auto_pad": "SAME_LOWER", "strides": [2, 2]}),
        (6, (12, 1, 3, 5), {"pads": [1, 2, 1, 2], "auto_pad": "NOTSET"}),
        (1, (5, 6, 2, 2), {"auto_pad": "VALID"}),
    ]
    for group, weight, more in forms:
        made = node("Conv", "x w b", group=group, **more)
        yield _one(made, IMAGE, w=_weight(*weight), b=_weight(weight[0]))
    yield _one(node("Conv", "x w", pads=[1, 1]), (2, 4, 9), w=_weight(3, 4, 3))
    yield _one(node("Conv", "x w", pads=[1, 0, 1, 1, 2, 0]), (1, 2, 4, 5, 6), w=_weight(3, 2, 3, 2, 2))
    yield _one(node("Conv", "x z b", pads=[1, 1, 1, 1]), IMAGE, (4, 6, 3, 3), b=_weight(4))
    transposed: list[tuple[int, tuple[int, ...], dict[str, Any]]] = [
        (1, (6, 4, 3, 3), {}),
        (1, (6, 4, 2, 3), {"strides": [2, 3], "pads": [1, 0, 0, 1]}),
        (2, (6, 2, 3, 3), {"strides": [2, 2], "dilations": [2, 1]}),
        (3, (6, 1, 3, 3), {}),
    ]
    for group, weight, more in transposed:
        made = node("ConvTranspose", "x w b", group=group, **more)
        yield _one(made, IMAGE, w=_weight(*weight), b=_weight(weight[1] * group))
    yield _one(node("ConvTranspose", "x w", strides=[2]), (2, 4, 9), w=_weight(4, 3, 3))
    for name in ("AveragePool", "MaxPool"):
        yield _one(node(name, "x", kernel_shape=[2, 3]), IMAGE)
        yield _one(node(name, "x", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]), IMAGE)
        yield _one(node(name, "x", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1), (1, 3, 7, 9))
        yield _one(node(name, "x", kernel_shape=[3, 3], strides=[2, 3], ceil_mode=1), (1, 3, 8, 9))
        yield _one(node(name, "x", kernel_shape=[2], strides=[3], pads=[1, 1], ceil_mode=1), (1, 2, 5))
        yield _one(node(name, "x", kernel_shape=[3, 3], auto_pad="SAME_UPPER", strides=[2, 2]), IMAGE)
        yield _one(node(name, "x", kernel_shape=[3], pads=[1, 1]), (2, 4, 9))
    yield _one(node("AveragePool", "x", kernel_shape=[3, 3], pads=[1, 0, 1, 2], count_include_pad=1), IMAGE)


def _reductions() -> Iterator[Case]:
    yield _one(node("GlobalAveragePool", "x"), IMAGE)
    yield _one(node("GlobalMaxPool", "x"), IMAGE)
    for name in ["L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"]:
        positive = name == "LogSum"
        yield _one(node(f"Reduce{name}", "x axes"), (2, 3, 4, 5), axes=_numbers(1, -1), positive=positive)
        yield _one(node(f"Reduce{name}", "x axes", keepdims=0), (2, 3, 4, 5), axes=_numbers(2), positive=positive)
    yield _one(node("ReduceMean", "x"), (2, 3, 4, 5))
    yield _one(node("ReduceMean", "x", axes=[1], keepdims=0), (2, 3, 4), opset=13)


def _normalizations() -> Iterator[Case]:
    for axis in (0, 1, -1):
        yield _one(node("Softmax", "x", axis=axis), (3, 5, 7))
        yield _one(node("LogSoftmax", "x", axis=axis), (3, 5, 7))
        yield _one(node("Softmax", "x", axis=axis), (3, 5, 7), opset=11)
    yield Case([node("LogSoftmax", "x")], {"x": (3, 5, 7)}, {}, opset=11, dynamic=True)
    statistics: dict[str, Any] = {"s": _weight(6), "o": _weight(6), "m": _weight(6), "v": np.abs(_weight(6)) + 0.1}
    yield _one(node("BatchNormalization", "x s o m v"), IMAGE, **statistics)
    yield _one(node("InstanceNormalization", "x s o", epsilon=0.01), IMAGE, s=_weight(6), o=_weight(6))
    for opset in (18, 21):
        few: dict[str, Any] = {"s": _weight(3 if opset == 18 else 6), "o": _weight(3 if opset == 18 else 6)}
        made = node("GroupNormalization", "x s o", num_groups=3, epsilon=0.01)
        yield _one(made, IMAGE, opset=opset, **few)
        yield _one(made, (2, 6, 5), opset=opset, **few)
    yield _one(node("LRN", "x", size=3, alpha=0.5, bias=2.0), IMAGE)
    yield _one(node("LayerNormalization", "x s o"), (2, 3, 8), s=_weight(8), o=_weight(8))
    yield _one(node("LayerNormalization", "x s", axis=1, epsilon=0.01), (2, 3, 8), s=_weight(3, 8))
    yield _one(node("RMSNormalization", "x s"), (2, 3, 8), opset=23, s=_weight(8))
    yield _one(node("RMSNormalization", "x s", axis=1), (2, 3, 8), opset=23, s=_weight(3, 8))


def _resizing() -> Iterator[Case]:
    for mode, coordinates, nearest in (
        ("linear", "half_pixel", ""),
        ("linear", "pytorch_half_pixel", ""),
        ("linear", "align_corners", ""),
        ("linear", "asymmetric", ""),
        ("nearest", "asymmetric", "floor"),
        ("nearest", "half_pixel", "round_prefer_floor"),
        ("nearest", "half_pixel", "round_prefer_ceil"),
    ):
        more = {"nearest_mode": nearest} if nearest else {}
        made = node("Resize", "x - scales", mode=mode, coordinate_transformation_mode=coordinates, **more)
        yield _one(made, IMAGE, scales=np.array([1, 1, 2, 3], np.float32))
    for coordinates in ("half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric"):
        made = node("Resize", "x - - sizes", mode="linear", coordinate_transformation_mode=coordinates)
        yield _one(made, (1, 2, 5, 8), sizes=_numbers(1, 2, 7, 3))
    yield _one(node("Resize", "x - scales", mode="linear"), (1, 2, 6, 4), scales=np.array([1, 1, 0.5, 1.5], np.float32))
    yield _one(node("Resize", "x - - sizes", mode="linear", axes=[3]), (1, 2, 5, 3), opset=18, sizes=_numbers(7))


def _sampling() -> Iterator[Case]:
    """Places inside an image, at its borders, and far beyond them."""
    rng = np.random.default_rng(21)
    places = np.concatenate([rng.uniform(-3.4, 3.4, (2, 4, 7, 2)), np.full((2, 4, 1, 2), -1.0)], 2).astype(np.float32)
    for padding in ("zeros", "border", "reflection"):
        for corners in (0, 1):
            if padding != "reflection" or corners:
                made = node("GridSample", "x z", padding_mode=padding, align_corners=corners)
                yield Case([made], {"x": (2, 3, 5, 6)}, {}, given={"z": places})
    yield Case([node("GridSample", "x z", mode="bilinear")], {"x": (2, 3, 5, 6)}, {}, opset=16, given={"z": places})


def _lengths() -> Iterator[Case]:
    """Sizes as numbers, which other providers would compute from constants if nothing hung on a run."""
    parts: list[dict[str, Any]] = [{}, {"start": -2, "end": 9}]
    for more in parts:
        yield Case([node("Shape", "x", **more)], {"x": (2, 3, 4)}, {}, kind=TensorProto.INT64, dynamic=True)
    counted = [node("Shape", "x", "s"), node("Gather", "s last", "n"), node("Range", "zero n step")]
    numbers: dict[str, Array] = {"last": np.array(-1), "zero": np.array(0), "step": np.array(2)}
    yield Case(counted, {"x": (2, 5, 7)}, numbers, kind=TensorProto.INT64, dynamic=True)
    repeated = [node("Shape", "x", "s", end=2), node("Tile", "z s")]
    yield Case(repeated, {"x": (2, 3, 4), "z": (1, 5)}, {}, dynamic=True)
    for target in ((0, 0, 2, 6), (0, -1, 0, 3), (0, 0, -1)):
        yield Case([node("Reshape", "x shape")], {"x": (2, 3, 12)}, {"shape": _numbers(*target)}, dynamic=True)
    for axis in (1, 2):
        yield Case([node("Flatten", "x", axis=axis)], {"x": (2, 3, 4, 5)}, {}, dynamic=True)
    for start, end in ((-1, 2**62), (1, 2**62), (0, -2), (2, -1)):
        cut: dict[str, Array] = {"b": _numbers(start), "e": _numbers(end), "a": _numbers(2)}
        yield Case([node("Slice", "x b e a")], {"x": (2, 3, 6)}, cut, dynamic=True)
    for indices in ([0, -1], [2], [-3]):
        yield Case([node("Gather", "x i", axis=2)], {"x": (2, 3, 4)}, {"i": np.array(indices)}, dynamic=True)
    yield Case([node("Expand", "x shape")], {"x": (2, 1, 4)}, {"shape": _numbers(3, 1, 5, 1)}, dynamic=True)
    yield Case(
        [node("GroupNormalization", "x s o", num_groups=2)],
        {"x": IMAGE},
        {"s": _weight(6), "o": _weight(6)},
        opset=21,
        dynamic=True,
    )


def _without_axes() -> Iterator[Case]:
    """A number is an array with one axis at the border of a program."""
    for name in ("Add", "Div", "Max"):
        yield _one(node(name, "x z"), (), (2, 3))
        yield _one(node(name, "x z"), (), ())
    yield _one(node("Sigmoid", "x"), ())
    yield _one(node("Unsqueeze", "x axes"), (), axes=_numbers(0, -1))
    yield _one(node("Reshape", "x shape"), (1, 1), shape=np.array([], np.int64))
    yield _one(node("Expand", "x shape"), (), shape=_numbers(2, 3))
    yield _one(node("ReduceSum", "x", keepdims=0), (2, 3, 4))
    yield _one(node("Squeeze", "x"), (1, 1))
    yield _one(node("Transpose", "x"), ())
    yield Case([node("Gather", "x i", axis=1)], {"x": (2, 4)}, {}, given={"i": np.array(-1)})
    yield Case([node("Not", "x")], {}, {}, given={"x": np.array(True)}, kind=TensorProto.BOOL)
    yield Case([node("Cast", "x", to=TensorProto.FLOAT)], {}, {}, given={"x": np.array(7)})


def _recurrent() -> Iterator[Case]:
    for directions, direction in ((1, "forward"), (1, "reverse"), (2, "bidirectional")):
        weights = {"w": _weight(directions, 20, 3), "r": _weight(directions, 20, 5), "b": _weight(directions, 40)}
        states: dict[str, tuple[int, ...]] = {"x": (4, 2, 3), "h": (directions, 2, 5), "c": (directions, 2, 5)}
        for names in ("y - -", "- y -", "- - y"):
            made = node("LSTM", "x w r b - h c", names, hidden_size=5, direction=direction)
            made.output[:] = ["" if name == "-" else name for name in names.split()]
            yield Case([made], states, weights)
        yield _one(node("LSTM", "x w r", hidden_size=5, direction=direction), (4, 2, 3), w=weights["w"], r=weights["r"])
    turned = [node("LSTM", "x w r", "s", hidden_size=5), node("Squeeze", "s axes", "q"), node("MatMul", "q m")]
    yield Case(
        turned,
        {"x": (4, 2, 3)},
        {"w": _weight(1, 20, 3), "r": _weight(1, 20, 5), "axes": _numbers(1), "m": _weight(5, 2)},
    )


def _simple_layers() -> Iterator[Case]:
    forms: list[tuple[str, int, dict[str, Any]]] = [
        ("RNN", 1, {}),
        ("GRU", 3, {"linear_before_reset": 1}),
        ("GRU", 3, {}),
    ]
    for name, gates, more in forms:
        for directions, direction in ((1, "forward"), (1, "reverse"), (2, "bidirectional")):
            shapes = (directions, gates * 5, 3), (directions, gates * 5, 5), (directions, gates * 10)
            weights = {letter: _weight(*shape) for letter, shape in zip("wrb", shapes, strict=True)}
            for names in ("y -", "- y"):
                made = node(name, "x w r b - h", names, hidden_size=5, direction=direction, **more)
                made.output[:] = ["" if one == "-" else one for one in names.split()]
                yield Case([made], {"x": (4, 2, 3), "h": (directions, 2, 5)}, weights)
            made = node(name, "x w r", hidden_size=5, direction=direction, **more)
            yield _one(made, (4, 2, 3), w=weights["w"], r=weights["r"])


def _logic() -> Iterator[Case]:
    few = np.arange(-6, 6).reshape(3, 4)
    sign, other = few > 0, few % 2 == 0
    for kind in (np.float32, np.int32, np.int64):
        pair = {"x": few.astype(kind), "z": few[::-1, :1].astype(kind)}
        for name in ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"):
            yield Case([node(name, "x z")], {}, {}, given=pair, kind=TensorProto.BOOL)
        number = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
        yield Case([node("Where", "c x z")], {}, {}, given={"c": sign} | pair, kind=number)
        for to in (TensorProto.FLOAT, TensorProto.BOOL, TensorProto.INT32, TensorProto.INT64):
            if kind is not np.float32 or to != TensorProto.INT64:
                cast = [node("Cast", "x", "a", to=to), node("Identity", "a")]
                yield Case(cast, {}, {}, given={"x": few.astype(kind)}, kind=to)
    for to in (TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL):
        yield Case([node("Cast", "x", to=to)], {}, {}, given={"x": sign}, kind=to)
    yield Case([node("Cast", "x", to=TensorProto.INT32)], {"x": (3, 5)}, {}, kind=TensorProto.INT32)
    for name in ("And", "Or", "Xor"):
        yield Case([node(name, "x z")], {}, {}, given={"x": sign, "z": other[:, 1:2]}, kind=TensorProto.BOOL)
    yield Case([node("Not", "x")], {}, {}, given={"x": sign}, kind=TensorProto.BOOL)
    masked = [node("Less", "x z", "m"), node("Where", "m x low")]
    yield Case(masked, {"x": (2, 3, 4), "z": (3, 1)}, {"low": np.array(-1e9, np.float32)})


def _integers() -> Iterator[Case]:
    numbers = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    for name in ("Add", "Sub", "Mul", "Max", "Min"):
        given = {"x": numbers, "z": numbers[:1, :, :1] - 5}
        yield Case([node(name, "x z")], {}, {}, given=given, kind=TensorProto.INT32)
    wide = numbers.astype(np.int64)
    moved: list[tuple[str, dict[str, Array], dict[str, Any]]] = [
        ("Transpose", {}, {}),
        ("Reshape", {"c": _numbers(4, -1)}, {}),
        ("Slice", {"c": _numbers(1), "d": _numbers(3), "e": _numbers(2)}, {}),
        ("Expand", {"c": _numbers(2, 2, 3, 4)}, {}),
        ("Unsqueeze", {"c": _numbers(0)}, {}),
        ("Gather", {"c": _numbers(-1, 0)}, {"axis": 2}),
    ]
    for name, constants, more in moved:
        made = node(name, " ".join(["x", *constants]), **more)
        yield Case([made], {}, constants, given={"x": wide}, kind=TensorProto.INT64)
    yield Case([node("Transpose", "x")], {}, {}, given={"x": wide % 2 == 0}, kind=TensorProto.BOOL)
    indices = np.array([[0, -1, 2], [3, 1, -2]])
    yield Case([node("Gather", "t x")], {}, {"t": _weight(4, 6)}, given={"x": indices})
    yield Case([node("Gather", "x i", axis=1)], {"x": (2, 4, 3)}, {}, given={"i": indices.astype(np.int32)})
    yield Case([node("GatherElements", "x i", axis=-1)], {"x": (2, 4)}, {}, given={"i": indices})
    yield Case([node("GatherElements", "x c")], {"x": (5, 3)}, {"c": indices})
    yield Case([node("GatherND", "x i")], {"x": (4, 4, 2)}, {}, given={"i": np.array([[0, 1], [3, 2]])})
    yield Case([node("GatherND", "x i", batch_dims=1)], {"x": (2, 4, 3)}, {}, given={"i": np.array([[1], [3]])})


def _indices_from_the_back() -> Iterator[Case]:
    indices = np.array([[[-1, 0], [-4, 2]], [[1, -3], [-2, -1]]])
    shape: dict[str, tuple[int, ...]] = {"x": (2, 4, 3)}
    yield Case([node("GatherND", "x c", batch_dims=1)], shape, {"c": indices})
    few = np.array([[[-1, 0], [-3, 2]], [[1, -3], [-2, -1]]])
    yield Case([node("GatherND", "x i", batch_dims=1)], {"x": (2, 3, 3)}, {}, given={"i": few})
    yield Case([node("GatherND", "x c", batch_dims=1)], shape, {"c": indices[..., :1]})
    yield Case([node("GatherND", "x i")], {"x": (4, 4, 2)}, {}, given={"i": np.array([[-1, -4], [0, 3]])})
    yield Case([node("GatherND", "x i")], shape, {}, given={"i": np.array([[-2], [1]])})


def _quotients() -> Iterator[Case]:
    """Integers are divided towards zero."""
    numbers = np.array([[-(2**31), -7, -6, -1, 0], [1, 6, 7, 2**31 - 1, 5]])
    for kind in (np.int32, np.int64):
        to = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
        for divisor in (2, -3, 2**31 - 1, [[4], [-7]]):
            constants = {"c": np.array(divisor, kind)}
            yield Case([node("Div", "x c")], {}, constants, given={"x": numbers.astype(kind)}, kind=to)


def _attention() -> Iterator[Case]:
    """With heads on an axis of their own or not, groups of them, and masks of both kinds."""
    four: dict[str, tuple[int, ...]] = {"x": (2, 4, 3, 8), "z": (2, 4, 5, 8), "u": (2, 4, 5, 6)}
    grouped: dict[str, tuple[int, ...]] = {"x": (2, 4, 3, 8), "z": (2, 2, 5, 8), "u": (2, 2, 5, 6)}
    three: dict[str, tuple[int, ...]] = {"x": (2, 3, 32), "z": (2, 5, 16), "u": (2, 5, 16)}
    heads: dict[str, Any] = {"q_num_heads": 4, "kv_num_heads": 2}
    seen = np.array([[1, 1, 0, 0, 1], [0, 0, 0, 0, 0], [1, 1, 1, 1, 1]]) > 0
    added = np.where(seen, np.float32(0.5), np.float32(-np.inf))
    forms: list[tuple[str, dict[str, tuple[int, ...]], dict[str, Any], dict[str, Array]]] = [
        ("x z u", four, {}, {}),
        ("x z u", four, {"scale": 0.3, "softcap": 2.0}, {}),
        ("x z u", four, {"is_causal": 1}, {}),
        ("x z u", grouped, {}, {}),
        ("x z u", three, heads, {}),
        ("x z u", three, {**heads, "is_causal": 1}, {}),
        ("x z u m", four, {}, {"m": seen}),
        ("x z u m", three, heads, {"m": added}),
        ("x z u m", four, {"is_causal": 1}, {"m": np.broadcast_to(seen, (2, 1, 3, 5)).copy()}),
    ]
    for names, shapes, more, given in forms:
        yield Case([node("Attention", names, **more)], shapes, {}, opset=23, given=given)
    past: dict[str, tuple[int, ...]] = {"p": (2, 4, 6, 8), "q": (2, 4, 6, 6)}
    few: dict[str, tuple[int, ...]] = {"p": (2, 2, 6, 8), "q": (2, 2, 6, 8)}
    seen = np.tile(seen, 3)[:, :11]
    caches: list[tuple[str, dict[str, tuple[int, ...]], dict[str, Any], dict[str, Array]]] = [
        ("y", four | past, {}, {}),
        ("y", four | past, {"is_causal": 1}, {"m": seen}),
        ("y", three | few, {**heads, "is_causal": 1}, {}),
        ("r y", three | few, heads, {}),
        ("r s y", grouped | {"p": (2, 2, 6, 8), "q": (2, 2, 6, 6)}, {}, {}),
    ]
    for names, shapes, more, given in caches:
        made = node("Attention", f"x z u {'m' if given else '-'} p q", "y", **more)
        made.output[:] = [*names.split(), "v", "w"][:3]
        for opset in (23, 24):
            yield Case([made], shapes, {}, opset=opset, given=given)


def _quantized() -> Iterator[Case]:
    rng = np.random.default_rng(8)
    for kind in (np.int8, np.uint8):
        low, high = np.iinfo(kind).min, np.iinfo(kind).max

        def whole(*shape: int, kind: Any = kind, low: int = low, high: int = high) -> Array:
            return rng.integers(low, high, shape, kind, endpoint=True)

        one: dict[str, Array] = {"q": whole(7, 5), "s": np.array(0.02, np.float32), "o": whole()}
        many: dict[str, Array] = {"q": whole(7, 5), "s": _weight(5) / 50, "o": whole(5)}
        for constants in (one, many):
            yield Case([node("DequantizeLinear", "q s o", "w"), node("MatMul", "x w")], {"x": (3, 7)}, constants)
        yield Case(
            [node("DequantizeLinear", "q s", "w"), node("MatMul", "x w")], {"x": (3, 7)}, {"q": one["q"], "s": one["s"]}
        )
        weights = node("DequantizeLinear", "q s", "w", axis=0)
        bias = node("DequantizeLinear", "p s", "b", axis=0)
        kernel: dict[str, Array] = {"q": whole(4, 6, 3, 3), "s": abs(_weight(4)) / 50, "p": whole(4).astype(np.int32)}
        yield Case([weights, bias, node("Conv", "x w b")], {"x": IMAGE}, kernel)


def _selection() -> Iterator[Case]:
    for name in ("ArgMax", "ArgMin"):
        yield Case([node(name, "x", axis=1)], {"x": (3, 5, 7)}, {}, kind=TensorProto.INT64)
        yield Case([node(name, "x", axis=-1, keepdims=0)], {"x": (3, 5, 7)}, {}, kind=TensorProto.INT64)
    for more in ({}, {"largest": 0}, {"axis": 1}):
        yield Case([node("TopK", "x k", "y i", **more)], {"x": (3, 5, 7)}, {"k": _numbers(3)})
        made = [node("TopK", "x k", "v y", **more)]
        yield Case(made, {"x": (3, 5, 7)}, {"k": _numbers(2)}, kind=TensorProto.INT64)


def _theirs(op_type: str, inputs: str, outputs: str = "y", **attributes: Any) -> NodeProto:
    """A node of com.microsoft."""
    made = node(op_type, inputs, domain=MICROSOFT, **attributes)
    made.output[:] = ["" if name == "-" else name for name in outputs.split()]
    return made


def _contributed() -> Iterator[Case]:
    for name in ("Gelu", "QuickGelu", "FastGelu"):
        yield _one(_theirs(name, "x"), (3, 5, 7))
    yield _one(_theirs("QuickGelu", "x", alpha=0.5), (3, 7))
    for name in ("BiasGelu", "FastGelu"):
        yield _one(_theirs(name, "x b"), (3, 5, 7), b=_weight(7))
    scale: dict[str, Any] = {"s": _weight(8), "o": _weight(8), "b": _weight(8)}
    yield _one(_theirs("SkipLayerNormalization", "x z s o b", epsilon=1e-5), (2, 3, 8), (2, 3, 8), **scale)
    yield _one(_theirs("SkipLayerNormalization", "x z s", "y - - t"), (2, 3, 8), (3, 8), s=_weight(8))
    simplified = "SkipSimplifiedLayerNormalization"
    yield _one(_theirs(simplified, "x z s b", epsilon=1e-5), (2, 3, 8), (2, 3, 8), s=scale["s"], b=scale["b"])
    yield _one(_theirs(simplified, "x z s", "t - - y"), (2, 3, 8), (1, 3, 8), s=_weight(8))
    yield _one(node("SimplifiedLayerNormalization", "x s", epsilon=1e-3), (2, 3, 8), s=_weight(8))
    yield _one(_theirs("FusedMatMul", "x z", alpha=0.5, transA=1), (2, 7, 5), (7, 4))
    yield _one(_theirs("FusedMatMul", "x w", transB=1), (2, 3, 5, 7), w=_weight(11, 7))
    yield _one(_theirs("FusedGemm", "x w b", activation="Tanh", transB=1), (5, 7), w=_weight(11, 7), b=_weight(11))
    kernel: dict[str, Any] = {"w": _weight(8, 6, 3, 3), "b": _weight(8)}
    yield _one(_theirs("FusedConv", "x w b", activation="Relu", pads=[1, 1, 1, 1]), IMAGE, **kernel)
    parameters = {"Clip": [-1.0, 2.0], "HardSigmoid": [0.3, 0.25], "LeakyRelu": [0.2]}
    for name, numbers in parameters.items():
        yield _one(_theirs("FusedConv", "x w b", activation=name, activation_params=numbers), IMAGE, **kernel)
    yield _one(_theirs("FusedConv", "x w b z", pads=[1, 1, 1, 1], activation="Sigmoid"), IMAGE, (2, 8, 7, 9), **kernel)
    rng = np.random.default_rng(5)
    for bits, points in ((4, False), (4, True), (8, False), (8, True)):
        packed = rng.integers(0, 256, (6, 3, 16 * bits // 8), dtype=np.uint8)
        given: dict[str, Any] = {"q": packed, "s": abs(_weight(6, 3)) / 20, "b": _weight(6)}
        if points:
            given["p"] = rng.integers(0, 256, (6, 2 if bits == 4 else 3), dtype=np.uint8)
        made = _theirs("MatMulNBits", f"x q s {'p' if points else '-'} - b", K=48, N=6, bits=bits, block_size=16)
        yield _one(made, (2, 3, 48), **given)


def _contributed_attention() -> Iterator[Case]:
    weights: dict[str, Any] = {"w": _weight(8, 36), "b": _weight(36)}
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
    yield _one(_theirs("Attention", "x w b", num_heads=3), (2, 5, 8), **weights)
    yield _one(_theirs("Attention", "x w b", num_heads=3, unidirectional=1, scale=0.5), (2, 5, 8), **weights)
    for given in (mask, mask.sum(1, dtype=np.int32)):
        yield Case([_theirs("Attention", "x w b m", num_heads=3)], {"x": (2, 5, 8)}, weights, given={"m": given})
    sizes = _theirs("Attention", "x w b - - z", num_heads=3, qkv_hidden_sizes=[12, 12, 6])
    yield _one(sizes, (2, 5, 8), (1, 3, 5, 5), w=_weight(8, 30), b=_weight(30))
    several = "MultiHeadAttention"
    yield _one(_theirs(several, "x z u", num_heads=3), (2, 5, 12), (2, 7, 12), (2, 7, 6))
    yield _one(_theirs(several, "x z u b", num_heads=3), (2, 5, 12), (2, 7, 12), (2, 7, 6), b=_weight(30))
    yield _one(_theirs(several, "x z u", num_heads=3, unidirectional=1), (2, 5, 12), (2, 5, 12), (2, 5, 12))
    yield _one(_theirs(several, "x z u", num_heads=3, scale=0.2), (2, 5, 12), (2, 3, 7, 4), (2, 3, 7, 4))
    for given in (mask, mask.sum(1, dtype=np.int32)):
        made = _theirs(several, "x z u - m", num_heads=3)
        yield Case([made], {"x": (2, 4, 12), "z": (2, 5, 12), "u": (2, 5, 12)}, {}, given={"m": given})
    for form in ("", "unidirectional"):
        made = _theirs(several, "x z u - - - p q", "y s t", num_heads=3, **({form: 1} if form else {}))
        yield _one_of(made, (2, 4, 12), (2, 4, 12), (2, 4, 12), (2, 3, 5, 4), (2, 3, 5, 4))
    kept = np.array([[1] * 7 + [0, 0], [0] + [1] * 8], np.int32)
    made = _theirs(several, "x z u b m - p q", "r y t", num_heads=3)
    shapes: dict[str, tuple[int, ...]] = {"x": (2, 4, 12), "z": (2, 4, 12), "u": (2, 4, 12), "p": (2, 3, 5, 4)}
    yield Case([made], shapes | {"q": (2, 3, 5, 4)}, {"b": _weight(36)}, given={"m": kept})
    for causal in (0, 1):
        for names in ("y p", "p y"):
            made = _theirs("Attention", "x w b - z", names, num_heads=3, unidirectional=causal)
            yield _one(made, (2, 5, 8), (2, 2, 3, 4, 4), **weights)
    biased = _theirs(several, "x z u - - s", num_heads=3)
    yield Case([biased], {"x": (2, 4, 12), "z": (2, 5, 12), "u": (2, 5, 12), "s": (1, 3, 4, 5)}, {})


def _one_of(made: NodeProto, *shapes: tuple[int, ...]) -> Case:
    """Return a case whose inputs have the node's names for them."""
    return Case([made], dict(zip(filter(None, made.input), shapes, strict=True)), {})


def _grouped() -> Iterator[Case]:
    """The lengths of all sequences are constants, and those of the operands and the cache together."""
    table: dict[str, Any] = {"c": _weight(16, 8), "s": _weight(16, 8)}
    for (batch, past), form in product(((2, 0), (1, 6)), ("", "do_rotary", "rotary_interleaved")):
        more = {"do_rotary": 1, form: 1} if form else {}
        counts = {"n": np.full(batch, past + 2, np.int32), "t": np.array(past + 3, np.int32)}
        names = f"x z u {'p q' if past else '- -'} n t" + (" c s" if form else "")
        made = _theirs("GroupQueryAttention", names, "y k v" if past else "y", num_heads=4, kv_num_heads=2, **more)
        shapes: dict[str, tuple[int, ...]] = {"x": (batch, 3, 64), "z": (batch, 3, 32), "u": (batch, 3, 32)}
        shapes |= {"p": (batch, 2, past, 16), "q": (batch, 2, past, 16)} if past else {}
        yield Case([made], shapes, counts | (table if form else {}))


def _embedding() -> Iterator[Case]:
    rng = np.random.default_rng(22)
    tables: dict[str, Any] = {"w": _weight(9, 8), "p": _weight(7, 8), "k": _weight(2, 8), "s": _weight(8)}
    given: dict[str, Array] = {"x": rng.integers(0, 9, (2, 5), np.int32), "z": rng.integers(0, 2, (2, 5), np.int32)}
    kind, whole = "EmbedLayerNormalization", "x z w p k s b m"
    tables["b"] = _weight(8)
    few = {name: tables[name] for name in "wpsb"}
    yield Case([_theirs(kind, "x - w p - s b", "y -")], {}, few, given={"x": given["x"]})
    for names in ("y n", "r n y"):
        given = given | {"m": rng.integers(0, 2, (2, 5), np.int32)}
        yield Case([_theirs(kind, whole, names)], {}, tables, given=given)
    counted = {"x": given["x"], "i": rng.integers(0, 7, (2, 5), np.int32)}
    yield Case([_theirs(kind, "x - w p - s b - i", "y -", epsilon=0.1)], {}, few, given=counted)


def _rotary() -> Iterator[Case]:
    positions = np.array([[3, 1, 0, 2, 6], [4, 5, 6, 7, 0]])
    table: dict[str, Any] = {"c": _weight(8, 4), "s": _weight(8, 4)}
    for interleaved in (0, 1):
        cases: list[tuple[tuple[int, ...], dict[str, Any]]]
        cases = [((2, 5, 24), {}), ((2, 3, 5, 8), {}), ((2, 5, 36), {"num_heads": 3})]
        for shape, more in cases:
            size: dict[str, Any] = {"rotary_embedding_dim": 8} if more else {}
            made = _theirs("RotaryEmbedding", "x i c s", interleaved=interleaved, **more, **size)
            yield Case([made], {"x": shape}, table, given={"i": positions})
            heads: dict[str, Any] = {"num_heads": 3} if len(shape) == 3 else {}
            own = node("RotaryEmbedding", "x c s i", interleaved=interleaved, **heads, **size)
            yield Case([own], {"x": shape}, table, opset=23, given={"i": positions})
        first = _theirs("RotaryEmbedding", "x i c s", interleaved=interleaved)
        yield Case([first], {"x": (2, 5, 24)}, table, given={"i": np.array([2])})
        places = node("RotaryEmbedding", "x z u", interleaved=interleaved, num_heads=3)
        yield Case([places], {"x": (2, 5, 24), "z": (2, 5, 4), "u": (2, 5, 4)}, {}, opset=23)


_FAMILIES = (
    _elementwise,
    _products,
    _movement,
    _windows,
    _reductions,
    _normalizations,
    _resizing,
    _sampling,
    _lengths,
    _without_axes,
    _recurrent,
    _simple_layers,
    _logic,
    _integers,
    _indices_from_the_back,
    _quotients,
    _attention,
    _quantized,
    _selection,
    _contributed,
    _contributed_attention,
    _grouped,
    _embedding,
    _rotary,
)
CASES = {
    f"{number} {case.nodes[0].op_type}": case
    for number, case in enumerate(case for family in _FAMILIES for case in family())
}

"""A few nodes of every operator that the provider takes, with their inputs and constants."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from onnx import NodeProto, TensorProto

from providers.xnnpack.tests.models import model, node

__all__ = ["CASES", "Case"]

Array = np.ndarray[Any, Any]
IMAGE = (2, 6, 7, 9)


class Case(NamedTuple):
    """One or more nodes that compute ``y``.

    Attributes:
        nodes: The nodes.
        shapes: Shape of each input.
        constants: Their constants.
        opset: Version of ONNX's operators.
    """

    nodes: list[NodeProto]
    shapes: dict[str, tuple[int, ...]]
    constants: dict[str, Array]
    opset: int = 20

    def feeds(self) -> dict[str, Array]:
        """Numbers on both sides of zero, the same each time."""
        rng = np.random.default_rng(zlib.crc32(str(self.nodes).encode()))
        return {name: rng.normal(0, 2, shape).astype(np.float32) for name, shape in self.shapes.items()}

    def model(self, *, dynamic: bool = False) -> bytes:
        """The model."""
        return model(self.nodes, self.feeds(), self.constants, opset=self.opset, dynamic=dynamic)


def _weight(*shape: int) -> Array:
    rng = np.random.default_rng(zlib.crc32(bytes(shape)))
    return rng.normal(0, 1, shape).astype(np.float32)


def _numbers(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


def _one(made: NodeProto, *shapes: tuple[int, ...], **constants: Array) -> Case:
    return Case([made], dict(zip(("x", "z", "u"), shapes, strict=False)), constants)


def _convolutions() -> Iterator[Case]:
    forms: list[tuple[int, tuple[int, ...], dict[str, Any]]] = [
        (1, (8, 6, 3, 3), {}),
        (1, (5, 6, 1, 1), {}),
        (1, (5, 6, 3, 2), {"strides": [2, 1], "dilations": [1, 2], "pads": [1, 0, 2, 1]}),
        (2, (8, 3, 3, 3), {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
        (6, (6, 1, 3, 3), {"auto_pad": "SAME_LOWER", "strides": [2, 2]}),
        (6, (12, 1, 3, 5), {"pads": [1, 2, 1, 2]}),
    ]
    for group, weight, more in forms:
        made = node("Conv", "x w b", group=group, **more)
        yield _one(made, IMAGE, w=_weight(*weight), b=_weight(weight[0]))
        yield _one(node("Conv", "x w", group=group, **more), IMAGE, w=_weight(*weight))
    yield _one(node("Conv", "x w b", pads=[1, 1]), (2, 4, 9), w=_weight(3, 4, 3), b=_weight(3))
    yield _one(node("Conv", "x w", group=4), (2, 4, 9), w=_weight(4, 1, 3))
    for taps in ((1, 1), (1, 5), (4, 4)):  # for which XNNPACK has no code without taps of weight 0
        yield _one(node("Conv", "x w", group=4), (1, 4, 7, 8), w=_weight(4, 1, *taps))
        yield _one(node("Conv", "x w"), (1, 1, 7, 8), w=_weight(1, 1, *taps))
    transposed: list[tuple[int, tuple[int, ...], dict[str, Any]]] = [
        (1, (6, 4, 3, 3), {}),
        (1, (6, 4, 2, 3), {"strides": [2, 3], "output_padding": [1, 0], "pads": [1, 0, 0, 1]}),
        (2, (6, 2, 3, 3), {"strides": [2, 2], "dilations": [2, 1]}),
        (3, (6, 1, 3, 3), {}),
    ]
    for group, weight, more in transposed:
        made = node("ConvTranspose", "x w b", group=group, **more)
        yield _one(made, IMAGE, w=_weight(*weight), b=_weight(weight[1] * group))
    yield _one(node("ConvTranspose", "x w", strides=[2]), (2, 4, 9), w=_weight(4, 3, 3))
    chain = [node("Conv", "x w b", "c"), node("Relu", "c", "r"), node("Conv", "r v", "d"), node("Add", "d r", "y")]
    yield Case(chain, {"x": IMAGE}, {"w": _weight(6, 6, 1, 1), "b": _weight(6), "v": _weight(6, 6, 1, 1)})


def _products() -> Iterator[Case]:
    yield _one(node("MatMul", "x w"), (5, 7), w=_weight(7, 11))
    yield _one(node("MatMul", "x w"), (2, 3, 5, 7), w=_weight(7, 11))
    yield _one(node("MatMul", "x w"), (3, 5, 7), w=_weight(3, 7, 4))
    yield _one(node("MatMul", "x z"), (5, 7), (7, 11))
    yield _one(node("MatMul", "x z"), (2, 3, 5, 7), (3, 7, 11))
    yield _one(node("MatMul", "x z"), (2, 1, 5, 7), (1, 3, 7, 4))
    yield _one(node("Gemm", "x w b"), (5, 7), w=_weight(7, 11), b=_weight(11))
    yield _one(node("Gemm", "x w b", transB=1), (5, 7), w=_weight(11, 7), b=_weight(1, 11))
    yield _one(node("Gemm", "x w b", transB=1), (5, 7), w=_weight(11, 7), b=_weight(5, 1))
    yield _one(node("Gemm", "x w z"), (5, 7), (5, 11), w=_weight(7, 11))
    yield _one(node("Gemm", "x w"), (5, 7), w=_weight(7, 11))


def _elementwise() -> Iterator[Case]:
    for name in ("Abs", "Elu", "HardSigmoid", "HardSwish", "LeakyRelu", "Neg", "Relu", "Round", "Sigmoid", "Tanh"):
        yield _one(node(name, "x"), (3, 5, 7))
    yield _one(node("Gelu", "x"), (3, 5, 7))
    yield _one(node("Gelu", "x", approximate="tanh"), (3, 5, 7))
    yield _one(node("Elu", "x", alpha=0.5), (37,))
    yield _one(node("LeakyRelu", "x", alpha=-0.5), (37,))
    yield _one(node("HardSigmoid", "x", alpha=0.5, beta=0.25), (37,))
    yield _one(node("Clip", "x low high"), (3, 5, 7), low=np.array(-1, np.float32), high=np.array(0.5, np.float32))
    yield _one(node("Clip", "x - high"), (3, 5, 7), high=np.array(0.5, np.float32))
    for name in ("Add", "Sub", "Mul", "Div", "Max", "Min", "PRelu"):
        yield _one(node(name, "x z"), (2, 3, 5, 7), (2, 3, 5, 7))
        yield _one(node(name, "x z"), (2, 3, 5, 7), (5, 1))
        yield _one(node(name, "x c"), (2, 3, 5, 7), c=_weight(3, 1, 1))
    for name in ("Add", "Div"):
        yield _one(node(name, "x z"), (5, 1), (2, 3, 1, 7))
        yield _one(node(name, "c x"), (2, 3, 5, 7), c=_weight(1))
    for name in ("Sum", "Max"):
        yield _one(node(name, "x z u"), (2, 3, 7), (3, 1), (7,))
    for other in ((6, 1, 1), (1, 6, 1, 1), (9,), (2, 6, 7, 9)):
        chain = [node("Conv", "x w", "c"), node("Mul", "c z", "m"), node("Add", "m k", "y")]
        yield Case(chain, {"x": IMAGE, "z": other}, {"w": _weight(6, 6, 1, 1), "k": _weight(6, 1, 1)})


def _movement() -> Iterator[Case]:
    yield _one(node("Transpose", "x", perm=[0, 2, 3, 1]), IMAGE)
    yield _one(node("Transpose", "x"), (2, 3, 5))
    yield _one(node("Reshape", "x shape"), (2, 3, 4, 5), shape=_numbers(0, -1, 5))
    yield _one(node("Flatten", "x", axis=2), (2, 3, 4, 5))
    yield _one(node("Flatten", "x", axis=-1), (2, 3, 4, 5))
    yield _one(node("Squeeze", "x axes"), (1, 3, 1, 5), axes=_numbers(0, -2))
    yield _one(node("Squeeze", "x"), (1, 3, 1, 5))
    yield _one(node("Unsqueeze", "x axes"), (3, 5), axes=_numbers(0, -1))
    yield _one(node("Concat", "x z", axis=-1), (2, 3, 4), (2, 3, 5))
    yield _one(node("Concat", "x c z x", axis=1), (2, 3, 4), (2, 1, 4), c=_weight(2, 2, 4))
    yield _one(
        node("Slice", "x starts ends axes"),
        (4, 6, 9),
        starts=_numbers(1, -3),
        ends=_numbers(3, 2**62),
        axes=_numbers(0, -1),
    )
    yield _one(
        node("Pad", "x pads number"), (2, 3, 4), pads=_numbers(0, 1, 2, 1, 0, 3), number=np.array(0.5, np.float32)
    )
    yield _one(node("Pad", "x pads - axes"), (2, 3, 4), pads=_numbers(1, 2, 3, 0), axes=_numbers(-1, 0))
    for mode in ("DCR", "CRD"):
        yield _one(node("DepthToSpace", "x", blocksize=2, mode=mode), (2, 12, 3, 5))
    yield _one(node("SpaceToDepth", "x", blocksize=2), (2, 3, 4, 6))
    parts = node("Split", "x sizes", "a b", axis=1)
    yield Case([parts, node("Concat", "b a", axis=1)], {"x": (2, 7, 3)}, {"sizes": _numbers(3, 4)})
    wide = [node("Conv", "x w", "c"), node("Split", "c", "a b", axis=1, num_outputs=2), node("Mul", "a b")]
    yield Case(wide, {"x": IMAGE}, {"w": _weight(6, 6, 1, 1)})
    yield Case([node("Identity", "x", "a"), node("Add", "a x")], {"x": (3, 5)}, {})
    turned = [node("Conv", "x w", "c"), node("Transpose", "c", "t", perm=[0, 2, 3, 1]), node("Softmax", "t")]
    yield Case(turned, {"x": IMAGE}, {"w": _weight(6, 6, 1, 1)})


def _windows() -> Iterator[Case]:
    for name in ("AveragePool", "MaxPool"):
        yield _one(node(name, "x", kernel_shape=[2, 3]), IMAGE)
        yield _one(node(name, "x", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]), IMAGE)
        yield _one(node(name, "x", kernel_shape=[3, 2], strides=[2, 2], ceil_mode=1), IMAGE)
        yield _one(node(name, "x", kernel_shape=[3, 3], auto_pad="SAME_UPPER", strides=[2, 2]), IMAGE)
        yield _one(node(name, "x", kernel_shape=[3], pads=[1, 1]), (2, 4, 9))
    yield _one(node("AveragePool", "x", kernel_shape=[3, 3], pads=[1, 0, 1, 2], count_include_pad=1), IMAGE)
    yield _one(node("MaxPool", "x", kernel_shape=[2, 2], dilations=[2, 3]), IMAGE)
    yield _one(node("GlobalAveragePool", "x"), IMAGE)
    yield _one(node("GlobalMaxPool", "x"), IMAGE)
    for name in ("ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum"):
        yield _one(node(name, "x axes"), (2, 3, 4, 5), axes=_numbers(1, -1))
        yield _one(node(name, "x axes", keepdims=0), (2, 3, 4, 5), axes=_numbers(2, 3))
        yield _one(node(name, "x"), (2, 3, 4, 5))
    tail = [node("Conv", "x w", "c"), node("ReduceMean", "c axes", "y", keepdims=0)]
    yield Case(tail, {"x": IMAGE}, {"w": _weight(6, 6, 1, 1), "axes": _numbers(2, 3)})


def _root_mean_squares() -> Iterator[Case]:
    yield _one(node("SimplifiedLayerNormalization", "x g", axis=-1), (2, 5, 48), g=_weight(48))
    made = node("RMSNormalization", "x g", epsilon=0.5)
    yield _one(made, (5, 48), g=_weight(48))._replace(opset=23)
    skip: dict[str, Any] = {"domain": "com.microsoft", "epsilon": 1e-3}
    yield _one(node("SkipSimplifiedLayerNormalization", "x z g", **skip), (2, 5, 48), (2, 5, 48), g=_weight(48))
    parts = [node("SkipSimplifiedLayerNormalization", "x z g b", "n - - s", **skip), node("Mul", "n s")]
    yield Case(parts, {"x": (2, 5, 48), "z": (2, 5, 48)}, {"g": _weight(48), "b": _weight(48) + 1})


def _others() -> Iterator[Case]:
    for axis in (0, 1, -1):
        yield _one(node("Softmax", "x", axis=axis), (3, 5, 7))
    statistics = {"s": _weight(6), "o": _weight(6), "m": _weight(6), "v": np.abs(_weight(6))}
    yield _one(node("BatchNormalization", "x s o m v"), IMAGE, **statistics)
    for mode, coordinates in (
        ("linear", "half_pixel"),
        ("linear", "align_corners"),
        ("linear", "asymmetric"),
        ("nearest", "asymmetric"),
    ):
        made = node(
            "Resize",
            "x - scales",
            mode=mode,
            coordinate_transformation_mode=coordinates,
            nearest_mode="floor" if mode == "nearest" else "round_prefer_floor",
        )
        yield _one(made, IMAGE, scales=np.array([1, 1, 2, 3], np.float32))
        if mode == "linear":
            made = node("Resize", "x - - sizes", mode=mode, coordinate_transformation_mode=coordinates)
            yield _one(made, IMAGE, sizes=_numbers(*IMAGE[:2], 5, 11))


def _conversions() -> Iterator[Case]:
    for zero in (np.int8(0), np.int8(-7), np.uint8(0), np.uint8(131)):
        numbers: dict[str, Array] = {"s": np.array(0.047, np.float32), "z": np.array(zero)}
        both = [node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z")]
        yield Case(both, {"x": IMAGE}, numbers)

    casts = [node("Cast", "x", "h", to=TensorProto.FLOAT16), node("Cast", "h", to=TensorProto.FLOAT)]
    yield Case(casts, {"x": IMAGE}, {})


_FAMILIES = (_convolutions, _products, _elementwise, _movement, _windows, _root_mean_squares, _others, _conversions)
CASES = {
    f"{number} {case.nodes[0].op_type}": case
    for number, case in enumerate(case for family in _FAMILIES for case in family())
}
"""All cases, by names that differ."""

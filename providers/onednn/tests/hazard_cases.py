"""Small models of every operator that might lose NaN or an infinity, and the comparison of their runs with NumPy's.

``python -m providers.onednn.tests.hazard_cases THREADS`` prints what differs, a line each: tests run it in processes
that are held to older instructions, because oneDNN reads that from the environment once.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import NodeProto

import ort_py as ort
from providers.onednn.tests.models import PROVIDER, model, node, open_session

__all__ = ["Case", "all_cases", "differences", "idle_declines"]

_PLACES = 7
_VALUES = (np.nan, np.inf, -np.inf)
_FUNCTIONS = (
    *("Abs", "Celu", "Elu", "Exp", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Mish", "Neg", "Reciprocal"),
    *("Relu", "Round", "Selu", "Sigmoid", "Softsign", "Sqrt", "Tanh"),
)
_FLOAT = np.float32


@dataclass(frozen=True, slots=True)
class Case:
    """A model with its inputs.

    Attributes:
        name: For messages.
        data: The model.
        feeds: Ordinary inputs, by name.
    """

    name: str
    data: bytes
    feeds: dict[str, np.ndarray[Any, Any]]


class _Maker:
    """Makes cases of seeded numbers."""

    def __init__(self) -> None:
        self._random = np.random.default_rng(0)

    def array(self, *shape: int) -> np.ndarray[Any, Any]:
        return self._random.standard_normal(shape).astype(_FLOAT)

    def positive(self, *shape: int) -> np.ndarray[Any, Any]:
        found: np.ndarray[Any, Any] = np.abs(self.array(*shape)) + _FLOAT(0.1)
        return found

    def bytes_of(self, *shape: int) -> np.ndarray[Any, Any]:
        return self._random.integers(-127, 127, shape).astype(np.int8)

    def case(self, name: str, nodes: Sequence[NodeProto], feeds: dict[str, Any], **constants: Any) -> Case:
        arrays = {key: np.asarray(value) for key, value in constants.items()}
        return Case(name, model(nodes, feeds, arrays), feeds)


def all_cases() -> Iterator[Case]:
    """Every case."""
    make = _Maker()
    yield from _functions(make)
    yield from _pairs(make)
    yield from _windows(make)
    yield from _rows(make)
    yield from _products(make)
    yield from _integers(make)


def _functions(make: _Maker) -> Iterator[Case]:
    bounds = {"low": _FLOAT(0), "high": _FLOAT(6)}
    chains: list[tuple[str, list[NodeProto], dict[str, Any]]] = [
        (name, [node(name, "x", "y")], {}) for name in _FUNCTIONS
    ]
    chains.append(("Clip", [node("Clip", "x low high", "y")], bounds))
    chains.append(("Swish", [node("Sigmoid", "x", "g"), node("Mul", "x g", "y")], {}))
    chains.append(("tanh Gelu", [node("Gelu", "x", "y", approximate="tanh")], {}))
    chains += [(f"Pow {power}", [node("Pow", "x e", "y")], {"e": _FLOAT(power)}) for power in (-1, 0.5, 2, 3)]
    for name, nodes, constants in chains:
        yield make.case(name, nodes, {"x": make.positive(3, 37)}, **constants)
        yield make.case(f"large {name}", nodes, {"x": make.positive(64, 1024)}, **constants)
        behind = [
            node(one.op_type, " ".join("c" if i == "x" else i for i in one.input), one.output[0]) for one in nodes
        ]
        if len(nodes) > 1 or nodes[0].attribute:
            continue
        conv = [node("Conv", "x w", "c"), *behind]
        yield make.case(
            f"Conv and {name}", conv, {"x": make.positive(1, 5, 9, 9)}, w=make.positive(7, 5, 3, 3), **constants
        )
        product = [node("MatMul", "x w", "c"), *behind]
        yield make.case(
            f"MatMul and {name}", product, {"x": make.positive(33, 16)}, w=make.positive(16, 19), **constants
        )


def _pairs(make: _Maker) -> Iterator[Case]:
    for name in ("Add", "Div", "Max", "Min", "Mul", "Sub"):
        for shape in ((3, 37), (37,), (3, 1)):
            yield make.case(
                f"{name} {shape}", [node(name, "x z", "y")], {"x": make.array(3, 37), "z": make.array(*shape)}
            )
        conv = [node("Conv", "x w", "c"), node(name, "c z", "y")]
        feeds = {"x": make.array(1, 5, 9, 9), "z": make.array(1, 7, 7, 7)}
        yield make.case(f"Conv and {name}", conv, feeds, w=make.array(7, 5, 3, 3))
        alone, vector = {"x": make.array(1, 5, 9, 9)}, make.array(7, 1, 1)
        yield make.case(f"Conv and {name} of channels", conv, alone, w=make.array(7, 5, 3, 3), z=vector)
        yield make.case(f"Conv and {name} of a number", conv, alone, w=make.array(7, 5, 3, 3), z=_FLOAT(1.5))
        gemm = [node("Gemm", "x w b", "c"), node(name, "c z", "d"), node("Relu", "d", "y")]
        feeds = {"x": make.array(9, 16), "z": make.array(9, 19)}
        yield make.case(f"Gemm, {name} and Relu", gemm, feeds, w=make.array(16, 19), b=make.array(19))


def _windows(make: _Maker) -> Iterator[Case]:
    shapes = ((1, 5, 9, 9), (1, 16, 9, 9), (1, 3, 5, 5, 5), (1, 3, 40), (2, 16, 48, 48))
    for shape in shapes:
        kernel = [2] * (len(shape) - 2)
        for pads in ([0], [1]):
            settings = {"kernel_shape": kernel, "strides": kernel, "pads": pads * 2 * len(kernel)}
            for name in ("AveragePool", "MaxPool"):
                yield make.case(f"{name} {shape}", [node(name, "x", "y", **settings)], {"x": make.array(*shape)})
        for name in ("GlobalAveragePool", "GlobalMaxPool"):
            yield make.case(f"{name} {shape}", [node(name, "x", "y")], {"x": make.array(*shape)})
    pool = [node("Conv", "x w", "c"), node("MaxPool", "c", "y", kernel_shape=[3, 3], strides=[2, 2])]
    yield make.case("Conv and MaxPool", pool, {"x": make.array(1, 5, 9, 9)}, w=make.array(16, 5, 3, 3))


def _rows(make: _Maker) -> Iterator[Case]:
    feeds = {"x": make.array(3, 7, 18)}
    for axis in (-1, 1, 0):
        for name in ("LogSoftmax", "Softmax"):
            yield make.case(f"{name} {axis}", [node(name, "x", "y", axis=axis)], feeds)
        for name in ("ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum"):
            yield make.case(f"{name} {axis}", [node(name, "x axes", "y")], feeds, axes=np.array([axis]))
    scale = {"s": make.array(18), "b": make.array(18)}
    yield make.case("LayerNormalization", [node("LayerNormalization", "x s b", "y")], feeds, **scale)
    yield make.case("root mean square", [node("SimplifiedLayerNormalization", "x s", "y")], feeds, s=make.array(18))
    skip = [node("Add", "x z", "t"), node("LayerNormalization", "t s b", "n"), node("Relu", "n", "y")]
    yield make.case("sum and LayerNormalization", skip, feeds | {"z": make.array(3, 7, 18)}, **scale)
    picture = {"x": make.array(1, 7, 8, 8)}
    vector = {"s": make.array(7), "b": make.array(7)}
    yield make.case("InstanceNormalization", [node("InstanceNormalization", "x s b", "y")], picture, **vector)
    statistics = vector | {"m": make.array(7), "v": make.positive(7)}
    yield make.case("BatchNormalization", [node("BatchNormalization", "x s b m v", "y")], picture, **statistics)
    yield make.case("LRN", [node("LRN", "x", "y", size=3)], picture)
    yield make.case("PRelu", [node("PRelu", "x s", "y")], picture, s=make.array(7, 1, 1))


def _products(make: _Maker) -> Iterator[Case]:
    for groups, channels in ((1, 5), (4, 8), (16, 16)):
        for size in (1, 3):
            conv = [node("Conv", "x w", "c", group=groups, pads=[size // 2] * 4), node("Relu", "c", "y")]
            weight = make.array(16, channels // groups, size, size)
            yield make.case(f"Conv {groups} {size}", conv, {"x": make.array(1, channels, 9, 9)}, w=weight)
    bare = [node("Conv", "x w", "c", pads=[3] * 4), node("Relu", "c", "y")]  # the outermost windows see padding only
    yield make.case("Conv of padding", bare, {"x": make.array(2, 16, 7, 7)}, w=make.array(5, 16, 3, 3))
    for name in ("Relu", "Sigmoid"):  # Four channels fill a part of a block only.
        turned = [node("ConvTranspose", "x w", "c", strides=[2, 2]), node(name, "c", "y")]
        yield make.case(f"ConvTranspose {name}", turned, {"x": make.array(1, 8, 5, 5)}, w=make.array(8, 4, 3, 3))
    yield make.case("MatMul", [node("MatMul", "x z", "y")], {"x": make.array(2, 5, 9), "z": make.array(2, 9, 4)})
    for kind, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
        weights = {"w": make.array(1, 8 * gates, 6), "q": make.array(1, 8 * gates, 8), "b": make.array(1, 16 * gates)}
        yield make.case(kind, [node(kind, "x w q b", "y", hidden_size=8)], {"x": make.array(5, 2, 6)}, **weights)
    heads = {"domain": "com.microsoft", "num_heads": 2}
    feeds = {"x": make.array(1, 6, 16), "k": make.array(1, 7, 16), "v": make.array(1, 7, 16)}
    yield make.case("attention", [node("MultiHeadAttention", "x k v", "y", **heads)], feeds)
    masked = feeds | {"m": make.array(1, 1, 6, 7)}
    yield make.case("masked attention", [node("MultiHeadAttention", "x k v - - m", "y", **heads)], masked)
    past = {"x": feeds["x"], "k": make.array(1, 6, 16), "v": make.array(1, 6, 16), "m": make.array(1, 1, 6, 11)}
    past |= {"pk": make.array(1, 2, 5, 8), "pv": make.array(1, 2, 5, 8)}
    nodes = [node("MultiHeadAttention", "x k v - - m pk pv", "a", **heads), node("Relu", "a", "y")]
    yield make.case("attention to a past", nodes, past)


def _integers(make: _Maker) -> Iterator[Case]:
    for zero in (np.uint8(128), np.int8(3)):
        both = [node("QuantizeLinear", "x s p", "q"), node("DequantizeLinear", "q s p", "y")]
        yield make.case(f"quantised {zero.dtype}", both, {"x": make.array(3, 37)}, s=_FLOAT(0.05), p=zero)
    product = [node("DequantizeLinear", "q s p", "w"), node("MatMul", "x w", "y")]
    weights = {"q": make.bytes_of(64, 32), "s": _FLOAT(0.01), "p": np.int8(0)}
    yield make.case("MatMul of bytes", product, {"x": make.array(4, 64)}, **weights)
    dynamic = [
        node("DynamicQuantizeLinear", "x", "q s z"),
        node("MatMulInteger", "q w z", "i"),
        node("Cast", "i", "c", to=1),
        node("Mul", "c s", "y"),
    ]
    yield make.case("DynamicQuantizeLinear", dynamic, {"x": make.array(4, 64)}, w=make.bytes_of(64, 32))


def differences(case: Case, threads: int) -> Iterator[str]:
    """Where NaN and infinities of the provider's results are not those of the NumPy provider's."""
    options = ort.SessionOptions()
    options.pin_cpu = True
    plain = ort.InferenceSession(case.data, options, providers=["CPUExecutionProvider"])
    with open_session(case.data, threads) as session, plain:
        if PROVIDER not in session.placement.counts():
            return  # this processor lacks instructions for it
        for name, array in case.feeds.items():
            for place in np.unique(np.linspace(0, array.size - 1, _PLACES).astype(int)):
                for value in _VALUES:
                    changed = array.copy()
                    changed.reshape(-1)[place] = value
                    feeds = case.feeds | {name: changed}
                    for found, wanted in zip(session.run(None, feeds), plain.run(None, feeds), strict=True):
                        if not np.array_equal(_kinds(found), _kinds(wanted)):
                            yield f"{case.name}: {value} at {place} of {name}"


def idle_declines(case: Case, threads: int) -> str:
    """The remarks of the session's plan about declined runs after ordinary ones; empty if there was none."""
    with open_session(case.data, threads) as session:
        session.run(None, case.feeds)
        session.run(None, case.feeds)
        return "" if "declined" not in session.plan else f"{case.name}: declined an ordinary run"


def _kinds(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """1 for NaN, 2 for infinity, 3 for its negative, else 0."""
    found = np.isnan(array) * 1 + np.isposinf(array) * 2 + np.isneginf(array) * 3
    return np.asarray(found)


if __name__ == "__main__":
    for one in all_cases():
        for line in (*differences(one, int(sys.argv[1])), idle_declines(one, int(sys.argv[1]))):
            if line:
                sys.stdout.write(f"{line}\n")

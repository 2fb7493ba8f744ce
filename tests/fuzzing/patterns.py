"""Models as exporters write them, as ONNX text with sizes drawn from a seed: gates, decomposed normalisations, rotary
embeddings, quantised residuals, odd convolutions, recurrent layers in both directions, Resize, Loop, Scan, sequences.

Written apart from `forms`, so that what one does not think of the other may. Knows nothing of sessions.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnx.parser

from tests.fuzzing.cases import Case

__all__ = ["PATTERNS", "draw_pattern"]

Arrays = dict[str, np.ndarray[Any, Any]]
Drawn = tuple[int, str, Arrays, Arrays]
"""Operator set version, body, inputs, and constants."""


def draw_pattern(name: str, seed: int) -> Case:
    """The case of a pattern and a seed, with two runs of one session."""
    rng, numbers = random.Random(f"{name} {seed}"), np.random.default_rng(seed)
    opset, body, feeds, constants = PATTERNS[name](rng, numbers)
    declared = ", ".join(f"{_type(array)} {key}" for key, array in feeds.items())
    text = (
        f'<ir_version: 8, opset_import: ["" : {opset}, "com.microsoft" : 1]> g ({declared}) => (float[] y) {{ {body} }}'
    )
    model = onnx.parser.parse_model(text)
    model.graph.initializer.extend([onnx.numpy_helper.from_array(array, key) for key, array in constants.items()])
    if rng.random() < 0.4:
        for one in model.graph.input:
            for axis, dim in enumerate(one.type.tensor_type.shape.dim):
                dim.dim_param = f"{one.name}_{axis}"
    again = {key: numbers.permutation(array.reshape(-1)).reshape(array.shape) for key, array in feeds.items()}
    return Case(model, [feeds, again if not name.startswith("recurrent") else feeds], f"{name} {seed}")


def _type(array: np.ndarray[Any, Any]) -> str:
    kind = {"float32": "float", "bool": "bool"}.get(array.dtype.name, array.dtype.name)
    return f"{kind}[{','.join(map(str, array.shape))}]" if array.ndim else kind


def _floats(numbers: np.random.Generator, *shape: int) -> np.ndarray[Any, Any]:
    return numbers.standard_normal(shape).astype(np.float32)


def _ints(*entries: int) -> np.ndarray[Any, Any]:
    return np.array(entries, np.int64)


def _gates(rng: random.Random, numbers: np.random.Generator) -> Drawn:
    width, rows = rng.choice((1, 2, 5, 8, 16, 33)), rng.choice((1, 3, 7))
    half = rng.choice(
        (
            "a, b = Split<axis = -1>(h)",
            "a = Slice(h, zero, mid, last) b = Slice(h, mid, far, last)",
            "b = Slice(h, zero, mid, last) a = Slice(h, mid, far, last)",
        )
    )
    gate = rng.choice(
        (
            "g = Sigmoid(b) c = Mul(a, g)",
            "s = Sigmoid(b) g = Mul(b, s) c = Mul(g, a)",
            "t = Tanh(a) s = Sigmoid(b) c = Mul(t, s)",
            "d = Div(b, root) e = Erf(d) f = Add(e, one) k = Mul(b, f) l = Mul(k, half) c = Mul(a, l)",
            "g = Relu(b) q = Mul(g, g) c = Mul(q, a)",
            "p = Softplus(b) t = Tanh(p) g = Mul(b, t) c = Add(g, a)",
            "m = Add(b, three) n = Clip(m, low, six) o = Mul(b, n) q = Div(o, six) c = Sub(q, a)",
        )
    )
    tail = rng.choice(("y = Add(c, b)", "y = Mul(c, c)", "y = Identity(c)", "z = Concat<axis = -1>(c, a) y = Abs(z)"))
    constants = {
        "w": _floats(numbers, 4, 2 * width), "zero": _ints(0), "mid": _ints(width), "far": _ints(2**63 - 1),
        "last": _ints(-1), "root": np.float32(2**0.5) * np.ones((), np.float32), "one": np.ones((), np.float32),
        "half": np.full((), 0.5, np.float32), "three": np.full((), 3, np.float32), "low": np.zeros((), np.float32),
        "six": np.full((), 6, np.float32),
    }  # fmt: skip
    return 17, f"h = MatMul(x, w) {half} {gate} {tail}", {"x": _floats(numbers, 2, rows, 4)}, constants


def _normalisations(rng: random.Random, numbers: np.random.Generator) -> Drawn:
    width = rng.choice((1, 2, 7, 8, 16, 31))
    square = rng.choice(("q = Mul(d, d)", "q = Pow(d, two)"))
    centred = rng.choice(("m = ReduceMean<axes = [-1]>(h) d = Sub(h, m)", "d = Identity(h)"))
    divided = rng.choice(
        (
            "r = Sqrt(e) n = Div(d, r)",
            "r = Sqrt(e) i = Reciprocal(r) n = Mul(d, i)",
            "n0 = Pow(e, back) n = Mul(n0, d)",
        )
    )
    scaled = rng.choice(("s = Mul(n, g) t = Add(s, b)", "s = Mul(g, n) t = Add(b, s)", "t = Mul(n, g)"))
    skip = rng.choice(("y = Add(t, x)", "y = Add(h, t)", "y = Relu(t)"))
    body = f"h = Add(x, z) {centred} {square} v = ReduceMean<axes = [-1]>(q) e = Add(v, eps) {divided} {scaled} {skip}"
    constants = {
        "two": np.full((), 2, np.float32), "back": np.full((), -0.5, np.float32), "g": _floats(numbers, width),
        "eps": np.full(rng.choice(((), (1,))), 1e-5, np.float32), "b": _floats(numbers, width),
    }  # fmt: skip
    feeds = {"x": _floats(numbers, 2, 3, width), "z": _floats(numbers, *rng.choice(((2, 3, width), (3, 1), (width,))))}
    return 13, body, feeds, constants


def _rotary(rng: random.Random, numbers: np.random.Generator) -> Drawn:
    heads, half, length = rng.choice((1, 2, 3)), rng.choice((1, 2, 4, 8)), rng.choice((1, 2, 5))
    turned = rng.choice(
        (
            "a, b = Split<axis = -1>(q) n = Neg(b) t = Concat<axis = -1>(n, a)",
            "a = Slice(q, zero, mid, last) b = Slice(q, mid, far, last) n = Neg(b) t = Concat<axis = -1>(n, a)",
            "a = Slice(q, zero, far, last, two) b = Slice(q, one, far, last, two) n = Neg(b) "
            "c = Unsqueeze(n, last) d = Unsqueeze(a, last) f = Concat<axis = -1>(c, d) t = Reshape(f, whole)",
        )
    )
    body = (
        f"p = Reshape(x, split) q = Transpose<perm = [0, 2, 1, 3]>(p) {turned} "
        "u = Mul(q, cos) v = Mul(t, sin) r = Add(u, v) o = Transpose<perm = [0, 2, 1, 3]>(r) y = Reshape(o, flat)"
    )
    constants = {
        "zero": _ints(0), "one": _ints(1), "two": _ints(2), "mid": _ints(half), "far": _ints(2**31 - 1),
        "last": _ints(-1), "split": _ints(0, 0, heads, 2 * half), "whole": _ints(0, 0, 0, 2 * half),
        "flat": _ints(0, 0, -1), "cos": _floats(numbers, 1, 1, length, 2 * half),
        "sin": _floats(numbers, length, 2 * half),
    }  # fmt: skip
    return 18 if "Split" not in turned else 17, body, {"x": _floats(numbers, 2, length, heads * 2 * half)}, constants


def _residuals(rng: random.Random, numbers: np.random.Generator) -> Drawn:
    channels = rng.choice((1, 3, 4, 8, 17))
    kind = rng.choice((np.uint8, np.int8))
    bent = rng.choice(("c = Relu(b)", "c = Clip(b, low, six)", "c = Identity(b)", "c = Neg(b)", "c = Sigmoid(b)"))
    summed = rng.choice(("d = Add(c, r)", "d = Add(r, c)", "d = Mul(c, r)", "d = Sub(c, r)", "d = Add(c, a)"))
    group = channels if rng.random() < 0.4 else 1
    body = (
        "q = QuantizeLinear(x, s, p) a = DequantizeLinear(q, s, p) k = DequantizeLinear<axis = 0>(w, t, o) "
        f"b = Conv<group = {group}, pads = [1, 0, 0, 1]>(a, k) {bent} "
        f"r = Slice(a, zero, less, axes) {summed} e = QuantizeLinear(d, u, p) y = DequantizeLinear(e, u, p)"
    )
    constants: Arrays = {
        "s": np.full((), 0.03, np.float32), "u": np.full((), 0.11, np.float32), "low": np.zeros((), np.float32),
        "six": np.full((), 6, np.float32), "p": np.array(rng.choice((0, 3, 127)), kind), "zero": _ints(0, 0),
        "w": numbers.integers(-64, 64, (channels, channels // group, 2, 2)).astype(np.int8),
        "t": numbers.uniform(0.001, 0.02, channels).astype(np.float32), "o": np.zeros(channels, np.int8),
        "less": _ints(6, 6), "axes": _ints(2, 3),
    }  # fmt: skip
    return 13, body, {"x": _floats(numbers, 2, channels, 6, 6)}, constants


def _convolutions(rng: random.Random, numbers: np.random.Generator) -> Drawn:
    group, each, filters = rng.choice((1, 2, 3, 4)), rng.choice((1, 2, 4)), rng.choice((1, 2, 3))
    kernel = [rng.choice((1, 2, 3)), rng.choice((1, 2, 4))]
    pads = [rng.randrange(3) for _ in range(4)]
    steps, spread = [rng.choice((1, 2, 3)) for _ in "hw"], [rng.choice((1, 1, 2)) for _ in "hw"]
    attributes = f"group = {group}, pads = {pads}, strides = {steps}, dilations = {spread}"
    if rng.random() < 0.5:
        weight = _floats(numbers, group * filters, each, *kernel)
        body = f"c = Conv<{attributes}>(x, w, b) "
    else:
        weight = _floats(numbers, group * each, filters, *kernel)
        attributes = f"group = {group}, strides = {steps}, dilations = {spread}, pads = [0, 0, 0, 0]"
        body = f"c = ConvTranspose<{attributes}>(x, w, b) "
    body += rng.choice((
        "m = ReduceMean<axes = [2, 3]>(c) s = Sigmoid(m) y = Mul(c, s)",
        "n = BatchNormalization(c, g, h, i, j) y = Relu(n)",
        "n = Mul(c, v) l = Add(n, v) y = LeakyRelu<alpha = 0.1>(l)",
        "n = GlobalAveragePool(c) f = Flatten(n) y = Softmax<axis = 1>(f)",
        "f = Flatten<axis = 0>(c) y = Softmax(f)",
        "n = InstanceNormalization(c, g, h) y = PRelu(n, v)",
        "n = Max(c, v) o = Min(n, k) y = Sub(o, c)",
    ))  # fmt: skip
    made = group * filters
    constants = {
        "w": weight, "b": _floats(numbers, made), "g": _floats(numbers, made), "h": _floats(numbers, made),
        "i": _floats(numbers, made), "j": numbers.uniform(0.5, 2, made).astype(np.float32),
        "v": _floats(numbers, made, 1, 1), "k": np.full((), 0.4, np.float32),
    }  # fmt: skip
    feeds = {"x": _floats(numbers, rng.choice((1, 2)), group * each, rng.choice((8, 9)), rng.choice((8, 11)))}
    return 15, body, feeds, constants


def _recurrent(rng: random.Random, numbers: np.random.Generator) -> Drawn:
    kind, gates = rng.choice((("GRU", 3), ("LSTM", 4), ("RNN", 1)))
    steps, batch, size, hidden = rng.choice((1, 2, 5)), rng.choice((1, 3)), rng.choice((1, 4)), rng.choice((1, 3, 8))
    direction = rng.choice(("forward", "reverse", "bidirectional"))
    ways = 2 if direction == "bidirectional" else 1
    lengths = rng.random() < 0.6
    begins = rng.random() < 0.5
    extra = f", linear_before_reset = {rng.choice((0, 1))}" if kind == "GRU" else ""
    states = '"h0"' if begins else '""'
    names = f"x, w, r, b, {'n' if lengths else chr(34) * 2}, {states.strip(chr(34)) if begins else chr(34) * 2}"
    if kind == "LSTM" and begins:
        names += ", c0"
    outputs = "a, l" if kind != "LSTM" else "a, l, c"
    tail = rng.choice((
        "t = Transpose<perm = [0, 2, 1, 3]>(a) y = Reshape(t, flat)",
        "y = Add(a, l)" if ways == 1 else "y = Identity(a)",
        "t = Transpose<perm = [1, 0, 2]>(l) y = Flatten(t)",
    ))  # fmt: skip
    body = f'{outputs} = {kind}<hidden_size = {hidden}, direction = "{direction}"{extra}>({names}) {tail}'
    feeds: Arrays = {"x": _floats(numbers, steps, batch, size)}
    if lengths:
        feeds["n"] = numbers.integers(0 if rng.random() < 0.2 else 1, steps + 1, batch).astype(np.int32)
    if begins:
        feeds["h0"] = _floats(numbers, ways, batch, hidden)
        if kind == "LSTM":
            feeds["c0"] = _floats(numbers, ways, batch, hidden)
    constants = {
        "w": _floats(numbers, ways, gates * hidden, size), "r": _floats(numbers, ways, gates * hidden, hidden),
        "b": _floats(numbers, ways, 2 * gates * hidden), "flat": _ints(0, 0, -1),
    }  # fmt: skip
    return 14, body, feeds, constants


def _resizes(rng: random.Random, numbers: np.random.Generator) -> Drawn:
    opset = rng.choice((10, 11, 13, 18, 19))
    mode = rng.choice(("nearest", "linear") if opset == 10 else ("nearest", "nearest", "linear", "cubic"))
    scales = np.array([1, 1, rng.choice((0.5, 0.7, 1, 1.5, 2, 3)), rng.choice((0.4, 1, 2, 2.5))], np.float32)
    if opset == 10:
        body = f'r = Resize<mode = "{mode}">(a, scales) '
    else:
        way = rng.choice(("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"))
        rounding = rng.choice(("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"))
        names = f'mode = "{mode}", coordinate_transformation_mode = "{way}", nearest_mode = "{rounding}"'
        body = f'r = Resize<{names}>(a, "", scales) ' if opset >= 13 else f"r = Resize<{names}>(a, nothing, scales) "
    body += rng.choice(("y = Relu(r)", "y = Add(r, k)", "y = Conv(r, w)"))
    constants = {
        "scales": scales, "k": _floats(numbers, 3, 1, 1), "w": _floats(numbers, 2, 3, 1, 1),
        "nothing": np.zeros(0, np.float32),
    }  # fmt: skip
    feeds = {"x": _floats(numbers, 1, 3, rng.choice((1, 4, 5, 8)), rng.choice((2, 6, 7)))}
    return opset, f"a = Sigmoid(x) {body}", feeds, constants


def _bodies(rng: random.Random, numbers: np.random.Generator) -> Drawn:
    step = rng.choice((
        "p = MatMul(s, w) t = Tanh(p)",
        "g = Sigmoid(s) p = Mul(s, g) t = Add(p, k)",
        "m, n = Split<axis = 1>(s) p = Mul(n, m) q = Sigmoid(m) t = Concat<axis = 1>(p, q)",
        "p = Relu(s) t = Sub(p, k)",
    ))  # fmt: skip
    width = rng.choice((2, 4))
    if rng.random() < 0.5:
        body = (
            f"e, z = Loop(n, yes, x) <body = b (int64 i, bool c, float[3, {width}] s) => (bool d, float[3, {width}] t, "
            f"float[3, {width}] o) {{ d = Identity(c) {step} o = Neg(t) }}> y = Sum(e, z)"
        )
        feeds: Arrays = {"x": _floats(numbers, 3, width), "n": np.array(rng.choice((1, 2, 4)), np.int64)}
    else:
        body = (
            f"e, z = Scan<num_scan_inputs = 1, body = b (float[3, {width}] s, float[3, {width}] u) => "
            f"(float[3, {width}] v, float[3, {width}] o) {{ {step} v = Add(t, u) o = Mul(v, u) }}>(x, h) y = Add(e, z)"
        )
        feeds = {"x": _floats(numbers, 3, width), "h": _floats(numbers, rng.choice((1, 3)), 3, width)}
    constants = {"w": _floats(numbers, width, width), "k": _floats(numbers, width), "yes": np.array(True)}
    return 17, body, feeds, constants


def _sequences(rng: random.Random, numbers: np.random.Generator) -> Drawn:
    names = ["a", "b", "c", "d"][: rng.choice((1, 3, 4))]
    made = " ".join(f"{name} = {rng.choice(('Abs', 'Neg', 'Relu', 'Sin'))}(x)" for name in names)
    read = rng.choice(names)  # for the last time, by a function that could work in place
    taken = rng.choice(("q = ConcatFromSequence<axis = 1>(t)", "q = SequenceAt(t, place)"))
    body = (
        f"{made} s = SequenceConstruct({', '.join(names)}) e = {rng.choice(('Tanh', 'Exp', 'Neg'))}({read}) "
        f"t = SequenceInsert(s, {rng.choice(('e', 'x'))}{rng.choice(('', ', place'))}) {taken} "
        f"f = Sigmoid(e) y = Concat<axis = 1>(q, f)"
    )
    constants = {"place": np.array(rng.randrange(-len(names), len(names)), np.int64)}
    return 15, body, {"x": _floats(numbers, rng.choice((2, 64)), 64)}, constants


PATTERNS: dict[str, Callable[[random.Random, np.random.Generator], Drawn]] = {
    "bodies": _bodies,
    "convolutions": _convolutions,
    "gates": _gates,
    "normalisations": _normalisations,
    "recurrent": _recurrent,
    "residuals": _residuals,
    "resizes": _resizes,
    "rotary": _rotary,
    "sequences": _sequences,
}
"""By name: draws a model's body, inputs and constants."""

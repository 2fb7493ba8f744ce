"""Pools, convolutions, products, resizing and recurrent operators."""

from __future__ import annotations

from typing import Any

import numpy as np

from providers.openvino.tests.differential.case import FLOATS, Array, Case, floats, integers, pick

__all__ = ["FAMILIES"]

Rng = np.random.Generator


def _window(rng: Rng, rank: int, *, most: int = 3) -> dict[str, Any]:
    attributes: dict[str, Any] = {"kernel_shape": rng.integers(1, most + 1, rank).tolist()}
    if rng.random() < 0.7:
        attributes["strides"] = rng.integers(1, 4, rank).tolist()
    if rng.random() < 0.3:
        attributes["dilations"] = rng.integers(1, 3, rank).tolist()
    style = rng.random()
    if style < 0.2:
        attributes["auto_pad"] = str(rng.choice(["SAME_UPPER", "SAME_LOWER", "VALID"]))
    elif style < 0.75:
        kernel, dilations = attributes["kernel_shape"], attributes.get("dilations", [1] * rank)
        reach = [(size - 1) * step for size, step in zip(kernel, dilations, strict=True)]
        attributes["pads"] = [
            int(rng.integers(0, least + 1)) for least in [min(k - 1, r) for k, r in zip(kernel, reach, strict=True)] * 2
        ]
    return attributes


def _data(rng: Rng, rank: int) -> Array:
    shape = (int(rng.integers(1, 3)), int(rng.integers(1, 4)), *(int(size) for size in rng.integers(3, 9, rank)))
    return floats(rng, shape, 0.08 if rng.random() < 0.25 else 0.0)


def pool(rng: Rng) -> Case:
    """All pools."""
    rank = int(rng.integers(1, 4))
    op_type = str(rng.choice(["MaxPool", "MaxPool", "AveragePool", "AveragePool", "LpPool", "Global"]))
    data = _data(rng, rank)
    static = bool(rng.random() < 0.6)
    if op_type == "Global":
        kind = str(rng.choice(["GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool"]))
        return Case(kind, [data], {"p": int(rng.integers(1, 4))} if kind == "GlobalLpPool" else {}, static=static)
    attributes = _window(rng, rank)
    opset = int(rng.choice([10, 12, 19, 22])) if op_type != "LpPool" else int(rng.choice([11, 18, 22]))
    if op_type != "MaxPool" and (opset < 19 if op_type == "AveragePool" else opset < 18):
        attributes.pop("dilations", None)
    if rng.random() < 0.5 and (op_type != "LpPool" or opset >= 18):
        attributes["ceil_mode"] = 1
    if op_type == "AveragePool" and rng.random() < 0.6:
        attributes["count_include_pad"] = 1
    if op_type == "LpPool":
        attributes["p"] = int(rng.integers(1, 4))
    outputs = 1
    if op_type == "MaxPool" and rng.random() < 0.3:
        outputs = 2
        if rng.random() < 0.3:
            attributes["storage_order"] = 1
    if op_type == "MaxPool" and opset >= 12 and rng.random() < 0.1:
        data = integers(rng, data.shape, pick(rng, [np.int8, np.uint8]))
    return Case(op_type, [data], attributes, opset, outputs, static=static)


def convolution(rng: Rng) -> Case:
    """Convolutions, with groups, both ways."""
    rank = int(rng.integers(1, 4))
    group = int(rng.choice([1, 1, 2]))
    ins, outs = group * int(rng.integers(1, 3)), group * int(rng.integers(1, 3))
    attributes = _window(rng, rank)
    kernel = attributes["kernel_shape"]
    if rng.random() < 0.3:
        attributes.pop("kernel_shape")
    attributes["group"] = group
    data = floats(rng, (int(rng.integers(1, 3)), ins, *(int(size) for size in rng.integers(5, 9, rank))))
    constants = frozenset({1, 2}) if rng.random() < 0.6 else frozenset[int]()
    static = bool(rng.random() < 0.6)
    bias = None if rng.random() < 0.5 else floats(rng, (outs,))
    if rng.random() < 0.55:
        weights = floats(rng, (outs, ins // group, *kernel))
        return Case("Conv", [data, weights, bias], attributes, static=static, constants=constants)
    weights = floats(rng, (ins, outs // group, *kernel))
    if rng.random() < 0.3 and "strides" in attributes:
        attributes["output_padding"] = [int(rng.integers(0, step)) for step in attributes["strides"]]
    if rng.random() < 0.15 and "pads" in attributes:
        steps = attributes.get("strides", [1] * rank)
        attributes.pop("pads")
        attributes["output_shape"] = [
            (size - 1) * step + 1 + int(rng.integers(0, 2)) for size, step in zip(data.shape[2:], steps, strict=True)
        ]
    return Case("ConvTranspose", [data, weights, bias], attributes, static=static, constants=constants)


def product(rng: Rng) -> Case:
    """Products of matrices."""
    m, k, n = (int(size) for size in rng.integers(1, 6, 3))
    dtype = FLOATS[rng.integers(len(FLOATS))]
    constants = frozenset({1}) if rng.random() < 0.5 else frozenset[int]()
    static = bool(rng.random() < 0.5)
    special = 0.05 if rng.random() < 0.2 else 0.0
    match int(rng.integers(4)):
        case 0:
            batch = (int(rng.integers(1, 3)),) * int(rng.integers(0, 3))
            a = floats(rng, (*batch, m, k) if rng.random() < 0.85 else (k,), special, dtype=dtype)
            b = floats(rng, (*batch[: int(rng.integers(0, 2))], k, n) if rng.random() < 0.85 else (k,), dtype=dtype)
            return Case("MatMul", [a, b], static=static, constants=constants)
        case 1:
            ta, tb = int(rng.integers(2)), int(rng.integers(2))
            a = floats(rng, (k, m) if ta else (m, k), special)
            b = floats(rng, (n, k) if tb else (k, n))
            c: Any = rng.choice(np.array(["none", "n", "1n", "mn", "m1", "scalar"]))
            shape = {"none": None, "n": (n,), "1n": (1, n), "mn": (m, n), "m1": (m, 1), "scalar": ()}[str(c)]
            attributes = {
                "transA": ta,
                "transB": tb,
                "alpha": float(rng.choice([1, 0.5])),
                "beta": float(rng.choice([1, 0.5, 0])),
            }
            return Case(
                "Gemm",
                [a, b, None if shape is None else floats(rng, shape)],
                attributes,
                static=static,
                constants=constants,
            )
        case 2:
            equation = str(
                rng.choice(
                    [
                        "ij,jk->ik",
                        "bij,bjk->bik",
                        "ij,ij->",
                        "ij->ji",
                        "ii->i",
                        "ij,kj->ik",
                        "bij,bkj->bki",
                        "...ij,...jk->...ik",
                        "ij->",
                        "i,j->ij",
                        "ij,jk",
                        "aij,ajk->ika",
                    ]
                )
            )
            sizes = {letter: int(rng.integers(1, 4)) for letter in "abijk"}
            terms = equation.split("->", maxsplit=1)[0].replace("...", "b").split(",")
            operands = [floats(rng, [sizes[letter] for letter in term], special) for term in terms]
            return Case("Einsum", operands, {"equation": equation}, static=static)
        case _:
            kind = pick(rng, [np.int8, np.uint8])
            other = pick(rng, [np.int8, np.uint8])
            a, b = integers(rng, (m, k), kind), integers(rng, (k, n), other)
            zero_a = None if rng.random() < 0.4 else integers(rng, (), kind, 0, 9)
            zero_b = None if rng.random() < 0.4 or zero_a is None else integers(rng, (), other, 0, 9)
            return Case("MatMulInteger", [a, b, zero_a, zero_b], static=static, constants=constants)


def resize(rng: Rng) -> Case:
    """Resize in all modes, by scales and by sizes."""
    rank = int(rng.integers(1, 3))
    data = floats(rng, (1, int(rng.integers(1, 3)), *(int(size) for size in rng.integers(2, 7, rank))))
    opset = int(rng.choice([11, 13, 18, 19, 21]))
    modes = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize"]
    modes += ["half_pixel_symmetric"] if opset >= 19 else []
    attributes: dict[str, Any] = {
        "mode": str(rng.choice(["nearest", "linear", "cubic"])),
        "coordinate_transformation_mode": str(rng.choice(modes)),
    }
    if attributes["mode"] == "nearest":
        attributes["nearest_mode"] = str(rng.choice(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]))
    if attributes["mode"] == "cubic":
        attributes["cubic_coeff_a"] = float(rng.choice([-0.75, -0.5]))
        if rng.random() < 0.3:
            attributes["exclude_outside"] = 1
    roi: Array | None = None
    if attributes["coordinate_transformation_mode"] == "tf_crop_and_resize":
        begin = rng.random(rank + 2) * 0.4
        roi = np.concatenate([begin, 1 - rng.random(rank + 2) * 0.4]).astype(np.float32)
        roi[:2], roi[rank + 2 : rank + 4] = 0, 1
        attributes["extrapolation_value"] = float(rng.choice([0.0, 1.5]))
    if opset >= 18 and rng.random() < 0.1:
        attributes["antialias"] = 1
    scales: Array | None = None
    sizes: Array | None = None
    if rng.random() < 0.5:
        scales = np.array([1, 1, *rng.choice([0.5, 0.6, 1.0, 1.5, 2.0, 2.4, 3.0], rank)], np.float32)
    else:
        sizes = np.array([*data.shape[:2], *rng.integers(1, 9, rank)], np.int64)
    if opset == 11 and roi is None:
        roi = np.zeros((0,), np.float32)
    if opset == 11 and scales is None:
        scales = np.zeros((0,), np.float32)
    constants = frozenset({1, 2, 3}) if rng.random() < 0.8 else frozenset[int]()
    return Case("Resize", [data, roi, scales, sizes], attributes, opset, constants=constants)


_ACTIVATIONS = (
    "Relu",
    "Tanh",
    "Sigmoid",
    "Affine",
    "LeakyRelu",
    "ThresholdedRelu",
    "ScaledTanh",
    "HardSigmoid",
    "Elu",
    "Softsign",
    "Softplus",
)


def recurrent(rng: Rng) -> Case:
    """RNN, GRU and LSTM with all they can be given."""
    op_type = str(rng.choice(["RNN", "GRU", "LSTM"]))
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[op_type]
    steps, batch, size, hidden = (int(number) for number in rng.integers(1, 6, 4))
    direction = str(rng.choice(["forward", "reverse", "bidirectional"]))
    ways = 2 if direction == "bidirectional" else 1
    attributes: dict[str, Any] = {"hidden_size": hidden, "direction": direction}

    def state() -> Array | None:
        return None if rng.random() < 0.5 else floats(rng, (ways, batch, hidden), scale=0.5)

    inputs: list[Array | None] = [
        floats(rng, (steps, batch, size), scale=1),
        floats(rng, (ways, gates * hidden, size), scale=0.5),
        floats(rng, (ways, gates * hidden, hidden), scale=0.5),
        None if rng.random() < 0.4 else floats(rng, (ways, 2 * gates * hidden), scale=0.5),
        None if rng.random() < 0.5 else integers(rng, (batch,), np.int32, 0 if rng.random() < 0.2 else 1, steps + 1),
        state(),
    ]
    if op_type == "LSTM":
        inputs.append(state())
        inputs.append(None if rng.random() < 0.8 else floats(rng, (ways, 3 * hidden), scale=0.5))
    per_way = {"RNN": 1, "GRU": 2, "LSTM": 3}[op_type]
    if rng.random() < 0.35:
        attributes["activations"] = [str(name) for name in rng.choice(_ACTIVATIONS, ways * per_way)]
        if rng.random() < 0.5:
            attributes["activation_alpha"] = [float(rng.choice([0.3, 0.7])) for _ in range(ways * per_way)]
            attributes["activation_beta"] = [float(rng.choice([0.3, 0.7])) for _ in range(ways * per_way)]
    if rng.random() < 0.2:
        attributes["clip"] = float(rng.choice([0.2, 1.0]))
    if op_type == "GRU" and rng.random() < 0.5:
        attributes["linear_before_reset"] = 1
    if op_type == "LSTM" and rng.random() < 0.15:
        attributes["input_forget"] = 1
    if rng.random() < 0.15:
        attributes["layout"] = 1
        inputs = [
            np.ascontiguousarray(array.swapaxes(0, 1)) if array is not None and place in (0, 5, 6) else array
            for place, array in enumerate(inputs)
        ]
    outputs = 3 if op_type == "LSTM" else 2
    missing = frozenset(place for place in range(outputs) if rng.random() < 0.2)
    if len(missing) == outputs:
        missing = frozenset()
    constants = frozenset({1, 2, 3}) if rng.random() < 0.7 else frozenset[int]()
    return Case(op_type, inputs, attributes, 21, outputs, constants, bool(rng.random() < 0.5), missing=missing)


FAMILIES = {
    "pool": pool,
    "convolution": convolution,
    "product": product,
    "resize": resize,
    "recurrent": recurrent,
}

"""Hostile numbers fed at run time to operators that read indices, sizes, axes or lengths.

Each attack is a small graph around one such operator, with arrays that would be valid; a seed decides which of them are
spoiled and how. NumPy alone and the default providers must both refuse, or give the same.
"""

from __future__ import annotations

import random
import resource
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import helper

from tests.fuzzing.cases import Case, Feeds
from tests.fuzzing.files import as_code
from tests.fuzzing.mutations import EXTREMES
from tests.fuzzing.runners import Variant
from tests.fuzzing.verdict import judge

__all__ = ["ATTACKS", "Attack", "AttackSearch", "attack_case"]

ADDRESS_SPACE = 6 << 30

I8, I32, I64, F32 = np.int8, np.int32, np.int64, np.float32


def _data(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(F32)


def _ints(*numbers: Any) -> np.ndarray[Any, Any]:
    return np.array(numbers[0] if len(numbers) == 1 else numbers, I64)


def _lengths(*numbers: int) -> np.ndarray[Any, Any]:
    return np.array(numbers, I32)


@dataclass(frozen=True, slots=True)
class Attack:
    """One operator with valid inputs.

    Attributes:
        op_type: The operator.
        inputs: Arrays; None leaves an optional input out.
        hostile: Places of the inputs that are spoiled.
        outputs: How many outputs.
        opset: Version of the operator set.
        domain: Of the operator.
        attributes: Its attributes.
    """

    op_type: str
    inputs: tuple[np.ndarray[Any, Any] | None, ...]
    hostile: tuple[int, ...]
    outputs: int = 1
    opset: int = 21
    domain: str = ""
    attributes: dict[str, Any] = field(default_factory=dict)


def _attack(
    op_type: str,
    inputs: Sequence[Any],
    hostile: Sequence[int],
    outputs: int = 1,
    opset: int = 21,
    domain: str = "",
    **attributes: Any,
) -> Attack:
    return Attack(op_type, tuple(inputs), tuple(hostile), outputs, opset, domain, attributes)


_X = _data(2, 3, 4)
_PICTURE = _data(1, 2, 5, 5)
_LSTM = (_data(4, 2, 3), _data(1, 20, 3) * F32(0.3), _data(1, 20, 5) * F32(0.3))
_GRU = (_data(4, 2, 3), _data(1, 15, 3) * F32(0.3), _data(1, 15, 5) * F32(0.3))
_RNN = (_data(4, 2, 3), _data(1, 5, 3) * F32(0.3), _data(1, 5, 5) * F32(0.3))
_BOXES = np.array([[[0, 0, 1, 1], [0, 0, 1, 0.9], [0, 2, 1, 3]]], F32)
_MS = "com.microsoft"

ATTACKS: tuple[Attack, ...] = (
    _attack("Gather", [_X, _ints(0, 1)], [1], axis=1),
    _attack("Gather", [_X, _lengths(0, 1)], [1], axis=2),
    _attack("GatherElements", [_X, np.zeros((2, 3, 2), I64)], [1], axis=2),
    _attack("GatherND", [_X, _ints([[0, 1], [1, 2]])], [1]),
    _attack("GatherND", [_X, _ints([[1], [2]])], [1], batch_dims=1),
    _attack("ScatterElements", [_X, np.zeros((2, 1, 4), I64), _data(2, 1, 4)], [1], axis=1),
    _attack("ScatterElements", [_X, np.zeros((2, 1, 4), I64), _data(2, 1, 4)], [1], axis=1, reduction="add"),
    _attack("ScatterND", [_X, _ints([[0], [1]]), _data(2, 3, 4)], [1]),
    _attack("ScatterND", [_X, _ints([[0, 1]]), _data(1, 4)], [1], reduction="max"),
    _attack("Scatter", [_X, np.zeros((2, 1, 4), I64), _data(2, 1, 4)], [1], opset=10, axis=1),
    _attack("Slice", [_X, _ints([0]), _ints([2]), _ints([1]), _ints([1])], [1, 2, 3, 4]),
    _attack("Slice", [_X, _ints([0, 1]), _ints([2, 3])], [1, 2]),
    _attack("Slice", [_X, _lengths(0), _lengths(2), _lengths(1)], [1, 2, 3], opset=10),
    _attack("OneHot", [_ints(0, 1), _ints(3), np.array([0, 1], F32)], [0, 1]),
    _attack("TopK", [_X, _ints([2])], [1], 2),
    _attack("Pad", [_X, _ints(0, 0, 1, 0, 0, 1), np.array(0, F32)], [1], mode="constant"),
    _attack("Pad", [_X, _ints(1, 1), None, _ints([1])], [1, 3], mode="reflect"),
    _attack("Pad", [_X, _ints(0, 0, 1, 0, 0, 1)], [1], mode="wrap"),
    _attack("Pad", [_X, _ints(0, 0, 1, 0, 0, 1)], [1], mode="edge"),
    _attack("Tile", [_X, _ints(1, 2, 1)], [1]),
    _attack("Expand", [_X, _ints(2, 3, 4)], [1]),
    _attack("Reshape", [_X, _ints(4, 6)], [1]),
    _attack("Reshape", [_X, _ints(0, -1)], [1], allowzero=1),
    _attack("Range", [_ints(0), _ints(5), _ints(1)], [0, 1, 2]),
    _attack("Range", [np.array(0, F32), np.array(5, F32), np.array(1, F32)], [0, 1, 2]),
    _attack("ConstantOfShape", [_ints(2, 3)], [0]),
    _attack("Split", [_X, _ints(1, 2)], [1], 2, axis=1),
    _attack("LSTM", [*_LSTM, None, _lengths(4, 2)], [4], 3, opset=14, hidden_size=5),
    _attack("GRU", [*_GRU, None, _lengths(4, 2)], [4], 2, opset=14, hidden_size=5),
    _attack("RNN", [*_RNN, None, _lengths(4, 2)], [4], 2, opset=14, hidden_size=5),
    _attack("LSTM", [*_LSTM, None, _lengths(4, 2)], [4], 3, opset=14, hidden_size=5, direction="reverse"),
    _attack("ReverseSequence", [_X, _ints(1, 2, 1)], [1], batch_axis=1, time_axis=0),
    _attack(
        "NonMaxSuppression", [_BOXES, _data(1, 1, 3), _ints([2]), np.array([0.5], F32), np.array([0], F32)], [2, 3, 4]
    ),
    _attack("RoiAlign", [_PICTURE, np.array([[0, 0, 3, 3]], F32), _ints([0])], [1, 2], output_height=2, output_width=2),
    _attack("Resize", [_PICTURE, None, None, _ints(1, 2, 8, 8)], [3]),
    _attack("Resize", [_PICTURE, None, np.array([1, 1, 2, 2], F32)], [2], mode="linear"),
    _attack("Upsample", [_PICTURE, np.array([1, 1, 2, 2], F32)], [1], opset=9),
    _attack("Unsqueeze", [_X, _ints([1])], [1]),
    _attack("Squeeze", [_data(1, 3, 1), _ints([0])], [1]),
    _attack("ReduceSum", [_X, _ints([1])], [1]),
    _attack("ReduceMean", [_X, _ints(0, 2)], [1]),
    _attack("ReduceL2", [_X, _ints(-1)], [1]),
    _attack("CumSum", [_X, _ints(1)], [1]),
    _attack("Trilu", [_X, _ints(1)], [1]),
    _attack("CenterCropPad", [_X, _ints(2, 2, 6)], [1]),
    _attack("Compress", [_X, np.array([True, False])], [1], axis=0),
    _attack("BlackmanWindow", [_ints(8)], [0]),
    _attack("HannWindow", [_lengths(8).reshape(())], [0]),
    _attack("HammingWindow", [_ints(8)], [0]),
    _attack(
        "MelWeightMatrix", [_ints(8), _ints(16), _ints(8000), np.array(0, F32), np.array(4000, F32)], [0, 1, 2, 3, 4]
    ),
    _attack("DFT", [_data(1, 8, 1), _ints(8), _ints(1)], [1, 2], opset=20),
    _attack("STFT", [_data(1, 20, 1), _ints(4), None, _ints(8)], [1, 3]),
    _attack(
        "MaxUnpool",
        [_data(1, 1, 2, 2), _ints([[[[0, 2], [8, 10]]]]), _ints(1, 1, 4, 4)],
        [1, 2],
        kernel_shape=[2, 2],
        strides=[2, 2],
    ),
    _attack("Col2Im", [_data(1, 4, 4), _ints(4, 4), _ints(2, 2)], [1, 2], strides=[2, 2]),
    _attack("AffineGrid", [_data(1, 2, 3), _ints(1, 2, 4, 4)], [1]),
    _attack("GridSample", [_PICTURE, _data(1, 2, 2, 2)], [1]),
    _attack("NegativeLogLikelihoodLoss", [_data(3, 4), _ints(0, 1, 2)], [1]),
    _attack("SoftmaxCrossEntropyLoss", [_data(3, 4), _ints(0, 1, 2)], [1]),
    _attack("DeformConv", [_PICTURE, _data(2, 2, 2, 2), _data(1, 8, 4, 4)], [2], kernel_shape=[2, 2]),
    _attack("EyeLike", [_data(3, 3)], [], k=2**40),
    _attack("DepthToSpace", [_data(1, 4, 2, 2)], [], blocksize=2),
    _attack("RotaryEmbedding", [_data(1, 2, 3, 4), _data(5, 2), _data(5, 2), _ints([[0, 1, 2]])], [3], opset=23),
    _attack(
        "Attention",
        [_data(1, 2, 3, 4), _data(1, 2, 3, 4), _data(1, 2, 3, 4), None, None, None, _ints([2])],
        [6],
        opset=24,
    ),
    _attack("TensorScatter", [_data(2, 3, 5, 2), _data(2, 3, 1, 2), _ints(0, 1)], [2], opset=24),
    _attack("BitShift", [np.array([1, 2], np.uint8), np.array([1, 7], np.uint8)], [1], direction="LEFT"),
    _attack("DequantizeLinear", [np.array([[1, 2]], I8), np.array([0.5, 1], F32), np.array([0, 1], I8)], [0], axis=1),
    _attack("Gather", [_X, _ints([0])], [1], opset=10, axis=0),
    _attack(
        "EmbedLayerNormalization",
        [
            _lengths(0, 1).reshape(1, 2),
            _lengths(0, 1).reshape(1, 2),
            _data(5, 4),
            _data(6, 4),
            _data(2, 4),
            _data(4),
            _data(4),
            _lengths(1, 1).reshape(1, 2),
        ],
        [0, 1, 7],
        2,
        domain=_MS,
    ),
    _attack(
        "GroupQueryAttention",
        [
            _data(1, 1, 8),
            _data(1, 1, 4),
            _data(1, 1, 4),
            _data(1, 1, 4, 4),
            _data(1, 1, 4, 4),
            _lengths(2),
            _lengths(3).reshape(()),
        ],
        [5, 6],
        3,
        domain=_MS,
        num_heads=2,
        kv_num_heads=1,
    ),
    _attack("RotaryEmbedding", [_data(1, 3, 8), _ints([0]), _data(6, 2), _data(6, 2)], [1], domain=_MS, num_heads=2),
    _attack(
        "CropAndResize", [_PICTURE, np.array([[0, 0, 1, 1]], F32), _lengths(0), _lengths(2, 2)], [1, 2, 3], domain=_MS
    ),
    _attack("ExpandDims", [_X, _lengths(1).reshape(())], [1], domain=_MS),
    _attack("Range", [_ints(0), _ints(5), _ints(1)], [0, 1, 2], domain=_MS),
    _attack("Pad", [_X, _ints(0, 0, 1, 0, 0, 1), np.array([0], F32)], [1], domain=_MS),
    _attack("GatherND", [_X, _ints([[0, 1]])], [1], domain=_MS),
    _attack("Trilu", [_X, _ints(-1)], [1], domain=_MS, upper=0),
)

_FLOATS = (0.0, -1.0, 1e9, -1e9, 3e38, float("nan"), float("inf"), float("-inf"), 1e-40, 0.5, 1e5)


def attack_case(seed: int) -> tuple[Case, str]:
    """The case of a seed and the operator's name."""
    rng = random.Random(seed)
    attack = ATTACKS[seed % len(ATTACKS)]
    feeds, names = {}, []
    infos, nodes = [], []
    for place, array in enumerate(attack.inputs):
        if array is None:
            names.append("")
            continue
        name = f"i{place}"
        names.append(name)
        feeds[name] = array
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        infos.append(
            helper.make_tensor_value_info(
                name, kind, None if rng.random() < 0.5 else [None] * array.ndim if rng.random() < 0.5 else array.shape
            )
        )
    if names[0] and attack.inputs[0] is not None and attack.inputs[0].dtype == F32 and attack.inputs[0].ndim:
        nodes.append(helper.make_node("Relu", [names[0]], ["before"]))
        names[0] = "before"
    outputs = [f"o{place}" for place in range(attack.outputs)]
    nodes.append(helper.make_node(attack.op_type, names, outputs, domain=attack.domain, **attack.attributes))
    returned = list(outputs)
    if (
        attack.op_type
        in {
            "Gather",
            "Reshape",
            "Slice",
            "Tile",
            "Expand",
            "Pad",
            "Split",
            "LSTM",
            "GRU",
            "RNN",
            "Squeeze",
            "Unsqueeze",
            "Resize",
            "ReduceSum",
            "ReduceMean",
        }
        and rng.random() < 0.7
    ):
        nodes.append(helper.make_node("Sigmoid", [outputs[0]], ["after"]))
        returned.append("after")
    out = [helper.make_empty_tensor_value_info(name) for name in returned]
    graph = helper.make_graph(nodes, "attack", infos, out)
    imports = [
        helper.make_opsetid("", attack.opset),
        *([helper.make_opsetid(attack.domain, 1)] if attack.domain else []),
    ]
    model = helper.make_model(graph, opset_imports=imports, ir_version=12 if attack.opset > 22 else 8)
    runs = [feeds]
    hostile = [f"i{place}" for place in attack.hostile]
    runs += [_spoiled(feeds, hostile, rng) for _ in range(3)]
    return Case(model, runs, f"attack on {attack.op_type}", limited=True), attack.op_type


def _spoiled(feeds: Feeds, hostile: Sequence[str], rng: random.Random) -> Feeds:
    """Feeds of which one or several arrays hold what they should not."""
    made = dict(feeds)
    for name in hostile:
        if rng.random() < 0.75 or len(hostile) == 1:
            made[name] = _spoil(feeds[name], rng)
    return made


def _spoil(array: np.ndarray[Any, Any], rng: random.Random) -> np.ndarray[Any, Any]:
    found = array.copy()
    roll = rng.random()
    if roll < 0.07 and found.ndim:
        return found[:0]
    if roll < 0.12:
        return found[np.newaxis]
    if roll < 0.16 and found.ndim == 1:
        return np.concatenate([found, found])
    if roll < 0.2 and found.size == 1:
        return found.reshape(())
    for _ in range(rng.choice((1, 1, 1, found.size))):
        if not found.size:
            break
        place = rng.randrange(found.size)
        with np.errstate(all="ignore"):
            if found.dtype.kind == "f":
                found.flat[place] = rng.choice(_FLOATS)
            elif found.dtype.kind == "b":
                found.flat[place] = not found.flat[place]
            else:
                near = [int(found.flat[place]) + step for step in (-1, 1, 2, -5, 3)]
                wanted = min(max(rng.choice((*near, *EXTREMES)), -(2**63)), 2**63 - 1)
                found.flat[place] = np.array(wanted, I64).astype(found.dtype)
    return found


@dataclass(slots=True)
class AttackSearch:
    """Runs the attack of each seed.

    Attributes:
        say: Called with stages and findings.
        folder: Not used; every search takes it.
        providers: Names that the sessions are given; None for the default.
    """

    say: Callable[..., None]
    folder: str = ""
    providers: Sequence[str] | None = None

    def __post_init__(self) -> None:
        judge(attack_case(0)[0])  # imports first: the bound is for what hostile sizes ask for
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))

    def run(self, seed: int) -> dict[str, int]:
        """Run one attack; returns how often each kind of finding occurred."""
        case, name = attack_case(seed)
        counts: Counter[str] = Counter()
        level = "ORT_ENABLE_ALL" if seed % 3 else "ORT_DISABLE_ALL"
        given = None if self.providers is None else tuple(self.providers)
        try:
            found = judge(case, [Variant("default", level, given)], lambda stage: self.say(stage=f"{name}: {stage}"))
        except MemoryError:  # results that nearly fill the bound; runs that hit it are outcomes
            return {"too large to compare": 1}
        for one in found:
            if one.who == "numpy" and one.kind in {"refuses", "disputed"}:
                continue  # being stricter than others with hostile numbers is not a defect
            counts[one.kind] += 1
            run = int(one.text.split(":")[0].removeprefix("run ")) if one.text.startswith("run ") else 0
            single = Case(case.model, [case.feeds[run]], limited=True)
            mark = f"{one.kind} {one.who} {name} {' '.join(one.text.split()[2:5])[:60]}"
            self.say(
                finding=str(one), kind=one.kind, who=one.who, seed=seed, signature=mark, code=as_code(single, level)
            )
        return dict(counts)

"""Results and scratch whose size the model or its data decide are announced before they are made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
import pytest

from ort_py.contracts import NodeSpec
from ort_py.errors import LimitError
from ort_py_array import accumulation, dropout, einsum, kernel_defs, padding, random_numbers, selection, softmax
from ort_py_array.einsum import einsum_shape
from ort_py_array.signal import weightings
from ort_py_kit.kernel_runner import LocalKernelContext, make_node_spec

from .oracle import sample

CAP = 1 << 24
PIXELS = np.ones((1, 1, 4, 4), np.float32)
COLUMN, ROW = np.ones((6000, 1), np.float32), np.ones((1, 6000), np.float32)
FILTER = np.ones((1, 1, 3, 3), np.float32)
WIDE = 1 << 12
PARAMETERS = (np.array(1, np.float32), np.array(0, np.uint8))


def _bytes(*shape: int) -> np.ndarray[Any, Any]:
    """Bytes that take no memory."""
    return np.broadcast_to(np.uint8(0), shape)


class Capped(LocalKernelContext):
    """Refuses arrays above `CAP` elements."""

    def check_allocation(self, shape: Sequence[int], dtype: Any) -> None:
        if prod(shape) > CAP:
            raise LimitError(f"too large: {tuple(shape)}")


def call(
    op_type: str,
    inputs: Sequence[Any],
    attributes: dict[str, Any],
    opset: int = 18,
    context: type[LocalKernelContext] = Capped,
) -> Any:
    """Bind the kernel of a node with a context, a capped one by default, and call it.

    Args:
        attributes: Those of the node; ``domain`` stands for its domain.
    """
    domain = attributes.get("domain", "")
    node = make_node_spec(
        op_type,
        inputs,
        domain=domain,
        opset=1 if domain else opset,
        attributes={name: value for name, value in attributes.items() if name != "domain"},
    )
    for definition in kernel_defs():
        if definition.op_type == op_type and definition.since <= node.since_version <= definition.last:
            return definition.factory(context(node))(*inputs)
    raise AssertionError(f"no kernel for {op_type}")


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes"),
    [
        ("MatMul", [COLUMN, ROW], {}),
        ("MatMul", [COLUMN[:, :0], ROW[:0]], {}),
        ("MatMul", [COLUMN[None], ROW[None]], {}),
        ("Gemm", [COLUMN, ROW], {}),
        ("Einsum", [COLUMN, ROW], {"equation": "ij,jk->ik"}),
        ("Einsum", [COLUMN[:, 0], ROW[0]], {"equation": "i,j"}),
        ("Conv", [PIXELS, FILTER], {"pads": (WIDE,) * 4}),
        ("Conv", [PIXELS, FILTER], {"pads": (WIDE,) * 4, "strides": (WIDE, WIDE)}),
        ("ConvTranspose", [PIXELS, FILTER], {"strides": (WIDE, WIDE)}),
        ("MaxPool", [PIXELS], {"kernel_shape": (WIDE, WIDE), "pads": (WIDE - 1,) * 4}),
        ("AveragePool", [PIXELS], {"kernel_shape": (WIDE, WIDE), "pads": (WIDE - 1,) * 4}),
        ("LpPool", [PIXELS], {"kernel_shape": (WIDE, WIDE), "pads": (WIDE - 1,) * 4}),
        ("MatMulInteger", [_bytes(1, CAP + 1), _bytes(CAP + 1, 1)], {}),
        ("QLinearMatMul", [_bytes(1, CAP + 1), *PARAMETERS, _bytes(CAP + 1, 1), *PARAMETERS, *PARAMETERS], {}),
        ("ReverseSequence", [_bytes(CAP + 1, 1), np.array([2])], {}),
    ],
)
def test_what_is_too_large_is_refused(op_type: str, inputs: Sequence[Any], attributes: dict[str, Any]) -> None:
    """Products, convolutions and pools ask first: for the result, and for what padding and wider types make of the
    input.
    """
    with pytest.raises(LimitError, match="too large"):
        call(op_type, inputs, attributes)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", [(2, 3), (3, 4)]),
        ("ij,jk", [(2, 3), (3, 4)]),
        ("ba", [(2, 3)]),
        ("ii->i", [(3, 3)]),
        ("ii", [(3, 3)]),
        ("...ij,...jk->...ik", [(5, 2, 3), (3, 4)]),
        ("...ij,...jk", [(1, 6, 2, 3), (5, 1, 3, 4)]),
        ("i...->...", [(2, 3, 4)]),
        ("bi,bj->bij", [(1, 3), (7, 4)]),
        ("->", [()]),
    ],
)
def test_the_shape_of_an_einsum(equation: str, shapes: list[tuple[int, ...]]) -> None:
    """The shape said before is the shape NumPy makes."""
    operands = [sample(shape, np.float32) for shape in shapes]
    assert einsum_shape(equation, shapes) == np.einsum(equation, *operands).shape


@pytest.mark.parametrize(("equation", "shapes"), [("ij", [(2,)]), ("i,j->ij", [(2,)]), ("i->k", [(2,)])])
def test_an_einsum_that_does_not_fit_has_no_shape(equation: str, shapes: list[tuple[int, ...]]) -> None:
    """The kernel reports the error."""
    assert einsum_shape(equation, shapes) is None


class Timed(LocalKernelContext):
    """A run in which a second is left: estimates above it are refused, and so is every look after the tenth."""

    looks = 0

    @property
    def is_timed(self) -> bool:
        return True

    def check_time(self, ahead: float = 0.0) -> None:
        self.looks += 1
        if ahead > 1 or self.looks > 10:
            raise LimitError("too late")


def _zeros(*shape: int) -> np.ndarray[Any, Any]:
    """Zeros that take no memory."""
    return np.broadcast_to(np.float32(0), shape)


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes"),
    [
        ("DFT", [_zeros(1, 4, 1), np.array(1 << 28)], {"axis": 1}),
        ("DFT", [_zeros(2, 4, 1), np.array(60_000_011)], {"axis": 1}),
        ("Det", [np.broadcast_to(np.float32(0), (40_000, 40_000))], {}),
        ("TopK", [_zeros(1 << 30), np.array([1 << 29])], {"axis": 0}),
        ("TopK", [_zeros(2, 1 << 30), np.array([1 << 29])], {}),
        ("Unique", [_zeros(1 << 30)], {}),
        ("Unique", [_zeros(1 << 28, 1)], {"axis": 0}),
        ("Einsum", [_zeros(30_000, 30_000)] * 3, {"equation": "ij,jk,kl->il"}),
        ("Einsum", [_zeros(5000, 5000)] * 3, {"equation": "ij,jk,ik->ijk"}),
        ("Einsum", [_zeros(100_000, 100_000)] * 2, {"equation": "ij,jk"}),
        ("Einsum", [_zeros(9000, 9000, 9000)] * 2, {"equation": "...ij,...jk->...ik"}),
        ("CDist", [_zeros(1 << 20, 1 << 20)] * 2, {"domain": "com.microsoft"}),
        ("Inverse", [_zeros(40_000, 40_000)], {"domain": "com.microsoft"}),
    ],
)
def test_a_call_that_nothing_interrupts_is_estimated(
    op_type: str, inputs: Sequence[Any], attributes: dict[str, Any]
) -> None:
    """Transforms, decompositions, sorts and contractions that would take minutes on any machine are not begun."""
    with pytest.raises(LimitError, match="too late"):
        call(op_type, inputs, attributes, context=Timed)


class Estimating(Timed):
    """Refuses the first step that is estimated, and says how long it would take."""

    def check_time(self, ahead: float = 0.0) -> None:
        if ahead:
            raise LimitError(str(ahead))


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.uint16], ids=str)
def test_counting_small_integers_is_estimated_by_their_number(dtype: Any) -> None:
    """NumPy compares float32, once for each doubling of the length."""
    seconds = []
    for kind in (dtype, np.float32):
        x = np.broadcast_to(kind(0), (1 << 26,))
        with pytest.raises(LimitError) as caught:
            call("TopK", [x, np.array([1 << 25])], {}, context=Estimating)
        seconds.append(float(str(caught.value).split()[0]))
    assert seconds[1] == pytest.approx(26 * seconds[0])


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes"),
    [
        ("LSTM", [np.zeros((300_000, 1, 1), np.float32), *[np.zeros((1, 4, 1), np.float32)] * 2], {"hidden_size": 1}),
        ("GRU", [np.zeros((300_000, 1, 1), np.float32), *[np.zeros((1, 3, 1), np.float32)] * 2], {"hidden_size": 1}),
        ("RNN", [np.zeros((300_000, 1, 1), np.float32), *[np.zeros((1, 1, 1), np.float32)] * 2], {"hidden_size": 1}),
        ("Multinomial", [np.zeros((1, 5), np.float32)], {"sample_size": 1 << 22}),
        (
            "NonMaxSuppression",
            [np.zeros((1, 40_000, 4), np.float32), np.zeros((1, 1, 40_000), np.float32), np.array([40_000])],
            {},
        ),
    ],
)
def test_loops_look_at_the_clock(op_type: str, inputs: Sequence[Any], attributes: dict[str, Any]) -> None:
    """Steps, samples and stretches of boxes are asked about more than ten times."""
    with pytest.raises(LimitError, match="too late"):
        call(op_type, inputs, attributes, context=Timed)


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_many_rows_are_sorted_in_blocks(largest: int, axis: int) -> None:
    """In the order of the definition, along any axis: equal elements by their places."""
    x = np.random.default_rng(axis).integers(0, 9, (40, 60, 50)).astype(np.float32)
    values, places = call("TopK", [x, np.array([30])], {"axis": axis, "largest": largest})
    order = np.argsort(-x if largest else x, axis=axis, kind="stable").take(range(30), axis=axis)
    np.testing.assert_array_equal(places, order)
    np.testing.assert_array_equal(values, np.take_along_axis(x, order, axis))


class Unhurried(Timed):
    """A run with a limit that is never reached; parts have one row."""

    def check_time(self, ahead: float = 0.0) -> None:
        self.looks += 1

    def parallel_for(self, rows: int, grain: int, fn: Callable[[int, int], None]) -> None:
        for row in range(0, rows, grain):
            fn(row, min(row + grain, rows))


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", [(3, 4), (4, 5)]),
        ("...ij,...jk->...ik", [(2, 3, 4), (2, 4, 5)]),
        ("...ij,...jk", [(6, 2, 3, 4), (1, 4, 5)]),
        ("i...,...->...i", [(2, 3, 4), (4,)]),
        ("ij,jk,kl->il", [(3, 4), (4, 5), (5, 6)]),
        ("ij,jk,ki->", [(3, 4), (4, 5), (5, 3)]),
        ("ab,cb,db->acd", [(3, 4), (5, 4), (1, 4)]),
        ("ij,jk", [(3, 4), (4, 5)]),
        ("ii->i", [(4, 4)]),
        ("ij->ji", [(3, 4)]),
        ("iij,jk->ik", [(3, 3, 4), (4, 5)]),
        ("abc,cde,efa->bdf", [(2, 3, 4), (4, 5, 6), (6, 2, 2)]),
    ],
)
@pytest.mark.parametrize("dtype", [np.float64, np.int64])
def test_an_einsum_in_blocks(
    equation: str, shapes: list[tuple[int, ...]], dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Contractions one by one, each in blocks of a letter, give what NumPy gives."""
    monkeypatch.setattr(einsum, "_PART", 1)
    operands = [sample(shape, np.float32).astype(dtype) * 9 for shape in shapes]
    found = call("Einsum", operands, {"equation": equation}, context=Unhurried)
    np.testing.assert_allclose(found, np.einsum(equation, *operands), rtol=1e-12)


@pytest.mark.parametrize(
    ("op_type", "module", "name", "inputs", "attributes"),
    [
        ("Compress", selection, "_AT_A_TIME", [sample((7, 6), np.float32), np.arange(7) % 3 > 0], {"axis": 0}),
        ("Compress", selection, "_AT_A_TIME", [sample((7, 6), np.float32), np.arange(5) % 3 > 0], {"axis": 1}),
        ("Compress", selection, "_AT_A_TIME", [sample((7, 6), np.float32), np.arange(40) % 3 > 0], {}),
        ("NonZero", selection, "_AT_A_TIME", [sample((50, 10, 9), np.float32) > 0.3], {}),
        ("NonZero", selection, "_AT_A_TIME", [np.arange(5000) % 7], {}),
        ("Trilu", selection, "_AT_A_TIME", [sample((2, 7, 5), np.float32), np.array(-1)], {}),
        ("Trilu", selection, "_AT_A_TIME", [sample((5, 7), np.int64).astype(str).astype(object)], {"upper": 0}),
        ("ReverseSequence", selection, "_AT_A_TIME", [sample((4, 3, 2), np.float32), np.array([4, 1, 2])], {}),
        (
            "ReverseSequence",
            selection,
            "_AT_A_TIME",
            [sample((3, 4, 2), np.float32), np.array([4, 1, 2])],
            {"batch_axis": 0, "time_axis": 1},
        ),
        ("MelWeightMatrix", weightings, "_BLOCK", [np.array(one) for one in (8, 64, 8000, 0.0, 4000.0)], {}),
        ("BlackmanWindow", weightings, "_BLOCK", [np.array(19)], {}),
        ("Multinomial", random_numbers, "_SEARCHED", [sample((5, 4), np.float32)], {"sample_size": 6, "seed": 3.0}),
        ("Pad", padding, "_AT_A_TIME", [sample((5, 4), np.float32), np.array([2, 1, 9, 3])], {"mode": "reflect"}),
        ("CumSum", accumulation, "_AT_A_TIME", [sample((5, 4), np.float32), np.array(0)], {}),
        ("CumSum", accumulation, "_AT_A_TIME", [sample((9, 2), np.float16), np.array(0)], {"reverse": 1}),
        ("CumSum", accumulation, "_AT_A_TIME", [sample((3, 7), np.float32), np.array(1)], {"exclusive": 1}),
        (
            "Dropout",
            dropout,
            "_BLOCK",
            [sample((5, 4), np.float32), np.float32(0.4), np.array(True)],
            {"seed": 3},
        ),
    ],
)
def test_blocks_give_what_one_call_gives(
    op_type: str,
    module: Any,
    name: str,
    inputs: Sequence[Any],
    attributes: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Random numbers included: a generator gives the same in blocks."""
    whole = call(op_type, inputs, attributes)
    monkeypatch.setattr(module, name, 3)
    parts = call(op_type, inputs, attributes, context=Unhurried)
    for one, wanted in zip(parts, whole, strict=True):
        np.testing.assert_array_equal(one, wanted)


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes"),
    [
        ("ConvTranspose", [PIXELS, np.ones((1, 1, 4, 4), np.float32)], {}),
        ("Resize", [np.ones((2, 2, 2, 2), np.float32), None, np.full(4, 2, np.float32)], {"mode": "cubic"}),
        ("Dropout", [np.ones(12 << 20, np.float32), np.float32(0.5), np.array(True)], {"seed": 1}),
        ("Compress", [np.ones(12 << 20, np.uint8), np.ones(12 << 20, bool)], {}),
        ("RegexFullMatch", [np.array([str(one) for one in range(50_000)], object)], {"pattern": "1.*"}),
        ("SplitToSequence", [np.ones(12 << 16, np.uint8)], {"keepdims": 0}),
        ("SplitToSequence", [np.ones(12 << 16, np.uint8), np.ones(12 << 16, np.int64)], {}),
        ("CumSum", [np.ones(12 << 20, np.float16), np.array(0)], {}),
        ("NonZero", [np.zeros(12 << 20, bool)], {}),
        ("ZipMap", [np.ones((12 << 10, 64), np.float32)], {"domain": "ai.onnx.ml", "classlabels_int64s": range(64)}),
    ],
)
def test_taps_and_blocks_look_at_the_clock(op_type: str, inputs: Sequence[Any], attributes: dict[str, Any]) -> None:
    """More than ten times each."""
    with pytest.raises(LimitError, match="too late"):
        call(op_type, inputs, attributes, opset=20, context=Timed)


def test_rows_of_a_triangle_are_chosen_in_parts() -> None:
    """Distances from the diagonal are integers of 64 bits, eight times the bytes of the matrix."""
    context = counted("Trilu", [np.ones((3000, 3000), np.uint8)], {})
    assert context.parts >= 8


def test_dictionaries_are_announced() -> None:
    """They take much more memory than the rows that they are made of."""
    row = np.broadcast_to(np.float32(0), (CAP // 160, 2))
    with pytest.raises(LimitError, match="too large"):
        call("ZipMap", [row], {"domain": "ai.onnx.ml", "classlabels_strings": ["no", "yes"]})


@pytest.mark.parametrize("op_type", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_a_long_row_looks_at_the_clock(op_type: str, dtype: type, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row cannot be cut, but there is more than one pass over it."""
    monkeypatch.setattr(softmax, "_LONG", 4)
    row = sample((1, 9), np.float32).astype(dtype)
    node = make_node_spec(op_type, [row])
    (definition,) = (one for one in kernel_defs() if one.op_type == op_type and one.since == 13)
    context = Unhurried(node)
    bound = definition.factory(context)
    bound(row)
    assert context.looks > 0


def test_each_size_of_rectangles_looks_at_the_clock() -> None:
    """A region of many pixels needs maxima over rectangles of many sizes."""
    picture, region = np.ones((1, 1, 1 << 12, 8), np.float32), np.array([[0, 0, 0, 7, 4095]], np.float32)
    with pytest.raises(LimitError, match="too late"):
        call("MaxRoiPool", [picture, region], {"pooled_shape": (1, 1)}, context=Timed)


class Counting(Unhurried):
    """A run with a limit that is never reached, which notes what it is asked."""

    def __init__(self, node: NodeSpec) -> None:
        super().__init__(node)
        self.parts = 0
        self.estimates: list[float] = []

    def check_time(self, ahead: float = 0.0) -> None:
        if ahead:
            self.estimates.append(ahead)

    def parallel_for(self, rows: int, grain: int, fn: Callable[[int, int], None]) -> None:
        self.parts += -(-rows // grain)
        fn(0, rows)


def counted(op_type: str, inputs: Sequence[Any], attributes: dict[str, Any]) -> Counting:
    """The context of a call that was made."""
    node = make_node_spec(op_type, inputs, opset=20, attributes=attributes)
    (definition,) = (
        one
        for one in kernel_defs()
        if one.op_type == op_type and not one.domain and one.since <= node.since_version <= one.last
    )
    context = Counting(node)
    definition.factory(context)(*inputs)
    return context


BYTES = np.ones((512, 512), np.uint8)


@pytest.mark.parametrize(
    ("op_type", "inputs", "attributes"),
    [
        ("MatMulInteger", [BYTES, BYTES], {}),
        ("QLinearMatMul", [BYTES, *PARAMETERS, BYTES, *PARAMETERS, *PARAMETERS], {}),
        ("Pad", [np.ones(1 << 20, np.uint8), np.array([0, 1 << 20])], {"mode": "wrap"}),
        ("Multinomial", [np.zeros((1, 1 << 22), np.float32)], {}),
    ],
)
def test_long_calls_are_made_in_parts(op_type: str, inputs: Sequence[Any], attributes: dict[str, Any]) -> None:
    """The engine looks at the clock between these."""
    assert counted(op_type, inputs, attributes).parts > 1


@pytest.mark.parametrize(("length", "estimates"), [(1 << 12, 0), (1 << 20, 1)])
def test_a_long_text_is_estimated(length: int, estimates: int) -> None:
    """RE2 cannot be interrupted, and takes time in proportion to a text."""
    assert len(counted("RegexFullMatch", [np.array(["a" * length], object)], {"pattern": "a*"}).estimates) == estimates


def test_maxima_with_places_look_at_the_clock() -> None:
    """At each tap."""
    node = make_node_spec("MaxPool", [PIXELS], outputs=2, attributes={"kernel_shape": (4, 4)})
    (definition,) = (one for one in kernel_defs() if one.op_type == "MaxPool" and not one.domain)
    with pytest.raises(LimitError, match="too late"):
        definition.factory(Timed(node))(PIXELS)

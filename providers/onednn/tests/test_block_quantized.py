"""MatMulNBits: weights of few bits, read as bytes, and results as exact as those of float32."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pytest

import ort_py as ort
from ort_py_onednn.binding.engine import engine
from ort_py_onednn.binding.features import has_exact_integers
from ort_py_onednn.binding.few_bits import has_few_bits
from ort_py_onednn.lowering import block_quantized
from ort_py_onednn.lowering.planner import Planner
from providers.onednn.tests.models import model, node, open_session, run_here

Array: TypeAlias = np.ndarray[Any, Any]


def _blocks(bits: int, size: int, zeros: bool, columns: int = 48) -> tuple[dict[str, Array], Array, dict[str, int]]:
    rng = np.random.default_rng(9)
    depth = 256
    count = depth // size
    packed = rng.integers(0, 256, (columns, count, size * bits // 8)).astype(np.uint8)
    scales = rng.uniform(0.005, 0.02, (columns, count)).astype(np.float32)
    constants: dict[str, Array] = {"b": packed, "s": scales.reshape(-1)}
    integers = packed.reshape(columns, -1).astype(np.int64)
    shifts = np.full((columns, count), 1 << (bits - 1))
    if bits == 4:
        integers = np.stack([integers & 15, integers >> 4], -1).reshape(columns, -1)
    if zeros:
        held = rng.integers(0, 256, (columns, -(-count * bits // 8))).astype(np.uint8)
        constants["z"] = held.reshape(-1)
        shifts = np.stack([held & 15, held >> 4], -1).reshape(columns, -1)[:, :count].astype(np.int64)
    real = (integers.reshape(columns, count, size) - shifts[:, :, None]) * scales[:, :, None].astype(np.float64)
    attributes = {"K": depth, "N": columns, "bits": bits, "block_size": size}
    return constants, real.reshape(columns, depth).T, attributes


@pytest.mark.parametrize(("bits", "size", "zeros"), [(4, 32, True), (4, 128, False), (8, 64, False), (4, 16, True)])
@pytest.mark.parametrize(("rows", "columns"), [(1, 48), (3, 48), (20, 48), (20, 256), (70, 50)])
def test_weights_of_few_bits(bits: int, size: int, zeros: bool, rows: int, columns: int) -> None:
    """MatMulNBits is as exact as a product of float32, for few rows and for many, whose products want the weights in
    blocks of columns where there are whole ones."""
    constants, real, attributes = _blocks(bits, size, zeros, columns)
    rng = np.random.default_rng(10)
    x = (rng.standard_normal((1, rows, 256)) * np.exp(2 * rng.standard_normal(256))).astype(np.float32)
    nodes = [node("MatMulNBits", f"x b s{' z' if zeros else ''}", "y", domain="com.microsoft", **attributes)]
    (actual,) = run_here(model(nodes, {"x": x}, constants), {"x": x})
    exact = x.astype(np.float64) @ real
    single = x @ real.astype(np.float32)
    allowed = max(2 * np.abs(single - exact).max(), 2e-6 * np.abs(exact).max())
    assert np.abs(actual - exact).max() <= allowed


@pytest.mark.parametrize("factor", [1e-32, 1e-34])
def test_blocks_of_small_numbers_are_as_exact(factor: float) -> None:
    """The largest number of a block is far from where the digits of float32 end."""
    constants, real, attributes = _blocks(4, 32, zeros=True)
    x = (np.random.default_rng(10).standard_normal((1, 3, 256)) * factor).astype(np.float32)
    nodes = [node("MatMulNBits", "x b s z", "y", domain="com.microsoft", **attributes)]
    (actual,) = run_here(model(nodes, {"x": x}, constants), {"x": x})
    exact = x.astype(np.float64) @ real
    assert np.abs(actual - exact).max() <= 2e-6 * np.abs(exact).max()


def test_no_rows_are_no_failure() -> None:
    """A slice that leaves nothing is declined, and the provider is not given up."""
    constants, _, attributes = _blocks(4, 32, False)
    constants |= {"starts": np.array([5]), "ends": np.array([9]), "axes": np.array([1])}
    nodes = [
        node("Abs", "x", "a"),
        node("Slice", "a starts ends axes", "c"),
        node("MatMulNBits", "c b s", "y", domain="com.microsoft", **attributes),
    ]
    feeds = {"x": np.ones((1, 4, 256), np.float32)}
    with open_session(model(nodes, feeds, constants, dynamic=True)) as session:
        assert session.run(None, feeds)[0].shape == (1, 0, 48)
        assert not session.fallback_report
        # Without code for it, the product is another provider's from the start.
        assert ("declined 1 run(s)" in session.plan) == (has_exact_integers() or has_few_bits(engine().library, 4, 32))


@pytest.mark.parametrize(("able", "level", "here"), [(False, 4, False), (False, 0, True), (True, 4, True)])
def test_what_stands_beside_products_of_others(
    monkeypatch: pytest.MonkeyPatch, able: bool, level: int, here: bool
) -> None:
    """A function between products that others may compute in integers is left to them, with the reason."""
    monkeypatch.setattr("ort_py_onednn.graph.support.quantized.has_exact_integers", lambda: able)
    monkeypatch.setattr("ort_py_onednn.graph.support.quantized.has_few_bits", lambda *_: False)
    constants, _, attributes = _blocks(4, 32, False, 256)
    settings = {"domain": "com.microsoft", "accuracy_level": level, **attributes}
    nodes = [
        node("MatMulNBits", "x b s", "p", **settings),
        node("Sigmoid", "p", "q"),
        node("Mul", "p q", "r"),
        node("MatMulNBits", "r b s", "y", **settings),
    ]
    data = model(nodes, {"x": np.ones((64, 256), np.float32)}, constants)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    providers = ["DnnlExecutionProvider", "CPUExecutionProvider"]
    with ort.InferenceSession(data, options, providers=providers) as session:
        placed = {one.op_type: one for one in session.placement.nodes}
        sigmoid = placed["Sigmoid"]
    assert (sigmoid.provider == "DnnlExecutionProvider") == here
    if not here:
        assert any("next to a product of weights of few bits" in why for _, why in sigmoid.refusals)


@pytest.fixture
def _inexact(monkeypatch: pytest.MonkeyPatch) -> None:
    """A CPU with AVX2 whose products of bytes are not exact."""
    if not has_few_bits(engine().library, 4, 32):
        pytest.skip("the CPU has no AVX2, or the system allows no executable memory")
    for module in ("graph.support.quantized", "lowering.few_bits", "lowering.block_quantized"):
        monkeypatch.setattr(f"ort_py_onednn.{module}.has_exact_integers", lambda: False)


@pytest.mark.usefixtures("_inexact")
@pytest.mark.parametrize("level", [0, 4])
@pytest.mark.parametrize(("bits", "size", "zeros"), [(4, 32, True), (4, 128, False), (8, 64, False), (4, 16, True)])
@pytest.mark.parametrize(("rows", "columns"), [(1, 256), (3, 48), (17, 50), (40, 256)])
def test_without_exact_products_of_bytes(
    bits: int, size: int, zeros: bool, rows: int, columns: int, level: int
) -> None:
    """Own code computes any number of rows then, as exactly as float32 but where level 4 allows to round them, and what
    stands around it."""
    constants, real, attributes = _blocks(bits, size, zeros, columns)
    rng = np.random.default_rng(17)
    x = (rng.standard_normal((1, rows, 256)) * np.exp(2 * rng.standard_normal(256))).astype(np.float32)
    bias, residual = (rng.standard_normal(shape).astype(np.float32) for shape in (columns, (1, rows, columns)))
    constants["c"] = bias
    constants.setdefault("z", np.full((columns, -(-256 // size * bits // 8)), 0x88 if bits == 4 else 0x80, np.uint8))
    nodes = [
        node("MatMulNBits", "x b s z  c", "p", domain="com.microsoft", accuracy_level=level, **attributes),
        node("Add", "p r", "y"),
    ]
    nodes[0].input[:] = ["x", "b", "s", "z", "", "c"]
    feeds = {"x": x, "r": residual}
    (actual,) = run_here(model(nodes, feeds, constants), feeds)
    exact = x.astype(np.float64) @ real
    single = x @ real.astype(np.float32)
    allowed = max(2 * np.abs(single - exact).max(), (3e-2 if level == 4 else 2e-6) * np.abs(exact).max())
    assert np.abs(actual - (exact + bias + residual)).max() <= allowed


@pytest.mark.usefixtures("_inexact")
@pytest.mark.parametrize(("bits", "most"), [(4, 0.5 + 4 / 32), (8, 1 + 4 / 32)])
def test_words_and_prompts_hold_one_form(bits: int, most: float) -> None:
    """A session that computes one row and many holds the bits of the weights and their scales, once."""
    constants, _, attributes = _blocks(bits, 32, False, 512)
    nodes = [node("MatMulNBits", "x b s", "y", domain="com.microsoft", accuracy_level=4, **attributes)]
    feeds = [np.ones((1, rows, 256), np.float32) for rows in (1, 5, 70)]
    with open_session(model(nodes, {"x": feeds[0]}, constants, dynamic=True)) as session:
        for x in feeds:
            session.run(None, {"x": x})
        assert not session.fallback_report
        assert session.memory_report().packed <= (most + 0.01) * 256 * 512


@pytest.mark.usefixtures("needs_exact_integers")
def test_weights_of_few_bits_with_integers() -> None:
    """Accuracy level 4 allows a first factor of 8 bits: its rounding is seen, and no more."""
    constants, real, attributes = _blocks(4, 32, True)
    x = np.random.default_rng(11).standard_normal((1, 12, 256)).astype(np.float32)
    nodes = [node("MatMulNBits", "x b s z", "y", domain="com.microsoft", accuracy_level=4, **attributes)]
    (actual,) = run_here(model(nodes, {"x": x}, constants), {"x": x})
    far = np.abs(actual - x.astype(np.float64) @ real).max() / np.abs(x @ real).max()
    assert 1e-5 < far < 3e-2


def test_few_rows_and_many_in_one_session() -> None:
    """A prompt and then a word: each finds the weights in a form of its own."""
    constants, real, attributes = _blocks(4, 32, True, 128)
    nodes = [node("MatMulNBits", "x b s z", "y", domain="com.microsoft", **attributes)]
    rng = np.random.default_rng(12)
    x = rng.standard_normal((1, 2, 256)).astype(np.float32)
    with open_session(model(nodes, {"x": x}, constants, dynamic=True)) as session:
        for rows in (64, 1, 64, 4, 5):
            x = rng.standard_normal((1, rows, 256)).astype(np.float32)
            (actual,) = session.run(None, {"x": x})
            exact = x.astype(np.float64) @ real
            assert np.abs(actual - exact).max() <= 2e-6 * np.abs(exact).max()


@pytest.mark.usefixtures("needs_exact_integers")
@pytest.mark.parametrize(("size", "level"), [(128, 0), (64, 0), (32, 4), (64, 4)])
@pytest.mark.parametrize("order", [(1, 70), (70, 1)])
def test_bytes_are_held_once(size: int, level: int, order: tuple[int, int]) -> None:
    """Where digits serve any number of rows, a word and a prompt read one form of the weights, whichever is first: a
    byte each, and what the library adds, and the scales."""
    constants, _, attributes = _blocks(8, size, False, 512)
    nodes = [node("MatMulNBits", "x b s", "y", domain="com.microsoft", accuracy_level=level, **attributes)]
    x = np.zeros((1, 1, 256), np.float32)
    with open_session(model(nodes, {"x": x}, constants, dynamic=True)) as session:
        for rows in order:
            session.run(None, {"x": np.ones((1, rows, 256), np.float32)})
        assert not session.fallback_report
        packed = session.memory_report().packed
    weights = 256 * 512
    assert weights <= packed < 1.35 * weights


@pytest.mark.parametrize(("size", "level"), [(32, 0), (128, 0), (32, 4)])
def test_turns_and_parts(monkeypatch: pytest.MonkeyPatch, size: int, level: int) -> None:
    """Rows taken in turns and columns in parts give what they give at once, one row and a turn that is not full too;
    and float32 is made of parts."""
    constants, real, attributes = _blocks(4, size, False, 1024)
    nodes = [node("MatMulNBits", "x b s", "y", domain="com.microsoft", accuracy_level=level, **attributes)]
    data = model(nodes, {"x": np.zeros((1, 1, 256), np.float32)}, constants, dynamic=True)
    rng = np.random.default_rng(13)
    feeds = [rng.standard_normal((1, rows, 256)).astype(np.float32) for rows in (1, 3, 11, 50)]
    with open_session(data) as session:
        whole = [session.run(None, {"x": x})[0] for x in feeds]
    monkeypatch.setattr(block_quantized, "_PART", 256 // size * 4 * 256)
    monkeypatch.setattr(block_quantized, "_NEAR", 256 // size * 4 * 256 * 8)
    with open_session(data) as session:
        parts = [session.run(None, {"x": x})[0] for x in feeds]
        assert not session.fallback_report
    for x, one, other in zip(feeds, whole, parts, strict=True):
        largest = np.abs(x.astype(np.float64) @ real).max()
        assert np.abs(one - other).max() <= 2e-6 * largest
        assert np.abs(other - x.astype(np.float64) @ real).max() <= (3e-2 if level == 4 else 2e-6) * largest


@pytest.mark.usefixtures("needs_exact_integers")
def test_turns_are_no_more_steps_of_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten times the rows are ten times the turns, and planned as fast."""
    constants, _, attributes = _blocks(4, 128, False, 512)
    monkeypatch.setattr(block_quantized, "_NEAR", 2 * 3 * 512 * 4 * 8)
    emitted: list[int] = []
    emit = Planner.emit

    def counted(self: Planner, *args: Any, **options: Any) -> None:
        emitted[-1] += 1
        emit(self, *args, **options)

    monkeypatch.setattr(Planner, "emit", counted)
    data = model(
        [node("MatMulNBits", "x b s", "y", domain="com.microsoft", **attributes)],
        {"x": np.zeros((1, 1, 256), np.float32)},
        constants,
        dynamic=True,
    )
    with open_session(data) as session:
        for rows in (48, 480):
            emitted.append(0)
            session.run(None, {"x": np.ones((1, rows, 256), np.float32)})
    assert emitted[0] == emitted[1] > 0


@pytest.mark.usefixtures("needs_exact_integers")
@pytest.mark.parametrize("size", [16, 32])
@pytest.mark.parametrize("order", [(1, 70), (70, 1)])
def test_short_blocks_are_held_once(size: int, order: tuple[int, int]) -> None:
    """Digits of few rows and float32 for many read the same panels: a byte each and the scales, with the results that a
    region of known shapes has."""
    constants, real, attributes = _blocks(8, size, False, 512)
    nodes = [node("MatMulNBits", "x b s", "y", domain="com.microsoft", **attributes)]
    rng = np.random.default_rng(14)
    feeds = [rng.standard_normal((1, rows, 256)).astype(np.float32) for rows in order]
    with open_session(model(nodes, {"x": feeds[0]}, constants, dynamic=True)) as session:
        found = [session.run(None, {"x": x})[0] for x in feeds]
        assert not session.fallback_report
        packed = session.memory_report().packed
    weights = 256 * 512
    assert weights <= packed <= (1 + 4 / size + 0.01) * weights
    for x, y in zip(feeds, found, strict=True):
        (known,) = run_here(model(nodes, {"x": x}, constants), {"x": x})
        largest = np.abs(x.astype(np.float64) @ real).max()
        assert np.abs(y - known).max() <= 2e-6 * largest
        assert np.abs(y - x.astype(np.float64) @ real).max() <= 2e-6 * largest


@pytest.mark.parametrize("columns", [48, 50, 192, 320])
@pytest.mark.parametrize("rows", [1, 3, 5])
def test_panels_of_any_number_of_columns(columns: int, rows: int) -> None:
    """Few rows of a session whose rows are not known, also where columns fill no panels."""
    constants, real, attributes = _blocks(4, 32, True, columns)
    nodes = [node("MatMulNBits", "x b s z", "y", domain="com.microsoft", **attributes)]
    x = np.random.default_rng(15).standard_normal((1, rows, 256)).astype(np.float32)
    with open_session(model(nodes, {"x": x}, constants, dynamic=True)) as session:
        (actual,) = session.run(None, {"x": x})
        assert not session.fallback_report
    exact = x.astype(np.float64) @ real
    assert np.abs(actual - exact).max() <= 2e-6 * np.abs(exact).max()

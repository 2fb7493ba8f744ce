"""GroupQueryAttention in regions: a word after another, prompts, buffers, against onnxruntime."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import ort_py as ort
from ort_py_kit.tolerances import assert_close
from ort_py_onednn.binding.engine import engine
from ort_py_onednn.binding.past_attention import has_past_attention
from providers.onednn.tests.checking import watched
from providers.onednn.tests.models import PROVIDER, node, open_session, run_plain

Array = np.ndarray[Any, Any]
HEADS, GROUPS, SIZE, POSITIONS = 4, 2, 16, 1200
WIDE, NARROW = HEADS * SIZE, GROUPS * SIZE
STATES = ("pk0", "pv0", "pk1", "pv1")


@pytest.fixture(autouse=True)
def has_code() -> None:
    """Skip where there is no code."""
    if not has_past_attention(engine().library):
        pytest.skip("the CPU has no AVX2, or the system allows no executable memory")


def _decoder(
    layers: int = 2,
    *,
    rotary: int | None = 1,
    packed: bool = False,
    column: bool = False,
    **attributes: Any,
) -> bytes:
    """Layers of a projection, attention and a projection; angles are turned in halves (0), neighbours (1), or not."""
    random = np.random.default_rng(1)
    nodes, value = [], "x"
    ends: list[tuple[str, int, tuple[Any, ...]]] = [
        ("x", TensorProto.FLOAT, ("batch", "rows", WIDE)),
        ("ends", TensorProto.INT32, ("batch", 1) if column else ("batch",)),
        ("total", TensorProto.INT32, (1,) if column else ()),
    ]
    results: list[tuple[str, int, tuple[Any, ...]]] = []
    angles = np.outer(np.arange(POSITIONS), 10000.0 ** -(np.arange(SIZE // 2) / SIZE))
    weights: dict[str, Array] = {}
    if rotary is not None:
        weights = {"cos": np.cos(angles).astype(np.float32), "sin": np.sin(angles).astype(np.float32)}
    turned = {"do_rotary": 1, "rotary_interleaved": rotary} if rotary is not None else {}
    tables = " cos sin" if rotary is not None else ""
    for layer in range(layers):
        weights[f"w{layer}"] = random.standard_normal((WIDE, WIDE + 2 * NARROW), np.float32) / 8
        weights[f"u{layer}"] = random.standard_normal((WIDE, WIDE), np.float32) / 8
        past, present = f"pk{layer} pv{layer}", f"k{layer} v{layer}"
        ends += [(name, TensorProto.FLOAT, ("batch", GROUPS, "past", SIZE)) for name in past.split()]
        results += [(name, TensorProto.FLOAT, ("batch", GROUPS, "all", SIZE)) for name in present.split()]
        nodes.append(node("MatMul", f"{value} w{layer}", f"a{layer}"))
        operands = f"a{layer} - -"
        if not packed:
            weights["sizes"] = np.array([WIDE, NARROW, NARROW], np.int64)
            operands = f"q{layer} n{layer} m{layer}"
            nodes.append(node("Split", f"a{layer} sizes", operands, axis=2))
        nodes += [
            node(
                "GroupQueryAttention",
                f"{operands} {past} ends total{tables}",
                f"y{layer} {present}",
                num_heads=HEADS,
                kv_num_heads=GROUPS,
                domain="com.microsoft",
                **turned,
                **attributes,
            ),
            node("MatMul", f"y{layer} u{layer}", f"o{layer}"),
        ]
        value = f"o{layer}"
    results.append((value, TensorProto.FLOAT, ("batch", "rows", WIDE)))
    inputs, outputs = ([helper.make_tensor_value_info(*one) for one in some] for some in (ends, results))
    held = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, held)
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=9).SerializeToString()


def _feeds(past: int, rows: int = 1, batch: int = 1, layers: int = 2, held: int | None = None) -> dict[str, Array]:
    """A run behind a past, in buffers of more rows where these are given."""
    random = np.random.default_rng(past)
    feeds = {
        "x": random.standard_normal((batch, rows, WIDE), np.float32),
        "ends": np.full(batch, past + rows - 1, np.int32),
        "total": np.array(past + rows, np.int32),
    }
    for name in STATES[: 2 * layers]:
        feeds[name] = random.standard_normal((batch, GROUPS, past if held is None else held, SIZE), np.float32)
    return feeds


def _agree(found: list[Any], wanted: list[Any]) -> None:
    for one, other in zip(found, wanted, strict=True):
        assert_close(one, other)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("rotary", [None, 0, 1])
@pytest.mark.parametrize("packed", [False, True])
def test_one_plan_serves_many_lengths(packed: bool, rotary: int | None, threads: int, plans: list[Any]) -> None:
    """A word after another, and none before; the whole model is one region. Prompts have a plan of their own."""
    data = _decoder(rotary=rotary, packed=packed)
    with watched(), open_session(data, threads) as session:
        assert {one.provider for one in session.placement.nodes} == {PROVIDER}
        for past in (5, 6, 7, 1, 255, 6):
            feeds = _feeds(past)
            _agree(session.run(None, feeds), run_plain(data, feeds))
        assert len(plans) == 1
        for past, rows, batch in ((0, 3, 1), (0, 3, 2), (0, 300, 1), (1100, 1, 1), (256, 1, 1)):
            feeds = _feeds(past, rows, batch)
            _agree(session.run(None, feeds), run_plain(data, feeds))
        assert not session.fallback_report


def test_several_new_rows_behind_a_past() -> None:
    data = _decoder()
    with watched(), open_session(data) as session:
        for past, rows in ((4, 3), (9, 20), (300, 7)):
            feeds = _feeds(past, rows)
            _agree(session.run(None, feeds), run_plain(data, feeds))
        assert not session.fallback_report


@pytest.mark.parametrize("ends", [(7, 7), (3, 7), (0, 7), (7, 2)])
@pytest.mark.parametrize("held", [7, 8, 40])
def test_entries_of_different_lengths(ends: tuple[int, int], held: int) -> None:
    data = _decoder(1)
    feeds = _feeds(7, 1, 2, 1, held) | {"ends": np.array(ends, np.int32)}
    with watched(), open_session(data) as session:
        found, wanted = session.run(None, feeds), run_plain(data, feeds)
        for one, other in zip(found[:2], wanted[:2], strict=True):
            assert one.shape == other.shape
            for entry, end in enumerate(ends):  # what is behind has no meaning
                assert_close(one[entry, :, : end + 1], other[entry, :, : end + 1])
        assert_close(found[2], wanted[2])
        assert not session.fallback_report


def test_numbers_of_keys_in_a_column() -> None:
    """Exporters of decoders keep the axis that they sum over."""
    data = _decoder(1, column=True)
    feeds = _feeds(7, 1, 2, 1)
    feeds["ends"], feeds["total"] = feeds["ends"].reshape(2, 1), feeds["total"].reshape(1)
    with open_session(data) as session:
        assert {one.provider for one in session.placement.nodes} == {PROVIDER}
        _agree(session.run(None, feeds), run_plain(data, feeds))


@pytest.mark.parametrize("window", [1, 3, 40, 1000])
def test_a_local_window(window: int) -> None:
    """Words and prompts that are longer than it, and shorter."""
    data = _decoder(local_window_size=window)
    with watched(), open_session(data) as session:
        assert {one.provider for one in session.placement.nodes} == {PROVIDER}
        for past, rows in ((2, 1), (7, 1), (90, 1), (300, 1), (0, 2), (0, 70)):
            feeds = _feeds(past, rows)
            _agree(session.run(None, feeds), run_plain(data, feeds))
        assert not session.fallback_report


def test_a_padded_prompt() -> None:
    data = _decoder(1)
    feeds = _feeds(0, 6, 2, 1) | {"ends": np.array([5, 3], np.int32)}
    with watched(), open_session(data) as session:
        found, wanted = session.run(None, feeds)[2], run_plain(data, feeds)[2]
        assert_close(found[0], wanted[0])
        assert_close(found[1, :4], wanted[1, :4])
        assert not session.fallback_report


def test_outputs_go_on_as_inputs() -> None:
    """Each word's keys and values are the next one's past, and no other one's afterwards."""
    data = _decoder()
    with open_session(data) as session:
        feeds, kept = _feeds(0, 4), []
        for word in range(4, 14):
            wanted = run_plain(data, feeds)
            kept.append((session.run(None, feeds), wanted))
            feeds = _feeds(word) | dict(zip(STATES, wanted[:4], strict=True))
        for found, wanted in kept:
            _agree(found, wanted)


def test_a_buffer_that_is_bound_as_input_and_output(plans: list[Any]) -> None:
    """Only what is new is written to it, whatever its length is beside that of the plan."""
    data = _decoder(1)
    held = 3000
    caches = [
        ort.OrtValue.ortvalue_from_numpy(np.random.default_rng(1).standard_normal((1, GROUPS, held, SIZE), np.float32))
        for _ in range(2)
    ]
    with open_session(data) as session:
        for past in (5, 6, 7, 1100):
            before = [cache.numpy().copy() for cache in caches]
            feeds = _feeds(past, 1, 1, 1) | dict(zip(STATES, before, strict=False))
            wanted = run_plain(data, feeds)
            binding = session.io_binding()
            for name in ("x", "ends", "total"):
                binding.bind_cpu_input(name, feeds[name])
            for given, made, cache in zip(STATES[:2], ("k0", "v0"), caches, strict=True):
                binding.bind_ortvalue_input(given, cache)
                binding.bind_ortvalue_output(made, cache)
            binding.bind_output("o0")
            session.run_with_iobinding(binding)
            assert_close(binding.copy_outputs_to_cpu()[2], wanted[2])
            for cache, one, old in zip(caches, wanted, before, strict=False):
                now = cache.numpy()
                assert_close(now[:, :, : past + 1], one[:, :, : past + 1])
                if past > 5:  # the first run of these shapes makes arrays of its own
                    np.testing.assert_array_equal(now[:, :, past + 1 :], old[:, :, past + 1 :])
    assert len(plans) == 1


@pytest.mark.parametrize("what", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", ["x", "pk1", "pv0"])
def test_values_that_are_no_numbers(where: str, what: float) -> None:
    """They spread as in onnxruntime: in one head, or all that follows."""
    data = _decoder(rotary=None)
    feeds = _feeds(5)
    feeds[where][(0,) * (feeds[where].ndim - 2) + (0, 3)] = what
    with open_session(data) as session:
        _agree(session.run(None, feeds), run_plain(data, feeds))


@pytest.mark.parametrize("what", [np.nan, np.inf])
def test_what_is_not_filled_takes_no_part(what: float) -> None:
    data = _decoder(1)
    feeds = _feeds(7, 1, 2, 1, 40) | {"ends": np.array([3, 7], np.int32)}
    for name in STATES[:2]:
        feeds[name][0, :, 3:] = feeds[name][1, :, 7:] = what
    with watched(), open_session(data) as session:
        assert_close(session.run(None, feeds)[2], run_plain(data, feeds)[2])


@pytest.mark.parametrize(
    "change",
    [
        {"ends": [9]},
        {"ends": [-1]},
        {"total": 0},
        {"total": 2**31 - 1},
        {"total": 2**31 - 1, "ends": [2**31 - 2]},
        {"ends": [5, 5]},
    ],
    ids=str,
)
def test_numbers_of_keys_that_contradict_the_past_are_refused(change: dict[str, Any]) -> None:
    """Before native code reads them: also after a run that fitted; and runs that fit are answered afterwards."""
    data = _decoder()
    with open_session(data) as session:
        feeds = _feeds(5)
        wanted = session.run(None, feeds)
        with pytest.raises(ort.errors.OrtPyError):
            session.run(None, feeds | {name: np.array(value, np.int32) for name, value in change.items()})
        _agree(session.run(None, feeds), wanted)


def test_a_longest_sequence_that_is_not_there_is_left_to_kernels() -> None:
    """They make presents of that length, where onnxruntime refuses it."""
    data = _decoder()
    feeds = _feeds(5) | {"total": np.array(9, np.int32)}
    options = ort.SessionOptions()
    options.pin_cpu = True
    with open_session(data) as session, ort.InferenceSession(data, options) as plain:
        for _ in range(2):
            _agree(session.run(None, feeds), plain.run(None, feeds))


def test_positions_without_angles_are_refused() -> None:
    data = _decoder(1)
    feeds = _feeds(POSITIONS, 1, 1, 1)
    with open_session(data) as session, pytest.raises(ort.errors.OrtPyError):
        session.run(None, feeds)


def test_a_limit_counts_the_keys_that_there_are() -> None:
    """Not those that the plan would allow for."""
    data = _decoder(1, rotary=None)
    options = ort.SessionOptions()
    options.limits = ort.Limits(single_allocation_bytes=3 * GROUPS * 100 * SIZE * 4)
    with ort.InferenceSession(data, options, providers=[PROVIDER, "CPUExecutionProvider"]) as session:
        for past in (60, 61):
            feeds = _feeds(past, 1, 3, 1)
            _agree(session.run(None, feeds), run_plain(data, feeds))
        with pytest.raises(Exception, match="larger than one allocation"):
            session.run(None, _feeds(300, 1, 3, 1))


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"softcap": 2.0}, "softcap is 2.0"),
        ({"smooth_softmax": 1}, "smooth_softmax is 1"),
    ],
)
def test_what_there_is_no_code_for_stays_with_kernels(attributes: dict[str, Any], reason: str) -> None:
    data = _decoder(1, **attributes)
    with open_session(data) as session:
        others = {one.op_type: one.refusals for one in session.placement.nodes if one.provider != PROVIDER}
        assert list(others) == ["GroupQueryAttention"]
        assert reason in others["GroupQueryAttention"][0][1]
        feeds = _feeds(7, 1, 1, 1)
        _agree(session.run(None, feeds), run_plain(data, feeds))


@pytest.mark.parametrize("attributes", [{"softcap": 0.0}, {"smooth_softmax": 0}, {"scale": 0.1}, {"scale": 0.0}])
def test_attributes_that_change_nothing_or_the_scale(attributes: dict[str, Any]) -> None:
    data = _decoder(1, **attributes)
    with open_session(data) as session:
        assert {one.provider for one in session.placement.nodes} == {PROVIDER}
        feeds = _feeds(7, 1, 1, 1)
        _agree(session.run(None, feeds), run_plain(data, feeds))


def test_several_sessions_and_threads_at_once() -> None:
    data = _decoder()
    cases = [_feeds(past) for past in (1, 2, 17, 300)]
    wanted = [run_plain(data, feeds) for feeds in cases]
    with open_session(data, 2) as first, open_session(data) as second, ThreadPoolExecutor(4) as pool:

        def run(number: int) -> None:
            for place in range(number, number + 12):
                session = (first, second)[place % 2]
                _agree(session.run(None, cases[place % 4]), wanted[place % 4])

        list(pool.map(run, range(8)))

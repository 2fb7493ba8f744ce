"""Attention to a past that grows, in models: one plan for many lengths, against onnxruntime and against definitions."""

from __future__ import annotations

import itertools
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
HEADS, SIZE = 3, 20
WIDE = HEADS * SIZE


@pytest.fixture(autouse=True)
def has_code() -> None:
    """Skip where there is no code."""
    if not has_past_attention(engine().library):
        pytest.skip("the CPU has no AVX2, or the system allows no executable memory")


def _decoder(layers: int = 2, *, bias: bool = True, ahead: bool = False) -> bytes:
    """Layers of a projection, attention to a past, and a projection; with `ahead` the bias is computed."""
    random = np.random.default_rng(1)
    nodes, value = [], "x"
    ends: list[tuple[str, tuple[Any, ...]]] = [("x", ("batch", "rows", WIDE))]
    results: list[tuple[str, tuple[Any, ...]]] = []
    if bias:
        ends.append(("mask", ("batch", 1, "rows", "total")))
    if ahead:
        nodes.append(node("Mul", "mask two", "added"))
    weights: dict[str, Array] = {"two": np.full((1,), 2, np.float32)}
    for layer in range(layers):
        weights[f"w{layer}"] = random.standard_normal((WIDE, 3 * WIDE), np.float32) / 8
        weights[f"u{layer}"] = random.standard_normal((WIDE, WIDE), np.float32) / 8
        past = f"pk{layer}", f"pv{layer}"
        present = f"k{layer}", f"v{layer}"
        ends += [(name, ("batch", HEADS, "past", SIZE)) for name in past]
        results += [(name, ("batch", HEADS, "total", SIZE)) for name in present]
        added = ("added" if ahead else "mask") if bias else "-"
        nodes += [
            node("MatMul", f"{value} w{layer}", f"a{layer}"),
            node("Split", f"a{layer}", f"q{layer} n{layer} m{layer}", axis=2, num_outputs=3),
            node(
                "MultiHeadAttention",
                f"q{layer} n{layer} m{layer} - - {added} {' '.join(past)}",
                f"y{layer} {' '.join(present)}",
                num_heads=HEADS,
                domain="com.microsoft",
            ),
            node("MatMul", f"y{layer} u{layer}", f"o{layer}"),
        ]
        value = f"o{layer}"
    results.append((value, ("batch", "rows", WIDE)))
    inputs, outputs = (
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in some]
        for some in (ends, results)
    )
    held = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, held)
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=9).SerializeToString()


def _feeds(past: int, rows: int = 1, batch: int = 1, layers: int = 2, *, bias: bool = True) -> dict[str, Array]:
    random = np.random.default_rng(past)
    feeds = {"x": random.standard_normal((batch, rows, WIDE), np.float32)}
    if bias:
        feeds["mask"] = random.standard_normal((batch, 1, rows, past + rows), np.float32)
    for layer in range(layers):
        for name in (f"pk{layer}", f"pv{layer}"):
            feeds[name] = random.standard_normal((batch, HEADS, past, SIZE), np.float32)
    return feeds


def _numpy_session(data: bytes) -> ort.InferenceSession:
    """A session of which NumPy runs all."""
    options = ort.SessionOptions()
    options.pin_cpu = True
    return ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def _agree(found: list[Any], wanted: list[Any]) -> None:
    for one, other in zip(found, wanted, strict=True):
        assert_close(one, other)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("bias", [False, True])
def test_one_plan_serves_many_lengths(bias: bool, threads: int, plans: list[Any]) -> None:
    """A word after another, prompts, no past, several entries; the whole model is one region."""
    data = _decoder(bias=bias)
    lengths = [5, 6, 7, 0, 255, 256, 6]
    with watched(), open_session(data, threads) as session:
        assert {one.provider for one in session.placement.nodes} == {PROVIDER}
        for past in lengths:
            feeds = _feeds(past, bias=bias)
            _agree(session.run(None, feeds), run_plain(data, feeds))
        assert len(plans) == 1
        for past, rows, batch in ((4, 3, 1), (9, 3, 1), (0, 30, 1), (3, 2, 3), (1100, 1, 1)):
            feeds = _feeds(past, rows, batch, bias=bias)
            _agree(session.run(None, feeds), run_plain(data, feeds))
        assert len(plans) == 5
        assert not session.fallback_report


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("kind", ["", "float32", "bool"])
@pytest.mark.parametrize("groups", [4, 2, 1])
def test_attention_of_onnx(groups: int, kind: str, split: bool, plans: list[Any]) -> None:
    """Keys that several heads read, masks of numbers and of bool, heads in a row and split."""
    heads, size, each = 4, 12, 20
    random = np.random.default_rng(7)
    attributes = {} if split else {"q_num_heads": heads, "kv_num_heads": groups}
    shapes = {"q": (heads, size), "k": (groups, size), "v": (groups, each)}
    mask = "m" if kind else "-"
    nodes = [
        node("Attention", f"q k v {mask} pk pv", "a keys values", scale=0.4, **attributes),
        node("Relu", "a", "y"),
    ]

    def feeds_of(past: int, rows: int = 2) -> dict[str, Array]:
        feeds: dict[str, Array] = {}
        for name, (count, wide) in shapes.items():
            shape = (2, count, rows, wide) if split else (2, rows, count * wide)
            feeds[name] = random.standard_normal(shape, np.float32)
        if kind:
            seen = random.random((2, 1, rows, past + rows)) < 0.7
            feeds["m"] = seen if kind == "bool" else np.where(seen, 0.5, -np.inf).astype(np.float32)
        for name, wide in (("pk", size), ("pv", each)):
            feeds[name] = random.standard_normal((2, groups, past, wide), np.float32)
        return feeds

    inputs = []
    for name, array in feeds_of(3).items():
        shape: list[Any] = list(array.shape)
        if name in ("pk", "pv"):
            shape[2] = "past"
        elif name == "m":
            shape[3] = "total"
        inputs.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), shape))
    ends = {"y": None, "keys": (2, groups, "total", size), "values": (2, groups, "total", each)}
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in ends.items()]
    graph = helper.make_graph(nodes, "g", inputs, results)
    data = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10).SerializeToString()
    with watched(), open_session(data) as session, _numpy_session(data) as plain:
        others = [(one.op_type, one.refusals) for one in session.placement.nodes if one.provider != PROVIDER]
        assert not others
        for past in (0, 3, 4, 29, 62):
            feeds = feeds_of(past)
            _agree(session.run(None, feeds), plain.run(None, feeds))
        assert not session.fallback_report
    assert len(plans) == 1


def test_outputs_go_on_as_inputs() -> None:
    """Each word's keys and values are the next one's past, and no other one's afterwards."""
    data = _decoder()
    states = ["pk0", "pv0", "pk1", "pv1"]
    with open_session(data) as session:
        feeds, kept = _feeds(0), []
        for word in range(12):
            feeds = _feeds(word) | {name: feeds[name] for name in states}
            wanted = run_plain(data, feeds)
            kept.append((session.run(None, feeds), wanted))
            feeds = dict(zip(states, wanted[:4], strict=True))
        for found, wanted in kept:
            _agree(found, wanted)


def test_what_makes_the_bias_stays_outside(plans: list[Any]) -> None:
    """Its size changes with each word, which would need a plan."""
    data = _decoder(ahead=True)
    with open_session(data) as session:
        others = {one.op_type: one.refusals for one in session.placement.nodes if one.provider != PROVIDER}
        assert list(others) == ["Mul"]
        assert "added to scores of a past" in others["Mul"][0][1]
        for past in (3, 4, 5):
            feeds = _feeds(past)
            _agree(session.run(None, feeds), run_plain(data, feeds))
    assert len(plans) == 1


def test_arrays_that_do_not_lie_plainly() -> None:
    """Views, read-only arrays, one array for two pasts."""
    data = _decoder()
    feeds = _feeds(9)
    wanted = run_plain(data, feeds | {"pv1": feeds["pk0"]})
    given: dict[str, Array] = {}
    for name, array in feeds.items():
        wide = np.full((*array.shape[:-1], 2 * array.shape[-1]), np.nan, np.float32)
        given[name] = wide[..., ::2]
        given[name][...] = array
        given[name].flags.writeable = False
    given["pv1"] = given["pk0"]
    with open_session(data) as session:
        for _ in range(2):
            _agree(session.run(None, given), wanted)


def test_bound_over_one_buffer() -> None:
    """An output that is bound to a part of the memory of its input: the input is read before."""
    data = _decoder(1)
    feeds = _feeds(6, layers=1)
    wanted = run_plain(data, feeds)
    with open_session(data) as session:
        for _ in range(2):
            memory = np.zeros(HEADS * 7 * SIZE, np.float32)
            past = memory[: HEADS * 6 * SIZE].reshape(1, HEADS, 6, SIZE)
            past[...] = feeds["pk0"]
            present = memory.reshape(1, HEADS, 7, SIZE)
            binding = session.io_binding()
            for name, array in (feeds | {"pk0": past}).items():
                binding.bind_ortvalue_input(name, ort.OrtValue.ortvalue_from_numpy(array))
            binding.bind_output("k0", "cpu", 0, np.float32, present.shape, present.ctypes.data)
            for name in ("v0", "o0"):
                binding.bind_output(name)
            session.run_with_iobinding(binding)
            _agree(binding.copy_outputs_to_cpu(), wanted)
            assert_close(present, wanted[0])


@pytest.mark.parametrize("where", ["x", "pk1", "pv0", "mask"])
@pytest.mark.parametrize("what", [np.nan, np.inf, -np.inf])
def test_values_that_are_no_numbers(where: str, what: float) -> None:
    """As NumPy has them: in one row, one head, or all that follows."""
    data = _decoder()
    feeds = _feeds(5, 2)
    feeds[where][(0,) * (feeds[where].ndim - 2) + (1, 3)] = what
    with open_session(data) as session, _numpy_session(data) as plain:
        _agree(session.run(None, feeds), plain.run(None, feeds))


def test_several_sessions_and_threads_at_once() -> None:
    data = _decoder()
    cases = [_feeds(past) for past in (0, 1, 17, 300)]
    wanted = [run_plain(data, feeds) for feeds in cases]
    with open_session(data, 2) as first, open_session(data) as second, ThreadPoolExecutor(4) as pool:

        def run(number: int) -> None:
            for place in range(number, number + 12):
                session = (first, second)[place % 2]
                _agree(session.run(None, cases[place % 4]), wanted[place % 4])

        list(pool.map(run, range(8)))


def test_a_limit_counts_the_keys_that_there_are() -> None:
    """Not those that the plan would allow for."""
    data = _decoder(1)
    options = ort.SessionOptions()
    options.limits = ort.Limits(single_allocation_bytes=HEADS * 250 * SIZE * 4)
    with ort.InferenceSession(data, options, providers=[PROVIDER, "CPUExecutionProvider"]) as session:
        feeds = _feeds(60, layers=1)
        _agree(session.run(None, feeds), run_plain(data, feeds))
        with pytest.raises(Exception, match="larger than one allocation"):
            session.run(None, _feeds(300, layers=1))


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("pk0", (1, HEADS, 4, SIZE + 1)),
        ("pv0", (1, HEADS, 5, SIZE)),
        ("pk1", (2, HEADS, 4, SIZE)),
        ("mask", (1, 1, 1, 6)),
    ],
)
def test_shapes_that_do_not_fit_are_refused(name: str, shape: tuple[int, ...]) -> None:
    """By name, and before native code reads them: also after a run that fitted."""
    with open_session(_decoder()) as session:
        feeds = _feeds(4)
        session.run(None, feeds)
        with pytest.raises(ort.errors.OrtPyError):
            session.run(None, feeds | {name: np.zeros(shape, np.float32)})


def test_all_lengths_up_to_many() -> None:
    """The sum of equal values is that value, whatever their number."""
    data = _decoder(1, bias=False)
    with open_session(data) as session:
        for past in itertools.chain(range(40), range(250, 262), (1023, 1024, 1025)):
            feeds = _feeds(past, layers=1, bias=False)
            feeds["pv0"][...] = 0
            found = session.run(None, feeds)
            assert found[0].shape == (1, HEADS, past + 1, SIZE)
            np.testing.assert_array_equal(found[0][:, :, :past], feeds["pk0"])
            np.testing.assert_array_equal(found[1][:, :, :past], 0)


@pytest.mark.parametrize("present", [False, True])
@pytest.mark.parametrize("operator", ["Attention", "MultiHeadAttention"])
@pytest.mark.parametrize(("queries", "keys"), [(5, 2), (2, 5), (2, 1), (1, 3)])
def test_more_or_fewer_queries_than_new_keys(queries: int, keys: int, operator: str, present: bool) -> None:
    """Their numbers only show in runs; the code for as many would read behind the new keys, or leave some out."""
    random = np.random.default_rng(7)
    standard = operator == "Attention"
    counts: dict[str, Any] = {"q_num_heads": HEADS, "kv_num_heads": HEADS} if standard else {"num_heads": HEADS}
    between = "-" if standard else "- - -"
    outputs = "y k v" if present else "y"
    domain = "" if standard else "com.microsoft"
    nodes = [node(operator, f"q n m {between} pk pv", outputs, domain=domain, **counts)]
    shapes: dict[str, tuple[Any, ...]] = {"q": (1, "queries", WIDE), "n": (1, "keys", WIDE), "m": (1, "keys", WIDE)}
    shapes |= dict.fromkeys(("pk", "pv"), (1, HEADS, "past", SIZE))
    results: dict[str, tuple[Any, ...]] = {"y": (1, "queries", WIDE)}
    if present:
        results |= dict.fromkeys(("k", "v"), (1, HEADS, "total", SIZE))
    inputs, written = (
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in some.items()]
        for some in (shapes, results)
    )
    graph = helper.make_graph(nodes, "g", inputs, written)
    imports = [helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)]
    data = helper.make_model(graph, opset_imports=imports, ir_version=10).SerializeToString()
    sizes: dict[Any, int] = {"queries": queries, "keys": keys, "past": 3}
    feeds = {
        name: random.standard_normal([sizes.get(one, one) for one in shape], np.float32)
        for name, shape in shapes.items()
    }
    heads = {name: feeds[name].reshape(-1, HEADS, SIZE).swapaxes(0, 1).astype(np.float64) for name in "qnm"}
    all_keys, all_values = (np.concatenate([feeds[old][0], heads[new]], 1) for old, new in (("pk", "n"), ("pv", "m")))
    weights = np.exp(heads["q"] @ all_keys.swapaxes(1, 2) / np.sqrt(SIZE))
    exact = (weights / weights.sum(2, keepdims=True) @ all_values).swapaxes(0, 1).reshape(1, queries, WIDE)
    with open_session(data) as session:
        assert [one.provider for one in session.placement.nodes] == [PROVIDER]
        found = session.run(None, feeds)
        assert [one.provider for one in session.placement.nodes] == [PROVIDER]
    assert_close(found[0], exact.astype(np.float32))
    for one, other in zip(found[1:], (all_keys, all_values), strict=present):
        assert_close(one[0], other.astype(np.float32))

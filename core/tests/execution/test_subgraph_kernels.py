"""Kernels of plug-ins that run graphs of their node: captures, nesting, devices, threads, and what they may not do."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from core.tests.driving import Driven, HostProvider, drive, floats
from ort_py.contracts import (
    ALL_FLOATS,
    FormalParameter,
    GraphView,
    IExecutionProvider,
    KernelContext,
    KernelDef,
    OperatorSchema,
    Subgraph,
    SubgraphCallable,
    kernel,
)
from ort_py.errors import EngineError, Fail, InvalidArgument, LimitError, OrtPyError, PluginError
from ort_py.execution.watch import RunWatch
from ort_py.graph.checking.schema import SchemaRegistry
from ort_py.limits import Limits
from ort_py_kit.fake_device import FakeBehaviour, FakeProvider, fake_kernels
from ort_py_kit.graphs import typed_model

ONE = (FormalParameter("x", "T"),)
SCHEMAS = [
    OperatorSchema(
        name,
        "my",
        inputs=ONE,
        outputs=(FormalParameter("y", "T"), FormalParameter("steps", "tensor(int64)", optional=True)),
        attributes={"times": 1, "body": GraphView, "first": GraphView | None},
        types={"T": ALL_FLOATS},
        infer=lambda node: [node.inputs[0].type if node.inputs[0] else None, None],
    )
    for name in ("Repeat", "Until")
]


@kernel("Repeat", domain="my", since=1, outputs=None, subgraphs=(Subgraph("body"), Subgraph("first")))
def repeat(
    _ctx: KernelContext, x: Any, *, body: SubgraphCallable, first: SubgraphCallable | None = None, times: int = 1
) -> tuple[Any, ...]:
    """Apply `first` once, where there is one, and `body` `times` times."""
    if first is not None:
        (x,) = first(x)
    for _ in range(times):
        (x,) = body(x)
    return (x,)


@kernel(
    "Until",
    domain="my",
    since=1,
    outputs=2,
    host_outputs=frozenset({1}),
    subgraphs=(Subgraph("body", host_inputs=frozenset({1}), host_outputs=frozenset({0})),),
)
def until(_ctx: KernelContext, x: Any, *, body: SubgraphCallable, times: int = 1) -> tuple[Any, Any]:
    """Apply `body`, which takes the value and the number of the step, until its first output, a bool, is false."""
    for step in range(times):
        go_on, x = body(x, np.array(step, np.float32))
        if not bool(go_on):
            return x, np.array(step + 1)
    return x, np.array(times)


OURS: list[KernelDef] = [*repeat.__kernel_defs__, *until.__kernel_defs__]  # type: ignore[attr-defined]  # the decorator's
HEADER = '<ir_version: 10, opset_import: ["" : 21, "my" : 1]>\n'
REPEAT = """
g (float[2] x, float[2] k) => (float[2] y) <float[2] w = {0.5, 2}> {
  a = Neg(k)
  y = my.Repeat <times = 3, body = b (float[2] v) => (u) { m = Mul(v, a) n = Add(m, k) u = Mul(n, w) }> (x)
}
"""
PROVIDERS = ["host", "device around", "device", "device regions around"]


def providers(kind: str, kernels: Sequence[KernelDef] = OURS) -> list[IExecutionProvider]:
    """The providers to run on: the kernel on the host or on the device, its body wherever kernels are."""
    host = HostProvider([*fake_kernels(), *kernels])
    behaviour = {
        "device around": FakeBehaviour(),
        "device regions around": FakeBehaviour(compiles=True),
        "device": FakeBehaviour(kernels=[*fake_kernels(), *kernels]),
    }.get(kind)
    return [host] if behaviour is None else [FakeProvider(behaviour=behaviour), host]


def driven(
    text: str, kind: str = "host", kernels: Sequence[KernelDef] = OURS, limits: Limits | None = None, **services: Any
) -> Driven:
    """A model with our operators, brought to a program."""
    model = typed_model(HEADER + text, schemas=SchemaRegistry(SCHEMAS))
    return drive(HEADER + text, *providers(kind, kernels), model=model, limits=limits, **services)


def repeated(x: Any, k: Any, times: int = 3) -> Any:
    """The expected result of `REPEAT`."""
    for _ in range(times):
        x = (x * -k + k) * np.array([0.5, 2], np.float32)
    return x


@pytest.mark.parametrize("kind", PROVIDERS)
def test_the_kernel_runs_the_graph_with_what_it_captures(kind: str) -> None:
    """A computed value, a feed and a weight of the graph around; every run, on every device."""
    run = driven(REPEAT, kind)
    for seed in range(3):
        x, k = floats(2, seed=seed), floats(2, seed=seed + 9)
        np.testing.assert_allclose(run.run({"x": x, "k": k})[0], repeated(x, k), rtol=1e-5, atol=1e-6)


def test_the_graph_is_partitioned_and_printed() -> None:
    """Its nodes are placed like any others, and the plan shows it inside the step."""
    run = driven(REPEAT, "device around")
    assert (run.runner_of("m"), run.runner_of("y")) == ("FakeExecutionProvider", "HostExecutionProvider")
    assert "body 'b': " in str(run.plan)


NESTED = """
g (int64 n, float[2] x) => (float[2] y, float[k,2] s) <bool go = {1}> {
  o = Abs(x)
  y, s = Loop (n, go, x) <body = outer (int64 i, bool c, float[2] v) => (bool d, float[2] w, float[2] t) {
    f = Cast<to = 1>(i)
    w = my.Repeat <times = 2, body = inner (float[2] a) => (e) {
      b = Add(a, f)
      r = my.Repeat <times = 2, body = innermost (float[2] p) => (q) { q = Add(p, o) }> (b)
      e = If (c) <then_branch = yes () => (h) { h = Mul(r, v) }, else_branch = no () => (j) { j = Neg(r) }>
    }> (v)
    t = Neg(w)
    d = Identity(c)
  }>
}
"""


def nested(trips: int, x: Any) -> tuple[Any, list[Any]]:
    """Compute `NESTED`."""
    carried, stacked = x, []
    for i in range(trips):
        a = carried
        for _ in range(2):
            a = (a + np.float32(i) + 2 * np.abs(x)) * carried
        carried = a
        stacked.append(-a)
    return carried, stacked


@pytest.mark.parametrize("kind", PROVIDERS)
def test_loops_and_such_kernels_nest(kind: str) -> None:
    """In a Loop's body, with one in its own body and an If: all capture through the levels, iteration by iteration."""
    x = floats(2) / 4
    run = driven(NESTED, kind)
    for trips in (3, 0, 1):
        wanted, stacked = nested(trips, x)
        y, s = run.run({"n": np.array(trips), "x": x})
        np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(s, np.array(stacked).reshape(-1, 2), rtol=1e-4, atol=1e-6)


def test_two_threads_never_share_a_frame() -> None:
    """Both are inside the graph at once, which a barrier proves, and each gets its own result."""
    barrier = threading.Barrier(2, timeout=20)

    def meeting(_ctx: KernelContext) -> Callable[..., Any]:
        def call(left: Any, right: Any) -> Any:
            barrier.wait()
            return left * right

        return call

    kernels = [one for one in fake_kernels() if one.op_type != "Mul"]
    kernels.append(KernelDef("Mul", meeting, since=7, until=99))
    model = typed_model(HEADER + REPEAT, schemas=SchemaRegistry(SCHEMAS))
    run = drive(HEADER + REPEAT, HostProvider([*kernels, *OURS]), model=model)
    feeds = [{"x": floats(2, seed=seed), "k": floats(2, seed=seed + 5)} for seed in range(2)]
    with ThreadPoolExecutor(2) as pool:
        for _ in range(10):
            for (y,), feed in zip(pool.map(run.run, feeds), feeds, strict=True):
                np.testing.assert_allclose(y, repeated(feed["x"], feed["k"]), rtol=1e-5, atol=1e-6)


def test_a_node_may_have_several_graphs_or_lack_one() -> None:
    """A declared graph that the node does not have is None to the kernel."""
    text = REPEAT.replace("times = 3,", "times = 1, first = f (float[2] p) => (q) { q = Abs(p) },")
    x, k = -np.abs(floats(2)), floats(2, seed=1)
    run = driven(text)
    np.testing.assert_allclose(run.run({"x": x, "k": k})[0], repeated(np.abs(x), k, 1), rtol=1e-5)
    assert [role for role, _ in run.plan.nested()] == ["body", "first"]


UNTIL = """
g (float[2] x, float limit) => (float[2] y, int64 steps) {
  y, steps = my.Until <times = 50, body = b (float[2] v, float step) => (go, w) {
    w = Add(v, v)
    go = Less(step, limit)
  }> (x)
}
"""


@pytest.mark.parametrize("kind", PROVIDERS)
def test_values_change_hands_where_the_kernel_says(kind: str) -> None:
    """The number of the step is given on the host, the condition taken there; the value stays on the device."""
    x = floats(2)
    y, steps = driven(UNTIL, kind).run({"x": x, "limit": np.array(3, np.float32)})
    np.testing.assert_allclose(y, x * 2**4)
    assert int(steps) == 4


def test_what_a_graph_hands_on_is_copied_for_the_caller() -> None:
    """A graph may return an outer value as it is; a result still shares no memory with a feed."""
    text = """
    g (float[2] x, float[2] k) => (float[2] y) {
      y = my.Repeat <times = 1, body = b (float[2] v) => (u) { u = Identity(k) }> (x)
    }
    """
    k = floats(2)
    (y,) = driven(text).run({"x": floats(2), "k": k})
    np.testing.assert_array_equal(y, k)
    assert not np.shares_memory(y, k)


def test_a_strided_result_of_a_graph_is_made_contiguous_for_who_needs_it() -> None:
    """Nothing is known of the layout of what a graph returns."""
    seen: list[bool] = []

    def contiguous(x: Any) -> Any:
        seen.append(x.flags.c_contiguous)
        return -x

    text = """
    g (float[2,3] x) => (float[3,2] z) {
      y = my.Repeat <times = 1, body = b (float[2,3] v) => (u) { u = Transpose(v) }> (x)
      z = Abs(y)
    }
    """
    picky = KernelDef("Abs", lambda _ctx: contiguous, since=6, until=99)
    kernels = [*(one for one in fake_kernels() if one.op_type != "Abs"), picky, *OURS]
    x = floats(2, 3)
    model = typed_model(HEADER + text, schemas=SchemaRegistry([_loose(SCHEMAS[0])]))
    (z,) = drive(HEADER + text, HostProvider(kernels), model=model).run({"x": x})
    np.testing.assert_array_equal(z, -x.T)
    assert seen == [True]


def _loose(schema: OperatorSchema) -> OperatorSchema:
    return OperatorSchema(
        schema.op_type, schema.domain, 1, schema.inputs, schema.outputs, schema.attributes, schema.types
    )


def test_types_inside_the_graph_are_known() -> None:
    """Onnx's inference does not look into graphs of other domains; ours does, so that kernels are chosen by type."""
    text = """
    g (float[2] x) => (float[2] y) {
      y = my.Repeat <body = b (float[2] v) => (u) { i = Cast<to = 7>(v) j = Add(i, i) u = Cast<to = 1>(j) }> (x)
    }
    """
    run = driven(text)
    added = next(node for node, _ in run.assignment if node.op_type == "Add")
    assert added.type_bindings == {"T": "tensor(int64)"}
    np.testing.assert_array_equal(run.run({"x": np.array([1.5, -2.5], np.float32)})[0], [2, -4])


def test_a_wrong_number_of_inputs_is_refused() -> None:
    """The error names the graph, the node and both counts."""
    text = REPEAT.replace("(float[2] v) =>", "(float[2] v, float[2] o) =>")
    with pytest.raises(
        InvalidArgument, match=r"The graph 'body' takes 2 input\(s\), but its kernel passed 1"
    ) as caught:
        driven(text).run({"x": floats(2), "k": floats(2)})
    assert caught.value.location.op_type == "Repeat"


def test_what_fails_inside_is_named_with_its_path() -> None:
    """The error of a node in the graph passes through the kernel as it is."""

    def broken(_ctx: KernelContext) -> Callable[..., Any]:
        def call(*_inputs: Any) -> Any:
            raise ValueError("no luck")

        return call

    kernels = [*(one for one in fake_kernels() if one.op_type != "Mul"), KernelDef("Mul", broken, since=7, until=99)]
    model = typed_model(HEADER + REPEAT, schemas=SchemaRegistry(SCHEMAS))
    with pytest.raises(OrtPyError, match="no luck") as caught:
        drive(HEADER + REPEAT, HostProvider([*kernels, *OURS]), model=model).run({"x": floats(2), "k": floats(2)})
    assert (caught.value.location.node, caught.value.location.path) == ("m", ("y",))


def custom(factory: Callable[[KernelContext], Callable[..., Any]], subgraphs: Sequence[str] = ("body",)) -> Driven:
    """`REPEAT` with another kernel for our operator."""
    definition = KernelDef("Repeat", factory, domain="my", subgraphs=tuple(map(Subgraph, subgraphs)))
    return driven(REPEAT, kernels=[definition])


FEEDS = {"x": np.ones(2, np.float32), "k": np.ones(2, np.float32)}


def test_a_graph_that_is_not_declared_cannot_be_asked_for() -> None:
    """The error says what is declared; the engine has not planned the graph."""
    for declared, text in ((("first",), "it declares 'first'"), ((), "it declares none")):
        with pytest.raises(PluginError, match="requests the graph 'body', which it does not declare") as caught:
            custom(lambda ctx: lambda x: ctx.subgraph("body") and x, declared).run(FEEDS)
        assert text in str(caught.value)


def test_a_graph_that_is_not_declared_is_the_kernels_own_affair() -> None:
    """Its nodes are not assigned to a provider, and the kernel sees the graph in its node."""

    def factory(ctx: KernelContext) -> Callable[..., Any]:
        count = len(ctx.node.attributes["body"].nodes)
        return lambda x: x * np.float32(count)

    run = custom(factory, ())
    np.testing.assert_array_equal(run.run(FEEDS)[0], [3, 3])
    assert [node.op_type for node, _ in run.assignment] == ["Neg", "Repeat"]


def test_a_graph_is_called_inside_the_kernels_call_only() -> None:
    """Afterwards its frame belongs to somebody else; the error says what to do."""
    kept: list[SubgraphCallable] = []

    def factory(ctx: KernelContext) -> Callable[..., Any]:
        body = ctx.subgraph("body")
        assert body is not None
        kept.append(body)
        return lambda x: body(x)[0]

    custom(factory).run(FEEDS)
    with pytest.raises(EngineError, match="The graph 'body' was called outside of a call of its kernel") as caught:
        kept[0](FEEDS["x"])
    assert "not in `parallel_for`" in str(caught.value)
    assert caught.value.location.op_type == "Repeat"


def test_a_graph_is_called_on_the_kernels_thread_only() -> None:
    """A part of `parallel_for` on another thread has no frame of its own."""

    def factory(ctx: KernelContext) -> Callable[..., Any]:
        body = ctx.subgraph("body")
        assert body is not None

        def call(x: Any) -> Any:
            with ThreadPoolExecutor(1) as pool:
                return pool.submit(body, x).result()[0]

        return call

    with pytest.raises(EngineError, match="outside of a call"):
        custom(factory).run(FEEDS)


def test_the_handle_works_again_after_an_error() -> None:
    """A run that failed inside leaves nothing behind on its thread."""
    run = driven(UNTIL)
    with pytest.raises(OrtPyError):
        run.run({"x": np.ones(2, np.float32), "limit": None})
    y, _ = run.run({"x": np.ones(2, np.float32), "limit": np.array(0, np.float32)})
    assert y.tolist() == [2, 2]


def test_a_run_can_be_stopped_and_measured() -> None:
    """Between any two calls of a graph the watch is asked; what it holds counts while it runs."""
    asked = iter([False] * 12 + [True] * 1000)
    with pytest.raises(Fail, match="was stopped"):
        driven(UNTIL).run({"x": floats(2), "limit": np.array(99, np.float32)}, RunWatch(terminate=lambda: next(asked)))
    big = {"x": floats(2), "limit": np.array(99, np.float32)}
    driven(UNTIL).run(big, RunWatch(memory_bytes=100))
    with pytest.raises(LimitError, match="The run holds"):
        driven(UNTIL).run(big, RunWatch(memory_bytes=16))

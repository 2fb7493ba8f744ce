"""The layout transform: which nodes are turned, which Transposes are left, and that nothing else changes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pytest

from core.tests.transforms.fusions import expand_all
from core.tests.transforms.support import notes, operators
from ort_py.contracts import CHANNELS_LAST, GraphView, IExecutionProvider, Transform
from ort_py.graph.ir import Model, walk
from ort_py.transforms.builtin import builtin_transforms
from ort_py.transforms.layout.channels_last import ChannelsLast
from ort_py.transforms.pipeline import run_transforms
from ort_py.transforms.report import OptimisationReport
from ort_py_kit.fake_provider import FakeBehaviour, FakeProvider
from ort_py_kit.graphs import ReferenceContext, model_from_text, reference_run, typed_model
from ort_py_kit.tolerances import assert_close

_W = "float[4, 4, 3, 3] w"
_SAME = "<pads = [1, 1, 1, 1]>"
_X = {"x": np.random.default_rng(3).standard_normal((1, 4, 6, 6)).astype(np.float32)}
_FEEDS = {**_X, "w": np.random.default_rng(4).standard_normal((4, 4, 3, 3)).astype(np.float32)}


def _turn(
    text: str,
    wanted: Collection[str] = ("Conv", "FusedConv", "MaxPool", "GlobalAveragePool"),
    *,
    feeds: Mapping[str, Any] | None = None,
    opset: int = 17,
) -> tuple[Model, OptimisationReport]:
    """Optimise for a provider that prefers channels last for some operators, and claims every node."""
    provider = FakeProvider(behaviour=FakeBehaviour(channels_last=wanted))

    def runners(view: GraphView, names: Collection[str]) -> Mapping[str, IExecutionProvider]:
        return {node.name: provider for node in view.nodes}

    model = typed_model(text, opset)
    rules: list[Transform] = [*builtin_transforms(), ChannelsLast(runners)]
    report = run_transforms(model, rules, 3, ReferenceContext(), check=True)
    if feeds is not None:
        expected = reference_run(model_from_text(text, opset), feeds)
        twin = typed_model(text, opset)
        run_transforms(twin, rules, 3, ReferenceContext())
        expand_all(twin)
        for left, right in zip(reference_run(twin, feeds), expected, strict=True):
            assert_close(left, right)
    return model, report


def _turned(model: Model) -> list[str]:
    return [node.op_type for graph in walk(model.graph) for node in graph.nodes if node.domain == CHANNELS_LAST]


def test_a_run_of_nodes_keeps_two_transposes() -> None:
    """Convolutions, activations, poolings and a residual sum in a row: one Transpose at the start, one at the end."""
    text = f"""g (float[1, 4, 6, 6] x, {_W}) => (float[1, 4, 3, 3] y) {{
        a = Conv{_SAME}(x, w) b = Sigmoid(a) c = Conv{_SAME}(b, w) d = Add(c, b)
        y = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(d)
    }}"""
    model, _ = _turn(text, feeds=_FEEDS)
    assert _turned(model) == ["FusedConv", "FusedConv", "MaxPool"]
    assert operators(model)["Transpose"] == 2


def test_a_head_that_flattens_needs_no_transpose_behind() -> None:
    """Behind GlobalAveragePool the picture is one pixel: flattening it is the same in both layouts."""
    text = f"""g (float[1, 4, 6, 6] x, {_W}, float[4, 2] v) => (float[1, 2] y) {{
        a = Conv{_SAME}(x, w) b = Relu(a) c = GlobalAveragePool(b) d = Flatten(c) y = MatMul(d, v)
    }}"""
    model, _ = _turn(text, feeds={**_FEEDS, "v": np.ones((4, 2), np.float32)})
    assert _turned(model) == ["FusedConv", "GlobalAveragePool"]
    assert operators(model)["Transpose"] == 1


def test_inputs_with_channels_last_already_lose_their_transpose() -> None:
    """A model made for the other layout begins with a Transpose: that one goes too."""
    text = f"""g (float[1, 6, 6, 4] x, {_W}) => (float[1, 6, 6, 4] y) {{
        t = Transpose<perm = [0, 3, 1, 2]>(x) a = Conv{_SAME}(t, w) y = Transpose<perm = [0, 2, 3, 1]>(a)
    }}"""
    model, _ = _turn(text, feeds={**_FEEDS, "x": np.ascontiguousarray(_X["x"].transpose(0, 2, 3, 1))})
    assert operators(model) == {"Conv": 1}
    assert _turned(model) == ["Conv"]


def test_what_the_provider_does_not_prefer_stays() -> None:
    """It is asked node by node."""
    text = f"""g (float[1, 4, 6, 6] x, {_W}) => (float[1, 4, 1, 1] y) {{
        a = Conv{_SAME}(x, w) y = GlobalMaxPool(a)
    }}"""
    model, _ = _turn(text, ["Conv"], feeds=_FEEDS)
    assert _turned(model) == ["Conv"]
    assert operators(model)["GlobalMaxPool"] == 1


def test_graphs_inside_nodes_are_turned_too() -> None:
    """The branches of an If have layouts of their own."""
    branch = f"{{ a = Conv{_SAME}(x, w) y = Conv{_SAME}(a, w) }}"
    text = f"""g (float[1, 4, 6, 6] x, {_W}, bool c) => (float[1, 4, 6, 6] z) {{
        z = If(c) <then_branch = t () => (float[1, 4, 6, 6] y) {branch},
                   else_branch = e () => (float[1, 4, 6, 6] u) {{ u = Neg(x) }}>
    }}"""
    model, _ = _turn(text, feeds={**_FEEDS, "c": np.array(True)})
    assert _turned(model) == ["Conv", "Conv"]
    assert operators(model)["Transpose"] == 2


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "g (float[1, 4, 6, 6] x) => (float[1, 4, 3, 3] y, int64[1, 4, 3, 3] i) "
            "{ y, i = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(x) }",
            "MaxPool 'y' keeps its layout: it has a second output, which depends on the layout",
        ),
        ("g (float x) => (float y) { y = GlobalAveragePool(x) }", ""),
        (
            "g (float[1, 4] x) => (float[1, 4] y) { y = GlobalAveragePool(x) }",
            "GlobalAveragePool 'y' keeps its layout: its data has no axes besides batch and channels",
        ),
    ],
)
def test_near_misses_say_why(text: str, reason: str) -> None:
    """A second output with positions, data of unknown rank, and data without space."""
    model, report = _turn(text)
    assert _turned(model) == []
    assert reason in notes(report)


def test_without_a_wish_nobody_is_asked() -> None:
    """The transform has no question to ask if no provider prefers another layout."""
    model = typed_model(f"g (float[1, 4, 6, 6] x, {_W}) => (y) {{ y = Conv(x, w) }}")
    report = run_transforms(model, [ChannelsLast(None)], 99, ReferenceContext(), check=True)
    assert report.changes == 0


def test_the_level_below_leaves_layouts_alone() -> None:
    assert ChannelsLast(None).level == 3

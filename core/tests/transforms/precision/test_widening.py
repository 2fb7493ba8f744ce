"""Regions of narrow floats in float32: what joins a region, where Casts stand, and what stays narrow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pytest

from core.tests.transforms.support import notes, operators
from ort_py.contracts import GraphView, IExecutionProvider
from ort_py.dtypes import DataType
from ort_py.graph.ir import Model, walk
from ort_py.transforms.elimination.casts import MergeCasts
from ort_py.transforms.elimination.no_ops import noop_rules
from ort_py.transforms.elimination.unused import EliminateDeadCode
from ort_py.transforms.pipeline import run_transforms
from ort_py.transforms.precision.widening import WidenNarrowFloats
from ort_py.transforms.report import OptimisationReport
from ort_py_kit.fake_provider import FakeBehaviour, FakeProvider
from ort_py_kit.graphs import ReferenceContext, model_from_text, reference_run, typed_model

_HALF = frozenset({DataType.FLOAT16})
_X = (np.arange(6, dtype=np.float16).reshape(2, 3) - 2) / 3


def _widen(
    text: str,
    *,
    feeds: Mapping[str, Any] | None = None,
    types: frozenset[DataType] = _HALF,
    claimed: Collection[str] | None = None,
) -> tuple[Model, OptimisationReport]:
    """Optimise for a provider that wants `types` widened and claims the nodes of some operators, or all."""
    provider = FakeProvider(behaviour=FakeBehaviour(widened_types=types))

    def runners(view: GraphView, names: Collection[str]) -> Mapping[str, IExecutionProvider]:
        return {node.name: provider for node in view.nodes if claimed is None or node.op_type in claimed}

    model = typed_model(text)
    rules = [WidenNarrowFloats(types, runners), MergeCasts(), *noop_rules(), EliminateDeadCode()]
    report = run_transforms(model, rules, 99, ReferenceContext(), check=True)
    if feeds is not None:
        expected = reference_run(model_from_text(text), feeds)
        for left, right in zip(reference_run(model, feeds), expected, strict=True):
            assert left.dtype == right.dtype
            np.testing.assert_allclose(left.astype(np.float64), right.astype(np.float64), rtol=5e-3, atol=5e-3)
    return model, report


def _narrow(model: Model) -> Counter[str]:
    """Operators that write a narrow type."""
    return Counter(
        node.op_type
        for graph in walk(model.graph)
        for node in graph.nodes
        if any(
            str(value.type).startswith(("float16", "bfloat16", "tensor(float16", "tensor(bfloat16"))
            for value in node.outputs
            if value
        )
    )


def test_a_region_has_one_cast_at_each_border() -> None:
    """Constants become float32, and no result inside is rounded."""
    model, report = _widen(
        "g (float16[2, 3] x) => (float16[2, 3] y) <float16[3] c = {1, 2, 3}> "
        "{ a = Mul(x, c) b = Exp(a) d = Transpose(b) e = Transpose(d) f = Add(e, a) y = Neg(f) }",
        feeds={"x": _X},
    )
    assert operators(model)["Cast"] == 2
    assert _narrow(model) == {"Cast": 1}
    assert "6 nodes compute in float32, with 2 Casts at their borders" in notes(report)


def test_a_table_that_is_gathered_from_stays_narrow() -> None:
    """Rows are widened, not the whole table."""
    model, _ = _widen(
        "g (int64[2] i) => (float16[2, 3] y) <float16[2, 3] table = {1, 2, 3, 4, 5, 6}> "
        "{ rows = Gather(table, i) y = Sqrt(rows) }",
        feeds={"i": np.array([1, 0])},
    )
    assert _narrow(model) == {"Gather": 1, "Cast": 1}
    assert operators(model)["Cast"] == 2


def test_a_past_that_is_appended_to_stays_narrow() -> None:
    """The new rows are rounded once; the past goes through as it is."""
    model, _ = _widen(
        "g (float16[2, 3] past, float16[1, 3] new) => (float16[3, 3] present, float16[3, 3] y) "
        "{ n = Exp(new) present = Concat<axis = 0>(past, n) y = Tanh(present) }",
        feeds={"past": _X, "new": _X[:1]},
    )
    assert _narrow(model)["Concat"] == 1
    assert operators(model)["Cast"] == 4


def test_a_transpose_in_front_of_a_product_joins() -> None:
    """The Cast stands in front of it: as many elements, and the product has its Transpose beside it."""
    model, _ = _widen(
        "g (float16[2, 3] x, float16[2, 3] z) => (float16[2, 2] y) { t = Transpose(z) y = MatMul(x, t) }",
        feeds={"x": _X, "z": _X[::-1].copy()},
    )
    assert _narrow(model) == {"Cast": 1}
    assert operators(model) == {"Cast": 3, "Transpose": 1, "MatMul": 1}


def test_results_that_jump_are_computed_narrow() -> None:
    """A comparison sees what it saw: values rounded to float16."""
    model, _ = _widen(
        "g (float16[2, 3] x, float16[2, 3] z) => (bool[2, 3] y) { a = Exp(x) b = Exp(z) y = Less(a, b) }",
        feeds={"x": _X, "z": _X[::-1].copy()},
    )
    (less,) = (node for node in model.graph.nodes if node.op_type == "Less")
    assert less.inputs[0] is not None
    assert less.inputs[0].type == typed_model("g (float16[2, 3] x) => (y) { y = Neg(x) }").graph.inputs[0].type


@pytest.mark.parametrize(
    "last",
    [
        "Acos(b)",
        "Asin(b)",
        "Atanh(b)",
        "MaxPool <kernel_shape = [2]> (b)",
        "Pow(x, b)",
        "Shrink <bias = 0.5> (b)",
        "ThresholdedRelu <alpha = 1.0> (b)",
    ],
)
def test_functions_that_jump_are_computed_narrow(last: str) -> None:
    """They see a quotient as float16 holds it: whole, the end of what they are defined for, equal neighbours."""
    outputs = "y, i" if "MaxPool" in last else "y"
    results = "float16[1, 1, 4] y, int64[1, 1, 4] i" if "MaxPool" in last else "float16[1, 1, 5] y"
    model, _ = _widen(
        f"g (float16[1, 1, 5] x) => ({results}) <float16 c = {{15361}}, float16 d = {{15360}}> "
        f"{{ a = Div(x, d) b = Div(a, c) {outputs} = {last} }}",
    )
    name = last.partition("(")[0].partition(" ")[0]
    (node,) = (node for node in model.graph.nodes if node.op_type == name)
    narrow = typed_model("g (float16[1, 1, 5] x) => (y) { y = Neg(x) }").graph.inputs[0].type
    assert all(value.type == narrow for value in node.inputs if value is not None)


@pytest.mark.parametrize(("mode", "narrow"), [("nearest", 2), ("linear", 1)])
def test_the_nearest_pixel_is_found_narrow(mode: str, narrow: int) -> None:
    """It is another one from a place between two pixels on; a mean of pixels changes little."""
    model, _ = _widen(
        f"""g (float16[1, 1, 2, 2] x, float16[1, 1, 3, 2] at) => (float16[1, 1, 1, 3] y) {{
            place = Tanh(at)
            y = GridSample <mode = "{mode}"> (x, place)
        }}"""
    )
    assert _narrow(model).total() == narrow


def test_a_fixed_exponent_is_smooth() -> None:
    """It is as it was written, and so the power joins the region."""
    model, _ = _widen(
        "g (float16[2, 3] x) => (float16[2, 3] y) <float16 two = {16384}> { a = Exp(x) b = Pow(a, two) y = Neg(b) }",
        feeds={"x": _X},
    )
    assert _narrow(model) == {"Cast": 1}


def test_casts_between_floats_inside_are_gone() -> None:
    """A model of mixed precision widens some results itself: it reads those of the region."""
    model, _ = _widen(
        "g (float16[2, 3] x) => (float16[2, 3] y) "
        "{ a = Exp(x) w = Cast<to = 1>(a) s = Sqrt(w) n = Cast<to = 10>(s) y = Neg(n) }",
        feeds={"x": _X},
    )
    assert operators(model) == {"Cast": 2, "Exp": 1, "Sqrt": 1, "Neg": 1}


def test_a_cast_to_an_integer_sees_rounded_values() -> None:
    """Its result jumps as a comparison's does."""
    model, _ = _widen("g (float16[2, 3] x) => (int32[2, 3] y) { a = Exp(x) y = Cast<to = 6>(a) }", feeds={"x": _X})
    assert _narrow(model) == {"Cast": 1}


def test_bfloat16_is_widened_as_well() -> None:
    """Each type that the provider names."""
    model, _ = _widen(
        "g (bfloat16[2, 3] x) => (bfloat16[2, 3] y) { a = Exp(x) y = Neg(a) }", types=frozenset({DataType.BFLOAT16})
    )
    assert operators(model)["Cast"] == 2


def test_graphs_inside_nodes_are_regions_of_their_own() -> None:
    """Captured values enter a branch narrow, and its results leave narrow."""
    model, _ = _widen(
        """g (float16[2, 3] x, bool c) => (float16[2, 3] y) {
            a = Exp(x)
            y = If(c) <then_branch = t () => (float16[2, 3] u) { b = Sqrt(a) u = Neg(b) },
                       else_branch = e () => (float16[2, 3] v) { v = Identity(a) }>
        }""",
        feeds={"x": _X, "c": np.array(True)},
    )
    assert operators(model)["Cast"] == 4


@pytest.mark.parametrize(
    ("text", "types", "claimed"),
    [
        ("g (float16[2, 3] x) => (float16[2, 3] y) { y = Exp(x) }", frozenset(), None),
        ("g (float16[2, 3] x) => (float16[2, 3] y) { y = Exp(x) }", _HALF, ()),
        ("g (float16[2, 3] x) => (float16[2, 3] y) { y = Exp(x) }", frozenset({DataType.BFLOAT16}), None),
        ("g (float16[2, 3] x) => (float16[3, 2] y) { y = Transpose(x) }", _HALF, None),
        ("g (float[2, 3] x) => (float[2, 3] y) { y = Exp(x) }", _HALF, None),
    ],
    ids=["nobody wants it", "others run it", "another type", "movement alone", "float32"],
)
def test_what_stays_as_it_is(text: str, types: frozenset[DataType], claimed: Collection[str] | None) -> None:
    model, report = _widen(text, types=types, claimed=claimed)
    assert report.changes == 0
    assert "Cast" not in operators(model)

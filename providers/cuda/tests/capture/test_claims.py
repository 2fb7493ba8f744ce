"""Captured nodes: runs of them together, and a reason for each that is not captured."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

from ort_py.contracts import KernelDef, KernelLookup, KernelMatch, NodeSpec
from ort_py_array.library import LibraryKernels
from ort_py_cuda.capture.claims import definition_of, group_refusal, groups, owns, refusal
from ort_py_cuda.settings import Settings, applied
from ort_py_kit.graphs import graph_view
from providers.cuda.tests.float8.models import product, view_of

_OURS = KernelDef("Relu", lambda ctx: abs, since=1, until=28, implementation="ort_py_cuda.kernels.fake:relu")


def _region(text: str) -> Any:
    view = graph_view(f"g (float[N] x) => (float[N] y) {{ {text} }}")
    return view.region(range(len(view.nodes)))


class _Lookup(KernelLookup):
    def find(self, node: NodeSpec) -> KernelMatch:
        return KernelMatch(definition_of(node, LibraryKernels()))


def _claimed(text: str) -> list[tuple[int, ...]]:
    view = graph_view(text)
    return [claim.nodes for claim in groups(view, range(len(view.nodes)), _Lookup())]


def test_runs_of_nodes_are_claimed_together() -> None:
    """Nodes that cannot be captured lie between two regions; single nodes do not form a region."""
    text = """g (float[N] x) => (int64[R, M] y) {
        a = Neg (x) b = Relu (a) c = NonZero (b) d = Neg (c) y = Abs (d) }"""
    assert _claimed(text) == [(0, 1), (3, 4)]
    assert _claimed("g (float[N] x) => (float[N] y) { y = Neg (x) }") == []


def test_groups_that_only_run_together() -> None:
    """They join what is around them; where a region would split one, it is a region of its own."""
    text = "g (float[N] x) => (float[N] y) { a = Neg (x) b = Floor (a) c = Ceil (b) y = Abs (c) }"
    view = graph_view(text)
    assert [claim.nodes for claim in groups(view, [0, 3], _Lookup(), [(1, 2)])] == [(0, 1, 2, 3)]
    text = """g (float[N] x) => (float[N] y) {
        a = Neg (x) b = Floor (a) c = Ceil (x) h = Hardmax (a) e = Add (h, c) y = Mul (e, b) }"""
    view = graph_view(text)
    found = [claim.nodes for claim in groups(view, [0, 4], _Lookup(), [(1, 5)])]
    assert (1, 5) in found
    assert not any(len({1, 5} & {*nodes}) == 1 for nodes in found)


def test_what_is_left_of_a_claim() -> None:
    """One node is not a graph; parts of a product of float8 are none."""
    made = product()
    whole = view_of(made)
    assert group_refusal(whole.nodes[:1], whole) == "a graph of one kernel is launched no faster than the kernel"
    assert "float8" in (group_refusal(whole.nodes[1:], whole) or "")
    assert applied(Settings(capability=90), group_refusal, whole.nodes, whole) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("y = RandomNormalLike (x)", "draws random numbers"),
        ("z = NonZero (x)", "depends on values"),
        ("z = Shape (x)", "on the host"),
        ("s = Shape (x) y = Reshape (x, s)", "reads 's' on the host"),
        ("y = Hardmax (x)", "not known to do all of its work"),
    ],
)
def test_why_nodes_are_not_captured(text: str, message: str) -> None:
    output = "int64[R] z" if "z =" in text else "float[N] y"
    view = graph_view(
        f"g (float[N] x) => ({output.replace('[R]', '[R, M]') if 'NonZero' in text else output}) {{ {text} }}"
    )
    node = view.nodes[-1]
    definition = definition_of(node, LibraryKernels())
    assert definition is not None
    assert message in (refusal(node, definition) or "")


def test_kernels_of_ours_say_whether_they_wait() -> None:
    """All are captured but those their module names."""
    node = _region("y = Relu (x)").nodes[-1]
    assert refusal(node, _OURS) is None
    module = ModuleType("ort_py_cuda.kernels.fake")
    module.WAITS = frozenset({"Relu"})  # type: ignore[attr-defined]  # a module made for the test
    sys.modules[module.__name__] = module
    try:
        assert "waits for the device" in (refusal(node, _OURS) or "")
    finally:
        del sys.modules[module.__name__]


def test_regions_to_capture_are_known_again() -> None:
    assert owns(_region("a = Neg (x) y = Relu (a)"), LibraryKernels())
    assert not owns(_region("a = NonZero (x) y = Cast <to = 1> (a)"), LibraryKernels())

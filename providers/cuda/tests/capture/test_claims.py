"""Which nodes are captured: runs of them together, and a reason for each that is not."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

from ort_py.contracts import KernelDef, KernelLookup, KernelMatch, NodeSpec
from ort_py.testing.graphs import graph_view
from ort_py_array.library import LibraryKernels
from ort_py_cuda.capture.claims import definition_of, groups, owns, refusal

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
    """What cannot be captured lies between two regions; single nodes are no region."""
    text = """g (float[N] x) => (int64[R, M] y) {
        a = Neg (x) b = Relu (a) c = NonZero (b) d = Neg (c) y = Abs (d) }"""
    assert _claimed(text) == [(0, 1), (3, 4)]
    assert _claimed("g (float[N] x) => (float[N] y) { y = Neg (x) }") == []


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
    """Each with its reason."""
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
    """By their nodes alone."""
    assert owns(_region("a = Neg (x) y = Relu (a)"), LibraryKernels())
    assert not owns(_region("a = NonZero (x) y = Cast <to = 1> (a)"), LibraryKernels())

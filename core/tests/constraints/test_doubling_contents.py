"""Lists that a chain of nodes doubles: what the gate knows of their elements stays short."""

from __future__ import annotations

import tracemalloc

import pytest

from ort_py.constraints import Gate
from ort_py.graph.view import SubsetView
from ort_py_kit.graphs import typed_model


@pytest.mark.parametrize("inputs", ["a, a", "a, a, a"])
def test_a_chain_of_concats(inputs: str) -> None:
    """Thirty doublings of a known list take no memory to speak of."""
    lines = ["a0 = Shape(x)"] + [
        f"a{number + 1} = Concat<axis = 0>({inputs.replace('a', f'a{number}')})" for number in range(30)
    ]
    text = f"g (float[2,3] x) => (int64[n] a30) {{ {' '.join(lines)} }}"
    graph = typed_model(f'<ir_version: 10, opset_import: ["" : 21]> {text}').graph
    tracemalloc.start()
    try:
        Gate(SubsetView(graph, graph.nodes))
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()

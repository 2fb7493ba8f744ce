"""Random graphs with branches, views, several outputs and control flow, for property tests of executors."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

__all__ = ["feeds", "graphs"]

_UNARY = ("Neg", "Abs", "Tanh", "Relu", "Identity", "Transpose")
_BINARY = ("Add", "Sub", "Mul", "MatMul")


@st.composite
def graphs(draw: st.DrawFn, most: int = 24) -> str:
    """The text of a model ``(float[4,4] x, float[4,4] w, bool c, int64 n) => …``; every value keeps its shape."""
    names = ["x", "w"]
    nodes: list[str] = []
    for number in range(draw(st.integers(2, most))):
        made = f"v{number}"
        one, other = draw(st.sampled_from(names)), draw(st.sampled_from(names))
        kind = draw(st.sampled_from(("unary", "binary", "split", "if", "loop")))
        if kind == "unary":
            nodes.append(f"{made} = {draw(st.sampled_from(_UNARY))}({one})")
        elif kind == "binary":
            nodes.append(f"{made} = {draw(st.sampled_from(_BINARY))}({one}, {other})")
        elif kind == "split":
            nodes.append(f"{made}l, {made}r = Split<num_outputs = 2>({one})")
            nodes.append(f"{made} = Concat<axis = 0>({made}r, {made}l)")
        elif kind == "if":
            nodes.append(
                f"{made} = If(c) <"
                f"then_branch = t{number}() => (float[4,4] {made}t) {{ {made}t = Add({one}, {other}) }}, "
                f"else_branch = e{number}() => (float[4,4] {made}e) {{ {made}e = Tanh({one}) }}>"
            )
        else:
            nodes.append(
                f"{made} = Loop(n, c, {one}) <body = b{number}(int64 i{number}, bool g{number}, float[4,4] a{number}) "
                f"=> (bool h{number}, float[4,4] s{number}) {{ h{number} = Identity(g{number}) "
                f"t{number} = Add(a{number}, {other}) s{number} = Tanh(t{number}) }}>"
            )
        names.append(made)
    made_here = names[2:]
    count = draw(st.integers(1, min(3, len(made_here))))
    last = sorted({made_here[-1], *draw(st.permutations(made_here))[: count - 1]})
    outputs = ", ".join(f"float[4,4] {name}" for name in last)
    return f"g (float[4,4] x, float[4,4] w, bool c, int64 n) => ({outputs}) {{\n" + "\n".join(nodes) + "\n}"


def feeds(seed: int) -> dict[str, Any]:
    """Feeds for one of them."""
    rng = np.random.default_rng(seed)
    return {
        "x": rng.standard_normal((4, 4)).astype(np.float32),
        "w": rng.standard_normal((4, 4)).astype(np.float32),
        "c": np.array(bool(seed % 2)),
        "n": np.array(seed % 4),
    }

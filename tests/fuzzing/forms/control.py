"""Control flow: If, Loop and Scan around a few nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import helper

from tests.fuzzing.builder import Builder
from tests.fuzzing.forms.registry import form
from tests.fuzzing.schemas import ONNX_TYPES

__all__: list[str] = []


def _info(name: str, dtype: str, shape: tuple[int, ...] | None = None) -> Any:
    return helper.make_tensor_value_info(name, ONNX_TYPES[dtype], shape)


@form(0.8)
def branch(g: Builder) -> None:
    """An If whose branches read values of the graph around it."""
    source = g.data(dtypes=(g.main,))
    other = g.like(source)
    condition = g.new_input((), "bool") if g.chance(0.5) else g.const(np.array(g.chance(0.5)))
    branches: dict[str, Any] = {}
    for key in ("then_branch", "else_branch"):
        inner, out = g.name("n"), g.name("o")
        nodes = [
            helper.make_node(g.one("Relu", "Neg", "Sigmoid", "Abs"), [source.name], [inner]),
            helper.make_node(g.one("Add", "Mul"), [inner, g.one(source.name, other.name)], [out]),
        ]
        branches[key] = helper.make_graph(nodes, key, [], [_info(out, source.dtype)])
    g.emit("If", [condition], shapes=[source.shape], dtypes=[source.dtype], **branches)


@form(0.6)
def loop(g: Builder) -> None:
    """A Loop that carries a value and collects another."""
    source = g.data(dtypes=(g.main,))
    count = g.integer(0, 3)
    names = {key: g.name(key) for key in ("i", "c", "s", "co", "so", "t")}
    nodes = [
        helper.make_node(g.one("Tanh", "Sigmoid", "Abs"), [names["s"]], [names["t"]]),
        helper.make_node("Add", [names["t"], source.name], [names["so"]]),
        helper.make_node("Identity", [names["c"]], [names["co"]]),
    ]
    collect = g.chance(0.5)
    outs = [_info(names["co"], "bool", ()), _info(names["so"], source.dtype)]
    if collect:
        outs.append(_info(names["t"], source.dtype))
    ins = [_info(names["i"], "int64", ()), _info(names["c"], "bool", ()), _info(names["s"], source.dtype)]
    body = helper.make_graph(nodes, "body", ins, outs)
    trips = g.const(np.array(count, np.int64))
    shapes = [source.shape, *([(count, *source.shape)] if collect else [])]
    g.emit(
        "Loop",
        [trips, g.const(np.array(True)), source],
        2 if collect else 1,
        shapes=shapes,
        dtypes=[source.dtype] * 2,
        body=body,
    )


@form(0.4)
def scan(g: Builder) -> None:
    """A Scan over the first axis."""
    source = g.data(least=1, dtypes=(g.main,))
    names = {key: g.name(key) for key in ("s", "x", "so", "y")}
    state = g.weights(source.shape[1:])
    nodes = [
        helper.make_node("Add", [names["s"], names["x"]], [names["so"]]),
        helper.make_node("Tanh", [names["so"]], [names["y"]]),
    ]
    ins = [_info(names["s"], source.dtype, source.shape[1:]), _info(names["x"], source.dtype, source.shape[1:])]
    outs = [_info(names["so"], source.dtype, source.shape[1:]), _info(names["y"], source.dtype, source.shape[1:])]
    body = helper.make_graph(nodes, "scanned", ins, outs)
    g.emit(
        "Scan",
        [state, source],
        2,
        shapes=[source.shape[1:], source.shape],
        dtypes=[source.dtype] * 2,
        body=body,
        num_scan_inputs=1,
    )

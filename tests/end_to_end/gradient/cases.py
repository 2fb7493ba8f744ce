"""Cases of derivative rules: bodies with their inputs, spread over opsets and over known and unknown sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

__all__ = ["cases", "every_way"]


def cases(entries: Sequence[tuple[str, Mapping[str, Any]]], *opsets: int) -> list[Any]:
    """Parameters (body, inputs, opset, dims): each entry once an opset, sizes unknown and known in turn, and both where
    there is one opset only."""
    ways = [(opset, ("symbolic", "static")[index % 2]) for index, opset in enumerate(opsets)]
    if len(opsets) == 1:
        ways.append((opsets[0], "static"))
    return _spread(entries, ways)


def every_way(entries: Sequence[tuple[str, Mapping[str, Any]]], *opsets: int) -> list[Any]:
    """Cases like `cases`, with sizes known and unknown at every opset."""
    return _spread(entries, [(opset, dims) for opset in opsets for dims in ("symbolic", "static")])


def _spread(entries: Sequence[tuple[str, Mapping[str, Any]]], ways: Sequence[tuple[int, str]]) -> list[Any]:
    return [
        pytest.param(body, inputs, opset, dims, id=f"{body} {_shapes(inputs)} {opset} {dims}")
        for body, inputs in entries
        for opset, dims in ways
    ]


def _shapes(inputs: Mapping[str, Any]) -> str:
    return ",".join(str(array.shape).replace(" ", "") for array in inputs.values())

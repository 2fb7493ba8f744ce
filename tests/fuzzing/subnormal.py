"""Subnormal numbers of bfloat16, which regions may take for zeroes.

The page on semantics says so: some instructions that round to bfloat16 do it, and others do not. A model is therefore
run with the subnormal numbers of some of its tensors gone; what changes then is not held against anybody. This file
knows nothing of the sessions that are compared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import helper, numpy_helper

from tests.fuzzing.cases import Feeds
from tests.fuzzing.runners import guarded

__all__ = ["flushed"]

DRAWS = 4
LEAST = float(ml_dtypes.finfo(ml_dtypes.bfloat16).smallest_normal)  # type: ignore[no-untyped-call]


def flushed(
    model: onnx.ModelProto, feeds: Feeds, run: Callable[[onnx.ModelProto, Feeds], list[Any]]
) -> list[list[Any]]:
    """Results if subnormal numbers of bfloat16 are zeroes; one list of outputs per draw.

    Args:
        model: The model.
        feeds: What it is fed.
        run: Runs a model.
    """
    if not any(one.type.tensor_type.elem_type == onnx.TensorProto.BFLOAT16 for one in model.graph.input):
        return []
    names = [name for node in model.graph.node for name in node.output if name]
    shown = onnx.ModelProto()
    shown.CopyFrom(model)
    del shown.graph.output[:]
    shown.graph.output.extend([helper.make_empty_tensor_value_info(name) for name in names])
    ran = guarded(lambda: run(shown, feeds))
    if ran.outputs is None:
        return []
    constants = {one.name: numpy_helper.to_array(one) for one in model.graph.initializer}
    values = {**constants, **feeds, **dict(zip(names, ran.outputs, strict=True))}
    masks = {name: mask for name, value in values.items() if (mask := _kept(value)) is not None}
    numbers = np.random.default_rng(0)
    draws = [set(masks)] + [{name for name in masks if numbers.random() < 0.5} for _ in range(DRAWS)]
    found = []
    for chosen in draws if masks else ():
        left = guarded(lambda chosen=chosen: run(*_without(model, feeds, masks, chosen)))  # type: ignore[misc]
        if left.outputs is not None:
            found.append(left.outputs)
    return found


def _kept(value: Any) -> np.ndarray[Any, Any] | None:
    """1 for each element that is no subnormal number, 0 for the others; None where there are no others."""
    if getattr(value, "dtype", None) != ml_dtypes.bfloat16:
        return None
    size = np.abs(value.astype(np.float64))
    gone = (size > 0) & (size < LEAST)
    return (~gone).astype(ml_dtypes.bfloat16) if gone.any() else None


def _without(
    model: onnx.ModelProto, feeds: Feeds, masks: Feeds, chosen: set[str]
) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """The model with the chosen tensors multiplied by their masks, and what it is fed then."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    del made.graph.node[:]
    given = {name: array * masks[name] if name in chosen else array for name, array in feeds.items()}
    for one in made.graph.initializer:
        if one.name in chosen:
            one.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(one) * masks[one.name], one.name))
    for node in model.graph.node:
        copy = made.graph.node.add()
        copy.CopyFrom(node)
        for place, name in enumerate(node.output):
            if name in chosen:
                copy.output[place] = f"{name}_whole"
                made.graph.node.append(helper.make_node("Mul", [copy.output[place], f"{name}_mask"], [name]))
                kind = helper.make_tensor_value_info(f"{name}_mask", onnx.TensorProto.BFLOAT16, masks[name].shape)
                made.graph.input.append(kind)
                given[f"{name}_mask"] = masks[name]
    return made, given

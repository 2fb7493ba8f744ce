"""A region as a program of Core AI, and as an asset (`.aimodel`)."""

from __future__ import annotations

import inspect
from pathlib import Path
from types import GenericAlias, SimpleNamespace
from typing import Annotated, Any

import coreai.authoring as ai
import numpy as np

from ort_py.contracts import RegionView
from ort_py.errors import EPFail
from ort_py_coreml.core_ai import elementwise, movement, recurrent, reductions, windows
from ort_py_coreml.core_ai.values import shape_of
from ort_py_coreml.lowering import Signature, results_of, signature_of

__all__ = ["FUNCTIONS", "save"]

FUNCTIONS = SimpleNamespace(
    **{
        name: function
        for module in (elementwise, movement, recurrent, reductions, windows)
        for name, function in module.FUNCTIONS.items()
    }
)
"""The functions of MIL that the lowerings call, written with those of Core AI."""


def save(region: RegionView, target: Path, *, named: bool = False) -> Signature:
    """Write a region as an asset.

    Args:
        region: A region none of whose nodes is refused.
        target: A folder that does not exist; its name ends in `.aimodel`.
        named: As for `signature_of`.

    Raises:
        EPFail: Core AI refuses an operator.
    """
    signature = signature_of(region, named=named)
    try:
        asset = ai.AIProgram(_module(region, signature)).save_asset(target)
        asset.update_metadata(_forget_date)
    except Exception as error:  # Core AI raises all kinds of errors, and each means the same here
        raise EPFail(
            "Core AI cannot write a region.",
            why=(f"{type(error).__name__}: {error}",),
            fix="run it with another provider, and report this together with the model",
        ) from error
    return signature


class _OtherShapesError(Exception):
    """The results have other shapes than the graph declares."""

    def __init__(self, shapes: list[list[int]]) -> None:
        super().__init__(shapes)
        self.shapes = shapes


def _module(region: RegionView, signature: Signature) -> Any:
    """Return a module with the graph `main`.

    A graph declares its results before they are written. Where Core AI knows fewer of their sizes than the region says,
    or more, the graph is written once more.
    """
    try:
        return _written(region, signature, [[_size(dim) for dim in value.shape or ()] for value in region.outputs])
    except _OtherShapesError as error:
        return _written(region, signature, error.shapes)


def _written(region: RegionView, signature: Signature, shapes: list[list[int]]) -> Any:
    inputs = {
        name: _declared([_size(dim) for dim in shape], kind)
        for name, shape, kind in zip(signature.names, signature.shapes, signature.types, strict=True)
    }
    results = tuple(
        _declared(shape, kind, name)
        for shape, kind, name in zip(shapes, signature.results, signature.outputs, strict=True)
    )

    def main(*given: Any) -> tuple[Any, ...]:
        found = results_of(FUNCTIONS, region, given, signature.outputs)
        actual = [[-1 if size is None else size for size in shape_of(x)] for x in found]
        if actual != shapes:
            raise _OtherShapesError(actual)
        return tuple(found)

    main.__annotations__ = {**inputs, "return": GenericAlias(tuple, results)}
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    places = [inspect.Parameter(name, kind, annotation=one) for name, one in inputs.items()]
    vars(main)["__signature__"] = inspect.Signature(places)
    module = ai.Module.create()
    with module:
        ai.graph(main)
    return module


def _declared(shape: list[int], kind: str, name: str | None = None) -> Any:
    """Return an annotation, from which Core AI reads the type of an input or a result."""
    return Annotated[ai.Value, ai.TensorType(shape, np.float32 if kind == "float32" else np.int32, name=name)]


def _size(dim: Any) -> int:
    """Return a size as Core AI declares it: negative if it is not known."""
    return dim if isinstance(dim, int) else -1


def _forget_date(metadata: Any) -> None:
    """Remove the date: equal regions give equal assets."""
    metadata.creation_date = None

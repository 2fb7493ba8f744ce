"""The interpreter of the tests agrees with what coremltools itself computes for operators of constants."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from coremltools.converters.mil import Builder
from coremltools.converters.mil.mil import Function, Placeholder, Program, types

from ort_py.contracts import RegionView
from ort_py_coreml import core_ml
from ort_py_coreml.artifact import border_of
from ort_py_coreml.program import program_of
from ort_py_coreml.toolkit import TARGET
from ort_py_kit.tolerances import assert_close
from providers.coreml.tests.cases import CASES
from providers.coreml.tests.mil_interpreter import OPERATIONS, InterpretedRuntime, evaluate
from providers.coreml.tests.models import open_session

pytestmark = pytest.mark.usefixtures("interpreted")

_NOT_COMPUTED_BY_COREMLTOOLS = frozenset(
    [
        "avg_pool",
        "batch_norm",
        "constexpr_affine_dequantize",
        "conv",
        "conv_transpose",
        "depth_to_space",
        "fill_like",
        "gather_nd",
        "gelu",
        "gru",
        "instance_norm",
        "lstm",
        "local_response_norm",
        "max_pool",
        "pixel_shuffle",
        "resample",
        "resize_bilinear",
        "rnn",
        "silu",
        "space_to_depth",
        "upsample_bilinear",
        "upsample_nearest_neighbor",
    ]
)
"""Operators for which only the documentation says what they compute, and onnxruntime what ONNX's operator does."""


def _programs(name: str, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, list[str]]]:
    """Return the programs of a case as they are before conversion, with the names that their inputs have in it."""
    found: list[tuple[Any, list[str]]] = []

    def noted(region: RegionView, **more: Any) -> Any:
        made = program_of(region, **more)
        found.append((made.program, [value.name for value in region.inputs]))
        return made

    monkeypatch.setattr(core_ml, "program_of", noted)
    monkeypatch.setattr(core_ml, "save", lambda program, *_, **__: border_of(program.signature, 1))
    monkeypatch.setattr(InterpretedRuntime, "load", lambda *_: None)
    open_session(CASES[name].model()).close()
    return found


def _folded(operation: Any, given: dict[str, Any]) -> list[Any]:
    """Return what coremltools computes for an operation of constants; None for each result that it leaves open."""
    program = Program()
    with Function({"in0": Placeholder((1,), dtype=types.fp32)}, opset_version=TARGET) as function:
        found = getattr(Builder, operation.op_type)(**given)
        outputs = list(found) if isinstance(found, (list, tuple)) else [found]
        function.set_outputs(outputs)
        program.add_function("main", function)
    return [one.val for one in outputs]


@pytest.mark.parametrize("name", CASES)
def test_operators_of_constants(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[name]
    for program, names in _programs(name, monkeypatch):
        function = program.functions["main"]
        feeds = [np.atleast_1d(case.feeds()[name]) for name in names]
        values: dict[Any, Any] = dict(zip(function.inputs.values(), feeds, strict=True))
        for operation in function.operations:
            if operation.op_type == "const":
                continue

            def value(var: Any) -> Any:
                if isinstance(var, (list, tuple)):
                    return [value(one) for one in var]
                return values[var] if var in values else var.val  # noqa: B023, SIM401 - called in this round of the loop

            given = {key: value(var) for key, var in operation.inputs.items() if var is not None}
            own = OPERATIONS[operation.op_type](**given)
            own = own if isinstance(own, list) else [own]
            if operation.op_type == "squeeze" and not own[0].shape:  # coremltools fails to fold this
                theirs: list[Any] = [given["x"].item()]
            else:
                theirs = _folded(operation, given)
            computed = all(one is not None for one in theirs)
            assert computed or operation.op_type in _NOT_COMPUTED_BY_COREMLTOOLS, operation.op_type
            if computed:
                assert_close(
                    [np.asarray(one, np.float32) for one in own], [np.asarray(one, np.float32) for one in theirs]
                )
            values.update(zip(operation.outputs, own, strict=True))


def test_an_operator_that_is_not_known_is_an_error() -> None:
    """A case must not pass because a part of its program was not computed."""
    program = Program()
    with Function({"in0": Placeholder((2,), dtype=types.fp32)}, opset_version=TARGET) as function:
        function.set_outputs([Builder.cumsum(x=function.inputs["in0"], axis=0)])
        program.add_function("main", function)
    with pytest.raises(KeyError, match="cumsum"):
        evaluate(program, {"in0": np.ones(2, np.float32)})

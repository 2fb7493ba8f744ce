"""Comparing kernels with `onnx.reference`: one call for what nearly every test of a family does.

Narrow floats are compared with the reference's float64 result rounded once, because the reference rounds after each
of its own steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from ort_py.contracts.kernel import KernelContext, KernelDef
from ort_py_array import kernel_defs
from ort_py_array.contrib.schemas import schemas
from ort_py_kit.kernel_runner import LocalKernelContext, make_node_spec, reference_outputs, run_kernel
from ort_py_kit.tolerances import assert_close

__all__ = ["BF16", "DEFINITIONS", "FLOATS", "agree", "bound", "i64", "run", "sample"]

DEFINITIONS = kernel_defs()
SCHEMAS = list(schemas())
BF16 = np.dtype(ml_dtypes.bfloat16)
FLOATS = (np.dtype(np.float16), BF16, np.dtype(np.float32), np.dtype(np.float64))
_NARROW = FLOATS[:2]


def i64(*values: int) -> Any:
    """A one-dimensional int64 array."""
    return np.array(values, np.int64)


def sample(shape: Sequence[int], dtype: Any, seed: int = 0, low: float = -3.0, high: float = 3.0) -> Any:
    """Seeded random values of any element type between `low` and `high`."""
    values = np.random.default_rng(seed).uniform(low, high, shape)
    dtype = np.dtype(dtype)
    if dtype.kind in "iu":
        values = np.rint(np.abs(values) if dtype.kind == "u" else values)
    return np.asarray(values).astype(dtype)


def run(op_type: str, inputs: Sequence[Any], **arguments: Any) -> list[Any]:
    """`run_kernel` on this library and its schemas."""
    return run_kernel(DEFINITIONS, op_type, inputs, schemas=SCHEMAS, **arguments)


def agree(
    op_type: str,
    inputs: Sequence[Any],
    *,
    opset: int | None = None,
    outputs: int = 1,
    constants: Sequence[int] = (),
    **attributes: Any,
) -> None:
    """Assert that the kernel and `onnx.reference` give the same.

    Raises:
        AssertionError: They do not.
    """
    actual = run(op_type, inputs, opset=opset, outputs=outputs, constants=constants, **attributes)
    narrow = next((x.dtype for x in inputs if x is not None and x.dtype in _NARROW), None)
    given = [x.astype(np.float64) if x is not None and x.dtype in _NARROW else x for x in inputs]
    expected = reference_outputs(op_type, given, opset=opset, outputs=outputs, **attributes)
    for index, (left, right) in enumerate(zip(actual, expected, strict=True)):
        wanted = np.asarray(right)
        if narrow is not None and wanted.dtype == np.float64:
            wanted = wanted.astype(narrow)
        assert_close(left, wanted, context=f"{op_type} output {index}")


def bound(op_type: str, inputs: Sequence[Any], *, opset: int | None = None, **attributes: Any) -> tuple[KernelDef, Any]:
    """The declaration chosen for a node and its callable, for tests of how the engine calls it."""
    node = make_node_spec(op_type, inputs, opset=opset, attributes=attributes)
    context: KernelContext = LocalKernelContext(node)
    for definition in DEFINITIONS:
        fits = definition.op_type == op_type and definition.since <= node.since_version <= definition.last
        if fits and all(value in definition.types.get(name, (value,)) for name, value in node.type_bindings.items()):
            return definition, definition.factory(context)
    raise LookupError(op_type)

"""The target of the entry point. It is imported when the first session is created, so it imports nothing heavy."""

from __future__ import annotations

from collections.abc import Iterable

from ort_py.contracts import OperatorSchema
from ort_py.hooks import KernelContribution, hookimpl

__all__ = ["ort_py_kernels", "ort_py_operator_schemas"]


@hookimpl
def ort_py_operator_schemas() -> Iterable[OperatorSchema]:
    """Hand the schema to ort-py: without it, models that hold the operator do not load."""
    from ort_py_custom_op.schema import SCHEMAS

    return SCHEMAS


@hookimpl
def ort_py_kernels() -> Iterable[KernelContribution]:
    """Hand the kernel to ort-py, for a provider that belongs to another package."""
    from ort_py.contracts import kernel_defs
    from ort_py_custom_op import kernels

    return [KernelContribution("CPUExecutionProvider", kernel_defs(kernels))]

"""Helpers for tests of generated kernels: a kernel run on the host, the library's result, and the reference's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ort_py.contracts.kernel import KernelDef
from ort_py.contracts.schema import OperatorSchema
from ort_py_array.library import LibraryKernels
from ort_py_cuda.code import faults
from ort_py_kit.kernel_runner import reference_outputs, run_kernel
from ort_py_kit.tolerances import tolerance_of
from providers.cuda.tests.emulation import host

__all__ = ["agree", "check", "check_with_library", "run"]


def run(definitions: Iterable[KernelDef], op_type: str, inputs: Sequence[Any], **options: Any) -> list[Any]:
    """A kernel's outputs as NumPy's; what it reported is raised."""
    given = [None if one is None else host.on_host(one) for one in inputs]
    found = run_kernel(definitions, op_type, given, xp=host.xp, **options)
    faults.raise_if_any(host.STREAM)
    return [None if one is None else np.asarray(one) for one in found]


def agree(found: Sequence[Any], wanted: Sequence[Any], rounding: float = 1.0) -> None:
    """Types, shapes and, within the type's tolerance, elements."""
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        if other is None:
            assert one is None
            continue
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        relative, absolute = tolerance_of(other.dtype)
        if not relative:
            np.testing.assert_array_equal(one, other)
        else:
            wide = np.complex128 if other.dtype.kind == "c" else np.float64
            np.testing.assert_allclose(
                one.astype(wide), other.astype(wide), rtol=relative * rounding, atol=absolute * rounding
            )


def check(
    definitions: Iterable[KernelDef], op_type: str, inputs: Sequence[Any], rounding: float = 1.0, **options: Any
) -> None:
    """A kernel agrees with `onnx.reference`.

    Args:
        definitions: Candidates.
        op_type: Operator of ai.onnx.
        inputs: NumPy arrays, None where absent.
        rounding: How many times the usual tolerance is allowed, where a test says why.
        **options: Opset, outputs, attributes.
    """
    with np.errstate(all="ignore"):
        wanted = reference_outputs(op_type, inputs, **{k: v for k, v in options.items() if k != "constants"})
    agree(run(definitions, op_type, inputs, **options), [np.asarray(one) for one in wanted], rounding)


def check_with_library(
    definitions: Iterable[KernelDef],
    op_type: str,
    inputs: Sequence[Any],
    schemas: Sequence[OperatorSchema] = (),
    rounding: float = 1.0,
    **options: Any,
) -> None:
    """A kernel agrees with the array library's on NumPy, which onnxruntime's tests have checked."""

    domain = options.get("domain", "")
    library = LibraryKernels().kernels_of(domain, op_type)
    wanted = run_kernel(library, op_type, list(inputs), schemas=schemas, **options)
    agree(run(definitions, op_type, inputs, schemas=schemas, **options), wanted, rounding)

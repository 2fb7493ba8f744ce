"""Providers on the fake device that compute some operator wrongly, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ort_py
from ort_py.contracts import KernelContext, KernelDef
from ort_py_kit.fake_device import FakeBehaviour, FakeFactory
from ort_py_kit.fake_kernels import fake_kernels

CPU = "CPUExecutionProvider"
WRONG = "WrongExecutionProvider"

Wrong = Callable[[Any, Any], Any]
"""From the array module and the input to the output."""


def wrong_kernel(op_type: str, compute: Wrong) -> KernelDef:
    """A kernel of one input that computes something else."""
    (right,) = [definition for definition in fake_kernels() if definition.op_type == op_type]

    def factory(ctx: KernelContext) -> Callable[..., Any]:
        return lambda x: compute(ctx.xp, x)

    return right.replace(factory=factory, out=False, inplace=())


def wrong_provider(op_type: str, compute: Wrong, *others: str, compiles: bool = False) -> list[str]:
    """Register a provider that computes `op_type` wrongly and `others` as it should; the providers to ask for."""
    kernels = [definition for definition in fake_kernels() if definition.op_type in others]
    behaviour = FakeBehaviour(kernels=[*kernels, wrong_kernel(op_type, compute)], cost_us=-1e9, compiles=compiles)
    ort_py.register_provider(FakeFactory(WRONG, behaviour))
    return [WRONG, CPU]

"""An accelerator that misjudges itself: it says that all it takes costs nothing, and sleeps before each node."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import Any

from ort_py.contracts import KernelContext, KernelDef
from ort_py_kit.fake_device import FakeBehaviour, FakeFactory, fake_kernels

__all__ = ["SLOW", "slow_factory"]

SLOW = "SlowExecutionProvider"
SECONDS = 0.005


def slow_factory(operators: Collection[str] = ("Relu", "Neg")) -> FakeFactory:
    """Makes the provider.

    Args:
        operators: What it takes.
    """
    kernels = [one.replace(factory=_sleeping(one)) for one in fake_kernels() if one.op_type in operators]
    return FakeFactory(SLOW, FakeBehaviour(kernels=kernels, cost_us=-1e9))


def _sleeping(definition: KernelDef) -> Callable[[KernelContext], Callable[..., Any]]:
    def factory(ctx: KernelContext) -> Callable[..., Any]:
        call = definition.factory(ctx)
        assert callable(call), "the kernels of these operators have one form"

        def slept(*inputs: Any) -> Any:
            time.sleep(SECONDS)
            return call(*inputs)

        return slept

    return factory

"""A session's settings for its kernels, read by their factories.

The catalogue makes a session's settings the current ones while it calls a factory of this package, so a factory asks
`current` once and keeps what it needs. It does not depend on kernels or on the names of options.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from typing import Any

from ort_py.contracts import KernelContext
from ort_py.contracts.kernel import KernelCallable, KernelDef
from ort_py.lazy_dataclass import dataclass

__all__ = ["Settings", "applied", "current", "with_settings"]


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings and facts that hold for one session.

    Attributes:
        tf32: Whether products of float32 may be computed in TF32.
        convolution_search: ``"HEURISTIC"``, ``"EXHAUSTIVE"`` or ``"DEFAULT"``.
        convolution_workspace: Bytes of scratch that one convolution may take; None for as much as it likes.
        channels_last: Whether half precision convolutions are computed with the channels last.
        deterministic: Whether results must not depend on timing.
        graphs: Whether runs are captured: nothing may wait, allocate freshly or call cuBLAS through CuPy.
        device: Number of the GPU.
        capability: Compute capability ×10, e.g. 90; 0 without a device.
    """

    tf32: bool = False
    convolution_search: str = "HEURISTIC"
    convolution_workspace: int | None = None
    channels_last: bool = True
    deterministic: bool = False
    graphs: bool = False
    device: int = 0
    capability: int = 0


_DEFAULT = Settings()
_current: ContextVar[Settings] = ContextVar("ort_py_cuda_settings", default=_DEFAULT)


def current() -> Settings:
    """The settings of the session whose kernel is being made; the defaults outside of a factory."""
    return _current.get()


def with_settings(definition: KernelDef, ask: Callable[[], Settings]) -> KernelDef:
    """A declaration whose factory is called with the session's settings as the current ones.

    Args:
        definition: The declaration.
        ask: The settings: asked at each call, as a session may go on with another device.
    """
    return definition.replace(factory=partial(_make, definition.factory, ask))


def applied(settings: Settings, call: Callable[..., Any], *arguments: Any) -> Any:
    """``call(*arguments)`` with these settings as the current ones: compiling a region asks for them too."""
    token = _current.set(settings)
    try:
        return call(*arguments)
    finally:
        _current.reset(token)


def _make(
    factory: Callable[[KernelContext], KernelCallable], ask: Callable[[], Settings], ctx: KernelContext
) -> KernelCallable:
    made: KernelCallable = applied(ask(), factory, ctx)
    return made

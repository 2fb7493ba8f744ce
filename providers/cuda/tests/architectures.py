"""For which GPUs NVIDIA's compiler is asked for code, and which of a kernel's forms for which of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

__all__ = ["ARCHITECTURES", "TYPES", "share_of"]

ARCHITECTURES = ("sm_75", "sm_80", "sm_90", "sm_120")
TYPES = ("float32", "float16", "bfloat16")

Form = TypeVar("Form")


def share_of(forms: Sequence[Form], dtype: str, arch: str) -> Sequence[Form]:
    """A third of a kernel's forms, for tests of all types and architectures: each form meets each of either.

    What does not compile is a type on an architecture, a form with a type or a form on an architecture; all three
    together would take three times as long for no new pair.
    """
    return forms[(TYPES.index(dtype) + ARCHITECTURES.index(arch)) % len(TYPES) :: len(TYPES)]

"""The CUDA C++ that kernels are written with, as files of this package, and joining them to a program.

A program is the parts it names, in that order, and needs no header: NVRTC finds types and reductions here.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

__all__ = ["program", "text"]


@cache
def text(name: str) -> str:
    """One part.

    Args:
        name: File beside this module, without its ending.
    """
    return (Path(__file__).parent / f"{name}.cuh").read_text(encoding="utf-8")


def program(*parts: str, body: str = "") -> str:
    """Parts and, behind them, text of the caller's own. ``half`` and ``types`` come first in every program."""
    return "\n".join([*(text(part) for part in ("half", "types", *parts)), body])

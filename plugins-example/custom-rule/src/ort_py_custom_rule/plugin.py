"""The target of the entry point."""

from __future__ import annotations

from collections.abc import Iterable

from ort_py.contracts import Transform
from ort_py.hooks import hookimpl

__all__ = ["ort_py_transforms"]


@hookimpl
def ort_py_transforms() -> Iterable[Transform]:
    """Hand the rules to ort-py; called when the first session is created."""
    from ort_py_custom_rule.softsign import FuseSoftsign

    return [FuseSoftsign()]

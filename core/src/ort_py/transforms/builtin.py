"""The transforms that every session runs, by level and family."""

from __future__ import annotations

from ort_py.contracts import GraphTransform
from ort_py.transforms.batch_normalization import FoldBatchNormalization
from ort_py.transforms.common_subexpressions import EliminateCommonSubexpressions
from ort_py.transforms.constant_folding import ConstantFolding
from ort_py.transforms.constant_if import ConstantIf
from ort_py.transforms.dead_code import EliminateDeadCode
from ort_py.transforms.elimination import EliminateDropout, EliminateIdentity, EliminateNoop

__all__ = ["builtin_transforms"]


def builtin_transforms() -> list[GraphTransform]:
    """New instances, in the order in which they run: what makes graphs smaller comes before what looks at pairs."""
    return [
        ConstantFolding(),
        ConstantIf(),
        EliminateIdentity(),
        EliminateDropout(),
        EliminateNoop(),
        EliminateCommonSubexpressions(),
        FoldBatchNormalization(),
        EliminateDeadCode(),
    ]

"""The transforms that every session runs, by level and family."""

from __future__ import annotations

from ort_py.contracts import Transform
from ort_py.transforms.batch_normalization import FoldBatchNormalization
from ort_py.transforms.casts import MergeCasts
from ort_py.transforms.channel_arithmetic import channel_rules
from ort_py.transforms.common_subexpressions import EliminateCommonSubexpressions
from ort_py.transforms.constant_folding import ConstantFolding
from ort_py.transforms.constant_if import ConstantIf
from ort_py.transforms.dead_code import EliminateDeadCode
from ort_py.transforms.duplicate_initializers import MergeDuplicateInitializers
from ort_py.transforms.elimination import EliminateDropout, EliminateIdentity, noop_rules
from ort_py.transforms.reshapes import MergeReshapes
from ort_py.transforms.shape_computation import ShapeComputationFolding
from ort_py.transforms.transposes import MergeTransposes
from ort_py.transforms.unused_outputs import DropUnusedOutputs

__all__ = ["builtin_transforms"]


def builtin_transforms() -> list[Transform]:
    """New instances, in the order in which they run: what makes graphs smaller comes before what looks at pairs."""
    return [
        ConstantFolding(),
        ConstantIf(),
        EliminateIdentity(),
        EliminateDropout(),
        *noop_rules(),
        MergeCasts(),
        MergeTransposes(),
        MergeReshapes(),
        DropUnusedOutputs(),
        FoldBatchNormalization(),
        *channel_rules(),
        MergeDuplicateInitializers(),
        EliminateCommonSubexpressions(),
        ShapeComputationFolding(),
        EliminateDeadCode(),
    ]

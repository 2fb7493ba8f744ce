"""Shape inference under the name by which applications import onnxruntime's: done by onnx, whose dimensions stay
symbols where they depend on each other. It does not depend on sessions.
"""

from __future__ import annotations

import onnx

__all__ = ["SymbolicShapeInference"]


class SymbolicShapeInference:
    """Shape inference of a whole model."""

    @staticmethod
    def infer_shapes(
        in_mp: onnx.ModelProto,
        int_max: int = 2**31 - 1,
        auto_merge: bool = False,
        guess_output_rank: bool = False,
        verbose: int = 0,
    ) -> onnx.ModelProto:
        """A model with the shapes that follow from its inputs' written into it.

        Args:
            in_mp: The model; left as it is.
            int_max, auto_merge, guess_output_rank, verbose: Accepted for compatibility: nothing is guessed, so
                fewer shapes may be known than onnxruntime finds.
        """
        return onnx.shape_inference.infer_shapes(in_mp, check_type=False, strict_mode=False, data_prop=True)

"""Fusing the layers of a transformer model in its file. Not there yet."""

from __future__ import annotations

from ort_py.compat.absent import absent_names
from ort_py.compat.not_yet import missing_function

__all__ = ["optimize_by_fusion", "optimize_model"]

_ELSEWHERE = (
    "Load the model as it is: sessions fuse these patterns themselves. To keep the result, set "
    "SessionOptions.optimized_model_filepath."
)

optimize_model = missing_function("transformers.optimizer.optimize_model", _ELSEWHERE)
optimize_by_fusion = missing_function("transformers.optimizer.optimize_by_fusion", _ELSEWHERE)

__getattr__ = absent_names(__name__)

"""Options for the fusion of patterns. Not available yet."""

from __future__ import annotations

from ort_py.compat.absent import absent_names
from ort_py.compat.not_yet import missing_class

__all__ = ["FusionOptions"]

FusionOptions = missing_class(
    "transformers.fusion_options.FusionOptions",
    "Load the model as it is; SessionOptions.disabled_transforms names fusions that are not wanted.",
)

__getattr__ = absent_names(__name__)
